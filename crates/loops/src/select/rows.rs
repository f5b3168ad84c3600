//! The hints of rows whose computations loops spell out: a softmax over the last axis.

use relax_tensor::DType;

use crate::lower::inlined;
use crate::{
    BinOp, Buf, Combiner, Compute, Ex, ExKind, Hint, Program, Stage, UnOp, Var, substitute,
};

/// Adds the hints of stages that are a softmax: exponentials of the data less its maximum, by their
/// sum.
pub fn add_hints(program: &mut Program) {
    let hint = |stage: &Stage| match stage {
        Stage::Compute(c) if program.hint(c.out).is_none() => Some((c.out, softmax(program, c)?)),
        _ => None,
    };
    let found: Vec<(Buf, Hint)> = program.stages.iter().filter_map(hint).collect();
    program.hints.extend(found);
}

/// Returns the hint of a stage that is a softmax. Narrow floats round at each of its stages, where a
/// kernel does not.
fn softmax(program: &Program, c: &Compute) -> Option<Hint> {
    let wide = c.reduce.is_none() && program.bufs[c.out].dtype == DType::F32;
    let ExKind::Binary(BinOp::Div, above, below) = c.value.kind() else {
        return None;
    };
    let exponential = stored(program, c, above);
    let ExKind::Unary(UnOp::Exp, shifted) = exponential.kind() else {
        return None;
    };
    let ExKind::Binary(BinOp::Sub, value, most) = shifted.kind() else {
        return None;
    };
    let data = element(value, &c.axes)?;
    let alike = |b: Buf| (&program.bufs[b].shape, program.bufs[b].dtype);
    let fits = wide
        && alike(data) == alike(c.out)
        && reduced(program, c, most, Combiner::Max)? == *value
        && reduced(program, c, below, Combiner::Sum)? == exponential;
    fits.then_some(Hint::Softmax { data, log: false })
}

/// Returns the buffer of which an expression is the element at some variables.
fn element(value: &Ex, at: &[Var]) -> Option<Buf> {
    let ExKind::Load(buf, index) = value.kind() else {
        return None;
    };
    let is = |(e, v): (&Ex, &Var)| matches!(e.kind(), ExKind::Var(own) if own == v);
    let same = index.len() == at.len() && index.iter().zip(at).all(is);
    same.then_some(*buf)
}

/// Returns the expression that a stage has stored as an element at the axes of `c`; the element
/// itself where none has.
fn stored(program: &Program, c: &Compute, value: &Ex) -> Ex {
    let own = element(value, &c.axes).and_then(|buf| program.stage_of(buf));
    match own.filter(|s| s.reduce.is_none()) {
        Some(stage) => inlined(value, stage),
        None => value.clone(),
    }
}

/// Returns what is reduced along the last axis of `c` to the element `value`, at the axes of `c`.
fn reduced(program: &Program, c: &Compute, value: &Ex, by: Combiner) -> Option<Ex> {
    let (last, rows) = c.axes.split_last()?;
    let mut stage = program.stage_of(element(value, rows)?)?;
    // A maximum may start below what it starts from here: `max(-inf, most)`.
    if let (ExKind::Binary(BinOp::Max, a, b), None) = (stage.value.kind(), &stage.reduce) {
        let least = |e: &Ex| matches!(e.kind(), ExKind::Float(x) if *x <= -f64::from(f32::MAX));
        let rest = if least(a) { b } else { a };
        let starts = by == Combiner::Max && (least(a) || least(b));
        stage = program
            .stage_of(element(rest, &stage.axes)?)
            .filter(|_| starts)?;
    }
    let reduce = stage.reduce.as_ref().filter(|r| r.combiner == by)?;
    let [(along, extent)] = &reduce.axes[..] else {
        return None;
    };
    let row = program.bufs[c.out].shape.last()?;
    let value = substitute(&stage.value, &|v| {
        let row = stage.axes.iter().position(|a| *a == v).map(|k| rows[k]);
        let at = if v == *along { Some(*last) } else { row };
        at.map(|v| Ex::var(v, DType::I64))
    });
    (extent == row).then(|| stored(program, c, &value))
}
