//! Types that are known of a module's parts, whoever found them.

use crate::{ExprId, FuncId, TypeId, VarId};

/// The types of a module that was inferred, or of a file that says them.
pub trait TypeSource {
    /// The type of an expression.
    fn expr(&self, id: ExprId) -> Option<TypeId>;
    /// The type of a local variable.
    fn var(&self, id: VarId) -> Option<TypeId>;
    /// The result type of a function, where it is not annotated.
    fn ret(&self, id: FuncId) -> Option<TypeId>;
}
