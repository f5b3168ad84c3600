//! The module IR: programs after name resolution.
//!
//! A [`Module`] owns arenas of expressions, variables, patterns, functions, types and constants;
//! all references are ids. Expressions form a DAG: a node with several users (a *graph binding*,
//! `%0 = …;`) is evaluated once, on entry to the innermost common scope of its users. Types, spans
//! and analysis results live in side tables.
//!
//! Invariant: nodes are immutable once created; passes create new nodes and leave the old ones
//! unchanged.
//!
//! Invariant: no function of this crate recurses over expressions, patterns or types, as their
//! depth is bounded only by the input.

mod attrs;
mod compact;
mod copy;
mod damage;
mod dim_ex;
mod equal;
mod expr;
mod gradient;
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
pub use gradient::{GradItem, GradNode};
pub use ids::{IdMap, IdSet, IdTable, Memo};
pub use module::{
    Adt, AdtId, ConstId, Ctor, CtorId, DimInfo, Global, GlobalId, GlobalKind, Metadata, Module,
    OpId, UserOp,
};
pub use rel::{DTypePattern, RelId, RelationDef, ShapeItem, ShapePattern, TypePattern};
pub use rewrite::inline_call;
pub use scope::{ScopeId, ScopeKind, Scopes};
pub use script::{Inplace, Kept, KeptItems, Script};
pub use share::Own;
pub use source::TypeSource;
pub use types::{
    Constraint, DTy, DTyInfer, FuncType, Kind, RelRef, Shape, ShapeInfer, TensorType, Type,
    TypeArena, TypeId, TypeInfer, TypeParam, TypeParamId,
};
pub use user_op::NoProgram;
pub use verify::{Breach, Verified};
