//! Decides whether a relation's result may be cached, from what the relation recorded besides it.

use relax_ir::{AttrsId, ExprId, OpId, TypeId};

use crate::solver::Solver;
use crate::unknown::Sol;

/// The amounts recorded before a relation ran.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Before([usize; 5]);

impl Solver<'_> {
    fn recorded(&self) -> Before {
        Before([
            self.new_dims.len(),
            self.checks.len(),
            self.open_checks.len(),
            self.queue.rels.len(),
            self.diags.len(),
        ])
    }

    /// Must be called before a relation whose result may be cached.
    pub fn before_relation(&self) -> Before {
        self.relation_cache.asked_value.set(false);
        self.recorded()
    }

    /// Returns whether a relation neither recorded anything nor solved the unknown for its result.
    pub fn did_nothing(&self, before: Before, result: u32) -> bool {
        before == self.recorded() && matches!(self.unknowns[result as usize].sol, Sol::Open)
    }

    /// Caches the result of a relation that had no other effect.
    pub fn keep_answer(
        &mut self,
        before: Before,
        call: ExprId,
        op: OpId,
        args: &[TypeId],
        attrs: AttrsId,
        result: TypeId,
    ) {
        // The call's arguments stay what they are, and unknowns that it made are solved or
        // forgotten.
        if before == self.recorded() {
            self.plain.insert(call);
            if !self.relation_cache.asked_value.get() {
                self.relation_cache.keep(op, args, attrs, result);
            }
        }
    }
}
