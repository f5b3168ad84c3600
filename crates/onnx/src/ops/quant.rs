//! Quantised tensors.

use super::build::{dtype, int, str};
use super::nn;
use super::steps::{OfBytes, Steps, all_zero, one_or_many};
use crate::graph::Tr;
use crate::node::{Node, R, unsupported};
use crate::table::{Entry, op};
use crate::value::{Elem, Val, Value};
use relax_tensor::DType;

pub static OPS: &[Entry] = &[
    op("QuantizeLinear", 10, quantize),
    op("DequantizeLinear", 10, dequantize),
    op("DynamicQuantizeLinear", 11, |tr, n| {
        let x = n.t(0)?;
        let (y, scale, zero) = dynamic(tr, n, &x)?;
        Ok(vec![y.into(), scale.into(), zero.into()])
    }),
    op("MatMulInteger", 10, |tr, n| {
        let (a, b) = (n.t(0)?, n.t(1)?);
        let (za, zb) = (n.opt(2)?, n.opt(3)?);
        let (y, _) = sums(tr, [&a, &b], [za.as_ref(), zb.as_ref()], None)?;
        Ok(vec![y.into()])
    }),
    op("ConvInteger", 10, |tr, n| {
        let (x, w) = (n.t(0)?, n.t(1)?);
        let (zx, zw) = (n.opt(2)?, n.opt(3)?);
        let bytes = match x.rank() {
            3 | 4 => OfBytes::read(tr, [&x, &w], [zx.as_ref(), zw.as_ref()], None, Some(0))?,
            _ => None,
        };
        if bytes.is_some() {
            let y = nn::convolution_of(tr, n, [&x, &w], bytes.as_ref())?;
            return Ok(vec![y.into()]);
        }
        let (x, w) = (
            shifted(tr, &x, zx.as_ref())?,
            filter_shifted(tr, &w, zw.as_ref())?,
        );
        Ok(vec![nn::convolution(tr, n, &x, &w)?.into()])
    }),
    op("QLinearMatMul", 10, |tr, n| {
        let [a, sa, za, b, sb, zb, sy, zy] = [0, 1, 2, 3, 4, 5, 6, 7].map(|i| n.t(i));
        let (a, sa, za, b, sb, zb, sy, zy) = (a?, sa?, za?, b?, sb?, zb?, sy?, zy?);
        let (zeros, scales) = ([Some(&za), Some(&zb)], Some([&sa, &sb]));
        let (product, bytes) = sums(tr, [&a, &b], zeros, scales)?;
        if let Some(bytes) = bytes
            && let Some(last) = product.rank().checked_sub(1)
            && let Some(y) = bytes.requantized(tr, &product, last, [&sy, &zy])?
        {
            return Ok(vec![y.into()]);
        }
        let sa = rows(tr, &sa)?;
        let scale = product_scale(tr, &sa, &sb, &sy)?;
        Ok(vec![requantized(tr, n, &product, &scale, &zy)?.into()])
    }),
    op("QLinearConv", 10, convolution),
];

/// Emits the sums of a product of quantised matrices: of bytes as `qnn`'s operators take them, with
/// their scales, where they are such.
pub fn sums(
    tr: &mut Tr<'_>,
    [a, b]: [&Val; 2],
    zeros: [Option<&Val>; 2],
    scales: Option<[&Val; 2]>,
) -> R<(Val, Option<OfBytes>)> {
    // The axis of columns, each of which may have a scale of its own.
    let axis = (b.rank() == 2).then_some(1);
    if let Some(bytes) = OfBytes::read(tr, [a, b], zeros, scales, axis)? {
        let y = super::matrix::matmul_of(tr, a, b, Some(&bytes))?;
        return Ok((y, Some(bytes)));
    }
    let (x, y) = (row_shifted(tr, a, zeros[0])?, shifted(tr, b, zeros[1])?);
    Ok((super::matrix::matmul(tr, &x, &y)?, None))
}

/// Emits a quantised convolution: the images, scale and zero point, those of the weight and of the
/// result, a bias.
pub fn convolution(tr: &mut Tr<'_>, n: &Node<'_>) -> R<Vec<Value>> {
    let [x, sx, zx, w, sw, zw, sy, zy] = [0, 1, 2, 3, 4, 5, 6, 7].map(|i| n.t(i));
    let (x, sx, zx, w, sw, zw, sy, zy) = (x?, sx?, zx?, w?, sw?, zw?, sy?, zy?);
    let bytes = match x.rank() {
        3 | 4 => OfBytes::read(
            tr,
            [&x, &w],
            [Some(&zx), Some(&zw)],
            Some([&sx, &sw]),
            Some(0),
        )?,
        _ => None,
    };
    let biased = |tr: &mut Tr<'_>, y: Val| match n.opt(8)? {
        Some(b) => nn::biased(tr, &y, &b),
        None => Ok(y),
    };
    if let Some(bytes) = bytes {
        let y = nn::convolution_of(tr, n, [&x, &w], Some(&bytes))?;
        let y = biased(tr, y)?;
        if let Some(y) = bytes.requantized(tr, &y, 1, [&sy, &zy])? {
            return Ok(vec![y.into()]);
        }
    }
    let (x, w) = (
        shifted(tr, &x, Some(&zx))?,
        filter_shifted(tr, &w, Some(&zw))?,
    );
    let y = nn::convolution(tr, n, &x, &w)?;
    let y = biased(tr, y)?;
    let sw = super::elementwise::channelwise(tr, &sw, y.rank())?;
    let scale = product_scale(tr, &sx, &sw, &sy)?;
    Ok(vec![requantized(tr, n, &y, &scale, &zy)?.into()])
}

pub fn quantize(tr: &mut Tr<'_>, n: &Node<'_>) -> R<Vec<Value>> {
    let (x, s) = (n.t(0)?, n.t(1)?);
    let zero = n.opt(2)?;
    let to = match (&zero, n.elem("output_dtype")) {
        (Some(z), _) => z.elem,
        (None, Some(e)) => e,
        (None, None) => Elem::U8,
    };
    let mut wide = n.elem("precision").unwrap_or(s.elem);
    if wide.narrow().is_some() {
        wide = Elem::F32;
    }
    let (axis, block) = (n.int("axis", 1), n.int("block_size", 0));
    if wide == Elem::F32 && x.elem == Elem::F32 && block == 0 {
        let steps = Steps::read(tr, &s, zero.as_ref(), (&x, to), axis)?;
        if let Some(steps) = steps {
            return Ok(vec![steps.quantized(tr, &x, to)?.into()]);
        }
    }
    let scale = spread(tr, &s, &x, axis, block)?;
    let zero = zero.map(|z| spread(tr, &z, &x, axis, block)).transpose()?;
    let (x, scale) = (tr.cast(&x, wide)?, tr.cast(&scale, wide)?);
    let y = tr.div(&x, &scale)?;
    Ok(vec![quantized(tr, n, &y, zero.as_ref(), to)?.into()])
}

pub fn dequantize(tr: &mut Tr<'_>, n: &Node<'_>) -> R<Vec<Value>> {
    let (axis, block) = (n.int("axis", 1), n.int("block_size", 0));
    Ok(vec![dequantized(tr, n, axis, block)?.into()])
}

/// Dequantises the first input: scales and zero points are the next two, per axis or per block
/// along it.
pub fn dequantized(tr: &mut Tr<'_>, n: &Node<'_>, axis: i64, block: i64) -> R<Val> {
    let (x, s) = (n.t(0)?, n.t(1)?);
    let to = n.elem("output_dtype").unwrap_or(s.elem);
    if to == Elem::F32 && block == 0 {
        let zero = n.opt(2)?;
        let steps = Steps::read(tr, &s, zero.as_ref(), (&x, x.elem), axis)?;
        if let Some(Steps { scale, zero, axis }) = steps {
            // What integers a constant consists of is what products of integers are made of.
            return tr.op_kept(
                "qnn.dequantize",
                &[&x, &scale, &zero],
                &[("axis", int(axis))],
            );
        }
    }
    let scale = spread(tr, &s, &x, axis, block)?;
    let scale = tr.cast(&scale, Elem::F32)?;
    // A zero point known to be zero is skipped, as for nearly all weights.
    let zero = n.opt(2)?.filter(|z| !all_zero(z));
    // Differences of narrow integers are exact as floats; those of 32 bits are not.
    let short = matches!(x.dtype(), DType::I8 | DType::U8 | DType::I16 | DType::U16);
    let float = short && x.elem.narrow().is_none();
    let number = |tr: &mut Tr<'_>, v: &Val| match float {
        true => tr.cast(v, Elem::F32),
        false => widened(tr, v),
    };
    let mut y = number(tr, &x)?;
    if let Some(z) = zero {
        let z = spread(tr, &z, &x, axis, block)?;
        let z = number(tr, &z)?;
        y = tr.sub(&y, &z)?;
    }
    let y = tr.cast(&y, Elem::F32)?;
    let y = tr.mul(&y, &scale)?;
    tr.cast(&y, to)
}

/// Returns the dequantised product of two quantised matrices; the right one may have a scale per
/// column.
pub fn product(
    tr: &mut Tr<'_>,
    (a, za): (&Val, Option<Val>),
    (b, zb): (&Val, Option<Val>),
    sa: &Val,
    sb: &Val,
) -> R<Val> {
    let (y, _) = sums(tr, [a, b], [za.as_ref(), zb.as_ref()], None)?;
    let y = tr.cast(&y, Elem::F32)?;
    let (sa, sb) = (one_or_many(tr, sa)?, one_or_many(tr, sb)?);
    let scale = tr.mul(&sa, &sb)?;
    tr.mul(&y, &scale)
}

/// Quantises a tensor to its actual range; returns it with its scale and zero point.
pub fn dynamic(tr: &mut Tr<'_>, n: &Node<'_>, x: &Val) -> R<(Val, Val, Val)> {
    let all: Vec<usize> = (0..x.rank()).collect();
    let (low, high) = (
        tr.reduce("min", x, &all, false)?,
        tr.reduce("max", x, &all, false)?,
    );
    let (low, high) = (tr.by("minimum", &low, 0.0)?, tr.by("maximum", &high, 0.0)?);
    let range = tr.sub(&high, &low)?;
    let scale = tr.by("divide", &range, 255.0)?;
    let z = tr.div(&low, &scale)?;
    let z = tr.unary("negative", &z)?;
    let z = rounded(tr, &z, 0.0, 255.0)?;
    let zero = tr.cast(&z, Elem::U8)?;
    let y = tr.div(x, &scale)?;
    let y = quantized(tr, n, &y, Some(&zero), Elem::U8)?;
    Ok((y, scale, zero))
}

/// Per-tensor scale and zero point.
pub struct Scaled {
    scale: Val,
    zero: Option<Val>,
}

impl Scaled {
    /// Reads those at these input positions.
    pub fn read(n: &Node<'_>, scale: usize, zero: usize) -> R<Scaled> {
        Ok(Scaled {
            scale: n.t(scale)?,
            zero: n.opt(zero)?,
        })
    }
    /// Dequantises a tensor.
    pub fn numbers(&self, tr: &mut Tr<'_>, x: &Val) -> R<Val> {
        let steps = Steps::read(tr, &self.scale, self.zero.as_ref(), (x, x.elem), 0)?;
        if let Some(Steps {
            scale,
            zero,
            axis: -1,
        }) = steps
        {
            let along = [("axis", int(-1))];
            return tr.op("qnn.dequantize", &[x, &scale, &zero], &along);
        }
        let y = shifted(tr, x, self.zero.as_ref())?;
        let y = tr.cast(&y, Elem::F32)?;
        let scale = one_or_many(tr, &self.scale)?;
        tr.mul(&y, &scale)
    }
    /// Quantises a tensor.
    pub fn quantized(&self, tr: &mut Tr<'_>, n: &Node<'_>, y: &Val) -> R<Val> {
        let to = self.zero.as_ref().map_or(Elem::U8, |z| z.elem);
        if y.elem == Elem::F32
            && let Some(steps) = Steps::read(tr, &self.scale, self.zero.as_ref(), (y, to), 0)?
            && steps.axis == -1
        {
            return steps.quantized(tr, y, to);
        }
        let scale = one_or_many(tr, &self.scale)?;
        let y = tr.div(y, &scale)?;
        let zero = match &self.zero {
            Some(z) => Some(one_or_many(tr, z)?),
            None => None,
        };
        quantized(tr, n, &y, zero.as_ref(), to)
    }
}

/// Broadcasts scales or zero points to the data: per tensor, per index of an axis, or per block
/// along it.
fn spread(tr: &mut Tr<'_>, s: &Val, x: &Val, axis: i64, block: i64) -> R<Val> {
    if s.rank() == 0 || x.rank() == 0 {
        return Ok(s.clone());
    }
    if s.rank() == 1 && block == 0 {
        if s.dim(0)?.as_const() == Some(1) {
            return tr.reshape(s, &[]);
        }
        let at = match x.rank() {
            1 => 0,
            _ => x.axis(axis)?,
        };
        let places: Vec<usize> = (0..x.rank()).filter(|&a| a != at).collect();
        return tr.expand_all(s, &places);
    }
    if block == 0 {
        return Ok(s.clone());
    }
    let at = x.axis(axis)?;
    let mut y = tr.op(
        "repeat",
        &[s],
        &[("repeats", int(block)), ("axis", int(at as i64))],
    )?;
    y.elem = s.elem;
    // The last block may be incomplete.
    match (y.dim(at)?.as_const(), x.dim(at)?.as_const()) {
        (Some(have), Some(want)) if have > want => tr.slice(&y, at, 0, want),
        _ => Ok(y),
    }
}

/// Converts quantised values for arithmetic: to `int32`, or `float32` for narrow floats.
fn widened(tr: &mut Tr<'_>, x: &Val) -> R<Val> {
    match x.elem.narrow() {
        Some(name) => {
            let mut raw = x.clone();
            raw.elem = Elem::of(x.dtype());
            tr.op("narrow.decode", &[&raw], &[("format", str(name))])
        }
        None if x.elem.is_float() => tr.cast(x, Elem::F32),
        None => tr.cast(x, Elem::I32),
    }
}

/// Rounds halves to even, and clamps to a range.
fn rounded(tr: &mut Tr<'_>, y: &Val, low: f64, high: f64) -> R<Val> {
    let y = tr.unary("round_half_to_even", y)?;
    let y = tr.by("maximum", &y, low)?;
    tr.by("minimum", &y, high)
}

fn range(to: Elem) -> Option<(f64, f64)> {
    if let Some(range) = match to.narrow() {
        Some("uint4") => Some((0.0, 15.0)),
        Some("int4") => Some((-8.0, 7.0)),
        Some("uint2") => Some((0.0, 3.0)),
        Some("int2") => Some((-2.0, 1.0)),
        _ => None,
    } {
        return Some(range);
    }
    let (low, high) = to
        .storage()
        .filter(|_| to.narrow().is_none())?
        .int_range()?;
    Some((low as f64, high as f64))
}

/// Quantises values that are already in units of the scale.
fn quantized(tr: &mut Tr<'_>, n: &Node<'_>, y: &Val, zero: Option<&Val>, to: Elem) -> R<Val> {
    let wide = if y.elem == Elem::F64 {
        Elem::F64
    } else {
        Elem::F32
    };
    let y = tr.cast(y, wide)?;
    let Some((low, high)) = range(to) else {
        let mut y = y;
        if let Some(z) = zero {
            let z = widened(tr, z)?;
            y = tr.add(&y, &z)?;
        }
        return super::elementwise::convert(tr, n, &y, to);
    };
    let mut y = tr.unary("round_half_to_even", &y)?;
    if let Some(z) = zero.filter(|z| !all_zero(z)) {
        let z = widened(tr, z)?;
        let z = tr.cast(&z, wide)?;
        y = tr.add(&y, &z)?;
    }
    let y = tr.by("maximum", &y, low)?;
    let y = tr.by("minimum", &y, high)?;
    let mut out = tr.op(
        "cast",
        &[&y],
        &[("dtype", dtype(to.storage().unwrap_or(DType::U8)))],
    )?;
    out.elem = to;
    Ok(out)
}

/// Converts to `int32` and subtracts the zero point.
pub fn shifted(tr: &mut Tr<'_>, x: &Val, zero: Option<&Val>) -> R<Val> {
    let x = tr.cast(x, Elem::I32)?;
    let Some(z) = zero else { return Ok(x) };
    let z = tr.cast(z, Elem::I32)?;
    let z = one_or_many(tr, &z)?;
    tr.sub(&x, &z)
}

/// Reshapes a vector to one number per row of a matrix.
fn rows(tr: &mut Tr<'_>, z: &Val) -> R<Val> {
    let z = one_or_many(tr, z)?;
    match z.rank() {
        1 => tr.expand(&z, 1),
        _ => Ok(z),
    }
}

fn row_shifted(tr: &mut Tr<'_>, x: &Val, zero: Option<&Val>) -> R<Val> {
    let x = tr.cast(x, Elem::I32)?;
    let Some(z) = zero else { return Ok(x) };
    let z = tr.cast(z, Elem::I32)?;
    let z = rows(tr, &z)?;
    tr.sub(&x, &z)
}

fn filter_shifted(tr: &mut Tr<'_>, w: &Val, zero: Option<&Val>) -> R<Val> {
    let w = tr.cast(w, Elem::I32)?;
    let Some(z) = zero else { return Ok(w) };
    let z = tr.cast(z, Elem::I32)?;
    let z = one_or_many(tr, &z)?;
    let z = match z.rank() {
        1 => {
            let places: Vec<usize> = (1..w.rank()).collect();
            tr.expand_all(&z, &places)?
        }
        _ => z,
    };
    tr.sub(&w, &z)
}

fn product_scale(tr: &mut Tr<'_>, a: &Val, b: &Val, y: &Val) -> R<Val> {
    let mut all = Vec::new();
    for v in [a, b, y] {
        let v = tr.cast(v, Elem::F32)?;
        all.push(one_or_many(tr, &v)?);
    }
    let p = tr.mul(&all[0], &all[1])?;
    tr.div(&p, &all[2])
}

fn requantized(tr: &mut Tr<'_>, n: &Node<'_>, y: &Val, scale: &Val, zero: &Val) -> R<Val> {
    let y = tr.cast(y, Elem::F32)?;
    let y = tr.mul(&y, scale)?;
    let z = one_or_many(tr, zero)?;
    if zero.elem.narrow().is_some() {
        return unsupported("results in a narrow type are not supported");
    }
    quantized(tr, n, &y, Some(&z), zero.elem)
}
