//! `infer-type`: finds the types and says everything that is to be said about them.

use relax_base::Diagnostics;

use crate::{Contract, Form, PassCx, PassDef};

pub(crate) const PASSES: &[PassDef] = &[PassDef {
    name: "infer-type",
    doc: "Finds the types of all expressions, reports what does not fit.",
    options: &[],
    contract: Contract::PLAIN.idempotent().gives(&[Form::Typed]).keeps(&[
        Form::ANormal,
        Form::GraphNormal,
        Form::BasicBlockNormal,
        Form::Relax,
    ]),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    cx.say_types()
}
