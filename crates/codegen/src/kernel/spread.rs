//! Loop nests, as people and operators write them, that compute every element of a buffer on its
//! own: they run as computations over indices do.

use relax_loops::select::strided::{affine, has_loads, inside};
use relax_loops::{Compute, Ex, ExKind, Program, Stmt, Var, raise_nest, select, visit_expr};

use super::{Kernel, Result};

/// The computation that a statement is, of every element on its own.
fn computation(program: &Program, s: &Stmt) -> Option<Compute> {
    let c = raise_nest(program, std::slice::from_ref(s))?;
    let alone = c.reduce.is_none() && !c.axes.is_empty();
    (alone && reads_inside(program, &c.value, &program.loops(&c))).then_some(c)
}

/// Returns whether all indices that do not depend on data are proven in bounds. The first one that
/// is not ends a nest in order; a computation may find another one first.
fn reads_inside(program: &Program, value: &Ex, axes: &[(Var, Ex)]) -> bool {
    let vars: Vec<Var> = axes.iter().map(|a| a.0).collect();
    let mut fine = true;
    visit_expr(value, |e| {
        if let ExKind::Load(buf, index) = e.kind() {
            let shape = &program.bufs[*buf].shape;
            fine &= index.iter().zip(shape).all(|(i, extent)| {
                has_loads(i) || affine(i, &vars, 16).is_some_and(|i| inside(&i, extent, axes))
            });
        }
    });
    fine
}

impl Kernel<'_, '_, '_> {
    /// Emits the statements of a stage.
    pub(super) fn nests(&mut self, stmts: &[Stmt]) -> Result<()> {
        let mut scratch = Vec::new();
        for s in stmts {
            let found = computation(self.program, s).filter(|_| self.auto);
            match found {
                Some(c) => {
                    self.forget_loads();
                    let work = select::alone(self.program, &c, |_| true);
                    self.computed(&work, &c)?;
                    self.forget_loads();
                }
                None => self.stmt(s, &mut scratch)?,
            }
        }
        for slot in scratch {
            self.free_slot(slot);
        }
        Ok(())
    }
}
