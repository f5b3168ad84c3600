//! `rewrite-for-kernels`: operators without a kernel of their own become such as have one.
//!
//! By which operators a call is computed faster stands in the operators' entries
//! ([`relax_ops::Hooks::for_kernels`]).

use relax_base::Diagnostics;

use crate::build::{At, site};
use crate::edit::Edit;
use crate::{Analysis, Contract, PassCx, PassDef};

/// The pass.
pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "rewrite-for-kernels",
    doc: "Computes calls by operators with kernels of their own, where these are faster.",
    options: &[],
    contract: Contract::TYPED
        .idempotent()
        .reorders()
        .each_function()
        .preserves(&[Analysis::Effects]),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let mut count = 0;
    Edit::new(cx.module, &typing).rewrite(|edit, _, node| {
        let form = edit.op_call(node).and_then(|c| c.def.hooks.for_kernels);
        let new = form.and_then(|form| {
            let site = site(edit, node)?;
            let span = edit.m.span(node);
            form(&mut At { edit, span }, &site)
        });
        count += u64::from(new.is_some());
        new.unwrap_or(node)
    });
    cx.count("calls rewritten", count);
    Ok(())
}
