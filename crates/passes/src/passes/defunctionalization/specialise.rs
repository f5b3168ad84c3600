//! Copies of polymorphic functions for the types that they are called with: the first half of the
//! pass.

use relax_base::{Diagnostics, Symbol};
use relax_infer::Typing;
use relax_ir::{
    Copier, DTy, Expr, ExprId, Function, Global, GlobalId, GlobalKind, Kind, Module, Shape, Type,
    TypeId,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Failure, ROUNDS};
use crate::PassCx;
use crate::util::fresh_global;

/// Copies polymorphic functions for each list of types that they are used with, and drops functions
/// that are unreachable from the entry. Returns the entry's new id.
pub(super) fn specialise(
    cx: &mut PassCx<'_>,
    mut entry: GlobalId,
) -> Result<Result<GlobalId, Failure>, Diagnostics> {
    let mut copies: FxHashMap<(Symbol, Box<[TypeId]>), Symbol> = FxHashMap::default();
    for _ in 0..ROUNDS {
        let graph = cx.module.call_graph();
        let (mut keep, mut work) = (FxHashSet::default(), vec![entry]);
        let name = cx.module.globals[entry].name;
        while let Some(id) = work.pop() {
            if keep.insert(id) {
                work.extend(graph.get(&id).into_iter().flatten());
            }
        }
        cx.module.retain_globals(&keep);
        entry = cx.module.global(&name.to_string()).expect("it is kept");
        let typing = cx.typing()?;
        let m = &mut *cx.module;
        let mut changed = false;
        for (global, body) in m.global_bodies() {
            let func = m.global_func(global).expect("it has a body");
            if !m.funcs[func].type_params.is_empty() {
                continue;
            }
            let mut new_callee: FxHashMap<ExprId, GlobalId> = FxHashMap::default();
            for e in m.post_order([body]) {
                let Some((callee, types)) = instance(m, &typing, e) else {
                    continue;
                };
                let Expr::Global(old) = m.exprs[callee] else {
                    continue;
                };
                if types.iter().any(|&t| !plain(m, t)) {
                    let why = "the types of a polymorphic call are not known";
                    return Ok(Err((m.span(e), why.into())));
                }
                let key = (m.globals[old].name, types.clone());
                let copy = match copies.get(&key) {
                    Some(name) => m.global(&name.to_string()),
                    None => None,
                };
                let copy = match copy {
                    Some(copy) => copy,
                    None => {
                        let copy = specialised(m, old, &types);
                        copies.insert(key, m.globals[copy].name);
                        copy
                    }
                };
                new_callee.insert(e, copy);
            }
            if new_callee.is_empty() {
                continue;
            }
            changed = true;
            let new = m.rewrite(body, &mut Default::default(), |m, new, old| {
                let Some(&copy) = new_callee.get(&old) else {
                    return new;
                };
                let span = m.span(old);
                let callee = m.add(Expr::Global(copy), span);
                match m.exprs[new] {
                    Expr::Call { args, attrs, .. } => {
                        let call = Expr::Call {
                            callee,
                            args,
                            attrs,
                            type_args: 0,
                        };
                        m.add(call, span)
                    }
                    _ => callee,
                }
            });
            m.set_global_body(global, new);
        }
        if !changed {
            return Ok(Ok(entry));
        }
    }
    let body = cx.module.globals[entry].span;
    Ok(Err((
        body,
        "a polymorphic function calls itself at ever larger types".into(),
    )))
}

/// If an expression is a use of a polymorphic global, returns the global and the type arguments.
fn instance(m: &Module, typing: &Typing, e: ExprId) -> Option<(ExprId, Box<[TypeId]>)> {
    let types = typing.type_args.get(&e)?;
    let callee = match m.exprs[e] {
        Expr::Call { callee, .. } => callee,
        Expr::Global(_) => e,
        _ => return None,
    };
    let Expr::Global(g) = m.exprs[callee] else {
        return None;
    };
    let func = m.global_func(g)?;
    let function = &m.funcs[func];
    let fits = !function.type_params.is_empty() && function.type_params.len() == types.len();
    fits.then(|| (callee, types.clone()))
}

fn specialised(m: &mut Module, old: GlobalId, types: &[TypeId]) -> GlobalId {
    let func = m
        .global_func(old)
        .expect("a polymorphic global is a function");
    let params = m.funcs[func].type_params.clone();
    let mut copy = Copier::new();
    for (&param, &ty) in params.iter().zip(types) {
        match (m.types.params[param].kind, &m.types[ty]) {
            (Kind::Shape, Type::Shape(shape)) => {
                copy.types.shapes.insert(param, shape.clone());
            }
            (Kind::BaseType, Type::Tensor(t)) => {
                copy.types.dtypes.insert(param, t.dtype);
            }
            _ => {
                copy.types.types.insert(param, ty);
            }
        }
        // Otherwise the copier would create a new parameter.
        copy.types.params.insert(param, param);
    }
    let new = copy.func(m, func);
    let function = Function {
        type_params: Vec::new(),
        ..m.funcs[new].clone()
    };
    let new = m.funcs.push(function);
    let name = fresh_global(m, &m.globals[old].name.to_string());
    m.globals.push(Global {
        name,
        kind: GlobalKind::Func(new),
        span: m.globals[old].span,
        prelude: false,
    })
}

/// Returns whether a type has no parameters, unknowns or dimension variables, so that data types
/// can hold it.
pub(super) fn plain(m: &Module, root: TypeId) -> bool {
    let mut work = vec![root];
    while let Some(t) = work.pop() {
        let good = match &m.types[t] {
            Type::Tensor(t) => constant(&t.shape) && matches!(t.dtype, DTy::Known(_)),
            Type::Shape(s) => constant(s),
            Type::Func(f) => f.params.is_empty() && f.dims.is_empty() && f.constraints.is_empty(),
            Type::Param(_) | Type::Infer(_) | Type::Error | Type::Object => false,
            Type::Tuple(_) | Type::Adt(..) | Type::Ref(_) => true,
        };
        if !good {
            return false;
        }
        work.extend(m.types.children(t));
    }
    true
}

fn constant(shape: &Shape) -> bool {
    shape
        .dims()
        .is_some_and(|d| d.iter().all(|d| d.as_const().is_some()))
}

pub(super) fn has_function(m: &Module, root: TypeId) -> bool {
    let mut work = vec![root];
    while let Some(t) = work.pop() {
        if let Type::Func(_) = m.types[t] {
            return true;
        }
        work.extend(m.types.children(t));
    }
    false
}
