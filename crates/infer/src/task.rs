//! The tasks of the walk over a function's body.

use relax_ir::{BlockId, ExprId, FuncId};

/// The remaining work.
#[derive(Clone, Copy)]
pub(crate) enum Task {
    /// Type an expression.
    Visit(ExprId),
    /// The operands are typed: type the expression.
    Finish(ExprId),
    /// The value of a `let` is typed.
    Value(ExprId),
    /// The body of a `let` or block, or of each clause of a match, is typed.
    End(ExprId),
    /// The guard of an `if` is typed.
    Guard(ExprId),
    /// The value of a match is typed.
    Clauses(ExprId),
    /// The body of a function is typed.
    Function(FuncId),
    /// The value of the binding at this position of a dataflow block is typed.
    Bind(BlockId, u32),
}
