//! Lowering of dimensions to scalar expressions of tensor programs.

use relax_loops::Ex;
use relax_sym::{Atom, Dim, DimBuilder, DimError, DimOp, DimVar};

/// Lowers a dimension to a scalar expression, with `var` mapping its variables. Returns `None` if
/// `var` does, and for `?`, inference variables and errors.
pub fn dim_to_ex(dim: &Dim, var: impl FnMut(DimVar) -> Option<Ex>) -> Option<Ex> {
    dim.build(&mut ToEx(var))
}

struct ToEx<F>(F);

impl<F: FnMut(DimVar) -> Option<Ex>> DimBuilder for ToEx<F> {
    type Out = Option<Ex>;
    fn int(&mut self, value: i64) -> Option<Ex> {
        Some(Ex::idx(value))
    }
    fn atom(&mut self, atom: Atom) -> Option<Ex> {
        match atom {
            Atom::Var(v) => (self.0)(v),
            Atom::Infer(_) => None,
        }
    }
    fn any(&mut self) -> Option<Ex> {
        None
    }
    fn bad(&mut self, _: DimError) -> Option<Ex> {
        None
    }
    fn op(&mut self, op: DimOp, a: Option<Ex>, b: Option<Ex>) -> Option<Ex> {
        let (a, b) = (a?, b?);
        Some(match op {
            DimOp::Add => a + b,
            DimOp::Sub => a - b,
            DimOp::Mul => a * b,
            DimOp::FloorDiv => a.floor_div(b),
            DimOp::Mod => a.floor_mod(b),
            DimOp::Min => a.min(b),
            DimOp::Max => a.max(b),
        })
    }
    fn group(&mut self, inner: Option<Ex>) -> Option<Ex> {
        inner
    }
}
