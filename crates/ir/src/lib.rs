//! The module IR: what a program *is* after names are resolved.
//!
//! A [`Module`] owns arenas of expressions, variables, patterns, functions, types and constants;
//! everything refers to everything else by id. Expressions form a graph: a node with two users
//! (a *graph binding*, `%0 = …;`) is evaluated once where its users' common scope is entered.
//! Types, spans and analyses live beside nodes, in side tables.
//!
//! Invariant: nodes are immutable once created; a pass makes new nodes and leaves the old ones.
//! Invariant: depth is data. No function of this room recurses over expressions, patterns or types.

mod attrs;
mod compact;
mod copy;
mod damage;
mod dim_ex;
mod equal;
mod expr;
mod ids;
mod lists;
mod module;
mod rel;
mod remove;
mod rewrite;
mod scope;
mod script;
mod share;
mod show;
mod source;
mod types;
mod user_op;
mod verify;
mod visit;

pub use attrs::{AttrValue, Attrs, AttrsId};
pub use compact::Compacted;
pub use copy::{Copier, TypeSubst};
pub use damage::Damage;
pub use dim_ex::dim_to_ex;
pub use equal::{
    Difference, EqualOptions, functions_equal, structural_difference, structural_equal,
};
pub use expr::{
    Binding, Block, BlockId, Clause, Expr, ExprId, ExprList, FuncId, Function, PatId, Pattern, Var,
    VarId, VarStyle, has_flag, is_primitive,
};
pub use ids::{IdMap, IdSet, IdTable, Memo};
pub use module::{
    Adt, AdtId, ConstId, Ctor, CtorId, DimInfo, Global, GlobalId, GlobalKind, Metadata, Module,
    OpId, UserOp,
};
pub use rel::{DTypePattern, RelId, RelationDef, ShapeItem, ShapePattern, TypePattern};
pub use rewrite::inline_call;
pub use scope::{ScopeId, ScopeKind, Scopes};
pub use script::{Inplace, Kept, Script};
pub use share::Own;
pub use source::TypeSource;
pub use types::{
    Constraint, DTy, DTyInfer, FuncType, Kind, RelRef, Shape, ShapeInfer, TensorType, Type,
    TypeArena, TypeId, TypeInfer, TypeParam, TypeParamId,
};
pub use user_op::NoProgram;
pub use verify::{Breach, Verified};
