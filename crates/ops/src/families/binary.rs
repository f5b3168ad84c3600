//! Binary element-wise operators, with numpy's broadcasting.

use crate::{Build, ComputeError, Fusion, OpDef, RelCx, RelResult, Site, Te, input};
use relax_ir::{ExprId, Shape, Type};
use relax_loops::{BinOp, Ex};
use relax_tensor::{DType, Tensor};

macro_rules! binary {
    ($($name:literal $(($sugar:literal))? $rel:ident $op:expr, $doc:literal $(, $hook:ident $(= $with:expr)?)*;)*) => {
        /// The family.
        pub static OPS: &[OpDef] = &[$(
            OpDef::new($name, $doc, $rel)
                $(.sugar($sugar))?
                $(.$hook($($with)?))*
                .inputs(&[input("lhs", "the left operand"), input("rhs", "the right operand")])
                .fusion(Fusion::Broadcast)
                .compute(|te: &mut Te<'_>| -> Result<(), ComputeError> { te.broadcast($op) }),
        )*];
    };
}

binary! {
    "add" ("+") broadcast |a, b| a + b, "The sum.", scale = crate::ScaleRole::Sum, affine_rule = super::affine_rules::add;
    "subtract" ("-") broadcast |a, b| a - b, "The difference.", scale = crate::ScaleRole::Sum, affine_rule = super::affine_rules::subtract;
    "multiply" ("*") broadcast |a, b| a * b, "The product.", scale = crate::ScaleRole::Product, affine_rule = super::affine_rules::multiply;
    "divide" ("/") broadcast |a, b| a / b, "The quotient; of integers, truncated.";
    "trunc_divide" broadcast truncated, "The quotient, truncated.";
    "floor_divide" broadcast |a, b| a.floor_div(b), "The quotient, rounded down.";
    "mod" broadcast |a, b| a.rem(b), "The remainder with the sign of the left operand.";
    "trunc_mod" broadcast |a, b| a.rem(b), "The remainder with the sign of the left operand.";
    "floor_mod" ("%") broadcast |a, b| a.floor_mod(b), "The remainder with the sign of the right operand.";
    "power" broadcast |a, b| a.pow(b), "The left operand to the power of the right.", full_precision, for_kernels = squared;
    "maximum" broadcast |a, b| a.max(b), "The greater one.", affine_ordered = super::affine_rules::maximum;
    "minimum" broadcast |a, b| a.min(b), "The lesser one.", affine_ordered = super::affine_rules::minimum;
    "left_shift" broadcast |a, b| a.shl(b), "The bits of the left operand moved up.";
    "right_shift" broadcast |a, b| a.shr(b), "The bits of the left operand moved down, the sign kept.";
    "bitwise_and" broadcast |a, b| a & b, "Bits that both have.";
    "bitwise_or" broadcast |a, b| a | b, "Bits that either has.";
    "bitwise_xor" broadcast |a, b| a ^ b, "Bits that one of them has.";
    "logical_and" ("&&") broadcast |a, b| logical(BinOp::And, a, b), "Whether both hold.";
    "logical_or" ("||") broadcast |a, b| logical(BinOp::Or, a, b), "Whether either holds.";
    "logical_xor" broadcast |a, b| logical(BinOp::Xor, a, b), "Whether one of them holds.";
    "equal" ("==") compare |a, b| a.eq(b), "Whether they are equal.";
    "not_equal" ("!=") compare |a, b| a.ne(b), "Whether they differ.";
    "less" ("<") compare |a, b| a.lt(b), "Whether the left one is less.";
    "less_equal" ("<=") compare |a, b| a.le(b), "Whether the left one is less or equal.";
    "greater" (">") compare |a, b| a.gt(b), "Whether the left one is greater.";
    "greater_equal" (">=") compare |a, b| a.ge(b), "Whether the left one is greater or equal.";
}

/// Combines the truth values of both operands, as a value of the operands' type.
fn logical(op: BinOp, a: &Ex, b: &Ex) -> Ex {
    a.cast(DType::BOOL)
        .binary(op, &b.cast(DType::BOOL))
        .cast(a.dtype())
}

/// Returns the quotient truncated towards zero.
fn truncated(a: &Ex, b: &Ex) -> Ex {
    let q = a / b;
    if q.dtype().is_float() {
        q.unary(relax_loops::UnOp::Trunc)
    } else {
        q
    }
}

/// The square of floats as a product, which takes a fraction of the time.
fn squared(b: &mut dyn Build, site: &Site) -> Option<ExprId> {
    let [base, exponent] = site.args[..] else {
        return None;
    };
    let twos = |t: Tensor| (0..t.len()).all(|i| t.get_f64(i) == 2.0);
    let square = b.dtype(base)?.is_float() && twos(b.value(exponent)?);
    // The exponents may broadcast the base.
    let fits = b.extents(base).is_some() && b.extents(base) == b.extents(site.call);
    (square && fits).then(|| b.call("multiply", &[base, base], &[]))
}

/// Requires equal element types and shapes that broadcast; the result has the operands' element
/// type.
pub fn broadcast(cx: &mut RelCx<'_>) -> RelResult {
    broadcast_to(cx, None)
}

/// Requires equal element types and shapes that broadcast; the result is `bool`.
fn compare(cx: &mut RelCx<'_>) -> RelResult {
    broadcast_to(cx, Some(DType::BOOL))
}

fn broadcast_to(cx: &mut RelCx<'_>, result: Option<DType>) -> RelResult {
    let (a, b) = (cx.tensor(0)?, cx.tensor(1)?);
    let dtype = cx.require_dtype(
        a.dtype,
        b.dtype,
        crate::Subject::Call,
        "operands have one element type",
    )?;
    let dtype = result.map_or(dtype, Into::into);
    match (&a.shape, &b.shape) {
        (Shape::Dims(x), Shape::Dims(y)) => {
            let dims = cx.broadcast(x, y)?;
            cx.set_tensor(dims, dtype)
        }
        // Two equal shapes broadcast to themselves, whatever they are.
        (x, y) if x == y && !matches!(x, Shape::Unknown) => {
            let shape = a.shape.clone();
            let t = cx
                .host
                .types_mut()
                .intern(Type::Tensor(relax_ir::TensorType { shape, dtype }));
            cx.set_out(t)
        }
        // A scalar takes the shape of the other operand, even if it is unknown.
        (Shape::Dims(d), other) | (other, Shape::Dims(d)) if d.is_empty() => {
            let shape = other.clone();
            let t = cx
                .host
                .types_mut()
                .intern(Type::Tensor(relax_ir::TensorType { shape, dtype }));
            cx.set_out(t)
        }
        (Shape::Unknown, _) | (_, Shape::Unknown) => cx.finish_unranked(dtype),
        _ => Err(crate::Stop::Wait),
    }
}
