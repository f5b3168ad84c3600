//! `relax-decompose-ops`: decomposes composite operators into simpler ones, in their inference
//! form.
//!
//! The decompositions are part of the operators' entries ([`relax_ops::Hooks::decomposed`]).

use relax_base::Diagnostics;
use relax_ir::ExprId;

use crate::build::form;
use crate::code::each_typed_code;
use crate::edit::Edit;
use crate::util::{called_op, is_primitive};
use crate::{Contract, OptionDef, OptionType, PassCx, PassDef};

pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "relax-decompose-ops",
    doc: "Relax's decompose-ops-for-inference: layers with several steps become these.",
    options: &[OptionDef {
        name: "function",
        ty: OptionType::Text,
        default: "",
        doc: "the one function to look at; all where it is empty",
    }],
    contract: Contract::TYPED.idempotent(),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let only = cx.options.text("function").to_owned();
    let mut decomposed = 0;
    let named = |edit: &Edit<'_>, func| {
        let global = || edit.m.global(&only).and_then(|g| edit.m.global_func(g));
        only.is_empty() || global() == Some(func)
    };
    each_typed_code(&mut Edit::new(cx.module, &typing), |edit, func, code| {
        if is_primitive(&edit.m.funcs[func]) || !named(edit, func) {
            return false;
        }
        let before = decomposed;
        code.map(|e| match steps(edit, e) {
            Some(new) => {
                decomposed += 1;
                new
            }
            None => e,
        });
        decomposed > before
    });
    cx.count("calls decomposed", decomposed);
    Ok(())
}

/// Returns the decomposition of a call; `None` if it has none.
fn steps(edit: &mut Edit<'_>, call: ExprId) -> Option<ExprId> {
    let steps = called_op(edit.m, call)?.hooks.decomposed?;
    form(edit, call, steps)
}
