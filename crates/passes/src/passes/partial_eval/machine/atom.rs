//! Values without control flow: variables, constants, tuples, cells.

use std::rc::Rc;

use relax_ir::{Expr, ExprId};
use rustc_hash::FxHashMap;

use super::Machine;
use crate::passes::partial_eval::value::{Known, Value};

impl Machine<'_, '_> {
    /// Evaluates an expression without control flow.
    pub(super) fn atom(&mut self, e: ExprId) -> Value {
        match self.edit.m.exprs[e].clone() {
            Expr::Var(v) => match self.local().vars.get(&v) {
                Some(&value) => value,
                // A free variable of the file.
                None => {
                    let value = self.slot(Known::Nothing, e);
                    self.insert(v, value);
                    value
                }
            },
            Expr::Global(g) => self.global_value(g),
            Expr::Op(_) | Expr::Ctor(_) | Expr::Extern(_) | Expr::Error => {
                self.slot(Known::Nothing, e)
            }
            Expr::Const(c) => {
                let known = Known::Tensor(self.edit.m.consts[c].clone());
                let name = self.push(e, e);
                self.slot(known, name)
            }
            Expr::Tuple(fields) => {
                let fields = self.edit.m.list(fields).to_vec();
                let fields: Vec<Value> = fields.into_iter().map(|f| self.atom(f)).collect();
                self.tuple(&fields, e)
            }
            Expr::Proj { tuple, index } => {
                let tuple = self.atom(tuple);
                if let Known::Tuple(fields) = self.known(tuple) {
                    return fields[index as usize];
                }
                let tuple = self.name(tuple);
                let new = self.like(e, Expr::Proj { tuple, index });
                self.unknown(new, e)
            }
            Expr::RefNew(value) => {
                let value = self.atom(value);
                let cell = self.cells;
                self.cells += 1;
                self.store.write(cell, value);
                let value = self.name(value);
                let new = self.like(e, Expr::RefNew(value));
                let name = self.push(new, e);
                self.slot(Known::Cell(cell), name)
            }
            Expr::RefRead(cell) => {
                let cell = self.atom(cell);
                if let Known::Cell(cell) = *self.known(cell)
                    && let Some(value) = self.store.read(cell)
                {
                    return value;
                }
                let cell = self.name(cell);
                let new = self.like(e, Expr::RefRead(cell));
                self.unknown(new, e)
            }
            Expr::RefWrite(cell, value) => {
                let (cell, value) = (self.atom(cell), self.atom(value));
                match *self.known(cell) {
                    Known::Cell(cell) => self.store.write(cell, value),
                    _ => self.store.invalidate(),
                }
                let (cell, value) = (self.name(cell), self.name(value));
                let new = self.like(e, Expr::RefWrite(cell, value));
                let name = self.push(new, e);
                self.slot(Known::Tuple(Rc::from([])), name)
            }
            // Shapes, and matches against shapes and types.
            _ => {
                let mut parts = Vec::new();
                self.edit.m.for_each_child(e, |c| parts.push(c));
                let names = parts.into_iter().map(|part| {
                    let value = self.atom(part);
                    (part, self.name(value))
                });
                let names: FxHashMap<ExprId, ExprId> = names.collect();
                let new = self.edit.m.map_children(e, |c| names[&c]);
                self.unknown(new, e)
            }
        }
    }

    pub(super) fn like(&mut self, old: ExprId, new: Expr) -> ExprId {
        let span = self.edit.m.span(old);
        self.edit.m.add(new, span)
    }

    pub(super) fn tuple(&mut self, fields: &[Value], like: ExprId) -> Value {
        let names: Vec<ExprId> = fields.iter().map(|&f| self.name(f)).collect();
        let span = self.edit.m.span(like);
        let new = self.edit.m.tuple(&names, span);
        let name = self.push(new, like);
        self.slot(Known::Tuple(fields.into()), name)
    }
}
