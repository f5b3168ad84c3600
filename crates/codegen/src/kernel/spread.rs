//! Loop nests, as people and operators write them, that compute every element of a buffer on its
//! own: they run as computations over indices do.

use relax_loops::select;
use relax_loops::{Compute, Ex, ExKind, Mark, Program, Stmt, Var, visit_expr};

use super::strips::{affine, inside};
use super::translate::has_loads;
use super::{Kernel, Result};

/// The computation that a statement is: loops over a whole buffer, in the order of its axes, around
/// one store at just their variables of what does not read the buffer.
fn computation(program: &Program, s: &Stmt) -> Option<Compute> {
    let (mut axes, mut extents, mut inside) = (Vec::new(), Vec::new(), s);
    while let Stmt::For {
        var,
        extent,
        mark: Mark::Serial,
        body,
    } = inside
    {
        axes.push(*var);
        extents.push(extent);
        let [one] = &body[..] else {
            return None;
        };
        inside = one;
    }
    let Stmt::Store { buf, index, value } = inside else {
        return None;
    };
    let own = |(v, e): (&Var, &Ex)| matches!(e.kind(), ExKind::Var(w) if w == v);
    let shape = &program.bufs[*buf].shape;
    let whole = !axes.is_empty()
        && axes.len() == index.len()
        && axes.iter().zip(index).all(own)
        && extents.into_iter().eq(shape);
    let mut alone = true;
    visit_expr(value, |e| {
        alone &= !matches!(e.kind(), ExKind::Load(b, _) if b == buf);
    });
    let over: Vec<(Var, Ex)> = axes.iter().copied().zip(shape.iter().cloned()).collect();
    (whole && alone && reads_inside(program, value, &over)).then(|| Compute {
        out: *buf,
        axes,
        reduce: None,
        value: value.clone(),
    })
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
                    let work = select::alone(self.program, &c);
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
