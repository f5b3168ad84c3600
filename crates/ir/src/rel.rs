//! `rel` items: type relations written in the text format.

use relax_base::{Span, Symbol};
use relax_sym::{Dim, DimVar};
use relax_tensor::DType;

use crate::{AdtId, TypeParamId};

relax_base::define_id! {
    /// A `rel` item of a module.
    pub struct RelId("r");
}

/// An item of a shape pattern.
#[derive(Clone, PartialEq, Debug)]
pub enum ShapeItem {
    /// A dimension: an unbound variable, which is bound here, or an expression that must be equal.
    Dim(Dim),
    /// `*rest`: any number of dimensions, bound to a parameter of kind `Shape`.
    Rest(TypeParamId),
    /// `prod(rest)`: the product of bound dimensions, as one dimension.
    Prod(TypeParamId),
    /// A dimension of a bound shape, `sh[0]`; negative indices count from the end.
    Pick(TypeParamId, i64),
    /// A slice of a bound shape, `sh[1:]`, spliced in.
    Slice(TypeParamId, Option<i64>, Option<i64>),
    /// The product of a slice of a bound shape, `prod(sh[1:])`, as one dimension.
    ProdSlice(TypeParamId, Option<i64>, Option<i64>),
}

/// A shape pattern in a relation.
#[derive(Clone, PartialEq, Debug)]
pub enum ShapePattern {
    /// A sequence of items.
    Items(Vec<ShapeItem>),
    /// A parameter of kind `Shape`.
    Param(TypeParamId),
    /// `broadcast(a, b)`: NumPy broadcasting of two bound shapes.
    Broadcast(Box<(ShapePattern, ShapePattern)>),
    /// Matches anything (`_`).
    Any,
}

/// An element type pattern in a relation.
#[derive(Clone, PartialEq, Debug)]
pub enum DTypePattern {
    /// This type.
    Known(DType),
    /// A parameter of kind `BaseType`.
    Param(TypeParamId),
    /// Matches anything (`_`).
    Any,
}

/// A type pattern in a relation: matched on the argument side, instantiated on the result side.
#[derive(Clone, PartialEq, Debug)]
pub enum TypePattern {
    /// A tensor.
    Tensor(ShapePattern, DTypePattern),
    /// A shape value.
    Shape(ShapePattern),
    /// A tuple.
    Tuple(Vec<TypePattern>),
    /// An ADT instance.
    Adt(AdtId, Vec<TypePattern>),
    /// A parameter of kind `Type`.
    Param(TypeParamId),
    /// Matches anything (`_`).
    Any,
}

/// A type relation: `rel Flatten(Tensor[(d, *rest), t]) -> Tensor[(d, prod(rest)), t];`
#[derive(Clone, PartialEq, Debug)]
pub struct RelationDef {
    /// The name.
    pub name: Symbol,
    /// The span.
    pub span: Span,
    /// Its type parameters of kinds `Type`, `BaseType`, `Shape`.
    pub params: Vec<TypeParamId>,
    /// Its dimension variables.
    pub dims: Vec<DimVar>,
    /// Argument patterns.
    pub args: Vec<TypePattern>,
    /// The result pattern.
    pub ret: TypePattern,
    /// Whether it is part of the prelude.
    pub prelude: bool,
}
