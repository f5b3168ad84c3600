//! Private functions that are only called: their signatures can be changed freely.

use relax_base::Symbol;
use relax_ir::{Expr, Function, GlobalId, GlobalKind, IdSet, Module};
use rustc_hash::FxHashMap;

use crate::util::is_private;

/// Returns the private functions of a module that are only used in calls, with the right number of
/// arguments.
pub(super) fn only_called(m: &Module) -> Vec<GlobalId> {
    called_only(m, is_private)
}

/// The same, for the functions that satisfy `kind`.
pub(super) fn called_only(m: &Module, kind: impl Fn(&Function) -> bool) -> Vec<GlobalId> {
    let texts = m.script.as_deref();
    let of_kind = |(id, g): (GlobalId, &relax_ir::Global)| match g.kind {
        GlobalKind::Func(f) => {
            let text = texts.is_some_and(|s| s.kept(g.name).is_some());
            let f = &m.funcs[f];
            (kind(f) && f.type_params.is_empty() && !text).then_some(id)
        }
        GlobalKind::Prim(_) => None,
    };
    let mut found: Vec<GlobalId> = m.globals.iter().filter_map(of_kind).collect();
    if !found.is_empty() {
        let named = named(m);
        found.retain(|g| !named.contains(*g));
    }
    found
}

/// Returns the globals that are used otherwise than in calls with the right number of arguments.
fn named(m: &Module) -> IdSet {
    let mut named = IdSet::new();
    for (_, body) in m.global_bodies() {
        let order = m.post_order([body]);
        let mut callees = IdSet::new();
        for &e in &order {
            if let Expr::Call { callee, args, .. } = m.exprs[e]
                && let Expr::Global(g) = m.exprs[callee]
                && let Some(f) = m.global_func(g)
                && m.funcs[f].params.len() == args.len()
            {
                callees.insert(callee);
            }
        }
        for &e in &order {
            let children = |f: &mut dyn FnMut(relax_ir::ExprId)| m.for_each_child(e, f);
            let mut at = 0;
            children(&mut |c| {
                let first = at == 0 && matches!(m.exprs[e], Expr::Call { .. });
                at += 1;
                if let Expr::Global(g) = m.exprs[c]
                    && !(first && callees.contains(c))
                {
                    named.insert(g);
                }
            });
        }
        if let Expr::Global(g) = m.exprs[body] {
            named.insert(g);
        }
    }
    named
}

/// Replaces functions.
pub(super) fn replace(m: &mut Module, new: FxHashMap<GlobalId, Function>) {
    for (g, function) in new {
        m.set_global_func(g, function);
    }
}

/// Returns the name of a component of a parameter.
pub(super) fn part_name(name: Symbol, i: usize) -> Symbol {
    Symbol::new(&format!("{name}_{i}"))
}
