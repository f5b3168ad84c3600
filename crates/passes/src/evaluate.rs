//! Evaluation of a single call on constants.

use relax_ir::Attrs;
use relax_ops::registry;
use relax_tensor::Tensor;

use crate::edit::Edit;

/// Returns the value of a call of a built-in operator with one tensor as its result; `None` if it
/// has no computation, its shape depends on values, or the computation fails.
pub(crate) fn call_value(
    edit: &mut Edit<'_>,
    name: &str,
    attrs: &Attrs,
    args: &[Tensor],
) -> Option<Tensor> {
    let op = registry().find(name)?;
    relax_programs::value(edit.m, op, attrs, args, None)
}
