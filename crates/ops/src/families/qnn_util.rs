//! Helpers shared by quantised operators: the types of scales and zero points, and requantisation.
//!
//! A quantised number `q` represents `scale * (q - zero point)`. The arithmetic follows TVM's
//! lowering of these operators for a CPU without further options: fixed-point multiplication in 64
//! bits, halves rounded up.

use relax_loops::{Ex, TensorRef, UnOp};
use relax_sym::Dim;
use relax_tensor::DType;

use crate::{ComputeError, RelCx, RelResult, Subject, Te};

use super::util::shaped;

/// Requires an argument to be a scalar of an element type.
pub(super) fn scalar(cx: &mut RelCx<'_>, i: usize, dtype: DType, what: &str) -> RelResult {
    let (dims, found) = shaped(cx, i)?;
    element(cx, i, cx.known(found)?, dtype, what)?;
    match dims.map_or(0, |d| d.len()) {
        0 => Ok(()),
        rank => cx.refuse(
            Subject::Arg(i),
            format!("the {what} must be a scalar here, but has rank {rank}"),
        ),
    }
}

/// Requires an argument to be a scalar, or a vector with one number for each index of an axis.
pub(super) fn scalar_or_vector(
    cx: &mut RelCx<'_>,
    i: usize,
    dtype: DType,
    extent: &Dim,
    what: &str,
) -> RelResult {
    let (dims, found) = shaped(cx, i)?;
    element(cx, i, cx.known(found)?, dtype, what)?;
    if dims.is_none_or(|d| d.is_empty()) {
        return Ok(());
    }
    let ty = cx.host.types_mut().tensor(vec![extent.clone()], dtype);
    let rule = format!("the {what} is a scalar, or has one number per index of its axis");
    cx.require_arg(i, ty, &rule)
}

fn element(cx: &RelCx<'_>, i: usize, found: DType, wanted: DType, what: &str) -> RelResult {
    if found == wanted {
        return Ok(());
    }
    cx.refuse(
        Subject::Arg(i),
        format!("the {what} must be {wanted}, not {found}"),
    )
}

/// Requires a known element type that is one of a few.
pub(super) fn one_of(
    cx: &RelCx<'_>,
    subject: Subject,
    found: DType,
    allowed: &[DType],
    what: &str,
) -> RelResult {
    if allowed.contains(&found) {
        return Ok(());
    }
    let names: Vec<String> = allowed.iter().map(DType::to_string).collect();
    cx.refuse(
        subject,
        format!("{what} must be one of {}, not {found}", names.join(", ")),
    )
}

/// Requires the element type of argument `i` to be one of `allowed`.
pub(super) fn data_one_of(cx: &mut RelCx<'_>, i: usize, allowed: &[DType]) -> RelResult<DType> {
    let t = cx.tensor(i)?;
    let found = cx.known(t.dtype)?;
    one_of(cx, Subject::Arg(i), found, allowed, "the element type")?;
    Ok(found)
}

/// Returns the extent of the axis that `axis` names, where scales run along it. TVM treats any axis
/// of a scalar as its only one. With `strict`, an axis out of range is refused; otherwise its
/// extent is 1.
pub(super) fn axis_extent(
    cx: &RelCx<'_>,
    name: &'static str,
    dims: &[Dim],
    strict: bool,
) -> RelResult<Dim> {
    let value = cx.int(name)?;
    let rank = dims.len() as i64;
    let at = if value >= 0 {
        value
    } else if rank > 0 {
        value + rank
    } else {
        0
    };
    if at == 0 && rank == 0 {
        return Ok(Dim::ONE);
    }
    match usize::try_from(at).ok().and_then(|a| dims.get(a)) {
        Some(d) => Ok(d.clone()),
        None if strict => {
            let range = if rank == 0 {
                "0".into()
            } else {
                format!("{} to {}", -rank, rank - 1)
            };
            cx.refuse(
                Subject::Attr(name),
                format!("`{name}={value}` is out of range: with rank {rank} it may be {range}"),
            )
        }
        None => Ok(Dim::ONE),
    }
}

/// Returns the axis along which scales run, for a tensor of that rank; `None` for a scalar.
pub(super) fn scale_axis(te: &Te<'_>, name: &str, rank: usize) -> Option<usize> {
    let v = te.int(name).unwrap_or(-1);
    let at = if v < 0 { v + rank as i64 } else { v };
    usize::try_from(at).ok().filter(|&a| a < rank)
}

/// Returns the scale or zero point of an index: a scalar's value, or the one at the index along the
/// axis.
pub(super) fn per_axis(t: &TensorRef, index: &[Ex], axis: Option<usize>) -> Ex {
    match (t.rank(), axis) {
        (1, Some(axis)) => t.at_broadcast(&index[axis..=axis]),
        _ => t.scalar(),
    }
}

/// `x - zero point` in 32 bits.
pub(super) fn shifted(x: &Ex, zero: &TensorRef, index: &[Ex], axis: Option<usize>) -> Ex {
    x.cast(DType::I32) - per_axis(zero, index, axis).cast(DType::I32)
}

/// Clamps a number to the range of a type, and converts it. `int32` values are in range already.
pub(super) fn saturate(x: &Ex, dtype: DType) -> Ex {
    if x.dtype() == dtype {
        return x.clone();
    }
    let (low, high) = dtype.int_range().unwrap_or((0, 0));
    x.min(high as i64).max(low as i64).cast(dtype)
}

/// The rounding of halves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rounding {
    /// Toward plus infinity.
    Upward,
    /// Away from zero.
    ToNearest,
    /// To the even neighbour; in floats.
    ToEven,
}

/// Requantisation from one scale to another: the factor for each index of an axis.
pub(super) struct Rescale {
    /// In fixed point, the factor's 31 fractional bits as `int64`; otherwise the factor itself.
    factor: TensorRef,
    /// In fixed point, the power of two.
    shift: Option<TensorRef>,
    axis: Option<usize>,
    rounding: Rounding,
}

/// Decomposes the factor `m` into `(f, s)` with `m = f * 2^(s - 31)`, `f` rounded to an integer of
/// 31 bits.
fn fixed_point(m: &Ex) -> (Ex, Ex) {
    let i64c = |v: i64| Ex::int(DType::I64, v);
    let bits = m.reinterpret(DType::I64);
    let exponent = (bits.shr(52i64) & i64c(0x7ff)) - 1022i64;
    let fraction = (&bits & &i64c(!(0x7ff << 52))) | i64c(1022 << 52);
    let scaled = fraction.reinterpret(DType::F64) * Ex::float(DType::F64, (1i64 << 31) as f64);
    let digits = scaled.unary(UnOp::Round).cast(DType::I64);
    let full = digits.eq(1i64 << 31) | digits.eq(-(1i64 << 31));
    let zero = m.eq(0.0);
    let none = i64c(0);
    let digits = Ex::where_(&full, &(digits.shr(1i64)), &digits);
    let shift = Ex::where_(&full, &(&exponent + 1), &exponent);
    (
        Ex::where_(&zero, &none, &digits),
        Ex::where_(&zero, &none, &shift),
    )
}

/// `x * f * 2^(s - 31)` rounded, for `x` of at most 32 bits.
pub(super) fn multiply_shift(x: &Ex, factor: &Ex, shift: &Ex, rounding: Rounding) -> Ex {
    let x = x.cast(DType::I64);
    let product = x.shl(shift.max(0i64)) * factor;
    // A shift by more than 62 bits leaves nothing.
    let places = (Ex::int(DType::I64, 31) - shift.min(0i64)).min(62i64);
    let half = Ex::int(DType::I64, 1).shl(&places - 1);
    let half = match rounding {
        Rounding::Upward | Rounding::ToEven => half,
        Rounding::ToNearest => Ex::where_(&product.ge(0i64), &half, &(&half - 1)),
    };
    (product + half).shr(places).cast(DType::I32)
}

/// Returns the factor and shift of a number known when the program is built.
pub(super) fn fixed_point_of(m: f64) -> (Ex, Ex) {
    let (mut digits, mut shift) = (0i64, 0i64);
    if m != 0.0 && m.is_finite() {
        // Powers of two up to the exponent of the number are exact.
        shift = m.abs().log2().floor() as i64 + 1;
        digits = (m * 2f64.powi((31 - shift) as i32)).round() as i64;
        if digits.abs() >= 1 << 31 {
            (digits, shift) = (digits / 2, shift + 1);
        }
    }
    (Ex::int(DType::I64, digits), Ex::int(DType::I64, shift))
}

impl Rescale {
    /// Requantises in 64-bit fixed point, rounding halves up: TVM's default.
    pub(super) fn new(
        te: &mut Te<'_>,
        from: &TensorRef,
        to: &TensorRef,
        axis: Option<usize>,
    ) -> Rescale {
        Rescale::with(te, from, to, axis, Rounding::Upward, DType::I64)
    }
    /// Requantises from the scale or scales `from`, along `axis`, to the scale `to`; computed in
    /// `int64` (fixed point), `float32` or `float64`.
    pub(super) fn with(
        te: &mut Te<'_>,
        from: &TensorRef,
        to: &TensorRef,
        axis: Option<usize>,
        rounding: Rounding,
        compute: DType,
    ) -> Rescale {
        let shape = from.shape.clone();
        let m = |i: &[Ex]| from.at(i).cast(DType::F64) / to.scalar().cast(DType::F64);
        let (factor, shift) = if compute.is_float() {
            (te.compute("factor", &shape, |i| m(i).cast(compute)), None)
        } else {
            let factor = te.compute("factor", &shape, |i| fixed_point(&m(i)).0);
            let shift = te.compute("shift", &shape, |i| fixed_point(&m(i)).1);
            (factor, Some(shift))
        };
        Rescale {
            factor,
            shift,
            axis,
            rounding,
        }
    }
    /// `zero + factor * x` at an index, in 32 bits; `x` has its zero point subtracted.
    pub(super) fn apply(&self, x: &Ex, index: &[Ex], zero: &TensorRef) -> Ex {
        let factor = per_axis(&self.factor, index, self.axis);
        match &self.shift {
            Some(shift) => {
                let shift = per_axis(shift, index, self.axis);
                let y = multiply_shift(x, &factor, &shift, self.rounding);
                zero.scalar().cast(DType::I32) + y
            }
            None => {
                let y = x.cast(factor.dtype()) * &factor + zero.scalar().cast(factor.dtype());
                let half = y.same(0.5);
                let y = match self.rounding {
                    Rounding::Upward => (y + half).unary(UnOp::Floor),
                    Rounding::ToEven => y.unary(UnOp::RoundEven),
                    Rounding::ToNearest => {
                        let up = (&y + &half).unary(UnOp::Trunc);
                        let down = (&y - &half).unary(UnOp::Trunc);
                        Ex::where_(&y.lt(0i64), &down, &up)
                    }
                };
                y.cast(DType::I32)
            }
        }
    }
}

impl Rescale {
    /// `factor * x` at an index, in floats, rounded to even; `x` has its zero point subtracted.
    pub(super) fn steps(&self, x: &Ex, index: &[Ex]) -> Ex {
        let factor = per_axis(&self.factor, index, self.axis);
        (x.cast(factor.dtype()) * factor).unary(UnOp::RoundEven)
    }
}

/// Returns the integer output type, which the relation has checked.
pub(super) fn quantised_out(te: &Te<'_>) -> Result<DType, ComputeError> {
    let dtype = te.out(0).dtype;
    if dtype.is_integral() {
        Ok(dtype)
    } else {
        Err(format!("a quantised result is of integers, not {dtype}").into())
    }
}
