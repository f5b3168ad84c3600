//! Row-invariant operations: those whose operands are a single number for a whole row (the root of
//! a row's variance, say) are executed once per row.

use super::chain::arity;
use super::{OPERANDS, OPS, Op, Plan, RxStripOp, STRIP, Strip, apply};
use crate::kernels::simd::{Simd, dispatch};

/// The maximum number of operations executed once per row.
const MOST: usize = 8;

const NONE: RxStripOp = RxStripOp {
    code: Op::Copy as i32,
    dst: 0,
    args: [0; 4],
};

/// A program in two parts. Results of the first part are temporaries after those of the program.
pub(super) struct Split {
    lead: [RxStripOp; MOST],
    leads: usize,
    rest: [RxStripOp; OPS],
    rests: usize,
}

impl Split {
    /// The empty split.
    pub(super) const fn new() -> Self {
        Self {
            lead: [NONE; MOST],
            leads: 0,
            rest: [NONE; OPS],
            rests: 0,
        }
    }

    /// Splits a program with `temps` temporaries, the first of which is operand `first`; `number`
    /// tells whether an input or constant is a single number. `None` where no operation is
    /// row-invariant.
    pub(super) fn make(
        &mut self,
        ops: &[RxStripOp],
        (first, temps): (usize, usize),
        number: &dyn Fn(usize) -> bool,
    ) -> Option<(&[RxStripOp], &[RxStripOp])> {
        if ops.len() > OPS || first + temps + MOST > OPERANDS {
            return None;
        }
        // The first part's result that each temporary holds.
        let mut held = [None; OPERANDS];
        for (k, op) in ops.iter().enumerate() {
            let mut op = *op;
            let mut alike = true;
            let reads = arity(op.op());
            for arg in op.args.iter_mut().take(reads) {
                let operand = *arg as usize;
                alike &= match operand.checked_sub(first) {
                    None => number(operand),
                    Some(temp) => match held[temp] {
                        Some(at) => {
                            *arg = at;
                            true
                        }
                        None => false,
                    },
                };
            }
            let temp = op.dst as usize;
            if alike && k + 1 < ops.len() && self.leads < MOST {
                op.dst = (temps + self.leads) as i32;
                held[temp] = Some((first + temps + self.leads) as i32);
                self.lead[self.leads] = op;
                self.leads += 1;
            } else {
                held[temp] = None;
                self.rest[self.rests] = op;
                self.rests += 1;
            }
        }
        (self.leads > 0).then_some((&self.lead[..self.leads], &self.rest[..self.rests]))
    }
}

/// Executes the row-invariant operations, whose operands have been read, and fills `fill` elements
/// with each result.
pub(super) unsafe fn once(p: &Plan<'_>, s: &mut Strip, fill: usize) {
    // SAFETY: operands are there, and results have strips of their own.
    unsafe { dispatch!(each(p: &Plan<'_>, s: &mut Strip, fill: usize)) };
}

#[inline(always)]
unsafe fn each<S: Simd>(p: &Plan<'_>, s: &mut Strip, fill: usize) {
    let first = (p.v.inputs + p.v.constants) as usize;
    for op in p.lead {
        // SAFETY: operands are there, and results have strips of their own, which are whole
        // vectors.
        unsafe {
            let to = s.room.add((first + op.dst as usize) * STRIP);
            let [a, b, c, d] = op.args;
            let operands = [
                s.operands[a as usize],
                s.operands[b as usize],
                s.operands[c as usize],
                s.operands[d as usize],
            ];
            apply(op.op(), operands, to, 1);
            let x = S::splat(*to);
            for i in (0..fill).step_by(S::LANES) {
                x.store(to.add(i));
            }
        }
    }
}
