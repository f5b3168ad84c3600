//! `lambda-lift`: closures become global functions.
//!
//! A closure without free variables becomes a global. Another one becomes a global that takes the
//! free variables and returns the closure (marked `Closure=1`), and a call of it. One with types
//! that cannot be written down, because inference generated their parameters, stays where it is.

use relax_base::{Diagnostics, Span, Symbol};
use relax_infer::Typing;
use relax_ir::{
    AttrValue, Attrs, Expr, ExprId, FuncId, Function, Global, GlobalId, GlobalKind, IdSet, Memo,
    Module, TensorType, Type, TypeId, TypeParamId, VarId, VarStyle,
};
use relax_sym::DimVar;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::scope::{Nameable, alone};
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
        let uses = free.iter().chain(&name).map(|v| self.typing.vars[*v]);
        let own = std::iter::once(self.typing.funcs[old_func]);
        // Expressions that another pass or an error left untyped stay so.
        let mut said = (uses.chain(own)).filter(|t| m.types[*t] != Type::Error);
        if !said.all(|t| nameable.annotation(m, t).is_some() && !constrained(m, t)) {
            return new;
        }
        // Type parameters that inference made up are bound by no function's text.
        if let Type::Func(f) = &m.types[self.typing.funcs[old_func]]
            && f.params.len() > m.funcs[func].type_params.len()
        {
            return new;
        }
        let func = self.annotate(m, old_func, func);
        let (mut used, values) = dims_used(m, func, dims);
        let recursive = name.filter(|v| free.contains(v));
        let captured: Vec<VarId> = free.into_iter().filter(|v| Some(*v) != recursive).collect();
        let type_params = free_type_params(m, func, &captured, self.typing);
        let own: Vec<TypeId> = (m.funcs[func].params.iter())
            .filter_map(|p| m.vars[*p].ty)
            .collect();
        let given: Vec<TypeId> = captured.iter().map(|v| self.typing.vars[*v]).collect();
        // A dimension is determined by arguments, or not at all.
        let known = extents(m, own.iter().chain(&given).copied());
        let (by_own, by_given) = (dims_in_order(m, own), dims_in_order(m, given));
        used.extend(by_given.iter().filter(|d| dims.contains(d)));
        let mut seen = FxHashSet::default();
        used.retain(|d| seen.insert(*d));
        // In a function's type a name would be that type's own.
        if !used.iter().all(|d| known.contains(d)) || !values.is_subset(&known) {
            return new;
        }
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
        let outermost = captured.is_empty() && type_params.is_empty();
        let here = |d: &DimVar| outermost || by_own.contains(d) && !by_given.contains(d);
        let (inner_dims, mut outer_dims): (Vec<DimVar>, Vec<DimVar>) =
            used.into_iter().partition(here);
        // In the order in which a text declares them: where the parameters mention them.
        outer_dims.sort_by_key(|d| by_given.iter().position(|g| g == d));
        function.dims.extend(inner_dims);
        if outermost {
            let dims = !function.dims.is_empty();
            let mut func = m.funcs.push(function);
            if dims {
                // The dimension variables were those of the enclosing function.
                func = m.copy_func(func);
            }
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
            dims: outer_dims,
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

/// Returns the dimension variables that are bound outside of a closure, in the function that has
/// `dims` and the nodes of `order`.
fn bound_outside(
    m: &Module,
    dims: &[DimVar],
    order: &[ExprId],
    closure: ExprId,
) -> FxHashSet<DimVar> {
    let inside: IdSet = m.post_order([closure]).into_iter().collect();
    let mut found: FxHashSet<DimVar> = dims.iter().copied().collect();
    for &e in order.iter().filter(|e| !inside.contains(**e)) {
        match &m.exprs[e] {
            Expr::Func(f) => found.extend(&m.funcs[*f].dims),
            Expr::MatchCast { ty, .. } => found.extend(m.dims_in_types([*ty])),
            Expr::MatchShape { dims, .. } => found.extend(dims.iter().flat_map(|d| d.free_vars())),
            _ => {}
        }
    }
    found
}

/// Returns the dimension variables among `bound` that a function mentions, in order of first
/// mention, and those whose values it uses.
fn dims_used(
    m: &Module,
    func: FuncId,
    bound: &FxHashSet<DimVar>,
) -> (Vec<DimVar>, FxHashSet<DimVar>) {
    let (mut types, mut values) = (Vec::new(), Vec::new());
    let mut signature = |f: FuncId| {
        let f = &m.funcs[f];
        types.extend(f.params.iter().filter_map(|p| m.vars[*p].ty));
        types.extend(f.ret);
    };
    signature(func);
    let order = m.post_order([m.funcs[func].body]);
    for &e in &order {
        if let Expr::Func(f) = &m.exprs[e] {
            signature(*f);
        }
    }
    for &e in &order {
        match &m.exprs[e] {
            Expr::MatchCast { ty, .. } => types.push(*ty),
            Expr::MatchShape { dims, .. } | Expr::Shape(dims) => {
                values.extend(dims.iter().flat_map(|d| d.free_vars()));
            }
            Expr::Call {
                type_args, attrs, ..
            } => {
                types.extend(m.type_args(*type_args));
                attr_dims(m.attrs(*attrs).iter().map(|a| &a.1), &mut values);
            }
            _ => {}
        }
        types.extend(m.bound_vars(e).into_iter().filter_map(|v| m.vars[v].ty));
    }
    let mut mentioned = dims_in_order(m, types);
    mentioned.extend(&values);
    let mut seen = FxHashSet::default();
    mentioned.retain(|d| bound.contains(d) && seen.insert(*d));
    values.retain(|d| bound.contains(d));
    (mentioned, values.into_iter().collect())
}

/// Returns the dimension variables that types mention, in textual order.
fn dims_in_order(m: &Module, mut types: Vec<TypeId>) -> Vec<DimVar> {
    types.reverse();
    let (mut found, mut seen) = (Vec::new(), IdSet::new());
    while let Some(ty) = types.pop() {
        if !seen.insert(ty) {
            continue;
        }
        if let Type::Tensor(TensorType { shape, .. }) | Type::Shape(shape) = &m.types[ty] {
            let dims = shape.dims().unwrap_or_default();
            found.extend(dims.iter().flat_map(|d| d.free_vars()));
        }
        types.extend(m.types.children(ty).into_iter().rev());
    }
    found
}

/// The dimension variables in values of attributes.
fn attr_dims<'a>(values: impl Iterator<Item = &'a AttrValue>, found: &mut Vec<DimVar>) {
    let mut work: Vec<&AttrValue> = values.collect();
    while let Some(value) = work.pop() {
        match value {
            AttrValue::Dim(d) => found.extend(d.free_vars()),
            AttrValue::Array(items) => work.extend(items.iter()),
            _ => {}
        }
    }
}

/// Returns the dimension variables that are an extent of tensors of these types.
fn extents(m: &Module, types: impl Iterator<Item = TypeId>) -> FxHashSet<DimVar> {
    let (mut work, mut found): (Vec<TypeId>, _) = (types.collect(), FxHashSet::default());
    while let Some(ty) = work.pop() {
        match &m.types[ty] {
            Type::Tensor(TensorType { shape, .. }) | Type::Shape(shape) => {
                found.extend(shape.dims().unwrap_or_default().iter().filter_map(alone));
            }
            Type::Tuple(fields) => work.extend(fields),
            _ => {}
        }
    }
    found
}

/// Returns whether a type is that of a function with relations, which cannot instantiate a type
/// parameter.
fn constrained(m: &Module, ty: TypeId) -> bool {
    matches!(&m.types[ty], Type::Func(f) if !f.constraints.is_empty())
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

/// Returns the type parameters that a function mentions and does not bind, in order of first
/// mention.
pub(super) fn free_type_params(
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
