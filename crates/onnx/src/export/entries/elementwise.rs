//! Elementwise operators whose ONNX form is not a single node with the same arguments.

use relax_tensor::{DType, Tensor};

use super::super::call::{Call, why};
use super::super::graph::{Attr, elem};
use super::super::walk::{R, Val};

fn one(name: String) -> R<Val> {
    Ok(Val::Tensor(name))
}

/// Writes a cast to the element type of the result.
pub fn cast(c: &mut Call<'_, '_>) -> R<Val> {
    let x = c.arg(0)?;
    let to = elem(c.out_dtype()?);
    one(c.node("Cast", &[&x], vec![("to", Attr::Int(to.into()))]))
}

/// Writes a bit cast.
pub fn bits(c: &mut Call<'_, '_>) -> R<Val> {
    let (x, to) = (c.arg(0)?, elem(c.out_dtype()?));
    c.g.needs(26);
    one(c.node("BitCast", &[&x], vec![("to", Attr::Int(to.into()))]))
}

/// Writes a node with the slope `alpha`.
pub fn with_alpha(c: &mut Call<'_, '_>, op: &str) -> R<Val> {
    let x = c.arg(0)?;
    let alpha = c.float("alpha")?;
    one(c.node(op, &[&x], vec![("alpha", Attr::Float(alpha))]))
}

/// Clamps elements to a range.
pub fn clip(c: &mut Call<'_, '_>) -> R<Val> {
    let (low, high) = (c.float("a_min")?, c.float("a_max")?);
    clipped(c, low, high)
}

/// Clamps elements to the range 0 to 6.
pub fn relu6(c: &mut Call<'_, '_>) -> R<Val> {
    clipped(c, 0.0, 6.0)
}

fn clipped(c: &mut Call<'_, '_>, low: f64, high: f64) -> R<Val> {
    if low > high {
        return why("a range that is empty");
    }
    let x = c.arg(0)?;
    let dtype = c.dtype(0)?;
    let within = |v: f64| match dtype.int_range() {
        Some((least, most)) => v.clamp(least as f64, most as f64),
        None => v,
    };
    let (low, high) = (c.scalar(dtype, within(low)), c.scalar(dtype, within(high)));
    one(c.node("Clip", &[&x, &low, &high], Vec::new()))
}

/// Writes GELU in the `tanh` approximation.
pub fn gelu_tanh(c: &mut Call<'_, '_>) -> R<Val> {
    let x = c.arg(0)?;
    one(c.node("Gelu", &[&x], vec![("approximate", Attr::Str("tanh"))]))
}

/// Returns whether each element is finite.
pub fn isfinite(c: &mut Call<'_, '_>) -> R<Val> {
    let x = c.arg(0)?;
    let (a, b) = (
        c.node("IsNaN", &[&x], vec![]),
        c.node("IsInf", &[&x], vec![]),
    );
    let either = c.node("Or", &[&a, &b], vec![]);
    one(c.node("Not", &[&either], vec![]))
}

/// Writes a logarithm to another base, of which `scale` is the natural logarithm.
pub fn log(c: &mut Call<'_, '_>, scale: f64) -> R<Val> {
    let x = c.arg(0)?;
    let scale = c.scalar(c.dtype(0)?, scale);
    let log = c.node("Log", &[&x], vec![]);
    one(c.node("Div", &[&log, &scale], vec![]))
}

/// Writes the reciprocal square root.
pub fn rsqrt(c: &mut Call<'_, '_>) -> R<Val> {
    let x = c.arg(0)?;
    let root = c.node("Sqrt", &[&x], vec![]);
    one(c.node("Reciprocal", &[&root], vec![]))
}

/// Writes `x * sigmoid(x)`.
pub fn silu(c: &mut Call<'_, '_>) -> R<Val> {
    let x = c.arg(0)?;
    let s = c.node("Sigmoid", &[&x], vec![]);
    one(c.node("Mul", &[&x, &s], vec![]))
}

/// Writes `x * x`.
pub fn square(c: &mut Call<'_, '_>) -> R<Val> {
    let x = c.arg(0)?;
    one(c.node("Mul", &[&x, &x], vec![]))
}

/// Rounds to the nearest integer, halves away from zero.
pub fn round(c: &mut Call<'_, '_>) -> R<Val> {
    let (x, dtype) = (c.arg(0)?, c.dtype(0)?);
    away_from_zero(c, x, dtype, 0.5)
}

/// Rounds towards zero.
pub fn trunc(c: &mut Call<'_, '_>) -> R<Val> {
    let (x, dtype) = (c.arg(0)?, c.dtype(0)?);
    away_from_zero(c, x, dtype, 0.0)
}

/// Writes the sign times the floor of the magnitude plus `more`.
fn away_from_zero(c: &mut Call<'_, '_>, x: String, dtype: DType, more: f64) -> R<Val> {
    if !dtype.is_float() {
        return one(c.node("Identity", &[&x], vec![]));
    }
    let (sign, size) = (c.node("Sign", &[&x], vec![]), c.node("Abs", &[&x], vec![]));
    let size = if more == 0.0 {
        size
    } else {
        let more = c.scalar(dtype, more);
        c.node("Add", &[&size, &more], vec![])
    };
    let whole = c.node("Floor", &[&size], vec![]);
    one(c.node("Mul", &[&sign, &whole], vec![]))
}

/// Writes the quotient rounded down.
pub fn floor_divide(c: &mut Call<'_, '_>) -> R<Val> {
    let (a, b) = (c.arg(0)?, c.arg(1)?);
    if c.dtype(0)?.is_float() {
        let q = c.node("Div", &[&a, &b], vec![]);
        return one(c.node("Floor", &[&q], vec![]));
    }
    one(floor_quotient(c, &a, &b))
}

/// Writes the integer quotient rounded down. ONNX rounds towards zero: one is subtracted where the
/// remainders of both roundings differ, which cannot overflow.
fn floor_quotient(c: &mut Call<'_, '_>, a: &str, b: &str) -> String {
    let q = c.node("Div", &[a, b], vec![]);
    let floor = c.node("Mod", &[a, b], vec![]);
    let trunc = c.node("Mod", &[a, b], vec![("fmod", Attr::Int(1))]);
    let same = c.node("Equal", &[&floor, &trunc], vec![]);
    let differ = c.node("Not", &[&same], vec![]);
    let off = c.node("CastLike", &[&differ, &q], vec![]);
    c.node("Sub", &[&q, &off], vec![])
}

/// Writes the quotient rounded towards zero.
pub fn trunc_divide(c: &mut Call<'_, '_>) -> R<Val> {
    let (a, b, dtype) = (c.arg(0)?, c.arg(1)?, c.dtype(0)?);
    let q = c.node("Div", &[&a, &b], vec![]);
    match dtype.is_float() {
        true => away_from_zero(c, q, dtype, 0.0),
        false => one(q),
    }
}

/// Writes the remainder of the quotient rounded down.
pub fn floor_mod(c: &mut Call<'_, '_>) -> R<Val> {
    let (a, b) = (c.arg(0)?, c.arg(1)?);
    if !c.dtype(0)?.is_float() {
        return one(c.node("Mod", &[&a, &b], vec![]));
    }
    let q = c.node("Div", &[&a, &b], vec![]);
    let q = c.node("Floor", &[&q], vec![]);
    let whole = c.node("Mul", &[&q, &b], vec![]);
    one(c.node("Sub", &[&a, &whole], vec![]))
}

/// Writes the remainder of the quotient rounded towards zero.
pub fn trunc_mod(c: &mut Call<'_, '_>) -> R<Val> {
    let (a, b) = (c.arg(0)?, c.arg(1)?);
    one(c.node("Mod", &[&a, &b], vec![("fmod", Attr::Int(1))]))
}

/// Writes a bit shift. ONNX shifts unsigned integers only: signed ones are multiplied or divided by
/// a power of two.
pub fn shift(c: &mut Call<'_, '_>, direction: &'static str) -> R<Val> {
    let (a, b, dtype) = (c.arg(0)?, c.arg(1)?, c.dtype(0)?);
    let by = |d| vec![("direction", Attr::Str(d))];
    if [DType::U8, DType::U16, DType::U32, DType::U64].contains(&dtype) {
        return one(c.node("BitShift", &[&a, &b], by(direction)));
    }
    let bits = c.cast(b, c.dtype(1)?, DType::U64);
    let unit = c.g.constant("one", &Tensor::scalar_i64(DType::U64, 1));
    let power = c.node("BitShift", &[&unit, &bits], by("LEFT"));
    if direction == "LEFT" {
        let power = c.cast(power, DType::U64, dtype);
        return one(c.node("Mul", &[&a, &power], vec![]));
    }
    let power = c.cast(power, DType::U64, DType::I64);
    let wide = c.cast(a, dtype, DType::I64);
    let shifted = floor_quotient(c, &wide, &power);
    one(c.cast(shifted, DType::I64, dtype))
}

/// Writes inequality.
pub fn not_equal(c: &mut Call<'_, '_>) -> R<Val> {
    let (a, b) = (c.arg(0)?, c.arg(1)?);
    let same = c.node("Equal", &[&a, &b], vec![]);
    one(c.node("Not", &[&same], vec![]))
}

/// Selects elements of the second operand where the first is true, of the third elsewhere.
pub fn choose(c: &mut Call<'_, '_>) -> R<Val> {
    let cond = c.arg(0)?;
    let cond = c.cast(cond, c.dtype(0)?, DType::BOOL);
    let (a, b) = (c.arg(1)?, c.arg(2)?);
    one(c.node("Where", &[&cond, &a, &b], vec![]))
}
