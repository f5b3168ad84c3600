//! How blocks end: jumps, branches, and values that go along with them.

use relax_loops::BinOp;
use relax_lower::lir::{BlockId, Term};
use relax_tensor::DType;

use super::{Goal, Translation};
use crate::builtin::{Builtin, Plain};
use crate::code::{Arg, Callee, Inst, Reg};

impl Translation<'_> {
    pub(super) fn term(&mut self, term: &Term) {
        match term {
            Term::Return(r) => {
                let value = self.taken(*r);
                self.code.push(Inst::Ret(value));
            }
            Term::Jump(to, args) => {
                let targets: Vec<Reg> = (self.f.blocks[*to].params.iter())
                    .map(|&r| self.reg(r))
                    .collect();
                let args = self.all_taken(args);
                self.hand_over(args, &targets);
                self.jump(*to);
            }
            Term::If {
                cond,
                then,
                otherwise,
            } => {
                let cond = self.reg(*cond);
                self.goals.push((self.code.len(), Goal::If(*otherwise)));
                self.code.push(Inst::If(cond, 0));
                self.jump(*then);
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
            Term::TailCall { func, args, lent } => {
                let args = self.handed(args, lent);
                self.tail(Callee::Func(func.0), args);
            }
            Term::TailClosure { callee, args } => {
                let mut all = vec![self.taken(*callee)];
                all.extend(self.all_taken(args));
                self.tail(Callee::Builtin(Builtin::Plain(Plain::InvokeClosure)), all);
            }
            Term::NoMatch(place) => {
                self.at(*place);
                self.call(Plain::NoMatch, Vec::new(), None);
                self.code.push(Inst::Ret(Arg::Void));
            }
        }
    }

    fn tail(&mut self, callee: Callee, args: Vec<Arg>) {
        let dst = self.temp();
        self.emit(callee, args, Some(dst));
        self.code.push(Inst::Ret(Arg::Last(dst)));
    }

    fn jump(&mut self, to: BlockId) {
        self.goals.push((self.code.len(), Goal::Goto(to)));
        self.code.push(Inst::Goto(0));
    }

    /// Copies values to registers, as if all at once.
    fn hand_over(&mut self, args: Vec<Arg>, targets: &[Reg]) {
        let overlap = args
            .iter()
            .any(|a| matches!(a, Arg::Reg(r) | Arg::Last(r) if targets.contains(r)));
        let args = match overlap {
            false => args,
            true => {
                let through = |a: Arg| {
                    let t = self.temp();
                    self.call(Plain::Copy, vec![a], Some(t));
                    Arg::Last(t)
                };
                args.into_iter().map(through).collect()
            }
        };
        for (a, &to) in args.into_iter().zip(targets) {
            self.call(Plain::Copy, vec![a], Some(to));
        }
    }

    /// Finds the block of a constructor's number by halves.
    fn switch(&mut self, tag: Reg, cases: &[(u32, BlockId)], default: BlockId) {
        // Which cases are left, and the branch that comes here.
        let mut work = vec![(0, cases.len(), None)];
        while let Some((from, to, branch)) = work.pop() {
            let here = self.code.len() as u32;
            if let Some(at) = branch
                && let Inst::If(_, otherwise) = &mut self.code[at]
            {
                *otherwise = here;
            }
            if from == to {
                self.jump(default);
                continue;
            }
            let (op, at) = match to - from {
                1 => (BinOp::Eq, from),
                n => (BinOp::Lt, from + n / 2),
            };
            let test = self.temp();
            let args = vec![Arg::Reg(tag), Arg::Int(i64::from(cases[at].0))];
            self.emit(
                Callee::Builtin(Builtin::Binary(op, DType::I64)),
                args,
                Some(test),
            );
            let branch: usize = self.code.len();
            if op == BinOp::Eq {
                self.goals.push((branch, Goal::If(default)));
                self.code.push(Inst::If(test, 0));
                self.jump(cases[at].1);
            } else {
                self.code.push(Inst::If(test, 0));
                // The lower half comes next, the upper one where the test fails.
                work.push((at, to, Some(branch)));
                work.push((from, at, None));
            }
        }
    }
}
