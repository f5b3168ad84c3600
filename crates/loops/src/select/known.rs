//! Numbers that are known when a program is compiled.
//!
//! Quantised operators compute a factor and a shift from scales, once for each tensor. Where scales
//! are constants, these are computed here as the evaluator computes them; what reads them has
//! constants then, by which shifts and products become simpler.

use std::borrow::Cow;

use relax_tensor::DType;
use rustc_hash::FxHashMap;

use crate::exec::scalar;
use crate::expr::wrap;
use crate::rewrite::map_expr;
use crate::{BinOp, Buf, Ex, ExKind, Program, Role, Stage, UnOp};

/// Replaces numbers that stages compute from constants alone. Without any, the program is unchanged;
/// stages that nothing reads any more stay.
pub(super) fn fold(mut program: Cow<'_, Program>) -> Cow<'_, Program> {
    let mut known: FxHashMap<Buf, Ex> = FxHashMap::default();
    for k in 0..program.stages.len() {
        let Stage::Compute(c) = &program.stages[k] else {
            continue;
        };
        if program.hint(c.out).is_some() {
            continue;
        }
        let value = map_expr(&c.value, |e| match e.kind() {
            ExKind::Load(buf, index) if index.is_empty() => known.get(buf).cloned(),
            _ => simpler(e),
        });
        let one = c.axes.is_empty() && c.reduce.is_none() && bits(&value).is_some();
        let own = one && program.bufs[c.out].role == Role::Temp;
        if own && is_only_writer(&program, k) {
            known.insert(c.out, value.clone());
        }
        if value.addr() != c.value.addr()
            && let Stage::Compute(c) = &mut program.to_mut().stages[k]
        {
            c.value = value;
        }
    }
    program
}

/// Returns whether no other stage writes what stage `k` does; a nest may be one that does.
fn is_only_writer(program: &Program, k: usize) -> bool {
    let out = program.stages[k].written();
    (program.stages.iter().enumerate()).all(|(other, stage)| match stage {
        Stage::Compute(_) => other == k || stage.written() != out,
        Stage::Nest(_) => false,
    })
}

/// Returns what an operation on constants, or by a constant that changes nothing, gives.
fn simpler(e: &Ex) -> Option<Ex> {
    match e.kind() {
        ExKind::Unary(op, a) if is_exact(*op) => {
            constant(e.dtype(), scalar::unary(*op, a.dtype(), bits(a)?)?)
        }
        ExKind::Binary(op, a, b) => {
            if let (Some(x), Some(y)) = (bits(a), bits(b)) {
                let zero = e.dtype().is_integral() && b.as_int() == Some(0);
                let fits = match op {
                    BinOp::Div | BinOp::Rem | BinOp::FloorDiv | BinOp::FloorMod => !zero,
                    BinOp::Pow | BinOp::Atan2 => false,
                    _ => true,
                };
                let value = fits.then(|| scalar::binary(*op, a.dtype(), x, y))??;
                return constant(e.dtype(), value);
            }
            if let Some(sum) = sum(e) {
                return Some(sum);
            }
            match (op, b.as_int()?) {
                (BinOp::Shl | BinOp::Shr, 0) => Some(a.clone()),
                // Exact where numbers wrap.
                (BinOp::Mul, factor) => match a.kind() {
                    ExKind::Binary(BinOp::Shl, x, by) if e.dtype() == DType::I64 => {
                        let by = u32::try_from(by.as_int()?).ok().filter(|by| *by < 64)?;
                        Some(x * &Ex::int(DType::I64, factor.wrapping_shl(by)))
                    }
                    _ => None,
                },
                _ => None,
            }
        }
        ExKind::Cast(a) => constant(e.dtype(), scalar::cast(a.dtype(), e.dtype(), bits(a)?)?),
        ExKind::Reinterpret(a) => constant(e.dtype(), bits(a)?),
        _ => None,
    }
}

/// Returns a sum of narrow integers, which wrap, with all constants of its two operands in one; `None`
/// where that is not less.
fn sum(e: &Ex) -> Option<Ex> {
    let ExKind::Binary(op @ (BinOp::Add | BinOp::Sub), a, b) = e.kind() else {
        return None;
    };
    let dtype = e.dtype();
    if !dtype.is_int() || dtype == DType::I64 || dtype.as_param().is_some() {
        return None;
    }
    // An operand without its constant (`None` for one that is a constant), and that.
    let parts = |e: &Ex| match e.kind() {
        ExKind::Int(v) => (None, Some(*v)),
        ExKind::Binary(BinOp::Add, x, y) => match (x.as_int(), y.as_int()) {
            (Some(c), _) => (Some(y.clone()), Some(c)),
            (_, Some(c)) => (Some(x.clone()), Some(c)),
            _ => (Some(e.clone()), None),
        },
        _ => (Some(e.clone()), None),
    };
    let ((x, c), (y, d)) = (parts(a), parts(b));
    let (first, second) = (c.unwrap_or(0), d.unwrap_or(0));
    let constant = match op {
        BinOp::Add => first.wrapping_add(second),
        _ => first.wrapping_sub(second),
    };
    let constant = wrap(dtype, constant);
    let rest = match (x, y) {
        (Some(x), None) if c.is_some() => x,
        (None, Some(y)) if d.is_some() && *op == BinOp::Add => y,
        (Some(x), Some(y)) if c.is_some() || d.is_some() => x.binary(*op, &y),
        _ => return None,
    };
    Some(match constant {
        0 => rest,
        constant => rest.binary(BinOp::Add, &Ex::int(dtype, constant)),
    })
}

/// Returns whether all engines compute a function of one number alike, to the last bit.
fn is_exact(op: UnOp) -> bool {
    use UnOp::{Abs, Ceil, Floor, IsFinite, IsInf, IsNan, Neg, Not, Round, RoundEven, Sqrt, Trunc};
    matches!(
        op,
        Neg | Abs
            | Not
            | Floor
            | Ceil
            | Trunc
            | Round
            | RoundEven
            | Sqrt
            | IsNan
            | IsInf
            | IsFinite
    )
}

/// Returns the bits of a constant in memory, zero-extended; `None` for other expressions, and types
/// that are not folded.
fn bits(e: &Ex) -> Option<u64> {
    let (dtype, mask) = (
        e.dtype(),
        u64::MAX >> (64 - 8 * e.dtype().size().clamp(1, 8)),
    );
    match e.kind() {
        ExKind::Int(v) if dtype.is_integral() && dtype.as_param().is_none() => {
            Some(*v as u64 & mask)
        }
        ExKind::Float(v) if dtype == DType::F64 => Some(v.to_bits()),
        ExKind::Float(v) if dtype == DType::F32 => Some((*v as f32).to_bits().into()),
        _ => None,
    }
}

/// Returns the constant with some bits; `None` for a NaN, whose bits a constant does not keep.
fn constant(dtype: DType, bits: u64) -> Option<Ex> {
    let float = match dtype {
        DType::F64 => f64::from_bits(bits),
        DType::F32 => f32::from_bits(bits as u32).into(),
        _ if dtype.is_bool() => return Some(Ex::bool(bits != 0)),
        _ if dtype.is_integral() && dtype != DType::U64 => {
            return Some(Ex::int(dtype, wrap(dtype, bits as i64)));
        }
        _ => return None,
    };
    (!float.is_nan()).then(|| Ex::float(dtype, float))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Builder;

    /// A factor is known where it is computed from constants, and what reads it has it.
    #[test]
    fn numbers_of_constants_are_known() {
        let mut b = Builder::new("scaled");
        let x = b.input("x", DType::I64, &[Some(100)]);
        let ratio = &Ex::float(DType::F64, 3.0) * &Ex::float(DType::F64, 0.25);
        let exponent = ratio
            .reinterpret(DType::I64)
            .binary(BinOp::Shr, &Ex::idx(52));
        let n = b.compute("n", &[], |_| exponent.clone());
        let y = b.compute("y", &x.shape, |i| {
            x.at(i).binary(BinOp::Shl, &(&n.at(&[]) - &Ex::idx(1022))) * &Ex::idx(3)
        });
        b.output(&y);
        let folded = fold(Cow::Borrowed(&b.program));
        let value = |k: usize| match &folded.stages[k] {
            Stage::Compute(c) => c.value.clone(),
            Stage::Nest(_) => unreachable!("there is none"),
        };
        assert_eq!(value(0).as_int(), Some(1022), ".75 is 1.5 by two");
        let ExKind::Binary(BinOp::Mul, _, factor) = value(1).kind().clone() else {
            panic!("a product: {:?}", value(1));
        };
        assert_eq!(factor.as_int(), Some(3));
    }

    /// Constants of a sum of narrow integers are one; a single one stays where it is.
    #[test]
    fn sums_have_one_constant() {
        let mut b = Builder::new("sum");
        let [x, y] = ["x", "y"].map(|n| b.input(n, DType::I32, &[Some(4)]));
        let int = |v| Ex::int(DType::I32, v);
        let z = b.compute("z", &x.shape, |i| {
            &(&(&int(3) + &x.at(i)) + &(&int(2_000_000_000) + &y.at(i))) - &int(-2_000_000_000)
        });
        let w = b.compute("w", &x.shape, |i| &x.at(i) - &int(7));
        b.output(&z);
        b.output(&w);
        let folded = fold(Cow::Borrowed(&b.program));
        let [Stage::Compute(z), Stage::Compute(w)] = &folded.stages[..] else {
            panic!("two stages");
        };
        let ExKind::Binary(BinOp::Add, _, constant) = z.value.kind() else {
            panic!("a sum: {:?}", z.value);
        };
        assert_eq!(
            constant.as_int(),
            Some(4_000_000_003 - (1 << 32)),
            "it wraps"
        );
        assert!(matches!(w.value.kind(), ExKind::Binary(BinOp::Sub, ..)));
    }

    /// A NaN, and a quotient of integers by 0, are left as they are.
    #[test]
    fn what_has_no_constant_is_left() {
        let nan = &Ex::float(DType::F64, 0.0) * &Ex::float(DType::F64, f64::INFINITY);
        let by_zero = Ex::int(DType::I32, 1).binary(BinOp::Div, &Ex::int(DType::I32, 0));
        for e in [nan, by_zero] {
            assert!(simpler(&e).is_none(), "{e:?}");
        }
    }
}
