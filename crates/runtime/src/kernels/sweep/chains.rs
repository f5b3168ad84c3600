//! Chains of operations on narrow floats: a block of elements is widened, passes through all of them
//! and is narrowed again, and nothing in between leaves the first cache.

use super::op::Op;
use crate::kernels::halves::Operand;

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
        match brain {
            true => blocks::chained::<true>(chain, n, operands, to),
            false => blocks::chained::<false>(chain, n, operands, to),
        }
    }
    let _ = (brain, chain, n, operands, to);
}

/// Blocks of elements.
#[cfg(target_arch = "x86_64")]
mod blocks {
    use super::{Chain, Op, Operand, SLOTS, Step};
    use crate::kernels::halves::eights::{narrowed, widened};
    use std::arch::x86_64::*;

    /// Vectors of a block that passes through all steps at once.
    const BLOCK: usize = 8;

    /// See [`super::chained`].
    #[target_feature(enable = "avx2,f16c")]
    #[allow(clippy::needless_range_loop)] // Indices keep the vectors in place.
    pub unsafe fn chained<const BRAIN: bool>(
        chain: &Chain,
        n: usize,
        operands: &[Operand],
        to: *mut u16,
    ) {
        const WIDE: usize = 8 * BLOCK;
        // SAFETY: operands have `n` elements, of which a block is whole or copied to whole lines.
        unsafe {
            let mut slots = [[_mm256_setzero_ps(); BLOCK]; SLOTS];
            let mut lying = [(0, std::ptr::null()); SLOTS];
            let mut count = 0;
            for (slot, operand) in operands.iter().enumerate() {
                match *operand {
                    Operand::Lies(at) => {
                        lying[count] = (slot, at);
                        count += 1;
                    }
                    Operand::One(at) => {
                        let x = _mm_set1_epi16(at.read_unaligned() as i16);
                        slots[slot] = [widened::<BRAIN>(x); BLOCK];
                    }
                    Operand::Number(x) => slots[slot] = [_mm256_set1_ps(x); BLOCK],
                }
            }
            let mut i = 0;
            while i < n {
                let part = (n - i).min(WIDE);
                for &(slot, at) in &lying[..count] {
                    let mut from = at.add(i);
                    let mut line = [0u16; WIDE];
                    if part < WIDE {
                        std::ptr::copy_nonoverlapping(from, line.as_mut_ptr(), part);
                        from = line.as_ptr();
                    }
                    for v in 0..BLOCK {
                        slots[slot][v] = widened::<BRAIN>(_mm_loadu_si128(from.add(8 * v).cast()));
                    }
                }
                let mut last = 0;
                for step in &chain.steps[..chain.count] {
                    apply::<BRAIN>(step, &mut slots);
                    last = usize::from(step.to) % SLOTS;
                }
                let mut line = [0u16; WIDE];
                let to = to.add(i);
                let whole = if part < WIDE { line.as_mut_ptr() } else { to };
                for v in 0..BLOCK {
                    let y = narrowed::<BRAIN>(slots[last][v]);
                    _mm_storeu_si128(whole.add(8 * v).cast(), y);
                }
                if part < WIDE {
                    std::ptr::copy_nonoverlapping(line.as_ptr(), to, part);
                }
                i += WIDE;
            }
        }
    }

    /// One step, on a block of values.
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn apply<const BRAIN: bool>(step: &Step, slots: &mut [[__m256; BLOCK]; SLOTS]) {
        let [a, b, c, d] = step.args.map(|k| &slots[usize::from(k) % SLOTS]);
        let mut y = [_mm256_setzero_ps(); BLOCK];
        macro_rules! each {
            (|$v:ident| $value:expr) => {
                for $v in 0..BLOCK {
                    y[$v] = $value;
                }
            };
        }
        macro_rules! chosen {
            ($how:ident) => {
                each!(|v| _mm256_blendv_ps(d[v], c[v], _mm256_cmp_ps::<$how>(a[v], b[v])))
            };
        }
        const KEEP: i32 = _MM_FROUND_NO_EXC;
        match step.op {
            Op::Copy => y = *a,
            Op::Add => each!(|v| _mm256_add_ps(a[v], b[v])),
            Op::Sub => each!(|v| _mm256_sub_ps(a[v], b[v])),
            Op::Mul => each!(|v| _mm256_mul_ps(a[v], b[v])),
            Op::Div => each!(|v| _mm256_div_ps(a[v], b[v])),
            Op::Min => each!(|v| _mm256_min_ps(a[v], b[v])),
            Op::Max => each!(|v| _mm256_max_ps(a[v], b[v])),
            Op::MaxMin => each!(|v| _mm256_min_ps(_mm256_max_ps(a[v], b[v]), c[v])),
            Op::MinMax => each!(|v| _mm256_max_ps(_mm256_min_ps(a[v], b[v]), c[v])),
            Op::Neg => each!(|v| _mm256_xor_ps(a[v], _mm256_set1_ps(-0.0))),
            Op::Abs => each!(|v| _mm256_andnot_ps(_mm256_set1_ps(-0.0), a[v])),
            Op::Sqrt => each!(|v| _mm256_sqrt_ps(a[v])),
            Op::Floor => each!(|v| _mm256_round_ps::<{ _MM_FROUND_TO_NEG_INF | KEEP }>(a[v])),
            Op::Ceil => each!(|v| _mm256_round_ps::<{ _MM_FROUND_TO_POS_INF | KEEP }>(a[v])),
            Op::Trunc => each!(|v| _mm256_round_ps::<{ _MM_FROUND_TO_ZERO | KEEP }>(a[v])),
            Op::RoundEven => {
                each!(|v| _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | KEEP }>(a[v]));
            }
            Op::SelectLt => chosen!(_CMP_LT_OQ),
            Op::SelectLe => chosen!(_CMP_LE_OQ),
            Op::SelectEq => chosen!(_CMP_EQ_OQ),
            // No step has any other.
            _ => {}
        }
        if step.rounds {
            // SAFETY: the processor has AVX2 and F16C.
            unsafe { each!(|v| widened::<BRAIN>(narrowed::<BRAIN>(y[v]))) };
        }
        slots[usize::from(step.to) % SLOTS] = y;
    }
}
