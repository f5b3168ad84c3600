//! Reading modules, operators and arrays: the package's functions.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use relax::{ReadOptions, Tensor, TextOptions};

use crate::arrays::{array, owned};
use crate::errors::{error, misused};
use crate::findings::all;
use crate::module::Module;

/// Reads and checks a text.
#[pyfunction]
#[pyo3(signature = (text, name = "<text>"))]
pub fn parse(py: Python<'_>, text: String, name: &str) -> PyResult<Module> {
    read(py, text.into_bytes(), name, None, None)
}

/// Reads and checks the bytes of a file in any format.
#[pyfunction]
#[pyo3(signature = (data, name = "<data>", format = None, stub_constants = None))]
pub fn read(
    py: Python<'_>,
    data: Vec<u8>,
    name: &str,
    format: Option<&str>,
    stub_constants: Option<&str>,
) -> PyResult<Module> {
    let options = options(py, format, stub_constants)?;
    let module = py.detach(|| relax::Module::read(name, data, options));
    module.map(Module).map_err(|e| error(py, &e))
}

/// Reads and checks a file of any format.
#[pyfunction]
#[pyo3(signature = (path, format = None, stub_constants = None))]
pub fn load(
    py: Python<'_>,
    path: PathBuf,
    format: Option<&str>,
    stub_constants: Option<&str>,
) -> PyResult<Module> {
    let options = options(py, format, stub_constants)?;
    let module = py.detach(|| relax::Module::load(path, options));
    module.map(Module).map_err(|e| error(py, &e))
}

fn options(py: Python<'_>, format: Option<&str>, stubs: Option<&str>) -> PyResult<ReadOptions> {
    let stub_constants = match stubs {
        Some("awaited") => Some(relax::Stubs::Awaited),
        Some(text) => {
            let read = text.parse::<relax::Stubs>();
            Some(read.map_err(|e| misused(py, e.to_string()))?)
        }
        None => None,
    };
    Ok(ReadOptions {
        format: (format.map(str::parse).transpose()).map_err(|e: relax::Error| error(py, &e))?,
        fold_layers: false,
        keep_qdq: false,
        text: TextOptions {
            stub_constants,
            ..TextOptions::default()
        },
    })
}

/// A module of what `Module.apart` gave.
#[pyfunction]
pub fn together(py: Python<'_>, text: &str, constants: &Bound<'_, PyAny>) -> PyResult<Module> {
    let given = constants.try_iter()?.map(|c| owned(&c?, "constants"));
    let constants = given.collect::<PyResult<Vec<Tensor>>>()?;
    let module = py.detach(|| relax::Module::together(text, constants));
    module.map(Module).map_err(|e| error(py, &e))
}

/// All that there is to say about a text.
#[pyfunction]
pub fn check<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    all(py, &py.detach(|| relax::Module::check(text)))
}

/// The page about an error code; `None` for an unknown one.
#[pyfunction]
pub fn explain(code: &str) -> Option<&'static str> {
    let digits = code.strip_prefix("RX").unwrap_or(code);
    relax::explain(relax::Code(digits.parse().ok()?))
}

/// An operator as Python gets it: its name, what it computes, its inputs, whether it takes more of
/// them, its attributes.
type Operator = (
    &'static str,
    &'static str,
    Vec<(&'static str, &'static str)>,
    bool,
    Vec<(&'static str, &'static str, Option<String>, &'static str)>,
);

/// All built-in operators.
#[pyfunction]
pub fn operators() -> Vec<Operator> {
    let all = relax::operators().into_iter();
    all.map(|op| {
        let attributes = op.attributes.into_iter();
        let attributes = attributes.map(|a| (a.name, a.kind, a.default, a.doc));
        (op.name, op.doc, op.inputs, op.more, attributes.collect())
    })
    .collect()
}

/// The arrays of a `.npz`, `.npy`, `.safetensors` or `.params` file, by name.
///
/// They lie in the file's own memory where it has them as they are, and cannot be written.
#[pyfunction]
pub fn load_params(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyDict>> {
    let file = |e: relax::Error| error(py, &e);
    let mapped = relax::weights::Mapped::open(&path).map_err(file)?;
    let out = PyDict::new(py);
    for (name, tensor) in relax::weights::arrays(&path, &mapped).map_err(file)? {
        out.set_item(name, array(py, &tensor, false)?)?;
    }
    Ok(out)
}
