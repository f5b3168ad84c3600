//! `div-to-mul`: replaces divisions by powers of two by products, which are equal and faster.

use relax_base::Diagnostics;
use relax_ir::ExprId;

use crate::edit::Edit;
use crate::pattern::{Found, Rules, c, op, x};
use crate::{Analysis, Contract, PassCx, PassDef};

/// The pass.
pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "div-to-mul",
    doc: "Replaces divisions by powers of two by products.",
    options: &[],
    contract: Contract::TYPED
        .idempotent()
        .each_function()
        .preserves(&[Analysis::Effects]),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let rules = Rules::new(vec![(op(&["divide"], [x(0), c(1)]), as_product)]);
    rules.run(cx, "divisions replaced")
}

/// Returns `x * (1 / c)`, if each `1 / c` is exact.
fn as_product(e: &mut Edit<'_>, f: &Found) -> Option<ExprId> {
    let divisor = e.constant_value(f.get(1))?;
    if !divisor.dtype().is_float() {
        return None;
    }
    let mut factor = divisor.clone();
    for i in 0..divisor.len() {
        let d = divisor.get_f64(i);
        factor.set_f64(i, 1.0 / d);
        // A power of two has no mantissa bits.
        let power = d.is_normal() && d.to_bits().trailing_zeros() >= 52;
        if !power || factor.get_f64(i) * d != 1.0 {
            return None;
        }
    }
    let span = e.m.span(f.root);
    let factor = e.constant(factor, span);
    Some(e.call("multiply", &[f.get(0), factor], &[], span))
}
