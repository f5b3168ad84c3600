//! Two-dimensional pooling of float32.

use crate::context::{RxContext, Status, guard};
use crate::kernels::simd::{Simd, dispatch};
use crate::threads::Share;

/// Elements one thread should at least handle.
const GRAIN: usize = 16 << 10;

/// As in the C header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
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
    /// Step of the window, down.
    pub stride_h: i64,
    /// Step of the window, right.
    pub stride_w: i64,
    /// Padding above.
    pub pad_t: i64,
    /// Padding to the left.
    pub pad_l: i64,
    /// Distance of the window's rows.
    pub dilation_h: i64,
    /// Distance of the window's columns.
    pub dilation_w: i64,
    /// 0 NCHW, 1 NHWC.
    pub layout: i32,
    /// 0 maximum, 1 average with the padding counted, 2 average of what lies in the image.
    pub op: i32,
    /// Input.
    pub x: *const f32,
    /// Output.
    pub y: *mut f32,
}

/// Places `i` of the window, of `count`, whose input `start + i * step` lies in `[0, size)`.
fn inside(start: i64, step: i64, count: i64, size: i64) -> (i64, i64) {
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

/// One output row of one image (channels last) or channel.
#[inline(always)]
unsafe fn row<S: Simd>(p: &RxPool2dF32, plane: i64, oy: i64) {
    // With channels last, vectors run over channels; else elements are single.
    let width = if p.layout == 1 { p.c } else { 1 } as usize;
    let y0 = oy * p.stride_h - p.pad_t;
    let (top, bottom) = inside(y0, p.dilation_h, p.kh, p.h);
    // SAFETY: the callers' promise; the window is cut to the image.
    unsafe {
        let x = p.x.add(plane as usize * (p.h * p.w) as usize * width);
        let y =
            p.y.add((plane * p.oh + oy) as usize * p.ow as usize * width);
        for ox in 0..p.ow {
            let x0 = ox * p.stride_w - p.pad_l;
            let (left, right) = inside(x0, p.dilation_w, p.kw, p.w);
            let taps = if p.op == 2 {
                (bottom - top) * (right - left)
            } else {
                p.kh * p.kw
            };
            let to = y.add(ox as usize * width);
            let at = |ky: i64, kx: i64| {
                let place = (y0 + ky * p.dilation_h) * p.w + x0 + kx * p.dilation_w;
                x.add(place as usize * width)
            };
            if width == 1 {
                let start = if p.op == 0 { f32::NEG_INFINITY } else { 0.0 };
                let mut acc = start;
                for ky in top..bottom {
                    for kx in left..right {
                        let v = *at(ky, kx);
                        acc = match p.op {
                            0 if v > acc || v.is_nan() => v,
                            0 => acc,
                            _ => acc + v,
                        };
                    }
                }
                *to = if p.op == 0 {
                    acc
                } else {
                    acc / taps.max(1) as f32
                };
                continue;
            }
            let mut c = 0;
            while c < width {
                let n = (width - c).min(S::LANES);
                let mut acc = S::splat(if p.op == 0 { f32::NEG_INFINITY } else { 0.0 });
                for ky in top..bottom {
                    for kx in left..right {
                        let v = S::load_part(at(ky, kx).add(c), n);
                        acc = if p.op == 0 {
                            S::select(v.eq(v), v.max(acc), v)
                        } else {
                            acc.add(v)
                        };
                    }
                }
                if p.op != 0 {
                    acc = acc.div(S::splat(taps.max(1) as f32));
                }
                acc.store_part(to.add(c), n);
                c += n;
            }
        }
    }
}

/// Pooling.
///
/// # Safety
/// The arrays are as large as the sizes say and do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_pool2d_f32(ctx: *mut RxContext, pool: *const RxPool2dF32) -> i32 {
    guard(ctx, |context| {
        // SAFETY: the caller's promise; rows of the output are disjoint.
        unsafe {
            let p = &*pool;
            let steps = [p.stride_h, p.stride_w, p.dilation_h, p.dilation_w];
            if steps.iter().any(|&s| s < 1) || !matches!((p.layout, p.op), (0 | 1, 0..=2)) {
                return context.fail(Status::Argument, "rx_pool2d_f32: sizes that are no pooling");
            }
            let planes = if p.layout == 1 { p.n } else { p.n * p.c };
            if planes <= 0 || p.oh <= 0 || p.ow <= 0 {
                return 0;
            }
            let width = if p.layout == 1 { p.c } else { 1 };
            let work = (p.ow * p.kh * p.kw * width).max(1) as usize;
            let shared = Share::new(p);
            context.pool.each(
                (planes * p.oh) as usize,
                (GRAIN / work).max(1),
                |begin, end, _| {
                    let p = *shared.get();
                    for i in begin as i64..end as i64 {
                        let (plane, oy) = (i / p.oh, i % p.oh);
                        dispatch!(row(p: &RxPool2dF32, plane: i64, oy: i64));
                    }
                },
            );
        }
        0
    })
}
