//! Round trips of floats through integers, as in quantisation followed by dequantisation: where the
//! numbers are whole and within the integers' range, the conversions are the identity, and a chain
//! of such steps is float arithmetic alone.

use std::borrow::Cow;

use crate::{BinOp, Ex, ExKind, Program, Stage, UnOp, map_expr, visit_expr};
use relax_tensor::DType;
use rustc_hash::FxHashMap;

/// The maximum depth of an expression that is looked through.
const DEPTH: usize = 16;
/// All whole numbers up to here are `float32`.
const EXACT: f64 = 16_777_216.0;

/// A number between bounds that are numbers: the number, and the bounds. One that has both is no
/// NaN: the comparison with NaN yields the second operand.
pub(crate) fn bounded(e: &Ex) -> (&Ex, f64, f64) {
    let (mut core, mut bounds) = (e, Vec::new());
    while let ExKind::Binary(op @ (BinOp::Max | BinOp::Min), x, b) = core.kind()
        && let Some(b) = b.as_float()
    {
        bounds.push((*op, b));
        core = x;
    }
    let (mut low, mut high) = (f64::NEG_INFINITY, f64::INFINITY);
    for (op, b) in bounds.into_iter().rev() {
        (low, high) = match op {
            BinOp::Max => (low.max(b), high.max(b)),
            _ => (low.min(b), high.min(b)),
        };
    }
    (core, low, high)
}

/// The facts about a number: only [`Known::ANY`] may also be NaN.
#[derive(Clone, Copy)]
struct Known {
    low: f64,
    high: f64,
    /// Whether it may be -0, which no integer is.
    negative_zero: bool,
}

impl Known {
    const ANY: Known = Known {
        low: f64::NEG_INFINITY,
        high: f64::INFINITY,
        negative_zero: true,
    };
}

/// Returns the facts about a whole number in `float32`; `None` for expressions that may have a
/// fraction.
fn whole(e: &Ex, depth: usize) -> Option<Known> {
    if depth == 0 || e.dtype() != DType::F32 {
        return None;
    }
    match e.kind() {
        ExKind::Float(v) if v.fract() == 0.0 => Some(Known {
            low: *v,
            high: *v,
            negative_zero: *v == 0.0 && v.is_sign_negative(),
        }),
        ExKind::Unary(
            UnOp::RoundEven | UnOp::Round | UnOp::Floor | UnOp::Ceil | UnOp::Trunc,
            _,
        ) => Some(Known::ANY),
        // Whole numbers that are too large to be exact in a float have whole sums, too.
        ExKind::Binary(BinOp::Add, a, b) => {
            let (a, b) = (whole(a, depth - 1)?, whole(b, depth - 1)?);
            let negative_zero = a.negative_zero && b.negative_zero;
            Some(Known {
                negative_zero,
                ..Known::ANY
            })
        }
        ExKind::Binary(BinOp::Sub, a, b) => {
            let (a, _) = (whole(a, depth - 1)?, whole(b, depth - 1)?);
            Some(Known {
                negative_zero: a.negative_zero,
                ..Known::ANY
            })
        }
        // The comparison with NaN yields the second operand.
        ExKind::Binary(BinOp::Max, x, bound) => {
            let (x, bound) = (whole(x, depth - 1)?, number(bound)?);
            Some(Known {
                low: x.low.max(bound),
                high: x.high.max(bound),
                negative_zero: x.negative_zero && bound < 0.0,
            })
        }
        ExKind::Binary(BinOp::Min, x, bound) => {
            let (x, bound) = (whole(x, depth - 1)?, number(bound)?);
            Some(Known {
                low: x.low.min(bound),
                high: x.high.min(bound),
                negative_zero: x.negative_zero && bound > 0.0,
            })
        }
        _ => None,
    }
}

/// A bound that is whole and not -0.
fn number(e: &Ex) -> Option<f64> {
    match e.kind() {
        ExKind::Float(v) if v.fract() == 0.0 && !(*v == 0.0 && v.is_sign_negative()) => Some(*v),
        _ => None,
    }
}

/// An integer as the `float32` that it is equal to, and its bounds.
type Equal = (Ex, f64, f64);

/// Returns an integer that was computed from floats or from loaded numbers of few bits as the
/// `float32` that it is equal to, and its bounds.
fn as_float(e: &Ex) -> Option<Equal> {
    as_float_within(e, DEPTH, &mut FxHashMap::default())
}

/// Like [`as_float`]. `done` has what shared parts are, which stay shared.
fn as_float_within(
    e: &Ex,
    depth: usize,
    done: &mut FxHashMap<usize, Option<Equal>>,
) -> Option<Equal> {
    if depth == 0 || !e.dtype().is_integral() {
        return None;
    }
    if e.is_shared()
        && let Some(known) = done.get(&e.addr())
    {
        return known.clone();
    }
    let found = equal_float(e, depth, done);
    if e.is_shared() {
        done.insert(e.addr(), found.clone());
    }
    found
}

fn equal_float(e: &Ex, depth: usize, done: &mut FxHashMap<usize, Option<Equal>>) -> Option<Equal> {
    let (least, most) = e.dtype().int_range()?;
    let (least, most) = (least as f64, most as f64);
    let found = match e.kind() {
        ExKind::Int(v) => (Ex::float(DType::F32, *v as f64), *v as f64, *v as f64),
        ExKind::Cast(x) if x.dtype() == DType::F32 => {
            let known = whole(x, depth - 1)?;
            let x = match known.negative_zero {
                true => x + &x.same(0.0),
                false => x.clone(),
            };
            (x, known.low, known.high)
        }
        ExKind::Cast(x) => as_float_within(x, depth - 1, done)?,
        ExKind::Load(..) if e.dtype().bits <= 16 => (e.cast(DType::F32), least, most),
        ExKind::Binary(op, a, b) => {
            let a = as_float_within(a, depth - 1, done)?;
            let b = as_float_within(b, depth - 1, done)?;
            match op {
                BinOp::Add => (a.0 + b.0, a.1 + b.1, a.2 + b.2),
                BinOp::Sub => (a.0 - b.0, a.1 - b.2, a.2 - b.1),
                BinOp::Max => (a.0.max(b.0), a.1.max(b.1), a.2.max(b.2)),
                BinOp::Min => (a.0.min(b.0), a.1.min(b.1), a.2.min(b.2)),
                _ => return None,
            }
        }
        _ => return None,
    };
    let fits = found.1 >= least.max(-EXACT) && found.2 <= most.min(EXACT);
    fits.then_some(found)
}

/// Returns the float that replaces one with an integer in between.
fn shortened(e: &Ex) -> Option<Ex> {
    match e.kind() {
        ExKind::Cast(x) if e.dtype() == DType::F32 && !matches!(x.kind(), ExKind::Load(..)) => {
            as_float(x).map(|found| found.0)
        }
        _ => None,
    }
}

/// Returns the `float32` that becomes a byte by truncation, within the byte's range and no NaN; `None`
/// also where nothing is converted: a vector holds four times as many bytes as floats.
pub fn as_byte(e: &Ex) -> Option<Ex> {
    let dtype = e.dtype();
    let (least, most) = matches!(dtype, DType::I8 | DType::U8)
        .then(|| dtype.int_range())
        .flatten()?;
    let (float, low, high) = match e.kind() {
        ExKind::Cast(x) if x.dtype() == DType::F32 => {
            let (_, low, high) = bounded(x);
            (x.clone(), low, high)
        }
        _ if !converts(e) => return None,
        _ => as_float(e)?,
    };
    (low >= least as f64 && high <= most as f64).then_some(float)
}

/// Returns whether an expression converts a number to another type anywhere.
fn converts(e: &Ex) -> bool {
    let mut some = false;
    visit_expr(e, |e| some |= matches!(e.kind(), ExKind::Cast(_)));
    some
}

/// Removes the integers where floats become integers and floats again, if the result is bitwise
/// equal.
pub fn shorten_round_trips(mut program: Cow<'_, Program>) -> Cow<'_, Program> {
    for k in 0..program.stages.len() {
        let Stage::Compute(c) = &program.stages[k] else {
            continue;
        };
        let mut some = false;
        visit_expr(&c.value, |e| {
            some |= e.dtype() == DType::F32
                && matches!(e.kind(), ExKind::Cast(x) if x.dtype().is_integral());
        });
        if !some {
            continue;
        }
        let value = map_expr(&c.value, shortened);
        if value.addr() == c.value.addr() {
            continue;
        }
        if let Stage::Compute(c) = &mut program.to_mut().stages[k] {
            c.value = value;
        }
    }
    program
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Var;

    fn quantised(zero: f64, to: DType) -> Ex {
        let x = Ex::var(Var(0), DType::F32);
        let (low, high) = to.int_range().unwrap_or_default();
        let y = (&x / &x.same(0.25)).unary(UnOp::RoundEven);
        let y = if zero == 0.0 { y } else { &y + &x.same(zero) };
        let y = y.max(x.same(low as f64)).min(x.same(high as f64));
        y.cast(to)
    }

    fn integers(e: &Ex) -> bool {
        let mut some = false;
        visit_expr(e, |e| some |= e.dtype().is_integral());
        some
    }

    #[test]
    fn whole_numbers_within_range_need_no_integers() {
        for (zero, to) in [
            (114.0, DType::U8),
            (0.0, DType::U8),
            (0.0, DType::I8),
            (-3.0, DType::I8),
        ] {
            let q = quantised(zero, to);
            let back = shortened(&q.cast(DType::F32)).expect("it is shortened");
            assert!(!integers(&back));
            let taken_off = q.cast(DType::I32) - Ex::int(DType::I32, zero as i64);
            let back = shortened(&taken_off.cast(DType::F32)).expect("it is shortened");
            assert!(!integers(&back));
        }
    }

    #[test]
    fn shared_parts_stay_shared() {
        let mut sum = Ex::new(ExKind::Load(crate::Buf(0), Vec::new()), DType::U8).cast(DType::I32);
        for _ in 0..12 {
            sum = &sum + &sum;
        }
        let back = shortened(&sum.cast(DType::F32)).expect("it is shortened");
        let mut parts = 0;
        visit_expr(&back, |_| parts += 1);
        assert!(parts < 20, "{parts} parts");
    }

    /// A vector holds more bytes than floats, unless there are floats anyway.
    #[test]
    fn bytes_alone_stay_bytes() {
        let byte = Ex::new(ExKind::Load(crate::Buf(0), Vec::new()), DType::U8);
        assert!(as_byte(&byte.max(byte.same(3.0))).is_none());
        let sum = byte.cast(DType::I32) - Ex::int(DType::I32, 7);
        let bounded = sum.max(sum.same(0.0)).min(sum.same(255.0)).cast(DType::U8);
        assert!(as_byte(&bounded).is_some());
    }

    #[test]
    fn others_stay() {
        let x = Ex::var(Var(0), DType::F32);
        let back = |e: &Ex, to: DType| shortened(&e.cast(to).cast(DType::F32));
        let bounded = |e: &Ex, low: f64, high: f64| e.max(x.same(low)).min(x.same(high));
        let rounded = x.unary(UnOp::RoundEven);
        // Fractions, numbers that saturate, numbers that no float represents, NaN.
        assert!(back(&bounded(&x, 0.0, 255.0), DType::U8).is_none());
        assert!(back(&bounded(&rounded, 0.0, 255.0), DType::I8).is_none());
        assert!(back(&bounded(&rounded, 0.5, 255.0), DType::U8).is_none());
        assert!(back(&bounded(&rounded, 0.0, 1e9), DType::I32).is_none());
        assert!(back(&rounded, DType::I32).is_none());
    }

    #[test]
    fn minus_zero_becomes_zero() {
        let x = Ex::var(Var(0), DType::F32);
        let y = (x.unary(UnOp::RoundEven))
            .max(x.same(-128.0))
            .min(x.same(127.0));
        let back = shortened(&y.cast(DType::I8).cast(DType::F32)).expect("it is shortened");
        assert!(back == &y + &x.same(0.0));
    }
}
