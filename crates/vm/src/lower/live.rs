//! Liveness analysis, and the insertion of kills for dead values.

use rustc_hash::FxHashSet;

use super::{Block, Call, End};
use crate::builtin::{Builtin, Plain};
use crate::code::{Arg, Callee, Reg};

/// The code of a function over virtual registers.
pub(super) struct Code {
    pub blocks: Vec<Block>,
    /// The number of parameters.
    pub params: u32,
    pub registers: u32,
    /// Registers that own memory.
    pub owners: FxHashSet<Reg>,
    /// Those among them that another owner keeps alive.
    pub lent: FxHashSet<Reg>,
}

/// The live-in and live-out sets of each block.
pub(super) struct Lives {
    pub at_start: Vec<FxHashSet<Reg>>,
    pub at_end: Vec<FxHashSet<Reg>>,
}

const COPY: Callee = Callee::Builtin(Builtin::Plain(Plain::Copy));

/// Returns the registers among arguments.
pub(super) fn registers(args: &[Arg]) -> impl DoubleEndedIterator<Item = Reg> + '_ {
    args.iter().filter_map(|a| match a {
        Arg::Reg(r) => Some(*r),
        _ => None,
    })
}

impl Block {
    pub(super) fn goals(&self) -> impl Iterator<Item = usize> + use<> {
        let (a, b) = match self.end {
            End::Ret(_) => (None, None),
            End::Goto(to) => (Some(to), None),
            End::If(_, then, otherwise) => (Some(then), Some(otherwise)),
        };
        a.into_iter().chain(b)
    }

    /// Returns the register that the terminator reads.
    pub(super) fn last(&self) -> Option<Reg> {
        match self.end {
            End::Ret(Arg::Reg(r)) | End::If(r, ..) => Some(r),
            _ => None,
        }
    }
}

impl Code {
    /// Copy propagation: replaces copies by their source where both are written only once.
    pub(super) fn without_copies(&mut self) {
        let mut written = vec![0u32; self.registers as usize];
        (0..self.params).for_each(|r| written[r as usize] += 1);
        let mut tested = FxHashSet::default();
        for block in &self.blocks {
            for dst in block.calls.iter().filter_map(|c| c.dst) {
                written[dst as usize] += 1;
            }
            if let End::If(r, ..) = block.end {
                tested.insert(r);
            }
        }
        let mut instead: Vec<Option<Arg>> = vec![None; self.registers as usize];
        for call in self.blocks.iter().flat_map(|b| &b.calls) {
            let (true, Some(dst)) = (call.callee == COPY, call.dst) else {
                continue;
            };
            let fits = match call.args[0] {
                Arg::Reg(r) => written[r as usize] == 1,
                _ => !tested.contains(&dst),
            };
            if fits && written[dst as usize] == 1 {
                instead[dst as usize] = Some(call.args[0]);
            }
        }
        let find = |arg: Arg| {
            let mut arg = arg;
            while let Arg::Reg(r) = arg
                && let Some(other) = instead[r as usize]
            {
                // Conditions must be registers.
                if !matches!(other, Arg::Reg(_)) && tested.contains(&r) {
                    break;
                }
                arg = other;
            }
            arg
        };
        for block in &mut self.blocks {
            (block.calls).retain(|c| c.dst.is_none_or(|dst| instead[dst as usize].is_none()));
            for arg in block.calls.iter_mut().flat_map(|c| &mut c.args) {
                *arg = find(*arg);
            }
            match &mut block.end {
                End::Ret(arg) => *arg = find(*arg),
                End::If(r, ..) => {
                    if let Arg::Reg(other) = find(Arg::Reg(*r)) {
                        *r = other;
                    }
                }
                End::Goto(_) => {}
            }
        }
    }

    /// Computes liveness; dead results are dropped.
    pub(super) fn lives(&mut self) -> Lives {
        let n = self.blocks.len();
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); n];
        let mut writes: Vec<FxHashSet<Reg>> = vec![FxHashSet::default(); n];
        let mut lives = Lives {
            at_start: vec![FxHashSet::default(); n],
            at_end: vec![FxHashSet::default(); n],
        };
        let mut work: Vec<(usize, Reg)> = Vec::new();
        for (k, block) in self.blocks.iter().enumerate() {
            block.goals().for_each(|to| before[to].push(k));
            let own = &mut writes[k];
            let mut need = |r: Reg, own: &FxHashSet<Reg>| {
                if !own.contains(&r) {
                    work.push((k, r));
                }
            };
            for call in &block.calls {
                registers(&call.args).for_each(|r| need(r, own));
                own.extend(call.dst);
            }
            block.last().into_iter().for_each(|r| need(r, own));
        }
        while let Some((k, r)) = work.pop() {
            if !lives.at_start[k].insert(r) {
                continue;
            }
            for &p in &before[k] {
                if lives.at_end[p].insert(r) && !writes[p].contains(&r) {
                    work.push((p, r));
                }
            }
        }
        self.drop_unneeded(&lives);
        lives
    }

    /// Drops dead results.
    fn drop_unneeded(&mut self, lives: &Lives) {
        for (k, block) in self.blocks.iter_mut().enumerate() {
            let mut needed = lives.at_end[k].clone();
            needed.extend(block.last());
            for call in block.calls.iter_mut().rev() {
                if let Some(dst) = call.dst
                    && !needed.remove(&dst)
                {
                    call.dst = None;
                }
                needed.extend(registers(&call.args));
            }
            block.calls.retain(|c| c.callee != COPY || c.dst.is_some());
        }
    }

    /// Kills values on edges where they become dead: at the start of the successor, or on a split
    /// edge if it has other predecessors.
    pub(super) fn give_up(&mut self, mut lives: Lives) -> Lives {
        let mut ways = vec![0u32; self.blocks.len()];
        for block in &self.blocks {
            block.goals().for_each(|to| ways[to] += 1);
        }
        let unused: Vec<Reg> = (0..self.params)
            .filter(|r| !lives.at_start[0].contains(r) && self.ends(*r))
            .collect();
        self.kill(0, &unused, &mut lives);
        for k in 0..ways.len() {
            let End::If(cond, then, otherwise) = self.blocks[k].end else {
                continue;
            };
            let mut goals = [then, otherwise];
            for to in &mut goals {
                let ends = lives.at_end[k].iter().copied();
                let mut ends: Vec<Reg> = ends
                    .filter(|r| !lives.at_start[*to].contains(r) && self.ends(*r))
                    .collect();
                if ends.is_empty() {
                    continue;
                }
                ends.sort_unstable();
                if ways[*to] > 1 {
                    let goal = *to;
                    *to = self.blocks.len();
                    self.blocks.push(Block {
                        calls: Vec::new(),
                        end: End::Goto(goal),
                    });
                    lives.at_start.push(lives.at_start[goal].clone());
                    lives.at_end.push(lives.at_start[goal].clone());
                }
                self.kill(*to, &ends, &mut lives);
            }
            self.blocks[k].end = End::If(cond, goals[0], goals[1]);
        }
        lives
    }

    /// Returns whether the end of a register's live range matters.
    fn ends(&self, r: Reg) -> bool {
        self.owners.contains(&r) && !self.lent.contains(&r)
    }

    /// Inserts kills at the start of a block.
    fn kill(&mut self, block: usize, registers: &[Reg], lives: &mut Lives) {
        let kill = |&r: &Reg| Call {
            callee: Callee::Builtin(Builtin::Plain(Plain::Kill)),
            args: vec![Arg::Reg(r)],
            dst: None,
            place: relax_base::Symbol::new(""),
        };
        let kills: Vec<Call> = registers.iter().map(kill).collect();
        self.blocks[block].calls.splice(0..0, kills);
        lives.at_start[block].extend(registers);
    }
}
