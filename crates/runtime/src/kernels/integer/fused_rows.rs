//! Depthwise windows of [`fused`](super::fused): rows of pixels of a block of channels.
//!
//! Of a column of the image, the bytes that a window reads are interleaved into quads, rows of the
//! window going along a quad; all windows of neighbouring pixels that have this column read these
//! quads. What lies outside of the image is read elsewhere, where only zero points are.
#![allow(clippy::needless_range_loop)] // Indices keep sums out of memory.

use super::fused_scales::{Finish, MOST, PANEL};
use super::fused_vectors::Wide;

/// The most pixels that are computed together.
pub(super) const TOGETHER: usize = 4;

/// A column that windows of neighbouring pixels read.
#[derive(Clone, Copy)]
pub(super) struct Column {
    /// How far it lies behind the first column of the first pixel's window.
    pub at: isize,
    /// Where its weights are for the window of each pixel, in bytes; [`NONE`] for a window that does
    /// not have it.
    pub weights: [usize; TOGETHER],
}

/// The place of no weights.
pub(super) const NONE: usize = usize::MAX;

/// Where a row of a window is: its first pixel, and what is left of the distance of another one:
/// all of it, or nothing where all pixels lie outside.
pub(super) type Line = (*const u8, usize);

/// A row of pixels of a block of channels, each with a window of its own.
#[derive(Clone, Copy)]
pub(super) struct Row<'t> {
    /// The rows of the first window, whole quads of them: those beyond the window have weight 0.
    pub lines: *const Line,
    /// Quads of a column.
    pub quads: usize,
    /// Bytes from one pixel of a line to the next.
    pub pixel: usize,
    /// [`MOST`] bytes that stand for what lies outside.
    pub outside: *const u8,
    /// The column of the image where the first window begins, columns from a window to the next, and
    /// those that the image has.
    pub left: isize,
    pub step: isize,
    pub columns: usize,
    /// The columns that [`TOGETHER`] windows read.
    pub read: *const Column,
    pub read_count: usize,
    /// Whether windows are three adjacent columns of one quad.
    pub three: bool,
    /// What makes bytes unsigned.
    pub flip: [u8; 4],
    /// The block's quads, of [`MOST`] channels each, in the order of [`lane`].
    pub weight: *const u8,
    /// What each channel's sums start with, in the order of [`lane`].
    pub start: *const i32,
    pub finish: Finish<'t>,
    /// The first result, bytes from one to the next, and how many there are.
    pub y: *mut u8,
    pub out_step: usize,
    pub count: usize,
    /// The channels that are wanted.
    pub wide: usize,
}

/// The channel of a block at a place of its tables: interleaved bytes have the same place in every
/// 16 of them.
pub(super) fn lane(place: usize) -> usize {
    place % 16 / 4 * 16 + place / 16 * 4 + place % 4
}

impl Row<'_> {
    /// Where a column of four lines, from `line` on, lies.
    ///
    /// # Safety
    /// The lines are the row's.
    #[inline(always)]
    unsafe fn places(&self, line: usize, column: isize) -> [*const u8; 4] {
        let inside = (column as usize) < self.columns;
        let distance = (column as usize).wrapping_mul(self.pixel);
        std::array::from_fn(|k| {
            // SAFETY: as promised.
            let (first, kept) = unsafe { *self.lines.add(line + k) };
            match inside {
                true => first.wrapping_add(distance & kept),
                false => self.outside,
            }
        })
    }
}

/// Computes a row.
///
/// # Safety
/// Lines, columns, weights and tables are those that the row says, there is room for the results,
/// and the instruction set is enabled.
#[inline(always)]
pub(super) unsafe fn row<S: Wide>(r: &Row<'_>) {
    // SAFETY: as promised.
    unsafe {
        match S::LANES {
            4 => plain_row(r),
            // Sums of two pixels, and a column's quads, are all registers that AVX2 has.
            _ if !S::MANY => vectors::<S, 2, 0>(r),
            _ => match (r.three, r.step) {
                (true, 1) => vectors::<S, TOGETHER, 1>(r),
                (true, 2) => vectors::<S, TOGETHER, 2>(r),
                _ => vectors::<S, TOGETHER, 0>(r),
            },
        }
    }
}

/// A row, `P` pixels at a time; of windows of three columns that are `STEP` apart, or of any where
/// that is 0.
#[inline(always)]
unsafe fn vectors<S: Wide, const P: usize, const STEP: usize>(r: &Row<'_>) {
    let bytes = 4 * S::LANES;
    for from in (0..r.wide).step_by(bytes) {
        let some = (r.wide - from).min(bytes);
        for pixel in (0..r.count).step_by(P) {
            // SAFETY: as promised; bytes beyond the wanted channels are read where there are such,
            // and not stored.
            let start = |j: usize| unsafe { S::load(r.start.add(j * PANEL + from / 4).cast()) };
            let mut sums = [[start(0), start(1), start(2), start(3)]; P];
            let left = r.left + pixel as isize * r.step;
            // SAFETY: as promised; bytes beyond the wanted channels are read where there are such,
            // and not stored.
            unsafe {
                if STEP > 0 {
                    // Which windows have a column is known here: no step of a loop depends on it.
                    three::<S, P, STEP, 0>(r, left, from, &mut sums);
                    three::<S, P, STEP, 1>(r, left, from, &mut sums);
                    three::<S, P, STEP, 2>(r, left, from, &mut sums);
                    three::<S, P, STEP, 3>(r, left, from, &mut sums);
                    three::<S, P, STEP, 4>(r, left, from, &mut sums);
                    three::<S, P, STEP, 5>(r, left, from, &mut sums);
                    three::<S, P, STEP, 6>(r, left, from, &mut sums);
                    three::<S, P, STEP, 7>(r, left, from, &mut sums);
                    three::<S, P, STEP, 8>(r, left, from, &mut sums);
                }
            }
            let any = if STEP == 0 { r.read_count } else { 0 };
            // SAFETY: as promised; bytes beyond the wanted channels are read where there are such,
            // and not stored.
            unsafe {
                for c in 0..any {
                    let column = &*r.read.add(c);
                    let at = left + column.at;
                    for q in 0..r.quads {
                        let quads = quads::<S>(r, (4 * q, at), from);
                        for i in 0..P {
                            if column.weights[i] != NONE {
                                let weight = column.weights[i] + 4 * q * MOST + from;
                                add(&mut sums[i], quads, r.weight.add(weight));
                            }
                        }
                    }
                }
                for i in 0..P {
                    if pixel + i < r.count {
                        let to = r.y.add((pixel + i) * r.out_step + from);
                        finished(r, sums[i], from).store_some(to, some);
                    }
                }
            }
        }
    }
}

/// Adds column `C` of those that windows of three columns read, if any does, to the sums.
#[inline(always)]
unsafe fn three<S: Wide, const P: usize, const STEP: usize, const C: usize>(
    r: &Row<'_>,
    left: isize,
    from: usize,
    sums: &mut [[S; 4]; P],
) {
    if C >= (P - 1) * STEP + 3 {
        return;
    }
    // SAFETY: the column is one of those that the row's windows read.
    unsafe {
        let quads = quads::<S>(r, (0, left + C as isize), from);
        for i in 0..P {
            if C >= i * STEP && C < i * STEP + 3 {
                let weight = r.weight.add((C - i * STEP) * 4 * MOST + from);
                add(&mut sums[i], quads, weight);
            }
        }
    }
}

/// Adds a column's quads times their weights to a pixel's sums.
#[inline(always)]
unsafe fn add<S: Wide>(sums: &mut [S; 4], quads: [S; 4], weight: *const u8) {
    for j in 0..4 {
        // SAFETY: the caller has the instruction set and the weights.
        unsafe { sums[j] = sums[j].dot(quads[j], S::load(weight.add(j * MOST))) };
    }
}

/// The quads of four lines at a column, of channels from `from` on.
#[inline(always)]
unsafe fn quads<S: Wide>(r: &Row<'_>, (line, column): (usize, isize), from: usize) -> [S; 4] {
    // SAFETY: the lines are the row's, and have a block of channels at each pixel.
    unsafe {
        let flip = S::splat(r.flip.as_ptr());
        let places = r.places(line, column);
        let tap = |k: usize| S::load(places[k].add(from)).xor(flip);
        let (a, b) = tap(0).interleave8(tap(1));
        let (c, d) = tap(2).interleave8(tap(3));
        let ((s, t), (u, v)) = (a.interleave16(c), b.interleave16(d));
        [s, t, u, v]
    }
}

/// The results of a pixel's sums, of channels from `from` on.
#[inline(always)]
unsafe fn finished<S: Wide>(r: &Row<'_>, mut sums: [S; 4], from: usize) -> S {
    // SAFETY: tables have a number for each channel.
    unsafe {
        if let Finish::Float(factors, _, Some(quick)) = &r.finish {
            for j in 0..4 {
                let factor = S::load(factors.as_ptr().add(j * PANEL + from / 4).cast());
                sums[j] = sums[j].steps(factor);
            }
            return S::bytes(sums, quick);
        }
        S::exactly(&r.finish, &mut sums, from / 4);
        S::join(sums)
    }
}

/// A row, channel by channel.
unsafe fn plain_row(r: &Row<'_>) {
    for (pixel, place) in (0..r.count).flat_map(|p| (0..MOST).map(move |c| (p, c))) {
        let channel = lane(place);
        if channel >= r.wide {
            continue;
        }
        // SAFETY: as promised.
        unsafe {
            let mut sum = *r.start.add(place);
            for c in 0..r.read_count {
                let column = &*r.read.add(c);
                if column.weights[0] == NONE {
                    continue;
                }
                let at = r.left + pixel as isize * r.step + column.at;
                for q in 0..r.quads {
                    let quad = column.weights[0] + (q * MOST + place) * 4;
                    for (k, place) in r.places(4 * q, at).into_iter().enumerate() {
                        let w = *r.weight.add(quad + k) as i8;
                        let x = *place.add(channel) ^ r.flip[0];
                        sum = sum.wrapping_add(i32::from(x) * i32::from(w));
                    }
                }
            }
            *r.y.add(pixel * r.out_step + channel) = r.finish.one(sum, place) as u8;
        }
    }
}
