//! Transposed convolution: each input pixel is scattered over a window of the output.
//!
//! The contributions of all pixels of some rows are a matrix product, (filters × window, channels)
//! by (channels, pixels), whose right operand is the image in place; each line of it, a window
//! position for all pixels, is then added to the output. The number of rows is chosen so that the
//! product fits in the second-level cache.

use super::{RxConv2dF32, SMALL, Sizes};
use crate::context::{RxContext, Status};
use crate::kernels::gemm::epilogue::Target;
use crate::kernels::gemm::tile::ROWS;
use crate::kernels::gemm::{RxGemmF32, Way, serial};
use crate::kernels::scratch::Scratch;
use crate::kernels::simd::{Simd, dispatch};
use crate::threads::{Grain, Share};
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
    /// Room for what they add to a plane, and around it: [`Piece::area`].
    area: *mut f32,
    /// The first of the group's planes in the output.
    y: *mut f32,
}

impl Piece {
    /// The rows and columns that windows over so many rows of the input reach, also outside of the
    /// output.
    fn area(s: &Sizes, rows: usize) -> (usize, usize) {
        let reach = |n: usize, step: usize, taps: usize, apart: usize| {
            n.saturating_sub(1) * step + taps.saturating_sub(1) * apart + 1
        };
        (reach(rows, s.sh, s.kh, s.dh), reach(s.w, s.sw, s.kw, s.dw))
    }
}

/// Adds the contributions of a piece to its planes of the output: plane by plane to the area around,
/// where no pixel at an edge is an exception, and what lies in the output to that.
///
/// # Safety
/// The piece has the sums of its rows for so many planes, which are its own, and the room.
#[inline(always)]
unsafe fn gather<S: Simd>(s: &Sizes, piece: &Piece, planes: usize) {
    let (high, wide) = Piece::area(s, piece.to - piece.from);
    let pixels = (piece.to - piece.from) * s.w;
    // The part of the area that lies in the output.
    let inside = |pad: isize, first: usize, out: usize, size: usize| {
        let begin = pad.saturating_sub_unsigned(first).max(0).unsigned_abs();
        let end = (out as isize + pad).saturating_sub_unsigned(first);
        begin..end.clamp(0, size as isize).unsigned_abs()
    };
    let rows = inside(s.pt, piece.from * s.sh, s.oh, high);
    let columns = inside(s.pl, 0, s.ow, wide);
    for o in 0..planes {
        // SAFETY: the area has the place of every pixel's every window position, and the ranges are
        // those of it that are in the output.
        unsafe {
            std::ptr::write_bytes(piece.area, 0, high * wide);
            let spread = piece.spread.add(o * s.kh * s.kw * pixels);
            let mut column = 0;
            while column < s.kw {
                // With a step of two, the places under two columns of the window take turns.
                let both = (s.sw, s.dw) == (2, 1) && column + 1 < s.kw;
                for row in 0..s.kh {
                    let mut from = spread.add((row * s.kw + column) * pixels);
                    let mut to = piece.area.add(row * s.dh * wide + column * s.dw);
                    for _ in piece.from..piece.to {
                        match both {
                            true => add_twos::<S>([from, from.add(pixels)], s.w, to),
                            false => add_line::<S>(from, s.w, (to, s.sw)),
                        }
                        (from, to) = (from.add(s.w), to.wrapping_add(s.sh * wide));
                    }
                }
                column += 1 + usize::from(both);
            }
        }
        let (above, left) = (
            (piece.from * s.sh + rows.start).saturating_add_signed(-s.pt),
            columns.start.saturating_add_signed(-s.pl),
        );
        for (k, row) in rows.clone().enumerate() {
            // SAFETY: the row lies in the area and in the output.
            unsafe {
                let from = piece.area.add(row * wide + columns.start);
                let y = piece.y.add((o * s.oh + above + k) * s.ow + left);
                add_line::<S>(from, columns.len(), (y, 1));
            }
        }
    }
}

/// Adds numbers to those of a line that are `step` apart.
///
/// # Safety
/// There are as many of both.
#[inline(always)]
unsafe fn add_line<S: Simd>(from: *const f32, count: usize, (to, step): (*mut f32, usize)) {
    // SAFETY: as the caller promises.
    unsafe {
        if step > 1 {
            for i in 0..count {
                *to.add(i * step) += *from.add(i);
            }
            return;
        }
        for i in (0..count).step_by(S::LANES) {
            let n = (count - i).min(S::LANES);
            let sum = S::load_part(to.add(i), n).add(S::load_part(from.add(i), n));
            sum.store_part(to.add(i), n);
        }
    }
}

/// Adds the numbers of two lines, which take turns, to twice as many.
///
/// # Safety
/// There are as many of each.
#[inline(always)]
unsafe fn add_twos<S: Simd>(from: [*const f32; 2], count: usize, to: *mut f32) {
    for i in (0..count).step_by(S::LANES) {
        let n = (count - i).min(S::LANES);
        // SAFETY: as the caller promises.
        unsafe {
            let [a, b] = from.map(|from| from.add(i));
            let (near, far) = S::zip(S::load_part(a, n), S::load_part(b, n));
            let (to, part) = (to.add(2 * i), (2 * n).min(S::LANES));
            S::load_part(to, part).add(near).store_part(to, part);
            if 2 * n > S::LANES {
                let (to, part) = (to.add(S::LANES), 2 * n - S::LANES);
                S::load_part(to, part).add(far).store_part(to, part);
            }
        }
    }
}

/// Scales, adds and bounds some planes of the output.
///
/// # Safety
/// The target begins at the first of these planes, which have so many pixels.
#[inline(always)]
unsafe fn finish<S: Simd>(target: &Target, planes: usize, pixels: usize) {
    for plane in 0..planes {
        // SAFETY: the plane is the target's; sums are read before they are overwritten.
        unsafe {
            let line = target.line::<S>(plane);
            let sums = target.c.add(plane * target.ld);
            for i in (0..pixels).step_by(S::LANES) {
                let n = (pixels - i).min(S::LANES);
                line.put(i, S::load_part(sums.add(i), n), n);
            }
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

    /// Floats of the contributions of a piece, and of the area that it is added to.
    fn rooms(&self, s: &Sizes) -> [usize; 2] {
        let (high, wide) = Piece::area(s, self.rows);
        let spread = self.rows * s.w * self.filters * s.kh * s.kw;
        [spread, high * wide].map(|floats| floats.next_multiple_of(16))
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
    // memory has room for a piece, its area and its product.
    unsafe {
        let y = v.y.add(first * pixels);
        std::ptr::write_bytes(y, 0, at.count * pixels);
        let [spread, area] = plan.rooms(s);
        let mut from = 0;
        while from < s.h && s.w > 0 && s.cg > 0 {
            let to = (from + plan.rows).min(s.h);
            let g = product(v, s, at, from..to, scratch);
            serial(&g, plan.way, scratch.add(spread + area));
            let piece = Piece {
                from,
                to,
                spread: scratch,
                area: scratch.add(spread),
                y,
            };
            let (piece, planes) = (&piece, at.count);
            dispatch!(gather(s: &Sizes, piece: &Piece, planes: usize));
            from = to;
        }
        if !v.epilogue.none() {
            let target = &s.target(v, at.image, at.group, 0).shift(at.first, 0);
            let planes = at.count;
            dispatch!(finish(target: &Target, planes: usize, pixels: usize));
        }
    }
}

unsafe fn run(context: &mut RxContext, v: &RxConv2dF32, s: &Sizes) -> i32 {
    let threads = context.pool.threads();
    let plan = Plan::of(v, s, threads);
    let each = (plan.rooms(s).iter().sum::<usize>() + plan.room).next_multiple_of(16);
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
