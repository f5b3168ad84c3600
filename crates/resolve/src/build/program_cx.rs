//! Name environment of tensor programs, and the scalar functions available in them.

use relax_base::{Span, Symbol};
use relax_loops::{BinOp, Buf, Ex, Program, Var};
use relax_syntax::ast;
use rustc_hash::{FxHashMap, FxHashSet};

/// The functions that have an infix spelling; for `&&` and `||` on truth values.
pub(crate) const INFIX: &[(ast::BinOp, BinOp)] = &[
    (ast::BinOp::Add, BinOp::Add),
    (ast::BinOp::Sub, BinOp::Sub),
    (ast::BinOp::Mul, BinOp::Mul),
    (ast::BinOp::Div, BinOp::Div),
    (ast::BinOp::FloorDiv, BinOp::FloorDiv),
    (ast::BinOp::Mod, BinOp::FloorMod),
    (ast::BinOp::Lt, BinOp::Lt),
    (ast::BinOp::Le, BinOp::Le),
    (ast::BinOp::Gt, BinOp::Gt),
    (ast::BinOp::Ge, BinOp::Ge),
    (ast::BinOp::Eq, BinOp::Eq),
    (ast::BinOp::Ne, BinOp::Ne),
    (ast::BinOp::And, BinOp::And),
    (ast::BinOp::Or, BinOp::Or),
];

/// `select(c, a, b)`: `a` where `c` holds, else `b`.
pub const SELECT: &str = "select";

/// The prefix of an element type's name in a bit cast to that type.
pub const REINTERPRET: &str = "reinterpret_";

/// The meaning of a name in a tensor program.
#[derive(Clone, Debug)]
pub(crate) enum Named {
    /// A buffer.
    Buf(Buf),
    /// A loop variable or a named scalar.
    Var(Var),
}

/// The context of the tensor program being resolved.
pub(crate) struct ProgramCx {
    /// The program so far.
    pub(crate) program: Program,
    /// Names with the `%` sigil.
    pub(crate) locals: FxHashMap<Symbol, Named>,
    /// The undo log: previous meanings of names that the current blocks rebound, innermost last.
    pub(crate) undo: Vec<(Symbol, Option<Named>)>,
    /// Dimension variables.
    pub(crate) dims: FxHashMap<Symbol, Var>,
    /// Attributes of an operator; their element type adapts to the context.
    pub(crate) attrs: FxHashMap<Symbol, Var>,
    /// Buffers that statements store to, those with errors included.
    pub(crate) stored: FxHashSet<Buf>,
    /// In an elementwise computation over whole tensors: the index at which each tensor is read.
    pub(crate) element: Option<Vec<Ex>>,
    /// The values of reductions that an earlier stage computes.
    pub(crate) reduced: FxHashMap<ast::ExprId, Ex>,
}

impl ProgramCx {
    pub(crate) fn new(name: Symbol, span: Span) -> ProgramCx {
        let mut program = Program::new(name);
        program.span = span;
        ProgramCx {
            program,
            locals: FxHashMap::default(),
            undo: Vec::new(),
            dims: FxHashMap::default(),
            attrs: FxHashMap::default(),
            stored: FxHashSet::default(),
            element: None,
            reduced: FxHashMap::default(),
        }
    }
    /// Binds a name until [`ProgramCx::leave`].
    pub(crate) fn bind(&mut self, name: Symbol, what: Named) {
        let old = self.locals.insert(name, what);
        self.undo.push((name, old));
    }
    /// Unbinds the names bound since the undo log had this length.
    pub(crate) fn leave(&mut self, mark: usize) {
        for (name, old) in self.undo.drain(mark..).rev() {
            match old {
                Some(old) => self.locals.insert(name, old),
                None => self.locals.remove(&name),
            };
        }
    }
    pub(crate) fn var(&self, var: Var) -> Ex {
        Ex::var(var, self.program.vars[var].dtype)
    }
}
