//! Kernels: the stages of a program that one kernel of the runtime computes together.
//!
//! A program without any leaves the choice to the compiler; one that has been through
//! `select-kernels` states it, and a text shows it: `kernel product { … }`.

use std::ops::Range;

use crate::{Buf, Program, Stage, Stmt, statements};

/// What a kernel computes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum KernelKind {
    /// A matrix product or a convolution, with the epilogue of its sums.
    Product,
    /// A product of bytes whose sums become bytes again before they are stored.
    QuantizedProduct,
    /// Integer sums brought to another scale in fixed point.
    Requantize,
    /// Two products with a softmax between them.
    Attention,
    /// A convolution, with its epilogue, of which only the pooled values are stored.
    PooledConvolution,
    /// Maxima or means of windows.
    Pool,
    /// A softmax or a normalisation of rows.
    Rows,
    /// A scan, a sort or the place of an extreme along the lines of an array.
    Lines,
    /// A sum of products of two arrays that is no [`KernelKind::Product`].
    Contraction,
    /// Elements in other places.
    Copy,
}

impl KernelKind {
    /// All kinds.
    pub const ALL: [KernelKind; 10] = [
        KernelKind::Product,
        KernelKind::QuantizedProduct,
        KernelKind::Requantize,
        KernelKind::Attention,
        KernelKind::PooledConvolution,
        KernelKind::Pool,
        KernelKind::Rows,
        KernelKind::Lines,
        KernelKind::Contraction,
        KernelKind::Copy,
    ];

    /// Returns its name in texts.
    ///
    /// ```
    /// use relax_loops::KernelKind;
    /// assert_eq!(KernelKind::PooledConvolution.name(), "pooled_convolution");
    /// assert_eq!(KernelKind::named("rows"), Some(KernelKind::Rows));
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            KernelKind::Product => "product",
            KernelKind::QuantizedProduct => "quantized_product",
            KernelKind::Requantize => "requantize",
            KernelKind::Attention => "attention",
            KernelKind::PooledConvolution => "pooled_convolution",
            KernelKind::Pool => "pool",
            KernelKind::Rows => "rows",
            KernelKind::Lines => "lines",
            KernelKind::Contraction => "contraction",
            KernelKind::Copy => "copy",
        }
    }

    /// Returns the kind of a name.
    pub fn named(name: &str) -> Option<KernelKind> {
        KernelKind::ALL.into_iter().find(|k| k.name() == name)
    }
}

/// Adjacent stages that one kernel computes: only what the last one writes is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kernel {
    /// What it computes.
    pub kind: KernelKind,
    /// Their numbers.
    pub stages: Range<usize>,
}

impl Stage {
    /// Returns the buffers that it stores to, each once, in order.
    pub fn written(&self) -> Vec<Buf> {
        let body = match self {
            Stage::Compute(c) => return vec![c.out],
            Stage::Nest(body) => body,
        };
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
}

impl Program {
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
