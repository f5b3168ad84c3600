//! Depthwise windows over an image as one line, with AVX-512.
//!
//! Where the output is as large as the image, the inputs of a place of the window are the image's
//! numbers some rows and columns further, whatever the width: vectors run over the ends of rows, and
//! no lane is empty but at the end of the image. The places of a column of the window are summed
//! first, each sum from vectors that are a row apart. The sums of the columns are then shifted by
//! their distance from the middle, in registers, without the lanes that would come from the row
//! before or after.

use super::{RxConv2dF32, Sizes};
use crate::kernels::simd::{Isa, isa};

/// Lanes of a vector.
const LANES: usize = 16;

/// Columns of an image up to which this takes less time than vectors along rows where windows are 3
/// by 3, which are read in place there. Larger windows would need a copy.
const NARROW: usize = 10;

/// The most places of a window's row: the sums of so many columns, of three vectors, are most of the
/// registers.
const MOST: usize = 9;

/// Returns whether a convolution goes this way.
pub(super) fn can(s: &Sizes) -> bool {
    let same = (s.oh, s.ow, s.sh, s.sw, s.dh, s.dw) == (s.h, s.w, 1, 1, 1, 1);
    let middle = (s.kh, s.pt, s.pl) == (s.kw, s.kw as isize / 2, s.kw as isize / 2);
    let size = matches!(s.kw, 5 | 7 | 9) || s.kw == 3 && s.ow <= NARROW;
    !s.nhwc && same && middle && size && isa() == Isa::Avx512
}

/// The masks of a vector: of its lanes, those whose inputs lie inside of the image, for each row of
/// the window and each column.
pub(super) fn masks(s: &Sizes) -> usize {
    vectors(s) * (s.kh + s.kw)
}

fn vectors(s: &Sizes) -> usize {
    (s.h * s.w).div_ceil(LANES)
}

/// Writes [`masks`].
///
/// # Safety
/// There is room for them.
pub(super) unsafe fn fill(s: &Sizes, masks: *mut u16) {
    let (pixels, middle, count) = (s.h * s.w, s.kw / 2, s.kh + s.kw);
    // The first row whose beginning is not far before the vector.
    let mut row = 0;
    for vector in 0..vectors(s) {
        let first = vector * LANES;
        let mut here = [u16::MAX; 2 * MOST];
        for (k, mask) in here.iter_mut().enumerate().take(s.kh) {
            // The lanes whose inputs, so many rows away, lie in the image.
            let lane = |at: usize| {
                (at + middle * s.w)
                    .saturating_sub(first + k * s.w)
                    .min(LANES)
            };
            let (begin, end) = (lane(0), lane(pixels));
            *mask = ((1u32 << end) - (1 << begin.min(end))) as u16;
        }
        while row + middle < first {
            row += s.w;
        }
        for begin in (row..first + LANES + middle).step_by(s.w) {
            for by in 1..=middle {
                for k in 0..by {
                    // What is left of a row's beginning, and right of the end before it.
                    for (kx, at) in [
                        (middle - by, begin + k),
                        (middle + by, (begin + k).wrapping_sub(by)),
                    ] {
                        let lane = at.wrapping_sub(first);
                        if lane < LANES {
                            here[s.kh + kx] &= !(1 << lane);
                        }
                    }
                }
            }
        }
        // SAFETY: there is room for the masks of all vectors.
        unsafe {
            masks
                .add(vector * count)
                .copy_from_nonoverlapping(here.as_ptr(), count);
        }
    }
}

/// Computes some channels of an image, with its masks.
///
/// # Safety
/// The arrays have the sizes of a convolution that [`can`] go this way.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn channels(
    v: &RxConv2dF32,
    s: &Sizes,
    image: usize,
    channels: std::ops::Range<usize>,
    masks: *const u16,
) {
    // SAFETY: as the caller promises; the processor has AVX-512.
    unsafe {
        match s.kw {
            3 => lines::planes::<3>(v, s, image, channels, masks),
            5 => lines::planes::<5>(v, s, image, channels, masks),
            7 => lines::planes::<7>(v, s, image, channels, masks),
            _ => lines::planes::<9>(v, s, image, channels, masks),
        }
    }
}

/// No processor comes here.
///
/// # Safety
/// None.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn channels(
    _: &RxConv2dF32,
    _: &Sizes,
    _: usize,
    _: std::ops::Range<usize>,
    _: *const u16,
) {
}

#[cfg(target_arch = "x86_64")]
mod lines {
    use super::{LANES, RxConv2dF32, Sizes, vectors};
    use crate::kernels::gemm::epilogue::Line;
    use crate::kernels::simd::Avx512;
    use std::arch::x86_64::*;

    /// The whole of some channels.
    ///
    /// # Safety
    /// As for [`channels`](super::channels), with a window of `K` by `K`.
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,fma,avx2,f16c,bmi1,bmi2")]
    pub(super) unsafe fn planes<const K: usize>(
        v: &RxConv2dF32,
        s: &Sizes,
        image: usize,
        channels: std::ops::Range<usize>,
        masks: *const u16,
    ) {
        for channel in channels {
            // SAFETY: image and channel are the convolution's, whose arrays have its sizes.
            unsafe {
                let x = v.x.add((image * s.c + channel) * s.h * s.w);
                let full = s.target(v, image, channel, 0);
                for m in 0..s.og {
                    let weight = v.weight.add((channel * s.og + m) * K * K);
                    let mut to = full.line::<Avx512>(m);
                    let start = to.start();
                    plane::<K>(s, x, weight.cast(), (start, &to), masks);
                }
            }
        }
    }

    /// Lanes of a vector that are `by` further, the last ones from the next vector.
    #[inline(always)]
    unsafe fn later(x: __m512, next: __m512, by: usize) -> __m512 {
        // SAFETY: the callers' functions enable the instructions.
        unsafe {
            let (x, next) = (_mm512_castps_si512(x), _mm512_castps_si512(next));
            _mm512_castsi512_ps(match by {
                1 => _mm512_alignr_epi32::<1>(next, x),
                2 => _mm512_alignr_epi32::<2>(next, x),
                3 => _mm512_alignr_epi32::<3>(next, x),
                4 => _mm512_alignr_epi32::<4>(next, x),
                12 => _mm512_alignr_epi32::<12>(next, x),
                13 => _mm512_alignr_epi32::<13>(next, x),
                14 => _mm512_alignr_epi32::<14>(next, x),
                _ => _mm512_alignr_epi32::<15>(next, x),
            })
        }
    }

    /// One output channel.
    ///
    /// Invariant: only lanes whose inputs lie inside of the image are read.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // Indices keep the sums out of memory.
    unsafe fn plane<const K: usize>(
        s: &Sizes,
        x: *const f32,
        weight: *const [[f32; K]; K],
        (start, to): (Avx512, &Line<Avx512>),
        masks: *const u16,
    ) {
        let (middle, pixels) = (K / 2, s.h * s.w);
        // SAFETY: there are masks for all vectors, and the lanes that they have lie in the image; a
        // line of the output has the image's pixels.
        unsafe {
            // The sums of the columns of the window: of the vector that is finished, the one before
            // it and the one after it.
            let mut here = [_mm512_setzero_ps(); K];
            let mut before = here;
            let above = x.wrapping_sub(middle * s.w);
            for vector in 0..=vectors(s) {
                let mut next = [_mm512_setzero_ps(); K];
                if vector < vectors(s) {
                    let masks = masks.add(vector * 2 * K);
                    next[middle] = start.0;
                    for ky in 0..K {
                        let at = above.wrapping_add(vector * LANES + ky * s.w);
                        let x = _mm512_maskz_loadu_ps(*masks.add(ky), at);
                        for kx in 0..K {
                            let w = _mm512_set1_ps((*weight)[ky][kx]);
                            next[kx] = _mm512_fmadd_ps(w, x, next[kx]);
                        }
                    }
                }
                if vector > 0 {
                    let done = vector - 1;
                    let masks = masks.add(done * 2 * K + K);
                    let mut sum = here[middle];
                    for by in 1..=middle {
                        let (left, right) = (middle - by, middle + by);
                        let x = later(before[left], here[left], LANES - by);
                        sum = _mm512_mask_add_ps(sum, *masks.add(left), sum, x);
                        let x = later(here[right], next[right], by);
                        sum = _mm512_mask_add_ps(sum, *masks.add(right), sum, x);
                    }
                    let at = done * LANES;
                    match pixels - at {
                        LANES.. => to.put(at, Avx512(sum), LANES),
                        rest => to.put(at, Avx512(sum), rest),
                    }
                }
                (before, here) = (here, next);
            }
        }
    }
}
