//! Tables of functions of one byte: each element of an array is looked up.

use crate::context::{RxContext, Status};
#[cfg(target_arch = "x86_64")]
use crate::kernels::simd;
use crate::threads::{Grain, Share};

/// Bytes that a thread takes at once.
const PIECE: usize = 1 << 12;
/// Bytes below which no thread is woken.
const SMALL: usize = 1 << 18;

/// Looks `n` bytes up.
///
/// # Safety
/// There are `n` bytes at `x` and at `y`, and 256 in the table.
unsafe fn look_up(table: *const u8, flip: u8, x: *const u8, y: *mut u8, n: usize) {
    // SAFETY: the caller's contract; a byte is less than 256.
    unsafe {
        let mut i = 0;
        #[cfg(target_arch = "x86_64")]
        if simd::isa() == simd::Isa::Avx512 && is_x86_feature_detected!("avx512vbmi") {
            i = x86::whole_vectors(table, flip, x, y, n);
        }
        while i < n {
            *y.add(i) = *table.add(usize::from(*x.add(i) ^ flip));
            i += 1;
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// Looks whole vectors up, with the table in four registers; returns the bytes that are done.
    ///
    /// # Safety
    /// There are `n` bytes at `x` and at `y`, and 256 in the table.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) unsafe fn whole_vectors(
        table: *const u8,
        flip: u8,
        x: *const u8,
        y: *mut u8,
        n: usize,
    ) -> usize {
        // SAFETY: the table has four vectors; `i` and the vector behind it are within `n`.
        unsafe {
            let part = |k: usize| _mm512_loadu_si512(table.add(64 * k).cast());
            let [a, b, c, d] = [part(0), part(1), part(2), part(3)];
            let flips = _mm512_set1_epi8(flip as i8);
            let mut i = 0;
            while i + 64 <= n {
                let at = _mm512_xor_si512(_mm512_loadu_si512(x.add(i).cast()), flips);
                let low = _mm512_permutex2var_epi8(a, at, b);
                let high = _mm512_permutex2var_epi8(c, at, d);
                let found = _mm512_mask_blend_epi8(_mm512_movepi8_mask(at), low, high);
                _mm512_storeu_si512(y.add(i).cast(), found);
                i += 64;
            }
            i
        }
    }
}

/// `y[i] = table[x[i] ^ flip]` for `n` bytes.
///
/// # Safety
/// There are `n` bytes at `x` and at `y`, which are the same or do not overlap.
pub unsafe fn each_byte(
    context: &mut RxContext,
    n: usize,
    (x, y): (*const u8, *mut u8),
    table: &[u8; 256],
    flip: u8,
) -> i32 {
    // SAFETY: pieces are disjoint, and an element's result depends on no other one.
    let shared = unsafe { Share::new((x, table, y)) };
    let grain = Grain::of_work(SMALL, PIECE);
    context
        .pool
        .each(n.div_ceil(PIECE), grain, |begin, end, _| {
            let &(x, table, y) = shared.get();
            let (first, end) = (begin * PIECE, (end * PIECE).min(n));
            // SAFETY: the piece lies within the `n` bytes of both arrays.
            unsafe {
                look_up(
                    table.as_ptr(),
                    flip,
                    x.add(first),
                    y.add(first),
                    end - first,
                )
            };
        });
    Status::Ok as i32
}
