//! Depthwise windows of [`fused`](super::fused): rows of pixels of a block of channels.
//!
//! Of a column of the image, the bytes that a window reads are interleaved into quads, rows of the
//! window going along a quad; all windows of neighbouring pixels that have this column read these
//! quads. What lies outside of the image is read elsewhere, where only zero points are.
#![allow(clippy::needless_range_loop)] // Indices keep sums out of memory.

use super::fused_scales::{Finish, MOST};
use super::fused_tile::PANEL;
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

/// Where a row of a window is: its first pixel, and bytes from one pixel to the next.
pub(super) type Line = (*const u8, usize);

/// A row of pixels of a block of channels, each with a window of its own.
#[derive(Clone, Copy)]
pub(super) struct Row<'t> {
    /// The rows of the first window, whole quads of them: those beyond the window have weight 0.
    pub lines: *const Line,
    /// Quads of a column.
    pub quads: usize,
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
    /// What makes bytes unsigned.
    pub flip: [u8; 4],
    /// Whether blocks must not be read beyond the wanted channels.
    pub last: bool,
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
    /// Where a column of a line lies.
    ///
    /// # Safety
    /// The line is one of the row's.
    #[inline(always)]
    unsafe fn place(&self, line: usize, column: isize) -> *const u8 {
        // SAFETY: as promised.
        let (first, step) = unsafe { *self.lines.add(line) };
        match (column as usize) < self.columns {
            true => first.wrapping_add(column as usize * step),
            false => self.outside,
        }
    }
}

/// Computes a row.
///
/// # Safety
/// Lines, columns, weights and tables are those that the row says, there is room for the results, and
/// the instruction set is enabled.
#[inline(always)]
pub(super) unsafe fn row<S: Wide>(r: &Row<'_>) {
    // SAFETY: as promised.
    unsafe {
        match S::LANES {
            4 => plain_row(r),
            // Sums of two pixels, and a column's quads, are all registers that AVX2 has.
            _ if !S::MANY => vectors::<S, 2>(r),
            _ => vectors::<S, TOGETHER>(r),
        }
    }
}

/// A row, `P` pixels at a time.
#[inline(always)]
unsafe fn vectors<S: Wide, const P: usize>(r: &Row<'_>) {
    let bytes = 4 * S::LANES;
    for from in (0..r.wide).step_by(bytes) {
        let some = (r.wide - from).min(bytes);
        for pixel in (0..r.count).step_by(P) {
            // SAFETY: as promised; bytes beyond the wanted channels are read where there are such,
            // and not stored.
            unsafe {
                let start = |j: usize| S::load(r.start.add(j * PANEL + from / 4).cast());
                let mut sums = [[start(0), start(1), start(2), start(3)]; P];
                let left = r.left + pixel as isize * r.step;
                for c in 0..r.read_count {
                    let column = &*r.read.add(c);
                    let at = left + column.at;
                    for q in 0..r.quads {
                        let quads = quads::<S>(r, (4 * q, at), (from, some));
                        for i in 0..P {
                            if column.weights[i] == NONE {
                                continue;
                            }
                            let weight = r.weight.add(column.weights[i] + 4 * q * MOST + from);
                            for j in 0..4 {
                                let w = S::load(weight.add(j * MOST));
                                sums[i][j] = sums[i][j].dot(quads[j], w);
                            }
                        }
                    }
                }
                for i in 0..P.min(r.count - pixel) {
                    let to = r.y.add((pixel + i) * r.out_step + from);
                    finished(r, &mut sums[i], from).store_some(to, some);
                }
            }
        }
    }
}

/// The quads of four lines at a column: `some` of the block's channels from `from` on.
#[inline(always)]
unsafe fn quads<S: Wide>(
    r: &Row<'_>,
    (line, column): (usize, isize),
    (from, some): (usize, usize),
) -> [S; 4] {
    // SAFETY: the lines are the row's, and all channels are there unless it is the last.
    unsafe {
        let flip = S::splat(r.flip.as_ptr());
        let tap = |k: usize| {
            let place = r.place(line + k, column).add(from);
            let bytes = match r.last {
                true => S::load_some(place, some),
                false => S::load(place),
            };
            bytes.xor(flip)
        };
        let (a, b) = tap(0).interleave8(tap(1));
        let (c, d) = tap(2).interleave8(tap(3));
        let ((s, t), (u, v)) = (a.interleave16(c), b.interleave16(d));
        [s, t, u, v]
    }
}

/// The results of a pixel's sums, of channels from `from` on.
#[inline(always)]
unsafe fn finished<S: Wide>(r: &Row<'_>, sums: &mut [S; 4], from: usize) -> S {
    // SAFETY: tables have a number for each channel.
    unsafe {
        if let Finish::Float(factors, _, Some(quick)) = &r.finish {
            for (j, sum) in sums.iter_mut().enumerate() {
                let factor = S::load(factors.as_ptr().add(j * PANEL + from / 4).cast());
                *sum = sum.steps(factor);
            }
            return S::bytes(*sums, quick);
        }
        for (j, sum) in sums.iter_mut().enumerate() {
            r.finish.all(std::iter::once(sum), j * PANEL + from / 4);
        }
        S::join(*sums)
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
                for line in 0..4 * r.quads {
                    let quad = column.weights[0] + (line / 4 * MOST + place) * 4;
                    let w = *r.weight.add(quad + line % 4) as i8;
                    let x = *r.place(line, at).add(channel) ^ r.flip[0];
                    sum = sum.wrapping_add(i32::from(x) * i32::from(w));
                }
            }
            *r.y.add(pixel * r.out_step + channel) = r.finish.one(sum, place) as u8;
        }
    }
}
