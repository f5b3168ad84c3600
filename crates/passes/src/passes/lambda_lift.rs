//! `lambda-lift`: closures become global functions.
//!
//! A closure without free variables becomes a global. Another one becomes a global that takes the
//! free variables and returns the closure (marked `Closure=1`), and a call of it. One with types
//! that cannot be written down, because inference generated their parameters, stays where it is.

use relax_base::{Diagnostics, Span, Symbol};
use relax_infer::Typing;
use relax_ir::{
    AttrValue, Attrs, Expr, ExprId, FuncId, Function, Global, GlobalId, GlobalKind, Memo, Module,
    Type, VarId, VarStyle,
};
use relax_sym::DimVar;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::abstracted::{Abstracted, bound_outside, has_writable_types};
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
        let outer_dims = m.funcs[func].dims.clone();
        let mut memo = Memo::default();
        for &old in &order {
            if matches!(m.exprs[old], Expr::Func(f) if is_primitive(&m.funcs[f])) {
                memo.insert(old, old);
                continue;
            }
            let new = m.map_children(old, |c| memo[&c]);
            let new = match m.exprs[new] {
                Expr::Func(f) if !is_primitive(&m.funcs[f]) => {
                    let outside = bound_outside(m, &outer_dims, &order, old);
                    let around = Around {
                        nameable: &mut nameable,
                        dims: &outside,
                        name: let_of.get(&old).copied(),
                    };
                    lifter.lift(m, around, old, new, f)
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

    /// Annotates the inferred types, since the context that they follow from will be missing.
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
        around: Around<'_>,
        old: ExprId,
        new: ExprId,
        func: FuncId,
    ) -> ExprId {
        let Around {
            nameable,
            dims,
            name,
        } = around;
        let span = m.span(old);
        let Expr::Func(old_func) = m.exprs[old] else {
            return new;
        };
        let free = m.free_vars(new);
        let uses: Vec<VarId> = free.iter().copied().chain(name).collect();
        if !has_writable_types(m, self.typing, nameable, old_func, &uses) {
            return new;
        }
        let func = self.annotate(m, old_func, func);
        let recursive = name.filter(|v| free.contains(v));
        let captured: Vec<VarId> = free.into_iter().filter(|v| Some(*v) != recursive).collect();
        let Some(over) = Abstracted::of(m, self.typing, func, &captured, dims) else {
            return new;
        };
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
        if captured.is_empty() {
            function.dims.extend(over.dims);
            function.type_params.extend(over.type_params);
            let names = !function.dims.is_empty() || !function.type_params.is_empty();
            let mut func = m.funcs.push(function);
            if names {
                // They were those of the enclosing function.
                func = m.copy_func(func);
            }
            m.globals[global].kind = GlobalKind::Func(func);
            return value;
        }
        let (own_dims, given_dims) = over.own_and_given();
        function.dims.extend(own_dims);
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
            type_params: over.type_params,
            dims: given_dims,
            params,
            ret: None,
            constraints: Vec::new(),
            body,
            attrs,
            span,
        });
        // Everything in it is new: the type parameters were those of the enclosing function.
        let outer = m.copy_func(outer);
        m.globals[global].kind = GlobalKind::Func(outer);
        value
    }
}

/// The context of a closure.
struct Around<'a> {
    /// The names that its text can use.
    nameable: &'a mut Nameable,
    /// The dimension variables that are bound outside of the closure.
    dims: &'a FxHashSet<DimVar>,
    /// The variable that is bound to it.
    name: Option<VarId>,
}

/// Merges equal lifted functions. Inner closures come before enclosing ones, so that one pass finds
/// all.
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
