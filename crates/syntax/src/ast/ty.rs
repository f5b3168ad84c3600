//! Type-level terms.
//!
//! Types, shapes and dimension expressions are one sort in the tree: `(n, 4)` is a shape in
//! `Tensor[(n, 4), float32]` and a tuple of types elsewhere, which only the resolver can
//! distinguish.

use relax_base::{Span, Symbol};

use super::{ExprId, List, NumSuffix, TypeId, TypeParamId};

/// A type-level term and its source location.
#[derive(Clone, Copy, Debug)]
pub struct TypeExpr {
    /// Its kind.
    pub kind: TypeExprKind,
    /// Its source location.
    pub span: Span,
}

/// The forms of type-level terms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TypeExprKind {
    /// Unreadable text; an error has been reported.
    Error,
    /// `_`
    Hole,
    /// `?`, the unknown dimension.
    Any,
    /// An integer dimension, with the suffix TVM may print (`3i64`).
    Int {
        /// The value.
        value: i64,
        /// Its suffix.
        suffix: NumSuffix,
    },
    /// A name: data type (`float32`), type, type parameter or dimension variable.
    Name(Symbol),
    /// `Head[a, b]`: tensors, shapes, buffers, data types applied to arguments; also `sh[0]`.
    Apply {
        /// The applied head.
        head: TypeId,
        /// The arguments.
        args: List<TypeId>,
    },
    /// `Head(a, b)`: `min`, `max`, `prod` and the Prolog-like spelling of relations.
    Call {
        /// The called head.
        head: TypeId,
        /// The arguments.
        args: List<TypeId>,
    },
    /// `(a, b)`; with one element and no comma, the parser cannot distinguish parentheses, a
    /// one-dimensional shape and (in TVM) a one-tuple.
    Tuple {
        /// The elements.
        items: List<TypeId>,
        /// Whether a comma follows the last element.
        comma: bool,
    },
    /// `fn [A](B, C) -> D where R`
    Fn {
        /// Type parameters.
        type_params: List<TypeParamId>,
        /// Whether they are written in `<…>`.
        angle: bool,
        /// Parameter types, then the result type, then the relations after `where`; see
        /// [`super::Ast::fn_type`].
        signature: List<TypeId>,
        /// The number of relations.
        relations: u16,
    },
    /// `ref(A)`
    Ref(TypeId),
    /// `a + b`, and comparisons in relations.
    Binary {
        /// The operator.
        op: TypeOp,
        /// Left operand.
        lhs: TypeId,
        /// Right operand.
        rhs: TypeId,
    },
    /// `-a`
    Neg(TypeId),
    /// `*rest`, all remaining dimensions.
    Rest(TypeId),
    /// `a:b`, `a:`, `:b`, `:` inside brackets.
    Slice {
        /// First index.
        from: Option<TypeId>,
        /// End index.
        to: Option<TypeId>,
    },
    /// `meta[key][index]`, an expression of kind [`super::ExprKind::Meta`].
    Meta(ExprId),
}

/// Operators of dimension expressions and relation conditions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TypeOp {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `//`
    FloorDiv,
    /// `%`
    Mod,
    /// `=`
    Is,
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
}

impl TypeOp {
    /// Returns the operator's spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            TypeOp::Add => "+",
            TypeOp::Sub => "-",
            TypeOp::Mul => "*",
            TypeOp::FloorDiv => "//",
            TypeOp::Mod => "%",
            TypeOp::Is => "=",
            TypeOp::Eq => "==",
            TypeOp::Ne => "!=",
            TypeOp::Lt => "<",
            TypeOp::Le => "<=",
            TypeOp::Gt => ">",
            TypeOp::Ge => ">=",
        }
    }
    /// Returns its precedence; higher binds tighter. All associate to the left.
    pub fn precedence(self) -> u8 {
        match self {
            TypeOp::Mul | TypeOp::FloorDiv | TypeOp::Mod => 3,
            TypeOp::Add | TypeOp::Sub => 2,
            _ => 1,
        }
    }
}
