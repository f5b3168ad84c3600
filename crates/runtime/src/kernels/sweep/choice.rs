//! How strips lie in the axes of a sweep, and how their operands are held: decided before anything
//! is computed.

use super::chains::Chain;
use super::narrow::Narrow;
use super::op::{Op, RxSweepOp};
use super::space::Space;
use super::uniform::Uniform;
use super::{BARE, FEW, INDEX, INPUTS, Plan, ROW, ROW_BYTES, SHORT_BYTES, STRIP, register};
use crate::kernels::combiner::Combiner;
use crate::kernels::halves::known;
use crate::kernels::kinds::Kind;

impl Plan<'_> {
    /// Decides how strips lie in the axes, and how their operands are held.
    pub(super) fn choose(&mut self) {
        let (reduced, inputs) = (self.v.reduced as usize, self.v.inputs as usize);
        let operands = self.operands();
        let widest = self.widest();
        let bytes = if operands <= FEW { STRIP } else { STRIP / 2 };
        self.strip = bytes / widest;
        for k in 0..inputs {
            // An input that moves along reduced axes has different rows.
            self.dense[k] = reduced == 0 && self.out.dense(k);
            self.raw[k] = self.takes_any_byte(k);
        }
        self.bounds = self.bounds();
        let (inner, count, over) = (self.out.inner(), self.out.count(), self.over.count());
        // One operation takes less than short strips do, unless it is a division, by one number.
        let whole = |&k: &i32| Kind::of(k).is_none_or(|k| register(k) == k);
        let quick = |op: &RxSweepOp| op.repeats(0) || !op.repeats(1);
        let least = match self.ops {
            [op] if quick(op) && self.direct() && self.kinds.iter().all(whole) => 3 * ROW_BYTES,
            _ => ROW_BYTES,
        };
        let long = inner >= ROW && inner * widest >= least;
        let rows_apart = self.dense[..inputs].contains(&false) && long;
        self.unit = if rows_apart { inner } else { count };
        let mut chain = Chain::new();
        chain.make(self);
        if chain.helps() {
            self.chain = chain;
            // A chain looks at truth values itself.
            self.raw = [true; INPUTS];
        } else {
            self.uniform = Uniform::of(self);
        }
        self.narrow = Narrow::of(self);
        self.lines = self.lines();
        if self.bare() || self.narrow.is_some() {
            // They take no memory.
            self.strip = BARE;
        }
        let easy = (0..inputs).all(|k| (0..=1).contains(&self.over.inner_step(k)));
        self.along_reduced =
            reduced > 0 && over >= 16 && (count < 16 || easy && self.over.inner() >= 16);
    }

    /// Returns whether an operand is one number, of which a line is enough.
    #[inline(always)]
    pub(super) fn is_line(&self, operand: usize) -> bool {
        self.lines >> operand & 1 != 0
    }

    /// See [`Plan::is_line`].
    fn lines(&self) -> u128 {
        let inputs = self.v.inputs as usize;
        let one = |k: usize| k >= inputs || self.within_rows() && self.one(k);
        let repeats = |k: usize| {
            let fits = |op: &RxSweepOp, place: usize| {
                op.args[place] != k as i32 || op.argument(place).is_none() || op.repeats(place)
            };
            (self.ops.iter()).all(|op| (0..op.args.len()).all(|place| fits(op, place)))
        };
        let all = 0..inputs + self.v.constants as usize;
        let any = self.chain.helps();
        let some = all.filter(|&k| self.v.reduced == 0 && one(k) && (any || repeats(k)));
        some.fold(0, |lines, k| lines | 1 << k)
    }

    /// Returns whether an input is one number for a row of the result.
    pub(super) fn one(&self, input: usize) -> bool {
        !self.dense[input] && self.out.inner_step(input) == 0 && self.kinds[input] != INDEX
    }

    /// Returns whether the program is one operation from inputs in place to the result, so that
    /// strips need no memory.
    fn bare(&self) -> bool {
        let plain = |k: usize| {
            let kind = Kind::of(self.kinds[k]);
            let truth = kind == Some(Kind::Bool);
            let lies = self.dense[k] || self.within_rows() && self.out.inner_step(k) == 1;
            lies && kind.is_some_and(|k| register(k) == k) && (!truth || self.raw[k])
        };
        let inputs = self.v.inputs as usize;
        let whole = self.ops.len() == 1 && self.v.reduced == 0;
        let all = 0..inputs + self.v.constants as usize;
        let fits = |k: usize| self.is_line(k) || k < inputs && plain(k);
        whole && self.direct() && all.into_iter().all(fits)
    }

    /// See [`Plan::bounds`].
    fn bounds(&self) -> bool {
        let (inputs, all) = (self.v.inputs, self.v.inputs + self.v.constants);
        let [op] = self.ops else {
            return false;
        };
        let known = op.args[1..3].iter().all(|k| (inputs..all).contains(k));
        matches!(op.op(), Op::MaxMin | Op::MinMax) && known
    }

    /// Returns whether all operations that read an input take any byte for a truth value.
    fn takes_any_byte(&self, input: usize) -> bool {
        let fits = |op: &RxSweepOp, place: usize| {
            let other = op.args[place] != input as i32 || op.argument(place).is_none();
            other || op.any_byte(place)
        };
        (self.ops.iter()).all(|op| (0..op.args.len()).all(|place| fits(op, place)))
    }

    /// Returns whether elements of one input are reduced without computation, row by row; truth
    /// values only where they are one row.
    pub(super) fn as_they_lie(&self) -> bool {
        let copied = matches!(self.ops, [op] if op.op() == Op::Copy && op.args[0] == 0);
        let kind = self.kinds.first().and_then(|&k| Kind::of(k));
        let read = |k: Kind| register(k) == k || known();
        let plain = kind.is_some_and(|k| k == self.out_kind && read(k));
        let truths = self.out_kind == Kind::Bool;
        let long = self.over.inner() * self.out_kind.size() >= SHORT_BYTES;
        copied
            && plain
            && (!truths || matches!(self.combiner, Combiner::And | Combiner::Or))
            && self.v.inputs == 1
            && (self.over.rank() == 1 || long && !truths)
            && self.over.inner_step(0) == 1
    }

    /// Returns whether narrow floats of one input, side by side along the last axis of a space, are
    /// reduced without computation, and whether they are bfloat16.
    pub(super) fn narrow_as_they_lie(&self, space: &Space) -> Option<bool> {
        let copied = matches!(self.ops, [op] if op.op() == Op::Copy && op.args[0] == 0);
        let kind = self.kinds.first().and_then(|&k| Kind::of(k));
        let narrow = matches!(kind, Some(Kind::F16 | Kind::BF16));
        let narrow = narrow && (self.out_kind == Kind::F32 || kind == Some(self.out_kind));
        (copied && narrow && known() && self.v.inputs == 1 && space.inner_step(0) == 1)
            .then_some(kind == Some(Kind::BF16))
    }

    /// The size in bytes of the widest elements in strips.
    fn widest(&self) -> usize {
        let inputs = self
            .kinds
            .iter()
            .map(|&k| Kind::of(k).map_or(8, |k| register(k).size()));
        let ops = self.ops.iter().map(|op| {
            let sizes = (0..4).filter_map(|k| op.argument(k)).chain(op.result());
            sizes.map(|k| register(k).size()).max().unwrap_or(8)
        });
        inputs
            .chain(ops)
            .max()
            .unwrap_or(8)
            .max(register(self.out_kind).size())
    }
}
