//! Convolutions whose products read the rows of a padded copy in place.
//!
//! Unfolding writes each input once per window position, which with few output channels takes as
//! long as the products. In a padded copy, however, the inputs of adjacent outputs of a row are
//! adjacent, so that a tile can read them in place: for each window position, channel after
//! channel, or, with few channels, for each row of a channel's window, position after position. The
//! weight is packed in that order.
//!
//! Short rows fill vectors poorly. With a stride of one, the rows of the copy are then read as one
//! long row, which also computes unwanted sums at the ends of rows: all sums are stored to memory
//! first, and the wanted ones copied from there.

use super::blocks::Task;
use super::{RxConv2dF32, Sizes};
use crate::kernels::gemm::epilogue::Target;
use crate::kernels::gemm::tile::{COLS, Columns, ROWS};
use crate::kernels::gemm::{self, pack};
use crate::kernels::padded::{Padded, Window};
use crate::kernels::simd::Simd;
use std::ops::Range;

/// A multiplication of a product, in those of one lane of a tile: see `ways.rs`.
const PRODUCT: f64 = 1.15;
/// What a row of the output costs besides, for each row of B.
const ROW: f64 = 50.0;
/// What copying an input costs.
const INPUT: f64 = 16.0;
/// What it costs to take a sum to its place from memory.
const PLACE: f64 = 60.0;
/// Floats of the padded channels of a block, about: half of the second cache at most.
const COPY: usize = 40 << 10;
/// Floats of a weight that stays in the second-level cache while it is read again for every row.
const WEIGHT: usize = 128 << 10;
/// Columns of a piece of a row that is too long for a block: whole tiles of all processors.
const PIECE: usize = 48;

/// The cost of an image by this way with vectors of so many lanes; infinite where its memory would
/// not stay in the caches.
pub(super) fn cost(s: &Sizes, lanes: usize) -> f64 {
    if s.kh * s.kw <= 1 || s.og.saturating_mul(s.k) > WEIGHT {
        return f64::INFINITY;
    }
    if copy(s, 0..1, 0..PIECE.min(s.ow)).floats() > COPY / s.cg {
        return f64::INFINITY;
    }
    let inputs = s.c.saturating_mul(copy(s, 0..s.oh, 0..s.ow).elements());
    s.groups as f64 * group(s, lanes).0 + INPUT * inputs as f64
}

/// Returns what the sums of a group cost, and whether rows are joined.
fn group(s: &Sizes, lanes: usize) -> (f64, bool) {
    let sum = PRODUCT * s.og.next_multiple_of(4) as f64 * s.k as f64;
    let each = (s.oh * s.ow.next_multiple_of(lanes)) as f64 * sum + ROW * (s.k * s.oh) as f64;
    let whole = copy(s, 0..s.oh, 0..s.ow);
    if s.sw != 1 || s.sh != 1 || whole.floats() > COPY / s.cg {
        return (each, false);
    }
    let wide = joined(&whole, s.oh, s.ow).next_multiple_of(lanes);
    let joined = wide as f64 * sum + PLACE * (s.og * s.oh * s.ow) as f64;
    (each.min(joined), joined < each)
}

/// Returns whether the rows of blocks are joined.
pub(super) fn joins(s: &Sizes) -> bool {
    group(s, 8).1
}

/// The number of sums of joined rows, except those after the last row.
fn joined(copy: &Padded, high: usize, wide: usize) -> usize {
    (high - 1) * copy.row + wide
}

/// Returns whether consecutive steps are positions of a row of the window, rather than channels.
fn along(s: &Sizes) -> bool {
    s.sw == 1 && s.kw > s.cg
}

/// The length of a run of consecutive rows of B, and the number of runs.
fn runs(s: &Sizes) -> (usize, usize) {
    match along(s) {
        true => (s.kw, s.cg * s.kh),
        false => (s.cg, s.kh * s.kw),
    }
}

/// Packs a group's weight.
///
/// # Safety
/// `weight` has the group's numbers, `out` room for its panels.
pub(super) unsafe fn pack(s: &Sizes, weight: *const f32, out: *mut f32) {
    // SAFETY: `weight` has the group's numbers, `out` room for its panels.
    unsafe {
        match along(s) {
            true => pack::rows(s.og, s.k, weight, s.k as isize, 1, out),
            false => by_position(s, weight, out),
        }
    }
}

/// Packs a group's weight, for each position of the window channel after channel.
///
/// # Safety
/// As for [`pack`].
pub(super) unsafe fn by_position(s: &Sizes, weight: *const f32, out: *mut f32) {
    let (k, taps) = (s.k, s.kh * s.kw);
    // SAFETY: `weight` has the group's numbers, `out` room for its panels.
    unsafe {
        for first in (0..s.og).step_by(ROWS) {
            let rows = ROWS.min(s.og - first);
            for tap in 0..taps {
                let from = weight.add(first * k + tap);
                let to = out.add(first * k + tap * s.cg * ROWS);
                pack::rows(rows, s.cg, from, k as isize, taps as isize, to);
            }
        }
    }
}

/// The layout of a channel's copy for some rows and columns of the output.
fn copy(s: &Sizes, rows: Range<usize>, columns: Range<usize>) -> Padded {
    let (down, right) = (rows.start * s.sh, columns.start * s.sw);
    Padded::of(Window {
        output: (rows.len(), columns.len()),
        pad: (s.pt - down as isize, s.pl - right as isize),
        ..s.window()
    })
}

/// The rows and columns of a block, where `threads` share the blocks: whole rows, or a piece of
/// one.
pub(super) fn block_of(s: &Sizes, threads: usize) -> (usize, usize) {
    let room = COPY / s.cg;
    let fits = |high: usize, wide: usize| copy(s, 0..high, 0..wide).floats() <= room;
    let each = |n: usize, most: usize| n.div_ceil(n.div_ceil(most.max(1)));
    if s.oh < threads || !fits(1, s.ow) {
        let mut wide = s.ow.div_ceil(threads).next_multiple_of(PIECE);
        while wide > PIECE && !fits(1, wide) {
            wide = (wide / 2).next_multiple_of(PIECE);
        }
        if wide < s.ow {
            return (1, wide);
        }
    }
    let mut high = s.oh.div_ceil(threads);
    while high > 1 && !fits(high, s.ow) {
        high = high.div_ceil(2);
    }
    (each(s.oh, high), s.ow)
}

/// The number of run starts, and of floats for a block's copies with the sums of joined rows.
pub(super) fn room(s: &Sizes, high: usize, wide: usize) -> (usize, usize) {
    let starts = runs(s).1 * (size_of::<usize>() / size_of::<f32>());
    let padded = copy(s, 0..high, 0..wide);
    let copies = padded.floats().saturating_mul(s.cg).next_multiple_of(COLS);
    let sums = match joins(s) {
        true => s.og * joined(&padded, high, wide).next_multiple_of(COLS),
        false => 0,
    };
    (
        starts.next_multiple_of(COLS),
        copies.saturating_add(sums).next_multiple_of(COLS),
    )
}

/// Computes a block's pixels: whole rows, or a part of one.
///
/// # Safety
/// As for `Blocks::run`.
#[inline(always)]
pub(super) unsafe fn block<S: Simd>(
    v: &RxConv2dF32,
    s: &Sizes,
    x: *const f32,
    weight: *const f32,
    task: Task,
    scratch: *mut f32,
    (room, joins): (usize, bool),
) {
    let rows = task.begin / s.ow..(task.end - 1) / s.ow + 1;
    let left = task.begin % s.ow;
    let columns = match rows.len() {
        1 => left..left + task.end - task.begin,
        _ => 0..s.ow,
    };
    let (high, wide) = (rows.len(), columns.len());
    let padded = copy(s, rows, columns);
    let plane = padded.floats();
    let (deep, count) = runs(s);
    // SAFETY: the task is the convolution's, whose arrays have its sizes; a block's copies have
    // room, and vectors end within a copy's slack.
    unsafe {
        let (starts, copies) = (scratch.cast::<usize>(), scratch.add(room));
        std::ptr::write_bytes(copies, 0, s.cg * plane);
        let first = task.image * s.c + task.group * s.cg;
        for c in 0..s.cg {
            padded.fill::<S>(x.add((first + c) * s.h * s.w), copies.add(c * plane));
        }
        for run in 0..count {
            *starts.add(run) = match along(s) {
                true => run / s.kh * plane + padded.tap(run % s.kh, 0),
                false => padded.tap(run / s.kw, run % s.kw),
            };
        }
        let target = s.target(v, task.image, task.group, task.begin);
        let weight = weight.add(task.group * s.packed_group());
        let step = if along(s) { s.dw } else { plane };
        let b = |row: usize| Columns {
            starts,
            runs: count,
            ..Columns::of(copies.add(row * s.sh * padded.row), COLS, step)
        };
        if joins {
            let n = joined(&padded, high, wide);
            let ld = n.next_multiple_of(COLS);
            let sums = copies.add((s.cg * plane).next_multiple_of(COLS));
            let to = Target {
                c: sums,
                ld,
                accumulate: false,
                epilogue: None,
            };
            gemm::block(s.og, n, deep, weight, s.k * ROWS, b(0), &to);
            place::<S>(&target, sums, (s.og, ld), (high, padded.row, wide), wide);
            return;
        }
        for row in 0..high {
            let to = target.shift(0, row * s.ow);
            gemm::block(s.og, wide, deep, weight, s.k * ROWS, b(row), &to);
        }
    }
}

/// Copies sums to their positions: for `channels.0` lines that are `channels.1` floats apart,
/// `rows.0` rows of `wide` sums that are `rows.1` apart, to rows that are `rows.2` apart.
///
/// # Safety
/// All sums are there, and all of the target's places.
#[inline(always)]
pub(super) unsafe fn place<S: Simd>(
    target: &Target,
    sums: *const f32,
    channels: (usize, usize),
    rows: (usize, usize, usize),
    wide: usize,
) {
    // SAFETY: all sums are there, and all of the target's places.
    unsafe {
        for channel in 0..channels.0 {
            let from = sums.add(channel * channels.1);
            let line = target.line::<S>(channel);
            for row in 0..rows.0 {
                for x in (0..wide).step_by(S::LANES) {
                    let n = (wide - x).min(S::LANES);
                    let part = S::load_part(from.add(row * rows.1 + x), n);
                    line.put(row * rows.2 + x, part, n);
                }
            }
        }
    }
}
