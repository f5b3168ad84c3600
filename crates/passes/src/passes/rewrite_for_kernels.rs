//! `rewrite-for-kernels`: rewrites operators without a kernel of their own into operators that have
//! one.
//!
//! The operators that compute a call faster are in the operators' entries
//! ([`relax_ops::Hooks::for_kernels`]).

use relax_base::Diagnostics;

use crate::build::form;
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
    let count = Edit::new(cx.module, &typing).replace(|edit, node| {
        let write = edit.op_call(node)?.def.hooks.for_kernels?;
        form(edit, node, write)
    });
    cx.count("calls rewritten", count);
    Ok(())
}
