//! Convolutions whose windows lie in the padding for the most part: each position of the window only
//! where it meets the image.
//!
//! A dilated window is often larger than the image: all but one of the 9 positions of a 3 by 3 window
//! with a dilation of 36 read nothing but zeros on an image of 32 by 32, and with one of 24 the outer
//! ones meet a quarter of each axis. Here the output is divided into rectangles whose pixels meet the
//! image at the same positions, and each is the sum of the products of these. Nothing is padded: all
//! inputs lie in the image. The weight is packed position by position, as for `rows.rs`, so that
//! neighbouring positions are a piece of the common axis.

use super::{KC, RxConv2dF32, SMALL, Sizes, rows};
use crate::context::RxContext;
use crate::kernels::gemm::epilogue::Target;
use crate::kernels::gemm::tile::{COLS, Columns, ROWS};
use crate::kernels::gemm::{self, even_piece};
use crate::kernels::scratch::Scratch;
use crate::kernels::simd::{Simd, dispatch};
use crate::threads::{Grain, Share};
use std::ops::Range;

/// A multiplication of a product, in those of one lane of a tile: see `ways.rs`.
const PRODUCT: f64 = 1.1;
/// What a run of up to 16 neighbouring pixels costs, for a channel and a position.
const RUN: f64 = 170.0;
/// What it costs to take a sum to its place from memory.
const PLACE: f64 = 60.0;
/// The share of another way's cost that this one has at most where it is taken: narrow rectangles
/// fill tiles poorly.
pub(super) const WORTH: f64 = 0.75;
/// The positions of a window along one axis, at most.
const LONG: usize = 8;
/// Pixels of a task, at most.
const PIXELS: usize = 192;

/// Consecutive outputs along one axis that meet the image at the same positions of the window.
#[derive(Clone, Default)]
struct Band {
    outputs: Range<usize>,
    positions: Range<usize>,
}

/// The bands of an axis.
struct Bands {
    all: [Band; 2 * LONG],
    count: usize,
}

impl Bands {
    /// `None` where there are too many positions.
    fn of(
        (image, output, window): (usize, usize, usize),
        (step, dilation, pad): (usize, usize, isize),
    ) -> Option<Self> {
        if window == 0 || window > LONG {
            return None;
        }
        let mut bands = Self {
            all: Default::default(),
            count: 0,
        };
        for at in 0..output {
            let first = (at * step) as isize - pad;
            let inside = |k: &usize| {
                let input = first + (k * dilation) as isize;
                input >= 0 && (input as usize) < image
            };
            let start = (0..window).find(inside).unwrap_or(0);
            let met = (start..window).take_while(inside).count();
            let positions = start..start + met;
            match bands.all[..bands.count].last_mut() {
                Some(last) if last.positions == positions => last.outputs.end = at + 1,
                _ => {
                    // Each begins or ends the meetings of a position.
                    *bands.all.get_mut(bands.count)? = Band {
                        outputs: at..at + 1,
                        positions,
                    };
                    bands.count += 1;
                }
            }
        }
        Some(bands)
    }

    fn iter(&self) -> impl Iterator<Item = &Band> {
        self.all[..self.count].iter()
    }
}

/// Pixels of one group of one image that meet the image at the same positions, and some filters.
#[derive(Clone, Default)]
struct Task {
    down: Band,
    right: Band,
    filter: usize,
    filters: usize,
}

/// The division of the work of a group of an image.
struct Tasks {
    down: Bands,
    right: Bands,
    /// Filters of a task.
    filters: usize,
    /// Parts of the filters.
    parts: usize,
}

/// The rows and columns of a rectangle's pieces, of so many pixels at most.
fn piece(down: &Band, right: &Band) -> (usize, usize) {
    let even = |n: usize, most: usize| n.div_ceil(n.div_ceil(most.max(1)));
    let wide = even(right.outputs.len(), PIXELS);
    (even(down.outputs.len(), PIXELS / wide), wide)
}

impl Tasks {
    fn of(s: &Sizes) -> Option<Self> {
        Some(Self {
            down: Bands::of((s.h, s.oh, s.kh), (s.sh, s.dh, s.pt))?,
            right: Bands::of((s.w, s.ow, s.kw), (s.sw, s.dw, s.pl))?,
            filters: s.og,
            parts: 1,
        })
    }

    /// Divides the filters, too, where the rectangles are few for so many threads.
    fn shared(mut self, s: &Sizes, threads: usize) -> Self {
        let pieces = self.count() * s.n * s.groups;
        if threads > 1 {
            let parts = (4 * threads).div_ceil(pieces.max(1));
            self.filters = s.og.div_ceil(parts).next_multiple_of(ROWS).min(s.og);
            self.parts = s.og.div_ceil(self.filters);
        }
        self
    }

    /// The pieces of all rectangles, with the number of each one's first task.
    fn pieces(&self) -> impl Iterator<Item = (&Band, &Band, usize)> {
        let pairs = (self.down.iter()).flat_map(|down| self.right.iter().map(move |r| (down, r)));
        pairs.scan(0, |first, (down, right)| {
            let (high, wide) = piece(down, right);
            let own = *first;
            *first += down.outputs.len().div_ceil(high) * right.outputs.len().div_ceil(wide);
            Some((down, right, own))
        })
    }

    /// The number of pieces.
    fn count(&self) -> usize {
        self.pieces().last().map_or(0, |(down, right, first)| {
            let (high, wide) = piece(down, right);
            first + down.outputs.len().div_ceil(high) * right.outputs.len().div_ceil(wide)
        })
    }

    /// The task of a number.
    fn task(&self, s: &Sizes, number: usize) -> Option<Task> {
        let (at, part) = (number / self.parts, number % self.parts);
        let (down, right, first) = self.pieces().take_while(|p| p.2 <= at).last()?;
        let (high, wide) = piece(down, right);
        let along = right.outputs.len().div_ceil(wide);
        let (row, column) = ((at - first) / along, (at - first) % along);
        let cut = |band: &Band, k: usize, size: usize| {
            let start = band.outputs.start + k * size;
            Band {
                outputs: start..(start + size).min(band.outputs.end),
                positions: band.positions.clone(),
            }
        };
        let filter = part * self.filters;
        Some(Task {
            down: cut(down, row, high),
            right: cut(right, column, wide),
            filter,
            filters: self.filters.min(s.og - filter),
        })
    }
}

/// Returns whether a convolution with channels first can go this way.
pub(super) fn can(s: &Sizes) -> bool {
    Tasks::of(s).is_some()
}

/// The cost of an image by this way with vectors of so many lanes; infinite where it cannot go it.
/// Channels are first.
pub(super) fn cost(s: &Sizes, lanes: usize) -> f64 {
    // Without dilation a window seldom lies in the padding, and what it costs to see that is saved.
    if (s.dh, s.dw) == (1, 1) {
        return f64::INFINITY;
    }
    let Some(tasks) = Tasks::of(s) else {
        return f64::INFINITY;
    };
    let mut sum = PLACE * (s.o * s.oh * s.ow) as f64;
    for (down, right, _) in tasks.pieces() {
        let (high, wide) = (down.outputs.len(), right.outputs.len());
        let deep = down.positions.len() * right.positions.len() * s.c;
        let products = (high * wide).next_multiple_of(lanes) * s.og.next_multiple_of(4);
        let runs = high * wide.div_ceil(COLS);
        sum += deep as f64 * (PRODUCT * products as f64 + RUN * runs as f64);
    }
    sum
}

/// The floats of a thread's panels, and those of its sums.
fn room(s: &Sizes, tasks: &Tasks) -> (usize, usize) {
    let pixels = PIXELS.next_multiple_of(COLS);
    let deep = (s.kw * s.cg).min(KC);
    (pixels * deep, tasks.filters * pixels)
}

/// Packs the inputs of a task's pixels for a piece of the common axis, which begins at a position's
/// channel: panels of 16 pixels.
///
/// # Safety
/// `x` are the group's channels; `out` has room for the panels.
#[inline(always)]
unsafe fn columns<S: Simd>(
    s: &Sizes,
    x: *const f32,
    task: &Task,
    (ky, common): (usize, Range<usize>),
    out: *mut f32,
) {
    let (plane, deep) = (s.h * s.w, common.len());
    let wide = task.right.outputs.len();
    for (row, oy) in task.down.outputs.clone().enumerate() {
        let y = ((oy * s.sh + ky * s.dh) as isize - s.pt) as usize;
        let (mut column, mut p) = (0, row * wide);
        while column < wide {
            let n = (COLS - p % COLS).min(wide - column);
            let ox = task.right.outputs.start + column;
            // SAFETY: all positions of the task's pixels lie in the image, and their panels in
            // `out`.
            let to = unsafe { out.add(p / COLS * COLS * deep + p % COLS) };
            for (k, at) in common.clone().enumerate() {
                let (kx, c) = (at / s.cg, at % s.cg);
                let left = ((ox * s.sw + kx * s.dw) as isize - s.pl) as usize;
                // SAFETY: all positions of the task's pixels lie in the image, and their panels in
                // `out`.
                let (from, to) = unsafe { (x.add(c * plane + y * s.w + left), to.add(k * COLS)) };
                // SAFETY: all positions of the task's pixels lie in the image, and their panels in
                // `out`.
                unsafe {
                    if s.sw == 1 {
                        for lane in (0..n).step_by(S::LANES) {
                            let n = (n - lane).min(S::LANES);
                            S::load_part(from.add(lane), n).store_part(to.add(lane), n);
                        }
                    } else {
                        for i in 0..n {
                            *to.add(i) = *from.add(i * s.sw);
                        }
                    }
                }
            }
            column += n;
            p += n;
        }
    }
}

/// Computes a task's pixels.
///
/// # Safety
/// As for `rx_conv2d_f32`, with a task of this convolution and room for [`room`].
#[inline(always)]
unsafe fn rectangle<S: Simd>(
    v: &RxConv2dF32,
    s: &Sizes,
    (image, group): (usize, usize),
    task: &Task,
    weight: *const f32,
    scratch: *mut f32,
    panels: usize,
) {
    let (high, wide) = (task.down.outputs.len(), task.right.outputs.len());
    let pixels = high * wide;
    let ld = pixels.next_multiple_of(COLS);
    // SAFETY: the arrays have the convolution's sizes, and `scratch` what `room` says.
    let (sums, x, weight) = unsafe {
        (
            scratch.add(panels),
            v.x.add((image * s.c + group * s.cg) * s.h * s.w),
            weight.add(group * s.packed_group() + task.filter * s.k),
        )
    };
    let mut to = Target {
        c: sums,
        ld,
        accumulate: false,
        epilogue: None,
    };
    // SAFETY: the arrays have the convolution's sizes, and `scratch` what `room` says.
    unsafe {
        for ky in task.down.positions.clone() {
            let row = task.right.positions.start * s.cg..task.right.positions.end * s.cg;
            let mut at = row.start;
            while at < row.end {
                let deep = even_piece(row.end - at, KC, 1);
                columns::<S>(s, x, task, (ky, at..at + deep), scratch);
                let a = weight.add((ky * s.kw * s.cg + at) * ROWS);
                let b = Columns::of(scratch, deep * COLS, COLS);
                gemm::block(task.filters, pixels, deep, a, s.k * ROWS, b, &to);
                to.accumulate = true;
                at += deep;
            }
        }
        if !to.accumulate {
            std::ptr::write_bytes(sums, 0, task.filters * ld);
        }
    }
    let first = task.down.outputs.start * s.ow + task.right.outputs.start;
    // SAFETY: the arrays have the convolution's sizes, and `scratch` what `room` says.
    let target = unsafe { s.target(v, image, group, first).shift(task.filter, 0) };
    // SAFETY: the arrays have the convolution's sizes, and `scratch` what `room` says.
    unsafe {
        rows::place::<S>(&target, sums, (task.filters, ld), (high, wide, s.ow), wide);
    }
}

/// The whole convolution.
///
/// # Safety
/// As for `rx_conv2d_f32`; no size of the output is 0, and `weight` is packed position by position.
pub(super) unsafe fn run(
    context: &mut RxContext,
    v: &RxConv2dF32,
    s: &Sizes,
    weight: *const f32,
) -> i32 {
    let threads = context.pool.threads();
    let Some(tasks) = Tasks::of(s) else {
        return 0;
    };
    let tasks = tasks.shared(s, threads);
    let (panels, sums) = room(s, &tasks);
    let Some(rooms) = Scratch::new(context, (panels + sums) * threads * 4) else {
        return context.status;
    };
    let scratch = rooms.memory.cast::<f32>();
    let each = tasks.count() * tasks.parts;
    let work = s.n * s.o * s.oh * s.ow * s.k;
    let all = each * s.n * s.groups;
    // SAFETY: threads take tasks of their own, which write disjoint places.
    let shared = unsafe { Share::new((v, s, &tasks, weight, scratch)) };
    let grain = Grain::of_work(SMALL, work / all.max(1));
    context.pool.each(all, grain, |first, last, worker| {
        // SAFETY: the arrays have the convolution's sizes, and the weight is packed for this way;
        // tasks write disjoint pixels and filters, each thread in its own scratch memory.
        unsafe {
            let &(v, s, tasks, weight, scratch) = shared.get();
            let scratch = scratch.add(worker * (panels + sums));
            for i in first..last {
                let Some(task) = tasks.task(s, i % each) else {
                    continue;
                };
                let (place, task) = ((i / each / s.groups, i / each % s.groups), &task);
                dispatch!(rectangle(
                    v: &RxConv2dF32,
                    s: &Sizes,
                    place: (usize, usize),
                    task: &Task,
                    weight: *const f32,
                    scratch: *mut f32,
                    panels: usize,
                ));
            }
        }
    });
    0
}
