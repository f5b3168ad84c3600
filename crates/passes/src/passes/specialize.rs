//! `specialize`: functions that are polymorphic in element types or shapes get a copy per use.
//!
//! Values of every type have the same representation at run time, so a function that is polymorphic
//! only in types is compiled once. One that computes on tensors of any element type or rank, or
//! whose type still has a relation (`fn(%x, %y) { add(%x, %y) }`), is compiled for the types that
//! it is used with: each use becomes a use of a copy whose parameters have those types. Equal uses
//! share a copy. The same holds for functions that a `let` binds (their copies directly follow
//! them); operators and such functions that are used as values become closures first ([`values`]),
//! which have the type that their context requires.

use relax_base::{Diagnostics, Symbol};
use relax_infer::Typing;
use relax_ir::{
    Copier, Expr, ExprId, FuncId, Function, Global, GlobalId, GlobalKind, Kind, Memo, Module,
    Shape, TensorType, Type, TypeId, TypeParamId,
};
use relax_sym::{Dim, DimVar};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{Contract, OptionDef, OptionType, PassCx, PassDef};

mod local;
mod values;

pub(crate) const PASSES: &[PassDef] = &[PassDef {
    name: "specialize",
    doc: "Copies functions that are polymorphic in element types or shapes for each use",
    options: &[OptionDef {
        name: "max-copies",
        ty: OptionType::Int,
        default: "1000",
        doc: "no more copies are made; a function that calls itself at ever new types stays polymorphic",
    }],
    contract: Contract::TYPED,
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let most = cx.options.int("max-copies") as usize;
    copies(cx, most)
}

/// Returns whether some function of the module, nested or not, computes on any element type or
/// rank.
pub(super) fn is_open(m: &Module, typing: &Typing) -> bool {
    let bodies = m.global_bodies();
    let global = |g: &GlobalId| computes_on_any(m, typing.globals[*g]);
    bodies.iter().any(|(g, _)| global(g))
        || m.post_order(bodies.iter().map(|b| b.1))
            .into_iter()
            .any(|e| match m.exprs[e] {
                Expr::Func(f) => computes_on_any(m, typing.funcs[f]),
                _ => false,
            })
}

/// Copies functions that compute on any element type or rank for the types that they are called
/// with, up to a maximum number of copies.
pub(super) fn copies(cx: &mut PassCx<'_>, most: usize) -> Result<(), Diagnostics> {
    let closures = values::made_closures(cx)?;
    cx.count("values made closures", closures);
    let mut known: FxHashMap<(GlobalId, String), GlobalId> = FxHashMap::default();
    let mut locals = local::Locals::default();
    loop {
        let typing = cx.typing()?;
        let m = &mut *cx.module;
        locals.look(m);
        let before = known.len() + locals.copies();
        let open = open_params(m, &typing);
        for (global, body) in m.global_bodies() {
            if computes_on_any(m, typing.globals[global]) {
                continue;
            }
            let mut memo = Memo::default();
            let mut changed = false;
            for old in m.post_order([body]) {
                let mut new = m.map_children(old, |c| memo[&c]);
                if let Some(args) = concrete_args(m, &typing, old, &open) {
                    let room = most.saturating_sub(known.len() + locals.copies());
                    let call = match instance(m, &typing, old, new, &args, &mut known, room) {
                        None => locals.call(m, &typing, old, new, &args, room),
                        call => call,
                    };
                    if let Some(call) = call {
                        new = call;
                        changed = true;
                    }
                }
                if let Some(bound) = locals.bind(m, &typing, new) {
                    new = bound;
                    changed = true;
                }
                memo.insert(old, new);
            }
            if changed {
                m.set_global_body(global, memo[&body]);
            }
        }
        if known.len() + locals.copies() == before {
            break;
        }
    }
    cx.count("functions copied", (known.len() + locals.copies()) as u64);
    locals.drop_unused(cx.module);
    let copied: FxHashSet<GlobalId> = known.keys().map(|k| k.0).collect();
    if !copied.is_empty() {
        drop_unused(cx, &copied)?;
    }
    Ok(())
}

/// Returns the type parameters of functions that compute on any type: a value of such a type is not
/// known before the function is copied.
fn open_params(m: &Module, typing: &Typing) -> FxHashSet<TypeParamId> {
    let mut open = FxHashSet::default();
    for (id, _) in m.funcs.iter() {
        let ty = typing.funcs[id];
        if computes_on_any(m, ty)
            && let Type::Func(f) = &m.types[ty]
        {
            open.extend(f.params.iter().copied());
        }
    }
    open
}

/// Drops functions all of whose uses were replaced by copies.
fn drop_unused(cx: &mut PassCx<'_>, copied: &FxHashSet<GlobalId>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let m = &mut *cx.module;
    let graph = m.call_graph();
    let polymorphic = |g: &GlobalId| computes_on_any(m, typing.globals[*g]);
    let mut keep: FxHashSet<GlobalId> = FxHashSet::default();
    let mut work: Vec<GlobalId> = (m.globals.ids())
        .filter(|g| !(copied.contains(g) && polymorphic(g)))
        .collect();
    while let Some(g) = work.pop() {
        if keep.insert(g) {
            work.extend(graph.get(&g).into_iter().flatten());
        }
    }
    m.retain_globals(&keep);
    Ok(())
}

/// Returns whether a function of this type computes on tensors of an element type or rank that only
/// its caller knows.
fn computes_on_any(m: &Module, ty: TypeId) -> bool {
    if ty.0 as usize >= m.types.len() {
        return false;
    }
    match &m.types[ty] {
        Type::Func(f) => {
            !f.constraints.is_empty()
                || f.params
                    .iter()
                    .any(|&p| matches!(m.types.params[p].kind, Kind::BaseType | Kind::Shape))
        }
        _ => false,
    }
}

/// Returns the types of a call's arguments, where they determine everything but the values of
/// dimensions.
fn concrete_args(
    m: &Module,
    typing: &Typing,
    call: ExprId,
    open: &FxHashSet<TypeParamId>,
) -> Option<Vec<TypeId>> {
    let Expr::Call { callee, args, .. } = m.exprs[call] else {
        return None;
    };
    if !matches!(m.exprs[callee], Expr::Global(_) | Expr::Var(_)) {
        return None;
    }
    let args: Vec<TypeId> = (m.list(args).iter())
        .map(|&a| match m.exprs[a] {
            Expr::Var(v) => typing.vars[v],
            _ => typing.exprs[a],
        })
        .collect();
    args.iter().all(|&t| concrete(m, t, open)).then_some(args)
}

/// Returns the arguments as the key of a copy.
fn key(m: &Module, args: &[TypeId]) -> String {
    let shown: Vec<String> = args.iter().map(|&t| m.show_type(t)).collect();
    shown.join(", ")
}

/// Returns the replacement of `new`, the rewritten `old`, where it calls such a global function; no
/// more than `room` further copies are created.
fn instance(
    m: &mut Module,
    typing: &Typing,
    old: ExprId,
    new: ExprId,
    args: &[TypeId],
    known: &mut FxHashMap<(GlobalId, String), GlobalId>,
    room: usize,
) -> Option<ExprId> {
    let Expr::Call { callee, .. } = m.exprs[old] else {
        return None;
    };
    let Expr::Global(g) = m.exprs[callee] else {
        return None;
    };
    let generic = typing.globals[g];
    if !computes_on_any(m, generic) {
        return None;
    }
    let func = m.global_func(g)?;
    let key = (g, key(m, args));
    let copy = match known.get(&key) {
        Some(&copy) => copy,
        None if room == 0 => return None,
        None => {
            let copy = specialized(m, g, func, generic, args);
            known.insert(key, copy);
            copy
        }
    };
    let callee = m.add(Expr::Global(copy), m.span(callee));
    redirected(m, new, callee)
}

/// Creates a call of another function with the same arguments. Type arguments refer to the old
/// function's parameters.
fn redirected(m: &mut Module, call: ExprId, callee: ExprId) -> Option<ExprId> {
    let Expr::Call { args, attrs, .. } = m.exprs[call] else {
        return None;
    };
    let span = m.span(call);
    let call = Expr::Call {
        callee,
        args,
        attrs,
        type_args: 0,
    };
    Some(m.add(call, span))
}

/// Returns whether a type determines everything but the values of dimensions.
fn concrete(m: &Module, ty: TypeId, open: &FxHashSet<TypeParamId>) -> bool {
    let (mut work, mut seen) = (vec![ty], FxHashSet::default());
    while let Some(ty) = work.pop() {
        if ty.0 as usize >= m.types.len() {
            return false;
        }
        if !seen.insert(ty) {
            continue;
        }
        match &m.types[ty] {
            Type::Tensor(t) => {
                if t.shape.dims().is_none() || t.dtype.known().is_none() {
                    return false;
                }
            }
            Type::Infer(_) | Type::Error => return false,
            Type::Param(p) if open.contains(p) => return false,
            _ => work.extend(m.types.children(ty)),
        }
    }
    true
}

/// Returns a copy of `g` for arguments of these types.
fn specialized(
    m: &mut Module,
    g: GlobalId,
    func: FuncId,
    generic: TypeId,
    args: &[TypeId],
) -> GlobalId {
    let copy = specialized_func(m, Copier::new(), func, generic, args, &FxHashSet::default());
    let names: FxHashSet<Symbol> = m.globals.values().map(|g| g.name).collect();
    let base = m.globals[g].name;
    let name = (0..)
        .map(|k| Symbol::new(&format!("{base}_{k}")))
        .find(|n| !names.contains(n))
        .expect("there is always another number");
    let span = m.globals[g].span;
    m.globals.push(Global {
        name,
        kind: GlobalKind::Func(copy),
        span,
        prelude: false,
    })
}

/// Returns a copy of a function of type `generic` for arguments of these types. Dimensions of the
/// caller, except for those in `shared`, are parameters of the copy under the same names.
fn specialized_func(
    m: &mut Module,
    mut copier: Copier,
    func: FuncId,
    generic: TypeId,
    args: &[TypeId],
    shared: &FxHashSet<DimVar>,
) -> FuncId {
    let mut dims: FxHashMap<Dim, Dim> = FxHashMap::default();
    let mut own = Vec::new();
    let args: Vec<TypeId> = args
        .iter()
        .map(|&t| rename(m, t, shared, &mut dims, &mut own))
        .collect();
    if let Type::Func(f) = m.types[generic].clone() {
        for (&have, &want) in args.iter().zip(f.args.iter()) {
            copier.types.match_type(&m.types, want, have, &[]);
        }
        // Otherwise the copier would create a new parameter.
        let types = &mut copier.types;
        for &p in &f.params {
            if types.types.contains_key(&p)
                || types.shapes.contains_key(&p)
                || types.dtypes.contains_key(&p)
            {
                types.params.insert(p, p);
            }
        }
    }
    let copy = copier.func(m, func);
    let function = m.funcs[copy].clone();
    for (&p, &ty) in function.params.iter().zip(&args) {
        m.vars[p].ty = Some(ty);
    }
    let more = function.dims.iter().filter(|d| !own.contains(d));
    let dims = own.iter().chain(more).copied().collect();
    m.funcs.push(Function {
        type_params: Vec::new(),
        constraints: Vec::new(),
        dims,
        // The result type of the body, now that the arguments are known.
        ret: None,
        ..function
    })
}

/// Returns a type over dimension variables of its own, and those in `shared`. An extent that is an
/// expression becomes a variable: only the caller knows how it relates to others.
fn rename(
    m: &mut Module,
    ty: TypeId,
    shared: &FxHashSet<DimVar>,
    dims: &mut FxHashMap<Dim, Dim>,
    own: &mut Vec<DimVar>,
) -> TypeId {
    let mut done: FxHashMap<TypeId, TypeId> = FxHashMap::default();
    let mut work = vec![(ty, false)];
    while let Some((ty, ready)) = work.pop() {
        if done.contains_key(&ty) {
            continue;
        }
        let children = m.types.children(ty);
        if !ready && !children.is_empty() {
            work.push((ty, true));
            work.extend(children.into_iter().map(|c| (c, false)));
            continue;
        }
        let mut shape = |m: &mut Module, s: &Shape| match s {
            Shape::Dims(list) => Shape::Dims(
                list.iter()
                    .map(|d| {
                        let here = |v: &DimVar| shared.contains(v);
                        if !d.is_known() || d.free_vars().iter().all(here) {
                            return d.clone();
                        }
                        if let Some(known) = dims.get(d) {
                            return known.clone();
                        }
                        let wish = match d.as_atom() {
                            Some(relax_sym::Atom::Var(v)) => m.dims[v].name,
                            _ => Symbol::new("d"),
                        };
                        let new = m.fresh_dim(wish, relax_base::Span::NONE);
                        if let Some(relax_sym::Atom::Var(v)) = new.as_atom() {
                            own.push(v);
                        }
                        dims.insert(d.clone(), new.clone());
                        new
                    })
                    .collect(),
            ),
            other => other.clone(),
        };
        let new = match m.types[ty].clone() {
            Type::Tensor(t) => {
                let shape = shape(m, &t.shape);
                m.types.intern(Type::Tensor(TensorType { shape, ..t }))
            }
            Type::Shape(s) => {
                let s = shape(m, &s);
                m.types.intern(Type::Shape(s))
            }
            Type::Tuple(fields) => {
                let fields: Vec<TypeId> = fields.iter().map(|f| done[f]).collect();
                m.types.tuple(fields)
            }
            Type::Adt(adt, list) => {
                let list = list.iter().map(|t| done[t]).collect();
                m.types.intern(Type::Adt(adt, list))
            }
            Type::Ref(t) => m.types.intern(Type::Ref(done[&t])),
            // A function's dimensions are in its own type.
            _ => ty,
        };
        done.insert(ty, new);
    }
    done[&ty]
}
