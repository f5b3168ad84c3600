//! Run-time checks of values against types, which bind dimension variables.

use relax_ir::{DTy, Module, Shape, Type, TypeId};
use relax_sym::{Atom, Dim, DimVar};

use crate::value::{Node, Value};

/// The dimension variables of a frame. A list, as they are few.
pub(crate) type Dims = Vec<(DimVar, i64)>;

pub(crate) fn lookup(dims: &Dims, var: DimVar) -> Option<i64> {
    dims.iter().rev().find(|d| d.0 == var).map(|d| d.1)
}

/// Evaluates a dimension; `None` if it is `?`, has an unbound variable or no value.
pub(crate) fn eval(dims: &Dims, dim: &Dim) -> Option<i64> {
    dim.eval(&|v| lookup(dims, v)).ok().flatten()
}

/// The reason why a value does not have a type.
pub(crate) enum Misfit {
    /// The axis, the actual and the expected extent, and the dimension as written.
    Dim(usize, i64, i64, Dim),
    /// The actual and the expected form.
    Other(String, String),
}

/// Matches extents against dimensions, binding unbound variables.
pub(crate) fn match_dims(dims: &mut Dims, found: &[i64], wanted: &[Dim]) -> Result<(), Misfit> {
    if found.len() != wanted.len() {
        let (f, w) = (found.len(), wanted.len());
        return Err(Misfit::Other(format!("rank {f}"), format!("rank {w}")));
    }
    // Plain variables first: the others may be expressions over them.
    for (n, dim) in found.iter().zip(wanted) {
        if let Some(Atom::Var(v)) = dim.as_atom()
            && lookup(dims, v).is_none()
        {
            dims.push((v, *n));
        }
    }
    for (axis, (n, dim)) in found.iter().zip(wanted).enumerate() {
        match eval(dims, dim) {
            Some(v) if v != *n => return Err(Misfit::Dim(axis, *n, v, dim.clone())),
            _ => {}
        }
    }
    Ok(())
}

/// Checks whether a value has a type, binding unbound dimension variables. The contents of data
/// type instances and functions are not checked: inference guarantees them.
pub(crate) fn match_type(
    m: &Module,
    dims: &mut Dims,
    value: &Value,
    ty: TypeId,
) -> Result<(), Misfit> {
    let mut work = vec![(value, ty)];
    while let Some((value, ty)) = work.pop() {
        let other = |found: String| Err(Misfit::Other(found, m.show_type(ty)));
        match (&m.types[ty], value) {
            (Type::Tensor(t), Value::Tensor(x)) => {
                if let DTy::Known(d) = t.dtype
                    && d != x.dtype()
                {
                    return other(format!("{:?} of shape {:?}", x.dtype(), x.shape()));
                }
                if let Shape::Dims(wanted) = &t.shape {
                    match_dims(dims, x.shape(), wanted)?;
                }
            }
            (Type::Shape(s), Value::Shape(x)) => {
                if let Shape::Dims(wanted) = s {
                    match_dims(dims, x, wanted)?;
                }
            }
            (Type::Tuple(types), Value::Node(n)) => match &**n {
                Node::Tuple(fields) if fields.len() == types.len() => {
                    work.extend(fields.iter().zip(types.iter().copied()).rev());
                }
                _ => return other(value.kind().into()),
            },
            (Type::Adt(adt, _), _) => match value.ctor() {
                Some(c) if m.ctors[c].adt == *adt => {}
                _ => return other(value.kind().into()),
            },
            (Type::Ref(_), Value::Node(n)) if matches!(**n, Node::Ref(_)) => {}
            (Type::Func(_), _) if value.kind() == "a function" => {}
            (Type::Object | Type::Param(_) | Type::Infer(_) | Type::Error, _) => {}
            _ => return other(value.kind().into()),
        }
    }
    Ok(())
}
