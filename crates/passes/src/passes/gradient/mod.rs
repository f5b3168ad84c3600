//! `gradient`: functions become functions that return their result and the gradients of their
//! parameters, in reverse mode.

mod first_order;
mod higher_order;

use relax_base::Diagnostics;

use super::expand_op_items::expand;
use crate::{Contract, OptionDef, OptionType, PassCx, PassDef};

pub(crate) const PASSES: &[PassDef] = &[PassDef {
    name: "gradient",
    doc: "Makes functions return gradients of their parameters too.",
    options: &[
        OptionDef {
            name: "mode",
            ty: OptionType::Choice(&["first-order", "higher-order"]),
            default: "first-order",
            doc: "first-order: all functions, of tensors and operators; higher-order: the entry, with \
                  whatever it calls",
        },
        OptionDef {
            name: "entry",
            ty: OptionType::Functions,
            default: "main",
            doc: "the function that higher-order mode differentiates",
        },
    ],
    contract: Contract::TYPED,
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    // The gradient of an `op` item is that of the operators that it consists of, where the text gives
    // none.
    expand(cx, |m, op| !m.grads.iter().any(|item| item.op == op))?;
    match cx.options.text("mode") {
        "higher-order" => higher_order::run(cx),
        _ => first_order::run(cx),
    }
}
