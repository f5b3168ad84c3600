//! The residual program: lists of bindings, and types for it.

use relax_base::Symbol;
use relax_ir::{DTy, Expr, ExprId, Kind, Module, Shape, Type, TypeId, TypeSubst, VarId, VarStyle};

use super::analysis::closed;

/// A binding of the residual program.
pub(super) type Item = (VarId, ExprId);

/// Wraps a value in its bindings.
pub(super) fn close(m: &mut Module, items: Vec<Item>, value: ExprId) -> ExprId {
    items.into_iter().rev().fold(value, |body, (var, value)| {
        let span = m.span(value);
        m.add(Expr::Let { var, value, body }, span)
    })
}

/// Returns a type in the context of the residual program; `None` where it cannot be written there.
pub(super) fn written(m: &mut Module, types: &mut TypeSubst, ty: TypeId) -> Option<TypeId> {
    let ty = types.ty(&mut m.types, ty);
    closed(m, ty).then_some(ty)
}

/// Creates a new variable in place of one of the program, with its name and annotation.
pub(super) fn fresh(m: &mut Module, types: &mut TypeSubst, old: VarId) -> (VarId, ExprId) {
    let var = m.vars[old].clone();
    let ty = var.ty.map(|t| types.ty(&mut m.types, t));
    let (new, e) = m.fresh_var(var.name, ty, var.style);
    m.vars[new].span = var.span;
    if let Some(attrs) = m.var_attrs.get(&old).cloned() {
        m.var_attrs.insert(new, attrs);
    }
    (new, e)
}

/// Creates a variable for a value without a name.
pub(super) fn unnamed(m: &mut Module, ty: Option<TypeId>) -> (VarId, ExprId) {
    m.fresh_var(Symbol::from("x"), ty, VarStyle::Let)
}

/// Returns the instantiation of type parameters in a call, added to that of the enclosing ones.
/// `None` where one is not known.
pub(super) fn instantiate(
    m: &mut Module,
    params: &[relax_ir::TypeParamId],
    args: &[TypeId],
    around: &mut TypeSubst,
    outer: &TypeSubst,
) -> Option<TypeSubst> {
    let mut types = outer.clone();
    types.reset();
    if params.len() != args.len() {
        return params.is_empty().then_some(types);
    }
    for (&param, &arg) in params.iter().zip(args) {
        let arg = around.ty(&mut m.types, arg);
        match (m.types.params[param].kind, &m.types[arg]) {
            (Kind::Type, _) if closed(m, arg) => {
                types.types.insert(param, arg);
            }
            (Kind::Shape, Type::Shape(shape @ Shape::Dims(_))) if closed(m, arg) => {
                types.shapes.insert(param, shape.clone());
            }
            (Kind::BaseType, Type::Tensor(t)) if matches!(t.dtype, DTy::Known(_)) => {
                types.dtypes.insert(param, t.dtype);
            }
            _ => return None,
        }
    }
    Some(types)
}
