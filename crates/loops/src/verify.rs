//! The verifier of tensor programs.
//!
//! A program without problems runs on every engine without undefined behaviour, provided that
//! the accesses listed as unproven are checked at run time (the reference execution checks all).

use relax_base::{Code, Diagnostic, Span};
use relax_tensor::DType;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::bounds::{Interval, interval_memo};
use crate::rewrite::visit_expr;
use crate::{Buf, Compute, Ex, ExKind, Program, Role, Stage, Var};
use facts::Facts;

mod facts;
mod nest;
mod place;
mod signature;
mod types;

pub(crate) use types::computes;

/// A broken rule.
#[derive(Clone, PartialEq, Debug)]
pub struct Problem {
    /// The stage, where there is one.
    pub stage: Option<usize>,
    /// One sentence without full stop.
    pub message: String,
    /// Its location; `None` where it is about the program as a whole.
    pub span: Option<Span>,
}

/// An index that could not be proven to be within its axis.
#[derive(Clone, PartialEq, Debug)]
pub struct Unproven {
    /// The stage.
    pub stage: usize,
    /// The buffer.
    pub buf: Buf,
    /// The axis, from 0.
    pub axis: usize,
    /// The index.
    pub index: Ex,
    /// Whether this is a store.
    pub store: bool,
}

/// The result of verification.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Verdict {
    /// The broken rules; the program must not run if there are any.
    pub problems: Vec<Problem>,
    /// Accesses that need a check at run time.
    pub unproven: Vec<Unproven>,
}

impl Verdict {
    /// Returns the problems as errors at the program's location.
    pub fn diagnostics(&self, program: &Program) -> Vec<Diagnostic> {
        (self.problems.iter())
            .map(|p| {
                let message = format!("tensor program `{}`: {}", program.name, p.message);
                match p.span {
                    Some(span) => Diagnostic::error(Code(856), span, message)
                        .label(program.span, "in this tensor program"),
                    None => Diagnostic::error(Code(856), program.span, message),
                }
            })
            .collect()
    }
}

/// Checks a program: element types, numbers of indices, variables defined before use, buffers
/// written before they are read, outputs written, reductions initialised, bounds.
pub fn verify(program: &Program) -> Verdict {
    let mut v = Verifier {
        program,
        verdict: Verdict::default(),
        stage: None,
        ranges: FxHashMap::default(),
        narrowed: Vec::new(),
        written: program.inputs.iter().copied().collect(),
        scope: FxHashMap::default(),
        checked: FxHashSet::default(),
        guards: 0,
        outside: Vec::new(),
    };
    v.signature();
    for (k, stage) in program.stages.iter().enumerate() {
        v.stage = Some(k);
        v.checked.clear();
        v.outside.clear();
        match stage {
            Stage::Compute(c) => v.compute(c),
            Stage::Nest(body) => v.nest(body),
        }
    }
    v.stage = None;
    for buf in &program.outputs {
        if !v.written.contains(buf) {
            v.problem(format!(
                "no stage writes the output `{}`",
                program.bufs[*buf].name
            ));
        }
    }
    v.verdict
}

struct Verifier<'p> {
    program: &'p Program,
    verdict: Verdict,
    stage: Option<usize>,
    /// Bounds of variables in scope.
    ranges: FxHashMap<Var, (i64, i64)>,
    written: FxHashSet<Buf>,
    /// Bounds of dimensions before a loop over them was entered, with the loop's index.
    narrowed: Vec<(Var, Var, (i64, i64))>,
    /// Variables in scope; the extents of loops over them.
    scope: FxHashMap<Var, Option<Ex>>,
    /// Expressions whose types were checked in this stage.
    checked: FxHashSet<usize>,
    /// The number of statements around the current one that may not execute.
    guards: u32,
    /// Indices that were reported in this stage.
    outside: Vec<Ex>,
}

impl Verifier<'_> {
    fn problem(&mut self, message: String) {
        self.verdict.problems.push(Problem {
            stage: self.stage,
            message,
            span: None,
        });
    }

    fn name(&self, buf: Buf) -> String {
        format!("`{}`", self.program.bufs[buf].name)
    }

    /// Checks the extents of a buffer that is about to exist.
    fn extents(&mut self, buf: Buf) {
        let program = self.program;
        for extent in &program.bufs[buf].shape {
            self.expr(extent, &Facts::new());
        }
    }

    fn compute(&mut self, c: &Compute) {
        let program = self.program;
        let out = &program.bufs[c.out];
        let name = self.name(c.out);
        if out.role == Role::Input {
            self.problem(format!("{name} is an input, and must not be written"));
        }
        if !self.written.contains(&c.out) {
            self.extents(c.out);
        }
        if c.axes.len() != out.shape.len() {
            self.problem(format!(
                "the computation of {name} has {} axes, the buffer {}",
                c.axes.len(),
                out.shape.len()
            ));
            return;
        }
        if c.value.dtype() != out.dtype {
            self.problem(format!(
                "{name} is {}, its elements are {}",
                out.dtype,
                c.value.dtype()
            ));
        }
        let reduction = c.reduce.iter().flat_map(|r| &r.axes);
        for (_, extent) in reduction.clone() {
            self.index_type(extent, "the extent of a reduction");
            self.expr(extent, &Facts::new());
        }
        let axes: Vec<(Var, Ex)> = (c.axes.iter().copied().zip(out.shape.iter().cloned()))
            .chain(reduction.cloned())
            .collect();
        for (var, extent) in &axes {
            self.enter(*var, extent);
        }
        let own = self.written.remove(&c.out);
        self.expr(&c.value, &Facts::new());
        let mut own_read = false;
        visit_expr(&c.value, |e| {
            own_read |= matches!(e.kind(), ExKind::Load(b, _) if *b == c.out);
        });
        if own && own_read {
            self.problem(format!("the computation of {name} reads {name} itself"));
        }
        self.written.insert(c.out);
        for (var, _) in axes {
            self.leave(var);
        }
    }

    fn enter(&mut self, var: Var, extent: &Ex) {
        if self.program.vars[var].dtype != DType::I64 {
            let name = self.program.vars[var].name;
            self.problem(format!("the index `{name}` is not int64"));
        }
        if self.scope.insert(var, Some(extent.clone())).is_some() {
            let name = self.program.vars[var].name;
            self.problem(format!("the index `{name}` is in use already"));
        }
        let bounds = self.bounds(extent);
        // Where the loop runs at all, its extent is at least 1.
        if let ExKind::Var(v) = extent.kind()
            && let Some(range) = self.ranges.get_mut(v)
            && range.0 < 1
        {
            self.narrowed.push((var, *v, *range));
            range.0 = 1;
        }
        self.ranges
            .insert(var, (0, bounds.hi.saturating_sub(1).max(0)));
    }

    fn leave(&mut self, var: Var) {
        self.scope.remove(&var);
        self.ranges.remove(&var);
        let ranges = &mut self.ranges;
        self.narrowed.retain(|(owner, dim, range)| {
            if *owner == var {
                ranges.insert(*dim, *range);
            }
            *owner != var
        });
    }

    fn bounds(&self, e: &Ex) -> Interval {
        let ranges = &self.ranges;
        interval_memo(e, &|v| ranges.get(&v).copied(), &mut FxHashMap::default())
    }

    fn index_type(&mut self, e: &Ex, what: &str) {
        if e.dtype() != DType::I64 {
            self.problem(format!("{what} is {}, not int64", e.dtype()));
        }
    }

    fn condition(&mut self, e: &Ex) {
        if !e.dtype().is_bool() {
            self.problem(format!("a condition is {}, not bool", e.dtype()));
        }
    }
}

#[cfg(test)]
mod tests;
