//! `canonicalize-cast`: duplicates a widening cast for each element-wise operator that uses it, so
//! that fusion moves the narrow tensor between kernels instead of the wide one.

use relax_base::Diagnostics;
use relax_ir::{ExprId, IdSet};
use relax_ops::Fusion;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::edit::Edit;
use crate::{Analysis, Contract, PassCx, PassDef};

/// The pass.
pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "canonicalize-cast",
    doc: "Gives each element-wise user of a widening cast its own copy of it.",
    options: &[],
    contract: Contract::TYPED
        .idempotent()
        .each_function()
        .preserves(&[Analysis::Effects]),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let mut edit = Edit::new(cx.module, &typing);
    let copies = uses_to_copy(&edit);
    edit.rewrite(|edit, old, node| {
        let Some(places) = copies.get(&old) else {
            return node;
        };
        let (call, span) = (
            edit.op_call(node).expect("a call was marked"),
            edit.m.span(node),
        );
        let mut args = call.args.clone();
        for &i in places {
            let cast = edit
                .op_call(args[i])
                .expect("an argument that is a call was marked");
            let (attrs, span) = (edit.m.attrs(cast.attrs).clone(), edit.m.span(args[i]));
            args[i] = edit.recall(&cast, &cast.args, attrs, span);
        }
        let attrs = edit.m.attrs(call.attrs).clone();
        edit.recall(&call, &args, attrs, span)
    });
    cx.count(
        "casts copied",
        copies.values().map(|c| c.len() as u64).sum(),
    );
    Ok(())
}

/// Returns the arguments to be duplicated: all element-wise uses of a widening cast but the first,
/// in order of evaluation.
fn uses_to_copy(edit: &Edit<'_>) -> FxHashMap<ExprId, Vec<usize>> {
    let mut copies: FxHashMap<ExprId, Vec<usize>> = FxHashMap::default();
    let (mut seen, mut used) = (IdSet::new(), FxHashSet::default());
    for (_, body) in edit.m.global_bodies() {
        // A node, its children, and the number of children that are done.
        let mut stack: Vec<(ExprId, Vec<ExprId>, usize)> = Vec::new();
        let children = |id: ExprId| {
            let mut all = Vec::new();
            edit.m.for_each_child(id, |c| all.push(c));
            all
        };
        if seen.insert(body) {
            stack.push((body, children(body), 0));
        }
        while let Some((id, parts, done)) = stack.last_mut() {
            // The callee is child 0; a use counts when its argument has been visited.
            if *done > 1
                && let Some(call) = edit
                    .op_call(*id)
                    .filter(|c| c.def.fusion <= Fusion::Broadcast)
                && widening(edit, call.args[*done - 2])
                && !used.insert(call.args[*done - 2])
            {
                copies.entry(*id).or_default().push(*done - 2);
            }
            match parts.get(*done) {
                Some(&child) => {
                    *done += 1;
                    if seen.insert(child) {
                        stack.push((child, children(child), 0));
                    }
                }
                None => {
                    stack.pop();
                }
            }
        }
    }
    copies
}

fn widening(edit: &Edit<'_>, e: ExprId) -> bool {
    let bits = |e| edit.dtype(e).map(|d| d.bits);
    edit.call_of(e, "cast")
        .is_some_and(|c| bits(c.args[0]) < bits(e))
}
