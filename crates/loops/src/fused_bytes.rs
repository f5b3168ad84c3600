//! Products of bytes whose sums become bytes at once: pairs of stages that one kernel may compute.
//!
//! The stages are not changed, but for numbers per channel that are none of a buffer's elements:
//! these get stages of their own.

use std::borrow::Cow;

use relax_base::Symbol;
use relax_tensor::DType;

use crate::continued::{largest_part, only_reader, split_off};
use crate::quantised::{own_element, shifted, table};
use crate::{
    BinOp, Buf, Buffer, Compute, Ex, ExKind, Hint, Program, Role, Stage, UnOp, visit_expr,
};

/// `min(max(round(float32(sum + bias) * factor) + zero, low), high)` as bytes, halves to even.
#[derive(Clone, PartialEq, Debug)]
pub struct FusedBytes {
    /// The sums.
    pub sums: Buf,
    /// The bytes.
    pub bytes: Buf,
    /// The hint of the sums, with operands as they were before zero points were subtracted.
    pub hint: Hint,
    /// The zero points of both operands.
    pub zeros: [Ex; 2],
    /// A number per channel, `int32`.
    pub bias: Option<Buf>,
    /// A factor, or one per channel, `float32`.
    pub factor: Buf,
    /// Added to the rounded number.
    pub zero: i64,
    /// The bounds of the result.
    pub bounds: (i64, i64),
}

/// The numbers of such a stage, as expressions.
struct Found {
    bias: Option<Ex>,
    factor: Ex,
    zero: i64,
    bounds: (i64, i64),
}

/// Returns the products of a program whose sums become bytes at once. Stages for numbers per
/// channel are inserted; without such products the program is unchanged.
pub fn find<'p>(mut program: Cow<'p, Program>) -> (Cow<'p, Program>, Vec<FusedBytes>) {
    let mut all: Vec<FusedBytes> = Vec::new();
    let mut k = 0;
    while k < program.stages.len() {
        if let Some((hint, zeros)) = product(&program, k)
            && let Some(sums) = out_of(&program, k)
            && let Some((q, c)) = only_reader(&program, k, sums)
            && let Some(found) = rescaled(&program, c, &c.value, sums)
            && all.iter().all(|f| f.bytes != c.out)
        {
            let (mut at, bytes) = (q, c.out);
            let last = program.bufs[sums].shape.last().cloned();
            let channels = last.unwrap_or_else(|| Ex::idx(1));
            let mut of = |program: &mut Cow<'_, Program>, value: &Ex, one: bool, name: &str| {
                let (buf, inserted) = table_of(program, at, value, (&channels, one), name);
                at += usize::from(inserted);
                buf
            };
            let bias = found.bias.map(|b| of(&mut program, &b, false, "bias"));
            let factor = of(&mut program, &found.factor, true, "factor");
            all.push(FusedBytes {
                sums,
                bytes,
                hint,
                zeros,
                bias,
                factor,
                zero: found.zero,
                bounds: found.bounds,
            });
        }
        k += 1;
    }
    (program, all)
}

fn out_of(program: &Program, k: usize) -> Option<Buf> {
    match &program.stages[k] {
        Stage::Compute(c) => Some(c.out),
        Stage::Nest(_) => None,
    }
}

/// Splits stages that begin with making bytes of such sums and continue in two, so that a kernel can
/// compute the first part.
pub fn split(program: &mut Program) {
    let mut k = 0;
    while k < program.stages.len() {
        if let Some((q, part, out)) = beginning(program, k) {
            let between = Buffer {
                name: Symbol::new("bytes"),
                dtype: part.dtype(),
                shape: program.bufs[out].shape.clone(),
                role: Role::Temp,
            };
            split_off(program, q, &part, out, between);
        }
        k += 1;
    }
}

/// Returns the reader of the sums of stage `k`, if that continues, with the bytes that it begins with
/// and the sums.
fn beginning(program: &Program, k: usize) -> Option<(usize, Ex, Buf)> {
    product(program, k)?;
    let out = out_of(program, k)?;
    let (q, c) = only_reader(program, k, out)?;
    if rescaled(program, c, &c.value, out).is_some() {
        return None;
    }
    let part = largest_part(&c.value, |e| rescaled(program, c, e, out).is_some())?;
    Some((q, part, out))
}

/// Returns the hint of a product of bytes by signed bytes with channels last, and the zero points.
fn product(program: &Program, k: usize) -> Option<(Hint, [Ex; 2])> {
    let Stage::Compute(c) = &program.stages[k] else {
        return None;
    };
    let mut hint = program.hint(c.out)?.clone();
    let fits = match &hint {
        Hint::Conv2d {
            nhwc: true,
            groups,
            weight,
            data,
            ..
        } => {
            // The weight is (…, i, o), or (…, channels, 1).
            let last = |b: Buf| program.bufs[b].shape.last().and_then(Ex::as_int);
            let weights = match program.bufs[*weight].shape.as_slice() {
                [.., a, b] => a.as_int().zip(b.as_int()).map(|(a, b)| a * b),
                _ => None,
            };
            *groups == 1 || [weights, last(*data), last(c.out)] == [Some(*groups); 3]
        }
        Hint::Gemm { transpose_a, .. } => !transpose_a,
        _ => false,
    };
    if !fits || program.bufs[c.out].dtype != DType::I32 {
        return None;
    }
    let mut zeros = Vec::new();
    for operand in hint.operands_mut() {
        let before = shifted(program, *operand)?;
        *operand = before.from;
        zeros.push(before.zero);
    }
    let weight = *hint.operands().get(1)?;
    let signed = program.bufs[weight].dtype == DType::I8;
    signed.then_some((hint, zeros.try_into().ok()?))
}

/// A number between bounds that are numbers: the number, and the bounds.
fn bounded(e: &Ex) -> (&Ex, f64, f64) {
    match e.kind() {
        ExKind::Binary(BinOp::Max, x, b) if b.as_float().is_some() => {
            let ((core, low, high), b) = (bounded(x), b.as_float().unwrap_or_default());
            (core, low.max(b), high.max(b))
        }
        ExKind::Binary(BinOp::Min, x, b) if b.as_float().is_some() => {
            let ((core, low, high), b) = (bounded(x), b.as_float().unwrap_or_default());
            (core, low.min(b), high.min(b))
        }
        _ => (e, f64::NEG_INFINITY, f64::INFINITY),
    }
}

/// Matches the numbers of an expression of a stage that brings the sums `out` to bytes.
fn rescaled(program: &Program, c: &Compute, value: &Ex, out: Buf) -> Option<Found> {
    // Bounds of bytes, then of floats.
    let (bytes, outer_low, outer_high) = bounded(value);
    let ExKind::Cast(steps) = bytes.kind() else {
        return None;
    };
    let (steps, low, high) = bounded(steps);
    let dtype = value.dtype();
    if !matches!(dtype, DType::I8 | DType::U8) {
        return None;
    }
    let (least, most) = dtype.int_range()?;
    let whole = |b: f64| (b.fract() == 0.0).then_some(b as i64);
    let within = |b: f64| (least as f64..=most as f64).contains(&b);
    if bytes.dtype() != dtype || steps.dtype() != DType::F32 || !within(low) || !within(high) {
        return None;
    }
    let bound = |b: f64| b.max(outer_low).min(outer_high);
    let bounds = (whole(bound(low))?, whole(bound(high))?);
    let (rounded, zero) = match steps.kind() {
        ExKind::Binary(BinOp::Add, x, z) if z.as_float().is_some() => (x, whole(z.as_float()?)?),
        _ => (steps, 0),
    };
    let ExKind::Unary(UnOp::RoundEven, product) = rounded.kind() else {
        return None;
    };
    let ExKind::Binary(BinOp::Mul, a, b) = product.kind() else {
        return None;
    };
    let of_sums = |e: &Ex| matches!(e.kind(), ExKind::Cast(x) if x.dtype() == DType::I32);
    let (sum, factor) = match (of_sums(a), of_sums(b)) {
        (true, _) => (a, b),
        (_, true) => (b, a),
        _ => return None,
    };
    let ExKind::Cast(sum) = sum.kind() else {
        return None;
    };
    let bias = added(program, c, sum, out)?;
    let channel = c.axes.last()?;
    let by_channel = |e: &Ex| {
        let mut only = true;
        visit_expr(e, |x| match x.kind() {
            ExKind::Var(v) => only &= v == channel || !c.axes.contains(v),
            ExKind::Load(b, _) => only &= *b != out,
            _ => {}
        });
        only
    };
    let fits = by_channel(factor) && bias.as_ref().is_none_or(by_channel);
    let zero_fits = zero.abs() <= 1 << 20;
    (fits && zero_fits).then(|| Found {
        bias,
        factor: factor.clone(),
        zero,
        bounds,
    })
}

/// What is added to the stage's own element of `out`; the inner `None` for nothing.
fn added(program: &Program, c: &Compute, sum: &Ex, out: Buf) -> Option<Option<Ex>> {
    let mut found = false;
    let mut bias: Option<Ex> = None;
    let mut work = vec![(sum, true)];
    while let Some((e, plus)) = work.pop() {
        if e.as_int() == Some(0) {
            continue;
        }
        if plus && !found && own_element(program, c, e) == Some(out) {
            found = true;
            continue;
        }
        match e.kind() {
            ExKind::Binary(BinOp::Add, a, b) => work.extend([(b, plus), (a, plus)]),
            ExKind::Binary(BinOp::Sub, a, b) => work.extend([(b, !plus), (a, plus)]),
            _ => {
                let before = bias.take().unwrap_or_else(|| Ex::int(DType::I32, 0));
                bias = Some(match (before.as_int(), plus) {
                    (Some(0), true) => e.clone(),
                    (_, true) => &before + e,
                    (_, false) => &before - e,
                });
            }
        }
    }
    found.then_some(bias)
}

/// Returns the buffer that holds an expression of the last axis for all its indices, or (if `one`)
/// once where it is the same for all: the one that it reads, or that of a stage inserted at `at`.
fn table_of(
    program: &mut Cow<'_, Program>,
    at: usize,
    value: &Ex,
    (channels, one): (&Ex, bool),
    name: &str,
) -> (Buf, bool) {
    let Stage::Compute(c) = &program.stages[at] else {
        unreachable!("the reader computes")
    };
    let channel = c.axes.last().copied();
    let mut varies = false;
    visit_expr(value, |e| {
        varies |= matches!(e.kind(), ExKind::Var(v) if Some(*v) == channel)
    });
    if let ExKind::Load(buf, index) = value.kind() {
        let shape = &program.bufs[*buf].shape;
        let whole = match index.as_slice() {
            [] => one,
            [i] => {
                matches!(i.kind(), ExKind::Var(v) if Some(*v) == channel) && shape[0] == *channels
            }
            _ => false,
        };
        if whole {
            return (*buf, false);
        }
    }
    let channels = (varies || !one).then(|| channels.clone());
    let made = table(program.to_mut(), at, value, (channel, channels), name);
    (made, true)
}
