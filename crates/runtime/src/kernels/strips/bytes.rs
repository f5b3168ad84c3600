//! Operands and results of small integers: they become floats in a strip of their own before the
//! operations, and are made from one after them.

use super::{STRIP, Strip};
use crate::kernels::kinds::{Kind, Sum};
use crate::kernels::simd::{Simd, dispatch};

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

/// An input of other elements than float32.
#[derive(Clone, Copy)]
pub(super) struct Input {
    pub data: *const u8,
    pub kind: Kind,
    /// The first element, and the distance of the others.
    pub at: isize,
    pub step: isize,
}

/// Sets operand `k` to `n` elements of an input, as floats; with `one`, a single number for all of
/// them is not expanded.
///
/// # Safety
/// The input has the elements, and a strip room for `n`.
pub(super) unsafe fn read(s: &mut Strip, k: usize, input: Input, n: usize, one: bool) {
    let n = if one && input.step == 0 { 1 } else { n };
    // SAFETY: as promised.
    unsafe {
        let to = s.room.add(k * STRIP);
        s.operands[k] = to.cast_const();
        rows(input, 0, (1, n), to);
    }
}

/// Makes floats of `count` rows of `wide` elements each, one after the other; the rows of the input
/// are `next` elements apart.
///
/// # Safety
/// The input has the elements, and there is room for them, up to whole vectors.
pub(super) unsafe fn rows(input: Input, next: isize, (count, wide): (usize, usize), to: *mut f32) {
    #[inline(always)]
    unsafe fn each<S: Simd>(input: Input, next: isize, count: usize, wide: usize, to: *mut f32) {
        for row in 0..count {
            let at = input.at + row as isize * next;
            // SAFETY: as promised; lanes beyond the end of a row are overwritten by the next one.
            unsafe { convert::<S>(Input { at, ..input }, wide, to.add(row * wide)) };
        }
    }
    // SAFETY: as promised.
    unsafe {
        dispatch!(each(input: Input, next: isize, count: usize, wide: usize, to: *mut f32));
    }
}

#[inline(always)]
unsafe fn convert<S: Simd>(input: Input, n: usize, to: *mut f32) {
    let Input {
        data,
        kind,
        at,
        step,
    } = input;
    let size = kind.size() as isize;
    // SAFETY: the input has the elements; a strip is whole vectors, whose elements beyond its end are
    // never read.
    unsafe {
        let from = data.offset(at * size);
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
                for i in (0..n).step_by(S::LANES) {
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

/// Makes bytes of `n` numbers, which are within their range.
///
/// # Safety
/// There are as many numbers, and there is room for the bytes.
pub(super) unsafe fn write(from: *const f32, n: usize, to: *mut u8) {
    #[inline(always)]
    #[allow(clippy::extra_unused_type_parameters)] // The code differs all the same.
    unsafe fn each<S: Simd>(from: *const f32, n: usize, to: *mut u8) {
        for i in 0..n {
            // SAFETY: as promised; all bytes have the low bits of the 32-bit number.
            unsafe { *to.add(i) = (*from.add(i)).to_int_unchecked::<i32>() as u8 };
        }
    }
    // SAFETY: as promised.
    unsafe { dispatch!(each(from: *const f32, n: usize, to: *mut u8)) };
}
