//! Private functions that are only called: their signatures can be changed freely.

use relax_base::Symbol;
use relax_ir::{Expr, ExprId, Function, GlobalId, GlobalKind, IdSet, Module};
use rustc_hash::FxHashMap;

use crate::code::{Code, Value, code_of};
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

/// Returns the globals that are used otherwise than in bound calls with the right number of
/// arguments, which passes rewrite.
fn named(m: &Module) -> IdSet {
    let mut named = IdSet::new();
    for (global, body) in m.global_bodies() {
        let code = code_of(m, global, body);
        let roots = code.map_or(vec![body], |code| not_called(m, &code));
        for e in m.post_order(roots) {
            if let Expr::Global(g) = m.exprs[e] {
                named.insert(g);
            }
        }
    }
    named
}

/// Returns the expressions of a function apart from the functions that its bindings call.
fn not_called(m: &Module, code: &Code) -> Vec<ExprId> {
    let mut roots: Vec<ExprId> = code.seqs.iter().map(|s| s.value).collect();
    for b in code.binds() {
        let (Value::Plain(e) | Value::If { cond: e, .. }) = b.value else {
            continue;
        };
        match m.exprs[e] {
            Expr::Call { callee, args, .. }
                if b.expr().is_some()
                    && let Expr::Global(g) = m.exprs[callee]
                    && let Some(f) = m.global_func(g)
                    && m.funcs[f].params.len() == args.len() =>
            {
                roots.extend(m.list(args));
            }
            _ => roots.push(e),
        }
    }
    roots
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
