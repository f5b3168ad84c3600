//! What inference has still to find: one table for types, shapes, element types and dimensions.

use relax_ir::{DTy, ExprId, FuncId, PatId, Shape, TypeId, VarId};
use relax_sym::Dim;

/// What became of an unknown.
#[derive(Clone, Debug)]
pub(crate) enum Sol {
    /// Nothing yet.
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

/// What kind of thing an unknown stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sort {
    Type,
    Shape,
    DType,
    Dim,
}

/// Whether an element type belongs to a literal without suffix, which takes its type from the
/// context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lit {
    /// No literal.
    No,
    /// `1`: any numeric type, `int32` where nothing decides.
    Int,
    /// `1.5`: any float type, `float32` where nothing decides.
    Float,
}

/// One unknown.
#[derive(Clone, Debug)]
pub(crate) struct Unknown {
    pub sol: Sol,
    pub sort: Sort,
    pub lit: Lit,
    /// How many enclosing `let`-bound functions may not generalise it.
    pub level: u32,
    /// Head of the list of relations that run again when it is solved, in the solver's pool.
    pub watch: u32,
    /// Whether something that might have told what it is has been reported as wrong: that it stays
    /// open is no news then.
    pub excused: bool,
}

/// The end of a watch list.
pub(crate) const NO_WATCH: u32 = u32::MAX;

/// No expression: a fact that belongs to no call.
pub(crate) const NO_EXPR: ExprId = ExprId(u32::MAX);

/// Where in the program two types meet. Kept small: it is set before every unification and only
/// looked at when one fails.
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
    /// A pattern and the type of what it looks at.
    Pattern {
        pat: PatId,
        of: ExprId,
    },
    /// A reference cell that is read or written.
    Cell(ExprId),
    /// A type relation of a call.
    Rel(ExprId),
    /// `match_shape` or `match_cast`.
    Match(ExprId),
}

impl Site {
    /// Returns whether a value meets what was written of it.
    pub fn is_annotated(self) -> bool {
        matches!(
            self,
            Site::Bound { .. } | Site::Return(_) | Site::Arg { .. }
        )
    }
}

/// How two types differ at the innermost place where they do.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Detail {
    /// They are of different forms.
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
