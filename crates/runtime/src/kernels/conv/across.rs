//! Depthwise windows of 3 by 3 over long rows, for vectors of eight lanes: from left to right, some
//! output rows at a time.
//!
//! Each row of the image is read once for the output rows that it contributes to, whose sums and all
//! nine weights are in sixteen registers. That all rows are read from left to right is what processors
//! foresee. With a step of two, neighbouring columns are sorted in registers.

use super::vectors::{put, spread3, within};
use super::{RxConv2dF32, Sizes};
use crate::kernels::gemm::epilogue::Line;
use crate::kernels::simd::{Isa, Simd, isa};

/// The fewest columns of an output for which this is faster, with a step of one.
const LONG: usize = 48;

/// Returns whether these windows are: 3 by 3, with steps of one or of two both down and to the right.
pub(super) fn can(s: &Sizes) -> bool {
    let window = (s.kh, s.kw, s.dh, s.dw) == (3, 3, 1, 1);
    let steps = match (s.sh, s.sw) {
        // Shorter rows are summed down, in fewer vectors at the ends of rows.
        (1, 1) => s.ow >= LONG,
        (2, 2) => true,
        _ => false,
    };
    // Only the first and the last two vectors of a row reach beyond the image.
    let beyond = ((s.ow - 1) * s.sw + s.kw) as isize - s.pl - s.w as isize;
    let near = (0..=2).contains(&s.pl) && beyond <= 2;
    window && steps && near && !s.nhwc && isa() == Isa::Avx2
}

/// The lanes of a vector's columns that lie in the image: for each column of the window, and with a
/// step of two for both vectors that its inputs come from.
type Inside<S> = [[<S as Simd>::Lanes; 2]; 3];

/// What some output rows are computed from.
struct Rows<'a, S: Simd> {
    /// The place of the first row's first window, which may lie before the image.
    x: *const f32,
    /// A bit for each row that lies in the image.
    there: u32,
    /// The weights of the window, each in all lanes.
    weights: [[S; 3]; 3],
    /// What sums begin with.
    start: S,
    /// Of the first vector and the last two.
    inside: &'a [Inside<S>; 3],
}

/// All output channels of one input channel of one image.
#[inline(always)]
pub(super) unsafe fn channel_across<S: Simd>(
    v: &RxConv2dF32,
    s: &Sizes,
    (image, channel): (usize, usize),
) {
    // Only vectors of AVX2 come here: what others would be is left out of the library.
    if S::LANES != 8 {
        return;
    }
    // SAFETY: image and channel are the convolution's.
    unsafe {
        match s.sw {
            1 => plane::<S, 1>(v, s, (image, channel)),
            _ => plane::<S, 2>(v, s, (image, channel)),
        }
    }
}

#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the weights out of memory.
unsafe fn plane<S: Simd, const STEP: usize>(
    v: &RxConv2dF32,
    s: &Sizes,
    (image, channel): (usize, usize),
) {
    let x = v.x.wrapping_add((image * s.c + channel) * s.h * s.w);
    // SAFETY: image and channel are the convolution's, whose arrays have its sizes.
    let full = unsafe { s.target(v, image, channel, 0) };
    // SAFETY: the instruction set is enabled.
    let inside = unsafe { edges::<S, STEP>(s) };
    for m in 0..s.og {
        let weight = v.weight.wrapping_add((channel * s.og + m) * 9);
        // SAFETY: there are a row of the output and nine weights for each output channel.
        let (weights, mut to) = unsafe { (spread3::<S>(weight), full.line::<S>(m)) };
        // SAFETY: the instruction set is enabled.
        let start = unsafe { to.start() };
        let mut oy = 0;
        while oy < s.oh {
            let first = (oy * STEP) as isize - s.pt;
            let mut there = 0;
            for i in 0..3 + 3 * STEP {
                let y = first + i as isize;
                there |= u32::from(y >= 0 && y < s.h as isize) << i;
            }
            let rows = Rows {
                x: x.wrapping_offset(first * s.w as isize - s.pl),
                there,
                weights,
                start,
                inside: &inside,
            };
            // As many rows at a time as read none that is not there.
            let whole = |rows: usize| rows <= s.oh - oy && !there << (29 - (rows - 1) * STEP) == 0;
            // SAFETY: the output has these rows, and of whole ones the image all windows' rows.
            oy += unsafe {
                match () {
                    () if whole(4) => line::<S, STEP, 4, true>(s, &rows, oy, &to),
                    () if whole(2) => line::<S, STEP, 2, true>(s, &rows, oy, &to),
                    () => line::<S, STEP, 1, false>(s, &rows, oy, &to),
                }
            };
        }
    }
}

/// What lies in the image of the first vector of a row and of the last two.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the lanes out of memory.
unsafe fn edges<S: Simd, const STEP: usize>(s: &Sizes) -> [Inside<S>; 3] {
    let last = s.ow.div_ceil(S::LANES) - 1;
    // SAFETY: the instruction set is enabled.
    unsafe {
        let mut inside = [[[S::lanes(0, 0); 2]; 3]; 3];
        for (i, vector) in [0, last.saturating_sub(1), last].into_iter().enumerate() {
            let left = (vector * S::LANES * STEP) as isize - s.pl;
            for kx in 0..3 {
                for half in 0..2 {
                    inside[i][kx][half] = within::<S>(s, left + (kx + half * S::LANES) as isize);
                }
            }
        }
        inside
    }
}

/// Computes `R` output rows, which it returns; of `WHOLE` ones all windows' rows lie in the image.
#[inline(always)]
unsafe fn line<S: Simd, const STEP: usize, const R: usize, const WHOLE: bool>(
    s: &Sizes,
    rows: &Rows<'_, S>,
    oy: usize,
    to: &Line<S>,
) -> usize {
    // Of a vector's windows.
    let reach = STEP * (S::LANES - 1) + 3 + (STEP - 1);
    let vectors = s.ow.div_ceil(S::LANES);
    for i in 0..vectors {
        let ox = i * S::LANES;
        let left = (ox * STEP) as isize - s.pl;
        let at = (oy * s.ow + ox, (s.ow - ox).min(S::LANES));
        let inside = &rows.inside[if i == 0 {
            0
        } else {
            (i + 3 - vectors.min(i + 3)).min(2)
        }];
        // SAFETY: the rows and columns lie in the output; lanes beyond the image are not read.
        unsafe {
            match left < 0 || left as usize + reach > s.w {
                true => vector::<S, STEP, R, WHOLE, true>(s, rows, (ox, inside), at, to),
                false => vector::<S, STEP, R, WHOLE, false>(s, rows, (ox, inside), at, to),
            }
        }
    }
    R
}

/// Computes a vector of columns of `R` output rows; at an `EDGE` of the image only some lanes of its
/// windows are `inside`.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the sums out of memory.
unsafe fn vector<
    S: Simd,
    const STEP: usize,
    const R: usize,
    const WHOLE: bool,
    const EDGE: bool,
>(
    s: &Sizes,
    rows: &Rows<'_, S>,
    (ox, inside): (usize, &Inside<S>),
    at: (usize, usize),
    to: &Line<S>,
) {
    let mut acc = [[rows.start; 1]; R];
    let mut row = rows.x.wrapping_add(ox * STEP);
    // Not a loop: the sums of one that is not unrolled would be in memory.
    macro_rules! rows {
        ($($i:literal)*) => {$(
            if $i < 3 + (R - 1) * STEP {
                if WHOLE || rows.there >> $i & 1 != 0 {
                    // SAFETY: the row is there, and the lanes that are read lie in the image.
                    let x = unsafe { columns::<S, STEP, EDGE>(row, inside) };
                    // Sums of a row first: a sum of nine would wait for each of them.
                    for r in 0..R {
                        if $i >= r * STEP && $i < r * STEP + 3 {
                            let w = &rows.weights[$i - r * STEP];
                            let sum = w[2].fma(x[2], w[1].fma(x[1], w[0].mul(x[0])));
                            acc[r][0] = acc[r][0].add(sum);
                        }
                    }
                    // SAFETY: the instruction set is enabled.
                    row = unsafe { S::pinned(row, &mut acc[($i / STEP).min(R - 1)][0]) };
                }
                row = row.wrapping_add(s.w);
            }
        )*};
    }
    rows!(0 1 2 3 4 5 6 7 8);
    if STEP == 2 {
        for sums in &mut acc {
            sums[0] = sums[0].sifted();
        }
    }
    // SAFETY: the output has these rows and columns.
    unsafe { put(acc, s, at, to) };
}

/// The inputs of a vector of outputs, for each column of the window; with a step of two in the order
/// of [`Simd::sift`].
#[inline(always)]
unsafe fn columns<S: Simd, const STEP: usize, const EDGE: bool>(
    row: *const f32,
    inside: &Inside<S>,
) -> [S; 3] {
    // SAFETY: the lanes that are read lie in the image.
    unsafe {
        if STEP == 1 {
            return [
                read::<S, EDGE>(row, inside[0][0]),
                read::<S, EDGE>(row.wrapping_add(1), inside[1][0]),
                read::<S, EDGE>(row.wrapping_add(2), inside[2][0]),
            ];
        }
        let next = row.wrapping_add(S::LANES);
        let first = read::<S, EDGE>(row, inside[0][0]);
        let (even, odd) = S::sift(first, read::<S, EDGE>(next, inside[0][1]));
        let third = read::<S, EDGE>(row.wrapping_add(2), inside[2][0]);
        let (last, _) = S::sift(third, read::<S, EDGE>(next.wrapping_add(2), inside[2][1]));
        [even, odd, last]
    }
}

/// A vector, or its lanes that lie in the image.
#[inline(always)]
unsafe fn read<S: Simd, const EDGE: bool>(at: *const f32, lanes: S::Lanes) -> S {
    // SAFETY: these lanes lie in the image.
    unsafe {
        match EDGE {
            true => S::load_lanes(at, lanes),
            false => S::load(at),
        }
    }
}
