//! The Python package `relax-ir`: bindings to the façade crate `relax`, and nothing deeper.

mod arguments;
mod arrays;
mod calls;
mod errors;
mod findings;
mod module;
mod packed;
mod program;
mod progress;
mod reading;
mod results;
mod signature;
mod tools;
mod tree;
mod watch;

use pyo3::prelude::*;

/// The native part of `relax_ir`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::arrays::Elements;
    #[pymodule_export]
    use super::module::Module;
    #[pymodule_export]
    use super::program::{Program, load_library, roofline};
    #[pymodule_export]
    use super::reading::{check, explain, load, load_params, operators, parse, read, together};
    #[pymodule_export]
    use super::tools::run_tool;

    /// Checks that only one interpreter per process imports the module, as its state belongs to
    /// that interpreter.
    #[pymodule_init]
    fn init(_module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        // SAFETY: the current interpreter is valid.
        let id =
            unsafe { pyo3::ffi::PyInterpreterState_GetID(pyo3::ffi::PyInterpreterState_Get()) };
        match id {
            0 => Ok(()),
            _ => Err(pyo3::exceptions::PyImportError::new_err(
                "relax_ir cannot be imported into a subinterpreter: processes and threads share work",
            )),
        }
    }
}

/// Returns a class or function of the package's Python part.
pub(crate) fn of_package<'py>(
    py: Python<'py>,
    module: &str,
    name: &str,
) -> PyResult<Bound<'py, PyAny>> {
    py.import(format!("relax_ir.{module}"))?.getattr(name)
}
