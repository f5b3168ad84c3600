//! Traversal of the tree.

use super::{Ast, TypeExprKind, TypeId};

impl Ast {
    /// Calls `f` with the children of a type-level term, in textual order.
    pub fn type_children(&self, id: TypeId, mut f: impl FnMut(TypeId)) {
        match self.types[id].kind {
            TypeExprKind::Error
            | TypeExprKind::Hole
            | TypeExprKind::Any
            | TypeExprKind::Int { .. }
            | TypeExprKind::Name(_)
            | TypeExprKind::Meta(_) => {}
            TypeExprKind::Apply { head, args } | TypeExprKind::Call { head, args } => {
                f(head);
                self.list(args).for_each(f);
            }
            TypeExprKind::Tuple { items, comma: _ } => self.list(items).for_each(f),
            TypeExprKind::Fn {
                type_params: _,
                angle: _,
                signature,
                relations: _,
            } => self.list(signature).for_each(f),
            TypeExprKind::Binary { op: _, lhs, rhs } => {
                f(lhs);
                f(rhs);
            }
            TypeExprKind::Ref(t) | TypeExprKind::Neg(t) | TypeExprKind::Rest(t) => f(t),
            TypeExprKind::Slice { from, to } => {
                from.into_iter().chain(to).for_each(f);
            }
        }
    }
}
