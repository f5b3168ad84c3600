//! `relax-lambda-lift`: lifts nested functions to private functions of the module.
//!
//! A function that captures nothing is replaced by its global; others take their captures after
//! their own parameters, and are created with `R.make_closure` and called with
//! `R.invoke_pure_closure`. Type parameters and symbols of the functions around one become its own;
//! one that no argument tells them stays where it is.

use relax_base::{Diagnostics, Span, Symbol};
use relax_infer::Typing;
use relax_ir::{
    AttrValue, Expr, ExprId, FuncId, Global, GlobalId, GlobalKind, Memo, Module, Type, VarId,
};
use relax_sym::DimVar;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{fuse, kept};
use crate::abstracted::{Abstracted, bound_outside, has_writable_types};
use crate::code::{Bind, Code, Part, Value, each_var, fresh};
use crate::impurity::Impurity;
use crate::scope::Nameable;
use crate::{Contract, PassCx, PassDef};

pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "relax-lambda-lift",
    doc: "Relax's lambda-lift: functions inside of functions become private ones of the module.",
    options: &[],
    contract: Contract::RELAX,
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let impurity = Impurity::of(cx)?;
    let m = &mut *cx.module;
    let mut lifted = 0;
    for (global, body) in m.global_bodies() {
        let Some(mut code) = Code::of(m, body) else {
            continue;
        };
        let name = m.globals[global].name;
        let mut around = Around::of(m, &typing, &impurity, global, body);
        let before = lifted;
        // Inner functions come after outer ones.
        for s in (0..code.seqs.len()).rev() {
            for p in 0..code.seqs[s].parts.len() {
                for i in (0..code.seqs[s].parts[p].binds.len()).rev() {
                    lifted += u64::from(lift(m, &mut around, name, &mut code, (s, p, i)));
                }
            }
        }
        if lifted > before {
            let new = code.body(m);
            m.set_global_body(global, new);
        }
    }
    cx.count("functions lifted", lifted);
    Ok(())
}

/// A function of the module, around those that are lifted.
struct Around<'t> {
    typing: &'t Typing,
    impurity: &'t Impurity,
    /// The names that a lifted function can be written with.
    nameable: Nameable,
    dims: Vec<DimVar>,
    order: Vec<ExprId>,
    /// The function literals of its body.
    literals: FxHashMap<FuncId, ExprId>,
}

impl<'t> Around<'t> {
    fn of(
        m: &Module,
        typing: &'t Typing,
        impurity: &'t Impurity,
        global: GlobalId,
        body: ExprId,
    ) -> Around<'t> {
        let func = m.global_func(global).expect("it has a body");
        let order = m.post_order([body]);
        let literal = |&e: &ExprId| match m.exprs[e] {
            Expr::Func(f) => Some((f, e)),
            _ => None,
        };
        Around {
            typing,
            impurity,
            nameable: Nameable::new(m, func, &order),
            dims: m.funcs[func].dims.clone(),
            literals: order.iter().filter_map(literal).collect(),
            order,
        }
    }

    /// Returns what a function that captures these variables binds once it has left; `None` if it
    /// has to stay.
    fn left(
        &mut self,
        m: &mut Module,
        code: &Code,
        func: FuncId,
        body: usize,
        captured: &[VarId],
        own: VarId,
    ) -> Option<Abstracted> {
        let uses: Vec<VarId> = captured.iter().copied().chain([own]).collect();
        if !has_writable_types(m, self.typing, &mut self.nameable, func, &uses) {
            return None;
        }
        for p in m.funcs[func].params.clone() {
            let ty = self.typing.vars[p];
            if m.vars[p].ty.is_none() && m.types[ty] != Type::Error {
                m.vars[p].ty = Some(ty);
            }
        }
        let outside = bound_outside(m, &self.dims, &self.order, *self.literals.get(&func)?);
        // As it is now, without the functions that have left it.
        let now = Code {
            seqs: sub(code, body, FxHashMap::default()),
        };
        let mut function = m.funcs[func].clone();
        function.body = now.body(m);
        let now = m.funcs.push(function);
        let over = Abstracted::of(m, self.typing, now, captured, &outside)?;
        // TVMScript has no type parameters.
        (over.type_params.is_empty() || !m.is_script()).then_some(over)
    }
}

/// Lifts the value of a binding, if it is a function.
fn lift(
    m: &mut Module,
    around: &mut Around<'_>,
    outer: Symbol,
    code: &mut Code,
    (s, p, i): (usize, usize, usize),
) -> bool {
    let b = code.seqs[s].parts[p].binds[i];
    let Value::Func { func, body } = b.value else {
        return false;
    };
    let typing = around.typing;
    let pure = !around.impurity.function(m, func);
    let inner = inside(code, body);
    let captured = captured(m, code, func, &inner, b.var);
    // A closure value is an object, which no parameter of a function's type takes, and which only
    // what TVM builds from TVMScript calls.
    let closure = !captured.is_empty();
    if closure && (!m.is_script() || is_passed(m, code, b.var)) {
        return false;
    }
    let Some(over) = around.left(m, code, func, body, &captured, b.var) else {
        return false;
    };
    let base = format!("{outer}_{}", m.vars[b.var].name);
    let (mut name, mut n) = (base.clone(), 0);
    while fuse::taken(m, &name) {
        name = format!("{base}_{n}");
        n += 1;
    }
    // Declared before its body is built, since the body may call it.
    let global = m.globals.push(Global {
        name: Symbol::new(&name),
        kind: GlobalKind::Func(func),
        span: b.span,
        prelude: false,
    });
    let item = m.add(Expr::Global(global), Span::NONE);
    let (itself, reference) = fresh(m, m.vars[b.var].name, None);
    let own = own_uses(m, code, &inner, b.var, (item, reference), &captured);
    let mut alone = Code {
        seqs: sub(code, body, own),
    };
    if alone.uses(m).contains_key(&itself) {
        let closure = made(m, item, &captured, b.span);
        let first = Part {
            flow: false,
            binds: vec![Bind::plain(itself, closure, b.span)],
            outputs: Vec::new(),
            span: b.span,
        };
        alone.seqs[0].parts.insert(0, first);
    }
    let body_expr = alone.body(m);
    let mut function = m.funcs[func].clone();
    function.params.extend(&captured);
    function.type_params.extend(over.type_params);
    function.dims.extend(over.dims);
    for &v in &captured {
        if m.vars[v].ty.is_none() {
            m.vars[v].ty = Some(typing.vars[v]);
        }
    }
    if function.ret.is_none()
        && let Type::Func(ty) = &m.types[typing.vars[b.var]]
    {
        function.ret = Some(ty.ret);
    }
    function.body = body_expr;
    function.attrs.set("private", AttrValue::Bool(true));
    let func = m.funcs.push(function);
    let func = m.copy_func(func);
    m.globals[global].kind = GlobalKind::Func(func);
    if captured.is_empty() {
        let stands: FxHashMap<VarId, ExprId> = [(b.var, item)].into_iter().collect();
        code.substitute(m, &stands);
        code.seqs[s].parts[p].binds.remove(i);
        code.seqs[s].parts[p].outputs.retain(|v| *v != b.var);
        return true;
    }
    let closure = made(m, item, &captured, b.span);
    code.seqs[s].parts[p].binds[i].value = Value::Plain(closure);
    m.vars[b.var].ty = Some(m.types.intern(Type::Object));
    invoke(m, typing, code, b.var, pure);
    true
}

/// Creates the closure of a lifted function.
fn made(m: &mut Module, item: ExprId, captured: &[VarId], span: Span) -> ExprId {
    let all: Vec<ExprId> = (captured.iter())
        .map(|&v| m.add(Expr::Var(v), span))
        .collect();
    let tuple = m.tuple(&all, span);
    let args = [("func", item), ("args", tuple)];
    kept::call(m, ("make_closure", false), &args, &[], span)
}

/// Returns whether a variable is an argument of a function's call.
fn is_passed(m: &Module, code: &Code, var: VarId) -> bool {
    let passes = |e: ExprId| {
        m.post_order([e]).into_iter().any(|e| match m.exprs[e] {
            Expr::Call { callee, args, .. } => {
                let mut args = m.list(args).iter();
                !matches!(m.exprs[callee], Expr::Op(_) | Expr::Extern(_))
                    && args.any(|a| matches!(m.exprs[*a], Expr::Var(v) if v == var))
            }
            _ => false,
        })
    };
    code.binds().filter_map(|b| b.expr()).any(passes) || code.seqs.iter().any(|s| passes(s.value))
}

/// Returns the indices of a body and those nested in it.
fn inside(code: &Code, body: usize) -> FxHashSet<usize> {
    let (mut seen, mut open) = (FxHashSet::default(), vec![body]);
    while let Some(s) = open.pop() {
        if !seen.insert(s) {
            continue;
        }
        let binds = code.seqs[s].parts.iter().flat_map(|p| &p.binds);
        open.extend(binds.flat_map(|b| b.value.bodies()));
    }
    seen
}

/// Returns the variables that a function captures, excluding itself.
fn captured(
    m: &Module,
    code: &Code,
    func: FuncId,
    inner: &FxHashSet<usize>,
    own: VarId,
) -> Vec<VarId> {
    let mut bound: FxHashSet<VarId> = m.funcs[func].params.iter().copied().collect();
    bound.insert(own);
    for &s in inner {
        for b in code.seqs[s].parts.iter().flat_map(|p| &p.binds) {
            bound.insert(b.var);
            if let Value::Func { func, .. } = b.value {
                bound.extend(&m.funcs[func].params);
            }
        }
    }
    let mut out = Vec::new();
    for (e, s, _) in code.exprs() {
        if inner.contains(&s) {
            each_var(m, e, |v| {
                if !bound.contains(&v) && !out.contains(&v) {
                    out.push(v);
                }
            });
        }
    }
    out
}

/// Returns replacements for a function's uses of itself: calls of the global, with the captures, and
/// elsewhere a closure, to which `itself` refers. A function without captures is the global wherever
/// its body names it.
fn own_uses(
    m: &mut Module,
    code: &mut Code,
    inner: &FxHashSet<usize>,
    own: VarId,
    (item, itself): (ExprId, ExprId),
    captured: &[VarId],
) -> FxHashMap<ExprId, ExprId> {
    let mut new = FxHashMap::default();
    let inner: Vec<ExprId> = (code.exprs().into_iter())
        .filter(|(_, s, _)| inner.contains(s))
        .map(|(e, ..)| e)
        .collect();
    let mut memo = Memo::default();
    for e in inner {
        let with = m.rewrite(e, &mut memo, |m, new, _| match m.exprs[new] {
            Expr::Call { callee, args, .. } if callee == itself => {
                let mut args = m.list(args).to_vec();
                let span = m.span(new);
                args.extend(captured.iter().map(|&v| m.add(Expr::Var(v), span)));
                m.call(item, &args, span)
            }
            Expr::Var(v) if v == own && captured.is_empty() => item,
            Expr::Var(v) if v == own => itself,
            _ => new,
        });
        new.insert(e, with);
    }
    new
}

/// Extracts a body as code of its own, with some expressions replaced.
fn sub(code: &Code, body: usize, new: FxHashMap<ExprId, ExprId>) -> Vec<crate::code::Seq> {
    // Bodies keep their order after the first, which becomes the outermost.
    let mut numbers: FxHashMap<usize, usize> = FxHashMap::default();
    let mut order = vec![body];
    let mut at = 0;
    while at < order.len() {
        numbers.insert(order[at], at);
        let binds = code.seqs[order[at]].parts.iter().flat_map(|p| &p.binds);
        order.extend(binds.flat_map(|b| b.value.bodies()));
        at += 1;
    }
    let other = |e: ExprId| new.get(&e).copied().unwrap_or(e);
    let mut seqs = Vec::new();
    for &s in &order {
        let mut parts = code.seqs[s].parts.clone();
        for b in parts.iter_mut().flat_map(|p| &mut p.binds) {
            b.value = b.value.renumbered(|body| numbers[&body]);
            if let Value::Plain(e) | Value::If { cond: e, .. } = &mut b.value {
                *e = other(*e);
            }
        }
        let value = other(code.seqs[s].value);
        seqs.push(crate::code::Seq { parts, value });
    }
    seqs
}

/// Turns calls of a closure into calls of a closure value.
fn invoke(m: &mut Module, typing: &Typing, code: &mut Code, closure: VarId, pure: bool) {
    let name = if pure {
        "invoke_pure_closure"
    } else {
        "invoke_closure"
    };
    let mut memo = Memo::default();
    code.map(|e| {
        m.rewrite(e, &mut memo, |m, new, old| {
            let Expr::Call { callee, args, .. } = m.exprs[new] else {
                return new;
            };
            if !matches!(m.exprs[callee], Expr::Var(v) if v == closure) {
                return new;
            }
            let args = m.list(args).to_vec();
            let span = m.span(new);
            let tuple = m.tuple(&args, span);
            let args = [("closure", callee), ("args", tuple)];
            let call = kept::call(m, (name, !pure), &args, &[], span);
            let Expr::Call {
                callee,
                args,
                attrs,
                ..
            } = m.exprs[call]
            else {
                return new;
            };
            let type_args = m.make_type_args(&[typing.exprs[old]]);
            let call = Expr::Call {
                callee,
                args,
                attrs,
                type_args,
            };
            m.add(call, span)
        })
    });
}
