//! Depthwise convolution over volumes: every channel has its own windows.
//!
//! A plane of the output is the sum of windows over some planes of the input, each as over an image.
//! All of them are summed in registers. With channels first, padded copies of the planes that the
//! windows are over are held in a ring, so that each plane is copied once. Windows of one element of
//! each plane read them in place.

use super::channels_last::{Planes, row};
use super::depthwise::{Copied, Over, sums};
use super::{Layout, RxConv2dF32, RxConv2dSizes, SMALL_DEPTHWISE, Sizes};
use crate::c_structure;
use crate::context::{RxContext, Status};
use crate::kernels::gemm::epilogue::RxEpilogue;
use crate::kernels::padded::Padded;
use crate::kernels::scratch::Scratch;
use crate::kernels::simd::{Simd, dispatch};
use crate::threads::{Grain, Share};
use std::ops::Range;
use std::ptr::null;

c_structure! {
    /// As in the C header.
    pub struct RxDepthwise3dF32 {
        /// Images.
        pub n: i64,
        /// Input channels.
        pub c: i64,
        /// Input depth.
        pub d: i64,
        /// Input height.
        pub h: i64,
        /// Input width.
        pub w: i64,
        /// Output channels: as many for each input channel.
        pub o: i64,
        /// Window depth.
        pub kd: i64,
        /// Window height.
        pub kh: i64,
        /// Window width.
        pub kw: i64,
        /// Output depth.
        pub od: i64,
        /// Output height.
        pub oh: i64,
        /// Output width.
        pub ow: i64,
        /// The step from plane to plane.
        pub stride_d: i64,
        /// The vertical stride.
        pub stride_h: i64,
        /// The horizontal stride.
        pub stride_w: i64,
        /// Planes of zeros before the volume.
        pub pad_d: i64,
        /// Zeros above.
        pub pad_t: i64,
        /// Zeros on the left.
        pub pad_l: i64,
        /// The dilation from plane to plane.
        pub dilation_d: i64,
        /// The vertical dilation.
        pub dilation_h: i64,
        /// The horizontal dilation.
        pub dilation_w: i64,
        /// A [`Layout`] with planes before rows.
        pub layout: i32,
        /// 0.
        pub reserved: i32,
        /// Input.
        pub x: *const f32,
        /// Weight.
        pub weight: *const f32,
        /// Output.
        pub y: *mut f32,
        /// The operations before storing.
        pub epilogue: RxEpilogue,
    }
}

/// What a volume has besides the sizes of its planes.
#[derive(Clone, Copy)]
struct Depth {
    planes: usize,
    outputs: usize,
    taps: usize,
    step: usize,
    distance: usize,
    before: isize,
}

impl Depth {
    /// Returns the planes of the window that lie in the volume for a plane of the output, and where
    /// the first plane of the window is.
    fn inside(&self, oz: usize) -> (Range<usize>, isize) {
        let first = (oz * self.step) as isize - self.before;
        let up = |n: isize| n.max(0).unsigned_abs().div_ceil(self.distance);
        let begin = up(-first).min(self.taps);
        let end = up(self.planes as isize - first).min(self.taps);
        (begin..end.max(begin), first)
    }

    /// Planes from the first one of a window to the last.
    fn reach(&self) -> usize {
        (self.taps.max(1) - 1)
            .saturating_mul(self.distance)
            .saturating_add(1)
    }
}

/// The convolution as one of images, which its planes are, and its depth; `None` where the numbers do
/// not describe one.
fn parts(v: &RxDepthwise3dF32) -> Option<(RxConv2dF32, Sizes, Depth)> {
    let sizes = RxConv2dSizes {
        n: v.n,
        c: v.c,
        h: v.h,
        w: v.w,
        o: v.o,
        kh: v.kh,
        kw: v.kw,
        oh: v.oh,
        ow: v.ow,
        stride_h: v.stride_h,
        stride_w: v.stride_w,
        pad_t: v.pad_t,
        pad_l: v.pad_l,
        dilation_h: v.dilation_h,
        dilation_w: v.dilation_w,
        groups: v.c,
    };
    let image = RxConv2dF32 {
        sizes,
        layout: v.layout,
        reserved: 0,
        x: v.x,
        weight: v.weight,
        weight_packed: null(),
        y: v.y,
        epilogue: v.epilogue,
    };
    let size = |n: i64| usize::try_from(n).ok();
    let positive = |n: i64| size(n).filter(|&n| n > 0);
    let depth = Depth {
        planes: size(v.d)?,
        outputs: size(v.od)?,
        taps: size(v.kd)?,
        step: positive(v.stride_d)?,
        distance: positive(v.dilation_d)?,
        before: v.pad_d as isize,
    };
    let mut s = Sizes::of(&sizes, v.layout)?;
    s.plane *= depth.outputs;
    if (s.kh, s.kw) == (1, 1) && s.as_it_lies() && !s.nhwc {
        // Any rows will do: a few long ones leave the fewest lanes empty.
        let pixels = s.h * s.w;
        let rows = if pixels.is_multiple_of(4) { 4 } else { 1 };
        (s.h, s.w) = (rows, pixels / rows);
        (s.oh, s.ow) = (s.h, s.w);
    }
    let single = s.og == 1 || v.layout == Layout::Nchw as i32;
    single.then_some((image, s, depth))
}

/// All output channels of one input channel of one volume, from padded copies of its planes.
#[inline(always)]
unsafe fn channel<S: Simd>(
    v: &RxConv2dF32,
    s: &Sizes,
    depth: &Depth,
    copied: &Copied<'_>,
    (image, channel): (usize, usize),
    room: &Room,
) {
    let (plane, window) = (s.h * s.w, s.kh * s.kw);
    let reach = depth.reach();
    // The numbers from this channel on. Of the last planes, vectors would read beyond them.
    let all = (s.n * s.c - image * s.c - channel) * depth.planes * plane;
    let in_place = copied.padded.is_channel();
    // SAFETY: the room has a copy for each plane within a window's reach, the number of that plane,
    // and a place for each plane of the window; image and channel are the convolution's.
    unsafe {
        let x = v.x.add((image * s.c + channel) * depth.planes * plane);
        let held = std::slice::from_raw_parts_mut(room.held, reach);
        let over = std::slice::from_raw_parts_mut(room.over, depth.taps);
        held.fill(usize::MAX);
        for oz in 0..depth.outputs {
            let (inside, first) = depth.inside(oz);
            let count = inside.len();
            for (over, kz) in over.iter_mut().zip(inside) {
                let z = (first + (kz * depth.distance) as isize) as usize;
                let (from, weight) = (x.add(z * plane), kz * window);
                if in_place && z * plane + copied.padded.floats() <= all {
                    *over = Over { copy: from, weight };
                    continue;
                }
                let copy = room.copies.add(z % reach * copied.padded.elements());
                if std::mem::replace(&mut held[z % reach], z) != z {
                    copied.padded.fill::<S>(from, copy);
                }
                *over = Over { copy, weight };
            }
            let place = (image, channel, oz * s.oh * s.ow);
            sums::<S>(v, s, copied, &over[..count], place);
        }
    }
}

/// A row of the output, with channels last.
#[inline(always)]
unsafe fn last<S: Simd>(
    v: &RxConv2dF32,
    s: &Sizes,
    depth: &Depth,
    (image, oz, oy): (usize, usize, usize),
) {
    let (plane, window) = (s.h * s.w * s.c, s.kh * s.kw * s.c);
    let (inside, first) = depth.inside(oz);
    let z = first + (inside.start * depth.distance) as isize;
    let x = v.x.wrapping_add(image * depth.planes * plane);
    let planes = Planes {
        x: x.wrapping_offset(z * plane as isize),
        weight: v.weight.wrapping_add(inside.start * window),
        count: inside.len(),
        behind: (depth.distance * plane, window),
    };
    // SAFETY: volume, plane and row are the convolution's, whose arrays have its sizes.
    unsafe {
        let row_of = ((image * depth.outputs + oz) * s.oh + oy) * s.ow;
        row::<S>(s, &planes, oy, &s.target(v, 0, 0, row_of));
    }
}

/// A thread's memory.
#[derive(Clone, Copy)]
struct Room {
    /// Padded copies of planes.
    copies: *mut f32,
    /// The planes that they are of.
    held: *mut usize,
    over: *mut Over,
}

/// A convolution in which every channel has windows of its own.
///
/// # Safety
/// The arrays are as large as the sizes say, and the output overlaps nothing but the residual, which
/// it may overwrite.
pub unsafe fn convolve(context: &mut RxContext, v: &RxDepthwise3dF32) -> i32 {
    let Some((image, s, depth)) = parts(v) else {
        let text = "rx_depthwise3d_f32: sizes that are no convolution";
        return context.fail(Status::Argument, text);
    };
    if s.n * s.o * depth.outputs * s.oh * s.ow == 0 {
        return 0;
    }
    // SAFETY: the arrays have the convolution's sizes, none of which is empty.
    unsafe {
        if s.nhwc {
            return channels_last(context, &image, &s, &depth);
        }
        channels_first(context, &image, &s, &depth)
    }
}

/// # Safety
/// As [`convolve`]; no size of the output is 0.
unsafe fn channels_last(context: &mut RxContext, v: &RxConv2dF32, s: &Sizes, depth: &Depth) -> i32 {
    let grain = Grain::of_work(SMALL_DEPTHWISE, s.ow * s.kh * s.kw * depth.taps * s.c);
    let rows = depth.outputs * s.oh;
    // SAFETY: the arrays have the convolution's sizes; tasks write disjoint rows.
    let shared = unsafe { Share::new((v, s, depth)) };
    context.pool.each(s.n * rows, grain, |begin, end, _| {
        for task in begin..end {
            // SAFETY: as above.
            unsafe {
                let &(v, s, depth) = shared.get();
                let at = (task / rows, task % rows / s.oh, task % s.oh);
                dispatch!(last(v: &RxConv2dF32, s: &Sizes, depth: &Depth, at: (usize, usize, usize)));
            }
        }
    });
    0
}

/// # Safety
/// As [`convolve`]; no size of the output is 0.
unsafe fn channels_first(
    context: &mut RxContext,
    v: &RxConv2dF32,
    s: &Sizes,
    depth: &Depth,
) -> i32 {
    let padded = Padded::of(s.window());
    let (threads, table, reach) = (context.pool.threads(), s.kh * s.kw, depth.reach());
    // What vectors read past the end of one copy is the next one's.
    let slack = padded.floats() - padded.elements();
    let copies = padded.elements().saturating_mul(reach);
    let copies = copies.saturating_add(slack).next_multiple_of(16);
    let words = size_of::<usize>();
    let planes = reach
        .saturating_mul(words)
        .saturating_add(depth.taps * size_of::<Over>());
    let room = copies.saturating_mul(4).saturating_add(planes);
    let all = room.saturating_mul(threads);
    let Some(memory) = Scratch::new(context, all.saturating_add(table * words)) else {
        return context.status;
    };
    let memory = memory.memory.cast::<u8>();
    // SAFETY: the memory has a room for each thread, and behind them the places.
    let places = unsafe {
        // The zeros of the padding, which filling does not overwrite.
        for worker in 0..threads {
            memory.add(worker * room).write_bytes(0, copies * 4);
        }
        std::slice::from_raw_parts_mut(memory.add(all).cast::<usize>(), table)
    };
    Copied::fill_places(&padded, s, places);
    let copied = Copied {
        padded,
        places,
        weights: table * depth.taps,
    };
    let work = s.plane * table * depth.taps * s.og;
    // SAFETY: the arrays have the convolution's sizes; tasks write disjoint channels, each thread with
    // a room of its own.
    let shared = unsafe { Share::new((v, s, depth, &copied, memory)) };
    let grain = Grain::of_work(SMALL_DEPTHWISE, work);
    context.pool.each(s.n * s.c, grain, |begin, end, worker| {
        // SAFETY: as above.
        unsafe {
            let &(v, s, depth, copied, memory) = shared.get();
            let copies_of = memory.add(worker * room);
            let held = copies_of.add(copies * 4).cast::<usize>();
            let over = held.add(reach).cast::<Over>();
            let room = &Room {
                copies: copies_of.cast(),
                held,
                over,
            };
            for task in begin..end {
                let at = (task / s.c, task % s.c);
                dispatch!(channel(
                    v: &RxConv2dF32,
                    s: &Sizes,
                    depth: &Depth,
                    copied: &Copied<'_>,
                    at: (usize, usize),
                    room: &Room,
                ));
            }
        }
    });
    0
}
