//! Convolutions with few pixels: vectors run along output channels.
//!
//! In products of the weight with an image, vectors run along pixels, and 49 pixels fill three
//! vectors and one lane of a fourth. With the operands exchanged, a tile is up to eight pixels,
//! however many there are, by three vectors of output channels; it is transposed when it is stored.

use super::{RxConv2dF32, SMALL, Sizes};
use crate::context::RxContext;
use crate::kernels::gemm::tile::{COLS, Columns, ROWS};
use crate::kernels::gemm::{block, even_piece, pack};
use crate::kernels::simd::{Simd, dispatch};
use crate::threads::{Grain, Share};
use crate::values::{rx_scratch_alloc, rx_scratch_free};

/// The longest piece of the common axis: the weight of [`WIDE`] channels for it stays in the
/// second-level cache.
pub(super) const DEEP: usize = 2048;
/// Output channels whose weights are applied to all pixels before the next ones: three of the
/// widest vectors.
const WIDE: usize = 3 * COLS;
/// A multiplication of a product, in those of one lane of a tile: see `ways.rs`.
const PRODUCT: f64 = 1.06;
/// What turning over an output costs.
const TURN: f64 = 80.0;
/// What fetching an input from its own place costs.
const FETCH: f64 = 32.0;

/// Returns whether a window of one pixel is multiplied faster this way than with pixels along
/// vectors, by the lanes of both and what only this one does: turning over an output costs as much
/// as eight multiplications then.
pub(super) fn pays(s: &Sizes) -> bool {
    let pixels = s.oh * s.ow;
    if s.nhwc || s.groups != 1 || s.o < COLS || s.k == 0 {
        return false;
    }
    let along = pixels.next_multiple_of(COLS) * s.o.next_multiple_of(ROWS) * s.k;
    let across = pixels * s.o.next_multiple_of(COLS) * s.k + 8 * s.o * pixels;
    // Weights and pixels both come from the second cache, not only one of them.
    11 * across < 10 * along
}

/// The cost of an image by this way; infinite where it cannot go it, or few channels fill a vector.
pub(super) fn cost(s: &Sizes) -> f64 {
    if s.groups != 1 || s.o < COLS {
        return f64::INFINITY;
    }
    let pixels = (s.oh * s.ow) as f64;
    let outputs = PRODUCT * s.o.next_multiple_of(COLS) as f64;
    s.k as f64 * (pixels * (outputs + FETCH) + s.o as f64) + TURN * pixels * s.o as f64
}

/// Floats of the packed weight.
pub(super) fn packed(s: &Sizes) -> usize {
    s.o.next_multiple_of(COLS) * s.k
}

/// Packs the weight: of so many output channels that are worked on together, and a piece of the
/// common axis, panels of columns, one after the other as they are read.
pub(super) unsafe fn pack(s: &Sizes, weight: *const f32, out: *mut f32) {
    let mut out = out;
    for o in (0..s.o).step_by(WIDE) {
        let wide = WIDE.min(s.o - o);
        let mut p0 = 0;
        while p0 < s.k {
            let kc = even_piece(s.k - p0, DEEP, 1);
            // SAFETY: the weight has the sizes of the convolution, and `out` room for `packed`.
            unsafe {
                let from = weight.add(o * s.k + p0);
                pack::columns(kc, wide, from, 1, s.k as isize, out);
                out = out.add(wide.next_multiple_of(COLS) * kc);
            }
            p0 += kc;
        }
    }
}

/// The number of pixels of a panel, such that the last panel is not much smaller.
fn high(pixels: usize) -> usize {
    pixels.div_ceil(pixels.div_ceil(ROWS))
}

/// Packs the inputs of `count` pixels from `first` on: for each channel and window position a line
/// of [`ROWS`] floats, of which the first `count` are written.
#[inline(always)]
unsafe fn panel<S: Simd>(s: &Sizes, x: *const f32, first: usize, count: usize, out: *mut f32) {
    let (plane, taps) = (s.h * s.w, s.kh * s.kw);
    // SAFETY: pixels lie in the image, and `out` has a panel's room.
    unsafe {
        if s.as_it_lies() {
            for c in 0..s.c {
                let (from, to) = (x.add(c * plane + first), out.add(c * ROWS));
                for lane in (0..count).step_by(S::LANES) {
                    let n = (count - lane).min(S::LANES);
                    S::load_part(from.add(lane), n).store_part(to.add(lane), n);
                }
            }
            return;
        }
        for tap in 0..taps {
            let mut places = [None; ROWS];
            for (i, place) in places.iter_mut().enumerate().take(count) {
                let (oy, ox) = ((first + i) / s.ow, (first + i) % s.ow);
                let y = (oy * s.sh + tap / s.kw * s.dh) as isize - s.pt;
                let x = (ox * s.sw + tap % s.kw * s.dw) as isize - s.pl;
                let inside = y >= 0 && x >= 0 && (y as usize) < s.h && (x as usize) < s.w;
                *place = inside.then(|| y as usize * s.w + x as usize);
            }
            for (i, place) in places.into_iter().enumerate().take(count) {
                let to = out.add(tap * ROWS + i);
                match place {
                    Some(place) => {
                        for c in 0..s.c {
                            *to.add(c * taps * ROWS) = *x.add(c * plane + place);
                        }
                    }
                    None => {
                        for c in 0..s.c {
                            *to.add(c * taps * ROWS) = 0.0;
                        }
                    }
                }
            }
        }
    }
}

/// Computes some output channels for the pixels of some panels of an image.
unsafe fn products(
    (v, s): (&RxConv2dF32, &Sizes),
    image: usize,
    channel: usize,
    panels: std::ops::Range<usize>,
    (weight, packed): (*const f32, *const f32),
) {
    let pixels = s.oh * s.ow;
    let (high, wide) = (high(pixels), WIDE.min(s.o - channel));
    // SAFETY: panels, weight and output have the convolution's sizes.
    unsafe {
        let mut full = s.target(v, image, 0, 0);
        full.across = true;
        if let Some(e) = &mut full.epilogue {
            e.bias_axis = 1;
        }
        let mut p0 = 0;
        while p0 < s.k {
            let kc = even_piece(s.k - p0, DEEP, 1);
            let mut target = full;
            target.accumulate = p0 > 0;
            if p0 + kc < s.k {
                target.epilogue = None;
            }
            let whole = wide.next_multiple_of(COLS);
            let from = weight.add(channel * s.k + p0 * whole);
            let next = from.wrapping_add(whole * kc);
            // What comes next is fetched in as many parts as there are panels of pixels.
            let part = (whole * kc).div_ceil(panels.len());
            for (i, panel) in panels.clone().enumerate() {
                let first = panel * high;
                let rows = high.min(pixels - first);
                let a = packed.add((panel * s.k + p0) * ROWS);
                let b = Columns {
                    ahead: (next.wrapping_add(i * part), part),
                    ..Columns::of(from, kc * COLS, COLS)
                };
                block(
                    rows,
                    wide,
                    kc,
                    a,
                    s.k * ROWS,
                    b,
                    &target.shift(first, channel),
                );
            }
            p0 += kc;
        }
    }
}

/// The whole convolution.
///
/// # Safety
/// As for `rx_conv2d_f32`; no size of the output is 0, and `weight` is packed in panels of columns.
pub(super) unsafe fn run(
    context: &mut RxContext,
    v: &RxConv2dF32,
    s: &Sizes,
    weight: *const f32,
) -> i32 {
    let pixels = s.oh * s.ow;
    let high = high(pixels);
    let panels = pixels.div_ceil(high);
    let work = WIDE * high * s.k;
    // SAFETY: the arrays have the convolution's sizes, and the weight is packed; tasks write
    // disjoint panels, then disjoint outputs.
    unsafe {
        let room = (panels * ROWS * s.k * 4) as u64;
        let packed = rx_scratch_alloc(context, room).cast::<f32>();
        if packed.is_null() {
            return context.status;
        }
        for image in 0..s.n {
            let x = v.x.add(image * s.c * s.h * s.w);
            let shared = Share::new((s, x, packed));
            let grain = Grain::of_work(SMALL, ROWS * s.k * 8);
            context.pool.each(panels, grain, |begin, end, _| {
                let &(s, x, packed) = shared.get();
                for panel_no in begin..end {
                    let first = panel_no * high;
                    let count = high.min(pixels - first);
                    let out = packed.add(panel_no * ROWS * s.k);
                    dispatch!(panel(
                        s: &Sizes,
                        x: *const f32,
                        first: usize,
                        count: usize,
                        out: *mut f32,
                    ));
                }
            });
            let shared = Share::new((v, s, weight, packed.cast_const()));
            // A task is a panel of pixels with some output channels, so that threads have equal
            // shares; those of the same channels come one after the other and share the weight.
            let tasks = s.o.div_ceil(WIDE) * panels;
            (context.pool).each(tasks, Grain::of_work(SMALL, work), |begin, end, _| {
                let &(v, s, weight, packed) = shared.get();
                let mut task = begin;
                while task < end {
                    let (group, first) = (task / panels, task % panels);
                    let count = (panels - first).min(end - task);
                    let mine = first..first + count;
                    products((v, s), image, group * WIDE, mine, (weight, packed));
                    task += count;
                }
            });
        }
        rx_scratch_free(context, packed.cast());
    }
    0
}
