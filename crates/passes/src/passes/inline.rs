//! `inline`: calls of global functions marked `Inline=1` are replaced by their bodies, and the
//! marked functions are removed.

use relax_base::Diagnostics;
use relax_infer::may_have_effects;
use relax_ir::{Expr, ExprId, GlobalId, Module};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::util::{binds, calls_itself, has_flag, in_blocks, inlined, is_external, stays_in_block};
use crate::{Contract, PassCx, PassDef};

pub(crate) const PASSES: &[PassDef] = &[PassDef {
    name: "inline",
    doc: "Puts bodies of functions marked `Inline=1` in place of their calls.",
    options: &[],
    contract: Contract::PLAIN.idempotent(),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let m = &mut *cx.module;
    let effects = may_have_effects(m);
    let blocks = in_blocks(m);
    let graph = m.call_graph();
    let order = callees_first(m, &graph);
    let mut entries: FxHashSet<GlobalId> = m.globals.ids().collect();
    for callees in graph.values() {
        callees.iter().for_each(|c| {
            entries.remove(c);
        });
    }
    // The marked functions whose calls can be removed: those that after inlining call nothing that
    // stays.
    let mut inlinable: FxHashSet<GlobalId> = FxHashSet::default();
    let mut count = 0;
    for &(global, recursive) in &order {
        let Some(func) = m.global_func(global) else {
            continue;
        };
        let body = m.funcs[func].body;
        let new = m.rewrite(body, &mut relax_ir::Memo::default(), |m, new, old| {
            let new = expand(m, new, &inlinable, effects, blocks.contains(old));
            count += u64::from(new.1);
            new.0
        });
        m.set_global_body(global, new);
        let calls = |c: &GlobalId| inlinable.contains(c);
        let leaf = graph
            .get(&global)
            .is_none_or(|callees| callees.iter().all(calls));
        if has_flag(&m.funcs[func], "Inline") && leaf && !recursive {
            inlinable.insert(global);
        }
    }
    let mut keep: FxHashSet<GlobalId> = m.globals.ids().collect();
    let used = m.call_graph();
    let used: FxHashSet<GlobalId> = used.into_values().flatten().collect();
    keep.retain(|g| !inlinable.contains(g) || entries.contains(g) || used.contains(g));
    m.retain_globals(&keep);
    cx.count("calls inlined", count);
    Ok(())
}

/// Returns the replacement of a call of an inlinable function or of its name; `straight` says that
/// there may be no control flow, nor effects.
fn expand(
    m: &mut Module,
    e: ExprId,
    inlinable: &FxHashSet<GlobalId>,
    effects: bool,
    straight: bool,
) -> (ExprId, bool) {
    let (e, changed) = expand_values(m, e, inlinable);
    let Expr::Call {
        callee,
        args,
        attrs,
        type_args,
    } = m.exprs[e]
    else {
        return (e, changed);
    };
    let Expr::Global(global) = m.exprs[callee] else {
        return (e, changed);
    };
    if !inlinable.contains(&global) {
        return (e, changed);
    }
    let func = m.global_func(global).expect("only functions are inlined");
    // Extents and types that a function binds per call stay bound by a literal.
    let stays = binds(m, &m.funcs[func])
        || is_external(&m.funcs[func])
        || straight && stays_in_block(m, &m.funcs[func], effects);
    if stays || has_flag(&m.funcs[func], "Extern") {
        let copy = m.copy_func(func);
        let callee = m.add(Expr::Func(copy), m.span(callee));
        return (
            m.add(
                Expr::Call {
                    callee,
                    args,
                    attrs,
                    type_args,
                },
                m.span(e),
            ),
            true,
        );
    }
    let args = m.list(args).to_vec();
    match inlined(m, func, &args, effects) {
        Some(body) => (body, true),
        None => (e, false),
    }
}

/// Replaces names of inlinable functions that are used as values by function literals.
fn expand_values(m: &mut Module, e: ExprId, inlinable: &FxHashSet<GlobalId>) -> (ExprId, bool) {
    let called = matches!(m.exprs[e], Expr::Call { .. });
    let (mut parts, mut first, mut any) = (Vec::new(), true, false);
    m.for_each_child(e, |c| {
        let callee = std::mem::take(&mut first) && called;
        let literal = match m.exprs[c] {
            Expr::Global(g) if !callee && inlinable.contains(&g) => m.global_func(g),
            _ => None,
        };
        any |= literal.is_some();
        parts.push((c, literal));
    });
    if !any {
        return (e, false);
    }
    let mut new = Vec::with_capacity(parts.len());
    for (c, literal) in parts {
        new.push(match literal {
            Some(func) => {
                let func = m.copy_func(func);
                m.add(Expr::Func(func), m.span(c))
            }
            None => c,
        });
    }
    let mut new = new.into_iter();
    (
        m.map_children(e, |_| new.next().expect("the same children")),
        true,
    )
}

/// Returns the globals with callees before their callers, and whether each can reach itself.
fn callees_first(m: &Module, graph: &FxHashMap<GlobalId, Vec<GlobalId>>) -> Vec<(GlobalId, bool)> {
    let none = Vec::new();
    let callees = |g: GlobalId| graph.get(&g).unwrap_or(&none);
    let (mut order, mut seen) = (Vec::new(), FxHashSet::default());
    for root in m.globals.ids() {
        let mut stack = vec![(root, 0)];
        if !seen.insert(root) {
            continue;
        }
        while let Some((g, next)) = stack.last_mut() {
            match callees(*g).get(*next) {
                Some(&c) => {
                    *next += 1;
                    if seen.insert(c) {
                        stack.push((c, 0));
                    }
                }
                None => {
                    order.push(*g);
                    stack.pop();
                }
            }
        }
    }
    // Only marked functions are checked, so this stays cheap in large modules.
    let recursive = |g| (g, calls_itself(graph, g));
    order.into_iter().map(recursive).collect()
}
