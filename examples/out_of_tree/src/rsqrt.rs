//! `recip-of-rsqrt`: `1 / rsqrt(x)` becomes `sqrt(x)`.

use relax_base::Diagnostics;
use relax_ir::ExprId;
use relax_passes::edit::Edit;
use relax_passes::pattern::{Found, Rules, c, op, x};
use relax_passes::{Contract, PassCx, PassDef};

/// The pass.
pub static PASS: PassDef = PassDef {
    name: "recip-of-rsqrt",
    doc: "Replaces 1 / rsqrt(x) by sqrt(x).",
    options: &[],
    contract: Contract::TYPED.idempotent().reorders(),
    run,
};

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let rules = Rules::new(vec![(
        op(&["divide"], [c(0), op(&["rsqrt"], [x(1)])]),
        as_root,
    )]);
    let n = rules.fixpoint(&mut Edit::new(cx.module, &typing));
    cx.count("roots found", n);
    Ok(())
}

fn as_root(e: &mut Edit<'_>, f: &Found) -> Option<ExprId> {
    let one = e.constant_value(f.get(0))?;
    let all_ones = (0..one.len()).all(|i| one.get_f64(i) == 1.0);
    // A constant of more axes than `x` makes the quotient larger than the root would be.
    let plain = one.shape().is_empty() && all_ones;
    plain.then(|| e.call("sqrt", &[f.get(1)], &[], e.m.span(f.root)))
}
