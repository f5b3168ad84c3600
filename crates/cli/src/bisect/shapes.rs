//! Reduction of tensor shapes.

use relax_ir::{AttrValue, Expr, GlobalKind, Module, Shape, TensorType, Type, TypeId};
use relax_sym::Dim;
use relax_tensor::Tensor;
use rustc_hash::FxHashMap;

/// Returns the extents above 1 of the functions' parameters, largest first.
pub(super) fn extents(m: &Module) -> Vec<i64> {
    let mut out = Vec::new();
    for v in m.vars.values() {
        let Some(t) = v.ty.and_then(|t| m.types.as_tensor(t)) else {
            continue;
        };
        let dims = t.shape.dims().unwrap_or_default();
        out.extend(dims.iter().filter_map(Dim::as_const).filter(|d| *d > 1));
    }
    out.sort_unstable_by(|a, b| b.cmp(a));
    out.dedup();
    out
}

/// Returns the module with `new` in place of the extent `old` in all annotations and constants, and
/// with `attrs`, also in list attributes. The caller checks whether the types still match.
pub(super) fn shrink(m: &Module, old: i64, new: i64, attrs: bool) -> Module {
    let mut m = m.clone();
    let mut memo = FxHashMap::default();
    let vars: Vec<_> = m.vars.ids().collect();
    for v in vars {
        if let Some(ty) = m.vars[v].ty {
            m.vars[v].ty = Some(mapped(&mut m, ty, old, new, &mut memo));
        }
    }
    let globals: Vec<_> = m.globals.ids().collect();
    let mut consts = FxHashMap::default();
    for (id, value) in m.consts.iter() {
        if value.shape().contains(&old) {
            consts.insert(id, cut(value, old, new));
        }
    }
    m.rewrite_globals(|m, node, _| match m.exprs[node].clone() {
        Expr::Const(c) if consts.contains_key(&c) => {
            let span = m.span(node);
            m.constant(consts[&c].clone(), span)
        }
        Expr::Call {
            callee,
            args,
            attrs: a,
            ..
        } if attrs => {
            let mut changed = m.attrs(a).clone();
            let mut any = false;
            for (name, value) in m.attrs(a).iter() {
                let Some(list) = value.as_array().and_then(|_| value.as_ints()) else {
                    continue;
                };
                if list.contains(&old) {
                    let list: Vec<i64> = list
                        .iter()
                        .map(|&i| if i == old { new } else { i })
                        .collect();
                    changed.set(*name, AttrValue::ints(&list));
                    any = true;
                }
            }
            if !any {
                return node;
            }
            let (args, span) = (m.list(args).to_vec(), m.span(node));
            m.call_attrs(callee, &args, changed, span)
        }
        _ => node,
    });
    // Result types are inferred again: the declared ones have the old extents.
    for g in globals {
        if let GlobalKind::Func(f) = m.globals[g].kind {
            let mut function = m.funcs[f].clone();
            function.ret = function.ret.map(|t| mapped(&mut m, t, old, new, &mut memo));
            m.set_global_func(g, function);
        }
    }
    m
}

/// The recursion depth is that of the type.
fn mapped(
    m: &mut Module,
    ty: TypeId,
    old: i64,
    new: i64,
    memo: &mut FxHashMap<TypeId, TypeId>,
) -> TypeId {
    if let Some(&done) = memo.get(&ty) {
        return done;
    }
    let dim = |d: &Dim| {
        if d.as_const() == Some(old) {
            Dim::from(new)
        } else {
            d.clone()
        }
    };
    let made = match m.types[ty].clone() {
        Type::Tensor(TensorType {
            shape: Shape::Dims(dims),
            dtype,
        }) => {
            let shape = Shape::Dims(dims.iter().map(dim).collect());
            m.types.intern(Type::Tensor(TensorType { shape, dtype }))
        }
        Type::Tuple(fields) => {
            let fields: Vec<TypeId> = fields
                .iter()
                .map(|&f| mapped(m, f, old, new, memo))
                .collect();
            m.types.tuple(fields)
        }
        _ => ty,
    };
    memo.insert(ty, made);
    made
}

/// Returns the leading elements along each axis of this extent.
fn cut(t: &Tensor, old: i64, new: i64) -> Tensor {
    let shape: Vec<i64> = t
        .shape()
        .iter()
        .map(|&d| if d == old { new } else { d })
        .collect();
    let mut out = Tensor::zeros(t.dtype(), &shape);
    for i in 0..out.len() {
        let (mut rest, mut from, mut step) = (i as i64, 0, 1);
        for (&small, &large) in shape.iter().zip(t.shape()).rev() {
            from += rest % small * step;
            rest /= small;
            step *= large;
        }
        if t.dtype().is_float() {
            out.set_f64(i, t.get_f64(from as usize));
        } else {
            out.set_i64(i, t.get_i64(from as usize));
        }
    }
    out
}
