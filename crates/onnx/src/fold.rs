//! Constant folding during translation.

use relax_ir::{AttrValue, Module};
use relax_ops::registry;
use relax_tensor::Tensor;

/// The maximum size of a value in bytes: larger ones are computed when the model runs.
const MOST: usize = 1 << 16;

/// Returns the value of a call of a built-in operator whose result is one tensor; `None` where it
/// has no computation, its extents depend on values, or it fails.
pub fn call(
    module: &mut Module,
    name: &str,
    attrs: &[(&str, AttrValue)],
    args: &[Tensor],
) -> Option<Tensor> {
    let op = registry().find(name)?;
    let def = registry().get(op)?;
    let mut all = def.default_attrs();
    for (name, value) in attrs {
        all.set(*name, value.clone());
    }
    relax_programs::value(module, op, &all, args, Some(MOST))
}
