//! Conversion of the library's errors to exceptions. Their classes are defined in
//! `relax_ir/errors.py`.

use pyo3::prelude::*;
use relax::{Error, Report};

use crate::findings::all;
use crate::of_package;
use crate::packed::caused;

/// Returns an exception of a class, with its message and findings.
fn raised(py: Python<'_>, class: &str, message: &str, report: Option<&Report>) -> PyErr {
    let none = Report::default();
    let made = of_package(py, "errors", class)
        .and_then(|class| class.call1((message, all(py, report.unwrap_or(&none))?)));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(trouble) => trouble,
    }
}

/// Returns the exception for an error.
pub fn error(py: Python<'_>, error: &Error) -> PyErr {
    let class = match error {
        Error::Invalid(_) => "InvalidError",
        Error::Unfit(..) => "ArgumentError",
        Error::Failed(..) => "ExecutionError",
        Error::File(_) => "FileError",
        _ => "UsageError",
    };
    raised(py, class, &error.to_string(), error.report())
}

/// Returns the exception for a failed call, caused by that of a Python function it called.
pub fn failed(py: Python<'_>, failure: &Error, cause: Option<PyErr>) -> PyErr {
    caused(py, error(py, failure), cause)
}

/// Returns the exception for mismatched arguments.
pub fn argument(py: Python<'_>, message: &str) -> PyErr {
    raised(py, "ArgumentError", message, None)
}

/// Returns the exception for a request that names something missing, or cannot be fulfilled.
pub fn misused(py: Python<'_>, message: String) -> PyErr {
    error(py, &Error::Misused(message))
}
