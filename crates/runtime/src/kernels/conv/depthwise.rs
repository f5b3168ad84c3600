//! Depthwise convolution: every channel has its own windows.

use super::{RxConv2dF32, SMALL, Sizes};
use crate::context::RxContext;
use crate::kernels::simd::{Simd, dispatch};
use crate::threads::Share;
use crate::values::{rx_scratch_alloc, rx_scratch_free};

/// Vectors of an output row that are summed together.
const WIDE: usize = 4;

/// A channel with its zeros around it, columns sorted by their remainder modulo the stride, so
/// that neighbouring outputs read neighbouring inputs.
#[derive(Clone, Copy)]
struct Padded {
    rows: usize,
    /// Columns that are read.
    columns: usize,
    /// Floats of one remainder's part of a row.
    phase: usize,
    /// Floats of a row.
    row: usize,
}

impl Padded {
    fn of(s: &Sizes) -> Self {
        let rows = (s.oh - 1) * s.sh + (s.kh.max(1) - 1) * s.dh + 1;
        let columns = (s.ow - 1) * s.sw + (s.kw.max(1) - 1) * s.dw + 1;
        // Vectors read past the end of the last row.
        let phase = columns.div_ceil(s.sw) + 16;
        Self {
            rows,
            columns,
            phase,
            row: phase * s.sw,
        }
    }

    fn floats(&self) -> usize {
        self.rows * self.row + 16 * WIDE
    }

    unsafe fn fill(&self, s: &Sizes, x: *const f32, out: *mut f32) {
        // The columns that lie in the image.
        let left = (-s.pl).max(0) as usize;
        let first = s.pl.max(0) as usize;
        let count =
            s.w.saturating_sub(left)
                .min(self.columns.saturating_sub(first));
        // SAFETY: the callers' promise.
        unsafe {
            for i in 0..self.rows {
                let to = out.add(i * self.row);
                let y = i as isize - s.pt;
                let inside = y >= 0 && (y as usize) < s.h && count > 0;
                if !inside || s.sw != 1 {
                    std::ptr::write_bytes(to, 0, self.row);
                }
                if !inside {
                    continue;
                }
                let from = x.add(y as usize * s.w + left);
                if s.sw == 1 {
                    std::ptr::write_bytes(to, 0, first);
                    std::ptr::copy_nonoverlapping(from, to.add(first), count);
                    std::ptr::write_bytes(to.add(first + count), 0, self.row - first - count);
                } else {
                    for j in 0..count {
                        let column = first + j;
                        *to.add(column % s.sw * self.phase + column / s.sw) = *from.add(j);
                    }
                }
            }
        }
    }
}

/// All output channels of one input channel of one image.
#[inline(always)]
unsafe fn plane<S: Simd>(v: &RxConv2dF32, s: &Sizes, image: usize, channel: usize, room: *mut f32) {
    let padded = Padded::of(s);
    // SAFETY: the callers' promise; `room` has the padded channel's size.
    unsafe {
        padded.fill(s, v.x.add((image * s.c + channel) * s.h * s.w), room);
        for m in 0..s.og {
            let weight = v.weight.add((channel * s.og + m) * s.kh * s.kw);
            for oy in 0..s.oh {
                let target = s.target(v, image, channel, oy * s.ow).shift(m, 0);
                let from = room.add(oy * s.sh * padded.row);
                let mut ox = 0;
                while ox < s.ow {
                    let columns = (s.ow - ox).min(WIDE * S::LANES);
                    let from = from.add(ox);
                    let target = target.shift(0, ox);
                    match columns.div_ceil(S::LANES) {
                        1 => line::<S, 1>(s, &padded, from, weight, columns, &target),
                        2 => line::<S, 2>(s, &padded, from, weight, columns, &target),
                        3 => line::<S, 3>(s, &padded, from, weight, columns, &target),
                        _ => line::<S, 4>(s, &padded, from, weight, columns, &target),
                    }
                    ox += columns;
                }
            }
        }
    }
}

#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the sums out of memory.
unsafe fn line<S: Simd, const NV: usize>(
    s: &Sizes,
    padded: &Padded,
    from: *const f32,
    weight: *const f32,
    columns: usize,
    target: &crate::kernels::gemm::epilogue::Target,
) {
    // SAFETY: the callers' promise.
    unsafe {
        let mut acc = [S::splat(0.0); NV];
        for ky in 0..s.kh {
            let row = from.add(ky * s.dh * padded.row);
            for kx in 0..s.kw {
                let column = kx * s.dw;
                let at = row.add(column % s.sw * padded.phase + column / s.sw);
                let w = S::splat(*weight.add(ky * s.kw + kx));
                for v in 0..NV {
                    acc[v] = w.fma(S::load(at.add(v * S::LANES)), acc[v]);
                }
            }
        }
        if target.plain() && columns == NV * S::LANES {
            for v in 0..NV {
                acc[v].store(target.c.add(v * S::LANES));
            }
        } else {
            let mut spill = [S::splat(0.0); NV];
            for v in 0..NV {
                spill[v] = acc[v];
            }
            target.finish::<S>(spill.as_ptr(), 1, NV, columns);
        }
    }
}

/// One output row of an image with channels last: vectors run over channels.
#[inline(always)]
unsafe fn channels_last<S: Simd>(v: &RxConv2dF32, s: &Sizes, image: usize, oy: usize) {
    // SAFETY: the callers' promise.
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
/// As `rx_conv2d_f32`; no size of the output is 0.
pub(super) unsafe fn run(context: &mut RxContext, v: &RxConv2dF32, s: &Sizes) -> i32 {
    let shared_v = v;
    let row_work = s.ow * s.kh * s.kw;
    // SAFETY: the caller's promise; tasks write disjoint rows or channels.
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
        let room = Padded::of(s).floats().next_multiple_of(16);
        let threads = context.pool.threads();
        let scratch = rx_scratch_alloc(context, (room * threads * 4) as u64).cast::<f32>();
        if scratch.is_null() {
            return context.status;
        }
        // Vectors may read the end of the room, which no row fills.
        std::ptr::write_bytes(scratch, 0, room * threads);
        let shared = Share::new((shared_v, s, scratch));
        let grain = (SMALL / (row_work * s.oh * s.og).max(1)).max(1);
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
