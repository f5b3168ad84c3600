//! `rel` items: type relations written in the text format.

use relax_base::{Span, Symbol};
use relax_sym::{Dim, DimVar};
use relax_tensor::DType;

use crate::{AdtId, TypeParamId};

relax_base::define_id! {
    /// A `rel` item of a module.
    pub struct RelId("r");
}

/// One piece of a shape pattern.
#[derive(Clone, PartialEq, Debug)]
pub enum ShapeItem {
    /// A dimension: a variable that is bound where it is new, or an expression that must be equal.
    Dim(Dim),
    /// `*rest`: any number of dimensions, bound as a parameter of kind `Shape`.
    Rest(TypeParamId),
    /// `prod(rest)`: the product of bound dimensions, as one dimension.
    Prod(TypeParamId),
    /// A dimension picked out of a bound shape, `sh[0]`; negative counts from the end.
    Pick(TypeParamId, i64),
    /// A part of a bound shape, `sh[1:]`, spliced in.
    Slice(TypeParamId, Option<i64>, Option<i64>),
    /// The product of a part of a bound shape, `prod(sh[1:])`, as one dimension.
    ProdSlice(TypeParamId, Option<i64>, Option<i64>),
}

/// A shape in a relation.
#[derive(Clone, PartialEq, Debug)]
pub enum ShapePattern {
    /// Piece by piece.
    Items(Vec<ShapeItem>),
    /// A parameter of kind `Shape`.
    Param(TypeParamId),
    /// `broadcast(a, b)`: numpy broadcasting of two bound shapes.
    Broadcast(Box<(ShapePattern, ShapePattern)>),
    /// Anything (`_`).
    Any,
}

/// An element type in a relation.
#[derive(Clone, PartialEq, Debug)]
pub enum DTypePattern {
    /// This one.
    Known(DType),
    /// A parameter of kind `BaseType`.
    Param(TypeParamId),
    /// Anything (`_`).
    Any,
}

/// A type in a relation: matched on the argument side, built on the result side.
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
    /// Anything (`_`).
    Any,
}

/// `rel Flatten(Tensor[(d, *rest), t]) -> Tensor[(d, prod(rest)), t];`
#[derive(Clone, PartialEq, Debug)]
pub struct RelationDef {
    /// Its name.
    pub name: Symbol,
    /// Where it stands.
    pub span: Span,
    /// Its own parameters of kinds `Type`, `BaseType`, `Shape`.
    pub params: Vec<TypeParamId>,
    /// Its own dimension variables.
    pub dims: Vec<DimVar>,
    /// Argument patterns.
    pub args: Vec<TypePattern>,
    /// The result.
    pub ret: TypePattern,
    /// Whether it came from the prelude.
    pub prelude: bool,
}
