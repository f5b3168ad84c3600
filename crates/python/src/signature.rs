//! Functions, their parameters and results. Their classes are defined in `relax_ir/_signature.py`.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use relax::{Extent, Signature};

use crate::of_package;

fn param<'py>(py: Python<'py>, param: &relax::Param) -> PyResult<Bound<'py, PyAny>> {
    let extent = |e: &Extent| match e {
        Extent::Known(n) => Ok(n.into_pyobject(py)?.into_any()),
        Extent::Symbolic(text) => Ok(PyString::new(py, text).into_any()),
    };
    let tensor = param.tensor.as_ref();
    let shape = match tensor.and_then(|t| t.shape.as_ref()) {
        Some(shape) => {
            let extents: Vec<_> = shape.iter().map(extent).collect::<PyResult<_>>()?;
            Some(PyTuple::new(py, extents)?)
        }
        None => None,
    };
    let dtype = tensor.and_then(|t| t.dtype).map(|d| d.to_string());
    let class = of_package(py, "_signature", "Param")?;
    class.call1((&param.name, &param.ty, shape, dtype))
}

/// Converts a function of a module, or an entry of a program.
fn function<'py>(py: Python<'py>, signature: &Signature) -> PyResult<Bound<'py, PyAny>> {
    let params: Vec<_> =
        (signature.params.iter().map(|p| param(py, p))).collect::<PyResult<_>>()?;
    let class = of_package(py, "_signature", "Function")?;
    let params = PyTuple::new(py, params)?;
    class.call1((&signature.name, params, param(py, &signature.result)?))
}

/// Converts functions to a list.
pub fn functions<'py>(py: Python<'py>, signatures: &[Signature]) -> PyResult<Bound<'py, PyList>> {
    let all: Vec<_> = (signatures.iter().map(|s| function(py, s))).collect::<PyResult<_>>()?;
    PyList::new(py, all)
}
