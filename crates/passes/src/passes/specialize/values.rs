//! Operators and generic functions that are used as values become closures that call them.
//!
//! A closure that is written where a value is needed has one type, which its context determines;
//! the operator itself has as many as there are tensor types.

use relax_base::Diagnostics;
use relax_infer::Typing;
use relax_ir::{
    Attrs, Expr, ExprId, Function, GlobalKind, Memo, Module, OpId, Type, TypeId, VarStyle,
};
use relax_ops::registry;
use rustc_hash::FxHashSet;

use super::computes_on_any;
use crate::PassCx;

/// The place of a value: an expression and the number of its operand. A body is no operand.
type Place = (ExprId, usize);

/// The limit on attempts to find the values that may become closures.
const ATTEMPTS: usize = 64;

/// Expands such values in all functions, and returns their number. A value stays what it is where
/// the context does not determine the type of a closure, or needs several.
pub(super) fn made_closures(cx: &mut PassCx<'_>) -> Result<u64, Diagnostics> {
    let typing = cx.typing()?;
    let bodies = cx.module.global_bodies();
    let all = expand(cx.module, &typing, None);
    if all.is_empty() || cx.typing().is_ok() {
        return Ok(all.len() as u64);
    }
    // Only inference knows which: halves of those left are tried.
    let mut good: FxHashSet<Place> = FxHashSet::default();
    let mut parts = vec![&all[..]];
    let expanded = |cx: &mut PassCx<'_>, places: &FxHashSet<Place>| {
        for &(global, body) in &bodies {
            cx.module.set_global_body(global, body);
        }
        expand(cx.module, &typing, Some(places))
    };
    for _ in 0..ATTEMPTS {
        let Some(part) = parts.pop() else { break };
        let mut more = good.clone();
        more.extend(part);
        expanded(cx, &more);
        if cx.typing().is_ok() {
            good = more;
        } else if part.len() > 1 {
            let (first, last) = part.split_at(part.len() / 2);
            parts.extend([last, first]);
        }
    }
    Ok(expanded(cx, &good).len() as u64)
}

/// Expands values, all or those at some places; returns the places.
fn expand(m: &mut Module, typing: &Typing, places: Option<&FxHashSet<Place>>) -> Vec<Place> {
    let mut made = Vec::new();
    for (global, body) in m.global_bodies() {
        let mut memo = Memo::default();
        let before = made.len();
        let mut place = |m: &mut Module, memo: &Memo, e: ExprId, at: Place| {
            let asked = places.is_none_or(|places| places.contains(&at));
            let Some(closure) = asked.then(|| closure(m, typing, e)).flatten() else {
                return memo[&e];
            };
            made.push(at);
            closure
        };
        for e in m.post_order([body]) {
            if m.is_leaf(e) {
                memo.insert(e, e);
                continue;
            }
            // Names have no identity: the replacement of one depends on its context.
            let called = matches!(m.exprs[e], Expr::Call { .. });
            // An operand of an operator or a packed function has no type that would determine the
            // closure's.
            let determined = !matches!(m.exprs[e], Expr::Call { callee, .. }
                if matches!(m.exprs[callee], Expr::Op(_) | Expr::Extern(_)));
            let mut parts = Vec::new();
            m.for_each_child(e, |c| parts.push(c));
            let mut new = Vec::with_capacity(parts.len());
            for (i, &c) in parts.iter().enumerate() {
                new.push(if called && (i == 0 || !determined) {
                    memo[&c]
                } else {
                    place(m, &memo, c, (e, i))
                });
            }
            let mut next = new.into_iter();
            let rebuilt = m.map_children(e, |_| next.next().expect("the same children"));
            memo.insert(e, rebuilt);
        }
        let new = place(m, &memo, body, (body, usize::MAX));
        if made.len() > before {
            m.set_global_body(global, new);
        }
    }
    made
}

/// Returns the eta-expansion of `e`, if `e` is an operator or a function that computes on any type.
fn closure(m: &mut Module, typing: &Typing, e: ExprId) -> Option<ExprId> {
    let names: Vec<String> = match m.exprs[e] {
        Expr::Op(op) => operands(m, op)?,
        Expr::Global(g) => {
            let GlobalKind::Func(f) = m.globals[g].kind else {
                return None;
            };
            if !computes_on_any(m, typing.globals[g]) {
                return None;
            }
            params(m, f)
        }
        Expr::Var(v) => {
            let ty: TypeId = typing.vars[v];
            if !computes_on_any(m, ty) {
                return None;
            }
            let Type::Func(f) = &m.types[ty] else {
                return None;
            };
            (0..f.args.len()).map(|i| format!("x{i}")).collect()
        }
        _ => return None,
    };
    let span = m.span(e);
    let mut vars = Vec::new();
    let mut args = Vec::new();
    for name in names {
        let (var, arg) = m.fresh_var(name.as_str(), None, VarStyle::Param);
        vars.push(var);
        args.push(arg);
    }
    let body = m.call(e, &args, span);
    let func = m.funcs.push(Function {
        type_params: Vec::new(),
        dims: Vec::new(),
        params: vars,
        ret: None,
        constraints: Vec::new(),
        body,
        attrs: Attrs::new(),
        span,
    });
    Some(m.add(Expr::Func(func), span))
}

/// Returns the names of an operator's operands.
fn operands(m: &Module, op: OpId) -> Option<Vec<String>> {
    if let Some(user) = m.user_op(op) {
        return Some(user.params.iter().map(|p| p.0.to_string()).collect());
    }
    let def = registry().get(op)?;
    Some(def.inputs.iter().map(|i| i.name.to_owned()).collect())
}

fn params(m: &Module, f: relax_ir::FuncId) -> Vec<String> {
    let name = |p: &relax_ir::VarId| m.vars[*p].name.to_string();
    m.funcs[f].params.iter().map(name).collect()
}
