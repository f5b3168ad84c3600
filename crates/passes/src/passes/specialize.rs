//! `specialize`: functions that are polymorphic in element types or shapes get a copy per use.
//!
//! Values of every type have one form at run time, so a function that is polymorphic in types alone is
//! compiled once. One that computes on tensors of any element type or rank, or whose type still asks for
//! a relation (`fn(%x, %y) { add(%x, %y) }`), is compiled for the types that it is used with: each use
//! becomes a use of a copy whose parameters have those types. Equal uses share a copy.

use relax_base::{Diagnostics, Symbol};
use relax_infer::Typing;
use relax_ir::{
    Copier, DTy, Expr, ExprId, FuncId, Function, Global, GlobalId, GlobalKind, Kind, Memo, Module,
    Shape, TensorType, Type, TypeId,
};
use relax_sym::Dim;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{Contract, OptionDef, OptionType, PassCx, PassDef};

pub(crate) const PASSES: &[PassDef] = &[PassDef {
    name: "specialize",
    doc: "copies functions that are polymorphic in element types or shapes for each use",
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
    let mut known: FxHashMap<(GlobalId, String), GlobalId> = FxHashMap::default();
    loop {
        let typing = cx.typing()?;
        let m = &mut *cx.module;
        let before = known.len();
        for (global, body) in m.global_bodies() {
            if computes_on_any(m, typing.globals[global]) {
                continue;
            }
            let mut memo = Memo::default();
            let mut changed = false;
            for old in m.post_order([body]) {
                let mut new = m.map_children(old, |c| memo[&c]);
                if let Some(copy) = instance(m, &typing, old, new, &mut known, most) {
                    new = copy;
                    changed = true;
                }
                memo.insert(old, new);
            }
            if changed {
                m.set_global_body(global, memo[&body]);
            }
        }
        if known.len() == before {
            break;
        }
    }
    cx.count("functions copied", known.len() as u64);
    let copied: FxHashSet<GlobalId> = known.keys().map(|k| k.0).collect();
    if !copied.is_empty() {
        drop_unused(cx, &copied)?;
    }
    Ok(())
}

/// Drops functions that every use has become a copy of.
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

/// Whether a function of this type computes on tensors of an element type or rank that only its caller
/// knows.
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

/// What takes the place of `new`, the rewritten `old`, where it uses such a function.
fn instance(
    m: &mut Module,
    typing: &Typing,
    old: ExprId,
    new: ExprId,
    known: &mut FxHashMap<(GlobalId, String), GlobalId>,
    most: usize,
) -> Option<ExprId> {
    let Expr::Call { callee, args, .. } = m.exprs[old] else {
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
    let args: Vec<TypeId> = (m.list(args).iter())
        .map(|&a| match m.exprs[a] {
            Expr::Var(v) => typing.vars[v],
            _ => typing.exprs[a],
        })
        .collect();
    if !args.iter().all(|&t| concrete(m, t)) {
        return None;
    }
    let shown: Vec<String> = args.iter().map(|&t| m.show_type(t)).collect();
    let key = (g, shown.join(", "));
    let copy = match known.get(&key) {
        Some(&copy) => copy,
        None if known.len() >= most => return None,
        None => {
            let copy = specialized(m, g, func, generic, &args);
            known.insert(key, copy);
            copy
        }
    };
    let span = m.span(old);
    let Expr::Call { args, attrs, .. } = m.exprs[new] else {
        return None;
    };
    let callee = m.add(Expr::Global(copy), m.span(callee));
    let call = Expr::Call {
        callee,
        args,
        attrs,
        type_args: 0,
    };
    Some(m.add(call, span))
}

/// Whether a type says everything but the values of dimensions.
fn concrete(m: &Module, ty: TypeId) -> bool {
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
            _ => work.extend(m.types.children(ty)),
        }
    }
    true
}

/// A copy of `g` for arguments of these types.
fn specialized(
    m: &mut Module,
    g: GlobalId,
    func: FuncId,
    generic: TypeId,
    args: &[TypeId],
) -> GlobalId {
    let mut copier = Copier::new();
    // The dimensions of the caller are parameters of the copy, under the same names.
    let mut dims: FxHashMap<Dim, Dim> = FxHashMap::default();
    let mut own = Vec::new();
    let args: Vec<TypeId> = args
        .iter()
        .map(|&t| rename(m, t, &mut dims, &mut own))
        .collect();
    if let Type::Func(f) = m.types[generic].clone() {
        for (&have, &want) in args.iter().zip(f.args.iter()) {
            bind(m, want, have, &mut copier);
        }
    }
    let copy = copier.func(m, func);
    let function = m.funcs[copy].clone();
    for (&p, &ty) in function.params.iter().zip(&args) {
        m.vars[p].ty = Some(ty);
    }
    let mut all = own;
    all.extend(
        function
            .dims
            .iter()
            .copied()
            .filter(|d| !all.contains(d))
            .collect::<Vec<_>>(),
    );
    let copy = m.funcs.push(Function {
        type_params: Vec::new(),
        constraints: Vec::new(),
        dims: all,
        // What the body gives, now that the arguments are known.
        ret: None,
        ..function
    });
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

/// A type over dimension variables of its own. An extent that is an expression becomes a variable: what
/// relates it to others is the caller's knowledge.
fn rename(
    m: &mut Module,
    ty: TypeId,
    dims: &mut FxHashMap<Dim, Dim>,
    own: &mut Vec<relax_sym::DimVar>,
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
                        if d.as_const().is_some() || !d.is_known() {
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
            // A function's dimensions stand in its own type.
            _ => ty,
        };
        done.insert(ty, new);
    }
    done[&ty]
}

/// Finds what the type parameters of `generic` are, from a type in its place.
fn bind(m: &mut Module, generic: TypeId, have: TypeId, copier: &mut Copier) {
    let mut work = vec![(generic, have)];
    while let Some((want, have)) = work.pop() {
        match (m.types[want].clone(), m.types[have].clone()) {
            (Type::Param(p), _) => {
                copier.types.types.entry(p).or_insert(have);
                copier.types.params.entry(p).or_insert(p);
            }
            (Type::Tensor(w), Type::Tensor(h)) => {
                if let Shape::Param(p) = w.shape {
                    copier.types.shapes.entry(p).or_insert(h.shape);
                    copier.types.params.entry(p).or_insert(p);
                }
                if let DTy::Param(p) = w.dtype {
                    copier.types.dtypes.entry(p).or_insert(h.dtype);
                    copier.types.params.entry(p).or_insert(p);
                }
            }
            (Type::Shape(Shape::Param(p)), Type::Shape(s)) => {
                copier.types.shapes.entry(p).or_insert(s);
                copier.types.params.entry(p).or_insert(p);
            }
            (Type::Tuple(w), Type::Tuple(h)) => {
                work.extend(w.iter().copied().zip(h.iter().copied()))
            }
            (Type::Adt(a, w), Type::Adt(b, h)) if a == b => {
                work.extend(w.iter().copied().zip(h.iter().copied()));
            }
            (Type::Ref(w), Type::Ref(h)) => work.push((w, h)),
            (Type::Func(w), Type::Func(h)) => {
                work.extend(w.args.iter().copied().zip(h.args.iter().copied()));
                work.push((w.ret, h.ret));
            }
            _ => {}
        }
    }
}
