//! Depthwise convolution with channels last: vectors run over channels.
//!
//! A few adjacent outputs of a row whose windows lie inside of the image's columns are summed together:
//! they share the weights, and their sums don't wait for each other. Those at the ends of a row are
//! summed one by one, without the columns that lie outside. Windows of a volume have several planes.

use super::{RxConv2dF32, Sizes};
use crate::kernels::gemm::epilogue::Target;
use crate::kernels::gemm::tile::put;
use crate::kernels::simd::Simd;
use std::ops::Range;

/// Outputs that are summed together.
const PIXELS: usize = 4;

/// The part of a window that lies inside of the image, and how far apart what it reads is.
#[derive(Clone, Copy)]
struct Window {
    /// The input of the first place of the part.
    x: *const f32,
    /// The weight of that place.
    weight: *const f32,
    /// Planes, rows and columns of the part.
    deep: usize,
    high: usize,
    wide: usize,
    /// From a plane of the window to the next, in the volume and in the weight.
    behind: (usize, usize),
    /// From a row of the window to the next, in the image and in the weight.
    down: (usize, usize),
    /// From a column of the window to the next, in the image and in the weight.
    right: (usize, usize),
    /// From an output's input to that of the next output.
    step: usize,
}

/// Reads a vector, or some of its lanes where it is a `part`.
#[inline(always)]
unsafe fn read<S: Simd>(from: *const f32, part: bool, lanes: S::Lanes) -> S {
    // SAFETY: the lanes that are read are there.
    unsafe {
        match part {
            true => S::load_lanes(from, lanes),
            false => S::load(from),
        }
    }
}

/// Sums `P` outputs of `NV` vectors of channels, of the last of which only some lanes are read where
/// they are a `PART`.
///
/// # Safety
/// The windows lie in the image, and have as many channels from these on.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the sums out of memory.
unsafe fn sums<S: Simd, const P: usize, const NV: usize, const PART: bool>(
    window: &Window,
    channel: usize,
    last: S::Lanes,
) -> [[S; NV]; P] {
    // SAFETY: as the caller promises.
    unsafe {
        let mut acc = [[S::splat(0.0); NV]; P];
        for kz in 0..window.deep {
            for ky in 0..window.high {
                let (behind, down) = (window.behind, window.down);
                let mut x = window.x.add(kz * behind.0 + ky * down.0 + channel);
                let mut weight = window.weight.add(kz * behind.1 + ky * down.1 + channel);
                for _ in 0..window.wide {
                    for v in 0..NV {
                        let lane = v * S::LANES;
                        let part = PART && v + 1 == NV;
                        let w = read::<S>(weight.add(lane), part, last);
                        for p in 0..P {
                            let at = x.add(p * window.step + lane);
                            acc[p][v] = read::<S>(at, part, last).fma(w, acc[p][v]);
                        }
                    }
                    x = x.wrapping_add(window.right.0);
                    weight = weight.wrapping_add(window.right.1);
                }
            }
        }
        acc
    }
}

/// `P` adjacent outputs, of all channels.
///
/// # Safety
/// The windows lie in the image, and `to` is their place in the output.
#[inline(always)]
unsafe fn outputs<S: Simd, const P: usize>(window: &Window, channels: usize, to: &Target) {
    // Vectors that are summed together, as many as there are registers for.
    let wide = if S::LANES >= 16 { 4 } else { 2 };
    let mut c = 0;
    // SAFETY: as the caller promises.
    unsafe {
        let none = S::lanes(0, 0);
        while c < channels {
            let left = channels - c;
            let to = to.shift(0, c);
            macro_rules! sums {
                ($nv:literal, $part:literal, $lanes:expr, $columns:expr) => {{
                    let acc = sums::<S, P, $nv, $part>(window, c, $lanes);
                    put(acc, $columns, &to);
                    c += $columns;
                }};
            }
            match left / S::LANES {
                4.. if wide == 4 => sums!(4, false, none, 4 * S::LANES),
                2.. => sums!(2, false, none, 2 * S::LANES),
                1 => sums!(1, false, none, S::LANES),
                _ => sums!(1, true, S::lanes(0, left), left),
            }
        }
    }
}

/// Computes one output row of an image.
///
/// # Safety
/// Image and row are the convolution's, whose arrays have its sizes.
#[inline(always)]
pub(super) unsafe fn channels_last<S: Simd>(v: &RxConv2dF32, s: &Sizes, image: usize, oy: usize) {
    let image_of = Planes {
        x: v.x.wrapping_add(image * s.h * s.w * s.c),
        weight: v.weight,
        count: 1,
        behind: (0, 0),
    };
    // SAFETY: image and row are the convolution's, whose arrays have its sizes.
    unsafe {
        let to = s.target(v, image, 0, oy * s.ow);
        row::<S>(s, &image_of, oy, &to);
    }
}

/// The planes of a volume that windows read, or the image.
pub(super) struct Planes {
    /// The first one.
    pub x: *const f32,
    /// The part of the weight that is over it.
    pub weight: *const f32,
    /// How many there are.
    pub count: usize,
    /// From one to the next, in the volume and in the weight.
    pub behind: (usize, usize),
}

/// Computes a row of a plane of the output, which begins at `to`.
///
/// # Safety
/// The planes have the sizes of the convolution, and the output has this row.
#[inline(always)]
pub(super) unsafe fn row<S: Simd>(s: &Sizes, planes: &Planes, oy: usize, to: &Target) {
    let inside = |n: usize, first: isize, distance: usize, size: usize| -> Range<usize> {
        let before = (-first).max(0) as usize;
        let first_in = before.div_ceil(distance).min(n);
        let after = (size as isize - first).max(0) as usize;
        first_in..after.div_ceil(distance).clamp(first_in, n)
    };
    let y = (oy * s.sh) as isize - s.pt;
    let rows = inside(s.kh, y, s.dh, s.h);
    let mut ox = 0;
    while ox < s.ow {
        let column = (ox * s.sw) as isize - s.pl;
        let columns = inside(s.kw, column, s.dw, s.w);
        let last = column + ((PIXELS - 1) * s.sw) as isize;
        let together = s.ow - ox >= PIXELS
            && columns == (0..s.kw)
            && inside(s.kw, last, s.dw, s.w) == (0..s.kw);
        let from = (y + (rows.start * s.dh) as isize) * s.w as isize
            + column
            + (columns.start * s.dw) as isize;
        let window = Window {
            x: planes.x.wrapping_offset(from * s.c as isize),
            weight: planes
                .weight
                .wrapping_add((rows.start * s.kw + columns.start) * s.c),
            deep: planes.count,
            behind: planes.behind,
            high: rows.len(),
            wide: columns.len(),
            down: (s.dh * s.w * s.c, s.kw * s.c),
            right: (s.dw * s.c, s.c),
            step: s.sw * s.c,
        };
        // SAFETY: the planes have the convolution's sizes; what is read of a window lies inside of
        // them.
        unsafe {
            let to = to.shift(ox, 0);
            match together {
                true => outputs::<S, PIXELS>(&window, s.c, &to),
                false => outputs::<S, 1>(&window, s.c, &to),
            }
        }
        ox += if together { PIXELS } else { 1 };
    }
}
