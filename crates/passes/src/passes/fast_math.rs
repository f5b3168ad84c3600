//! `fast-math`: replaces operators by their faster, less precise forms.
//!
//! The entries of the operators name these ([`relax_ops::Hooks::fast_form`]).

use relax_base::Diagnostics;
use relax_ir::Expr;
use relax_ops::registry;

use crate::util::called_op;
use crate::{Analysis, Contract, PassCx, PassDef};

pub(crate) const PASSES: &[PassDef] = &[PassDef {
    name: "fast-math",
    doc: "Replaces operators by faster, less precise forms.",
    options: &[],
    contract: Contract::PLAIN
        .idempotent()
        .coarser()
        .each_function()
        .preserves(&[Analysis::Effects]),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let mut replaced = 0;
    cx.module.rewrite_globals(|m, new, _| {
        let fast = called_op(m, new).and_then(|def| registry().find(def.hooks.fast_form?));
        let (
            Some(fast),
            Expr::Call {
                callee,
                args,
                attrs,
                type_args,
            },
        ) = (fast, m.exprs[new].clone())
        else {
            return new;
        };
        let callee = m.add(Expr::Op(fast), m.span(callee));
        replaced += 1;
        m.add(
            Expr::Call {
                callee,
                args,
                attrs,
                type_args,
            },
            m.span(new),
        )
    });
    cx.count("operators replaced", replaced);
    Ok(())
}
