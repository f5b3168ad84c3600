//! `promote-halves`: computes operators that accumulate in float32 by the float32 kernels.
//!
//! Convolutions and products of float16 and bfloat16 sum in float32 and round at the end, as their
//! entries specify. Casting the operands and casting the result back is equivalent, so that the
//! kernels for float32 can compute it, and constant weights are cast only once.

use relax_base::Diagnostics;
use relax_ir::{AttrValue, ExprId};
use relax_tensor::DType;

use crate::edit::Edit;
use crate::{Analysis, Contract, PassCx, PassDef};

/// The pass.
pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "promote-halves",
    doc: "Computes in float32 what of float16 and bfloat16 is summed in float32 anyway.",
    options: &[],
    contract: Contract::TYPED
        .idempotent()
        .each_function()
        .reorders()
        .preserves(&[Analysis::Effects]),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let count = Edit::new(cx.module, &typing).replace(promoted);
    cx.count("calls promoted", count);
    Ok(())
}

/// The products that an element of an operand must be in for its conversion to pay: what is read
/// once takes as long as its bytes take to be read, and there are twice as many after it.
const READ: i64 = 4;

/// Returns whether the elements of the larger of two operands are in [`READ`] products or more, by
/// what a product of matrices of these sizes would have; where extents are not known, that is taken
/// for granted.
fn pays(edit: &Edit<'_>, node: ExprId, args: &[ExprId]) -> bool {
    let count = |e: ExprId| Some(edit.extents(e)?.iter().product::<i64>());
    let [a, b] = args[..] else {
        return true;
    };
    match (count(a), count(b), count(node)) {
        (Some(a), Some(b), Some(y)) => {
            let least = READ.saturating_mul(READ).saturating_mul(a.max(b));
            a.min(b).saturating_mul(y) >= least
        }
        _ => true,
    }
}

/// Returns the call over float32, cast back.
fn promoted(edit: &mut Edit<'_>, node: ExprId) -> Option<ExprId> {
    let call = edit.op_call(node)?;
    if !(call.def.hooks.rounds_once)(edit.m.attrs(call.attrs)) {
        return None;
    }
    let half = edit.dtype(node)?;
    let same = call.args.iter().all(|&a| edit.dtype(a) == Some(half));
    let narrow = matches!(half, DType::F16 | DType::BF16);
    if !same || !narrow || !pays(edit, node, &call.args) {
        return None;
    }
    let span = edit.m.span(node);
    let args: Vec<ExprId> = (call.args.iter())
        .map(|&a| edit.cast(a, DType::F32, span))
        .collect();
    let mut attrs = edit.m.attrs(call.attrs).clone();
    if let Some(name) = call.def.hooks.result_dtype
        && matches!(attrs.get(name), Some(AttrValue::DType(d)) if !d.is_void())
    {
        attrs.set(name, AttrValue::DType(DType::F32));
    }
    let wide = edit.recall(&call, &args, attrs, span);
    edit.typed(wide).then(|| edit.cast(wide, half, span))
}
