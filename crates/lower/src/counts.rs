//! Reference counting: where references are taken and given up.
//!
//! Every register that holds a value of its own ([`Hold::Value`]) has one reference from its definition to its
//! last use. A use that consumes
//! takes it over; a consuming use that is not the last takes another one first; a value that is
//! dead without having been consumed is released at once (Ullrich and de Moura, "Counting Immutable
//! Beans", 2019; Reinking et al., "Perceus", 2021).

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

/// The counted registers among those of an instruction or the end of a block.
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

/// Inserts `Retain` and `Release` into a function that has none.
///
/// Invariant: a block that can be reached from a block with several successors has that block as its
/// only predecessor, so that values can be released on the way (no critical edges).
pub(crate) fn insert(f: &mut LFunc) {
    let n = f.regs.len();
    let held = std::mem::take(&mut f.regs);
    let counted = Counted(&held);
    let blocks: Vec<BlockId> = f.blocks.ids().collect();
    let mut live_in = vec![Set::with(n); blocks.len()];
    let mut before: Vec<Vec<BlockId>> = vec![Vec::new(); blocks.len()];
    for &b in &blocks {
        for s in f.blocks[b].term.successors() {
            before[s.0 as usize].push(b);
        }
    }
    // Liveness by a work list, from the last block on.
    let mut work: Vec<BlockId> = blocks.clone();
    let mut queued = vec![true; blocks.len()];
    while let Some(b) = work.pop() {
        queued[b.0 as usize] = false;
        let mut live = live_out(f, b, &live_in, n);
        let block = &f.blocks[b];
        (counted.taken(&block.term).into_iter())
            .chain(counted.seen(&block.term))
            .for_each(|r| live.add(r));
        for inst in block.insts.iter().rev() {
            (counted.defines(inst).into_iter()).for_each(|r| live.drop(r));
            (counted.consumes(inst).into_iter())
                .chain(counted.borrows(inst))
                .for_each(|r| live.add(r));
        }
        block.params.iter().for_each(|&r| live.drop(r));
        if live_in[b.0 as usize].join(&live) {
            for &p in &before[b.0 as usize] {
                if !queued[p.0 as usize] {
                    queued[p.0 as usize] = true;
                    work.push(p);
                }
            }
        }
    }
    for &b in &blocks {
        rewrite(f, b, &live_in, &before, &counted);
    }
    f.regs = held;
}

fn live_out(f: &LFunc, b: BlockId, live_in: &[Set], n: usize) -> Set {
    let mut live = Set::with(n);
    for s in f.blocks[b].term.successors() {
        live.join(&live_in[s.0 as usize]);
    }
    live
}

/// Rewrites one block, from its end to its start.
fn rewrite(
    f: &mut LFunc,
    b: BlockId,
    live_in: &[Set],
    before: &[Vec<BlockId>],
    counted: &Counted<'_>,
) {
    let n = counted.0.len();
    let mut live = live_out(f, b, live_in, n);
    let params = if b.0 == 0 {
        f.params.clone()
    } else {
        f.blocks[b].params.clone()
    };
    let insts = std::mem::take(&mut f.blocks[b].insts);
    let term = &f.blocks[b].term;
    let mut new = Vec::with_capacity(insts.len());
    let (taken, seen) = (counted.taken(term), counted.seen(term));
    take(&taken, &seen, &live, &mut new);
    taken.into_iter().chain(seen).for_each(|r| live.add(r));
    for inst in insts.into_iter().rev() {
        let (consumed, borrowed) = (counted.consumes(&inst), counted.borrows(&inst));
        let defined = counted.defines(&inst);
        // Where the instruction consumes what it borrows as well, `take` keeps a reference for that.
        let dead = unique(borrowed.clone()).filter(|r| !live.has(*r));
        let unused = defined.iter().copied().filter(|&r| !live.has(r));
        new.extend(dead.chain(unused).map(Inst::Release));
        defined.into_iter().for_each(|r| live.drop(r));
        new.push(inst);
        // What the instruction itself makes dead is not live after it; takes look at that state.
        take(&consumed, &borrowed, &live, &mut new);
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
    // Values that a predecessor kept for another of its successors, or only looked at in its end.
    let mut handed = Set::with(n);
    for &p in &before[b.0 as usize] {
        handed.join(&live_out(f, p, live_in, n));
        (counted.seen(&f.blocks[p].term).into_iter()).for_each(|r| handed.add(r));
    }
    new.extend(
        handed
            .without(&live_in[b.0 as usize])
            .into_iter()
            .map(Inst::Release),
    );
    new.reverse();
    f.blocks[b].insts = new;
}

fn unique(mut regs: Vec<Reg>) -> impl Iterator<Item = Reg> {
    regs.sort();
    regs.dedup();
    regs.into_iter()
}

/// Takes the references that consuming uses need beyond the one that is there.
fn take(consumed: &[Reg], borrowed: &[Reg], live: &Set, new: &mut Vec<Inst>) {
    for r in unique(consumed.to_vec()) {
        let times = consumed.iter().filter(|&&c| c == r).count();
        let keep = live.has(r) || borrowed.contains(&r);
        for _ in 0..times + usize::from(keep) - 1 {
            new.push(Inst::Retain(r));
        }
    }
}
