//! The lifted form of values: each tensor is paired with a cell for its gradient.

use relax_base::Span;
use relax_ir::{Expr, ExprId, Type, TypeId};

use super::{List, Reverse};

impl Reverse<'_, '_> {
    /// Maps the tensors of a value, through tuples. `None` where it contains anything else.
    fn lift(
        &mut self,
        ty: TypeId,
        e: ExprId,
        list: &mut List,
        mut leaf: impl FnMut(&mut Self, &mut List, ExprId, TypeId) -> ExprId,
    ) -> Option<ExprId> {
        let mut done: Vec<ExprId> = Vec::new();
        let mut work = vec![(ty, e, false)];
        while let Some((ty, e, ready)) = work.pop() {
            match self.edit.m.types[ty].clone() {
                Type::Tensor(_) => {
                    let new = leaf(self, list, e, ty);
                    let new = self.bind(list, new);
                    done.push(new);
                }
                Type::Tuple(fields) if ready => {
                    let parts = done.split_off(done.len() - fields.len());
                    let types: Vec<TypeId> = parts.iter().map(|&p| self.edit.ty(p)).collect();
                    let tuple = self.edit.m.tuple(&parts, Span::NONE);
                    let ty = self.edit.m.types.tuple(types);
                    self.edit.set_ty(tuple, ty);
                    let tuple = self.bind(list, tuple);
                    done.push(tuple);
                }
                Type::Tuple(fields) => {
                    work.push((ty, e, true));
                    for (i, &field) in fields.iter().enumerate().rev() {
                        let part = self.field(e, i as u32);
                        work.push((field, part, false));
                    }
                }
                _ => return None,
            }
        }
        done.pop()
    }

    /// Pairs a tensor with a cell of zeros.
    pub(super) fn carried(&mut self, ty: TypeId, e: ExprId, list: &mut List) -> Option<ExprId> {
        self.lift(ty, e, list, |this, list, e, ty| {
            this.edit.set_ty(e, ty);
            let e = this.bind(list, e);
            let zeros = this.call("zeros_like", &[e]);
            let cell = this.add(Expr::RefNew(zeros));
            this.edit.m.tuple(&[e, cell], Span::NONE)
        })
    }

    /// Returns the value of a lifted value.
    pub(super) fn value(&mut self, ty: TypeId, e: ExprId, list: &mut List) -> Option<ExprId> {
        self.lift(ty, e, list, |this, _, e, ty| {
            let value = this.field(e, 0);
            this.edit.set_ty(value, ty);
            value
        })
    }

    /// Returns the gradient of a lifted value.
    pub(super) fn grad(&mut self, ty: TypeId, e: ExprId, list: &mut List) -> Option<ExprId> {
        self.lift(ty, e, list, |this, _, e, ty| {
            let cell = this.field(e, 1);
            let grad = this.add(Expr::RefRead(cell));
            this.edit.set_ty(grad, ty);
            grad
        })
    }

    /// Adds a gradient to that of a lifted value.
    pub(super) fn update(&mut self, ty: TypeId, e: ExprId, grad: ExprId, list: &mut List) {
        let mut work = vec![(ty, e, grad)];
        while let Some((ty, e, grad)) = work.pop() {
            match self.edit.m.types[ty].clone() {
                Type::Tuple(fields) => {
                    for (i, &field) in fields.iter().enumerate().rev() {
                        let e = self.field(e, i as u32);
                        let grad = self.edit.field(grad, i as u32, Span::NONE);
                        work.push((field, e, grad));
                    }
                }
                _ if !self.has_float(ty) => {}
                _ => {
                    let cell = self.field(e, 1);
                    let cell = self.bind(list, cell);
                    let old = self.add(Expr::RefRead(cell));
                    self.edit.set_ty(old, ty);
                    let sum = self.call("add", &[old, grad]);
                    let write = self.add(Expr::RefWrite(cell, sum));
                    self.bind(list, write);
                }
            }
        }
    }

    /// Returns whether it may contain a float: only floats have gradients.
    pub(super) fn has_float(&self, ty: TypeId) -> bool {
        let mut work = vec![ty];
        while let Some(t) = work.pop() {
            match &self.edit.m.types[t] {
                Type::Tensor(t) if t.dtype.known().is_none_or(|d| d.is_float()) => return true,
                Type::Tuple(fields) => work.extend(fields.iter()),
                _ => {}
            }
        }
        false
    }
}
