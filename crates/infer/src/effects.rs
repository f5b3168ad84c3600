//! Effects (to come in this room).
use crate::solver::Solver;

impl Solver<'_> {
    /// Finds which functions are pure.
    pub fn check_effects(&mut self) {
        self.purity = vec![true; self.m.funcs.len()];
    }
}
