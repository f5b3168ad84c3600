//! Pooling of large windows with channels first, down the columns and then along the rows: a window
//! of k by k elements takes 2k combinations instead of k².

use crate::context::RxContext;
use crate::kernels::pool2d::{RxPool2dF32, inside, take};
use crate::kernels::scratch::Scratch;
use crate::kernels::simd::square::lanes;
use crate::kernels::simd::{Simd, dispatch};
use crate::threads::{Grain, Share};

/// The fewest elements of a window for which the detour over a row pays.
const TAPS: i64 = 16;
/// The fewest input elements per thread.
const GRAIN: usize = 16 << 10;
/// Floats behind a row that the last vectors read.
const BEHIND: usize = 32;

/// Returns whether windows are large enough.
pub(super) fn pays(p: &RxPool2dF32) -> bool {
    // Rows shorter than half a vector waste the most of it.
    let wide = p.ow * 2 >= lanes() as i64;
    p.kh >= 2 && p.kw >= 2 && p.kh.saturating_mul(p.kw) >= TAPS && p.pad_l >= 0 && wide
}

/// A row of combined columns: as it lies, and dealt out by its positions modulo the stride, so that
/// what adjacent outputs read lies side by side.
struct Row {
    /// Floats of the row with its padding.
    whole: usize,
    /// Floats of one of the rows that it is dealt to.
    part: usize,
}

impl Row {
    fn of(p: &RxPool2dF32) -> Self {
        let steps = (p.ow - 1).saturating_mul(p.stride_w);
        let reach = steps.saturating_add((p.kw - 1).saturating_mul(p.dilation_w));
        let reach = reach.saturating_add(1).max(p.pad_l.saturating_add(p.w));
        let part = (reach as usize).div_ceil(p.stride_w as usize) + BEHIND;
        let whole = reach as usize + BEHIND;
        Self { whole, part }
    }

    /// Floats of memory for the row, what it is dealt to, and the columns that windows have.
    fn room(&self, p: &RxPool2dF32) -> usize {
        let dealt = if p.stride_w > 1 {
            self.part.saturating_mul(p.stride_w as usize)
        } else {
            0
        };
        let floats = self
            .whole
            .saturating_add(dealt)
            .saturating_add(p.ow as usize + BEHIND);
        floats.checked_next_multiple_of(16).unwrap_or(usize::MAX)
    }
}

/// Pools all channels, on as many threads as pay; the sizes are those of a pooling for which this
/// [`pays`].
///
/// # Safety
/// The arrays are as large as the sizes say and do not overlap.
pub(super) unsafe fn run(context: &mut RxContext, p: &RxPool2dF32) -> i32 {
    let row = Row::of(p);
    let room = row.room(p);
    let threads = context.pool.threads();
    let floats = room.saturating_mul(threads);
    let Some(scratch) = Scratch::new(context, floats.saturating_mul(4)) else {
        return context.status;
    };
    let work = (p.oh * (p.kh * p.w + p.kw * p.ow)).max(1) as usize;
    let grain = Grain::of_work(GRAIN, work);
    // SAFETY: threads take channels of their own, and memory of their own.
    let shared = unsafe { Share::new((p, &row, scratch.memory.cast::<f32>())) };
    context
        .pool
        .each((p.n * p.c) as usize, grain, |begin, end, worker| {
            let &(p, row, rooms) = shared.get();
            // SAFETY: `room` is as large as `Row::room` says, the channels are the arrays'.
            unsafe {
                let room = rooms.add(worker * room);
                dispatch!(channels(p: &RxPool2dF32, row: &Row, room: *mut f32, begin: usize, end: usize));
            }
        });
    0
}

/// Pools the channels `begin..end`.
///
/// # Safety
/// `room` has [`Row::room`] floats, and the arrays have the channels.
#[inline(always)]
unsafe fn channels<S: Simd>(p: &RxPool2dF32, row: &Row, room: *mut f32, begin: usize, end: usize) {
    let (from, to, ow) = ((p.h * p.w) as usize, (p.oh * p.ow) as usize, p.ow as usize);
    let counted = row.room(p) - (ow + BEHIND);
    // SAFETY: `room` has as many floats; the channels are the arrays', a row of the output among
    // them.
    unsafe {
        for i in 0..counted {
            *room.add(i) = p.start();
        }
        for ox in 0..ow + BEHIND {
            let n = if ox < ow { p.columns(ox as i64) } else { 1 };
            *room.add(counted + ox) = n as f32;
        }
        for plane in begin..end {
            for oy in 0..p.oh {
                down::<S>(p, p.x.add(plane * from), oy, room.add(p.pad_l as usize));
                if p.stride_w > 1 {
                    deal(p, row, room);
                }
                let y = p.y.add(plane * to + oy as usize * ow);
                across::<S>(p, row, room, (y, p.rows(oy)));
            }
        }
    }
}

/// Combines the elements that the windows of a row of the output have in each column.
///
/// # Safety
/// `x` is a channel of the image, and `line` has room for a row of it.
#[inline(always)]
unsafe fn down<S: Simd>(p: &RxPool2dF32, x: *const f32, oy: i64, line: *mut f32) {
    let (w, top) = (p.w.max(0) as usize, oy * p.stride_h - p.pad_t);
    let (first, last) = inside(top, p.dilation_h, p.kh, p.h);
    let mut column = 0;
    while column < w {
        let n = (w - column).min(S::LANES);
        // SAFETY: the rows that are read lie in the channel, as the columns do.
        unsafe {
            let mut acc = S::splat(p.start());
            for ky in first..last {
                let at = x.add((top + ky * p.dilation_h) as usize * w + column);
                let v = if n == S::LANES {
                    S::load(at)
                } else {
                    S::load_part(at, n)
                };
                acc = take(p.greatest(), acc, v);
            }
            acc.store_part(line.add(column), n);
        }
        column += n;
    }
}

/// Deals a row out by positions modulo the stride.
///
/// # Safety
/// `room` has [`Row::room`] floats.
#[inline(always)]
unsafe fn deal(p: &RxPool2dF32, row: &Row, room: *mut f32) {
    let (stride, held) = (p.stride_w as usize, (p.pad_l + p.w) as usize);
    for r in 0..stride {
        // SAFETY: a part has a place for every `stride`th element of the row.
        unsafe {
            let part = room.add(row.whole + r * row.part);
            for (k, at) in (r..held).step_by(stride).enumerate() {
                *part.add(k) = *room.add(at);
            }
        }
    }
}

/// Combines the columns of each window to a row of the output, of which windows count `rows` rows.
///
/// # Safety
/// `room` has [`Row::room`] floats, `y` is a row of the output.
#[inline(always)]
unsafe fn across<S: Simd>(
    p: &RxPool2dF32,
    row: &Row,
    room: *const f32,
    (y, rows): (*mut f32, i64),
) {
    let (ow, stride) = (p.ow as usize, p.stride_w as usize);
    let mut ox = 0;
    while ox < ow {
        let n = (ow - ox).min(S::LANES);
        // SAFETY: vectors reach at most `BEHIND` floats beyond a row and its parts.
        unsafe {
            let mut acc = S::splat(p.start());
            for kx in 0..p.kw as usize {
                let tap = kx * p.dilation_w as usize;
                let at = match stride {
                    1 => tap,
                    _ => row.whole + tap % stride * row.part + tap / stride,
                };
                acc = take(p.greatest(), acc, S::load(room.add(at + ox)));
            }
            if !p.greatest() {
                let counts = room.add(row.room(p) - (ow + BEHIND));
                let taps = S::load(counts.add(ox)).mul(S::splat(rows as f32));
                // A sum divided by a count of 0 gives 0.
                let one = S::splat(1.0);
                acc = acc.div(S::select(taps.lt(one), one, taps));
            }
            acc.store_part(y.add(ox), n);
        }
        ox += n;
    }
}
