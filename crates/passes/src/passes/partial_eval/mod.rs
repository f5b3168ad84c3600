//! `partial-eval`: evaluates what is statically known, and leaves a residual program for the rest.
//!
//! TVM's algorithm (`src/relay/transforms/partial_eval.cc`): each value has a static part, where it
//! is known, and a name in the residual program. Calls of known functions are run in place, as long
//! as they make progress: along a chain of calls of one function, an argument has to become an
//! older value or a smaller number. A store tracks the contents of reference cells, until something
//! unknown runs.
//!
//! Here it is a machine with its own stack of frames over programs in A-normal form, so that
//! neither deep programs nor long unrollings overflow the native stack.

mod analysis;
mod machine;
mod residual;
mod value;

use relax_base::Diagnostics;
use relax_ir::Expr;

use super::a_normal_form::{Order, normal_form};
use crate::util::{dissolve_blocks, is_external, is_primitive};
use crate::{Contract, OptionDef, OptionType, PassCx, PassDef};

pub(crate) const PASSES: &[PassDef] = &[PassDef {
    name: "partial-eval",
    doc: "Runs what is known, unfolds calls, and leaves a program for the rest.",
    options: &[
        OptionDef {
            name: "max-bindings",
            ty: OptionType::Int,
            default: "100000",
            doc: "no call is unfolded once the program has so many more bindings",
        },
        OptionDef {
            name: "max-bytes",
            ty: OptionType::Int,
            default: "1073741824",
            doc: "values that take more bytes are not computed",
        },
    ],
    contract: Contract::TYPED,
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let m = &mut *cx.module;
    for (global, body) in m.global_bodies() {
        let func = m.global_func(global).expect("it has a body");
        if is_external(&m.funcs[func]) || is_primitive(&m.funcs[func]) {
            continue;
        }
        let body = dissolve_blocks(m, body);
        // A kernel that is called in place stays there.
        let mut called = relax_ir::IdSet::new();
        for e in m.post_order([body]) {
            if let Expr::Call { callee, .. } = m.exprs[e] {
                called.insert(callee);
            }
        }
        let named = |m: &relax_ir::Module, e| match m.exprs[e] {
            Expr::Func(f) => !(called.contains(e) && is_primitive(&m.funcs[f])),
            _ => true,
        };
        let new = normal_form(m, body, Order::LiteralsFirst, named);
        m.set_global_body(global, new);
    }
    let typing = cx.typing()?;
    let limits = machine::Limits {
        bindings: cx.options.int("max-bindings"),
        bytes: cx.options.int("max-bytes"),
    };
    let (unfolded, computed) = machine::evaluate(cx.module, &typing, limits);
    cx.count("calls unfolded", unfolded);
    cx.count("calls computed", computed);
    Ok(())
}
