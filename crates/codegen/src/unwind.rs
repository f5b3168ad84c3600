//! Cleanup after errors: which references a function owns at each point, and the code that releases
//! them.
//!
//! After an error a function releases what it owns and returns null; its callers do the same. The
//! releases are chains of blocks off the hot path: each releases one register and continues with
//! the chain of the others, so that points which own nearly the same registers share nearly all of
//! their chain. The register that dies first comes first in a chain, because the points after its
//! death then need just the rest.

use cranelift_codegen::ir::Block;
use relax_lower::lir::{BlockId, Inst, LFunc, Reg};
use rustc_hash::{FxHashMap, FxHashSet};

/// The running closure, before its captured values have been read.
pub(crate) const CLOSURE: Reg = Reg(u32::MAX);

/// Returns the registers of a function that are not reference-counted: those that hold immortal
/// objects, borrowed values, or no value.
fn uncounted(f: &LFunc) -> FxHashSet<Reg> {
    let all = (0..f.regs.len() as u32).map(Reg);
    let mut found: FxHashSet<Reg> = all.filter(|&r| !f.is_counted(r)).collect();
    for inst in f.blocks.values().flat_map(|b| &b.insts) {
        match inst {
            Inst::Const { dst, .. } | Inst::Text { dst, .. } => {
                found.insert(*dst);
            }
            Inst::Tuple { dst, fields } | Inst::Adt { dst, fields, .. } if fields.is_empty() => {
                found.insert(*dst);
            }
            Inst::Closure { dst, captures, .. } if captures.is_empty() => {
                found.insert(*dst);
            }
            _ => {}
        }
    }
    found
}

/// The owned registers, last to die first, with the cleanup chain that starts at each.
#[derive(Default)]
pub(crate) struct Owned {
    /// Death and register. A register occurs here once for every reference.
    regs: Vec<(usize, Reg)>,
    /// The chain that releases `regs[..=k]`, as far as it was created.
    chains: Vec<Block>,
    /// The last use of each register, in order of the blocks.
    death: FxHashMap<Reg, usize>,
    uncounted: FxHashSet<Reg>,
    known: FxHashMap<(Block, Reg), Block>,
}

impl Owned {
    /// Creates it for a function, with nothing owned.
    pub fn new(f: &LFunc) -> Owned {
        let mut death = FxHashMap::default();
        let mut at = 0;
        for block in f.blocks.values() {
            for inst in &block.insts {
                at += 1;
                let released = match inst {
                    Inst::Release(r) | Inst::Retain(r) => Some(*r),
                    _ => None,
                };
                for r in inst
                    .consumes()
                    .into_iter()
                    .chain(inst.borrows())
                    .chain(released)
                {
                    death.insert(r, at);
                }
            }
            at += 1;
            for r in block
                .term
                .consumes()
                .into_iter()
                .chain(block.term.borrows())
            {
                death.insert(r, at);
            }
        }
        Owned {
            death,
            uncounted: uncounted(f),
            ..Owned::default()
        }
    }

    /// Returns whether the register is not reference-counted.
    pub fn is_uncounted(&self, r: Reg) -> bool {
        self.uncounted.contains(&r)
    }

    /// Returns all registers that are owned now, to be restored at the start of a block.
    pub fn all(&self) -> Vec<Reg> {
        self.regs.iter().map(|r| r.1).collect()
    }

    /// Resets the owned registers to `regs`.
    pub fn restart(&mut self, regs: &[Reg]) {
        self.regs.clear();
        self.chains.clear();
        regs.iter().for_each(|&r| self.take(r));
    }

    /// Adds a reference.
    pub fn take(&mut self, r: Reg) {
        if self.is_uncounted(r) {
            return;
        }
        let death = if r == CLOSURE {
            0
        } else {
            self.death.get(&r).copied().unwrap_or(0)
        };
        let at = self.regs.partition_point(|x| x.0 >= death);
        self.regs.insert(at, (death, r));
        self.chains.truncate(at);
    }

    /// Removes a reference.
    pub fn give(&mut self, r: Reg) {
        if let Some(at) = self.regs.iter().rposition(|x| x.1 == r) {
            self.regs.remove(at);
            self.chains.truncate(at);
        }
    }

    /// Returns the block to jump to after an error: it releases all registers that are owned now
    /// and ends at `end`. `make` creates the block that releases a register and continues at
    /// another.
    pub fn chain(&mut self, end: Block, make: &mut dyn FnMut(Reg, Block) -> Block) -> Block {
        while let Some(&(_, r)) = self.regs.get(self.chains.len()) {
            let rest = self.chains.last().copied().unwrap_or(end);
            let block = *self.known.entry((rest, r)).or_insert_with(|| make(r, rest));
            self.chains.push(block);
        }
        self.chains.last().copied().unwrap_or(end)
    }
}

/// Returns the owned registers at the start of each block.
///
/// Invariant: all predecessors of a block own the same registers at its start, as
/// `relax_lower::counts` leaves it.
pub(crate) fn at_starts(f: &LFunc, owned: &mut Owned) -> FxHashMap<BlockId, Vec<Reg>> {
    let mut starts: FxHashMap<BlockId, Vec<Reg>> = FxHashMap::default();
    let mut first = f.params.clone();
    // Captured values are read where the function starts.
    first.extend(f.blocks[BlockId(0)].insts.iter().filter_map(|i| match i {
        Inst::Capture { dst, .. } | Inst::This { dst } => Some(*dst),
        _ => None,
    }));
    starts.insert(BlockId(0), first);
    let mut work = vec![BlockId(0)];
    while let Some(b) = work.pop() {
        owned.restart(&starts[&b]);
        for inst in &f.blocks[b].insts {
            step(owned, inst);
        }
        let term = &f.blocks[b].term;
        term.consumes().into_iter().for_each(|r| owned.give(r));
        for next in term.successors() {
            if let std::collections::hash_map::Entry::Vacant(e) = starts.entry(next) {
                let mut all = owned.all();
                all.extend(&f.blocks[next].params);
                e.insert(all);
                work.push(next);
            }
        }
    }
    starts
}

/// Updates the owned registers for an instruction that succeeds.
pub(crate) fn step(owned: &mut Owned, inst: &Inst) {
    match inst {
        Inst::Retain(r) => owned.take(*r),
        Inst::Release(r) => owned.give(*r),
        // Owned from the start.
        Inst::Capture { .. } | Inst::This { .. } => {}
        _ => {
            inst.consumes().into_iter().for_each(|r| owned.give(r));
            inst.defines().into_iter().for_each(|r| owned.take(r));
        }
    }
}
