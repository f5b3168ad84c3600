//! Pooling of small images with channels along vectors: rows shorter than a few vectors are
//! transposed first.

use crate::context::RxContext;
use crate::kernels::pool2d::{RxPool2dF32, inside, take};
use crate::kernels::scratch::Scratch;
use crate::kernels::simd::square::{Turning, dispatch_turning, gather, lanes, scatter};
use crate::kernels::simd::{Isa, isa};
use crate::threads::{Grain, Share};
use std::ptr::null;

/// The maximum number of output columns for which transposing is faster.
const NARROW: i64 = 24;
/// The maximum number of pixels of an image that fits the second-level cache.
const PIXELS: i64 = 64 * 64;
/// The minimum number of input elements per thread.
const GRAIN: usize = 32 << 10;

/// Returns whether an image is small enough.
pub(super) fn pays(p: &RxPool2dF32) -> bool {
    // Rows that fill three quarters of a long vector are computed along them.
    let full = isa() == Isa::Avx512 && (12..=16).contains(&p.ow);
    p.ow <= NARROW
        && p.ow % 8 != 0
        && !full
        && p.h.saturating_mul(p.w) <= PIXELS
        && p.oh <= PIXELS
        && p.c > 3
}

/// The input and output of some channels, at most [`lanes`] of them, with the distances between
/// channels.
#[derive(Clone, Copy)]
pub(super) struct Channels {
    pub x: (*const f32, usize),
    pub y: (*mut f32, usize),
    pub count: usize,
}

/// Floats of memory that [`some`] needs.
pub(super) fn room(p: &RxPool2dF32) -> usize {
    let pixels = p.h.max(0).saturating_mul(p.w.max(0));
    (pixels.saturating_add(p.oh * p.ow) as usize).saturating_mul(lanes())
}

/// Pools some channels.
///
/// # Safety
/// The channels have the sizes of `p`, for which this pays, and `memory` has its [`room`].
pub(super) unsafe fn some(p: &RxPool2dF32, of: Channels, memory: *mut f32) {
    // SAFETY: the channels lie in image and output, and `memory` has what `room` says.
    unsafe { dispatch_turning!(channels(p: &RxPool2dF32, of: Channels, memory: *mut f32)) };
}

#[inline(always)]
unsafe fn channels<S: Turning>(p: &RxPool2dF32, of: Channels, room: *mut f32) {
    let (plane, pixels) = ((p.h * p.w) as usize, (p.oh * p.ow) as usize);
    let mut columns = [(0i64, 0i64, 0i64); NARROW as usize];
    for (ox, part) in columns.iter_mut().enumerate().take(p.ow as usize) {
        let left = ox as i64 * p.stride_w - p.pad_l;
        let (begin, end) = inside(left, p.dilation_w, p.kw, p.w);
        *part = (begin, end, p.columns(ox as i64));
    }
    // SAFETY: the channels lie in image and output; `room` has a vector for each pixel of both
    // images.
    let sums = unsafe { room.add(plane * S::LANES) };
    // SAFETY: the channels lie in image and output; `room` has a vector for each pixel of both
    // images.
    unsafe {
        gather::<S>(of.x.0, of.x.1, of.count, plane, |pixel| {
            Some(room.add(pixel * S::LANES))
        });
    }
    let mut to = sums;
    for oy in 0..p.oh {
        let y0 = oy * p.stride_h - p.pad_t;
        let (top, bottom) = inside(y0, p.dilation_h, p.kh, p.h);
        let rows = p.rows(oy);
        for ox in 0..p.ow {
            let (left, right, counted) = columns[ox as usize];
            let x0 = ox * p.stride_w - p.pad_l;
            // SAFETY: the instruction set of `S` is enabled here.
            let mut acc = unsafe { S::splat(p.start()) };
            // SAFETY: the channels lie in image and output; `room` has a vector for each pixel of
            // both images.
            unsafe {
                for ky in top..bottom {
                    let line = (y0 + ky * p.dilation_h) * p.w + x0;
                    for kx in left..right {
                        let place = (line + kx * p.dilation_w) as usize;
                        acc = take(p.greatest(), acc, S::load(room.add(place * S::LANES)));
                    }
                }
                if !p.greatest() {
                    // A sum divided by a count of 0 gives 0.
                    acc = acc.div(S::splat((rows * counted).max(1) as f32));
                }
                acc.store(to);
                to = to.add(S::LANES);
            }
        }
    }
    let late = (null(), None, false);
    // SAFETY: the channels lie in image and output; `room` has a vector for each pixel of both
    // images.
    unsafe {
        scatter::<S>(sums, (pixels, of.count), of.y.0, of.y.1, late);
    }
}

/// The whole pooling, with channels first.
///
/// # Safety
/// As `rx_pool2d_f32`; no size of the output is 0.
pub(super) unsafe fn run(context: &mut RxContext, p: &RxPool2dF32) -> i32 {
    let (lanes, room) = (lanes(), room(p));
    let threads = context.pool.threads();
    let Some(scratch) = Scratch::new(context, room * threads * 4) else {
        return context.status;
    };
    let tasks = ((p.n * p.c) as usize).div_ceil(lanes);
    // SAFETY: the arrays have the pooling's sizes; tasks write their own channels.
    unsafe {
        let shared = Share::new((p, scratch.memory.cast::<f32>()));
        let grain = Grain::of_work(GRAIN, room);
        context.pool.each(tasks, grain, |begin, end, worker| {
            let &(p, rooms) = shared.get();
            let room = rooms.add(worker * room);
            for task in begin..end {
                let first = task * lanes;
                let (from, to) = ((p.h * p.w) as usize, (p.oh * p.ow) as usize);
                let of = Channels {
                    x: (p.x.add(first * from), from),
                    y: (p.y.add(first * to), to),
                    count: lanes.min((p.n * p.c) as usize - first),
                };
                some(p, of, room);
            }
        });
    }
    0
}
