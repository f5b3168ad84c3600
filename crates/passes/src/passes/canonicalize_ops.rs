//! `canonicalize-ops`: expresses operators in terms of others where possible.

use relax_base::Diagnostics;
use relax_ir::{AttrValue, ExprId};

use crate::edit::Edit;
use crate::pattern::{Found, Rules, op, x};
use crate::{Analysis, Contract, PassCx, PassDef};

/// The pass.
pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "canonicalize-ops",
    doc: "Replaces operators by simpler ones: `nn.bias_add` by `expand_dims` and `add`.",
    options: &[],
    contract: Contract::TYPED
        .idempotent()
        .each_function()
        .preserves(&[Analysis::Effects]),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let rules = Rules::new(vec![(op(&["nn.bias_add"], [x(0), x(1)]), bias_as_sum)]);
    rules.run(cx, "operators replaced")
}

/// Adds the bias, reshaped with an axis of extent 1 for each axis of the data after its own.
fn bias_as_sum(e: &mut Edit<'_>, f: &Found) -> Option<ExprId> {
    let (data, bias, span) = (f.get(0), f.get(1), e.m.span(f.root));
    if e.asks_when_run(&f.call(e)) {
        return None;
    }
    let rank = e.dims(data)?.len() as i64;
    let axis = e.attr(&f.call(e), "axis").as_int()?;
    let behind = rank - 1 - if axis < 0 { axis + rank } else { axis };
    let bias = if behind > 0 {
        let given = [
            ("axis", AttrValue::Int(1)),
            ("num_newaxis", AttrValue::Int(behind)),
        ];
        e.call("expand_dims", &[bias], &given, span)
    } else {
        bias
    };
    Some(e.call("add", &[data, bias], &[], span))
}
