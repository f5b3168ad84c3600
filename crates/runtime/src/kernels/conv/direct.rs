//! Convolutions without unfolding, with output channels along vectors.
//!
//! Some rows of the image are copied with channels last and their padding around them. In such a
//! copy, the inputs of a row of the window are consecutive, and those of adjacent outputs are the
//! same distance apart, whatever the stride. So a tile of up to eight outputs of a row by three
//! vectors of filters reads its inputs in place, one number at a time, and no lane is left empty
//! where rows are odd. With channels first, inputs are transposed into the copy, and sums when they
//! are stored.

use super::{RxConv2dF32, SMALL, Sizes};
use crate::context::RxContext;
use crate::kernels::gemm::epilogue::Target;
use crate::kernels::gemm::tile::{COLS, CROWDED, Columns, ROWS};
use crate::kernels::gemm::{even_piece, pack};
use crate::kernels::scratch::Scratch;
use crate::kernels::simd::square::{MOST, Turning, dispatch_turning};
use crate::kernels::simd::{Simd, dispatch};
use crate::kernels::turn::turn;
use crate::threads::{Grain, Share};
use std::ops::Range;

/// A multiplication, in those of one lane of a tile of products: see `ways.rs`.
const PRODUCT: f64 = 1.02;
/// What storing an output costs with channels first, and with channels last.
const TURN: f64 = 16.0;
const STORE: f64 = 4.0;
/// What copying an input costs with channels first, where there are fewer channels than lanes are
/// transposed at once, and with channels last.
const INPUT: f64 = 10.0;
const FEW: f64 = 48.0;
const INPUT_LAST: f64 = 3.0;
/// Filters whose weights are applied to all outputs of a block before the next ones: three of the
/// widest vectors.
const WIDE: usize = 3 * COLS;
/// Floats of a copy, about: half of the second-level cache at most, which it shares with the
/// weights of [`WIDE`] filters.
const COPY: usize = 64 << 10;
/// Outputs whose sums are finished together, at most: a fraction of the first-level cache.
const OUTPUTS: usize = 96;

/// The cost of an image by this way.
pub(super) fn cost(s: &Sizes) -> f64 {
    if s.oh * s.ow * s.og == 0 {
        return 0.0;
    }
    // Bands of rows copy what their windows share, each anew: little but where windows are dilated.
    let banded = s.nhwc || s.dh > 1;
    let (bands, copy) = match banded.then(|| Plan::of(s, 1)) {
        Some(plan) => (plan.bands, plan.copy),
        None => (1, Copy::of(s, s.oh).pixels().saturating_mul(s.cg)),
    };
    let outputs = (s.o * s.oh * s.ow) as f64;
    let lanes = (s.groups * s.og.next_multiple_of(COLS)) as f64;
    let products = PRODUCT * lanes * (s.oh * s.ow * s.k) as f64;
    let (input, output) = match s.nhwc {
        true => (INPUT_LAST, STORE),
        false if s.cg < MOST => (FEW, TURN),
        false => (INPUT, TURN),
    };
    let copied = bands.saturating_mul(copy);
    products + output * outputs + input * s.groups as f64 * copied as f64
}

/// Returns whether a window of one pixel over few pixels is multiplied faster this way than with
/// pixels along vectors, by the lanes of both and what only this one does.
pub(super) fn pays_for_pixels(s: &Sizes) -> bool {
    if !s.as_it_lies() || s.nhwc || s.groups > 1 || s.o < COLS || s.k == 0 {
        return false;
    }
    let pixels = s.oh * s.ow;
    let along = pixels.next_multiple_of(COLS) * s.o.next_multiple_of(ROWS) * s.k;
    let turned = 8 * s.o * pixels + INPUT as usize * s.c * pixels;
    let across = pixels * s.o.next_multiple_of(COLS) * s.k + turned;
    // Weights and pixels both come from the second cache, not only one of them.
    11 * across < 10 * along
}

/// Floats of a group's packed weight.
fn packed_group(s: &Sizes) -> usize {
    s.og.next_multiple_of(COLS) * s.k
}

/// Floats of the packed weight.
pub(super) fn packed(s: &Sizes) -> usize {
    packed_group(s) * s.groups
}

/// Packs the weight of all groups: panels of [`COLS`] filters, in which channels are consecutive at
/// each position of the window.
///
/// # Safety
/// The weight has the convolution's sizes, and `out` room for [`packed`].
pub(super) unsafe fn pack(s: &Sizes, weight: *const f32, out: *mut f32) {
    let taps = s.kh * s.kw;
    let mut out = out;
    for group in 0..s.groups {
        for first in (0..s.og).step_by(COLS) {
            let filters = COLS.min(s.og - first);
            for tap in 0..taps {
                let filter = group * s.og + first;
                // The first weight, and the distances to those of the next channel and filter.
                let (at, channel, next) = match s.nhwc {
                    true => (tap * s.cg * s.o + filter, s.o, 1),
                    false => (filter * s.k + tap, taps, s.k),
                };
                // SAFETY: the weight has the convolution's sizes, and `out` room for its panels.
                unsafe {
                    let (from, channel, next) = (weight.add(at), channel as isize, next as isize);
                    pack::columns(s.cg, filters, from, channel, next, out);
                    out = out.add(s.cg * COLS);
                }
            }
        }
    }
}

/// The layout of a group's channels in a copy.
struct Copy {
    /// Pixels of a row.
    row: usize,
    rows: usize,
    /// The columns of the image that are read, and the first one's position in a row.
    columns: Range<usize>,
    first: usize,
}

impl Copy {
    /// The copy for so many rows of the output.
    fn of(s: &Sizes, high: usize) -> Self {
        let mut window = s.window();
        window.output.0 = high;
        let (rows, row) = window.reach();
        let (left, first) = ((-s.pl).max(0) as usize, s.pl.max(0) as usize);
        let end = s.w.min(left.saturating_add(row.saturating_sub(first)));
        Self {
            row,
            rows,
            columns: left.min(end)..end,
            first,
        }
    }

    fn pixels(&self) -> usize {
        self.rows.saturating_mul(self.row)
    }

    /// Copies a group's channels, from `x` on, for output rows from `begin` on.
    ///
    /// # Safety
    /// `x` has the channels of the image, and `out` room for the copy.
    unsafe fn fill(&self, s: &Sizes, x: *const f32, begin: usize, out: *mut f32) {
        let line = self.row * s.cg;
        let top = (begin * s.sh) as isize - s.pt;
        // Whole rows with nothing around them follow each other.
        let whole = self.columns == (0..self.row) && self.row == s.w;
        if whole && top >= 0 && top as usize + self.rows <= s.h {
            // SAFETY: the rows lie in the image, and `out` has room for all of the copy.
            unsafe {
                pixels(s, x, top as usize * s.w, self.pixels(), out);
            }
            return;
        }
        for i in 0..self.rows {
            let y = top + i as isize;
            // SAFETY: the rows and columns that are copied lie in the image, and `out` has room for
            // all of the copy.
            unsafe {
                let to = out.add(i * line);
                if y < 0 || y as usize >= s.h || self.columns.is_empty() {
                    std::ptr::write_bytes(to, 0, line);
                    continue;
                }
                let (before, count) = (self.first * s.cg, self.columns.len());
                std::ptr::write_bytes(to, 0, before);
                let to = to.add(before);
                pixels(s, x, y as usize * s.w + self.columns.start, count, to);
                let end = count * s.cg;
                std::ptr::write_bytes(to.add(end), 0, line - before - end);
            }
        }
    }
}

/// Copies a group's channels of so many consecutive pixels, `x` being those of the first one of the
/// image.
///
/// # Safety
/// The image has the pixels, and `out` room for their channels.
unsafe fn pixels(s: &Sizes, x: *const f32, first: usize, count: usize, out: *mut f32) {
    // SAFETY: as the caller promises.
    unsafe {
        if !s.nhwc {
            let (plane, to) = (s.h * s.w, s.cg as isize);
            turn((s.cg, count), x.add(first), plane as isize, out, to);
        } else if s.groups == 1 {
            std::ptr::copy_nonoverlapping(x.add(first * s.c), out, count * s.c);
        } else {
            for pixel in 0..count {
                let from = x.add((first + pixel) * s.c);
                std::ptr::copy_nonoverlapping(from, out.add(pixel * s.cg), s.cg);
            }
        }
    }
}

/// The division into tasks: a task is some rows of the output of one group of an image, for some of
/// the filters.
#[derive(Clone, Copy)]
struct Plan {
    /// Rows of the output.
    high: usize,
    bands: usize,
    filters: usize,
    parts: usize,
    /// Floats of the copy.
    copy: usize,
    /// Floats of the sums that are finished together.
    sums: usize,
}

impl Plan {
    /// Few rows are hard to divide among threads: then the filters are divided, too, and each part
    /// copies its inputs.
    fn of(s: &Sizes, threads: usize) -> Self {
        let fits = |high: usize| Copy::of(s, high).pixels().saturating_mul(s.cg) <= COPY;
        let mut most = s.oh;
        while most > 1 && !fits(most) {
            most = most.div_ceil(2);
        }
        let mut best: Option<(f64, Self)> = None;
        for split in 1..=threads {
            let filters = s.og.div_ceil(split).next_multiple_of(COLS).min(s.og);
            let parts = s.og.div_ceil(filters);
            let high = most.min(s.oh.div_ceil(threads.div_ceil(parts)));
            let bands = s.oh.div_ceil(high);
            let high = s.oh.div_ceil(bands);
            let copy = Copy::of(s, high).pixels().saturating_mul(s.cg);
            let turns = (s.n * s.groups * bands * parts).div_ceil(threads);
            let sums = (high * s.ow * filters.next_multiple_of(COLS) * s.k) as f64;
            let cost = turns as f64 * (sums + INPUT * copy as f64);
            if best.as_ref().is_none_or(|b| cost < b.0) {
                let plan = Self {
                    high,
                    bands,
                    filters,
                    parts,
                    copy,
                    sums: Self::at_once(s).0.min(high) * Self::at_once(s).1 * WIDE,
                };
                best = Some((cost, plan));
            }
        }
        best.expect("there is a thread").1
    }

    /// Rows and columns of the outputs whose sums are finished together: whole rows, or a piece of
    /// one.
    fn at_once(s: &Sizes) -> (usize, usize) {
        match OUTPUTS / s.ow {
            0 => (1, OUTPUTS),
            high => (high, s.ow),
        }
    }

    /// The floats that a thread needs.
    fn floats(&self) -> usize {
        self.copy.saturating_add(self.sums).next_multiple_of(COLS)
    }
}

/// The inputs of a tile's outputs.
#[derive(Clone, Copy)]
struct Inputs {
    /// The first input of the first output.
    ptr: *const f32,
    /// The distance from one output's inputs to the next one's.
    step: usize,
    /// The number of window rows, and the distance from one to the next.
    rows: (usize, usize),
    /// The same of runs of consecutive inputs in a row.
    runs: (usize, usize),
    /// The inputs of a run.
    deep: usize,
}

/// Sums of `MR` outputs by `NV` vectors of filters, stored [`WIDE`] floats from one output to the
/// next.
///
/// # Safety
/// There are the inputs of as many outputs, weights of the vectors, and room for the sums; the
/// instruction set of `S` is enabled.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the sums out of memory.
unsafe fn tile<S: Simd, const MR: usize, const NV: usize>(a: &Inputs, b: Columns, sums: *mut f32) {
    // SAFETY: the weights have all steps of the window, and the inputs as many.
    unsafe {
        let mut acc = [[S::splat(0.0); NV]; MR];
        let mut at = [b.ptr; NV];
        for (v, at) in at.iter_mut().enumerate() {
            let column = b.lane + v * S::LANES;
            *at = b.ptr.add(column / COLS * b.group + column % COLS);
        }
        let mut inputs = [a.ptr; MR];
        for (i, inputs) in inputs.iter_mut().enumerate() {
            *inputs = inputs.add(i * a.step);
        }
        for row in 0..a.rows.0 {
            for run in 0..a.runs.0 {
                let from = row * a.rows.1 + run * a.runs.1;
                for p in from..from + a.deep {
                    let mut weights = [S::splat(0.0); NV];
                    for v in 0..NV {
                        weights[v] = S::load(at[v]);
                        at[v] = at[v].wrapping_add(b.row);
                    }
                    for i in 0..MR {
                        let x = S::splat(*inputs[i].add(p));
                        for v in 0..NV {
                            acc[i][v] = x.fma(weights[v], acc[i][v]);
                        }
                        // Few registers are left: the next number is loaded when this one is done
                        // with.
                        if MR * NV >= CROWDED && i + 1 < MR {
                            inputs[i + 1] = S::pinned(inputs[i + 1], &mut acc[i][NV - 1]);
                        }
                    }
                }
            }
        }
        for i in 0..MR {
            for v in 0..NV {
                acc[i][v].store(sums.add(i * WIDE + v * S::LANES));
            }
        }
    }
}

/// Outputs of a tile with so many vectors of filters, at most: sums hide each other's latency, and
/// leave registers for the weights and an input.
const fn high<S: Simd>(vectors: usize) -> usize {
    match vectors {
        _ if S::MR >= ROWS => ROWS,
        1 => ROWS,
        2 => 6,
        _ => S::MR,
    }
}

/// The sums of adjacent outputs of a row by some filters, [`WIDE`] at most.
///
/// # Safety
/// As for `tile`, for so many outputs and filters.
#[inline(always)]
unsafe fn row<S: Simd>(outputs: usize, filters: usize, a: &Inputs, b: Columns, sums: *mut f32) {
    let wide = S::NV * S::LANES;
    macro_rules! pick {
        ($rows:expr, $vectors:expr, $a:expr, $b:expr, $to:expr; $($mr:literal)*) => {
            match $rows {
                $($mr => match $vectors {
                    1 => tile::<S, $mr, 1>($a, $b, $to),
                    2 if $mr <= high::<S>(2) => tile::<S, $mr, 2>($a, $b, $to),
                    3 if $mr <= high::<S>(3) => tile::<S, $mr, 3>($a, $b, $to),
                    _ => {}
                },)*
                _ => {}
            }
        };
    }
    let mut j = 0;
    while j < filters {
        let some = even_piece(filters - j, wide, S::LANES).min(filters - j);
        let vectors = some.div_ceil(S::LANES);
        let mut i = 0;
        while i < outputs {
            let rows = even_piece(outputs - i, high::<S>(vectors), 1);
            // SAFETY: the outputs and filters are there, and there is room for their sums.
            unsafe {
                let inputs = Inputs {
                    ptr: a.ptr.add(i * a.step),
                    ..*a
                };
                let (b, to) = (b.from(j), sums.add(i * WIDE + j));
                pick!(rows, vectors, &inputs, b, to; 1 2 3 4 5 6 7 8);
            }
            i += rows;
        }
        j += some;
    }
}

/// Finishes sums of so many consecutive outputs: they are transposed to the lines of their filters.
///
/// # Safety
/// There are the sums, and a place for each in the target.
#[inline(always)]
unsafe fn finish<S: Turning>(outputs: usize, filters: usize, sums: *const f32, target: &Target) {
    for first in (0..filters).step_by(S::LANES) {
        let some = (filters - first).min(S::LANES);
        // SAFETY: the sums are there, of whole vectors of filters, and so are their places.
        unsafe {
            let mut lines = [target.line::<S>(first); MOST];
            for (k, line) in lines.iter_mut().enumerate().take(some).skip(1) {
                *line = target.line::<S>(first + k);
            }
            for i in (0..outputs).step_by(S::LANES) {
                let n = (outputs - i).min(S::LANES);
                let mut square = [S::splat(0.0); MOST];
                for (k, vector) in square.iter_mut().enumerate().take(S::LANES) {
                    *vector = S::load(sums.add((i + k.min(n - 1)) * WIDE + first));
                }
                let square = S::turned(square);
                for (line, &x) in lines.iter().zip(&square).take(some) {
                    line.put(i, x, n);
                }
            }
        }
    }
}

/// Computes a task's outputs from its copy; `sums` has room for those of [`Plan::at_once`].
///
/// # Safety
/// The copy is that of the rows, the weight is packed, and the target has the convolution's sizes.
#[inline(always)]
unsafe fn products<S: Simd>(
    s: &Sizes,
    rows: Range<usize>,
    filters: Range<usize>,
    copy: *const f32,
    weight: *const f32,
    sums: *mut f32,
    target: &Target,
) {
    let line = Copy::of(s, 1).row * s.cg;
    let (high, wide) = Plan::at_once(s);
    // Without dilation the runs of a row of the window are one.
    let (runs, deep) = match s.dw {
        1 => (1, s.kw * s.cg),
        _ => (s.kw, s.cg),
    };
    // The outputs of rows that follow each other in the copy as they do in the result are one row.
    let joined = (s.kh, s.kw, s.sh, s.sw) == (1, 1, 1, 1) && line == s.ow * s.cg;
    let high = even_piece(rows.len(), high, 1);
    for first in filters.clone().step_by(WIDE) {
        let some = WIDE.min(filters.end - first);
        let b = Columns::of(weight.wrapping_add(first * s.k), s.k * COLS, COLS);
        for y in rows.clone().step_by(high) {
            let high = high.min(rows.end - y);
            for x in (0..s.ow).step_by(wide) {
                let wide = wide.min(s.ow - x);
                let (count, outputs) = if joined {
                    (1, high * wide)
                } else {
                    (high, wide)
                };
                // SAFETY: the filters are the weight's, and the outputs those of the copy and the
                // target.
                unsafe {
                    for i in 0..count {
                        let down = (y - rows.start + i) * s.sh;
                        let a = Inputs {
                            ptr: copy.add(down * line + x * s.sw * s.cg),
                            step: s.sw * s.cg,
                            rows: (s.kh, s.dh * line),
                            runs: (runs, s.dw * s.cg),
                            deep,
                        };
                        row::<S>(outputs, some, &a, b, sums.add(i * outputs * WIDE));
                    }
                    let (outputs, sums) = (count * outputs, sums.cast_const());
                    if s.nhwc {
                        let target = target.shift(y * s.ow + x, first);
                        target.finish_rows::<S>(sums, WIDE, (outputs, some));
                        continue;
                    }
                    let target = &target.shift(first, y * s.ow + x);
                    dispatch_turning!(finish(
                        outputs: usize,
                        some: usize,
                        sums: *const f32,
                        target: &Target,
                    ));
                }
            }
        }
    }
}

/// The whole convolution.
///
/// # Safety
/// As for `rx_conv2d_f32`; no size of the output is 0, and `weight` is packed by [`pack`].
pub(super) unsafe fn run(
    context: &mut RxContext,
    v: &RxConv2dF32,
    s: &Sizes,
    weight: *const f32,
) -> i32 {
    let threads = context.pool.threads();
    // Pixels that each read the one at their own place can be divided anywhere.
    let pixels = Sizes {
        h: s.h * s.w,
        w: 1,
        oh: s.h * s.w,
        ow: 1,
        ..*s
    };
    let s = if s.as_it_lies() { &pixels } else { s };
    let plan = Plan::of(s, threads);
    let Some(room) = Scratch::new(context, plan.floats().saturating_mul(threads * 4)) else {
        return context.status;
    };
    let scratch = room.memory.cast::<f32>();
    let tasks = s.n * s.groups * plan.bands * plan.parts;
    let work = s.n * s.o * s.oh * s.ow * s.k;
    let x = v.x;
    // SAFETY: the arrays have the convolution's sizes, and the weight is packed; tasks write
    // disjoint outputs, and each worker has its own copy.
    unsafe {
        let shared = Share::new((v, s, x, weight, scratch));
        let grain = Grain::of_work(SMALL, work / tasks.max(1));
        context.pool.each(tasks, grain, |first, last, worker| {
            let &(v, s, x, weight, scratch) = shared.get();
            let room = scratch.add(worker * plan.floats());
            let mut copied = None;
            for task in first..last {
                let (band, part) = (task / plan.parts, task % plan.parts);
                let (group, image) = (band / plan.bands % s.groups, band / plan.bands / s.groups);
                let begin = band % plan.bands * plan.high;
                let rows = begin..s.oh.min(begin + plan.high);
                let from = part * plan.filters;
                let filters = from..s.og.min(from + plan.filters);
                if rows.is_empty() || filters.is_empty() {
                    continue;
                }
                if copied.replace(band) != Some(band) {
                    let x = x.add(match s.nhwc {
                        true => image * s.h * s.w * s.c + group * s.cg,
                        false => (image * s.c + group * s.cg) * s.h * s.w,
                    });
                    Copy::of(s, rows.len()).fill(s, x, begin, room.add(plan.sums));
                }
                let (sums, copy) = (room, room.add(plan.sums).cast_const());
                let target = &s.target(v, image, group, 0);
                let weight = weight.add(group * packed_group(s));
                dispatch!(products(
                    s: &Sizes,
                    rows: Range<usize>,
                    filters: Range<usize>,
                    copy: *const f32,
                    weight: *const f32,
                    sums: *mut f32,
                    target: &Target,
                ));
            }
        });
    }
    0
}
