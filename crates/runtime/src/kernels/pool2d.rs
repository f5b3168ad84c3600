//! Two-dimensional pooling of float32.

use super::conv::Layout;
use crate::context::{RxContext, Status};
use crate::kernels::padded::{Padded, Window};
use crate::kernels::simd::square::lanes;
use crate::kernels::simd::{Simd, dispatch};
use crate::kernels::{pool_lanes, pool_parted};
use crate::threads::{Grain, Share};
use crate::values::{scratch_alloc, scratch_free};
use crate::{c_enumeration, c_structure};

/// The minimum number of elements per thread; several operations each (`--example bench_threads`).
const GRAIN: usize = 16 << 10;
/// The maximum number of tabulated window positions.
const TAPS: usize = 64;
/// Vectors of an output row that are computed together.
const WIDE: usize = 2;

c_enumeration! {
    /// The reduction over a window's elements.
    pub enum Pooling {
        /// The greatest.
        Max = "RX_POOL_MAX",
        /// The average, counting the padding.
        Average = "RX_POOL_AVG",
        /// The average of the elements inside the image.
        AverageValid = "RX_POOL_AVG_VALID",
    }
}

c_structure! {
    /// As in the C header.
    pub struct RxPool2dF32 {
        /// Images.
        pub n: i64,
        /// Channels.
        pub c: i64,
        /// Input height.
        pub h: i64,
        /// Input width.
        pub w: i64,
        /// Window height.
        pub kh: i64,
        /// Window width.
        pub kw: i64,
        /// Output height.
        pub oh: i64,
        /// Output width.
        pub ow: i64,
        /// The vertical stride.
        pub stride_h: i64,
        /// The horizontal stride.
        pub stride_w: i64,
        /// Padding above.
        pub pad_t: i64,
        /// Padding to the left.
        pub pad_l: i64,
        /// The vertical dilation.
        pub dilation_h: i64,
        /// The horizontal dilation.
        pub dilation_w: i64,
        /// A [`Layout`].
        pub layout: i32,
        /// A [`Pooling`].
        pub op: i32,
        /// Input.
        pub x: *const f32,
        /// Output.
        pub y: *mut f32,
    }
}

/// The positions `i` of the window, of `count`, whose input `start + i * step` lies in `[0, size)`.
pub(super) fn inside(start: i64, step: i64, count: i64, size: i64) -> (i64, i64) {
    let first = if start < 0 {
        (-start + step - 1) / step
    } else {
        0
    };
    let end = if start >= size {
        0
    } else {
        ((size - start + step - 1) / step).min(count)
    };
    (first.min(end), end)
}

impl RxPool2dF32 {
    pub(super) fn window(&self) -> Window {
        let pair = |a: i64, b: i64| (a.max(0) as usize, b.max(0) as usize);
        Window {
            image: pair(self.h, self.w),
            output: pair(self.oh, self.ow),
            window: pair(self.kh, self.kw),
            stride: pair(self.stride_h, self.stride_w),
            dilation: pair(self.dilation_h, self.dilation_w),
            pad: (self.pad_t as isize, self.pad_l as isize),
        }
    }

    /// Floats of a padded channel, and of the numbers of columns that windows have inside the
    /// image.
    pub(super) fn room(&self) -> usize {
        let columns = (self.ow.max(0) as usize).saturating_add(64);
        self.padded()
            .saturating_add(columns)
            .checked_next_multiple_of(16)
            .unwrap_or(usize::MAX)
    }

    /// Floats of a padded channel.
    fn padded(&self) -> usize {
        let floats = Padded::of(self.window()).floats();
        floats.checked_next_multiple_of(16).unwrap_or(usize::MAX)
    }

    /// Fills the padding around the channels' position.
    ///
    /// # Safety
    /// `room` has [`RxPool2dF32::room`] floats.
    pub(super) unsafe fn prepare(&self, room: *mut f32) {
        let padded = self.padded();
        // SAFETY: `room` has the padded channel's size.
        unsafe {
            for i in 0..padded {
                *room.add(i) = self.start();
            }
            for ox in 0..self.ow {
                *room.add(padded + ox as usize) = self.columns(ox) as f32;
            }
            // A last vector's lanes beyond the row divide, too: whatever lay there before may be
            // subnormal, which takes processors a hundred times as long.
            for ox in self.ow.max(0) as usize..self.room() - padded {
                *room.add(padded + ox) = 1.0;
            }
        }
    }

    /// Returns whether the numbers describe a pooling.
    pub(super) fn fits(&self) -> bool {
        let steps = [
            self.stride_h,
            self.stride_w,
            self.dilation_h,
            self.dilation_w,
        ];
        steps.iter().all(|&s| s >= 1)
            && Layout::of(self.layout).is_some()
            && Pooling::of(self.op).is_some()
    }

    /// Returns whether windows lie in the image, their elements for adjacent outputs side by side.
    pub(super) fn dense(&self) -> bool {
        let inside = |out: i64, step: i64, count: i64, apart: i64, size: i64| {
            let reach = (out - 1).saturating_mul(step);
            reach.saturating_add((count - 1).saturating_mul(apart)) < size
        };
        self.stride_w == 1
            && (self.pad_t, self.pad_l) == (0, 0)
            && self.kh >= 1
            && self.kw >= 1
            && inside(self.oh, self.stride_h, self.kh, self.dilation_h, self.h)
            && inside(self.ow, self.stride_w, self.kw, self.dilation_w, self.w)
    }

    /// Returns whether this is maximum pooling.
    #[inline(always)]
    pub(super) fn greatest(&self) -> bool {
        self.op == Pooling::Max as i32
    }

    /// The neutral element: a window of only padding gives the least finite number, as in TVM.
    pub(super) fn start(&self) -> f32 {
        if self.greatest() { f32::MIN } else { 0.0 }
    }
}

/// Combines one more element; NaN is preserved.
#[inline(always)]
pub(super) fn take<S: Simd>(max: bool, acc: S, x: S) -> S {
    if max {
        S::select(x.eq(x), x.max(acc), x)
    } else {
        acc.add(x)
    }
}

/// One channel from `x` to `y` whose windows are [`dense`](RxPool2dF32::dense): vectors run along the
/// output's rows, over the image as it is.
///
/// # Safety
/// `x` and `y` are channels of the sizes that `p` has.
#[inline(always)]
unsafe fn dense_channel<S: Simd>(p: &RxPool2dF32, x: *const f32, y: *mut f32) {
    let size = |n: i64| n.max(0) as usize;
    let (oh, ow, w) = (size(p.oh), size(p.ow), size(p.w));
    let (kh, kw) = (size(p.kh), size(p.kw));
    let (below, beside) = (size(p.dilation_h) * w, size(p.dilation_w));
    // SAFETY: windows lie in the image, so that as many columns are read as are written, from where
    // the first one's window has its element.
    unsafe {
        let count = S::splat((kh * kw).max(1) as f32);
        for oy in 0..oh {
            let (from, to) = (x.add(oy * size(p.stride_h) * w), y.add(oy * ow));
            let mut ox = 0;
            while ox < ow {
                let n = (ow - ox).min(S::LANES);
                let mut acc = S::splat(p.start());
                for ky in 0..kh {
                    let line = from.add(ky * below + ox);
                    for kx in 0..kw {
                        let at = line.add(kx * beside);
                        let x = if n == S::LANES {
                            S::load(at)
                        } else {
                            S::load_part(at, n)
                        };
                        acc = take(p.greatest(), acc, x);
                    }
                }
                let acc = if p.greatest() { acc } else { acc.div(count) };
                acc.store_part(to.add(ox), n);
                ox += n;
            }
        }
    }
}

/// Combines vectors with those at some offsets.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the vectors out of memory.
unsafe fn over_taps<S: Simd, const NV: usize>(
    p: &RxPool2dF32,
    from: *const f32,
    taps: &[usize],
    acc: &mut [S; NV],
) {
    // SAFETY: there are so many vectors at every offset.
    unsafe {
        let mut sums = *acc;
        for &tap in taps {
            let at = from.add(tap);
            for v in 0..NV {
                sums[v] = take(p.greatest(), sums[v], S::load(at.add(v * S::LANES)));
            }
        }
        *acc = sums;
    }
}

/// One channel from `x` to `y`: vectors run along the output's rows, over a padded copy.
///
/// # Safety
/// `x` and `y` are channels of the sizes that `p` has; `room` is from [`RxPool2dF32::prepare`].
#[inline(always)]
pub(super) unsafe fn channel<S: Simd>(p: &RxPool2dF32, x: *const f32, y: *mut f32, room: *mut f32) {
    let padded = Padded::of(p.window());
    let (oh, ow) = (p.oh as usize, p.ow as usize);
    let (kh, kw) = (p.kh.max(0) as usize, p.kw.max(0) as usize);
    // SAFETY: `x` is a channel of the image, `y` of the output, and `room` has what
    // `RxPool2dF32::room` says.
    unsafe {
        match p.stride_w {
            4 => padded.fill_fours::<S>(x, room),
            _ => padded.fill::<S>(x, room),
        }
        let (columns, one) = (room.add(p.padded()), S::splat(1.0));
        // The offsets of window positions are computed once, not per vector.
        let mut table = [0usize; TAPS];
        let tabulated = TAPS.min(kh * kw);
        for (tap, at) in table.iter_mut().enumerate().take(tabulated) {
            *at = padded.tap(tap / kw, tap % kw);
        }
        for oy in 0..oh {
            let y = y.add(oy * ow);
            let from = room.add(oy * p.stride_h as usize * padded.row);
            let rows = S::splat(p.rows(oy as i64) as f32);
            let mut ox = 0;
            while ox < ow {
                let from = from.add(ox);
                let mut acc = [S::splat(p.start()); WIDE];
                if ow - ox > S::LANES {
                    over_taps(p, from, &table[..tabulated], &mut acc);
                } else {
                    let mut one = [acc[0]];
                    over_taps(p, from, &table[..tabulated], &mut one);
                    acc[0] = one[0];
                }
                for tap in tabulated..kh * kw {
                    over_taps(p, from, &[padded.tap(tap / kw, tap % kw)], &mut acc);
                }
                for (v, acc) in acc.into_iter().enumerate() {
                    let column = ox + v * S::LANES;
                    if column < ow {
                        let n = (ow - column).min(S::LANES);
                        let mut x = acc;
                        if !p.greatest() {
                            let taps = S::load(columns.add(column)).mul(rows);
                            // A sum divided by a count of 0 gives 0.
                            x = x.div(S::select(taps.lt(one), one, taps));
                        }
                        x.store_part(y.add(column), n);
                    }
                }
                ox += WIDE * S::LANES;
            }
        }
    }
}

impl RxPool2dF32 {
    /// The number of rows of a window that an average counts.
    pub(super) fn rows(&self, oy: i64) -> i64 {
        if self.op == Pooling::Average as i32 {
            return self.kh;
        }
        let (top, bottom) = inside(
            oy * self.stride_h - self.pad_t,
            self.dilation_h,
            self.kh,
            self.h,
        );
        bottom - top
    }

    /// The number of columns of a window that an average counts.
    pub(super) fn columns(&self, ox: i64) -> i64 {
        if self.op == Pooling::Average as i32 {
            return self.kw;
        }
        let (left, right) = inside(
            ox * self.stride_w - self.pad_l,
            self.dilation_w,
            self.kw,
            self.w,
        );
        right - left
    }
}

/// One output row of an image with channels last: vectors run over channels.
#[inline(always)]
unsafe fn row<S: Simd>(p: &RxPool2dF32, image: i64, oy: i64) {
    let width = p.c as usize;
    let y0 = oy * p.stride_h - p.pad_t;
    let (top, bottom) = inside(y0, p.dilation_h, p.kh, p.h);
    // SAFETY: image and row are the pooling's, whose arrays have its sizes; the window is cut to
    // the image.
    unsafe {
        let x = p.x.add(image as usize * (p.h * p.w) as usize * width);
        let y =
            p.y.add((image * p.oh + oy) as usize * p.ow as usize * width);
        let rows = p.rows(oy);
        for ox in 0..p.ow {
            let x0 = ox * p.stride_w - p.pad_l;
            let (left, right) = inside(x0, p.dilation_w, p.kw, p.w);
            let taps = S::splat((rows * p.columns(ox)).max(1) as f32);
            let to = y.add(ox as usize * width);
            let mut c = 0;
            while c < width {
                let n = (width - c).min(S::LANES);
                let mut acc = S::splat(p.start());
                for ky in top..bottom {
                    for kx in left..right {
                        let place = (y0 + ky * p.dilation_h) * p.w + x0 + kx * p.dilation_w;
                        let v = S::load_part(x.add(place as usize * width + c), n);
                        acc = take(p.greatest(), acc, v);
                    }
                }
                let result = if p.greatest() { acc } else { acc.div(taps) };
                result.store_part(to.add(c), n);
                c += n;
            }
        }
    }
}

/// Pooling with channels first: a padded copy of a channel at a time.
unsafe fn channels_first(context: &mut RxContext, p: &RxPool2dF32) -> i32 {
    let room = p.room();
    let threads = context.pool.threads();
    // SAFETY: the arrays have the pooling's sizes; channels of the output are disjoint.
    let scratch =
        unsafe { scratch_alloc(context, room.saturating_mul(threads * 4) as u64).cast::<f32>() };
    if scratch.is_null() {
        return context.status;
    }
    // SAFETY: the arrays have the pooling's sizes; channels of the output are disjoint.
    unsafe {
        for worker in 0..threads {
            p.prepare(scratch.add(worker * room));
        }
    }
    // SAFETY: the arrays have the pooling's sizes; channels of the output are disjoint.
    let (dense, shared) = unsafe { (p.dense(), Share::new((p, scratch))) };
    let work = (p.oh * p.ow * p.kh * p.kw).max(1) as usize;
    let grain = Grain::of_work(GRAIN * 8, work);
    // SAFETY: the arrays have the pooling's sizes; channels of the output are disjoint.
    unsafe {
        context
            .pool
            .each((p.n * p.c) as usize, grain, |begin, end, worker| {
                let &(p, scratch) = shared.get();
                let room = scratch.add(worker * room);
                let (from, to) = ((p.h * p.w) as usize, (p.oh * p.ow) as usize);
                for plane in begin..end {
                    let (x, y) = (p.x.add(plane * from), p.y.add(plane * to));
                    if dense {
                        dispatch!(dense_channel(p: &RxPool2dF32, x: *const f32, y: *mut f32));
                    } else {
                        dispatch!(channel(p: &RxPool2dF32, x: *const f32, y: *mut f32, room: *mut f32));
                    }
                }
            });
        scratch_free(context, scratch.cast());
    }
    0
}

/// Pooling.
///
/// # Safety
/// The arrays are as large as the sizes say and do not overlap.
pub unsafe fn pool(context: &mut RxContext, p: &RxPool2dF32) -> i32 {
    if !p.fits() {
        return context.fail(Status::Argument, "rx_pool2d_f32: sizes that are no pooling");
    }
    if p.n <= 0 || p.c <= 0 || p.oh <= 0 || p.ow <= 0 {
        return 0;
    }
    // Dense rows that fill half a vector at least are read where they lie. One channel lies
    // alike in both layouts.
    let dense = p.dense() && p.ow * 2 >= lanes() as i64;
    let first = p.layout == Layout::Nchw as i32 || p.c == 1;
    // SAFETY: the arrays have the sizes that the descriptor says; rows of the output are disjoint.
    unsafe {
        if first && pool_parted::pays(p) {
            return pool_parted::run(context, p);
        }
        if first && !dense && pool_lanes::pays(p) {
            return pool_lanes::run(context, p);
        }
        if first {
            return channels_first(context, p);
        }
    }
    let work = (p.ow * p.kh * p.kw * p.c).max(1) as usize;
    // SAFETY: threads take tasks of their own, which write disjoint places.
    let shared = unsafe { Share::new(p) };
    // SAFETY: the arrays have the sizes that the descriptor says; rows of the output are disjoint.
    unsafe {
        context.pool.each(
            (p.n * p.oh) as usize,
            Grain::of_work(GRAIN, work),
            |begin, end, _| {
                let p = *shared.get();
                for i in begin as i64..end as i64 {
                    let (image, oy) = (i / p.oh, i % p.oh);
                    dispatch!(row(p: &RxPool2dF32, image: i64, oy: i64));
                }
            },
        );
    }
    0
}
