//! The assignment of tensors to blocks.
//!
//! In order of the bindings, as in TVM's planner: a tensor takes the smallest free block that is
//! large enough; otherwise the largest free one grows, because its size is only fixed when the
//! whole scope is planned; otherwise there is a new one. Sizes that are not known are compared by
//! proof.

use std::collections::BTreeSet;

use relax_sym::{Dim, Facts, Proof};
use relax_tensor::DType;
use rustc_hash::FxHashMap;

use super::lives::Life;

/// A tensor in a block.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub dims: Box<[Dim]>,
    pub dtype: DType,
    /// In bytes.
    pub size: Dim,
    pub block: usize,
}

/// A block of memory.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// In bytes.
    pub size: Dim,
    /// The element type of its first tensor.
    pub dtype: DType,
    /// The tensor that ends last in it.
    pub last: usize,
}

/// The plan of one scope.
#[derive(Default, Debug)]
pub(super) struct Plan {
    pub tensors: Vec<Placed>,
    pub blocks: Vec<Block>,
    /// The tensors of a binding's result, in order.
    pub begin: FxHashMap<usize, Vec<usize>>,
    /// The tensors that are not used after a binding.
    pub end: FxHashMap<usize, Vec<usize>>,
}

impl Plan {
    /// A number for a tensor that no block has.
    pub fn key(&self, tensor: usize) -> usize {
        self.blocks.len() + tensor
    }
}

/// The number of free blocks of symbolic sizes that are tried for one tensor.
const LOOKS: usize = 32;

/// Blocks while a scope is planned.
pub(super) struct Blocks {
    plan: Plan,
    facts: Facts,
    /// Free blocks of known sizes, smallest first.
    known: BTreeSet<(i64, usize)>,
    /// Other free blocks, most recently freed last.
    symbolic: Vec<usize>,
}

impl Blocks {
    /// Plans the results in order of their bindings.
    pub fn plan(lives: &[Life]) -> Plan {
        let mut this = Blocks {
            plan: Plan::default(),
            facts: Facts::default(),
            known: BTreeSet::new(),
            symbolic: Vec::new(),
        };
        // Pending ends of live ranges: by binding, the tensor.
        let mut ends: BTreeSet<(usize, usize)> = BTreeSet::new();
        for life in lives {
            // The operands of a call are still live while it writes its result.
            while let Some(&(last, tensor)) = ends.first()
                && last < life.binding
            {
                ends.pop_first();
                this.free(tensor);
            }
            for out in &life.outs {
                let tensor = this.plan.tensors.len();
                let block = this.take(&out.size, out.dtype);
                this.plan.blocks[block].last = tensor;
                this.plan.tensors.push(Placed {
                    dims: out.dims.clone(),
                    dtype: out.dtype,
                    size: out.size.clone(),
                    block,
                });
                ends.insert((life.last, tensor));
                this.plan
                    .begin
                    .entry(life.binding)
                    .or_default()
                    .push(tensor);
                this.plan.end.entry(life.last).or_default().push(tensor);
            }
        }
        this.plan
    }

    fn free(&mut self, tensor: usize) {
        let block = self.plan.tensors[tensor].block;
        match self.plan.blocks[block].size.as_const() {
            Some(n) => {
                self.known.insert((n, block));
            }
            None => self.symbolic.push(block),
        }
    }

    fn take(&mut self, size: &Dim, dtype: DType) -> usize {
        let free = match size.as_const() {
            Some(n) => self.take_known(n),
            None => self.take_symbolic(size),
        };
        free.unwrap_or_else(|| {
            self.plan.blocks.push(Block {
                size: size.clone(),
                dtype,
                last: 0,
            });
            self.plan.blocks.len() - 1
        })
    }

    fn take_known(&mut self, n: i64) -> Option<usize> {
        let fits = self.known.range((n, 0)..).next().copied();
        let found = fits.or_else(|| self.known.last().copied())?;
        self.known.remove(&found);
        if found.0 < n {
            self.plan.blocks[found.1].size = Dim::from(n);
        }
        Some(found.1)
    }

    fn take_symbolic(&mut self, size: &Dim) -> Option<usize> {
        let of = |b: &usize| &self.plan.blocks[*b].size;
        let near = || self.symbolic.iter().enumerate().rev().take(LOOKS);
        let holds = |a: &Dim, b: &Dim| self.facts.le(a, b) == Proof::Proven;
        // Of equal size; large enough; to grow, over dimensions that are in scope where it is
        // allocated.
        let equal = || near().find(|(_, b)| of(b) == size);
        let larger = || near().find(|(_, b)| holds(size, of(b)));
        let smaller = || {
            near().find(|(_, b)| {
                let scope = of(b).free_vars();
                size.free_vars().iter().all(|v| scope.contains(v)) && holds(of(b), size)
            })
        };
        let (at, _) = equal().or_else(larger).or_else(smaller)?;
        let block = self.symbolic.remove(at);
        if !holds(size, &self.plan.blocks[block].size) {
            self.plan.blocks[block].size = size.clone();
        }
        Some(block)
    }
}
