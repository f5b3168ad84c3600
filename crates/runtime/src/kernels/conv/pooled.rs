//! A convolution whose output is pooled while it is in the cache.
//!
//! A worker computes the rows of the convolution for a few rows of the pooling at a time, in its
//! own memory, and pools them. Overlapping windows need rows of the previous strip, which are kept:
//! a worker that takes consecutive strips computes each row once. The convolution's output, which
//! in a network's first layer is the largest tensor of all, is never in memory as a whole.

use super::blocks::Blocks;
use super::{RxConv2dF32, Sizes, Way, convolve};
use crate::context::{RxContext, Status};
use crate::kernels::pool_lanes::{self, Channels};
use crate::kernels::pool2d::{RxPool2dF32, channel as pool_channel, pool};
use crate::kernels::scratch::Scratch;
use crate::kernels::simd::dispatch;
use crate::kernels::simd::square::lanes;
use crate::threads::{Grain, Share};
use std::ops::Range;

/// The approximate number of floats of a strip: it stays in the second-level cache beside the
/// unfolded block and the weight.
const STRIP: usize = 64 << 10;
/// The minimum number of strips per thread, to balance the load.
const SHARE: usize = 4;

/// The rows of the convolution that some rows of the pooling read.
fn rows_for(p: &RxPool2dF32, pooled: Range<usize>) -> Range<usize> {
    let inside = |y: i64| y.clamp(0, p.h) as usize;
    let first = pooled.start as i64 * p.stride_h - p.pad_t;
    let last = (pooled.end as i64 - 1) * p.stride_h - p.pad_t + (p.kh - 1) * p.dilation_h;
    let first = inside(first);
    first..inside(last + 1).max(first)
}

/// The partition of the pooling's rows into strips.
#[derive(Clone, Copy)]
struct Strips {
    /// Rows of the pooling per strip.
    each: usize,
    /// Strips per image.
    count: usize,
    /// The capacity of a strip in rows of the convolution.
    high: usize,
}

impl Strips {
    fn of(s: &Sizes, p: &RxPool2dF32, threads: usize) -> Self {
        let rows = p.oh as usize;
        let row = (s.o * s.ow).max(1);
        let overlap = (p.kh - 1) * p.dilation_h;
        let fit = ((STRIP / row) as i64 - overlap) / p.stride_h;
        let share = match threads {
            1 => rows,
            _ => (rows * s.n).div_ceil(threads * SHARE),
        };
        let each = (fit.max(1) as usize).min(share).min(rows);
        Self {
            each,
            count: rows.div_ceil(each),
            high: s.oh.min((each as i64 * p.stride_h + overlap) as usize),
        }
    }

    /// The rows of the pooling in a strip.
    fn rows(&self, p: &RxPool2dF32, strip: usize) -> Range<usize> {
        strip * self.each..((strip + 1) * self.each).min(p.oh as usize)
    }
}

/// The data shared by all strips.
struct Both<'a> {
    v: &'a RxConv2dF32,
    s: Sizes,
    p: &'a RxPool2dF32,
    weight: *const f32,
    strips: Strips,
    blocks: Blocks,
    /// The floats of a worker: the strip, the memory for unfolding, and a padded channel.
    strip: usize,
    unfolded: usize,
    channel: usize,
}

impl Both<'_> {
    /// The pooling of one strip, which holds the rows `rows` of the convolution.
    fn pooling(&self, pooled: &Range<usize>, rows: &Range<usize>) -> RxPool2dF32 {
        RxPool2dF32 {
            h: rows.len() as i64,
            oh: pooled.len() as i64,
            pad_t: self.p.pad_t + rows.start as i64 - pooled.start as i64 * self.p.stride_h,
            ..*self.p
        }
    }

    /// Computes consecutive strips.
    unsafe fn run(&self, tasks: Range<usize>, room: *mut f32) {
        let (s, p) = (&self.s, self.p);
        let plane = self.strips.high * s.ow;
        let mut held = 0..0;
        // SAFETY: the tasks are strips of the output, and `room` has what each needs; a strip has
        // room for the rows that its part of the pooling reads.
        let (unfold_room, channel) = unsafe {
            let unfold_room = room.add(self.strip);
            let channel = unfold_room.add(self.unfolded);
            (unfold_room, channel)
        };
        for task in tasks.clone() {
            let (image, strip) = (task / self.strips.count, task % self.strips.count);
            let pooled = self.strips.rows(p, strip);
            let rows = rows_for(p, pooled.clone());
            if strip == 0 || task == tasks.start {
                held = rows.start..rows.start;
            }
            // The rows of the previous strip that this one reads too.
            let from = held.end.max(rows.start);
            // SAFETY: the tasks are strips of the output, and `room` has what each needs; a strip
            // has room for the rows that its part of the pooling reads.
            unsafe {
                if held.start < rows.start && rows.start < from {
                    let (first, n) = (rows.start - held.start, from - rows.start);
                    for c in 0..s.o {
                        let line = room.add(c * plane);
                        std::ptr::copy(line.add(first * s.ow), line, n * s.ow);
                    }
                }
                if from < rows.end {
                    self.convolve(
                        image,
                        from..rows.end,
                        room.add((from - rows.start) * s.ow),
                        unfold_room,
                    );
                }
            }
            let pooling = self.pooling(&pooled, &rows);
            let to = (p.oh * p.ow) as usize;
            // SAFETY: the tasks are strips of the output, and `room` has what each needs; a strip
            // has room for the rows that its part of the pooling reads.
            let y = unsafe { p.y.add(image * s.o * to + pooled.start * p.ow as usize) };
            // SAFETY: the tasks are strips of the output, and `room` has what each needs; a strip
            // has room for the rows that its part of the pooling reads.
            unsafe {
                self.pool(&pooling, (room, plane), (y, to), channel);
            }
            held = rows;
        }
    }

    /// Pools all channels of a strip, which are `x.1` floats apart, with results `y.1` apart.
    unsafe fn pool(
        &self,
        p: &RxPool2dF32,
        x: (*mut f32, usize),
        y: (*mut f32, usize),
        room: *mut f32,
    ) {
        // SAFETY: the strip has the rows that the pooling reads, and the output those that it
        // writes.
        unsafe {
            if pool_lanes::pays(self.p) {
                for c in (0..self.s.o).step_by(lanes()) {
                    let of = Channels {
                        x: (x.0.add(c * x.1).cast_const(), x.1),
                        y: (y.0.add(c * y.1), y.1),
                        count: lanes().min(self.s.o - c),
                    };
                    pool_lanes::some(p, of, room);
                }
                return;
            }
            p.prepare(room);
            for c in 0..self.s.o {
                let (x, y) = (x.0.add(c * x.1).cast_const(), y.0.add(c * y.1));
                dispatch!(pool_channel(p: &RxPool2dF32, x: *const f32, y: *mut f32, room: *mut f32));
            }
        }
    }

    /// Computes some rows of the convolution of an image, stored from `to` on.
    unsafe fn convolve(&self, image: usize, rows: Range<usize>, to: *mut f32, scratch: *mut f32) {
        // The sizes describe the one image that is read.
        let s = &Sizes {
            n: 1,
            oh: rows.len(),
            pt: self.s.pt - (rows.start * self.s.sh) as isize,
            plane: self.strips.high * self.s.ow,
            ..self.s
        };
        // SAFETY: the rows are the convolution's, and `to` has room for them.
        unsafe {
            let v = &RxConv2dF32 { y: to, ..*self.v };
            let x = self.v.x.add(image * s.c * s.h * s.w);
            for group in 0..s.groups {
                for block in 0.. {
                    let Some(task) = self.blocks.task(s, 0, group, block) else {
                        break;
                    };
                    self.blocks.run(v, s, x, self.weight, task, scratch);
                }
            }
        }
    }
}

/// Strip by strip; the weight is packed for a way that unfolds.
unsafe fn strips(
    context: &mut RxContext,
    v: &RxConv2dF32,
    (s, way): (Sizes, Way),
    p: &RxPool2dF32,
) -> i32 {
    let threads = context.pool.threads();
    let strips = Strips::of(&s, p, threads);
    let blocks = Blocks::of(
        &Sizes {
            oh: strips.high,
            ..s
        },
        way,
        1,
    );
    // The padding of the first and the last strip only reduces the memory needed.
    let pooling = RxPool2dF32 {
        oh: strips.each as i64,
        h: strips.high as i64,
        ..*p
    };
    let channel = match pool_lanes::pays(p) {
        true => pool_lanes::room(&pooling),
        false => pooling.room(),
    };
    let line = |floats: usize| floats.next_multiple_of(16);
    let both = Both {
        v,
        s,
        p,
        weight: v.weight_packed,
        strips,
        blocks,
        strip: line(s.o * strips.high * s.ow),
        unfolded: line(blocks.floats()),
        channel: line(channel),
    };
    let all = both.strip + both.unfolded + both.channel;
    let tasks = s.n * strips.count;
    let work = s.n * s.o * s.oh * s.ow * s.k;
    let Some(rooms) = Scratch::new(context, all * threads * 4) else {
        return context.status;
    };
    let scratch = rooms.memory.cast::<f32>();
    let grain = Grain::of_work(super::SMALL, work / tasks.max(1));
    // SAFETY: the arrays have the sizes of convolution and pooling, and the weight is packed;
    // strips of the output are disjoint.
    unsafe {
        let shared = Share::new((&both, scratch));
        context.pool.each(tasks, grain, |first, last, worker| {
            let &(both, scratch) = shared.get();
            both.run(first..last, scratch.add(worker * all));
        });
    }
    0
}

/// Computes one after the other, through memory.
unsafe fn whole(context: &mut RxContext, v: &RxConv2dF32, p: &RxPool2dF32) -> i32 {
    let Some(between) = Scratch::new(context, (p.n * p.c * p.h * p.w * 4) as usize) else {
        return context.status;
    };
    let y = between.memory.cast::<f32>();
    let conv = RxConv2dF32 { y, ..*v };
    let pooling = RxPool2dF32 { x: y, ..*p };
    // SAFETY: the arrays have the sizes of convolution and pooling, and the scratch memory those
    // between.
    unsafe {
        match convolve(context, &conv) {
            0 => pool(context, &pooling),
            status => status,
        }
    }
}

/// Computes a convolution and a pooling of its output. The convolution's `y` and the pooling's `x`
/// are not read.
///
/// This is done strip by strip with channels first, if the convolution's weight is packed and its
/// image is unfolded (`Way`); otherwise one after the other.
///
/// # Safety
/// As [`convolve`] and [`pool`].
pub unsafe fn convolve_and_pool(context: &mut RxContext, v: &RxConv2dF32, p: &RxPool2dF32) -> i32 {
    // SAFETY: the arrays have the sizes that the descriptors say.
    unsafe {
        let same = (p.n, p.c, p.h, p.w, p.layout)
            == (v.sizes.n, v.sizes.o, v.sizes.oh, v.sizes.ow, v.layout);
        let sizes = Sizes::of(&v.sizes, v.layout).filter(|_| same && p.fits());
        let Some(s) = sizes else {
            let text = "rx_conv2d_pool2d_f32: sizes that are no convolution with pooling";
            return context.fail(Status::Argument, text);
        };
        if s.n * s.o == 0 || p.oh <= 0 || p.ow <= 0 {
            return 0;
        }
        let plain = v.epilogue.residual.is_null() && !v.weight_packed.is_null();
        let some = s.oh * s.ow > 0 && p.kh > 0;
        if !s.nhwc && plain && some {
            let way = s.way();
            if matches!(way, Way::Unfold | Way::Pointwise | Way::Rows) {
                return strips(context, v, (s, way), p);
            }
        }
        whole(context, v, p)
    }
}
