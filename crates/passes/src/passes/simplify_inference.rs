//! `simplify-inference`: replaces training layers by their inference forms.
//!
//! The replacement is in the operators' entries ([`relax_ops::Hooks::inference`]). Operators with
//! several results are replaced where the first is projected.

use std::collections::HashMap;

use relax_base::Diagnostics;
use relax_ir::{Expr, ExprId, Type};

use crate::build::form;
use crate::edit::Edit;
use crate::{Analysis, Contract, OptionDef, OptionType, PassCx, PassDef};

const LAWS: &str =
    "a normalisation is a factor and a summand: `(x - m) * s + b = x * s + (b - m * s)`";

pub(crate) const PASSES: &[PassDef] = &[PassDef {
    name: "simplify-inference",
    doc: "Replaces layers of training by what they compute outside of training.",
    options: &[OptionDef {
        name: "keep-kernels",
        ty: OptionType::Bool,
        default: "false",
        doc: "leaves layers whole that native code has a kernel for",
    }],
    contract: Contract::TYPED
        .idempotent()
        .laws(LAWS)
        .each_function()
        .preserves(&[Analysis::Effects]),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let keep = cx.options.flag("keep-kernels");
    // Projections of one call share its replacement: what reads a layer twice (`x * sigmoid(x)`) would
    // compute it twice, and rewrite its copies apart.
    let mut known = HashMap::new();
    let replaced = Edit::new(cx.module, &typing).replace(|edit, new| {
        let call = match edit.m.exprs[new] {
            Expr::Proj { tuple, index: 0 } => tuple,
            Expr::Call { .. } if !matches!(edit.m.types[edit.ty(new)], Type::Tuple(_)) => new,
            _ => return None,
        };
        *(known.entry(call)).or_insert_with(|| of_inference(edit, call, keep))
    });
    cx.count("layers replaced", replaced);
    Ok(())
}

fn of_inference(edit: &mut Edit<'_>, call: ExprId, keep: bool) -> Option<ExprId> {
    let hooks = &edit.callee(call)?.1.hooks;
    if keep && hooks.whole_kernel {
        return None;
    }
    let inference = hooks.inference?;
    if edit.asks_when_run(&edit.op_call(call)?) {
        return None;
    }
    form(edit, call, inference)
}
