//! Declared result types: where a pass of Relax rebuilt a function and the type of its body is no
//! longer a subtype of the declared one, the function declares its body's type.

use relax_infer::Typing;
use relax_ir::{DTy, Expr, ExprId, Function, GlobalId, Module, Shape, Type, TypeId, TypeSubst};
use relax_sym::{Dim, DimVar};
use rustc_hash::FxHashSet;

/// Updates the declared results of these functions. `typing` has the variables' types from before
/// the pass.
pub(crate) fn adopt(m: &mut Module, typing: &Typing, changed: &[GlobalId]) {
    for &g in changed {
        let Some(f) = m.global_func(g) else {
            continue;
        };
        let Some(declared) = m.funcs[f].ret else {
            continue;
        };
        let Some(found) = result(m, typing, m.funcs[f].body) else {
            continue;
        };
        let own: Vec<TypeId> = (m.funcs[f].params.iter())
            .filter_map(|&p| m.vars[p].ty)
            .collect();
        let own: FxHashSet<_> = m.dims_in_types(own).into_iter().collect();
        let found = without_dims(m, found, |d| !own.contains(&d));
        if !is_case(m, found, declared) {
            let function = Function {
                ret: Some(found),
                ..m.funcs[f].clone()
            };
            m.set_global_func(g, function);
        }
    }
}

/// Returns the type of a body's result, if that is a variable.
fn result(m: &Module, typing: &Typing, body: ExprId) -> Option<TypeId> {
    let mut at = body;
    while let Expr::Let { body, .. } | Expr::Dataflow { body, .. } = m.exprs[at] {
        at = body;
    }
    match m.exprs[at] {
        Expr::Var(v) => Some(typing.vars[v]).filter(|t| (t.0 as usize) < m.types.len()),
        _ => None,
    }
}

/// Returns whether one type is a subtype of another.
fn is_case(m: &Module, found: TypeId, of: TypeId) -> bool {
    let mut open = vec![(found, of)];
    let mut seen = FxHashSet::default();
    while let Some((a, b)) = open.pop() {
        if a == b || !seen.insert((a, b)) {
            continue;
        }
        let fits = match (&m.types[a], &m.types[b]) {
            (_, Type::Object) => true,
            (Type::Tensor(x), Type::Tensor(y)) => {
                let dtype = !matches!(y.dtype, DTy::Known(_)) || x.dtype == y.dtype;
                dtype && shape_is_case(&x.shape, &y.shape)
            }
            (Type::Shape(x), Type::Shape(y)) => shape_is_case(x, y),
            (Type::Tuple(x), Type::Tuple(y)) if x.len() == y.len() => {
                open.extend(x.iter().copied().zip(y.iter().copied()));
                true
            }
            (Type::Tensor(_) | Type::Shape(_) | Type::Tuple(_), _) => false,
            _ => true,
        };
        if !fits {
            return false;
        }
    }
    true
}

fn shape_is_case(found: &Shape, of: &Shape) -> bool {
    match (found.dims(), of.dims()) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(x), Some(y)) => x.len() == y.len() && (y.iter().all(|d| !d.is_known()) || x == y),
    }
}

/// Returns a type with some of its dimension variables replaced by `?`.
pub(super) fn without_dims(m: &mut Module, ty: TypeId, gone: impl Fn(DimVar) -> bool) -> TypeId {
    let mut subst = TypeSubst::new();
    for d in m.dims_in_types([ty]).into_iter().filter(|&d| gone(d)) {
        subst.dims.insert(d, Dim::ANY);
    }
    match subst.dims.is_empty() {
        true => ty,
        false => subst.ty(&mut m.types, ty),
    }
}
