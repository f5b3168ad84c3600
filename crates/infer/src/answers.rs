//! What the relation of a call recorded besides its answer, which decides whether that is kept.

use relax_ir::{AttrsId, ExprId, OpId, TypeId};

use crate::solver::Solver;

/// How much was recorded before a relation ran.
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

    /// To be called before a relation runs whose answer may be kept.
    pub fn before_relation(&self) -> Before {
        self.relation_cache.asked_value.set(false);
        self.recorded()
    }

    /// Keeps the answer of a relation that did nothing else, of a call.
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
