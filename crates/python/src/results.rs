//! Conversion of a program's values to Python.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use relax::{Tensor, Ty, Types, Value, Walk};

use crate::arrays::array;
use crate::errors::argument;
use crate::of_package;

/// The ownership of a value's elements.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The value's own: arrays are views of them.
    Value,
    /// Possibly shared: arrays are copies.
    Shared,
    /// Still used by the program: arrays are read-only views.
    Lent,
}

/// A step of the traversal of a value.
enum Step<'v> {
    See(&'v Value, Option<Ty>),
    Join(Option<(u32, Option<Ty>)>, usize),
}

/// Converts a value to arrays, tuples, and instances of `relax_ir.Adt`, named by its type, with an
/// explicit stack.
pub fn python<'py>(
    py: Python<'py>,
    value: &Value,
    types: &Types,
    ty: Option<Ty>,
    owner: Owner,
) -> PyResult<Bound<'py, PyAny>> {
    if let Value::Tensor(tensor) = value {
        return leaf(py, tensor, owner);
    }
    let mut classes = Classes {
        py,
        walk: types.walk(),
        known: Vec::new(),
    };
    let (mut work, mut done) = (vec![Step::See(value, ty)], Vec::new());
    while let Some(step) = work.pop() {
        let (fields, ty, tag) = match step {
            Step::See(Value::Tensor(tensor), _) => {
                done.push(leaf(py, tensor, owner)?);
                continue;
            }
            Step::See(Value::Opaque(what), _) => {
                done.push(of_package(py, "_values", "Opaque")?.call1((*what,))?);
                continue;
            }
            Step::See(Value::Tuple(fields), ty) => (fields, ty, None),
            Step::See(Value::Adt(tag, fields), ty) => (fields, ty, Some(*tag)),
            Step::Join(tag, n) => {
                let fields = PyTuple::new(py, done.split_off(done.len() - n))?;
                done.push(match tag {
                    None => fields.into_any(),
                    Some((tag, ty)) => classes.of(ty, tag, n)?.call1(fields)?,
                });
                continue;
            }
        };
        work.push(Step::Join(tag.map(|tag| (tag, ty)), fields.len()));
        let inner = ty.and_then(|ty| classes.walk.fields(ty, tag));
        let inner = |i| inner.as_ref().and_then(|types| types.get(i).copied());
        let parts = fields.iter().enumerate().rev();
        work.extend(parts.map(|(i, field)| Step::See(field, inner(i))));
    }
    let whole = done.pop();
    whole.ok_or_else(|| argument(py, "the program returned nothing"))
}

fn leaf<'py>(py: Python<'py>, tensor: &Tensor, owner: Owner) -> PyResult<Bound<'py, PyAny>> {
    let copy = match owner {
        Owner::Value | Owner::Lent => None,
        Owner::Shared => Tensor::from_bytes(tensor.dtype(), tensor.shape(), tensor.bytes()),
    };
    array(py, copy.as_ref().unwrap_or(tensor), owner != Owner::Lent)
}

/// The classes of constructors seen in a traversal.
struct Classes<'py, 't> {
    py: Python<'py>,
    walk: Walk<'t>,
    known: Vec<(&'t str, u32, Bound<'py, PyAny>)>,
}

impl<'py> Classes<'py, '_> {
    fn of(&mut self, ty: Option<Ty>, tag: u32, fields: usize) -> PyResult<Bound<'py, PyAny>> {
        let data = ty.and_then(|ty| self.walk.data(ty)).unwrap_or("Data");
        let known = self.known.iter().find(|k| k.0 == data && k.1 == tag);
        if let Some((_, _, class)) = known {
            return Ok(class.clone());
        }
        let name = ty.and_then(|ty| self.walk.constructor(ty, tag));
        let name = name.map_or_else(|| format!("Constructor{tag}"), str::to_owned);
        let make = of_package(self.py, "_values", "constructor")?;
        let class = make.call1((data, name, tag, fields))?;
        self.known.push((data, tag, class.clone()));
        Ok(class)
    }
}
