//! What a stage writes and runs over, and changes of the list of stages, which keep what is said of
//! stages by their numbers.

use crate::{Buf, Compute, Ex, Program, Stage, Stmt, Var, statements};

impl Stage {
    /// Returns the buffers that it stores to, each once, in order.
    pub fn written(&self) -> Vec<Buf> {
        match self {
            Stage::Compute(c) => vec![c.out],
            Stage::Nest(body) => stored(body),
        }
    }
}

/// Returns the buffers that statements store to, each once, in order.
pub(crate) fn stored(body: &[Stmt]) -> Vec<Buf> {
    let mut all: Vec<Buf> = (statements(body))
        .filter_map(|s| match s {
            Stmt::Store { buf, .. } => Some(*buf),
            _ => None,
        })
        .collect();
    all.sort();
    all.dedup();
    all
}

impl Program {
    /// Returns the loops of a computation: the axes of its result, then those that it reduces over,
    /// with their extents.
    pub fn loops(&self, c: &Compute) -> Vec<(Var, Ex)> {
        let shape = self.bufs[c.out].shape.iter().cloned();
        let reduced = c.reduce.iter().flat_map(|r| r.axes.iter().cloned());
        (c.axes.iter().copied().zip(shape)).chain(reduced).collect()
    }

    /// Inserts a stage; kernels keep the stages that they have, and get it if it comes between
    /// these.
    pub fn insert_stage(&mut self, at: usize, stage: Stage) {
        self.stages.insert(at, stage);
        for k in &mut self.kernels {
            k.stages.start += usize::from(k.stages.start >= at);
            k.stages.end += usize::from(k.stages.end > at);
        }
    }

    /// Keeps some stages: those for which `keep` holds at their numbers. Kernels without any left
    /// are dropped.
    pub fn retain_stages(&mut self, keep: impl Fn(usize) -> bool) {
        let mut left = vec![0];
        for k in 0..self.stages.len() {
            left.push(left[k] + usize::from(keep(k)));
        }
        let mut number = 0..;
        (self.stages).retain(|_| number.next().is_some_and(&keep));
        for k in &mut self.kernels {
            k.stages = left[k.stages.start]..left[k.stages.end];
        }
        self.kernels.retain(|k| !k.stages.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kernel, KernelKind};
    use std::ops::Range;

    fn program(stages: usize, kernel: Range<usize>) -> Program {
        let mut p = Program::new("p");
        p.stages = (0..stages).map(|_| Stage::Nest(Vec::new())).collect();
        p.kernels.push(Kernel {
            kind: KernelKind::Product,
            stages: kernel,
        });
        p
    }

    #[test]
    fn kernels_keep_their_stages() {
        for (at, expected) in [(0, 2..4), (1, 2..4), (2, 1..4), (3, 1..3), (4, 1..3)] {
            let mut p = program(4, 1..3);
            p.insert_stage(at, Stage::Nest(Vec::new()));
            assert_eq!(p.kernels[0].stages, expected, "inserted at {at}");
        }
        for (gone, expected) in [(0, Some(0..2)), (1, Some(1..2)), (3, Some(1..3))] {
            let mut p = program(4, 1..3);
            p.retain_stages(|k| k != gone);
            let found = p.kernels.first().map(|k| k.stages.clone());
            assert_eq!(found, expected, "without {gone}");
        }
        let mut p = program(4, 1..3);
        p.retain_stages(|k| k == 0);
        assert!(p.kernels.is_empty());
    }
}
