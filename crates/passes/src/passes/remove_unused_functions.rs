//! `remove-unused-functions`: drops global functions that the entry does not reach.

use relax_base::Diagnostics;
use rustc_hash::FxHashSet;

use crate::{Contract, Form, OptionDef, OptionType, PassCx, PassDef};

pub(crate) const PASSES: &[PassDef] = &[PassDef {
    name: "remove-unused-functions",
    doc: "Drops functions that the entry does not reach.",
    options: &[OptionDef {
        name: "entry",
        ty: OptionType::Functions,
        default: "main",
        doc: "the functions to keep, separated by spaces",
    }],
    contract: Contract::PLAIN.idempotent().keeps(&[
        Form::ANormal,
        Form::GraphNormal,
        Form::BasicBlockNormal,
        Form::Relax,
    ]),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let entries = cx.options.functions("entry");
    let m = &mut *cx.module;
    let graph = m.call_graph();
    let own = |g: &relax_ir::Global| entries.contains(&g.name);
    let mut stack: Vec<_> = m
        .globals
        .iter()
        .filter(|(_, g)| own(g))
        .map(|(id, _)| id)
        .collect();
    stack.extend(m.expression);
    if stack.is_empty() {
        // Without an entry, use is undefined.
        return Ok(());
    }
    let mut keep = FxHashSet::default();
    while let Some(id) = stack.pop() {
        if keep.insert(id) {
            stack.extend(graph.get(&id).into_iter().flatten());
        }
    }
    let before = m.globals.len();
    m.retain_globals(&keep);
    let removed = before - m.globals.len();
    cx.count("functions removed", removed as u64);
    Ok(())
}
