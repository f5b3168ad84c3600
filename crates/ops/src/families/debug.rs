//! Stopping for a look.

use super::elementwise::identity;
use super::util_te::Done;
use crate::{AttrTy, Default, Effects, OpDef, Te, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[OpDef::new(
    "debug",
    "The same tensor; TVM's interpreter stops here for a debugger.",
    identity,
)
.inputs(&[input("program", "the input")])
.attrs(&[attr(
    "debug_func",
    AttrTy::Any,
    Default::None,
    "the function that TVM calls",
)])
.effects(Effects::Effect)
.compute(same)];

fn same(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    te.output(&x);
    Ok(())
}
