//! Unknowns of inference: one table for types, shapes, element types and dimensions.

use relax_ir::{DTy, ExprId, FuncId, PatId, Shape, TypeId, VarId};
use relax_sym::Dim;

/// The solution of an unknown.
#[derive(Clone, Debug)]
pub(crate) enum Sol {
    /// Not solved yet.
    Open,
    /// A type (which may itself be an unknown).
    Type(TypeId),
    /// A shape.
    Shape(Shape),
    /// An element type.
    DType(DTy),
    /// A dimension.
    Dim(Dim),
}

/// The kind of an unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sort {
    Type,
    Shape,
    DType,
    Dim,
}

/// The class of an element type that belongs to a literal without suffix, which takes its type from
/// the context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lit {
    /// Not a literal's.
    No,
    /// `1`: any numeric type, `int32` by default.
    Int,
    /// `1.5`: any float type, `float32` by default.
    Float,
}

impl Lit {
    /// Returns whether an element type that is not an unknown is one of the class.
    pub fn may_be(self, dtype: DTy) -> bool {
        match (self, dtype) {
            (Lit::No, _) => true,
            (Lit::Int, DTy::Known(d)) => !d.is_bool() && d.lanes == 1,
            (Lit::Float, DTy::Known(d)) => d.is_float() && d.lanes == 1,
            _ => false,
        }
    }
}

/// One unknown.
#[derive(Clone, Debug)]
pub(crate) struct Unknown {
    pub sol: Sol,
    pub sort: Sort,
    pub lit: Lit,
    /// The number of enclosing `let`-bound functions that may not generalise it.
    pub level: u32,
    /// Head of the list of relations that run again when it is solved, in the solver's pool.
    pub watch: u32,
    /// Whether an error was reported that may be the reason why it is open; then it is not reported
    /// itself.
    pub excused: bool,
}

/// The end of a watch list.
pub(crate) const NO_WATCH: u32 = u32::MAX;

/// No expression: for facts that do not belong to a call.
pub(crate) const NO_EXPR: ExprId = ExprId(u32::MAX);

/// The site at which two types meet. Kept small: it is set before every unification and only read
/// when one fails.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Site {
    None,
    /// An argument of a call of a function.
    Arg {
        call: ExprId,
        index: u32,
    },
    /// The callee of a call.
    Callee(ExprId),
    /// The annotation of a bound variable and its value.
    Bound {
        var: VarId,
        value: ExprId,
    },
    /// The guard of an `if`.
    Cond(ExprId),
    /// The branches of an `if`.
    Branches(ExprId),
    /// The body of a function and its annotated result.
    Return(FuncId),
    /// A clause of a match and those before it.
    Clause {
        of: ExprId,
        index: u32,
    },
    /// A pattern and the type of its scrutinee.
    Pattern {
        pat: PatId,
        of: ExprId,
    },
    /// A read or write of a reference cell.
    Cell(ExprId),
    /// A type relation of a call.
    Rel(ExprId),
    /// `match_shape` or `match_cast`.
    Match(ExprId),
}

impl Site {
    /// Returns whether a value is checked against an annotation.
    pub fn is_annotated(self) -> bool {
        matches!(
            self,
            Site::Bound { .. } | Site::Return(_) | Site::Arg { .. }
        )
    }
}

/// The innermost difference between two types.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Detail {
    /// Types of different kinds.
    Form,
    /// Tensors of different ranks.
    Rank(usize, usize),
    /// An axis has provably different extents.
    Dim(usize, Dim, Dim),
    /// Different element types.
    DType(DTy, DTy),
    /// Tuples, functions or type applications of different lengths.
    Count(usize, usize),
    /// The unknown would contain itself.
    Infinite,
    /// Two different rigid shapes.
    Shape,
}

/// A failed unification: the innermost types that differ, and how.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Clash {
    pub found: TypeId,
    pub expected: TypeId,
    pub detail: Detail,
}
