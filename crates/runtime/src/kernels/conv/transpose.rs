//! Transposed convolution: each input pixel is scattered over a window of the output.
//!
//! The contributions of all pixels of some rows are a matrix product, (filters × window, channels)
//! by (channels, pixels), whose right operand is the image in place; each line of it, a window
//! position for all pixels, is then added to the output. The number of rows is chosen so that the
//! product fits in the second-level cache.

use super::{RxConv2dF32, Sizes};
use crate::context::{RxContext, Status, guard};
use crate::kernels::gemm::epilogue::RxEpilogue;
use crate::kernels::gemm::{RxGemmF32, gemm};
use crate::threads::Share;
use crate::values::{rx_scratch_alloc, rx_scratch_free};
use std::ops::Range;

/// The approximate number of floats that are scattered at a time.
const ROOM: usize = 1 << 18;

/// A piece of the input: rows `[from, to)` of a group of an image.
#[derive(Clone, Copy)]
struct Piece {
    from: usize,
    to: usize,
    /// The contributions of its pixels: by filter, then by window position, then by pixel.
    spread: *const f32,
    /// The first of the group's planes in the output.
    y: *mut f32,
}

impl Sizes {
    /// Returns the columns of the input whose place under a column of the window is in the output,
    /// and the place of the first.
    fn columns(&self, column: usize) -> (Range<usize>, isize) {
        let left = (column * self.dw) as isize - self.pl;
        let up = |n: isize| n.max(0).unsigned_abs().div_ceil(self.sw);
        let (first, end) = (up(-left), up(self.ow as isize - left).min(self.w));
        (first..end, left + (first * self.sw) as isize)
    }

    /// Adds the contributions of a piece to some planes of the output.
    unsafe fn gather(&self, piece: &Piece, planes: Range<usize>) {
        let taps = self.kh * self.kw;
        let pixels = (piece.to - piece.from) * self.w;
        let (oh, ow) = (self.oh as isize, self.ow as isize);
        for column in 0..self.kw {
            let (columns, left) = self.columns(column);
            if columns.is_empty() {
                continue;
            }
            for (o, row) in planes
                .clone()
                .flat_map(|o| (0..self.kh).map(move |y| (o, y)))
            {
                let line = (o * taps + row * self.kw + column) * pixels + columns.start;
                for iy in piece.from..piece.to {
                    let oy = (iy * self.sh + row * self.dh) as isize - self.pt;
                    if oy < 0 || oy >= oh {
                        continue;
                    }
                    // SAFETY: the piece has the sums of rows `from..to`; `columns` and the test of
                    // `oy` leave out positions outside of the output.
                    unsafe {
                        let from = piece.spread.add(line + (iy - piece.from) * self.w);
                        let to = piece.y.offset((o as isize * oh + oy) * ow + left);
                        if self.sw == 1 {
                            for i in 0..columns.len() {
                                *to.add(i) += *from.add(i);
                            }
                        } else {
                            for i in 0..columns.len() {
                                *to.add(i * self.sw) += *from.add(i);
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Scales, adds and bounds a plane of the output.
unsafe fn finish(v: &RxConv2dF32, pixels: usize, channel: usize, plane: usize) {
    let e = &v.epilogue;
    let bounds = e.bounds();
    // SAFETY: scale and bias have a number for each channel, the residual the output's form.
    unsafe {
        let scale = if e.scale.is_null() {
            1.0
        } else {
            *e.scale.add(channel)
        };
        let bias = if e.bias.is_null() {
            0.0
        } else {
            *e.bias.add(channel)
        };
        for i in 0..pixels {
            let y = v.y.add(plane * pixels + i);
            let mut x = *y;
            if !e.scale.is_null() {
                x *= scale;
            }
            if !e.bias.is_null() {
                x += bias;
            }
            if !e.residual.is_null() {
                x += *e.residual.add(plane * pixels + i);
            }
            if e.activation != 0 {
                x = RxEpilogue::bound(x, bounds);
            }
            *y = x;
        }
    }
}

unsafe fn run(context: &mut RxContext, v: &RxConv2dF32, s: &Sizes) -> i32 {
    let (taps, pixels) = (s.kh * s.kw, s.oh * s.ow);
    let filters = s.og * taps;
    let rows = (ROOM / (s.w * filters).max(1)).clamp(1, s.h.max(1));
    // SAFETY: the arrays have the convolution's sizes; planes of the output are disjoint.
    unsafe {
        std::ptr::write_bytes(v.y, 0, s.n * s.o * pixels);
        let bytes = (rows * s.w * filters * 4).max(1);
        let spread = rx_scratch_alloc(context, bytes as u64).cast::<f32>();
        if spread.is_null() {
            return context.status;
        }
        for (image, group) in (0..s.n * s.groups).map(|i| (i / s.groups, i % s.groups)) {
            let mut from = 0;
            while from < s.h && s.w > 0 && s.cg > 0 {
                let to = (from + rows).min(s.h);
                let first = (image * s.c + group * s.cg) * s.h * s.w + from * s.w;
                let g = RxGemmF32 {
                    m: filters as i64,
                    n: ((to - from) * s.w) as i64,
                    k: s.cg as i64,
                    a: v.weight.wrapping_add(group * s.cg * filters),
                    a_rs: 1,
                    a_cs: filters as i64,
                    a_packed: v.weight_packed,
                    b: v.x.add(first),
                    b_rs: (s.h * s.w) as i64,
                    b_cs: 1,
                    c: spread,
                    c_ld: ((to - from) * s.w) as i64,
                    ..Default::default()
                };
                let status = gemm(context, &g);
                if status != 0 {
                    rx_scratch_free(context, spread.cast());
                    return status;
                }
                let y = v.y.add((image * s.o + group * s.og) * pixels);
                let piece = Piece {
                    from,
                    to,
                    spread,
                    y,
                };
                let shared = Share::new((s, piece));
                let grain = ((1 << 15) / ((to - from) * s.w * taps).max(1)).max(1);
                context.pool.each(s.og, grain, |begin, end, _| {
                    let (s, piece) = shared.get();
                    s.gather(piece, begin..end);
                });
                from = to;
            }
        }
        rx_scratch_free(context, spread.cast());
        if !v.epilogue.none() {
            let shared = Share::new((v, s));
            let grain = ((1 << 15) / pixels).max(1);
            context.pool.each(s.n * s.o, grain, |begin, end, _| {
                let &(v, s) = shared.get();
                (begin..end).for_each(|plane| finish(v, pixels, plane % s.o, plane));
            });
        }
    }
    0
}

/// Computes a transposed convolution: the descriptor of a convolution with the weight as (c, o /
/// groups, kh, kw), channels first. `weight_packed`, with one group, is from `rx_pack_a_f32` with m
/// = o × kh × kw, k = c and strides 1 and m.
///
/// # Safety
/// The arrays are as large as the sizes say, and the output overlaps only the residual.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_conv2d_transpose_f32(
    ctx: *mut RxContext,
    conv: *const RxConv2dF32,
) -> i32 {
    guard(ctx, |context| {
        // SAFETY: `conv` is a live descriptor, whose arrays have the sizes that it says.
        unsafe {
            let v = &*conv;
            let fits = |s: &Sizes| !s.nhwc && (s.groups == 1 || v.weight_packed.is_null());
            let Some(s) = Sizes::of(&v.sizes, v.layout).filter(fits) else {
                let text = "rx_conv2d_transpose_f32: sizes that are no transposed convolution";
                return context.fail(Status::Argument, text);
            };
            if s.n * s.o * s.oh * s.ow == 0 {
                return 0;
            }
            run(context, v, &s)
        }
    })
}
