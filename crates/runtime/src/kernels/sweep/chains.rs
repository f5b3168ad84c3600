//! Chains of operations on narrow floats: a block of elements is widened, passes through all of them
//! and is narrowed again, and nothing in between leaves the first cache.

use super::op::Op;
use crate::kernels::halves::Operand;
#[cfg(target_arch = "x86_64")]
use crate::kernels::narrowing::dispatch_narrowing;

/// The most values that a chain of operations has, and the most operations.
pub(super) const SLOTS: usize = 16;
pub(super) const STEPS: usize = 24;

/// Returns whether an operation is done in registers.
pub(super) fn quick(op: Op) -> bool {
    matches!(
        op,
        Op::Copy
            | Op::Add
            | Op::Sub
            | Op::Mul
            | Op::Div
            | Op::Min
            | Op::Max
            | Op::MaxMin
            | Op::MinMax
            | Op::Neg
            | Op::Abs
            | Op::Sqrt
            | Op::Floor
            | Op::Ceil
            | Op::Trunc
            | Op::RoundEven
            | Op::SelectLt
            | Op::SelectLe
            | Op::SelectEq
    )
}

/// A step of a chain: its arguments and its result are values by their numbers, operands first.
#[derive(Clone, Copy)]
pub(super) struct Step {
    /// One that is [`quick`].
    pub op: Op,
    /// Whether the result is rounded to the narrow type.
    pub rounds: bool,
    pub args: [u8; 4],
    pub to: u8,
}

/// Operations, of which the last one gives the result.
///
/// Invariant: numbers of values are below [`SLOTS`].
pub(super) struct Chain {
    steps: [Step; STEPS],
    count: usize,
}

impl Chain {
    /// No operations.
    pub(super) fn new() -> Self {
        let none = Step {
            op: Op::Copy,
            rounds: false,
            args: [0; 4],
            to: 0,
        };
        Self {
            steps: [none; STEPS],
            count: 0,
        }
    }

    /// Adds a step; there is room.
    pub(super) fn push(&mut self, step: Step) {
        assert!(
            step.args
                .iter()
                .chain([&step.to])
                .all(|&k| usize::from(k) < SLOTS)
        );
        self.steps[self.count] = step;
        self.count += 1;
    }

    /// Leaves out roundings of numbers that are only chosen, or change their signs, before the result
    /// is rounded anyway.
    pub(super) fn round_once(&mut self) {
        for k in (0..self.count.saturating_sub(1)).rev() {
            let to = self.steps[k].to;
            let mut needed = false;
            for (at, step) in self.steps[..self.count].iter().enumerate().skip(k + 1) {
                for (place, _) in step.args.iter().enumerate().filter(|a| *a.1 == to) {
                    let passed = match step.op {
                        Op::Neg | Op::Abs | Op::Copy => place == 0,
                        Op::SelectLt | Op::SelectLe | Op::SelectEq => place > 1,
                        _ => false,
                    };
                    let last = at + 1 == self.count || step.rounds;
                    needed |= step.op.reads(place) && !(passed && last);
                }
                if step.to == to {
                    break;
                }
            }
            self.steps[k].rounds &= needed;
        }
    }

    /// The last step.
    pub(super) fn last(&mut self) -> Option<&mut Step> {
        self.steps[..self.count].last_mut()
    }
}

/// Computes `n` elements of float16, or of bfloat16 (`brain`), by a chain of operations in float32.
///
/// # Safety
/// The processor is [`known`](crate::kernels::halves::known); operands have `n` elements or one, and
/// `to` has `n`, which overlap none that are read later.
pub(super) unsafe fn chained(
    brain: bool,
    chain: &Chain,
    n: usize,
    operands: &[Operand],
    to: *mut u16,
) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: all have `n` elements.
    unsafe {
        use blocks::chained;
        dispatch_narrowing!(
            brain,
            chained(chain: &Chain, n: usize, operands: &[Operand], to: *mut u16)
        );
    }
    let _ = (brain, chain, n, operands, to);
}

/// Blocks of elements.
#[cfg(target_arch = "x86_64")]
mod blocks {
    use super::{Chain, Op, Operand, SLOTS, STEPS, Step};
    use crate::kernels::narrowing::Narrowing;
    use std::mem::MaybeUninit;

    /// Vectors of a block that passes through all steps at once.
    const BLOCK: usize = 8;
    /// The most elements of a block.
    const WIDE: usize = 16 * BLOCK;

    /// The values of a block.
    type Slots<S> = [[S; BLOCK]; SLOTS];

    /// See [`super::chained`].
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // Indices keep the vectors in place.
    pub unsafe fn chained<S: Narrowing, const BRAIN: bool>(
        chain: &Chain,
        n: usize,
        operands: &[Operand],
        to: *mut u16,
    ) {
        let wide = S::LANES * BLOCK;
        // What a step reads was written before.
        let mut room = MaybeUninit::<Slots<S>>::uninit();
        let slots = room.as_mut_ptr();
        let mut lying = [(0, std::ptr::null()); SLOTS];
        // Values that are one number for all elements, a bit for each.
        let (mut count, mut fixed) = (0, 0u32);
        // SAFETY: operands have `n` elements, of which a block is whole or copied to whole lines.
        unsafe {
            for (slot, operand) in operands.iter().enumerate() {
                fixed |= 1 << slot;
                match *operand {
                    Operand::Lies(at) => {
                        lying[count] = (slot, at);
                        count += 1;
                        fixed &= !(1 << slot);
                    }
                    Operand::One(at) => (*slots)[slot] = [S::widened_one::<BRAIN>(at); BLOCK],
                    Operand::Number(x) => (*slots)[slot] = [S::splat(x); BLOCK],
                }
            }
        }
        let mut line = [0u16; WIDE];
        let steps = &chain.steps[..chain.count];
        let last = chain.count.saturating_sub(1);
        // Those that give such a value are done for the first block only. For each step, which
        // of its operands are one.
        let (mut again, mut places) = (0u32, [0u32; STEPS]);
        for (k, step) in steps.iter().enumerate() {
            let is_fixed = |place: usize| fixed >> (step.args[place] % 32) & 1;
            let mut reads = (0..4).filter(|&place| step.op.reads(place));
            places[k] = reads.clone().fold(0, |some, p| some | is_fixed(p) << p);
            let once = steps.iter().filter(|s| s.to == step.to).count() == 1;
            match k < last && once && reads.all(|p| is_fixed(p) == 1) {
                true => fixed |= 1 << (step.to % 32),
                false => again |= 1 << k,
            }
        }
        let mut i = 0;
        while i < n {
            let part = (n - i).min(wide);
            // SAFETY: operands have `n` elements, of which a block is whole or copied to whole
            // lines.
            unsafe {
                for &(slot, at) in &lying[..count] {
                    let mut from = at.add(i);
                    if part < wide {
                        std::ptr::copy_nonoverlapping(from, line.as_mut_ptr(), part);
                        from = line.as_ptr();
                    }
                    for v in 0..BLOCK {
                        (*slots)[slot][v] = S::widened::<BRAIN>(from.add(S::LANES * v));
                    }
                }
            }
            // SAFETY: operands have `n` elements, of which a block is whole or copied to whole
            // lines.
            let to = unsafe { to.add(i) };
            let whole = if part < wide { line.as_mut_ptr() } else { to };
            // SAFETY: operands have `n` elements, of which a block is whole or copied to whole
            // lines.
            unsafe {
                for (k, step) in steps.iter().enumerate() {
                    if i > 0 && again >> k & 1 == 0 {
                        continue;
                    }
                    let out = if k == last {
                        whole
                    } else {
                        std::ptr::null_mut()
                    };
                    apply::<S, BRAIN>((step, places[k]), slots, out);
                }
                if part < wide {
                    std::ptr::copy_nonoverlapping(line.as_ptr(), to, part);
                }
            }
            i += wide;
        }
    }

    /// A vector of an operand's block; the first one where the operand is one of those `HELD`, a
    /// bit for each.
    #[inline(always)]
    unsafe fn operand<S: Narrowing, const HELD: u32>(
        step: &Step,
        slots: *const Slots<S>,
        place: usize,
        v: usize,
    ) -> S {
        let from = usize::from(step.args[place]) % SLOTS;
        let v = if HELD >> place & 1 == 0 { v } else { 0 };
        // SAFETY: the operand's block was written.
        unsafe { (*slots)[from][v] }
    }

    /// One step, on a block of values, of whose operands those that are `fixed`, a bit for each,
    /// are read once if most steps of the kind have such ones. What the last step gives goes to
    /// `out`, which is null before.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    unsafe fn apply<S: Narrowing, const BRAIN: bool>(
        (step, fixed): (&Step, u32),
        slots: *mut Slots<S>,
        out: *mut u16,
    ) {
        // SAFETY: arithmetic of vectors, whose instruction set the callers enable; `out` has room
        // for a block.
        unsafe {
            let mut y = [S::splat(0.0); BLOCK];
            macro_rules! held {
                ($held:literal: ($($x:ident = $place:literal),+ => $value:expr)) => {
                    for v in 0..BLOCK {
                        $(let $x = operand::<S, $held>(step, slots, $place, v);)+
                        y[v] = $value;
                    }
                };
            }
            macro_rules! each {
                ($($held:literal)|* : $rest:tt) => {
                    match fixed {
                        $($held => held!($held: $rest),)*
                        _ => held!(0: $rest),
                    }
                };
            }
            let opposite = S::splat(-1.0);
            match step.op {
                Op::Copy => each!(: (a = 0 => a)),
                Op::Add => each!(1 | 2: (a = 0, b = 1 => a.add(b))),
                Op::Sub => each!(1 | 2: (a = 0, b = 1 => a.sub(b))),
                Op::Mul => each!(1 | 2: (a = 0, b = 1 => a.mul(b))),
                Op::Div => each!(1 | 2: (a = 0, b = 1 => a.div(b))),
                Op::Min => each!(1 | 2: (a = 0, b = 1 => a.min(b))),
                Op::Max => each!(1 | 2: (a = 0, b = 1 => a.max(b))),
                Op::MaxMin => each!(6: (a = 0, b = 1, c = 2 => a.max(b).min(c))),
                Op::MinMax => each!(6: (a = 0, b = 1, c = 2 => a.min(b).max(c))),
                Op::Neg => each!(: (a = 0 => S::splat(-0.0).sub(a))),
                Op::Abs => each!(: (a = 0 => a.abs())),
                Op::Sqrt => each!(: (a = 0 => a.sqrt())),
                Op::Floor => each!(: (a = 0 => a.floor())),
                Op::Ceil => each!(: (a = 0 => a.mul(opposite).floor().mul(opposite))),
                Op::Trunc => each!(: (a = 0 => a.abs().floor().copysign(a))),
                Op::RoundEven => each!(: (a = 0 => a.round())),
                Op::SelectLt => each!(2 | 5 | 14: (a = 0, b = 1, c = 2, d = 3 => {
                    S::select(a.lt(b), c, d)
                })),
                Op::SelectLe => each!(: (a = 0, b = 1, c = 2, d = 3 => {
                    S::select(a.lt(b), c, S::select(a.eq(b), c, d))
                })),
                Op::SelectEq => each!(2: (a = 0, b = 1, c = 2, d = 3 => S::select(a.eq(b), c, d))),
                // No step has any other.
                _ => {}
            }
            if step.rounds {
                for v in 0..BLOCK {
                    y[v] = y[v].rounded::<BRAIN>();
                }
            }
            if out.is_null() {
                (*slots)[usize::from(step.to) % SLOTS] = y;
                return;
            }
            for v in 0..BLOCK {
                y[v].narrow::<BRAIN>(out.add(S::LANES * v));
            }
        }
    }
}
