//! Reference counting: where references are retained and released.
//!
//! Every register that owns a value ([`Hold::Value`]) has one reference from its definition to its
//! last use. A consuming use takes it over; a consuming use that is not the last retains another
//! one first; a value that is dead without having been consumed is released at once (Ullrich and de
//! Moura, "Counting Immutable Beans", 2019; Reinking et al., "Perceus", 2021).

use crate::lir::{BlockId, Hold, Inst, LFunc, Reg, Term};

/// A set of registers.
#[derive(Clone, PartialEq, Default)]
struct Set(Vec<u64>);

impl Set {
    fn with(n: usize) -> Set {
        Set(vec![0; n.div_ceil(64)])
    }
    fn has(&self, r: Reg) -> bool {
        self.0[r.0 as usize / 64] & (1 << (r.0 % 64)) != 0
    }
    fn add(&mut self, r: Reg) {
        self.0[r.0 as usize / 64] |= 1 << (r.0 % 64);
    }
    fn drop(&mut self, r: Reg) {
        self.0[r.0 as usize / 64] &= !(1 << (r.0 % 64));
    }
    fn join(&mut self, other: &Set) -> bool {
        let mut grew = false;
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            grew |= *b & !*a != 0;
            *a |= b;
        }
        grew
    }
    fn without(&self, other: &Set) -> Vec<Reg> {
        let mut found = Vec::new();
        for (k, (a, b)) in self.0.iter().zip(&other.0).enumerate() {
            let mut rest = a & !b;
            while rest != 0 {
                found.push(Reg(k as u32 * 64 + rest.trailing_zeros()));
                rest &= rest - 1;
            }
        }
        found
    }
}

/// The counted registers among those of an instruction or terminator.
struct Counted<'a>(&'a [Hold]);

impl Counted<'_> {
    fn of(&self, mut regs: Vec<Reg>) -> Vec<Reg> {
        regs.retain(|r| self.0[r.0 as usize] == Hold::Value);
        regs
    }
    fn consumes(&self, inst: &Inst) -> Vec<Reg> {
        self.of(inst.consumes())
    }
    fn borrows(&self, inst: &Inst) -> Vec<Reg> {
        self.of(inst.borrows())
    }
    fn defines(&self, inst: &Inst) -> Vec<Reg> {
        self.of(inst.defines())
    }
    fn taken(&self, term: &Term) -> Vec<Reg> {
        self.of(term.consumes())
    }
    fn seen(&self, term: &Term) -> Vec<Reg> {
        self.of(term.borrows())
    }
}

/// The registers that are used in more than one block, numbered in their order: only they are live
/// between blocks, and in a function of many blocks they are few.
struct Between {
    number: Vec<Option<Reg>>,
    regs: Vec<Reg>,
}

impl Between {
    fn of(f: &LFunc, counted: &Counted<'_>) -> Between {
        const NOWHERE: u32 = u32::MAX;
        let n = counted.0.len();
        let (mut home, mut several) = (vec![NOWHERE; n], vec![false; n]);
        let mut meet = |b: BlockId, regs: Vec<Reg>| {
            for r in regs {
                let r = r.0 as usize;
                several[r] |= home[r] != NOWHERE && home[r] != b.0;
                home[r] = b.0;
            }
        };
        meet(BlockId(0), counted.of(f.params.clone()));
        for (b, block) in f.blocks.iter() {
            meet(b, counted.of(block.params.clone()));
            for inst in &block.insts {
                meet(b, counted.defines(inst));
                meet(b, counted.consumes(inst));
                meet(b, counted.borrows(inst));
            }
            meet(b, counted.taken(&block.term));
        }
        // Values that the terminator reads are released by the successor blocks.
        for block in f.blocks.values() {
            (counted.seen(&block.term).iter()).for_each(|r| several[r.0 as usize] = true);
        }
        let regs: Vec<Reg> = (0..n as u32)
            .map(Reg)
            .filter(|r| several[r.0 as usize])
            .collect();
        let mut number = vec![None; n];
        for (k, r) in (0u32..).zip(&regs) {
            number[r.0 as usize] = Some(Reg(k));
        }
        Between { number, regs }
    }

    fn add(&self, to: &mut Set, r: Reg) {
        if let Some(k) = self.number[r.0 as usize] {
            to.add(k);
        }
    }

    fn drop(&self, from: &mut Set, r: Reg) {
        if let Some(k) = self.number[r.0 as usize] {
            from.drop(k);
        }
    }

    /// The registers of a set of numbers.
    fn named(&self, numbers: Vec<Reg>) -> impl Iterator<Item = Reg> {
        numbers.into_iter().map(|k| self.regs[k.0 as usize])
    }
}

/// The live sets at the beginnings and ends of blocks, in numbers of [`Between`].
struct Liveness {
    between: Between,
    at_start: Vec<Set>,
    at_end: Vec<Set>,
}

impl Liveness {
    /// Computes it with a worklist, from the last block on.
    fn of(f: &LFunc, counted: &Counted<'_>, before: &[Vec<BlockId>]) -> Liveness {
        let between = Between::of(f, counted);
        let n = between.regs.len();
        let mut work: Vec<BlockId> = f.blocks.ids().collect();
        let mut at_start = vec![Set::with(n); work.len()];
        let mut queued = vec![true; work.len()];
        while let Some(b) = work.pop() {
            queued[b.0 as usize] = false;
            let mut live = live_out(f, b, &at_start, n);
            let block = &f.blocks[b];
            (counted.taken(&block.term).into_iter())
                .chain(counted.seen(&block.term))
                .for_each(|r| between.add(&mut live, r));
            for inst in block.insts.iter().rev() {
                (counted.defines(inst).into_iter()).for_each(|r| between.drop(&mut live, r));
                (counted.consumes(inst).into_iter())
                    .chain(counted.borrows(inst))
                    .for_each(|r| between.add(&mut live, r));
            }
            (block.params.iter()).for_each(|&r| between.drop(&mut live, r));
            if at_start[b.0 as usize].join(&live) {
                for &p in &before[b.0 as usize] {
                    if !queued[p.0 as usize] {
                        queued[p.0 as usize] = true;
                        work.push(p);
                    }
                }
            }
        }
        let at_end = f.blocks.ids().map(|b| live_out(f, b, &at_start, n));
        Liveness {
            at_end: at_end.collect(),
            between,
            at_start,
        }
    }
}

fn live_out(f: &LFunc, b: BlockId, at_start: &[Set], n: usize) -> Set {
    let mut live = Set::with(n);
    for s in f.blocks[b].term.successors() {
        live.join(&at_start[s.0 as usize]);
    }
    live
}

/// Inserts `Retain` and `Release` into a function that has none.
///
/// Invariant: a block that can be reached from a block with several successors has that block as
/// its only predecessor, so that values can be released on the way (no critical edges).
pub(crate) fn insert(f: &mut LFunc) {
    let held = std::mem::take(&mut f.regs);
    let counted = Counted(&held);
    let blocks: Vec<BlockId> = f.blocks.ids().collect();
    let mut before: Vec<Vec<BlockId>> = vec![Vec::new(); blocks.len()];
    for &b in &blocks {
        for s in f.blocks[b].term.successors() {
            before[s.0 as usize].push(b);
        }
    }
    let liveness = Liveness::of(f, &counted, &before);
    let mut live = Here::with(held.len());
    for &b in &blocks {
        live.restart(&liveness, b);
        rewrite(f, b, &liveness, &before, &counted, &mut live);
    }
    f.regs = held;
}

/// The registers that are live at a point of a block.
struct Here {
    set: Set,
    /// The registers added since the start.
    added: Vec<Reg>,
}

impl Here {
    fn with(n: usize) -> Here {
        Here {
            set: Set::with(n),
            added: Vec::new(),
        }
    }
    /// Restarts with the registers that are live at the end of a block.
    fn restart(&mut self, liveness: &Liveness, b: BlockId) {
        for r in std::mem::take(&mut self.added) {
            self.set.drop(r);
        }
        let at_end = &liveness.at_end[b.0 as usize];
        let numbers = at_end.without(&Set::with(liveness.between.regs.len()));
        for r in liveness.between.named(numbers) {
            self.add(r);
        }
    }
    fn has(&self, r: Reg) -> bool {
        self.set.has(r)
    }
    fn add(&mut self, r: Reg) {
        self.set.add(r);
        self.added.push(r);
    }
    fn drop(&mut self, r: Reg) {
        self.set.drop(r);
    }
}

/// Rewrites one block, from its end to its start.
fn rewrite(
    f: &mut LFunc,
    b: BlockId,
    liveness: &Liveness,
    before: &[Vec<BlockId>],
    counted: &Counted<'_>,
    live: &mut Here,
) {
    let params = if b.0 == 0 {
        f.params.clone()
    } else {
        f.blocks[b].params.clone()
    };
    let insts = std::mem::take(&mut f.blocks[b].insts);
    let term = &f.blocks[b].term;
    let mut new = Vec::with_capacity(insts.len());
    let (taken, seen) = (counted.taken(term), counted.seen(term));
    take(&taken, &seen, live, &mut new);
    taken.into_iter().chain(seen).for_each(|r| live.add(r));
    for inst in insts.into_iter().rev() {
        let (consumed, borrowed) = (counted.consumes(&inst), counted.borrows(&inst));
        let defined = counted.defines(&inst);
        // Where the instruction also consumes what it borrows, `take` retains a reference for that.
        let dead = unique(borrowed.clone()).filter(|r| !live.has(*r));
        let unused = defined.iter().copied().filter(|&r| !live.has(r));
        new.extend(dead.chain(unused).map(Inst::Release));
        defined.into_iter().for_each(|r| live.drop(r));
        new.push(inst);
        // Registers that die in the instruction itself are not live after it; takes are based on
        // that state.
        take(&consumed, &borrowed, live, &mut new);
        consumed
            .into_iter()
            .chain(borrowed)
            .for_each(|r| live.add(r));
    }
    new.extend(
        counted
            .of(params)
            .into_iter()
            .filter(|&r| !live.has(r))
            .map(Inst::Release),
    );
    // Values that a predecessor kept for another of its successors, or only read in its terminator.
    let between = &liveness.between;
    let mut handed = Set::with(between.regs.len());
    for &p in &before[b.0 as usize] {
        handed.join(&liveness.at_end[p.0 as usize]);
        (counted.seen(&f.blocks[p].term).into_iter()).for_each(|r| between.add(&mut handed, r));
    }
    let left = handed.without(&liveness.at_start[b.0 as usize]);
    new.extend(between.named(left).map(Inst::Release));
    new.reverse();
    f.blocks[b].insts = new;
}

fn unique(mut regs: Vec<Reg>) -> impl Iterator<Item = Reg> {
    regs.sort();
    regs.dedup();
    regs.into_iter()
}

/// Retains the references that consuming uses need beyond the existing one.
fn take(consumed: &[Reg], borrowed: &[Reg], live: &Here, new: &mut Vec<Inst>) {
    for r in unique(consumed.to_vec()) {
        let times = consumed.iter().filter(|&&c| c == r).count();
        let keep = live.has(r) || borrowed.contains(&r);
        for _ in 0..times + usize::from(keep) - 1 {
            new.push(Inst::Retain(r));
        }
    }
}
