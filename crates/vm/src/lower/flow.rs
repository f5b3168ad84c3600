//! Block terminators: jumps, branches, and the values passed along.

use relax_loops::BinOp;
use relax_lower::lir::{BlockId, Term};
use relax_tensor::DType;

use super::{End, Translation};
use crate::builtin::{Builtin, Plain};
use crate::code::{Arg, Callee, Reg};

impl Translation<'_> {
    pub(super) fn term(&mut self, term: &Term) {
        match term {
            Term::Return(r) => {
                let value = self.seen(*r);
                self.end(End::Ret(value));
            }
            Term::Jump(to, args) => {
                let targets: Vec<Reg> = (self.f.blocks[*to].params.iter())
                    .map(|&r| self.reg(r))
                    .collect();
                let args = self.all_seen(args);
                self.hand_over(args, &targets);
                self.end(End::Goto(Self::block(*to)));
            }
            Term::If {
                cond,
                then,
                otherwise,
            } => {
                let cond = match self.seen(*cond) {
                    Arg::Reg(r) => r,
                    constant => {
                        let r = self.temp();
                        self.call(Plain::Copy, vec![constant], Some(r));
                        r
                    }
                };
                let (then, otherwise) = (Self::block(*then), Self::block(*otherwise));
                self.end(End::If(cond, then, otherwise));
            }
            Term::Switch {
                src,
                cases,
                default,
            } => {
                let src = self.seen(*src);
                let tag = self.temp();
                self.call(Plain::GetTag, vec![src], Some(tag));
                let mut cases = cases.clone();
                cases.sort_unstable();
                self.switch(tag, &cases, *default);
            }
            Term::TailCall { func, args, .. } => {
                let args = self.all_seen(args);
                self.tail(Callee::Func(func.0), args);
            }
            Term::TailClosure { callee, args } => {
                let mut all = vec![self.seen(*callee)];
                all.extend(self.all_seen(args));
                self.tail(Callee::Builtin(Builtin::Plain(Plain::InvokeClosure)), all);
            }
            Term::NoMatch(place) => {
                self.at(*place);
                self.call(Plain::NoMatch, Vec::new(), None);
                self.end(End::Ret(Arg::Void));
            }
        }
    }

    fn tail(&mut self, callee: Callee, args: Vec<Arg>) {
        let dst = self.temp();
        self.owners.insert(dst);
        self.emit(callee, args, Some(dst));
        self.end(End::Ret(Arg::Reg(dst)));
    }

    /// Copies values to registers in parallel.
    fn hand_over(&mut self, args: Vec<Arg>, targets: &[Reg]) {
        let overlap = args
            .iter()
            .any(|a| matches!(a, Arg::Reg(r) if targets.contains(r)));
        let args = match overlap {
            false => args,
            true => {
                let through = |a: Arg| {
                    let t = self.temp();
                    if matches!(a, Arg::Reg(r) if self.owners.contains(&r)) {
                        self.owners.insert(t);
                    }
                    self.call(Plain::Copy, vec![a], Some(t));
                    Arg::Reg(t)
                };
                args.into_iter().map(through).collect()
            }
        };
        for (a, &to) in args.into_iter().zip(targets) {
            self.call(Plain::Copy, vec![a], Some(to));
        }
    }

    /// Finds the block of a constructor's tag by binary search.
    fn switch(&mut self, tag: Reg, cases: &[(u32, BlockId)], default: BlockId) {
        // The ranges of remaining cases, each with the block that searches it.
        let mut work = vec![(0, cases.len(), self.here)];
        while let Some((from, to, here)) = work.pop() {
            self.here = here;
            let (op, at) = match to - from {
                0 => {
                    self.end(End::Goto(Self::block(default)));
                    continue;
                }
                1 => (BinOp::Eq, from),
                n => (BinOp::Lt, from + n / 2),
            };
            let test = self.temp();
            let args = vec![Arg::Reg(tag), Arg::Int(i64::from(cases[at].0))];
            let callee = Callee::Builtin(Builtin::Binary(op, DType::I64));
            self.emit(callee, args, Some(test));
            if op == BinOp::Eq {
                let (then, otherwise) = (Self::block(cases[at].1), Self::block(default));
                self.end(End::If(test, then, otherwise));
            } else {
                let (lower, upper) = (self.fresh(), self.fresh());
                self.end(End::If(test, lower, upper));
                work.push((at, to, upper));
                work.push((from, at, lower));
            }
        }
    }
}
