//! `lambda-lift`: closures become global functions.
//!
//! A closure without free variables becomes a global. Another one becomes a global that takes the
//! free variables and returns the closure (marked `Closure=1`), and a call of it. One with types that cannot be
//! written down, because inference made up their parameters, stays where it is.

use relax_base::{Diagnostics, Span, Symbol};
use relax_infer::Typing;
use relax_ir::{
    AttrValue, Attrs, Expr, ExprId, FuncId, Function, Global, GlobalId, GlobalKind, IdSet, Memo,
    Module, Type, TypeId, TypeParamId, VarId, VarStyle,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::scope::Nameable;
use crate::util::{is_external, is_primitive, outside_primitives};
use crate::{Contract, PassCx, PassDef};

pub(crate) const PASSES: &[PassDef] = &[PassDef {
    name: "lambda-lift",
    doc: "Turns closures into global functions.",
    options: &[],
    contract: Contract::TYPED,
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let mut lifter = Lifter {
        typing: &typing,
        names: cx.module.globals.values().map(|g| g.name).collect(),
        count: 0,
        made: Vec::new(),
    };
    let m = &mut *cx.module;
    for (global, body) in m.global_bodies() {
        let func = m.global_func(global).expect("it has a body");
        if is_external(&m.funcs[func]) || is_primitive(&m.funcs[func]) {
            continue;
        }
        let mut let_of: FxHashMap<ExprId, VarId> = FxHashMap::default();
        for e in m.post_order([body]) {
            if let Expr::Let { var, value, .. } = m.exprs[e] {
                let_of.insert(value, var);
            }
        }
        let order = outside_primitives(m, body);
        let mut nameable = Nameable::new(m, func, &order);
        let mut memo = Memo::default();
        for old in order {
            if matches!(m.exprs[old], Expr::Func(f) if is_primitive(&m.funcs[f])) {
                memo.insert(old, old);
                continue;
            }
            let new = m.map_children(old, |c| memo[&c]);
            let new = match m.exprs[new] {
                Expr::Func(f) if !is_primitive(&m.funcs[f]) => {
                    lifter.lift(m, &mut nameable, old, new, f, let_of.get(&old).copied())
                }
                _ => new,
            };
            memo.insert(old, new);
        }
        m.set_global_body(global, memo[&body]);
    }
    share_equal(m, &lifter.made);
    let count = lifter.count;
    cx.count("closures lifted", count);
    Ok(())
}

struct Lifter<'t> {
    typing: &'t Typing,
    names: FxHashSet<Symbol>,
    count: u64,
    made: Vec<GlobalId>,
}

impl Lifter<'_> {
    fn fresh_global(&mut self, m: &mut Module, func: FuncId, span: Span) -> GlobalId {
        let name = loop {
            let name = Symbol::from(format!("lifted_name{}", self.count).as_str());
            self.count += 1;
            if self.names.insert(name) {
                break name;
            }
        };
        let kind = GlobalKind::Func(func);
        let global = m.globals.push(Global {
            name,
            kind,
            span,
            prelude: false,
        });
        self.made.push(global);
        global
    }

    /// Writes down the types that inference found, as the surroundings will be missing.
    fn annotate(&self, m: &mut Module, old: FuncId, func: FuncId) -> FuncId {
        for param in m.funcs[func].params.clone() {
            let ty = self.typing.vars[param];
            if m.vars[param].ty.is_none() && m.types[ty] != Type::Error {
                m.vars[param].ty = Some(ty);
            }
        }
        let mut function = m.funcs[func].clone();
        if let (None, Type::Func(f)) = (function.ret, &m.types[self.typing.funcs[old]]) {
            function.ret = Some(f.ret);
        }
        m.funcs.push(function)
    }

    fn lift(
        &mut self,
        m: &mut Module,
        nameable: &mut Nameable,
        old: ExprId,
        new: ExprId,
        func: FuncId,
        name: Option<VarId>,
    ) -> ExprId {
        let span = m.span(old);
        let Expr::Func(old_func) = m.exprs[old] else {
            return new;
        };
        let free = m.free_vars(new);
        let uses = free.iter().chain(&name).map(|v| self.typing.vars[*v]);
        let own = std::iter::once(self.typing.funcs[old_func]);
        // What another pass or an error left without a type stays so.
        let mut said = (uses.chain(own)).filter(|t| m.types[*t] != Type::Error);
        if !said.all(|t| nameable.annotation(m, t).is_some() && !constrained(m, t)) {
            return new;
        }
        let func = self.annotate(m, old_func, func);
        let recursive = name.filter(|v| free.contains(v));
        let captured: Vec<VarId> = free.into_iter().filter(|v| Some(*v) != recursive).collect();
        let type_params = free_type_params(m, func, &captured, self.typing);
        let global = self.fresh_global(m, func, span);
        let callee = m.add(Expr::Global(global), span);
        // The closure as its surroundings and its own body see it.
        let value = if captured.is_empty() {
            callee
        } else {
            let args: Vec<ExprId> = captured
                .iter()
                .map(|&v| m.add(Expr::Var(v), span))
                .collect();
            m.call(callee, &args, span)
        };
        let mut function = m.funcs[func].clone();
        if let Some(var) = recursive {
            let values = std::iter::once((var, value)).collect();
            function.body = m.substitute(function.body, &mut Memo::default(), &values);
        }
        if captured.is_empty() && type_params.is_empty() {
            let func = m.funcs.push(function);
            m.globals[global].kind = GlobalKind::Func(func);
            return value;
        }
        let mut rebind = FxHashMap::default();
        let mut params = Vec::new();
        for &var in &captured {
            let ty = Some(self.typing.vars[var]).filter(|t| m.types[*t] != Type::Error);
            let (param, reference) = m.fresh_var(m.vars[var].name, ty, VarStyle::Param);
            params.push(param);
            rebind.insert(var, reference);
        }
        function.body = m.substitute(function.body, &mut Memo::default(), &rebind);
        let inner = m.funcs.push(function);
        let body = m.add(Expr::Func(inner), span);
        let mut attrs = Attrs::new();
        attrs.set("Closure", AttrValue::Int(1));
        let outer = m.funcs.push(Function {
            type_params,
            dims: Vec::new(),
            params,
            ret: None,
            constraints: Vec::new(),
            body,
            attrs,
            span,
        });
        // Everything in it is new: the type parameters were those of the function around it.
        let outer = m.copy_func(outer);
        m.globals[global].kind = GlobalKind::Func(outer);
        value
    }
}

/// Whether a type is that of a function with relations, which a type parameter cannot stand for.
fn constrained(m: &Module, ty: TypeId) -> bool {
    matches!(&m.types[ty], Type::Func(f) if !f.constraints.is_empty())
}

/// Equal functions that were lifted become one. Inner closures come before those around them, so
/// that one run finds all.
fn share_equal(m: &mut Module, made: &[GlobalId]) {
    let mut kinds: FxHashMap<(usize, usize), Vec<GlobalId>> = FxHashMap::default();
    let mut replaced: FxHashMap<GlobalId, GlobalId> = FxHashMap::default();
    for &global in made {
        let func = m.global_func(global).expect("it was lifted");
        if !replaced.is_empty() {
            let body = m.funcs[func].body;
            let new = renamed(m, body, &replaced);
            m.set_global_body(global, new);
        }
        let func = m.global_func(global).expect("it was lifted");
        let size = m.post_order([m.funcs[func].body]).len();
        let same = kinds.entry((m.funcs[func].params.len(), size)).or_default();
        let found = same.iter().copied().find(|&other| {
            let other = m.global_func(other).expect("it was lifted");
            relax_ir::functions_equal(m, other, func)
        });
        match found {
            Some(other) => {
                replaced.insert(global, other);
            }
            None => same.push(global),
        }
    }
    if replaced.is_empty() {
        return;
    }
    for (global, body) in m.global_bodies() {
        let new = renamed(m, body, &replaced);
        m.set_global_body(global, new);
    }
    let keep = m
        .globals
        .ids()
        .filter(|g| !replaced.contains_key(g))
        .collect();
    m.retain_globals(&keep);
}

fn renamed(m: &mut Module, body: ExprId, names: &FxHashMap<GlobalId, GlobalId>) -> ExprId {
    m.rewrite(body, &mut Memo::default(), |m, new, _| match m.exprs[new] {
        Expr::Global(g) if names.contains_key(&g) => {
            let span = m.span(new);
            m.add(Expr::Global(names[&g]), span)
        }
        _ => new,
    })
}

/// Type parameters that a function mentions and does not bind, in order of first mention.
fn free_type_params(
    m: &Module,
    func: FuncId,
    captured: &[VarId],
    typing: &Typing,
) -> Vec<TypeParamId> {
    let (mut types, mut bound) = (Vec::<TypeId>::new(), FxHashSet::default());
    let mut funcs = vec![func];
    for &v in captured {
        types.push(typing.vars[v]);
    }
    for e in m.post_order([m.funcs[func].body]) {
        match &m.exprs[e] {
            Expr::Func(f) => funcs.push(*f),
            Expr::MatchCast { ty, .. } => types.push(*ty),
            Expr::Call { type_args, .. } => types.extend(m.type_args(*type_args)),
            _ => {}
        }
        types.extend(m.bound_vars(e).into_iter().filter_map(|v| m.vars[v].ty));
    }
    for f in funcs {
        let f = &m.funcs[f];
        bound.extend(f.type_params.iter().copied());
        types.extend(f.ret);
        types.extend(f.params.iter().filter_map(|p| m.vars[*p].ty));
    }
    let (mut out, mut seen) = (Vec::new(), IdSet::new());
    types.reverse();
    while let Some(ty) = types.pop() {
        if !seen.insert(ty) {
            continue;
        }
        match &m.types[ty] {
            Type::Param(p) => {
                if bound.insert(*p) {
                    out.push(*p);
                }
            }
            Type::Tensor(t) => {
                let shape = match t.shape {
                    relax_ir::Shape::Param(p) => Some(p),
                    _ => None,
                };
                let dtype = match t.dtype {
                    relax_ir::DTy::Param(p) => Some(p),
                    _ => None,
                };
                for p in shape.into_iter().chain(dtype) {
                    if bound.insert(p) {
                        out.push(p);
                    }
                }
            }
            Type::Func(f) => {
                bound.extend(f.params.iter().copied());
                types.extend(m.types.children(ty).into_iter().rev());
            }
            _ => types.extend(m.types.children(ty).into_iter().rev()),
        }
    }
    out
}
