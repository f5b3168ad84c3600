//! Stages that continue others: the only one that reads what a stage computes, and splitting it where
//! a kernel may compute the first part.

use crate::{
    Buf, Buffer, Compute, Ex, ExKind, Program, Stage, Var, map_expr, reads_buffer, visit_expr,
};
use relax_tensor::DType;

/// Returns whether an expression reads a buffer.
pub(crate) fn reads(e: &Ex, buf: Buf) -> bool {
    let mut found = false;
    visit_expr(e, |x| {
        found |= matches!(x.kind(), ExKind::Load(b, _) if *b == buf)
    });
    found
}

/// Returns whether an extent of some buffer reads another one.
pub fn in_extents(program: &Program, buf: Buf) -> bool {
    let mut extents = program.bufs.values().flat_map(|b| &b.shape);
    extents.any(|e| reads(e, buf))
}

/// Returns the only stage that reads `out`, the result of stage `k`, if that computes each of its
/// elements from the one at its own place.
pub(crate) fn only_reader(program: &Program, k: usize, out: Buf) -> Option<(usize, &Compute)> {
    if in_extents(program, out) || program.outputs.contains(&out) {
        return None;
    }
    let mut readers =
        (k + 1..program.stages.len()).filter(|&i| reads_buffer(&program.stages[i], out));
    let (q, more) = (readers.next()?, readers.next());
    let Stage::Compute(c) = &program.stages[q] else {
        return None;
    };
    let fits = program.bufs[c.out].shape == program.bufs[out].shape && c.reduce.is_none();
    (more.is_none() && fits).then_some((q, c))
}

/// Returns the largest part of an expression for which a predicate holds.
pub(crate) fn largest_part(e: &Ex, fits: impl Fn(&Ex) -> bool) -> Option<Ex> {
    let mut part: Option<Ex> = None;
    visit_expr(e, |e| {
        if part.as_ref().is_none_or(|p| size(e) > size(p)) && fits(e) {
            part = Some(e.clone());
        }
    });
    part
}

fn size(e: &Ex) -> usize {
    let mut n = 0;
    visit_expr(e, |_| n += 1);
    n
}

/// Splits stage `q` in two: the first computes a part of its value into `between`, the second the
/// rest, unless that reads `out` too.
pub(crate) fn split_off(program: &mut Program, q: usize, part: &Ex, out: Buf, between: Buffer) {
    let Stage::Compute(c) = program.stages[q].clone() else {
        return;
    };
    let dtype = between.dtype;
    let between = program.bufs.push(between);
    let index: Vec<Ex> = c.axes.iter().map(|&v| Ex::var(v, DType::I64)).collect();
    let load = Ex::new(ExKind::Load(between, index), dtype);
    let value = map_expr(&c.value, |e| (e == part).then(|| load.clone()));
    if reads(&value, out) {
        return;
    }
    // The two stages have axes of their own.
    let fresh: Vec<(Var, Ex)> = (c.axes.iter())
        .map(|_| program.fresh("i", DType::I64))
        .collect();
    let renamed = map_expr(part, |e| match e.kind() {
        ExKind::Var(v) => {
            let at = c.axes.iter().position(|a| a == v);
            at.map(|i| fresh[i].1.clone())
        }
        _ => None,
    });
    let first = Compute {
        out: between,
        axes: fresh.into_iter().map(|f| f.0).collect(),
        reduce: None,
        value: renamed,
    };
    program.stages[q] = Stage::Compute(Compute { value, ..c });
    program.insert_stage(q, Stage::Compute(first));
}
