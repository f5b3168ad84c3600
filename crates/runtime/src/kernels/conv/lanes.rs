//! Depthwise windows with channels along vectors.
//!
//! The rows of small images fill vectors poorly, and strides of two split them. Here the lanes of a
//! vector are the same pixel of several channels: the image is transposed into a padded copy, and
//! the sums are transposed back.

use super::depthwise::{as_it_lies, taps};
use super::{RxConv2dF32, SMALL_DEPTHWISE, Sizes};
use crate::context::RxContext;
use crate::kernels::scratch::Scratch;
use crate::kernels::simd::bounds::Bounds;
use crate::kernels::simd::square::{MOST, Turning, dispatch_turning, gather, lanes, scatter};
use crate::kernels::simd::{Isa, isa};
use crate::threads::{Grain, Share};
use std::ops::Range;

/// The maximum number of sums that are computed together.
const SUMS: usize = 8;
/// The maximum number of pixels of an output whose padded copies fit in the first two cache levels.
const PIXELS: usize = 32 * 32;
/// How many more pixels larger windows may have, for each place of theirs: what copies cost shrinks
/// beside the sums.
const PIXELS_PER_TAP: usize = 64;

/// Returns whether this is faster than vectors along the pixels of a row.
pub(super) fn pays(s: &Sizes) -> bool {
    let reach = |n: usize, step: usize, taps: usize, distance: usize| {
        let window = taps.saturating_sub(1).saturating_mul(distance);
        (n - 1).saturating_mul(step).saturating_add(window)
    };
    let (high, wide) = (reach(s.oh, s.sh, s.kh, s.dh), reach(s.ow, s.sw, s.kw, s.dw));
    let small = [s.oh.saturating_mul(s.ow), s.h.saturating_mul(s.w) / 4];
    let most = PIXELS.max(s.kh.saturating_mul(s.kw).saturating_mul(PIXELS_PER_TAP));
    !s.nhwc
        && s.kw > 1
        && short(s)
        && small.iter().all(|&n| n <= most)
        && high.saturating_mul(wide) <= 8 * PIXELS
        && high.max(wide) <= 8 * PIXELS
}

/// Returns whether rows are too short for vectors along them, as it was measured.
fn short(s: &Sizes) -> bool {
    // Rows that leave many lanes of their last vector empty.
    let ragged = s.ow <= 8 || !s.ow.is_multiple_of(8) && s.ow < 24;
    match isa() {
        Isa::Portable => s.sw == 1 && s.ow <= 8,
        Isa::Avx2 if s.sw > 1 => s.ow < 16 || ragged,
        // Windows of 3 by 3 are read in place.
        Isa::Avx2 if as_it_lies(s) => s.ow <= 10,
        Isa::Avx2 => s.kh * s.kw > 9 || ragged,
        Isa::Avx512 => s.sw > 1 || ragged,
    }
}

/// The position of a pixel's vector in the padded copy of some channels, and the layout of a
/// thread's memory.
struct Room<'a> {
    s: &'a Sizes,
    /// Pixels of a row of the copy.
    row: usize,
    /// Pixels of the copy.
    copy: usize,
    /// Channels of a block.
    lanes: usize,
}

impl<'a> Room<'a> {
    fn of(s: &'a Sizes, lanes: usize) -> Self {
        let high = (s.oh - 1) * s.sh + (s.kh.max(1) - 1) * s.dh + 1;
        let row = (s.ow - 1) * s.sw + (s.kw.max(1) - 1) * s.dw + 1;
        Self {
            s,
            row,
            copy: high * row,
            lanes,
        }
    }

    /// Floats of the copy, of the weights, and of the sums.
    fn floats(&self) -> [usize; 3] {
        let pixels = [self.copy, self.s.kh * self.s.kw, self.s.oh * self.s.ow];
        pixels.map(|n| n * self.lanes)
    }

    /// Returns the position of a pixel of the image in the copy, if anything reads it.
    fn place(&self, pixel: usize) -> Option<usize> {
        let (y, x) = (pixel / self.s.w, pixel % self.s.w);
        let y = usize::try_from(y as isize + self.s.pt).ok()?;
        let x = usize::try_from(x as isize + self.s.pl).ok()?;
        (x < self.row && y * self.row < self.copy).then_some(y * self.row + x)
    }
}

/// The position of a pixel that nothing reads.
const NOWHERE: u32 = u32::MAX;

/// Loads the numbers of `lines` channels from the first on, `step` apart; arbitrary values beyond
/// them.
unsafe fn factors(
    from: *const f32,
    (first, step, lines): (usize, usize, usize),
    other: f32,
) -> [f32; MOST] {
    let mut lanes = [other; MOST];
    if !from.is_null() {
        for (k, lane) in lanes.iter_mut().enumerate().take(lines) {
            // SAFETY: `from` has a number for each channel from `first` on, `step` apart.
            *lane = unsafe { *from.add(first + k * step) };
        }
    }
    lanes
}

/// The operations on sums before they are transposed back, and after.
struct Finish<S> {
    offset: S,
    scale: Option<S>,
    bias: S,
    bounds: Option<Bounds<f32>>,
    residual: *const f32,
}

/// Some channels of an image.
#[inline(always)]
unsafe fn channels<S: Turning>(
    v: &RxConv2dF32,
    room: &Room<'_>,
    places: &[u32],
    (image, first): (usize, usize),
    scratch: *mut f32,
) {
    let s = room.s;
    let lines = S::LANES.min(s.c - first);
    let [copy, weights, _] = room.floats();
    let (pixels, plane) = (s.oh * s.ow, s.h * s.w);
    // SAFETY: the channels lie in image, weight and output; `scratch` has the room's sizes.
    unsafe {
        let (weight, sums) = (scratch.add(copy), scratch.add(copy + weights));
        let x = v.x.add((image * s.c + first) * plane);
        gather::<S>(x, plane, lines, plane, |pixel| {
            let place = places[pixel];
            (place != NOWHERE).then(|| scratch.add(place as usize * S::LANES))
        });
        for m in 0..s.og {
            let channel = first * s.og + m;
            let each = s.kh * s.kw;
            let from = v.weight.add(channel * each);
            gather::<S>(from, s.og * each, lines, each, |tap| {
                Some(weight.add(tap * S::LANES))
            });
            let e = &v.epilogue;
            let place = (image * s.o + channel) * pixels;
            let some = (channel, s.og, lines);
            let scale = S::load(factors(e.scale, some, 1.0).as_ptr());
            let finish = Finish {
                offset: S::load(factors(e.offset, some, 0.0).as_ptr()),
                scale: if e.scale.is_null() { None } else { Some(scale) },
                bias: S::load(factors(e.bias, some, 0.0).as_ptr()),
                bounds: e.bounds(),
                residual: match e.residual.is_null() {
                    true => e.residual,
                    false => e.residual.add(place),
                },
            };
            windows::<S>(room, scratch, weight, sums, &finish);
            let to = v.y.add(place);
            let late = (finish.residual, finish.bounds, e.rounds());
            scatter::<S>(sums, (pixels, lines), to, s.og * pixels, late);
        }
    }
}

/// The sums of all windows.
#[inline(always)]
unsafe fn windows<S: Turning>(
    room: &Room,
    x: *const f32,
    weight: *const f32,
    sums: *mut f32,
    finish: &Finish<S>,
) {
    let s = room.s;
    let parts = s.ow.div_ceil(SUMS);
    let wide = s.ow.div_ceil(parts);
    let mut oy = 0;
    while oy < s.oh {
        let high = match s.oh - oy {
            4.. if wide <= 2 => 4,
            2.. if wide <= 4 => 2,
            _ => 1,
        };
        let before = s.pt - (oy * s.sh) as isize;
        let rows = taps(s.kh, s.dh, before, (high - 1) * s.sh, s.h);
        let mut ox = 0;
        while ox < s.ow {
            let columns = wide.min(s.ow - ox);
            let before = s.pl - (ox * s.sw) as isize;
            let within = taps(s.kw, s.dw, before, (columns - 1) * s.sw, s.w);
            // SAFETY: the copy holds what all windows read, and `sums` has a vector for each
            // output.
            unsafe {
                let x = x.add((oy * s.sh * room.row + ox * s.sw) * S::LANES);
                let to = sums.add((oy * s.ow + ox) * S::LANES);
                macro_rules! block {
                    ($($r:literal $c:literal),*) => {
                        match (high, columns) {
                            $(($r, $c) => block::<S, $r, $c>(
                                room, x, weight, [&rows, &within], to, finish,
                            ),)*
                            _ => {}
                        }
                    };
                }
                block!(
                    4 1, 4 2, 2 1, 2 2, 2 3, 2 4, 1 1, 1 2, 1 3, 1 4, 1 5, 1 6, 1 7, 1 8
                );
            }
            ox += columns;
        }
        oy += high;
    }
}

/// `R` rows of `C` sums.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the sums out of memory.
unsafe fn block<S: Turning, const R: usize, const C: usize>(
    room: &Room,
    x: *const f32,
    weight: *const f32,
    [rows, within]: [&Range<usize>; 2],
    to: *mut f32,
    finish: &Finish<S>,
) {
    let s = room.s;
    let (right, down) = (s.sw * S::LANES, s.sh * room.row * S::LANES);
    let mut acc = [[finish.offset; C]; R];
    // SAFETY: the copy holds what the block's windows read, and `to` has a vector for each output.
    unsafe {
        for ky in rows.clone() {
            let line = x.add(ky * s.dh * room.row * S::LANES);
            for kx in within.clone() {
                let at = line.add(kx * s.dw * S::LANES);
                let w = S::load(weight.add((ky * s.kw + kx) * S::LANES));
                for r in 0..R {
                    for c in 0..C {
                        acc[r][c] = w.fma(S::load(at.add(r * down + c * right)), acc[r][c]);
                    }
                }
            }
        }
    }
    for r in 0..R {
        // SAFETY: the copy holds what the block's windows read, and `to` has a vector for each
        // output.
        unsafe {
            for c in 0..C {
                let mut x = acc[r][c];
                if let Some(scale) = finish.scale {
                    x = x.mul(scale);
                }
                x = x.add(finish.bias);
                if let Some(bounds) = finish.bounds
                    && finish.residual.is_null()
                {
                    x = bounds.splat().of_lanes(x);
                }
                x.store(to.add((r * s.ow + c) * S::LANES));
            }
        }
    }
}

/// The whole convolution.
///
/// # Safety
/// Like `rx_conv2d_f32`; no size of the output is 0.
pub(super) unsafe fn run(context: &mut RxContext, v: &RxConv2dF32, s: &Sizes) -> i32 {
    let room = Room::of(s, lanes());
    let all: usize = room.floats().iter().sum();
    let threads = context.pool.threads();
    let plane = s.h * s.w;
    let bytes = all * threads * 4 + plane * size_of::<u32>();
    let Some(scratch) = Scratch::new(context, bytes) else {
        return context.status;
    };
    let rooms = scratch.memory.cast::<f32>();
    let blocks = s.c.div_ceil(room.lanes);
    let work = room.lanes * s.og * s.oh * s.ow * s.kh * s.kw;
    // SAFETY: the memory has room for all; tasks write disjoint channels.
    let table = unsafe { rooms.add(all * threads).cast::<u32>() };
    // SAFETY: the memory has room for all; tasks write disjoint channels.
    unsafe {
        for pixel in 0..plane {
            let place = room.place(pixel).map_or(NOWHERE, |place| place as u32);
            *table.add(pixel) = place;
        }
    }
    // SAFETY: the memory has room for all; tasks write disjoint channels.
    let places = unsafe { std::slice::from_raw_parts(table, plane) };
    // SAFETY: the memory has room for all; tasks write disjoint channels.
    unsafe {
        for worker in 0..threads {
            // The zeros of the padding, which are never overwritten.
            std::ptr::write_bytes(rooms.add(worker * all), 0, room.floats()[0]);
        }
    }
    // SAFETY: threads take tasks of their own, which write disjoint places.
    let shared = unsafe { Share::new((v, &room, places, rooms)) };
    let grain = Grain::of_work(SMALL_DEPTHWISE, work);
    // SAFETY: the memory has room for all; tasks write disjoint channels.
    unsafe {
        context
            .pool
            .each(s.n * blocks, grain, |begin, end, worker| {
                let &(v, room, places, rooms) = shared.get();
                for task in begin..end {
                    let (task, scratch) = (
                        (task / blocks, task % blocks * room.lanes),
                        rooms.add(worker * all),
                    );
                    dispatch_turning!(channels(
                        v: &RxConv2dF32,
                        room: &Room<'_>,
                        places: &[u32],
                        task: (usize, usize),
                        scratch: *mut f32,
                    ));
                }
            });
    }
    0
}
