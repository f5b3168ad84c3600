//! float16 and bfloat16 to and from float32, in vectors.

use half::f16;
use half::slice::HalfFloatSliceExt;
use std::slice::{from_raw_parts, from_raw_parts_mut};

use super::combiner::Combiner;
#[cfg(target_arch = "x86_64")]
mod keys;
#[cfg(target_arch = "x86_64")]
mod vectors;

#[cfg(target_arch = "x86_64")]
use super::narrowing::dispatch_narrowing;
use super::simd::{Isa, isa};

/// float16, or with `brain` bfloat16, to float32.
///
/// # Safety
/// Both have `n` elements and do not overlap.
pub(super) unsafe fn widened(brain: bool, n: usize, x: *const u16, y: *mut f32) {
    // SAFETY: both have `n` elements.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if isa() >= Isa::Avx2 {
            use vectors::widened;
            return dispatch_narrowing!(brain, widened(n: usize, x: *const u16, y: *mut f32));
        }
        if brain {
            for i in 0..n {
                *y.add(i) = f32::from_bits(u32::from(*x.add(i)) << 16);
            }
        } else {
            from_raw_parts(x.cast::<f16>(), n).convert_to_f32_slice(from_raw_parts_mut(y, n));
        }
    }
}

/// float32 to float16, or with `brain` to bfloat16, to nearest even.
///
/// # Safety
/// See [`widened`].
pub(super) unsafe fn narrowed(brain: bool, n: usize, x: *const f32, y: *mut u16) {
    // SAFETY: as above.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if isa() >= Isa::Avx2 {
            use vectors::narrowed;
            return dispatch_narrowing!(brain, narrowed(n: usize, x: *const f32, y: *mut u16));
        }
        if brain {
            for i in 0..n {
                *y.add(i) = brain_bits(*x.add(i));
            }
        } else {
            from_raw_parts_mut(y.cast::<f16>(), n).convert_from_f32_slice(from_raw_parts(x, n));
        }
    }
}

/// float32 as float16, or with `brain` as bfloat16, holds it.
///
/// # Safety
/// Both have `n` elements, and are the same or do not overlap.
pub(super) unsafe fn rounded(brain: bool, n: usize, x: *const f32, y: *mut f32) {
    // SAFETY: both have `n` elements.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if isa() >= Isa::Avx2 {
            use vectors::rounded;
            return dispatch_narrowing!(brain, rounded(n: usize, x: *const f32, y: *mut f32));
        }
        for i in 0..n {
            *y.add(i) = match brain {
                true => f32::from_bits(u32::from(brain_bits(*x.add(i))) << 16),
                false => f16::from_f32(*x.add(i)).to_f32(),
            };
        }
    }
}

/// The nearest bfloat16, ties to even.
#[inline(always)]
fn brain_bits(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    // A NaN stays one when its lower bits are lost.
    let lost = bits >> 16 | 0x40;
    let nan = bits & 0x7fff_ffff > 0x7f80_0000;
    (if nan { lost } else { rounded }) as u16
}

/// The operation on two narrow floats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pair {
    /// `a + b`.
    Add,
    /// `a - b`.
    Sub,
    /// `a * b`.
    Mul,
    /// `a / b`.
    Div,
    /// `a < b ? a : b`.
    Min,
    /// `a > b ? a : b`.
    Max,
    /// `a == b`, a truth value as those that follow.
    Eq,
    /// `a != b`.
    Ne,
    /// `a < b`.
    Lt,
    /// `a <= b`.
    Le,
}

/// An operand for a row of elements.
#[derive(Clone, Copy)]
pub(super) enum Operand {
    /// Contiguous elements.
    Lies(*const u16),
    /// One element for all.
    One(*const u16),
    /// One number for all.
    Number(f32),
}

/// Computes `n` elements of float16, or of bfloat16 (`brain`), in float32 and rounds them, or
/// compares them.
///
/// # Safety
/// The processor is [`known`]; operands have `n` elements or one, and `to` has `n` (truth values of
/// comparisons), which overlap none that are read later.
pub(super) unsafe fn pairs(brain: bool, pair: Pair, n: usize, [a, b]: [Operand; 2], to: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: all have `n` elements.
    unsafe {
        use vectors::pairs;
        if !brain && isa() == Isa::Avx2 && keys::knows(pair, &[a, b]) {
            return keys::pairs(pair, n, [a, b], to);
        }
        dispatch_narrowing!(
            brain,
            pairs(pair: Pair, n: usize, a: Operand, b: Operand, to: *mut u8)
        );
    }
    let _ = (brain, pair, n, a, b, to);
}

/// Combines `n` elements of float16, or of bfloat16 (`brain`), with sums in float32: each with its
/// own, or with `fold` those that are [`FOLDED`] apart with one.
///
/// # Safety
/// The processor is [`known`]; `x` has `n` elements, and `sums` as many, or [`FOLDED`].
pub(super) unsafe fn combined(
    brain: bool,
    fold: bool,
    combiner: Combiner,
    n: usize,
    x: *const u16,
    sums: *mut f32,
) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: all have `n` elements.
    unsafe {
        use vectors::combined;
        dispatch_narrowing!(
            brain,
            combined(fold: bool, combiner: Combiner, n: usize, x: *const u16, sums: *mut f32)
        );
    }
    let _ = (brain, fold, combiner, n, x, sums);
}

/// Combines the elements of each of `n` columns of some rows, which begin at distances from `x`, with
/// the column's sum, one row after the other.
///
/// # Safety
/// The processor is [`known`]; all rows have `n` elements, [`COLUMNS`] at least, and there are as many
/// sums.
pub(super) unsafe fn rows_combined(
    brain: bool,
    combiner: Combiner,
    rows: &[isize],
    n: usize,
    (x, sums): (*const u16, *mut f32),
) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: all have `n` elements.
    unsafe {
        use vectors::rows_combined;
        dispatch_narrowing!(
            brain,
            rows_combined(combiner: Combiner, rows: &[isize], n: usize, x: *const u16, sums: *mut f32)
        );
    }
    let _ = (brain, combiner, rows, n, x, sums);
}

/// The fewest columns of [`rows_combined`].
pub(super) const COLUMNS: usize = 32;

/// The sums that a line is folded onto.
pub(super) const FOLDED: usize = 64;

/// What running results of adjacent lines do with the next element of each.
#[derive(Clone, Copy)]
pub(super) struct Running {
    /// bfloat16, not float16.
    pub brain: bool,
    /// Products, not sums.
    pub product: bool,
    /// Results exclude the element at their own position.
    pub outside: bool,
    /// The elements of a line.
    pub steps: usize,
    /// How far those of a line are apart.
    pub apart: usize,
}

/// Adds the elements of each of `n` adjacent lines to its sum, one after the other, or multiplies
/// it with them, rounds each sum and writes it.
///
/// # Safety
/// The processor is [`known`]; all have `n` lines of as many elements and do not overlap.
pub(super) unsafe fn running(r: Running, n: usize, x: *const u16, sums: *mut f32, y: *mut u16) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: all have `n` lines.
    unsafe {
        use vectors::running;
        dispatch_narrowing!(
            r.brain,
            running(r: Running, n: usize, x: *const u16, sums: *mut f32, y: *mut u16)
        );
    }
    let _ = (r, n, x, sums, y);
}

/// Returns whether the processor has what [`pairs`] is made of.
pub(super) fn known() -> bool {
    #[cfg(target_arch = "x86_64")]
    return isa() >= Isa::Avx2;
    #[cfg(not(target_arch = "x86_64"))]
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;

    /// Each pair gives bitwise the same as widening, computing and narrowing in sequence.
    #[test]
    fn pairs_are_their_operations() {
        if !known() {
            return;
        }
        let n = 2 * usize::from(u16::MAX) + 3;
        let x: Vec<u16> = (0..n).map(|i| (i * 7919 % 65_521) as u16).collect();
        let y: Vec<u16> = (0..n).map(|i| (i * 104_729 % 65_536) as u16).collect();
        let wide = |brain: bool, x: u16| match brain {
            true => bf16::from_bits(x).to_f32(),
            false => f16::from_bits(x).to_f32(),
        };
        type Op = fn(f32, f32) -> f32;
        let ops: [(Pair, Op); 6] = [
            (Pair::Add, |a, b| a + b),
            (Pair::Sub, |a, b| a - b),
            (Pair::Mul, |a, b| a * b),
            (Pair::Div, |a, b| a / b),
            (Pair::Min, |a, b| if a < b { a } else { b }),
            (Pair::Max, |a, b| if a > b { a } else { b }),
        ];
        type Test = fn(&f32, &f32) -> bool;
        let tests: [(Pair, Test); 4] = [
            (Pair::Eq, f32::eq),
            (Pair::Ne, f32::ne),
            (Pair::Lt, f32::lt),
            (Pair::Le, f32::le),
        ];
        for (brain, (pair, op)) in [true, false].into_iter().flat_map(|b| ops.map(|o| (b, o))) {
            for (b, other) in [
                (Operand::Lies(y.as_ptr()), None),
                (Operand::One(&raw const y[1]), Some(wide(brain, y[1]))),
                (Operand::Number(0.3), Some(0.3)),
            ] {
                let mut z = vec![0u16; n];
                let both = [Operand::Lies(x.as_ptr()), b];
                // SAFETY: all have as many elements.
                unsafe { pairs(brain, pair, n, both, z.as_mut_ptr().cast()) };
                for i in 0..n {
                    let value = op(wide(brain, x[i]), other.unwrap_or(wide(brain, y[i])));
                    let wanted = match brain {
                        true => bf16::from_f32(value).to_bits(),
                        false => f16::from_f32(value).to_bits(),
                    };
                    let nan = value.is_nan() && wide(brain, z[i]).is_nan();
                    assert!(z[i] == wanted || nan, "{brain} {pair:?} {i}");
                }
                for (test, holds) in tests {
                    let mut z = vec![7u8; n];
                    // SAFETY: all have as many elements.
                    unsafe { pairs(brain, test, n, both, z.as_mut_ptr()) };
                    for i in 0..n {
                        let wanted = holds(&wide(brain, x[i]), &other.unwrap_or(wide(brain, y[i])));
                        assert_eq!(z[i], u8::from(wanted), "{brain} {test:?} {i}");
                    }
                }
            }
        }
    }

    /// Sums of each column, and of each line, are those of float32, rounded nowhere.
    #[test]
    fn narrow_floats_are_combined_as_float32() {
        if !known() {
            return;
        }
        let x: Vec<u16> = (0..1000u32)
            .map(|i| (0x3c00 + i * 37 % 777) as u16)
            .collect();
        for (brain, n) in [(false, 1000), (true, 997), (true, 64), (false, 7)] {
            for combiner in [
                Combiner::Sum,
                Combiner::Max,
                Combiner::Min,
                Combiner::Product,
            ] {
                let with = |a: f32, b: f32| match combiner {
                    Combiner::Product => a * b,
                    Combiner::Max => a.max(b),
                    Combiner::Min => a.min(b),
                    _ => a + b,
                };
                for fold in [false, true] {
                    let mut sums = vec![1.25f32; if fold { FOLDED } else { n }];
                    let mut wanted = sums.clone();
                    for (i, &x) in x[..n].iter().enumerate() {
                        let at = if fold { i % FOLDED } else { i };
                        let value = match brain {
                            true => bf16::from_bits(x).to_f32(),
                            false => f16::from_bits(x).to_f32(),
                        };
                        wanted[at] = with(wanted[at], value);
                    }
                    // SAFETY: there are `n` elements, and as many sums or those that are folded
                    // onto.
                    unsafe { combined(brain, fold, combiner, n, x.as_ptr(), sums.as_mut_ptr()) };
                    assert_eq!(sums, wanted, "{brain} {n} {combiner:?} {fold}");
                }
            }
        }
    }

    /// Subnormal numbers among others are not lost where the processor rounds to bfloat16 itself,
    /// and other processors round the same.
    #[test]
    fn every_processor_rounds_alike() {
        let x: Vec<f32> = (0..1u32 << 20)
            .map(|i| f32::from_bits(i.wrapping_mul(2_654_435_761) >> (i % 11)))
            .collect();
        for allowed in [true, false] {
            crate::kernels::simd::isa();
            crate::kernels::simd::set_rounds(allowed);
            let mut y = vec![0u16; x.len()];
            // SAFETY: both have as many elements.
            unsafe { narrowed(true, x.len(), x.as_ptr(), y.as_mut_ptr()) };
            for (x, y) in x.iter().zip(&y) {
                assert_eq!(*y, bf16::from_f32(*x).to_bits(), "{x:e}");
            }
        }
        crate::kernels::simd::set_rounds(isa() == Isa::Avx512);
    }

    /// In one pass, for every count of elements that are left over.
    #[test]
    fn numbers_are_rounded_as_conversions_do_it() {
        let floats: Vec<f32> = (0..1u32 << 20).map(|i| f32::from_bits(i * 4093)).collect();
        for brain in [false, true] {
            for left in 0..9 {
                let x = &floats[left * 1001..];
                let x = &x[..x.len() / 8 * 8 - left];
                let mut y = vec![0.0f32; x.len()];
                // SAFETY: both have as many elements.
                unsafe { rounded(brain, x.len(), x.as_ptr(), y.as_mut_ptr()) };
                for (x, y) in x.iter().zip(&y) {
                    let wanted = match brain {
                        true => bf16::from_f32(*x).to_f32(),
                        false => f16::from_f32(*x).to_f32(),
                    };
                    let same = y.to_bits() == wanted.to_bits();
                    assert!(same || y.is_nan() && wanted.is_nan(), "{brain} {x:e}");
                }
            }
        }
    }

    #[test]
    fn all_numbers_are_what_scalar_conversions_give() {
        let halves: Vec<u16> = (0..=u16::MAX).chain([1, 2, 3]).collect();
        let mut y = vec![0.0f32; halves.len()];
        // SAFETY: both have as many elements.
        unsafe { widened(false, halves.len(), halves.as_ptr(), y.as_mut_ptr()) };
        for (x, y) in halves.iter().zip(&y) {
            let wanted = f16::from_bits(*x).to_f32();
            assert!(*y == wanted || y.is_nan() && wanted.is_nan(), "{x:x}");
        }
        // SAFETY: as above.
        unsafe { widened(true, halves.len(), halves.as_ptr(), y.as_mut_ptr()) };
        for (x, y) in halves.iter().zip(&y) {
            let wanted = bf16::from_bits(*x).to_f32();
            assert!(*y == wanted || y.is_nan() && wanted.is_nan(), "{x:x}");
        }
        let floats: Vec<f32> = (0..1u32 << 20).map(|i| f32::from_bits(i * 4093)).collect();
        let mut z = vec![0u16; floats.len()];
        // SAFETY: as above.
        unsafe { narrowed(false, floats.len(), floats.as_ptr(), z.as_mut_ptr()) };
        for (x, z) in floats.iter().zip(&z) {
            let (found, wanted) = (f16::from_bits(*z), f16::from_f32(*x));
            let same = found.to_bits() == wanted.to_bits();
            assert!(same || found.is_nan() && wanted.is_nan(), "{x:e}");
        }
        // SAFETY: as above.
        unsafe { narrowed(true, floats.len(), floats.as_ptr(), z.as_mut_ptr()) };
        for (x, z) in floats.iter().zip(&z) {
            let (found, wanted) = (bf16::from_bits(*z), bf16::from_f32(*x));
            let same = found.to_bits() == wanted.to_bits();
            assert!(same || found.is_nan() && wanted.is_nan(), "{x:e}");
        }
    }
}
