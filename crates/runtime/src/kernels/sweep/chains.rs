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
    use super::{Chain, Op, Operand, SLOTS, Step};
    use crate::kernels::narrowing::Narrowing;

    /// Vectors of a block that passes through all steps at once.
    const BLOCK: usize = 8;
    /// The most elements of a block.
    const WIDE: usize = 16 * BLOCK;

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
        // SAFETY: operands have `n` elements, of which a block is whole or copied to whole lines.
        unsafe {
            let mut slots = [[S::splat(0.0); BLOCK]; SLOTS];
            let mut lying = [(0, std::ptr::null()); SLOTS];
            let mut count = 0;
            for (slot, operand) in operands.iter().enumerate() {
                match *operand {
                    Operand::Lies(at) => {
                        lying[count] = (slot, at);
                        count += 1;
                    }
                    Operand::One(at) => slots[slot] = [S::widened_one::<BRAIN>(at); BLOCK],
                    Operand::Number(x) => slots[slot] = [S::splat(x); BLOCK],
                }
            }
            let mut line = [0u16; WIDE];
            let steps = &chain.steps[..chain.count];
            let mut i = 0;
            while i < n {
                let part = (n - i).min(wide);
                for &(slot, at) in &lying[..count] {
                    let mut from = at.add(i);
                    if part < wide {
                        std::ptr::copy_nonoverlapping(from, line.as_mut_ptr(), part);
                        from = line.as_ptr();
                    }
                    for v in 0..BLOCK {
                        slots[slot][v] = S::widened::<BRAIN>(from.add(S::LANES * v));
                    }
                }
                let to = to.add(i);
                let whole = if part < wide { line.as_mut_ptr() } else { to };
                for (k, step) in steps.iter().enumerate() {
                    let last = k + 1 == steps.len();
                    let out = if last { whole } else { std::ptr::null_mut() };
                    apply::<S, BRAIN>(step, &mut slots, out);
                }
                if part < wide {
                    std::ptr::copy_nonoverlapping(line.as_ptr(), to, part);
                }
                i += wide;
            }
        }
    }

    /// One step, on a block of values. What the last one gives goes to `out`, which is null before.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    unsafe fn apply<S: Narrowing, const BRAIN: bool>(
        step: &Step,
        slots: &mut [[S; BLOCK]; SLOTS],
        out: *mut u16,
    ) {
        let [a, b, c, d] = step.args.map(|k| &slots[usize::from(k) % SLOTS]);
        // SAFETY: arithmetic of vectors, whose instruction set the callers enable; `out` has room for a
        // block.
        unsafe {
            let mut y = [S::splat(0.0); BLOCK];
            macro_rules! each {
                (|$v:ident| $value:expr) => {
                    for $v in 0..BLOCK {
                        y[$v] = $value;
                    }
                };
            }
            let opposite = S::splat(-1.0);
            match step.op {
                Op::Copy => y = *a,
                Op::Add => each!(|v| a[v].add(b[v])),
                Op::Sub => each!(|v| a[v].sub(b[v])),
                Op::Mul => each!(|v| a[v].mul(b[v])),
                Op::Div => each!(|v| a[v].div(b[v])),
                Op::Min => each!(|v| a[v].min(b[v])),
                Op::Max => each!(|v| a[v].max(b[v])),
                Op::MaxMin => each!(|v| a[v].max(b[v]).min(c[v])),
                Op::MinMax => each!(|v| a[v].min(b[v]).max(c[v])),
                Op::Neg => each!(|v| S::splat(-0.0).sub(a[v])),
                Op::Abs => each!(|v| a[v].abs()),
                Op::Sqrt => each!(|v| a[v].sqrt()),
                Op::Floor => each!(|v| a[v].floor()),
                Op::Ceil => each!(|v| a[v].mul(opposite).floor().mul(opposite)),
                Op::Trunc => each!(|v| a[v].abs().floor().copysign(a[v])),
                Op::RoundEven => each!(|v| a[v].round()),
                Op::SelectLt => each!(|v| S::select(a[v].lt(b[v]), c[v], d[v])),
                Op::SelectLe => each!(|v| {
                    let equal = S::select(a[v].eq(b[v]), c[v], d[v]);
                    S::select(a[v].lt(b[v]), c[v], equal)
                }),
                Op::SelectEq => each!(|v| S::select(a[v].eq(b[v]), c[v], d[v])),
                // No step has any other.
                _ => {}
            }
            if step.rounds {
                each!(|v| y[v].rounded::<BRAIN>());
            }
            if out.is_null() {
                slots[usize::from(step.to) % SLOTS] = y;
                return;
            }
            for v in 0..BLOCK {
                y[v].narrow::<BRAIN>(out.add(S::LANES * v));
            }
        }
    }
}
