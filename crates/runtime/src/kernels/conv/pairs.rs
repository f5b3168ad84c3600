//! Depthwise windows of images whose rows fill half a vector at most: each vector has two rows, one
//! of the upper half of the output and one of the lower half.

use super::{RxConv2dF32, Sizes};
use crate::kernels::gemm::epilogue::Line;
use crate::kernels::simd::{Isa, Simd, isa};

/// Rows that are summed together, in each half of the output.
const ROWS: usize = 7;

/// Returns whether windows are read like this: loads of some lanes have to be one instruction.
pub(super) fn fits(s: &Sizes) -> bool {
    let plain = (s.sh, s.sw, s.dh, s.dw) == (1, 1, 1, 1) && matches!((s.kh, s.kw), (3, 3) | (5, 5));
    plain && !s.nhwc && s.ow <= 8 && s.oh > 1 && isa() == Isa::Avx512
}

/// All output channels of one input channel of one image.
///
/// # Safety
/// Image and channel are the convolution's, whose arrays have its sizes, and [`fits`] holds.
#[inline(always)]
pub(super) unsafe fn plane<S: Simd>(v: &RxConv2dF32, s: &Sizes, image: usize, channel: usize) {
    // Only AVX-512's vectors come here: what others would be is left out of the library.
    if S::LANES < 16 {
        return;
    }
    // SAFETY: as promised.
    unsafe {
        match s.kw {
            3 => rows::<S, 3>(v, s, image, channel),
            _ => rows::<S, 5>(v, s, image, channel),
        }
    }
}

#[inline(always)]
unsafe fn rows<S: Simd, const K: usize>(v: &RxConv2dF32, s: &Sizes, image: usize, channel: usize) {
    // SAFETY: image and channel are the convolution's, whose arrays have its sizes.
    unsafe {
        let x = v.x.add((image * s.c + channel) * s.h * s.w);
        let full = s.target(v, image, channel, 0);
        // The lanes of each half whose columns are in the image, for each column of the window.
        let mut inside = [[S::lanes(0, 0); 2]; K];
        for (kx, halves) in inside.iter_mut().enumerate() {
            let left = kx as isize - s.pl;
            let first = (-left).clamp(0, 8) as usize;
            let end = (s.w as isize - left).clamp(first as isize, 8) as usize;
            *halves = [S::lanes(first, end), S::lanes(8 + first, 8 + end)];
        }
        for m in 0..s.og {
            let weight = v.weight.add((channel * s.og + m) * K * K);
            let mut to = full.line::<S>(m);
            let start = to.start();
            let half = s.oh.div_ceil(2);
            let mut oy = 0;
            while oy < half {
                oy += match half - oy {
                    ROWS.. => {
                        block::<S, K, ROWS>(s, (x, weight), &inside, (oy, half), (start, &to))
                    }
                    4.. => block::<S, K, 4>(s, (x, weight), &inside, (oy, half), (start, &to)),
                    2.. => block::<S, K, 2>(s, (x, weight), &inside, (oy, half), (start, &to)),
                    _ => block::<S, K, 1>(s, (x, weight), &inside, (oy, half), (start, &to)),
                };
            }
        }
    }
}

/// Computes `R` output rows, which it returns, from `oy` on, and those that are `half` below them.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the sums out of memory.
unsafe fn block<S: Simd, const K: usize, const R: usize>(
    s: &Sizes,
    (x, weight): (*const f32, *const f32),
    inside: &[[S::Lanes; 2]; K],
    (oy, half): (usize, usize),
    (start, to): (S, &Line<S>),
) -> usize {
    // SAFETY: the rows lie in the image and the output; lanes beyond the image are not read.
    unsafe {
        let none = S::lanes(0, 0);
        let mut acc = [start; R];
        for i in 0..R + K - 1 {
            let upper = (oy + i) as isize - s.pt;
            let lower = upper + half as isize;
            let lies = |y: isize| y >= 0 && (y as usize) < s.h;
            let (high, low) = (lies(upper), lies(lower));
            if !high && !low {
                continue;
            }
            let row = |y: isize| x.wrapping_offset(y * s.w as isize - s.pl);
            let (above, below) = (row(upper), row(lower).wrapping_sub(8));
            for kx in 0..K {
                let [first, second] = inside[kx];
                let first = S::load_lanes(above.wrapping_add(kx), if high { first } else { none });
                let second = if low { second } else { none };
                let x = first.load_over(below.wrapping_add(kx), second);
                for r in 0..R {
                    if i >= r && i < r + K {
                        let w = S::splat(*weight.add((i - r) * K + kx));
                        acc[r] = w.fma(x, acc[r]);
                    }
                }
            }
        }
        for r in 0..R {
            let y = oy + r;
            to.put(y * s.ow, acc[r], s.ow);
            if y + half < s.oh {
                to.put((y + half) * s.ow, acc[r].upper_half(), s.ow);
            }
        }
    }
    R
}
