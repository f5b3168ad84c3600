//! Static analyses before partial evaluation: which functions may be unfolded at all.

use relax_base::SideTable;
use relax_infer::Typing;
use relax_ir::{DTy, Expr, ExprId, FuncId, Module, Shape, Type, TypeId, VarId};
use rustc_hash::FxHashMap;

/// Returns whether a node contains something that may not be duplicated: what binds dimension
/// variables or type parameters, which belong to the enclosing function.
pub(super) fn fixed(m: &Module) -> SideTable<ExprId, bool> {
    let mut fixed = SideTable::default();
    let order = m.post_order(m.global_bodies().iter().map(|b| b.1));
    for e in order {
        let mut here = match &m.exprs[e] {
            Expr::MatchShape { .. } | Expr::MatchCast { .. } => true,
            Expr::Func(f) => {
                let f = &m.funcs[*f];
                !f.dims.is_empty() || !f.type_params.is_empty() || !f.constraints.is_empty()
            }
            _ => false,
        };
        m.for_each_child(e, |c| here |= fixed[c]);
        if here {
            fixed.set(e, true);
        }
    }
    fixed
}

/// Returns whether a type leaves something open that a run-time check would decide.
pub(super) fn loose(m: &Module, root: TypeId) -> bool {
    let open = |shape: &Shape| match shape {
        Shape::Dims(dims) => dims.iter().any(|d| d.is_any()),
        Shape::Unknown | Shape::Infer(_) => true,
        Shape::Param(_) => false,
    };
    m.types.any(root, |t| match t {
        Type::Tensor(t) => open(&t.shape) || matches!(t.dtype, DTy::Unknown | DTy::Infer(_)),
        Type::Shape(s) => open(s),
        Type::Object | Type::Error | Type::Infer(_) => true,
        _ => false,
    })
}

/// Returns whether a type can be written down where it was found: it has neither parameters nor
/// unknowns. It may mention dimension variables: functions that bind some are never unfolded, so
/// what was in scope stays in scope.
pub(super) fn closed(m: &Module, root: TypeId) -> bool {
    !m.types.any(root, |t| match t {
        Type::Tensor(t) => t.shape.dims().is_none() || t.dtype.known().is_none(),
        Type::Shape(s) => s.dims().is_none(),
        Type::Func(f) => !f.params.is_empty() || !f.dims.is_empty(),
        Type::Error | Type::Infer(_) | Type::Param(_) => true,
        _ => false,
    })
}

/// Returns whether it contains a data type.
pub(super) fn has_data(m: &Module, root: TypeId) -> bool {
    m.types.any(root, |t| matches!(t, Type::Adt(..)))
}

/// Returns whether it contains type parameters, or types left open by an error.
pub(super) fn has_params(m: &Module, root: TypeId) -> bool {
    let open = |shape: &Shape| matches!(shape, Shape::Param(_) | Shape::Infer(_));
    m.types.any(root, |t| match t {
        Type::Tensor(t) => open(&t.shape) || matches!(t.dtype, DTy::Param(_) | DTy::Infer(_)),
        Type::Shape(s) => open(s),
        Type::Param(_) | Type::Error | Type::Infer(_) => true,
        _ => false,
    })
}

/// Returns whether a node calls a function that is registered at run time.
pub(super) fn calls_packed(m: &Module, e: ExprId) -> bool {
    matches!(m.exprs[e], Expr::Call { callee, .. } if matches!(m.exprs[callee], Expr::Extern(_)))
}

/// The free variables of functions, computed once for each.
#[derive(Default)]
pub(super) struct FreeVars(FxHashMap<FuncId, Vec<VarId>>);

impl FreeVars {
    pub fn of(&mut self, m: &Module, e: ExprId, func: FuncId) -> &[VarId] {
        self.0.entry(func).or_insert_with(|| m.free_vars(e))
    }
}

/// Returns whether arguments of these types can be passed to a function without a check: what is
/// open in one is open in the other.
pub(super) fn fits(m: &Module, typing: &Typing, func: FuncId, args: &[ExprId]) -> bool {
    let function = &m.funcs[func];
    let same = |a: TypeId, b: TypeId| a == b || !loose(m, a);
    let given = function.params.iter().zip(args);
    function.params.len() == args.len()
        && given
            .into_iter()
            .all(|(&p, &a)| same(typing.exprs[a], typing.vars[p]))
        && function
            .ret
            .is_none_or(|r| same(typing.exprs[function.body], r))
}
