//! A common interface to the known types of a module.

use crate::{ExprId, FuncId, TypeId, VarId};

/// The types of a module, inferred or read from a file.
pub trait TypeSource {
    /// Returns the type of an expression.
    fn expr(&self, id: ExprId) -> Option<TypeId>;
    /// Returns the type of a local variable.
    fn var(&self, id: VarId) -> Option<TypeId>;
    /// Returns the result type of a function that has no annotation.
    fn ret(&self, id: FuncId) -> Option<TypeId>;
}
