//! Extents of a tensor program as dimensions, whose arithmetic is exact.

use relax_loops::{BinOp, Ex, ExKind, Program};
use relax_sym::{Atom, Dim, DimVar};

/// Returns an extent as a dimension, where it is one: the dimension variables are numbered as the
/// program's are. Extents nest no deeper than their text.
pub(crate) fn dim(program: &Program, e: &Ex) -> Option<Dim> {
    match e.kind() {
        ExKind::Int(n) => Some(Dim::from(*n)),
        ExKind::Var(v) => {
            let at = program.dims.iter().position(|d| d == v)?;
            Some(Dim::atom(Atom::Var(DimVar(at as u32))))
        }
        ExKind::Binary(op, a, b) => {
            let (a, b) = (dim(program, a)?, dim(program, b)?);
            let made = match op {
                BinOp::Add => &a + &b,
                BinOp::Sub => &a - &b,
                BinOp::Mul => &a * &b,
                BinOp::FloorDiv => a.floordiv(&b),
                BinOp::FloorMod => a.modulo(&b),
                BinOp::Min => a.min(&b),
                BinOp::Max => a.max(&b),
                _ => return None,
            };
            made.error().is_none().then_some(made)
        }
        _ => None,
    }
}
