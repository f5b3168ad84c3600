//! Operations on what is one number for a whole row of the result.

use super::{OPERANDS, Plan, RxSweepOp};

/// Sets of operations, a bit for each.
#[derive(Clone, Copy, Default)]
pub(super) struct Uniform {
    /// Those that give one number for a whole row.
    all: u128,
    /// Those of them whose result stays in its place while a row lasts.
    kept: u128,
    /// Those of them whose result others read as a strip.
    spread: u128,
}

/// Returns whether an operation reads an operand.
fn reads(op: &RxSweepOp, k: usize) -> bool {
    (0..op.args.len()).any(|place| op.argument(place).is_some() && op.args[place] == k as i32)
}

impl Uniform {
    /// The operations of a sweep; none where strips hold parts of several rows. The last one, which
    /// gives the result, is none of them.
    pub fn of(p: &Plan<'_>) -> Self {
        let mut found = Self::default();
        let [before @ .., _] = p.ops else {
            return found;
        };
        let fits = (1..=u128::BITS as usize).contains(&before.len());
        if !fits || p.v.reduced > 0 || !p.within_rows() {
            return found;
        }
        let inputs = p.v.inputs as usize;
        let (first, end) = (inputs + p.v.constants as usize, p.operands());
        let mut one = [false; OPERANDS];
        one[inputs..first].fill(true);
        for (k, one) in one.iter_mut().enumerate().take(inputs) {
            *one = p.one(k);
        }
        // The operation whose result a temporary has, as a bit.
        let mut from = [0u128; OPERANDS];
        for (k, op) in p.ops.iter().enumerate() {
            let last = k == before.len();
            let uniform = !last && (0..end).all(|x| one[x] || !reads(op, x));
            if !uniform {
                let read = (first..end).filter(|&x| reads(op, x));
                found.spread |= read.fold(0, |some, x| some | from[x]) & found.all;
            }
            if !last {
                let to = first + op.dst as usize;
                (one[to], from[to]) = (uniform, 1 << k);
                let once = before.iter().filter(|o| o.dst == op.dst).count() == 1;
                found.all |= u128::from(uniform) << k;
                found.kept |= u128::from(uniform && once) << k;
            }
        }
        found
    }

    /// Returns whether an operation is one of them.
    #[inline(always)]
    pub fn is(self, k: usize) -> bool {
        self.all.checked_shr(k as u32).unwrap_or(0) & 1 != 0
    }

    /// Returns whether what it gave for the beginning of a row is still there.
    #[inline(always)]
    pub fn kept(self, k: usize) -> bool {
        self.kept.checked_shr(k as u32).unwrap_or(0) & 1 != 0
    }

    /// Returns whether its number has to stand in a whole strip.
    #[inline(always)]
    pub fn spread(self, k: usize) -> bool {
        self.spread.checked_shr(k as u32).unwrap_or(0) & 1 != 0
    }
}
