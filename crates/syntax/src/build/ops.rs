//! Grouping flat chains of operators by precedence.

use relax_base::Span;

use super::{Builder, id};
use crate::ast::*;

impl Builder<'_> {
    pub(crate) fn push_op(&mut self, op: BinOp) {
        self.ops.push(op);
    }

    pub(crate) fn push_type_op(&mut self, op: TypeOp) {
        self.type_ops.push(op);
    }

    /// Groups the last `n` operators and their `n + 1` operands.
    pub(crate) fn chain(&mut self, n: u32) -> ExprId {
        let n = n as usize;
        let first_op = self.ops.len() - n;
        let first = self.scratch.len() - n - 1;
        self.operands.clear();
        self.operands.push(self.scratch[first]);
        for i in 0..n {
            let op = self.ops[first_op + i];
            while let Some(&last) = self.op_stack.last()
                && last.precedence() >= op.precedence()
            {
                self.group(last);
            }
            self.op_stack.push(op);
            self.operands.push(self.scratch[first + 1 + i]);
        }
        while let Some(&last) = self.op_stack.last() {
            self.group(last);
        }
        self.ops.truncate(first_op);
        self.scratch.truncate(first);
        id(self.operands[0])
    }

    fn group(&mut self, op: BinOp) {
        self.op_stack.pop();
        let (Some(rhs), Some(lhs)) = (self.operands.pop(), self.operands.pop()) else {
            return;
        };
        let (lhs, rhs): (ExprId, ExprId) = (id(lhs), id(rhs));
        let span: Span = self.ast.exprs[lhs].span.to(self.ast.exprs[rhs].span);
        let e = self.ast.expr(ExprKind::Binary { op, lhs, rhs }, span);
        self.operands.push(e.0);
    }

    /// Like `chain`, for dimension expressions.
    pub(crate) fn type_chain(&mut self, n: u32) -> TypeId {
        let n = n as usize;
        let first_op = self.type_ops.len() - n;
        let first = self.scratch.len() - n - 1;
        self.operands.clear();
        self.operands.push(self.scratch[first]);
        for i in 0..n {
            let op = self.type_ops[first_op + i];
            while let Some(&last) = self.type_op_stack.last()
                && last.precedence() >= op.precedence()
            {
                self.type_group(last);
            }
            self.type_op_stack.push(op);
            self.operands.push(self.scratch[first + 1 + i]);
        }
        while let Some(&last) = self.type_op_stack.last() {
            self.type_group(last);
        }
        self.type_ops.truncate(first_op);
        self.scratch.truncate(first);
        id(self.operands[0])
    }

    fn type_group(&mut self, op: TypeOp) {
        self.type_op_stack.pop();
        let (Some(rhs), Some(lhs)) = (self.operands.pop(), self.operands.pop()) else {
            return;
        };
        let (lhs, rhs): (TypeId, TypeId) = (id(lhs), id(rhs));
        let span = self.ast.types[lhs].span.to(self.ast.types[rhs].span);
        let t = self.ast.ty(TypeExprKind::Binary { op, lhs, rhs }, span);
        self.operands.push(t.0);
    }
}
