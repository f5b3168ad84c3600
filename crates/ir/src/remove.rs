//! Removal of global definitions.

use rustc_hash::FxHashSet;

use crate::{Expr, GlobalId, Module};

impl Module {
    /// Drops the globals that are not in `keep`. The others are renumbered, and references updated.
    /// References to dropped globals, which no kept function may hold, become errors.
    pub fn retain_globals(&mut self, keep: &FxHashSet<GlobalId>) {
        let mut new_ids = relax_base::SideTable::<GlobalId, Option<GlobalId>>::default();
        let old = std::mem::take(&mut self.globals);
        for (id, global) in old.iter() {
            if keep.contains(&id) {
                new_ids.set(id, Some(self.globals.push(global.clone())));
            }
        }
        if self.globals.len() == old.len() {
            return;
        }
        for expr in self.exprs.values_mut() {
            if let Expr::Global(id) = expr {
                *expr = new_ids[*id].map_or(Expr::Error, Expr::Global);
            }
        }
        self.expression = self.expression.and_then(|id| new_ids[id]);
    }
}
