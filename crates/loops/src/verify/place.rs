//! Expressions: variables and buffers must exist, and indices be within their axes.

use rustc_hash::FxHashSet;

use super::facts::{Facts, assume, at_least_zero, below_by};
use super::types::type_problem;
use super::{Unproven, Verifier};
use crate::outside::{Known, outside};
use crate::rewrite::visit_expr;
use crate::{BinOp, Buf, Ex, ExKind, Var};

impl Verifier<'_> {
    /// Checks one expression, given facts that hold where it is evaluated.
    pub(super) fn expr(&mut self, root: &Ex, facts: &Facts) {
        let mut nodes = Vec::new();
        visit_expr(root, |e| {
            if self.checked.insert(e.addr()) {
                nodes.push(e);
            }
        });
        for e in nodes {
            if let Some(message) = type_problem(self.program, e) {
                self.problem(message);
            }
        }
        // Variables, buffers and bounds depend on the context. The facts of enclosing selects are
        // lists that share their tails through this table.
        let mut contexts = vec![facts.clone()];
        let mut seen = FxHashSet::default();
        let mut work = vec![(root, 0usize)];
        while let Some((e, context)) = work.pop() {
            if !seen.insert((e.addr(), context)) {
                continue;
            }
            match e.kind() {
                ExKind::Var(v) if !self.scope.contains_key(v) => {
                    let name = self.program.vars[*v].name;
                    self.problem(format!("`{name}` is used where nothing defines it"));
                }
                ExKind::Load(buf, index) => {
                    if !self.written.contains(buf) {
                        let name = self.name(*buf);
                        self.problem(format!("{name} is read before it is written"));
                    }
                    let always = context == 0 && facts.is_empty();
                    self.inside(*buf, index, &contexts[context], false, always);
                    work.extend(index.iter().map(|i| (i, context)));
                }
                ExKind::Select(c, a, b) => {
                    work.push((c, context));
                    // Beyond this many contexts the facts are not worth their cost: accesses stay
                    // unproven, which is safe.
                    let (yes, no) = if contexts.len() < 1000 {
                        let mut holds = contexts[context].clone();
                        assume(c, true, &mut holds);
                        contexts.push(holds);
                        let mut fails = contexts[context].clone();
                        assume(c, false, &mut fails);
                        contexts.push(fails);
                        (contexts.len() - 2, contexts.len() - 1)
                    } else {
                        (context, context)
                    };
                    work.extend([(a, yes), (b, no)]);
                }
                _ => work.extend(e.children().map(|c| (c, context))),
            }
        }
    }

    /// Checks whether indices are in bounds; what cannot be proven is listed.
    pub(super) fn inside(
        &mut self,
        buf: Buf,
        index: &[Ex],
        facts: &Facts,
        store: bool,
        always: bool,
    ) {
        let program = self.program;
        for (axis, (i, extent)) in index.iter().zip(&program.bufs[buf].shape).enumerate() {
            let bounds = self.bounds(i);
            let extent_lo = self.bounds(extent).lo;
            let low = bounds.lo >= 0 || facts.iter().any(|f| at_least_zero(f, i));
            let high = bounds.hi < extent_lo
                || self.below(i, extent)
                || facts.iter().any(|f| below_by(f, i, extent));
            if !(low && high) {
                if always && self.guards == 0 {
                    self.surely_outside(buf, index, axis);
                }
                self.verdict.unproven.push(Unproven {
                    stage: self.stage.unwrap_or(0),
                    buf,
                    axis,
                    index: i.clone(),
                    store,
                });
            }
        }
    }

    /// Reports an index that is out of bounds whenever it is evaluated.
    pub(super) fn surely_outside(&mut self, buf: Buf, index: &[Ex], axis: usize) {
        let program = self.program;
        let known = |v: Var| match self.scope.get(&v) {
            Some(Some(extent)) => Known::Index(extent),
            Some(None) if program.dims.contains(&v) => Known::Dim,
            _ => Known::Other,
        };
        let running: Vec<&Ex> = self.scope.values().flatten().collect();
        let name = |v: Var| program.vars[v].name.to_string();
        let extent = &program.bufs[buf].shape[axis];
        let Some(what) = outside(&index[axis], extent, &known, &running, &name) else {
            return;
        };
        let which = match index.len() {
            1 => "the index".to_string(),
            _ => format!("index {axis}"),
        };
        let message = format!("{which} of {} {what}", self.name(buf));
        // A loop with too many iterations makes every access wrong: one mistake, one error.
        if self.outside.contains(&index[axis]) {
            return;
        }
        self.outside.push(index[axis].clone());
        let place = program
            .access(buf, index)
            .map(|k| &program.accesses[k as usize]);
        let span = place.map(|a| a.span);
        self.problem(message);
        if let Some(p) = self.verdict.problems.last_mut() {
            p.span = span;
        }
    }

    /// Returns whether `i < extent` by structure: a loop variable over that extent, or a minimum
    /// with `extent - 1`.
    pub(super) fn below(&self, i: &Ex, extent: &Ex) -> bool {
        match i.kind() {
            ExKind::Var(v) => matches!(self.scope.get(v), Some(Some(e)) if e == extent),
            ExKind::Binary(BinOp::Min, a, b) => {
                let last = extent - 1;
                *a == last || *b == last || self.below(a, extent) || self.below(b, extent)
            }
            _ => false,
        }
    }
}
