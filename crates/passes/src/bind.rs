//! Substitution of constants for a function's parameters, and for the unknown extents of its
//! parameters.

use relax_base::{Span, Symbol};
use relax_ir::{
    Copier, DTy, Expr, ExprId, Function, Global, GlobalId, GlobalKind, Memo, Module, Shape,
    TensorType, Type,
};
use relax_sym::{Dim, DimVar};
use relax_tensor::{DType, Tensor};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::util::fresh_global;

/// A value to put in place of a parameter.
#[derive(Clone, Debug)]
pub enum Bound {
    /// A tensor.
    Tensor(Tensor),
    /// A tuple.
    Tuple(Vec<Bound>),
}

/// Binds parameters of a global function to values, by name: they become constants and are no
/// longer parameters. If the module itself calls the function, it keeps calling it with all
/// arguments, under another name. Returns the names that no parameter has.
pub fn bind_params(
    module: &mut Module,
    global: GlobalId,
    values: Vec<(String, Bound)>,
) -> Vec<String> {
    let Some(func) = module.global_func(global) else {
        return values.into_iter().map(|v| v.0).collect();
    };
    if !values.is_empty() && is_used(module, global) {
        keep_for_callers(module, global);
    }
    let func = module.global_func(global).unwrap_or(func);
    let params = module.funcs[func].params.clone();
    let (mut subst, mut unknown) = (FxHashMap::default(), Vec::new());
    for (name, value) in values {
        let symbol = Symbol::from(name.as_str());
        match params.iter().find(|p| module.vars[**p].name == symbol) {
            Some(&param) => {
                let span = module.vars[param].span;
                subst.insert(param, constant(module, symbol, value, span));
            }
            None => unknown.push(name),
        }
    }
    let body = module.substitute(module.funcs[func].body, &mut Memo::default(), &subst);
    let params = params
        .into_iter()
        .filter(|p| !subst.contains_key(p))
        .collect();
    let function = Function {
        params,
        body,
        ..module.funcs[func].clone()
    };
    module.set_global_func(global, function);
    unknown
}

/// Returns whether a function of the module refers to a global.
fn is_used(module: &Module, global: GlobalId) -> bool {
    let graph = module.call_graph();
    graph.values().any(|to| to.contains(&global))
}

/// Makes a copy of a function that everything in the module refers to from now on.
fn keep_for_callers(module: &mut Module, global: GlobalId) {
    let Some(func) = module.global_func(global) else {
        return;
    };
    let copy = module.copy_func(func);
    let old = &module.globals[global];
    let (name, span) = (format!("{}_", old.name), old.span);
    let kept = Global {
        name: fresh_global(module, &name),
        kind: GlobalKind::Func(copy),
        span,
        prelude: false,
    };
    let kept = module.globals.push(kept);
    module.rewrite_globals(|m, node, _| match m.exprs[node] {
        Expr::Global(g) if g == global => m.add(Expr::Global(kept), m.span(node)),
        _ => node,
    });
}

/// The extents of a function's parameters as determined by its arguments.
#[derive(Clone, Default, Debug)]
pub struct Extents {
    /// Values of dimension variables.
    pub dims: FxHashMap<DimVar, i64>,
    /// The types of parameters that are tensors, by name.
    pub tensors: FxHashMap<String, (DType, Vec<i64>)>,
}

/// Specialises a global function for arguments of these extents: dimension variables that it binds
/// become numbers, and parameters have exact types. Returns `false` and changes nothing where it
/// has no open extents, or where another function calls it.
pub fn bind_extents(module: &mut Module, global: GlobalId, extents: &Extents) -> bool {
    let Some(func) = module.global_func(global) else {
        return false;
    };
    if is_used(module, global) {
        return false;
    }
    let mut copier = Copier::new();
    for dim in &module.funcs[func].dims {
        if let Some(&n) = extents.dims.get(dim) {
            copier.types.dims.insert(*dim, Dim::from(n));
        }
    }
    let fixed: FxHashSet<DimVar> = copier.types.dims.keys().copied().collect();
    let copy = copier.func(module, func);
    let mut exact = false;
    for param in module.funcs[copy].params.clone() {
        let Some((dtype, shape)) = extents.tensors.get(module.vars[param].name.as_str()) else {
            continue;
        };
        let ty = module.types.intern(Type::Tensor(TensorType {
            shape: Shape::Dims(shape.iter().map(|&n| Dim::from(n)).collect()),
            dtype: DTy::Known(*dtype),
        }));
        exact |= module.vars[param].ty != Some(ty);
        module.vars[param].ty = Some(ty);
    }
    if fixed.is_empty() && !exact {
        return false;
    }
    let mut function = module.funcs[copy].clone();
    function.dims.retain(|d| !fixed.contains(d));
    module.set_global_func(global, function);
    true
}

/// Returns a constant of that name, or a tuple of them.
fn constant(module: &mut Module, name: Symbol, value: Bound, span: Span) -> ExprId {
    enum Step {
        See(Bound),
        Join(usize),
    }
    let (mut work, mut done) = (vec![Step::See(value)], Vec::new());
    while let Some(step) = work.pop() {
        match step {
            Step::See(Bound::Tensor(t)) => {
                let e = module.constant(t, span);
                if let Expr::Const(c) = module.exprs[e] {
                    module.const_names.insert(c, name);
                }
                done.push(e);
            }
            Step::See(Bound::Tuple(fields)) => {
                work.push(Step::Join(fields.len()));
                work.extend(fields.into_iter().rev().map(Step::See));
            }
            Step::Join(n) => {
                let fields = done.split_off(done.len() - n);
                done.push(module.tuple(&fields, span));
            }
        }
    }
    done.pop().expect("one value")
}
