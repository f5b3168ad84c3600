//! Tensor programs.

use relax_base::Symbol;
use relax_loops::Program;
use relax_syntax::ast;

use super::{NO, Printer};

impl Printer<'_> {
    /// A tensor program.
    pub(super) fn prim_func(&mut self, name: Symbol, _program: &Program) -> ast::PrimFunc {
        let body = self.out.block([], None, NO);
        ast::PrimFunc {
            name,
            params: ast::List::EMPTY,
            attrs: ast::List::EMPTY,
            body,
        }
    }

    /// The computation of an operator.
    pub(super) fn op_body(&mut self, _op: &relax_ir::UserOp) -> ast::ExprId {
        self.out.block([], None, NO)
    }
}
