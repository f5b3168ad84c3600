//! What a computation reads that is the same in all iterations of the loops inside: computed before
//! them. Cranelift moves arithmetic out of loops, but no loads, nor what depends on them.

use relax_loops::{Compute, Ex, ExKind, Var, fold_expr};
use rustc_hash::FxHashSet;

use super::{Kernel, Result};

/// The maximum number of values that are kept for the loops inside.
const MOST: usize = 32;

/// The largest parts of a value that read elements and depend on none of the variables.
fn parts(value: &Ex, vars: &[Var]) -> Vec<Ex> {
    // Whether an expression depends on the variables, and whether it reads elements.
    let known = fold_expr(value, |e, parts: &mut dyn Iterator<Item = (bool, bool)>| {
        let own = match e.kind() {
            ExKind::Var(v) => (vars.contains(v), false),
            kind => (false, matches!(kind, ExKind::Load(..))),
        };
        parts.fold(own, |all, part| (all.0 | part.0, all.1 | part.1))
    });
    let (mut found, mut seen) = (Vec::new(), FxHashSet::default());
    let mut work = vec![value];
    while let Some(e) = work.pop() {
        match known[&e.addr()] {
            _ if !seen.insert(e.addr()) => {}
            (false, true) => found.push(e.clone()),
            (false, false) => {}
            (true, _) => work.extend(e.children()),
        }
    }
    found
}

impl Kernel<'_, '_, '_> {
    /// Evaluates what the loops from an axis of a computation's result inwards have in common, as
    /// far as that may be read before it is known whether it is needed.
    pub(super) fn invariants(&mut self, c: &Compute, axis: usize) -> Result<()> {
        let inside = c.axes[axis..].iter().copied();
        let summed = c.reduce.iter().flat_map(|r| r.axes.iter().map(|a| a.0));
        let vars: Vec<Var> = inside.chain(summed).collect();
        let found = parts(&c.value, &vars);
        if self.group.is_some() || vars.is_empty() || found.len() > MOST {
            return Ok(());
        }
        for e in found.iter().filter(|e| e.addr() != c.value.addr()) {
            if self.harmless(e) {
                self.eval(e)?;
            }
        }
        Ok(())
    }
}
