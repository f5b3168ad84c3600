//! The Python package `relax-ir`: the façade crate `relax` for Python, and nothing deeper.

mod arguments;
mod arrays;
mod errors;
mod findings;
mod module;
mod program;
mod results;
mod signature;

use pyo3::prelude::*;

/// The native part of `relax_ir`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::arrays::Elements;
    #[pymodule_export]
    use super::module::{
        Module, check, explain, load, load_params, operators, parse, read, together,
    };
    #[pymodule_export]
    use super::program::Program;
}

/// A class or function of the package's Python part.
pub(crate) fn of_package<'py>(
    py: Python<'py>,
    module: &str,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    py.import(format!("relax_ir.{module}"))?.getattr(name)
}
