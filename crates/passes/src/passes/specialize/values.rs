//! Operators and generic functions that are used as values become closures that call them.
//!
//! A closure that is written where a value is needed has one type, which its context determines;
//! the operator itself has as many as there are tensor types.

use relax_infer::Typing;
use relax_ir::{Attrs, Expr, ExprId, Function, GlobalKind, Memo, Module, OpId, TypeId, VarStyle};
use relax_ops::registry;

use super::computes_on_any;

/// Expands such values in all functions, and returns their number.
pub(super) fn expand(m: &mut Module, typing: &Typing) -> u64 {
    let mut count = 0;
    for (global, body) in m.global_bodies() {
        let mut memo = Memo::default();
        let mut changed = false;
        let mut place = |m: &mut Module, memo: &Memo, e: ExprId| match closure(m, typing, e) {
            Some(closure) => {
                count += 1;
                changed = true;
                closure
            }
            None => memo[&e],
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
                    place(m, &memo, c)
                });
            }
            let mut next = new.into_iter();
            let made = m.map_children(e, |_| next.next().expect("the same children"));
            memo.insert(e, made);
        }
        let new = place(m, &memo, body);
        if changed {
            m.set_global_body(global, new);
        }
    }
    count
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
            let relax_ir::Type::Func(f) = &m.types[ty] else {
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
