//! `to-graph-normal-form`: the graph without `let`s.
//!
//! Every use of a variable becomes an edge to its value. The `let` is kept for a recursive
//! function, for one that is used at several types that its text does not express, and for a value
//! whose evaluation has effects or creates a reference cell, because the graph would lose or repeat
//! it; likewise for one whose annotation is checked at run time, and for control flow in a function
//! with dataflow blocks, which may not contain any.

use relax_base::{Diagnostics, Id};
use relax_infer::{CheckKind, Typing};
use relax_ir::{Expr, ExprId, IdSet, Memo, Module, ScopeKind, Scopes, Type, VarId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::purity::Purity;
use crate::{Analysis, Contract, Form, OptionDef, OptionType, PassCx, PassDef};

pub(crate) const PASSES: &[PassDef] = &[PassDef {
    name: "to-graph-normal-form",
    doc: "Replaces variables of `let`s by edges to their values.",
    options: &[OptionDef {
        name: "into-functions",
        ty: OptionType::Bool,
        default: "true",
        doc: "also values that only a function inside uses: it then computes them at every call",
    }],
    // Not idempotent: without the `let`, inference may derive what an annotation stated, so that
    // the next run removes that `let` too.
    contract: Contract::TYPED
        .gives(&[Form::GraphNormal])
        .asks(&[Analysis::Effects])
        .each_function()
        .preserves(&[Analysis::Effects]),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let into_functions = cx.options.flag("into-functions");
    let all = cx.bodies_with_purity()?;
    for (global, body, purity) in all {
        let mut kept = polymorphic(cx.module, &typing, body);
        kept.extend(narrowed(cx.module, &typing, body));
        kept.extend(branching(cx.module, body));
        if !into_functions {
            let func = cx.module.global_func(global).expect("it has a body");
            let scopes = cx.scopes(func);
            kept.extend(captured(cx.module, &scopes));
        }
        let new = graph(cx.module, body, &purity, &kept);
        cx.module.set_global_body(global, new);
    }
    Ok(())
}

/// Returns the variables that are functions used at several types, which their own text does not
/// express: as an edge such a function would have one type.
fn polymorphic(m: &Module, typing: &Typing, body: ExprId) -> FxHashSet<VarId> {
    let mut found = FxHashSet::default();
    for e in m.post_order([body]) {
        if let Expr::Let { var, value, .. } = m.exprs[e]
            && let Expr::Func(f) = m.exprs[value]
            && let Type::Func(t) = &m.types[typing.vars[var]]
            && (t.params.len() > m.funcs[f].type_params.len()
                || t.dims.len() > m.funcs[f].dims.len())
        {
            found.insert(var);
        }
    }
    found
}

/// Returns the variables whose annotation is more precise than the types of their values: the `let`
/// is where that is checked.
fn narrowed(m: &Module, typing: &Typing, body: ExprId) -> FxHashSet<VarId> {
    let mut found = FxHashSet::default();
    for e in m.post_order([body]) {
        if let Expr::Let { var, value, .. } = m.exprs[e]
            && (typing.checks_of(value)).any(|c| matches!(c.kind, CheckKind::HasType(_)))
        {
            found.insert(var);
        }
    }
    found
}

/// Returns, where there are dataflow blocks, the variables whose values are control flow, which
/// these may not contain.
fn branching(m: &Module, body: ExprId) -> FxHashSet<VarId> {
    let order = m.post_order([body]);
    let mut found = FxHashSet::default();
    if !(order.iter()).any(|&e| matches!(m.exprs[e], Expr::Dataflow { .. })) {
        return found;
    }
    let mut branches = IdSet::new();
    for e in order {
        let mut here = matches!(m.exprs[e], Expr::If { .. } | Expr::Match { .. });
        if !matches!(m.exprs[e], Expr::Func(_)) {
            m.for_each_child(e, |c| here |= branches.contains(c));
        }
        if here {
            branches.insert(e);
        }
        if let Expr::Let { var, value, .. } = m.exprs[e]
            && branches.contains(value)
        {
            found.insert(var);
        }
    }
    found
}

/// Returns the variables that a function other than the one that binds them reads, where their
/// values are computed.
fn captured(m: &Module, scopes: &Scopes) -> FxHashSet<VarId> {
    // The function around each scope; outer scopes come first.
    let mut around = Vec::with_capacity(scopes.len());
    for scope in scopes.ids() {
        let function = match scopes.kind(scope) {
            ScopeKind::Root => scope,
            ScopeKind::Body(_) => scope,
            _ => around[scopes.parent(scope).index()],
        };
        around.push(function);
    }
    let mut computed: FxHashSet<VarId> = FxHashSet::default();
    for &e in scopes.order() {
        if let Expr::Let { var, value, .. } = m.exprs[e]
            && !m.is_leaf(value)
            && !matches!(m.exprs[value], Expr::Func(_))
        {
            computed.insert(var);
        }
    }
    let mut found = FxHashSet::default();
    for &e in scopes.order() {
        let Some(here) = scopes.of(e) else { continue };
        m.for_each_child(e, |c| {
            let Expr::Var(v) = m.exprs[c] else { return };
            let Some(there) = scopes.of_var(v).filter(|_| computed.contains(&v)) else {
                return;
            };
            let inside = matches!(m.exprs[e], Expr::Func(_));
            if inside || around[here.index()] != around[there.index()] {
                found.insert(v);
            }
        });
    }
    found
}

fn graph(m: &mut Module, body: ExprId, purity: &Purity, kept: &FxHashSet<VarId>) -> ExprId {
    let order = m.post_order([body]);
    // The variables that each value is to replace.
    let mut bound_to: FxHashMap<ExprId, Vec<VarId>> = FxHashMap::default();
    let mut recursive: FxHashSet<VarId> = FxHashSet::default();
    for &e in &order {
        if let Expr::Let { var, value, .. } = m.exprs[e]
            && purity.movable(value)
            && !kept.contains(&var)
        {
            bound_to.entry(value).or_default().push(var);
            if matches!(m.exprs[value], Expr::Func(_)) && m.free_vars(value).contains(&var) {
                recursive.insert(var);
            }
        }
    }
    let mut values: FxHashMap<VarId, ExprId> = FxHashMap::default();
    let mut memo = Memo::default();
    // Variables are resolved where they are used: inside its own value a recursive function is
    // still a variable, and the two uses need not be two nodes.
    let resolve =
        |m: &Module, memo: &Memo, values: &FxHashMap<VarId, ExprId>, e: ExprId| match m.exprs[e] {
            Expr::Var(mut v) => loop {
                match values.get(&v) {
                    Some(&new) => match m.exprs[new] {
                        Expr::Var(next) if values.contains_key(&next) => v = next,
                        _ => break new,
                    },
                    None => break e,
                }
            },
            _ => memo[&e],
        };
    for e in order {
        let new = match m.exprs[e] {
            Expr::Let {
                var, value, body, ..
            } if !kept.contains(&var) && bound_to.contains_key(&value) => {
                resolve(m, &memo, &values, body)
            }
            _ => {
                let mut parts = Memo::default();
                m.for_each_child(e, |c| {
                    parts.insert(c, resolve(m, &memo, &values, c));
                });
                m.map_children(e, |c| parts[&c])
            }
        };
        memo.insert(e, new);
        for &var in bound_to.get(&e).into_iter().flatten() {
            // Inside a recursive function's own value its variable has no value yet, and may be the
            // same node as a use after it: then the name is resolved where it is used.
            let new = resolve(m, &memo, &values, e);
            let value = if recursive.contains(&var) {
                let span = m.span(e);
                let body = m.add(Expr::Var(var), span);
                m.add(
                    Expr::Let {
                        var,
                        value: new,
                        body,
                    },
                    span,
                )
            } else {
                new
            };
            values.insert(var, value);
        }
    }
    resolve(m, &memo, &values, body)
}
