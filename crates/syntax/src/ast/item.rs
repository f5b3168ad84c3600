//! Items of a file.

use relax_base::{Span, Symbol};

use super::{BinderId, CtorId, ExprId, FnId, List, TypeId, TypeParamId};

/// An item and its source location.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// Its kind.
    pub kind: ItemKind,
    /// Its source location.
    pub span: Span,
    /// The span of its name, or of its keyword if it has none.
    pub name_span: Span,
}

/// The forms of items.
#[derive(Clone, Copy, Debug)]
pub enum ItemKind {
    /// Unreadable text; an error has been reported.
    Error,
    /// `def @f…`
    Def {
        /// The name without its sigil.
        name: Symbol,
        /// The function.
        function: FnId,
    },
    /// `def @f = meta[…][…]`: a function of another kind, stored in the metadata section.
    DefMeta {
        /// The name without its sigil.
        name: Symbol,
        /// The [`super::ExprKind::Meta`].
        value: ExprId,
    },
    /// `type`, `data`, `extern type`
    TypeDef(TypeDef),
    /// `rel …`
    Rel(RelItem),
    /// `op …`
    Op(OpItem),
    /// `grad …`
    Grad(GradItem),
    /// `prim_func @f(…) { … }`
    PrimFunc(PrimFunc),
    /// The expression of an expression file: a block without braces, including `free_var` lines.
    Expr(ExprId),
    /// The type of a type file.
    Type(TypeId),
}

/// A data type definition.
#[derive(Clone, Copy, Debug)]
pub struct TypeDef {
    /// The type's name.
    pub name: Symbol,
    /// Its parameters.
    pub params: List<TypeParamId>,
    /// Its constructors.
    pub ctors: List<CtorId>,
    /// Whether it is spelled `data`.
    pub data: bool,
    /// Whether it is an `extern type`.
    pub external: bool,
    /// Whether the parameters are written in `<…>`.
    pub angle: bool,
    /// Whether a list of constructors is present.
    pub braces: bool,
}

/// A constructor.
#[derive(Clone, Copy, Debug)]
pub struct Ctor {
    /// Its name.
    pub name: Symbol,
    /// The types of its fields.
    pub fields: List<TypeId>,
    /// Whether parentheses are written (`Nil()`); without fields both forms are equivalent.
    pub parens: bool,
    /// The result type of the form `Nil : () -> List`.
    pub ret: Option<TypeId>,
    /// The location of the whole constructor.
    pub span: Span,
}

/// A type relation: `rel Name(params) -> ret where goals;`, or `Name(params) :- goals`.
#[derive(Clone, Copy, Debug)]
pub struct RelItem {
    /// The relation's name.
    pub name: Symbol,
    /// The patterns that its arguments must match.
    pub params: List<TypeId>,
    /// The pattern of its last argument, in the `rel` form.
    pub ret: Option<TypeId>,
    /// Conditions.
    pub goals: List<TypeId>,
    /// Whether it is spelled `Name(params) :- goals`.
    pub prolog: bool,
}

/// An operator: `op name[A: K](%x: T, factor: float64 = 1.0) -> R where Rel { compute … }`.
#[derive(Clone, Copy, Debug)]
pub struct OpItem {
    /// The operator's name, including dots.
    pub name: Symbol,
    /// Type parameters.
    pub type_params: List<TypeParamId>,
    /// Whether they are written in `<…>`.
    pub angle: bool,
    /// Inputs (with sigil) and attributes (without).
    pub params: List<BinderId>,
    /// The result type.
    pub ret: Option<TypeId>,
    /// The relations after `where`.
    pub relations: List<TypeId>,
    /// A block in braces whose last statement is a `compute`.
    pub body: ExprId,
}

/// The gradients of an operator: `grad name(%x, %y, axis) -> (%result, %gradient) { … }`.
#[derive(Clone, Copy, Debug)]
pub struct GradItem {
    /// The operator's name, including dots.
    pub op: Symbol,
    /// Operands (with sigil) and attributes (without), in the order of the text. An attribute with a
    /// default is one that the item is only about with this value.
    pub params: List<BinderId>,
    /// The operator's result.
    pub result: BinderId,
    /// The gradient of the result.
    pub grad: BinderId,
    /// A block in braces: the gradient of the operand, or a tuple with one for each.
    pub body: ExprId,
}

/// A tensor program.
#[derive(Clone, Copy, Debug)]
pub struct PrimFunc {
    /// The name without its sigil.
    pub name: Symbol,
    /// Parameters: buffers, scalars.
    pub params: List<BinderId>,
    /// Attributes between the parentheses.
    pub attrs: List<super::AttrId>,
    /// A block in braces.
    pub body: ExprId,
}
