//! Depthwise windows with a step of two to the right, read from the image as it lies.
//!
//! Vectors of neighbouring columns are sorted in registers into those at even and at odd places, which
//! takes two instructions a pair; a row of the window reads each pair once.

use super::vectors::{put, within};
use super::{RxConv2dF32, Sizes};
use crate::kernels::gemm::epilogue::Line;
use crate::kernels::simd::{Isa, Simd, isa};

/// Returns whether windows of a step of two to the right are read from the image in place, with
/// neighbouring columns sorted in registers: two instructions a pair of vectors.
pub(super) fn in_twos(s: &Sizes) -> bool {
    let plain = !s.nhwc && (s.sw, s.dw) == (2, 1) && matches!(s.kw, 3 | 5);
    plain && isa() != Isa::Portable
}

/// All output channels of one input channel of one image, for windows `K` wide.
#[inline(always)]
unsafe fn plane_twos<S: Simd, const K: usize>(
    v: &RxConv2dF32,
    s: &Sizes,
    (image, channel): (usize, usize),
) {
    let x = v.x.wrapping_add((image * s.c + channel) * s.h * s.w);
    // SAFETY: image and channel are the convolution's, whose arrays have its sizes.
    let full = unsafe { s.target(v, image, channel, 0) };
    for m in 0..s.og {
        let weight = v.weight.wrapping_add((channel * s.og + m) * s.kh * K);
        // SAFETY: there is a row for each output channel.
        let mut to = unsafe { full.line::<S>(m) };
        // SAFETY: the instruction set is enabled.
        let to = (unsafe { to.start() }, &to);
        let mut oy = 0;
        while oy < s.oh {
            let high = match s.oh - oy {
                4.. => 4,
                2.. => 2,
                _ => 1,
            };
            let first = (oy * s.sh) as isize - s.pt;
            let last = first + ((high - 1) * s.sh + (s.kh - 1) * s.dh) as isize;
            let inside = first >= 0 && last < s.h as isize;
            for ox in (0..s.ow).step_by(S::LANES) {
                let left = (2 * ox) as isize - s.pl;
                let edge = left < 0 || left + (2 * S::LANES + K - 1) as isize > s.w as isize;
                let at = (oy, ox);
                macro_rules! rows {
                    ($r:literal) => {
                        match (edge, inside) {
                            (true, true) => whole::<S, K, $r, true>(s, x, weight, at, to),
                            (false, true) => whole::<S, K, $r, false>(s, x, weight, at, to),
                            _ => twos::<S, K, $r>(s, x, weight, at, to),
                        }
                    };
                }
                // SAFETY: rows and columns lie in the output; `inside` and `edge` say which windows
                // lie in the image.
                unsafe {
                    match high {
                        4 => rows!(4),
                        2 => rows!(2),
                        _ => rows!(1),
                    }
                }
            }
            oy += high;
        }
    }
}

/// All output channels of one input channel of one image, for windows that [`in_twos`] reads.
#[inline(always)]
pub(super) unsafe fn channel_twos<S: Simd>(v: &RxConv2dF32, s: &Sizes, at: (usize, usize)) {
    // Only vectors of AVX2 and AVX-512 come here: what others would be is left out of the library.
    if S::LANES < 8 {
        return;
    }
    // SAFETY: image and channel are the convolution's.
    unsafe {
        match s.kw {
            3 => plane_twos::<S, 3>(v, s, at),
            _ => plane_twos::<S, 5>(v, s, at),
        }
    }
}

/// The lanes that lie in the image's row, of the two vectors from a column on, for every other column
/// of the window.
#[inline(always)]
unsafe fn lanes<S: Simd, const K: usize>(s: &Sizes, left: isize) -> [[S::Lanes; 2]; K] {
    // SAFETY: `within` sees to the lanes.
    unsafe {
        let mut inside = [[S::lanes(0, 0); 2]; K];
        for kx in (0..K).step_by(2) {
            for (half, lanes) in inside[kx].iter_mut().enumerate() {
                *lanes = within::<S>(s, left + (kx + half * S::LANES) as isize);
            }
        }
        inside
    }
}

/// The inputs at even and at odd places of two vectors, in the order of [`Simd::sift`]; at an `EDGE` of
/// the lanes that lie inside.
#[inline(always)]
unsafe fn pair<S: Simd, const EDGE: bool>(at: *const f32, inside: [S::Lanes; 2]) -> (S, S) {
    let next = at.wrapping_add(S::LANES);
    // SAFETY: the lanes that are read lie in the image.
    unsafe {
        match EDGE {
            true => S::sift(S::load_lanes(at, inside[0]), S::load_lanes(next, inside[1])),
            false => S::sift(S::load(at), S::load(next)),
        }
    }
}

/// Stores `R` output rows of one vector, whose lanes are in the order of [`Simd::sift`].
#[inline(always)]
unsafe fn store<S: Simd, const R: usize>(
    mut acc: [[S; 1]; R],
    s: &Sizes,
    (oy, ox): (usize, usize),
    to: &Line<S>,
) {
    for sums in &mut acc {
        sums[0] = sums[0].sifted();
    }
    let columns = (s.ow - ox).min(S::LANES);
    // SAFETY: the rows and columns lie in the output.
    unsafe { put(acc, s, (oy * s.ow + ox, columns), to) };
}

/// Computes `R` output rows of one vector from a column on, for windows `K` wide
/// with a step of two.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the sums out of memory.
unsafe fn twos<S: Simd, const K: usize, const R: usize>(
    s: &Sizes,
    x: *const f32,
    weight: *const f32,
    (oy, ox): (usize, usize),
    (start, to): (S, &Line<S>),
) {
    // SAFETY: the rows lie in the image and the output; lanes beyond the image are not read.
    unsafe {
        let left = (2 * ox) as isize - s.pl;
        let inside = lanes::<S, K>(s, left);
        let mut acc = [[start; 1]; R];
        for ky in 0..s.kh {
            let first = (oy * s.sh + ky * s.dh) as isize - s.pt;
            for kx in (0..K).step_by(2) {
                let w = weight.add(ky * K + kx);
                let next = if kx + 1 < K { *w.add(1) } else { 0.0 };
                let (w, next) = (S::splat(*w), S::splat(next));
                for r in 0..R {
                    let y = first + (r * s.sh) as isize;
                    if y < 0 || y as usize >= s.h {
                        continue;
                    }
                    let at = x.wrapping_offset(y * s.w as isize + left + kx as isize);
                    let (even, odd) = pair::<S, true>(at, inside[kx]);
                    acc[r][0] = w.fma(even, acc[r][0]);
                    if kx + 1 < K {
                        acc[r][0] = next.fma(odd, acc[r][0]);
                    }
                }
            }
        }
        store(acc, s, (oy, ox), to);
    }
}

/// [`twos`] where the windows' rows lie inside of the image, and their columns too where they are no
/// `EDGE`.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the sums out of memory.
unsafe fn whole<S: Simd, const K: usize, const R: usize, const EDGE: bool>(
    s: &Sizes,
    x: *const f32,
    weight: *const f32,
    (oy, ox): (usize, usize),
    (start, to): (S, &Line<S>),
) {
    let mut acc = [[start; 1]; R];
    let first = (oy * s.sh) as isize - s.pt;
    let left = (2 * ox) as isize - s.pl;
    let mut row = x.wrapping_offset(first * s.w as isize + left);
    let mut weight = weight;
    // SAFETY: the rows lie in the image and the output; lanes beyond the image are not read.
    unsafe {
        let inside = match EDGE {
            true => lanes::<S, K>(s, left),
            false => [[S::lanes(0, 0); 2]; K],
        };
        for _ in 0..s.kh {
            for kx in (0..K).step_by(2) {
                let w = S::splat(*weight.add(kx));
                let next = S::splat(*weight.add((kx + 1).min(K - 1)));
                let mut at = row.wrapping_add(kx);
                for r in 0..R {
                    let (even, odd) = pair::<S, EDGE>(at, inside[kx]);
                    acc[r][0] = w.fma(even, acc[r][0]);
                    if kx + 1 < K {
                        acc[r][0] = next.fma(odd, acc[r][0]);
                    }
                    at = at.wrapping_add(s.sh * s.w);
                }
            }
            row = row.wrapping_add(s.dh * s.w);
            weight = weight.wrapping_add(K);
        }
        store(acc, s, (oy, ox), to);
    }
}
