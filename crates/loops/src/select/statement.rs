//! What a statement of a nest is on its own: the computation of a whole buffer, and which buffers it
//! writes.

use super::strided::{affine, inside};
use crate::stages::stored;
use crate::{
    Buf, Combiner, Compute, Ex, ExKind, Program, Reduce, Stmt, Var, has_loads, raise_nest,
    visit_expr,
};

/// Returns the computation that a statement is, if it reads nothing outside of its buffers: the
/// first index that leaves an axis ends a nest in order, and a computation may find another one
/// first.
pub(crate) fn computation(program: &Program, s: &Stmt) -> Option<Compute> {
    let c = raise_nest(program, std::slice::from_ref(s))?;
    let fits = !c.axes.is_empty() && !rounds_each_time(program, &c);
    (fits && reads_inside(program, &c.value, &program.loops(&c))).then_some(c)
}

/// Returns whether loops would round after each step of a reduction that is rounded once as a stage.
pub(super) fn rounds_each_time(program: &Program, c: &Compute) -> bool {
    let dtype = program.bufs[c.out].dtype;
    let exact = |r: &Reduce| !matches!(r.combiner, Combiner::Sum | Combiner::Prod);
    dtype.is_float() && dtype.bits == 16 && !c.reduce.as_ref().is_none_or(exact)
}

/// Returns whether all indices that do not depend on data are proven in bounds.
pub(super) fn reads_inside(program: &Program, value: &Ex, axes: &[(Var, Ex)]) -> bool {
    let vars: Vec<Var> = axes.iter().map(|a| a.0).collect();
    let mut fine = true;
    visit_expr(value, |e| {
        if let ExKind::Load(buf, index) = e.kind() {
            let shape = &program.bufs[*buf].shape;
            fine &= index.iter().zip(shape).all(|(i, extent)| {
                has_loads(i) || affine(i, &vars, 16).is_some_and(|i| inside(&i, extent, axes))
            });
        }
    });
    fine
}

/// Returns the buffers that a statement stores to, each once.
pub(super) fn writes(s: &Stmt) -> Vec<Buf> {
    stored(std::slice::from_ref(s))
}

/// Returns whether extents are numbers, or those of inputs: a buffer with them can be allocated before
/// anything runs.
pub(super) fn known_at_start(program: &Program, shape: &[Ex]) -> bool {
    let mut known = true;
    for extent in shape {
        visit_expr(extent, |e| match e.kind() {
            ExKind::Var(v) => known &= program.dims.contains(v),
            ExKind::Load(..) => known = false,
            _ => {}
        });
    }
    known
}
