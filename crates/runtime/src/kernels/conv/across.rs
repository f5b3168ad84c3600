//! Windows of one pixel over few pixels: vectors run along output channels.
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
/// Returns whether a convolution can go this way.
pub(super) fn can(s: &Sizes) -> bool {
    s.as_it_lies() && !s.nhwc && s.groups == 1 && s.k > 0
}

/// Returns whether a window of one pixel is multiplied faster this way than with pixels along
/// vectors, by the lanes of both and what only this one does: turning over an output costs as much
/// as eight multiplications then.
pub(super) fn pays(s: &Sizes) -> bool {
    let pixels = s.oh * s.ow;
    if !can(s) || s.o < COLS {
        return false;
    }
    let along = pixels.next_multiple_of(COLS) * s.o.next_multiple_of(ROWS) * s.k;
    let across = pixels * s.o.next_multiple_of(COLS) * s.k + 8 * s.o * pixels;
    // Weights and pixels both come from the second cache, not only one of them.
    11 * across < 10 * along
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

/// Packs the inputs of `count` pixels from `first` on: for each channel a line of [`ROWS`] floats,
/// of which the first `count` are written.
#[inline(always)]
unsafe fn panel<S: Simd>(s: &Sizes, x: *const f32, first: usize, count: usize, out: *mut f32) {
    for c in 0..s.c {
        // SAFETY: pixels lie in the image, and `out` has a panel's room.
        unsafe {
            let (from, to) = (x.add(c * s.h * s.w + first), out.add(c * ROWS));
            for lane in (0..count).step_by(S::LANES) {
                let n = (count - lane).min(S::LANES);
                S::load_part(from.add(lane), n).store_part(to.add(lane), n);
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
