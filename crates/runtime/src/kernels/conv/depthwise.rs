//! Depthwise convolution: every channel has its own windows.

use super::{RxConv2dF32, SMALL, Sizes, lanes};
use crate::context::RxContext;
use crate::kernels::gemm::epilogue::Target;
use crate::kernels::padded::Padded;
use crate::kernels::simd::{Isa, Simd, dispatch, isa};
use crate::threads::Share;
use crate::values::{rx_scratch_alloc, rx_scratch_free};

/// Vectors of an output row that are summed together.
const WIDE: usize = 4;

/// All output channels of one input channel of one image.
#[inline(always)]
unsafe fn plane<S: Simd>(v: &RxConv2dF32, s: &Sizes, image: usize, channel: usize, room: *mut f32) {
    let padded = Padded::of(s.window());
    let within = taps(s.kw, s.dw, s.pl, (s.ow - 1) * s.sw, s.w);
    // SAFETY: image and channel are the convolution's, whose arrays have its sizes; `room` has the
    // padded channel's size.
    unsafe {
        padded.fill::<S>(v.x.add((image * s.c + channel) * s.h * s.w), room);
        for m in 0..s.og {
            let weight = v.weight.add((channel * s.og + m) * s.kh * s.kw);
            let mut oy = 0;
            while oy < s.oh {
                // Several rows are summed at a time, so that dependency chains overlap and weights
                // are loaded once for all.
                let high = match s.oh - oy {
                    4.. => 4,
                    2.. => 2,
                    _ => 1,
                };
                let rows = taps(
                    s.kh,
                    s.dh,
                    s.pt - (oy * s.sh) as isize,
                    (high - 1) * s.sh,
                    s.h,
                );
                let target = s.target(v, image, channel, oy * s.ow).shift(m, 0);
                let from = room.add(oy * s.sh * padded.row);
                let mut ox = 0;
                while ox < s.ow {
                    let columns = (s.ow - ox).min(2 * S::LANES);
                    let from = from.add(ox);
                    let target = shift(&target, ox);
                    let vectors = columns.div_ceil(S::LANES);
                    let taps = [&rows, &within];
                    macro_rules! rows {
                        ($nv:literal, $r:literal) => {
                            lines::<S, $nv, $r>(s, &padded, (from, weight), taps, columns, &target)
                        };
                    }
                    match (vectors, high) {
                        (1, 4) => rows!(1, 4),
                        (_, 4) => rows!(2, 4),
                        (1, 2) => rows!(1, 2),
                        (_, 2) => rows!(2, 2),
                        (1, _) => rows!(1, 1),
                        _ => rows!(2, 1),
                    }
                    ox += columns;
                }
                oy += high;
            }
        }
    }
}

/// Returns the taps of a window, `distance` apart, that are inside the image for any of the outputs
/// whose windows begin between `before` in front of the image and `beyond` after that. The others
/// read only padding.
pub(super) fn taps(
    count: usize,
    distance: usize,
    before: isize,
    beyond: usize,
    size: usize,
) -> std::ops::Range<usize> {
    let places = |reach: isize| match distance {
        1 => reach.max(0) as usize,
        _ => (reach.max(0) as usize).div_ceil(distance),
    };
    let first = places(before - beyond as isize).min(count);
    first..places(size as isize + before).min(count).max(first)
}

/// Returns whether windows are read from the image in place: 3 by 3 with stride 1, for which a
/// padded copy would take as long as the sums.
fn as_it_lies(s: &Sizes) -> bool {
    let plain = (s.kh, s.kw, s.sh, s.sw, s.dh, s.dw) == (3, 3, 1, 1, 1, 1);
    plain && !s.nhwc && isa() == Isa::Avx512
}

/// Like [`plane`], without a copy of the channel.
#[inline(always)]
unsafe fn plane3<S: Simd>(v: &RxConv2dF32, s: &Sizes, image: usize, channel: usize) {
    // SAFETY: image and channel are the convolution's, whose arrays have its sizes.
    unsafe {
        let x = v.x.add((image * s.c + channel) * s.h * s.w);
        for m in 0..s.og {
            let weight = v.weight.add((channel * s.og + m) * 9);
            let target = s.target(v, image, channel, 0).shift(m, 0);
            if s.ow > S::LANES {
                for ox in (0..s.ow).step_by(2 * S::LANES) {
                    let target = shift(&target, ox);
                    if s.ow - ox > S::LANES {
                        down3::<S, 2>(s, x, weight, ox, &target);
                    } else {
                        down3::<S, 1>(s, x, weight, ox, &target);
                    }
                }
                continue;
            }
            let mut oy = 0;
            while oy < s.oh {
                let target = shift(&target, oy * s.ow);
                oy += match s.oh - oy {
                    7.. => rows3::<S, 7>(s, x, weight, oy, &target),
                    4.. => rows3::<S, 4>(s, x, weight, oy, &target),
                    2.. => rows3::<S, 2>(s, x, weight, oy, &target),
                    _ => rows3::<S, 1>(s, x, weight, oy, &target),
                };
            }
        }
    }
}

/// Returns the mask of the lanes from `column` on that are inside the image.
#[inline(always)]
unsafe fn within<S: Simd>(s: &Sizes, column: isize) -> S::Lanes {
    let end = (s.w as isize - column).clamp(0, S::LANES as isize);
    // SAFETY: `end` is at most a vector's lanes.
    unsafe { S::lanes((-column).clamp(0, end) as usize, end as usize) }
}

/// The weights of a window of 3 by 3, each in all lanes.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the weights out of memory.
unsafe fn spread3<S: Simd>(weight: *const f32) -> [[S; 3]; 3] {
    // SAFETY: `weight` has nine floats.
    unsafe {
        let mut w = [[S::splat(0.0); 3]; 3];
        for ky in 0..3 {
            for kx in 0..3 {
                w[ky][kx] = S::splat(*weight.add(ky * 3 + kx));
            }
        }
        w
    }
}

/// Computes `R` output rows, which it returns, of one vector, so that dependency chains overlap.
/// Each row of the image is read once for the three output rows that it contributes to, with all
/// nine weights in registers.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the sums out of memory.
unsafe fn rows3<S: Simd, const R: usize>(
    s: &Sizes,
    x: *const f32,
    weight: *const f32,
    oy: usize,
    target: &Target,
) -> usize {
    // SAFETY: the rows lie in the image and the output; lanes beyond the image are not read.
    unsafe {
        let mut acc = [[S::splat(bias(target)); 1]; R];
        let w = spread3::<S>(weight);
        let mut inside = [S::lanes(0, 0); 3];
        for kx in 0..3 {
            inside[kx] = within::<S>(s, kx as isize - s.pl);
        }
        for i in 0..R + 2 {
            let y = (oy + i) as isize - s.pt;
            if y < 0 || y as usize >= s.h {
                continue;
            }
            let row = x.wrapping_offset(y * s.w as isize - s.pl);
            for kx in 0..3 {
                let x = S::load_lanes(row.wrapping_add(kx), inside[kx]);
                for r in 0..R {
                    if i >= r && i < r + 3 {
                        acc[r][0] = w[i - r][kx].fma(x, acc[r][0]);
                    }
                }
            }
        }
        put(acc, s, s.ow, target);
    }
    R
}

/// Computes columns of `NV` vectors from `ox` on, from the first row of the output to the last:
/// each row of the image is read once, and added to the three output rows that it contributes to,
/// whose sums and all nine weights are in registers.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the sums out of memory.
unsafe fn down3<S: Simd, const NV: usize>(
    s: &Sizes,
    x: *const f32,
    weight: *const f32,
    ox: usize,
    target: &Target,
) {
    // SAFETY: the columns lie in the image and the output; lanes beyond the image are not read.
    unsafe {
        let columns = (s.ow - ox).min(NV * S::LANES);
        let start = S::splat(bias(target));
        let w = spread3::<S>(weight);
        let left = ox as isize - s.pl;
        let mut inside = [[S::lanes(0, 0); 3]; NV];
        for v in 0..NV {
            for kx in 0..3 {
                inside[v][kx] = within::<S>(s, (v * S::LANES + kx) as isize + left);
            }
        }
        // The sums of the rows above, here and below rotate.
        let mut sums = [[start; NV]; 3];
        let mut i = 0;
        macro_rules! row {
            ($above:literal, $here:literal, $below:literal) => {
                if i == s.oh + 2 {
                    return;
                }
                sums[$below] = [start; NV];
                let y = i as isize - s.pt;
                if y >= 0 && (y as usize) < s.h {
                    let row = x.wrapping_offset(y * s.w as isize + left);
                    for kx in 0..3 {
                        for v in 0..NV {
                            let at = row.wrapping_add(kx + v * S::LANES);
                            let x = S::load_lanes(at, inside[v][kx]);
                            sums[$above][v] = w[2][kx].fma(x, sums[$above][v]);
                            sums[$here][v] = w[1][kx].fma(x, sums[$here][v]);
                            sums[$below][v] = w[0][kx].fma(x, sums[$below][v]);
                        }
                    }
                }
                if i >= 2 {
                    let to = shift(target, (i - 2) * s.ow);
                    put([sums[$above]], s, columns, &to);
                }
                i += 1;
            };
        }
        loop {
            row!(0, 1, 2);
            row!(1, 2, 0);
            row!(2, 0, 1);
        }
    }
}

/// Moves the target to the right in the same channel: the bias, one per channel, is unchanged.
#[inline(always)]
unsafe fn shift(target: &Target, columns: usize) -> Target {
    let mut to = *target;
    // SAFETY: there are so many columns more in the output.
    unsafe {
        to.c = to.c.add(columns);
        if let Some(e) = &mut to.epilogue
            && !e.residual.is_null()
        {
            e.residual = e.residual.add(columns);
        }
    }
    to
}

/// `R` output rows of at most `NV` vectors.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the sums out of memory.
unsafe fn lines<S: Simd, const NV: usize, const R: usize>(
    s: &Sizes,
    padded: &Padded,
    (from, weight): (*const f32, *const f32),
    [rows, within]: [&std::ops::Range<usize>; 2],
    columns: usize,
    target: &Target,
) {
    // SAFETY: rows and places of the window lie in the padded channel, and the output has the
    // vectors' columns.
    unsafe {
        let mut acc = [[S::splat(bias(target)); NV]; R];
        for ky in rows.clone() {
            for kx in within.clone() {
                let at = from.add(padded.tap(ky, kx));
                let w = S::splat(*weight.add(ky * s.kw + kx));
                for r in 0..R {
                    let at = at.add(r * s.sh * padded.row);
                    for v in 0..NV {
                        acc[r][v] = w.fma(S::load(at.add(v * S::LANES)), acc[r][v]);
                    }
                }
            }
        }
        put(acc, s, columns, target);
    }
}

/// Returns the initial value of the sums: the channel's bias, unless they are scaled first.
#[inline(always)]
unsafe fn bias(target: &Target) -> f32 {
    match &target.epilogue {
        // SAFETY: a bias has a number for the target's channel.
        Some(e) if !e.bias.is_null() && e.scale.is_null() => unsafe { *e.bias },
        _ => 0.0,
    }
}

/// Applies the epilogue to the sums, and stores them.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the sums out of memory.
unsafe fn put<S: Simd, const NV: usize, const R: usize>(
    acc: [[S; NV]; R],
    s: &Sizes,
    columns: usize,
    target: &Target,
) {
    let e = target.epilogue.unwrap_or_default();
    let (lo, hi) = e.bounds();
    // SAFETY: the output has `R` rows of the columns that are written.
    unsafe {
        let bias = if e.bias.is_null() { 0.0 } else { *e.bias };
        for r in 0..R {
            for v in 0..NV {
                // Rows of the output are contiguous.
                let at = r * s.ow + v * S::LANES;
                let n = columns - v * S::LANES;
                let mut x = acc[r][v];
                if !e.scale.is_null() {
                    x = x.fma(S::splat(*e.scale), S::splat(bias));
                }
                if !e.residual.is_null() {
                    x = x.add(S::load_part(e.residual.add(at), n.min(S::LANES)));
                }
                if e.activation != 0 {
                    x = x.max(S::splat(lo)).min(S::splat(hi));
                }
                if n >= S::LANES {
                    x.store(target.c.add(at));
                } else {
                    x.store_part(target.c.add(at), n);
                }
            }
        }
    }
}

/// Computes one output row of an image with channels last: vectors run over channels.
#[inline(always)]
unsafe fn channels_last<S: Simd>(v: &RxConv2dF32, s: &Sizes, image: usize, oy: usize) {
    // SAFETY: image and row are the convolution's, whose arrays have its sizes.
    unsafe {
        let x = v.x.add(image * s.h * s.w * s.c);
        for ox in 0..s.ow {
            let target = s.target(v, image, 0, oy * s.ow + ox);
            let mut c0 = 0;
            while c0 < s.c {
                let wide = (s.c - c0).min(WIDE * S::LANES);
                let mut acc = [S::splat(0.0); WIDE];
                for ky in 0..s.kh {
                    let y = (oy * s.sh + ky * s.dh) as isize - s.pt;
                    if y < 0 || y as usize >= s.h {
                        continue;
                    }
                    for kx in 0..s.kw {
                        let column = (ox * s.sw + kx * s.dw) as isize - s.pl;
                        if column < 0 || column as usize >= s.w {
                            continue;
                        }
                        let at = x.add((y as usize * s.w + column as usize) * s.c + c0);
                        let w = v.weight.add((ky * s.kw + kx) * s.c + c0);
                        for (i, acc) in acc.iter_mut().enumerate() {
                            let lane = i * S::LANES;
                            if lane < wide {
                                let n = (wide - lane).min(S::LANES);
                                let (x, w) = (at.add(lane), w.add(lane));
                                *acc = S::load_part(x, n).fma(S::load_part(w, n), *acc);
                            }
                        }
                    }
                }
                let vectors = wide.div_ceil(S::LANES);
                target
                    .shift(0, c0)
                    .finish::<S>(acc.as_ptr(), 1, vectors, wide);
                c0 += wide;
            }
        }
    }
}

/// The whole convolution.
///
/// # Safety
/// Like `rx_conv2d_f32`; no size of the output is 0.
pub(super) unsafe fn run(context: &mut RxContext, v: &RxConv2dF32, s: &Sizes) -> i32 {
    let shared_v = v;
    let row_work = s.ow * s.kh * s.kw;
    // SAFETY: the arrays have the convolution's sizes; tasks write disjoint rows or channels.
    unsafe {
        if s.nhwc {
            let shared = Share::new((shared_v, s));
            let grain = (SMALL / (row_work * s.c).max(1)).max(1);
            context.pool.each(s.n * s.oh, grain, |begin, end, _| {
                let &(v, s) = shared.get();
                for task in begin..end {
                    let (image, oy) = (task / s.oh, task % s.oh);
                    dispatch!(channels_last(v: &RxConv2dF32, s: &Sizes, image: usize, oy: usize));
                }
            });
            return 0;
        }
        if lanes::pays(s) {
            return lanes::run(context, v, s);
        }
        let grain = (SMALL / (row_work * s.oh * s.og).max(1)).max(1);
        if as_it_lies(s) {
            let shared = Share::new((shared_v, s));
            context.pool.each(s.n * s.c, grain, |begin, end, _| {
                let &(v, s) = shared.get();
                for task in begin..end {
                    let (image, channel) = (task / s.c, task % s.c);
                    dispatch!(plane3(v: &RxConv2dF32, s: &Sizes, image: usize, channel: usize));
                }
            });
            return 0;
        }
        let room = Padded::of(s.window()).floats().next_multiple_of(16);
        let threads = context.pool.threads();
        let scratch =
            rx_scratch_alloc(context, room.saturating_mul(threads * 4) as u64).cast::<f32>();
        if scratch.is_null() {
            return context.status;
        }
        // The zeros of the padding, which filling does not overwrite.
        std::ptr::write_bytes(scratch, 0, room * threads);
        let shared = Share::new((shared_v, s, scratch));
        context.pool.each(s.n * s.c, grain, |begin, end, worker| {
            let &(v, s, scratch) = shared.get();
            let room = scratch.add(worker * room);
            for task in begin..end {
                let (image, channel) = (task / s.c, task % s.c);
                dispatch!(plane(
                    v: &RxConv2dF32,
                    s: &Sizes,
                    image: usize,
                    channel: usize,
                    room: *mut f32,
                ));
            }
        });
        rx_scratch_free(context, scratch.cast());
    }
    0
}
