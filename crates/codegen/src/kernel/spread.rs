//! The statements of a nest, some of which are computed as stages are.

use relax_loops::select::Alone;
use relax_loops::{Compute, Stmt};

use super::{Kernel, Result};

impl Kernel<'_, '_, '_> {
    /// Emits the statements of a stage; `works` has the ones that a kernel computes, if any.
    pub(super) fn nests(
        &mut self,
        stmts: &[Stmt],
        works: &[Option<(Compute, Alone)>],
    ) -> Result<()> {
        let mut scratch = Vec::new();
        for (k, s) in stmts.iter().enumerate() {
            match works.get(k) {
                Some(Some((c, work))) => {
                    self.forget_loads();
                    self.computed(work, c)?;
                    self.forget_loads();
                }
                _ => self.stmt(s, &mut scratch)?,
            }
        }
        for slot in scratch {
            self.free_slot(slot);
        }
        Ok(())
    }
}
