//! Expressions of functions, for `relax_ir/_tree.py`.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use relax::{Attr, Extent, Made, Node};

use crate::arrays::array;
use crate::arrays::owned;
use crate::errors::misused;
use crate::of_package;

/// Converts an expression: kind, name, variable, operands, attributes, type, extents, element type,
/// constant.
pub fn node<'py>(py: Python<'py>, node: &Node) -> PyResult<Bound<'py, PyTuple>> {
    let attributes = PyDict::new(py);
    for (name, value) in &node.attributes {
        attributes.set_item(name, attribute(py, value)?)?;
    }
    let shape = node.tensor.as_ref().and_then(|t| t.shape.as_ref());
    let shape = match shape {
        Some(shape) => {
            let extents = shape.iter().map(|e| match e {
                Extent::Known(n) => Ok(n.into_pyobject(py)?.into_any()),
                Extent::Symbolic(text) => Ok(PyString::new(py, text).into_any()),
            });
            Some(PyTuple::new(py, extents.collect::<PyResult<Vec<_>>>()?)?)
        }
        None => None,
    };
    let dtype = node.tensor.as_ref().and_then(|t| t.dtype);
    let constant = node.constant.as_ref().map(|t| array(py, t, false));
    let constant = constant.transpose()?;
    let (dtype, parts) = (dtype.map(|d| d.to_string()), node.parts.clone());
    (
        node.kind,
        &node.name,
        node.variable,
        parts,
        attributes,
        &node.ty,
        shape,
        dtype,
        constant,
    )
        .into_pyobject(py)
}

/// Converts an attribute value; the nesting of lists is bounded.
fn attribute<'py>(py: Python<'py>, value: &Attr) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Attr::None => py.None().into_bound(py),
        Attr::Bool(v) => PyBool::new(py, *v).to_owned().into_any(),
        Attr::Int(v) => v.into_pyobject(py)?.into_any(),
        Attr::Float(v) => PyFloat::new(py, *v).into_any(),
        Attr::Text(v) => PyString::new(py, v).into_any(),
        Attr::Dim(v) => of_package(py, "_build", "Dim")?.call1((v,))?,
        Attr::List(items) => {
            let items = items.iter().map(|i| attribute(py, i));
            PyList::new(py, items.collect::<PyResult<Vec<_>>>()?)?.into_any()
        }
        Attr::Other(v) => of_package(py, "_values", "Opaque")?.call1((v,))?,
    })
}

/// The limit on the nesting of attribute lists.
const DEEPEST: usize = 8;

fn given(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Attr> {
    let py = value.py();
    Ok(if value.is_none() {
        Attr::None
    } else if value.is_instance_of::<PyBool>() {
        Attr::Bool(value.extract()?)
    } else if value.is_instance_of::<PyInt>() {
        Attr::Int(value.extract()?)
    } else if value.is_instance_of::<PyFloat>() {
        Attr::Float(value.extract()?)
    } else if value.is_instance(&of_package(py, "_build", "Dim")?)? {
        Attr::Dim(value.extract()?)
    } else if value.is_instance_of::<PyString>() {
        Attr::Text(value.extract()?)
    } else if let (Ok(items), true) = (value.cast::<PyList>(), depth < DEEPEST) {
        let items = items.iter().map(|i| given(&i, depth + 1));
        Attr::List(items.collect::<PyResult<Vec<_>>>()?)
    } else {
        Attr::Other(value.repr()?.to_string())
    })
}

/// Converts an expression of a new body, as created by `relax_ir/_tree.py`.
pub fn made(given_: &Bound<'_, PyAny>) -> PyResult<Made> {
    let py = given_.py();
    let (what, rest): (String, Bound<'_, PyTuple>) = given_.extract()?;
    Ok(match what.as_str() {
        "kept" => {
            let (index, parts) = rest.extract()?;
            Made::Kept(index, parts)
        }
        "call" => {
            type Call<'py> = (String, Vec<usize>, Bound<'py, PyDict>, Option<usize>);
            let (name, args, attributes, place): Call<'_> = rest.extract()?;
            let attributes = attributes.iter();
            let attributes = attributes.map(|(k, v)| Ok((k.extract()?, given(&v, 0)?)));
            let attributes = attributes.collect::<PyResult<Vec<(String, Attr)>>>()?;
            Made::Call(name, args, attributes, place)
        }
        "tuple" => Made::Tuple(rest.get_item(0)?.extract()?),
        "field" => {
            let (tuple, index) = rest.extract()?;
            Made::Field(tuple, index)
        }
        "constant" => Made::Constant(owned(&rest.get_item(0)?, "constant")?),
        other => {
            return Err(misused(
                py,
                format!("there is no expression of kind {other}"),
            ));
        }
    })
}
