//! Chains of operations on narrow floats: a block of elements is widened, passes through all of them
//! and is narrowed again, and nothing in between leaves the first cache.

use super::halves::Operand;

/// The most values that a chain of operations has, and the most operations.
pub(super) const SLOTS: usize = 16;
pub(super) const STEPS: usize = 24;

/// An operation on float32 that is done in registers; as those of a sweep.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Quick {
    #[default]
    Copy,
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
    MaxMin,
    MinMax,
    Neg,
    Abs,
    Sqrt,
    Floor,
    Ceil,
    Trunc,
    RoundEven,
    SelectLt,
    SelectLe,
    SelectEq,
}

/// A step of a chain: its arguments and its result are values by their numbers, operands first.
#[derive(Clone, Copy, Default)]
pub(super) struct Step {
    pub code: Quick,
    /// Whether the result is rounded to the narrow type.
    pub rounds: bool,
    pub args: [u8; 4],
    pub to: u8,
}

/// Operations, of which the last one gives the result.
///
/// Invariant: numbers of values are below [`SLOTS`].
#[derive(Default)]
pub(super) struct Chain {
    steps: [Step; STEPS],
    count: usize,
}

impl Chain {
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
/// The processor is [`known`](super::halves::known); operands have `n` elements or one, and `to` has `n`, which overlap none
/// that are read later.
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
    use super::super::halves::eights::{narrowed, widened};
    use super::{Chain, Operand, Quick, SLOTS, Step};
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
        match step.code {
            Quick::Copy => y = *a,
            Quick::Add => each!(|v| _mm256_add_ps(a[v], b[v])),
            Quick::Sub => each!(|v| _mm256_sub_ps(a[v], b[v])),
            Quick::Mul => each!(|v| _mm256_mul_ps(a[v], b[v])),
            Quick::Div => each!(|v| _mm256_div_ps(a[v], b[v])),
            Quick::Min => each!(|v| _mm256_min_ps(a[v], b[v])),
            Quick::Max => each!(|v| _mm256_max_ps(a[v], b[v])),
            Quick::MaxMin => each!(|v| _mm256_min_ps(_mm256_max_ps(a[v], b[v]), c[v])),
            Quick::MinMax => each!(|v| _mm256_max_ps(_mm256_min_ps(a[v], b[v]), c[v])),
            Quick::Neg => each!(|v| _mm256_xor_ps(a[v], _mm256_set1_ps(-0.0))),
            Quick::Abs => each!(|v| _mm256_andnot_ps(_mm256_set1_ps(-0.0), a[v])),
            Quick::Sqrt => each!(|v| _mm256_sqrt_ps(a[v])),
            Quick::Floor => each!(|v| _mm256_round_ps::<{ _MM_FROUND_TO_NEG_INF | KEEP }>(a[v])),
            Quick::Ceil => each!(|v| _mm256_round_ps::<{ _MM_FROUND_TO_POS_INF | KEEP }>(a[v])),
            Quick::Trunc => each!(|v| _mm256_round_ps::<{ _MM_FROUND_TO_ZERO | KEEP }>(a[v])),
            Quick::RoundEven => {
                each!(|v| _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | KEEP }>(a[v]));
            }
            Quick::SelectLt => chosen!(_CMP_LT_OQ),
            Quick::SelectLe => chosen!(_CMP_LE_OQ),
            Quick::SelectEq => chosen!(_CMP_EQ_OQ),
        }
        if step.rounds {
            // SAFETY: the processor has AVX2 and F16C.
            unsafe { each!(|v| widened::<BRAIN>(narrowed::<BRAIN>(y[v]))) };
        }
        slots[usize::from(step.to) % SLOTS] = y;
    }
}
