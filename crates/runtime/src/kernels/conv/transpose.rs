//! Transposed convolution: each input pixel is scattered over a window of the output.
//!
//! The contributions of all pixels of some rows are a matrix product, (filters × window, channels)
//! by (channels, pixels), whose right operand is the image in place; each line of it, a window
//! position for all pixels, is then added to the output. The number of rows is chosen so that the
//! product fits in the second-level cache.

use super::{RxConv2dF32, SMALL, Sizes};
use crate::context::{RxContext, Status};
use crate::kernels::gemm::tile::ROWS;
use crate::kernels::gemm::{RxGemmF32, Way, serial};
use crate::kernels::scratch::Scratch;
use crate::threads::{Grain, Share};
use half::f16;
use std::ops::Range;
use std::ptr::{null, null_mut};

/// The approximate number of floats that are scattered at a time.
const ROOM: usize = 1 << 18;

/// A piece of the input: rows `[from, to)` of a group of an image.
#[derive(Clone, Copy)]
struct Piece {
    from: usize,
    to: usize,
    /// The contributions of its pixels: by filter, then by window position, then by pixel.
    spread: *const f32,
    /// The first of the group's planes in the output.
    y: *mut f32,
}

impl Sizes {
    /// Returns the columns of the input whose place under a column of the window is in the output,
    /// and the place of the first.
    fn columns(&self, column: usize) -> (Range<usize>, isize) {
        let left = (column * self.dw) as isize - self.pl;
        let up = |n: isize| n.max(0).unsigned_abs().div_ceil(self.sw);
        let (first, end) = (up(-left), up(self.ow as isize - left).min(self.w));
        (first..end, left + (first * self.sw) as isize)
    }

    /// Adds the contributions of a piece to some planes of the output.
    unsafe fn gather(&self, piece: &Piece, planes: Range<usize>) {
        let taps = self.kh * self.kw;
        let pixels = (piece.to - piece.from) * self.w;
        let (oh, ow) = (self.oh as isize, self.ow as isize);
        for column in 0..self.kw {
            let (columns, left) = self.columns(column);
            if columns.is_empty() {
                continue;
            }
            for (o, row) in planes
                .clone()
                .flat_map(|o| (0..self.kh).map(move |y| (o, y)))
            {
                let line = (o * taps + row * self.kw + column) * pixels + columns.start;
                for iy in piece.from..piece.to {
                    let oy = (iy * self.sh + row * self.dh) as isize - self.pt;
                    if oy < 0 || oy >= oh {
                        continue;
                    }
                    // SAFETY: the piece has the sums of rows `from..to`; `columns` and the test of
                    // `oy` leave out positions outside of the output.
                    unsafe {
                        let from = piece.spread.add(line + (iy - piece.from) * self.w);
                        let to = piece.y.offset((o as isize * oh + oy) * ow + left);
                        if self.sw == 1 {
                            for i in 0..columns.len() {
                                *to.add(i) += *from.add(i);
                            }
                        } else {
                            for i in 0..columns.len() {
                                *to.add(i * self.sw) += *from.add(i);
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Scales, adds and bounds a plane of the output.
unsafe fn finish(v: &RxConv2dF32, pixels: usize, channel: usize, plane: usize) {
    let e = &v.epilogue;
    let bounds = e.bounds();
    let number = |from: *const f32| {
        // SAFETY: what there is has a number for each channel.
        (!from.is_null()).then(|| unsafe { *from.add(channel) })
    };
    let [offset, scale, bias] = [e.offset, e.scale, e.bias].map(number);
    for i in 0..pixels {
        // SAFETY: scale and bias have a number for each channel, the residual the output's form.
        let (y, mut x) = unsafe {
            let y = v.y.add(plane * pixels + i);
            let x = *y;
            (y, x)
        };
        if let Some(offset) = offset {
            x += offset;
        }
        if let Some(scale) = scale {
            x *= scale;
        }
        if let Some(bias) = bias {
            x += bias;
        }
        // SAFETY: scale and bias have a number for each channel, the residual the output's form.
        unsafe {
            if !e.residual.is_null() {
                x += *e.residual.add(plane * pixels + i);
            }
        }
        if let Some(bounds) = bounds {
            x = bounds.of(x);
        }
        if e.rounds() {
            x = f16::from_f32(x).to_f32();
        }
        // SAFETY: scale and bias have a number for each channel, the residual the output's form.
        unsafe {
            *y = x;
        }
    }
}

/// What a task computes: the filters of a group of an image from `first` on.
#[derive(Clone, Copy)]
struct Filters {
    image: usize,
    group: usize,
    first: usize,
    count: usize,
}

/// How the work is divided.
#[derive(Clone, Copy)]
struct Plan {
    /// Filters of a task.
    filters: usize,
    /// Rows of the input that are scattered at a time. They decide in which order numbers are
    /// added, so they do not depend on the number of threads.
    rows: usize,
    /// How products are computed, and the floats that one needs.
    way: Way,
    room: usize,
}

impl Plan {
    fn of(v: &RxConv2dF32, s: &Sizes, threads: usize) -> Self {
        let taps = s.kh * s.kw;
        let rows = (ROOM / (s.w * s.og * taps).max(1)).clamp(1, s.h.max(1));
        // A part of a packed weight begins at a panel.
        let panel = (1..ROWS)
            .find(|n| (n * taps).is_multiple_of(ROWS))
            .unwrap_or(ROWS);
        let parts = threads.div_ceil((s.n * s.groups).max(1));
        let filters = s.og.div_ceil(parts).next_multiple_of(panel).min(s.og);
        let all = Filters {
            image: 0,
            group: 0,
            first: 0,
            count: s.og,
        };
        let whole = product(v, s, all, 0..rows, null_mut());
        let way = whole.way();
        let part = RxGemmF32 {
            m: (filters * taps) as i64,
            ..whole
        };
        let (a, b) = part.scratch(way);
        Self {
            filters,
            rows,
            way,
            room: a + b,
        }
    }

    /// Floats of the contributions of a piece.
    fn spread(&self, s: &Sizes) -> usize {
        self.rows * s.w * self.filters * s.kh * s.kw
    }
}

/// The contributions of some rows of the input to a task's filters.
fn product(v: &RxConv2dF32, s: &Sizes, of: Filters, rows: Range<usize>, c: *mut f32) -> RxGemmF32 {
    let taps = s.kh * s.kw;
    let first = (of.image * s.c + of.group * s.cg) * s.h * s.w + rows.start * s.w;
    let a_packed = if v.weight_packed.is_null() {
        null()
    } else {
        v.weight_packed.wrapping_add(of.first * taps * s.cg)
    };
    RxGemmF32 {
        m: (of.count * taps) as i64,
        n: (rows.len() * s.w) as i64,
        k: s.cg as i64,
        a: (v.weight).wrapping_add((of.group * s.cg * s.og + of.first) * taps),
        a_rs: 1,
        a_cs: (s.og * taps) as i64,
        a_packed,
        b: v.x.wrapping_add(first),
        b_rs: (s.h * s.w) as i64,
        b_cs: 1,
        c,
        c_ld: (rows.len() * s.w) as i64,
        ..Default::default()
    }
}

/// Computes some filters' planes of the output.
///
/// # Safety
/// Like `rx_conv2d_transpose_f32`; `scratch` has what the plan says for a piece and a product.
unsafe fn task(v: &RxConv2dF32, s: &Sizes, plan: &Plan, at: Filters, scratch: *mut f32) {
    let pixels = s.oh * s.ow;
    let first = at.image * s.o + at.group * s.og + at.first;
    // SAFETY: the arrays have the convolution's sizes; the planes are this task's, and the scratch
    // memory has room for a piece and then for its product.
    unsafe {
        let y = v.y.add(first * pixels);
        std::ptr::write_bytes(y, 0, at.count * pixels);
        let mut from = 0;
        while from < s.h && s.w > 0 && s.cg > 0 {
            let to = (from + plan.rows).min(s.h);
            let g = product(v, s, at, from..to, scratch);
            serial(&g, plan.way, scratch.add(plan.spread(s)));
            let piece = Piece {
                from,
                to,
                spread: scratch,
                y,
            };
            s.gather(&piece, 0..at.count);
            from = to;
        }
        if !v.epilogue.none() {
            for plane in first..first + at.count {
                finish(v, pixels, plane % s.o, plane);
            }
        }
    }
}

unsafe fn run(context: &mut RxContext, v: &RxConv2dF32, s: &Sizes) -> i32 {
    let threads = context.pool.threads();
    let plan = Plan::of(v, s, threads);
    let each = (plan.spread(s) + plan.room).next_multiple_of(16);
    let Some(scratch) = Scratch::new(context, each.saturating_mul(4 * threads)) else {
        return context.status;
    };
    let parts = s.og.div_ceil(plan.filters.max(1));
    let tasks = s.n * s.groups * parts;
    let work = s.n * s.c * s.h * s.w * s.og * s.kh * s.kw;
    let grain = Grain::of_work(SMALL, work / tasks.max(1));
    // SAFETY: tasks write planes of their own, and a worker has its own memory.
    unsafe {
        let shared = Share::new((v, s, &plan, scratch.memory.cast::<f32>()));
        context.pool.each(tasks, grain, |begin, end, worker| {
            let &(v, s, plan, memory) = shared.get();
            for i in begin..end {
                let (part, rest) = (i % parts, i / parts);
                let first = part * plan.filters;
                let at = Filters {
                    image: rest / s.groups,
                    group: rest % s.groups,
                    first,
                    count: plan.filters.min(s.og - first),
                };
                task(v, s, plan, at, memory.add(worker * each));
            }
        });
    }
    0
}

/// Computes a transposed convolution: the descriptor of a convolution with the weight as (c, o /
/// groups, kh, kw), channels first. `weight_packed`, with one group, is from `rx_pack_a_f32` with m
/// = o × kh × kw, k = c and strides 1 and m.
///
/// # Safety
/// The arrays are as large as the sizes say, and the output overlaps only the residual.
pub unsafe fn convolve(context: &mut RxContext, v: &RxConv2dF32) -> i32 {
    // SAFETY: the arrays have the sizes that the descriptor says.
    unsafe {
        let fits = |s: &Sizes| !s.nhwc && (s.groups == 1 || v.weight_packed.is_null());
        let Some(s) = Sizes::of(&v.sizes, v.layout).filter(fits) else {
            let text = "rx_conv2d_transpose_f32: sizes that are no transposed convolution";
            return context.fail(Status::Argument, text);
        };
        if s.n * s.o * s.oh * s.ow == 0 {
            return 0;
        }
        run(context, v, &s)
    }
}
