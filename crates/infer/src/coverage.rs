//! Match coverage (to come in this room).
use relax_ir::ExprId;

use crate::solver::Solver;

impl Solver<'_> {
    /// Checks a match.
    pub fn check_coverage(&mut self, _: ExprId) {}
}
