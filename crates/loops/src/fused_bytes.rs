//! Products of bytes whose sums become bytes at once: pairs of stages that one kernel may compute.
//!
//! The stages are not changed, but for numbers per channel that are none of a buffer's elements:
//! these get stages of their own.

use std::borrow::Cow;

use relax_base::Symbol;
use relax_tensor::DType;

use crate::continued::{largest_part, only_reader, split_off};
use crate::quantised::{hint_requantised, is_requantised, own_element, shifted, table};
use crate::round_trip::bounded;
use crate::{
    BinOp, Buf, Buffer, Compute, Ex, ExKind, Hint, Program, Role, Stage, UnOp, Var, visit_expr,
};

/// A product and the stage that makes bytes, or floats, of its sums.
#[derive(Clone, PartialEq, Debug)]
pub struct FusedBytes {
    /// The sums.
    pub sums: Buf,
    /// The bytes, or the floats.
    pub bytes: Buf,
    /// The hint of the sums, with operands as they were before zero points were subtracted.
    pub hint: Hint,
    /// The zero points of both operands.
    pub zeros: [Ex; 2],
    /// The way from sums to bytes.
    pub rescale: Rescale,
    /// The bounds of bytes.
    pub bounds: (i64, i64),
}

/// How sums become bytes, before they are bounded.
#[derive(Clone, PartialEq, Debug)]
pub enum Rescale {
    /// `round(float32(sum + bias) * factor) + zero`, halves to even.
    Float {
        /// A number per channel, `int32`.
        bias: Option<Buf>,
        /// A factor, or one per channel, `float32`.
        factor: Buf,
        /// Added to the rounded number.
        zero: i64,
    },
    /// In fixed point, by the tables of a [`Hint::Requantize`]: all of one number, or all of one per
    /// channel.
    Fixed {
        /// Bias, left, factor, half, right and zero.
        tables: [Buf; 6],
    },
    /// `float32(sum) * factor + shift` within bounds: no bytes, but floats.
    Real {
        /// A factor, or one per channel, `float32`.
        factor: Buf,
        /// A number per channel, `float32`.
        shift: Option<Buf>,
        /// The least and the largest result.
        bounds: [f32; 2],
    },
}

impl FusedBytes {
    /// The buffers that the kernel reads beside the product's operands.
    pub fn tables(&self) -> Vec<Buf> {
        match &self.rescale {
            Rescale::Float { bias, factor, .. } => bias.iter().chain([factor]).copied().collect(),
            Rescale::Fixed { tables } => tables.to_vec(),
            Rescale::Real { factor, shift, .. } => shift.iter().chain([factor]).copied().collect(),
        }
    }
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
pub fn find<'p>(program: Cow<'p, Program>) -> (Cow<'p, Program>, Vec<FusedBytes>) {
    let mut program = hint_requantised(program);
    let mut all: Vec<FusedBytes> = Vec::new();
    let mut k = 0;
    while k < program.stages.len() {
        if let Some(product) = product(&program, k)
            && let Some(sums) = out_of(&program, k)
            && let Some((q, c)) = only_reader(&program, k, sums)
            && all.iter().all(|f| f.bytes != c.out)
        {
            let bytes = c.out;
            let of = (sums, product.channel);
            let made = fixed(&program, c, of)
                .or_else(|| floats(&mut program, q, of))
                .or_else(|| reals(&mut program, q, of));
            all.extend(made.map(|(rescale, bounds)| FusedBytes {
                sums,
                bytes,
                hint: product.hint,
                zeros: product.zeros,
                rescale,
                bounds,
            }));
        }
        k += 1;
    }
    (program, all)
}

/// Returns the tables and bounds of a stage that brings sums to bytes in fixed point.
fn fixed(
    program: &Program,
    c: &Compute,
    (sums, channel): (Buf, usize),
) -> Option<(Rescale, (i64, i64))> {
    let bytes = matches!(program.bufs[c.out].dtype, DType::I8 | DType::U8);
    match program.hint(c.out)? {
        Hint::Requantize {
            data,
            tables,
            axis,
            bounds,
        } if bytes && *data == sums && axis.is_none_or(|a| a == channel) => {
            Some((Rescale::Fixed { tables: *tables }, *bounds))
        }
        _ => None,
    }
}

/// The same of stage `q`, which does it by a factor; its numbers per channel get stages of their
/// own.
fn floats(
    program: &mut Cow<'_, Program>,
    q: usize,
    (sums, channel): (Buf, usize),
) -> Option<(Rescale, (i64, i64))> {
    let Stage::Compute(c) = &program.stages[q] else {
        return None;
    };
    let found = rescaled(program, c, &c.value, (sums, channel))?;
    let channels = channels_of(program, c, (sums, channel));
    let (bias, factor) = (found.bias.as_ref(), Some(&found.factor));
    let tables = [(bias, false, "bias"), (factor, true, "factor")];
    let [bias, factor] = tables_of(program, q, &channels, tables);
    let factor = factor?;
    let rescale = Rescale::Float {
        bias,
        factor,
        zero: found.zero,
    };
    Some((rescale, found.bounds))
}

/// The same of stage `q`, if it makes floats of sums; its bounds are in the way.
fn reals(
    program: &mut Cow<'_, Program>,
    q: usize,
    (sums, channel): (Buf, usize),
) -> Option<(Rescale, (i64, i64))> {
    let Stage::Compute(c) = &program.stages[q] else {
        return None;
    };
    let found = real(program, c, &c.value, (sums, channel))?;
    let channels = channels_of(program, c, (sums, channel));
    let (factor, shift) = (Some(&found.factor), found.shift.as_ref());
    let tables = [(factor, true, "factor"), (shift, false, "shift")];
    let [factor, shift] = tables_of(program, q, &channels, tables);
    let factor = factor?;
    let rescale = Rescale::Real {
        factor,
        shift,
        bounds: found.bounds,
    };
    Some((rescale, (0, 0)))
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
    let channel = product(program, k)?.channel;
    let out = out_of(program, k)?;
    let (q, c) = only_reader(program, k, out)?;
    let begins = |e: &Ex| {
        rescaled(program, c, e, (out, channel)).is_some()
            || real(program, c, e, (out, channel)).is_some()
            || is_requantised(program, c, e, (out, channel))
    };
    if begins(&c.value) {
        return None;
    }
    let part = largest_part(&c.value, begins)?;
    Some((q, part, out))
}

/// A product of bytes by signed bytes.
struct Product {
    /// Its hint, with operands as they were before zero points were subtracted.
    hint: Hint,
    /// The zero points.
    zeros: [Ex; 2],
    /// The axis of channels of the sums.
    channel: usize,
}

/// Returns the product that a stage computes, if the kernel supports it.
fn product(program: &Program, k: usize) -> Option<Product> {
    let Stage::Compute(c) = &program.stages[k] else {
        return None;
    };
    let mut hint = program.hint(c.out)?.clone();
    let last = program.bufs[c.out].shape.len().checked_sub(1)?;
    let (channel, fits) = match &hint {
        Hint::Conv2d {
            nhwc,
            groups,
            weight,
            data,
            ..
        } => {
            let channel = if *nhwc { last } else { 1 };
            // A depthwise weight is (…, channels, 1), or with channels first (channels, 1, …).
            let at = |b: Buf, axis: usize| program.bufs[b].shape.get(axis).and_then(Ex::as_int);
            let both = match nhwc {
                true => [at(*weight, last - 1), at(*weight, last)],
                false => [at(*weight, 0), at(*weight, 1)],
            };
            let weights = both[0].zip(both[1]).map(|(a, b)| a * b);
            let each = [weights, at(*data, channel), at(c.out, channel)];
            // Groups have whole quads of channels.
            let quads = at(*data, channel).is_some_and(|c| c % (4 * groups) == 0);
            let fits = *groups == 1 || quads || each == [Some(*groups); 3];
            (channel, fits)
        }
        Hint::Gemm { transpose_a, .. } => (last, !transpose_a),
        _ => return None,
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
    // Unsigned weights take a zero point that leaves no number beyond the sum of two signed bytes.
    let weight = *hint.operands().get(1)?;
    let signed = program.bufs[weight].dtype == DType::I8;
    let zeros: [Ex; 2] = zeros.try_into().ok()?;
    if !signed
        && zeros[1]
            .as_int()
            .is_some_and(|zero| !(1..=255).contains(&zero))
    {
        return None;
    }
    Some(Product {
        hint,
        zeros,
        channel,
    })
}

/// Matches the numbers of an expression of a stage that brings the sums `out` to bytes.
fn rescaled(
    program: &Program,
    c: &Compute,
    value: &Ex,
    (out, channel): (Buf, usize),
) -> Option<Found> {
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
    let by_channel = |e: &Ex| by_channel(c, e, (out, channel));
    let fits = by_channel(factor) && bias.as_ref().is_none_or(by_channel);
    let zero_fits = zero.abs() <= 1 << 20;
    (fits && zero_fits).then(|| Found {
        bias,
        factor: factor.clone(),
        zero,
        bounds,
    })
}

/// Returns whether an expression of a stage depends on no axis but that of channels, and not on the
/// sums.
fn by_channel(c: &Compute, e: &Ex, (out, channel): (Buf, usize)) -> bool {
    let channel = c.axes.get(channel);
    let mut only = true;
    visit_expr(e, |x| match x.kind() {
        ExKind::Var(v) => only &= Some(v) == channel || !c.axes.contains(v),
        ExKind::Load(b, _) => only &= *b != out,
        _ => {}
    });
    only
}

/// The numbers of a stage that makes floats of sums, as expressions.
struct Real {
    factor: Ex,
    shift: Option<Ex>,
    bounds: [f32; 2],
}

/// Matches the numbers of an expression of a stage that makes floats of the sums `out`, whose channels
/// come last.
fn real(program: &Program, c: &Compute, value: &Ex, (out, channel): (Buf, usize)) -> Option<Real> {
    let (steps, low, high) = bounded(value);
    if value.dtype() != DType::F32 || channel + 1 != c.axes.len() || depthwise(program, out) {
        return None;
    }
    let by_channel = |e: &Ex| by_channel(c, e, (out, channel));
    let sums = |e: &Ex| match e.kind() {
        ExKind::Cast(x) => own_element(program, c, x) == Some(out),
        _ => false,
    };
    let factor = |e: &Ex| match e.kind() {
        ExKind::Binary(BinOp::Mul, a, b) if sums(a) && by_channel(b) => Some(b.clone()),
        ExKind::Binary(BinOp::Mul, a, b) if sums(b) && by_channel(a) => Some(a.clone()),
        _ => None,
    };
    let (factor, shift) = match (factor(steps), steps.kind()) {
        (Some(factor), _) => (factor, None),
        (None, ExKind::Binary(BinOp::Add, a, b)) => match (factor(a), factor(b)) {
            (Some(factor), _) if by_channel(b) => (factor, Some(b.clone())),
            (_, Some(factor)) if by_channel(a) => (factor, Some(a.clone())),
            _ => return None,
        },
        _ => return None,
    };
    let bounds = [low as f32, high as f32];
    Some(Real {
        factor,
        shift,
        bounds,
    })
}

/// Returns whether sums are those of a convolution in groups of one channel.
fn depthwise(program: &Program, out: Buf) -> bool {
    let shape = |b: Buf| program.bufs[b].shape.last().and_then(Ex::as_int);
    matches!(program.hint(out), Some(Hint::Conv2d { groups, data, .. })
        if *groups > 1 && shape(*data) == Some(*groups))
}

/// Returns what is added to the stage's own element of `out`; the inner `None` for nothing.
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

/// The axis of channels of a stage, and their number.
type Channels = (Option<Var>, Ex);

/// Returns those of a stage that reads sums.
fn channels_of(program: &Program, c: &Compute, (sums, channel): (Buf, usize)) -> Channels {
    let extent = program.bufs[sums].shape.get(channel).cloned();
    let axis = c.axes.get(channel).copied();
    (axis, extent.unwrap_or_else(|| Ex::idx(1)))
}

/// Returns the buffers of several expressions, those that there are, as [`table_of`] does: with
/// whether one number may be all of a table, and its name.
fn tables_of<const N: usize>(
    program: &mut Cow<'_, Program>,
    mut at: usize,
    channels: &Channels,
    values: [(Option<&Ex>, bool, &str); N],
) -> [Option<Buf>; N] {
    values.map(|(value, one, name)| {
        let (buf, inserted) = table_of(program, at, value?, (channels, one), name);
        at += usize::from(inserted);
        Some(buf)
    })
}

/// Returns the buffer that holds an expression of an axis for all its indices, or (if `one`) once
/// where it is the same for all: the one that it reads, or that of a stage inserted at `at`.
fn table_of(
    program: &mut Cow<'_, Program>,
    at: usize,
    value: &Ex,
    ((channel, channels), one): (&Channels, bool),
    name: &str,
) -> (Buf, bool) {
    let mut varies = false;
    visit_expr(value, |e| {
        varies |= matches!(e.kind(), ExKind::Var(v) if Some(*v) == *channel)
    });
    if let ExKind::Load(buf, index) = value.kind() {
        let shape = &program.bufs[*buf].shape;
        let whole = match index.as_slice() {
            [] => one,
            [i] => {
                matches!(i.kind(), ExKind::Var(v) if Some(*v) == *channel) && shape[0] == *channels
            }
            _ => false,
        };
        if whole {
            return (*buf, false);
        }
    }
    let channels = (varies || !one).then(|| channels.clone());
    let made = table(program.to_mut(), at, value, (*channel, channels), name);
    (made, true)
}
