//! Unary element-wise operators, and the relation they share.

use relax_ir::Type;
use relax_loops::{Ex, UnOp};
use relax_tensor::DType;

use crate::AttrTy::Float;
use crate::{ComputeError, Default, Fusion, OpDef, RelCx, RelResult, Subject, Te, attr, input};

/// The result has the type of the first argument, a tensor.
pub fn identity(cx: &mut RelCx<'_>) -> RelResult {
    cx.set_out(cx.args[0])?;
    cx.tensor(0).map(|_| ())
}

/// The result has the shape of the first argument and is `bool`.
fn predicate(cx: &mut RelCx<'_>) -> RelResult {
    let mut t = cx.tensor(0)?;
    t.dtype = DType::BOOL.into();
    let ty = cx.host.types_mut().intern(Type::Tensor(t));
    cx.set_out(ty)
}

macro_rules! unary {
    ($($name:literal $rel:ident $f:expr, $doc:literal $(, $hook:ident $(= $with:expr)?)*;)*) => {
        /// The family.
        pub static OPS: &[OpDef] = &[
            $(OpDef::new($name, $doc, $rel)
                $(.$hook($($with)?))*
                .inputs(&[input("data", "the input")])
                .fusion(Fusion::Elementwise)
                .compute(|te: &mut Te<'_>| -> Result<(), ComputeError> {
                    te.elementwise($f)
                }),)*
            OpDef::new("clip", "Each element brought into a range.", clip)
                .affine_ordered(super::affine_rules::clip)
                .inputs(&[input("data", "the input")])
                .attrs(&[
                    attr("a_min", Float, Default::Required, "the least value"),
                    attr("a_max", Float, Default::Required, "the greatest value"),
                ])
                .fusion(Fusion::Elementwise)
                .compute(clip_compute),
        ];
    };
}

unary! {
    "exp" identity |x| x.unary(UnOp::Exp), "e to the power of each element.", full_precision, fast_form = "fast_exp", in_relax = super::relax_rules::floats;
    "log" identity |x| x.unary(UnOp::Log), "The natural logarithm of each element.", in_relax = super::relax_rules::floats;
    "log2" identity |x| x.unary(UnOp::Log2), "The logarithm to base 2 of each element.";
    "log10" identity |x| x.unary(UnOp::Log10), "The logarithm to base 10 of each element.";
    "sqrt" identity |x| x.unary(UnOp::Sqrt), "The square root of each element.", in_relax = super::relax_rules::floats;
    "rsqrt" identity |x| x.unary(UnOp::Rsqrt), "One over the square root of each element.", in_relax = super::relax_rules::floats;
    "sin" identity |x| x.unary(UnOp::Sin), "The sine of each element.", in_relax = super::relax_rules::floats;
    "cos" identity |x| x.unary(UnOp::Cos), "The cosine of each element.", in_relax = super::relax_rules::floats;
    "tan" identity |x| x.unary(UnOp::Tan), "The tangent of each element.", in_relax = super::relax_rules::floats;
    "asin" identity |x| x.unary(UnOp::Asin), "The arc sine of each element.", in_relax = super::relax_rules::floats;
    "acos" identity |x| x.unary(UnOp::Acos), "The arc cosine of each element.", in_relax = super::relax_rules::floats;
    "atan" identity |x| x.unary(UnOp::Atan), "The arc tangent of each element.", in_relax = super::relax_rules::floats;
    "sinh" identity |x| x.unary(UnOp::Sinh), "The hyperbolic sine of each element.", in_relax = super::relax_rules::floats;
    "cosh" identity |x| x.unary(UnOp::Cosh), "The hyperbolic cosine of each element.", in_relax = super::relax_rules::floats;
    "tanh" identity |x| x.unary(UnOp::Tanh), "The hyperbolic tangent of each element.", fast_form = "fast_tanh", in_relax = super::relax_rules::floats;
    "asinh" identity |x| x.unary(UnOp::Asinh), "The inverse hyperbolic sine of each element.", in_relax = super::relax_rules::floats;
    "acosh" identity |x| x.unary(UnOp::Acosh), "The inverse hyperbolic cosine of each element.", in_relax = super::relax_rules::floats;
    "atanh" identity |x| x.unary(UnOp::Atanh), "The inverse hyperbolic tangent of each element.", in_relax = super::relax_rules::floats;
    "erf" identity |x| x.unary(UnOp::Erf), "The error function of each element.", full_precision, fast_form = "fast_erf", in_relax = super::relax_rules::floats;
    "sigmoid" identity |x| x.unary(UnOp::Sigmoid), "The logistic function of each element.", in_relax = super::relax_rules::floats;
    "fast_exp" identity |x| x.unary(UnOp::Exp), "`exp`, for which an approximation will do.";
    "fast_erf" identity |x| x.unary(UnOp::Erf), "`erf`, for which an approximation will do.";
    "fast_tanh" identity |x| x.unary(UnOp::Tanh), "`tanh`, for which an approximation will do.";
    "floor" identity |x| rounded(UnOp::Floor, x), "Each element rounded down.";
    "ceil" identity |x| rounded(UnOp::Ceil, x), "Each element rounded up.";
    "trunc" identity |x| rounded(UnOp::Trunc, x), "Each element without its fraction.";
    "round" identity |x| rounded(UnOp::Round, x), "Each element rounded to the nearest integer.";
    "round_half_to_even" identity |x| rounded(UnOp::RoundEven, x), "Each element rounded to the nearest integer, halves to the even one.";
    "abs" identity |x| x.unary(UnOp::Abs), "The absolute value of each element.";
    "negative" identity |x| -x, "Each element negated.";
    "sign" identity sign, "-1, 0 or 1 by the sign of each element.";
    "hardswish" identity hardswish, "`x * clip(x + 3, 0, 6) / 6` of each element.";
    "logical_not" identity |x| (!x.cast(DType::BOOL)).cast(x.dtype()), "Whether each element does not hold.";
    "bitwise_not" identity |x| !x, "The bits of each element inverted.";
    "isnan" predicate |x| test(UnOp::IsNan, x, false), "Whether each element is NaN.";
    "isinf" predicate |x| test(UnOp::IsInf, x, false), "Whether each element is an infinity.";
    "isfinite" predicate |x| test(UnOp::IsFinite, x, true), "Whether each element is neither NaN nor an infinity.";
}

/// Rounding leaves integers alone.
fn rounded(op: UnOp, x: &Ex) -> Ex {
    if x.dtype().is_float() {
        x.unary(op)
    } else {
        x.clone()
    }
}

/// A test of floats that has the same answer for all integers.
fn test(op: UnOp, x: &Ex, integers: bool) -> Ex {
    if x.dtype().is_float() {
        x.unary(op)
    } else {
        Ex::bool(integers)
    }
}

fn sign(x: &Ex) -> Ex {
    let dtype = x.dtype();
    if dtype.is_int() {
        return x.min(1i64).max(-1i64);
    }
    if !dtype.is_float() && !dtype.is_bool() {
        return x.min(1i64);
    }
    let negative = Ex::where_(&x.lt(0i64), &x.same(-1.0), &x.same(0.0));
    Ex::where_(&x.gt(0i64), &x.same(1.0), &negative)
}

/// `x * clip(x + 3, 0, 6) / 6`.
pub(super) fn hardswish(x: &Ex) -> Ex {
    let inner = (x + &x.same(3.0)).max(0i64).min(6i64);
    x * inner / x.same(6.0)
}

fn clip(cx: &mut RelCx<'_>) -> RelResult {
    for name in ["a_min", "a_max"] {
        if cx.attr(name).as_float().is_none() {
            return cx.refuse(
                Subject::Attr(name),
                format!("attribute `{name}` must be a number"),
            );
        }
    }
    identity(cx)
}

fn clip_compute(te: &mut Te<'_>) -> Result<(), ComputeError> {
    let (low, high) = (te.float("a_min")?, te.float("a_max")?);
    // Bounds beyond an integer type are clamped to its own bounds.
    let bound = |x: &Ex, v: f64| match x.dtype().int_range() {
        Some((least, greatest)) if !x.dtype().is_float() => {
            let v = (v as i128).clamp(least, greatest);
            Ex::int(x.dtype(), v as i64)
        }
        _ => x.same(v),
    };
    // The upper bound first, so that NaN becomes it, as in TVM.
    te.elementwise(|x| x.min(bound(x, high)).max(bound(x, low)))
}
