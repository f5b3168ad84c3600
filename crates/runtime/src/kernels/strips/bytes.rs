//! Operands and results of small integers: they become floats in a strip of their own before the
//! operations, and are made from one after them.

use super::{Plan, STRIP, Strip};
use crate::kernels::kinds::{Kind, Sum};
use crate::kernels::simd::Simd;

/// The types that operands may have, beside float32.
pub(super) fn is_operand(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::I8 | Kind::U8 | Kind::I16 | Kind::U16 | Kind::I32 | Kind::F32
    )
}

/// The types that results may have.
pub(super) fn is_result(kind: Kind) -> bool {
    matches!(kind, Kind::I8 | Kind::U8 | Kind::F32)
}

/// Sets operand `k` to `n` of its elements from `at` on, `step` apart, as floats; with `one`, a single
/// number for all of them is not expanded.
///
/// # Safety
/// The input has the elements, and a strip room for `n`.
#[inline(always)]
pub(super) unsafe fn read<S: Simd>(
    s: &mut Strip,
    k: usize,
    (data, kind): (*const u8, Kind),
    (at, step): (isize, isize),
    (n, one): (usize, bool),
) {
    let size = kind.size() as isize;
    // SAFETY: as promised; a strip is whole vectors, whose elements beyond its end are never read.
    unsafe {
        let (from, to) = (data.offset(at * size), s.room.add(k * STRIP));
        s.operands[k] = to.cast_const();
        match step {
            1 => match kind {
                Kind::I8 => floats(n, from.cast::<i8>(), to, |x| x.into()),
                Kind::U8 => floats(n, from, to, |x| x.into()),
                Kind::I16 => floats(n, from.cast::<i16>(), to, |x| x.into()),
                Kind::U16 => floats(n, from.cast::<u16>(), to, |x| x.into()),
                _ => floats(n, from.cast::<i32>(), to, |x| x as f32),
            },
            0 => {
                f32::widen(kind, 1, from, to);
                let x = S::splat(*to);
                for i in (0..if one { 0 } else { n }).step_by(S::LANES) {
                    x.store(to.add(i));
                }
            }
            step => {
                for i in 0..n {
                    f32::widen(kind, 1, from.offset(i as isize * step * size), to.add(i));
                }
            }
        }
    }
}

/// Converts elements that lie side by side, with the vectors of the caller's instruction set.
#[inline(always)]
unsafe fn floats<T: Copy>(n: usize, from: *const T, to: *mut f32, float: impl Fn(T) -> f32) {
    for i in 0..n {
        // SAFETY: the caller has `n` elements, and room for as many.
        unsafe { *to.add(i) = float(*from.add(i)) };
    }
}

/// Runs the operations over `n` elements, of which element `at` of the result is the first.
///
/// # Safety
/// As of [`Plan::run_whole`]; the numbers are those of the result's type.
#[inline(always)]
pub(super) unsafe fn run<S: Simd>(p: &Plan<'_>, s: &mut Strip, n: usize, at: usize) {
    // SAFETY: as promised; the last strip of room is for results.
    unsafe {
        let result = s.room.add(p.room() - STRIP);
        p.run_whole::<S>(s, n, result);
        let out = p.v.out.cast::<u8>().add(at);
        for i in 0..n {
            // Within the range of bytes; all have the low bits of the 32-bit number.
            *out.add(i) = (*result.add(i)).to_int_unchecked::<i32>() as u8;
        }
    }
}
