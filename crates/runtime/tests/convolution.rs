//! Convolutions and pooling against plain loops, over odd sizes, edges, instruction sets and thread
//! counts.

mod common;

use common::{Random, close, everywhere, finish, halved, one_pixel};
use relax_runtime::capi::kernels::{rx_conv2d_f32, rx_pool2d_f32};
use relax_runtime::capi::packing::{rx_conv2d_f32_pack, rx_conv2d_f32_pack_size};
use relax_runtime::context::RxContext;
use relax_runtime::kernels::conv::*;
use relax_runtime::kernels::gemm::epilogue::Rounding;
use relax_runtime::kernels::pool2d::*;
use std::ptr::null;

fn check_conv(ctx: *mut RxContext, mut v: RxConv2dF32, epilogue: usize, pack: bool) {
    let mut random = Random(6);
    let extent = |size: i64, window: i64, step: i64, pad: i64, dilation: i64| {
        (size + 2 * pad - (window - 1) * dilation - 1) / step + 1
    };
    let s = &mut v.sizes;
    s.oh = extent(s.h, s.kh, s.stride_h, s.pad_t, s.dilation_h);
    s.ow = extent(s.w, s.kw, s.stride_w, s.pad_l, s.dilation_w);
    let s = *s;
    let cg = s.c / s.groups;
    let x = random.floats((s.n * s.c * s.h * s.w) as usize);
    let weight = random.floats((s.o * cg * s.kh * s.kw) as usize);
    let outputs = (s.n * s.o * s.oh * s.ow) as usize;
    let (bias, mut residual) = (random.floats(s.o as usize), random.floats(outputs));
    let mut y = vec![9.0f32; outputs];
    (v.x, v.weight, v.y) = (x.as_ptr(), weight.as_ptr(), y.as_mut_ptr());
    if epilogue > 0 {
        (v.epilogue.bias, v.epilogue.activation) = (bias.as_ptr(), 1);
    }
    let scale = random.floats(s.o as usize);
    let offset = random.floats(s.o as usize);
    if epilogue > 1 {
        (v.epilogue.offset, v.epilogue.scale) = (offset.as_ptr(), scale.as_ptr());
        if let Some(first) = residual.first_mut() {
            *first = f32::NAN;
        }
        v.epilogue.residual = residual.as_ptr();
        (v.epilogue.lo, v.epilogue.hi) = (-0.25, 0.5);
        v.epilogue.activation = 1 + random.below(4) as i32;
    }
    let wanted_epilogue = v.epilogue;
    if epilogue > 2 {
        // The output overwrites the residual.
        y.copy_from_slice(&residual);
        v.epilogue.residual = v.y;
    }
    // SAFETY: all arrays have the sizes that the descriptor states.
    unsafe {
        let mut packed = vec![0.0f32; rx_conv2d_f32_pack_size(&v) as usize];
        let mut once = v;
        if pack && !packed.is_empty() {
            rx_conv2d_f32_pack(&v, packed.as_mut_ptr());
            (once.weight_packed, once.weight) = (packed.as_ptr(), null());
        }
        assert_eq!(rx_conv2d_f32(ctx, &once), 0);
    }
    let nhwc = v.layout == 1;
    let mut wanted = vec![0.0f32; outputs];
    let og = s.o / s.groups;
    for (n, o) in (0..s.n).flat_map(|n| (0..s.o).map(move |o| (n, o))) {
        for (oy, ox) in (0..s.oh).flat_map(|y| (0..s.ow).map(move |x| (y, x))) {
            let mut sum = 0.0f64;
            for c in 0..cg {
                for (ky, kx) in (0..s.kh).flat_map(|y| (0..s.kw).map(move |x| (y, x))) {
                    let iy = oy * s.stride_h + ky * s.dilation_h - s.pad_t;
                    let ix = ox * s.stride_w + kx * s.dilation_w - s.pad_l;
                    if iy < 0 || ix < 0 || iy >= s.h || ix >= s.w {
                        continue;
                    }
                    let channel = o / og * cg + c;
                    let (from, w) = if nhwc {
                        let at = ((n * s.h + iy) * s.w + ix) * s.c + channel;
                        (at, ((ky * s.kw + kx) * cg + c) * s.o + o)
                    } else {
                        let at = ((n * s.c + channel) * s.h + iy) * s.w + ix;
                        (at, ((o * cg + c) * s.kh + ky) * s.kw + kx)
                    };
                    sum += f64::from(x[from as usize]) * f64::from(weight[w as usize]);
                }
            }
            let at = if nhwc {
                ((n * s.oh + oy) * s.ow + ox) * s.o + o
            } else {
                ((n * s.o + o) * s.oh + oy) * s.ow + ox
            } as usize;
            wanted[at] = finish(&wanted_epilogue, sum as f32, o as usize, at);
        }
    }
    // Terms are as large as 1, and errors grow with their number.
    let tolerance = |way: Way| match way {
        Way::Winograd => 2e-4,
        _ => 2e-5,
    } * (s.c as f32 / 64.0).max(1.0);
    let ways = ways_of(&s, v.layout);
    let chosen = tolerance(ways[0]);
    close(&format!("{:?} {v:?}", ways[0]), &y, &wanted, chosen);
    if epilogue > 2 || outputs == 0 {
        return;
    }
    for way in ways {
        y.fill(9.0);
        // SAFETY: all arrays have the sizes that the descriptor states.
        unsafe {
            let packed = packed_for(&v, way);
            let mut once = v;
            if pack && !packed.is_empty() {
                (once.weight_packed, once.weight) = (packed.as_ptr(), null());
            }
            assert_eq!(by_way(&mut *ctx, &once, way), 0);
        }
        let what = format!("{way:?} {v:?}");
        close(&what, &y, &wanted, tolerance(way));
        let plain = std::mem::replace(&mut y, vec![9.0; outputs]);
        // SAFETY: all arrays have the sizes that the descriptor states.
        unsafe {
            let mut once = v;
            (once.y, once.epilogue.rounding) = (y.as_mut_ptr(), Rounding::Half as i32);
            let packed = packed_for(&v, way);
            if pack && !packed.is_empty() {
                (once.weight_packed, once.weight) = (packed.as_ptr(), null());
            }
            assert_eq!(by_way(&mut *ctx, &once, way), 0);
        }
        halved(&what, &y, &plain);
        v.y = y.as_mut_ptr();
    }
}

#[test]
fn convolutions_of_all_kinds() {
    let base = one_pixel();
    everywhere(|ctx, _| {
        // c, o, groups, h, w, kh, kw, stride, pad, dilation
        let cases = [
            [1, 1, 1, 1, 1, 1, 1, 1, 0, 1],
            [3, 5, 1, 7, 9, 3, 3, 1, 1, 1],
            [8, 16, 1, 14, 14, 3, 3, 1, 1, 1],
            [4, 6, 2, 9, 8, 3, 2, 1, 1, 1],
            [3, 8, 1, 23, 17, 7, 7, 2, 3, 1],
            [2, 3, 1, 12, 12, 3, 3, 1, 2, 2],
            // Rows of a padded copy: wide ones in pieces, short ones joined, channel by channel and
            // position by position.
            [20, 12, 1, 1, 1500, 1, 3, 1, 1, 4],
            [20, 12, 1, 1, 1500, 1, 3, 2, 1, 1],
            [64, 32, 4, 4, 4, 3, 3, 1, 1, 1],
            [24, 17, 1, 6, 6, 3, 3, 1, 1, 1],
            [24, 20, 1, 19, 33, 3, 3, 1, 2, 2],
            [2, 12, 1, 30, 26, 5, 5, 1, 2, 1],
            [12, 8, 1, 9, 40, 4, 4, 2, 1, 1],
            // Windows of which much lies in the padding: some rows, all but one position, steps of
            // two, rows and ends of rows that see nothing else, more pixels than one task takes.
            [20, 12, 1, 9, 11, 3, 3, 1, 6, 6],
            [8, 18, 2, 7, 8, 3, 3, 1, 9, 9],
            [6, 10, 1, 15, 14, 3, 3, 2, 5, 5],
            [4, 9, 1, 10, 21, 5, 5, 1, 12, 4],
            [300, 9, 1, 4, 250, 1, 7, 1, 60, 20],
            [5, 9, 1, 6, 6, 1, 1, 1, 0, 1],
            [5, 9, 1, 7, 6, 1, 1, 2, 0, 1],
            [100, 20, 1, 5, 5, 3, 3, 1, 1, 1],
            [6, 6, 6, 11, 35, 3, 3, 1, 1, 1],
            [6, 6, 6, 11, 70, 3, 3, 2, 1, 1],
            [5, 5, 5, 7, 7, 3, 3, 1, 1, 1],
            [5, 10, 5, 14, 14, 3, 3, 1, 1, 1],
            // Steps of two, read in place: edges, and vectors between them.
            [5, 10, 5, 29, 100, 3, 3, 2, 1, 1],
            [5, 5, 5, 90, 140, 5, 5, 2, 2, 1],
            [4, 8, 4, 15, 37, 3, 3, 2, 2, 1],
            [3, 3, 3, 10, 33, 3, 3, 2, 0, 1],
            // Long rows.
            [4, 8, 4, 15, 50, 3, 3, 1, 2, 1],
            [3, 3, 3, 10, 64, 3, 3, 1, 0, 1],
            [3, 3, 3, 20, 35, 4, 3, 2, 0, 1],
            [3, 3, 3, 25, 33, 5, 5, 2, 4, 1],
            [3, 3, 3, 13, 57, 3, 3, 1, 1, 1],
            [3, 3, 3, 9, 67, 3, 3, 1, 1, 1],
            [3, 3, 3, 9, 33, 3, 3, 1, 0, 1],
            [3, 3, 3, 9, 33, 3, 3, 1, 2, 1],
            [4, 8, 4, 9, 9, 5, 3, 1, 2, 2],
            [3, 3, 3, 4, 3, 3, 3, 1, 3, 1],
            [40, 40, 40, 6, 6, 3, 3, 1, 1, 1],
            // Short rows.
            [3, 6, 3, 25, 5, 3, 3, 1, 1, 1],
            [4, 4, 4, 19, 8, 5, 5, 1, 2, 1],
            [2, 2, 2, 31, 7, 3, 3, 1, 2, 1],
            [2, 4, 2, 6, 10, 3, 3, 1, 0, 1],
            // The image as one line: rows of all widths, several vectors of rows.
            [3, 3, 3, 28, 28, 5, 5, 1, 2, 1],
            [2, 4, 2, 13, 1, 5, 5, 1, 2, 1],
            [2, 2, 2, 1, 40, 5, 5, 1, 2, 1],
            [3, 3, 3, 14, 14, 7, 7, 1, 3, 1],
            [2, 4, 2, 9, 35, 7, 7, 1, 3, 1],
            [2, 2, 2, 32, 32, 9, 9, 1, 4, 1],
            [3, 3, 3, 21, 17, 9, 9, 1, 4, 1],
            [2, 2, 2, 5, 3, 9, 9, 1, 4, 1],
            [2, 2, 2, 40, 1, 7, 7, 1, 3, 1],
            [3, 3, 3, 6, 10, 3, 3, 1, 1, 1],
            [2, 2, 2, 40, 3, 3, 3, 1, 1, 1],
            // Images smaller than the window, most of whose positions are always outside; and
            // strides of three.
            [9, 9, 9, 2, 2, 5, 5, 1, 2, 1],
            [9, 9, 9, 3, 2, 5, 5, 1, 4, 2],
            [6, 6, 6, 12, 40, 5, 5, 1, 2, 1],
            [6, 6, 6, 13, 19, 5, 5, 3, 2, 1],
            [5, 5, 5, 11, 12, 3, 3, 1, 3, 3],
            [16, 24, 1, 30, 31, 3, 3, 1, 1, 1],
            // Minimal filtering.
            [32, 40, 1, 17, 15, 3, 3, 1, 1, 1],
            [35, 33, 1, 31, 30, 3, 3, 1, 0, 1],
            [32, 32, 1, 13, 70, 3, 3, 1, 2, 1],
            [37, 41, 1, 40, 40, 3, 3, 1, 1, 1],
            [300, 36, 1, 16, 15, 3, 3, 1, 1, 1],
            // The same with few tiles.
            [35, 40, 1, 7, 7, 3, 3, 1, 1, 1],
            [150, 36, 1, 10, 12, 3, 3, 1, 1, 1],
            [64, 48, 1, 5, 6, 3, 3, 1, 2, 1],
            [400, 24, 1, 7, 7, 3, 3, 1, 1, 1],
            [64, 24, 1, 11, 9, 3, 3, 1, 1, 1],
            // Pixels read as they lie, those that no vector of 16 holds, and channels that would
            // collide in the caches.
            [24, 40, 1, 20, 13, 1, 1, 1, 0, 1],
            [60, 20, 1, 32, 32, 1, 1, 1, 0, 1],
            [70, 20, 1, 32, 33, 1, 1, 1, 0, 1],
            [70, 20, 1, 32, 32, 1, 1, 1, 0, 1],
            // The same with many rows of products: columns in strips, and the common axis in pieces.
            [70, 60, 1, 32, 32, 1, 1, 1, 0, 1],
            [300, 53, 1, 19, 21, 1, 1, 1, 0, 1],
            // Few pixels: vectors along output channels.
            [64, 70, 1, 7, 7, 1, 1, 1, 0, 1],
            [33, 130, 1, 3, 3, 1, 1, 1, 0, 1],
            [64, 64, 1, 7, 7, 1, 1, 1, 0, 1],
            [70, 57, 1, 1, 1, 1, 1, 1, 0, 1],
            [24, 100, 1, 5, 5, 3, 3, 2, 1, 1],
            [24, 100, 1, 6, 5, 3, 3, 2, 2, 2],
            [40, 100, 1, 6, 6, 1, 1, 2, 0, 1],
            [2100, 20, 1, 3, 3, 1, 1, 1, 0, 1],
            [2100, 20, 1, 3, 3, 1, 1, 1, 0, 1],
            [230, 130, 1, 5, 5, 3, 3, 2, 1, 1],
            // Copies with channels last: several of an image, a row in pieces, few rows for many
            // threads, groups whose filters are no whole vector.
            [72, 50, 1, 31, 62, 3, 3, 2, 1, 1],
            [12, 20, 1, 3, 260, 3, 5, 2, 1, 2],
            [16, 100, 2, 2, 9, 3, 3, 1, 1, 1],
            [40, 120, 5, 13, 9, 3, 3, 2, 1, 1],
            // Too few channels for Winograd.
            [15, 40, 1, 7, 7, 3, 3, 1, 1, 1],
            [17, 40, 1, 7, 7, 3, 3, 1, 1, 1],
            [64, 16, 1, 5, 6, 3, 3, 1, 2, 1],
        ];
        for (i, case) in cases.into_iter().enumerate() {
            let [c, o, groups, h, w, kh, kw, stride, pad, dilation] = case;
            for layout in [0, 1] {
                let v = RxConv2dF32 {
                    sizes: RxConv2dSizes {
                        n: 1 + i as i64 % 2,
                        c,
                        h,
                        w,
                        o,
                        kh,
                        kw,
                        stride_h: stride,
                        stride_w: stride,
                        pad_t: pad,
                        pad_l: pad,
                        dilation_h: dilation,
                        dilation_w: dilation,
                        groups,
                        ..base.sizes
                    },
                    layout,
                    ..base
                };
                check_conv(ctx, v, (i + layout as usize) % 4, (i + i / 4) % 2 == 0);
            }
        }
        let mut bad = base;
        (bad.sizes.groups, bad.sizes.c) = (2, 3);
        // SAFETY: a descriptor that is refused before anything is read.
        assert_eq!(unsafe { rx_conv2d_f32(ctx, &bad) }, 7);
    });
}

#[test]
fn pooling() {
    everywhere(|ctx, _| {
        for layout in [0, 1] {
            for op in [0, 1, 2] {
                for ((kh, kw, stride, pad, dilation), h, w) in [
                    (1, 1, 1, 0, 1),
                    (2, 2, 2, 0, 1),
                    (3, 3, 2, 1, 1),
                    (3, 2, 1, 1, 2),
                    // More window positions than are tabulated.
                    (9, 8, 1, 4, 1),
                    // Large windows beside each other, apart, and with gaps.
                    (5, 4, 4, 2, 1),
                    (7, 5, 3, 0, 1),
                    (4, 4, 2, 3, 2),
                ]
                .into_iter()
                .flat_map(|window| [(window, 9, 8), (window, 7, 41), (window, 30, 67)])
                {
                    let (n, c) = (2, 21);
                    let oh = (h + 2 * pad - (kh - 1) * dilation - 1) / stride + 1;
                    let ow = (w + 2 * pad - (kw - 1) * dilation - 1) / stride + 1;
                    let x = Random(7).floats((n * c * h * w) as usize);
                    let mut y = vec![0.0f32; (n * c * oh * ow) as usize];
                    let p = RxPool2dF32 {
                        n,
                        c,
                        h,
                        w,
                        kh,
                        kw,
                        oh,
                        ow,
                        stride_h: stride,
                        stride_w: stride,
                        pad_t: pad,
                        pad_l: pad,
                        dilation_h: dilation,
                        dilation_w: dilation,
                        layout,
                        op,
                        x: x.as_ptr(),
                        y: y.as_mut_ptr(),
                    };
                    // SAFETY: both arrays have the sizes that the descriptor states.
                    assert_eq!(unsafe { rx_pool2d_f32(ctx, &p) }, 0);
                    let at = |n: i64, ch: i64, y: i64, x: i64, h: i64, w: i64| {
                        (if layout == 1 {
                            ((n * h + y) * w + x) * c + ch
                        } else {
                            ((n * c + ch) * h + y) * w + x
                        }) as usize
                    };
                    for i in 0..n * c * oh * ow {
                        let (image, ch, oy, ox) =
                            (i / (c * oh * ow), i / (oh * ow) % c, i / ow % oh, i % ow);
                        let mut seen = Vec::new();
                        for (ky, kx) in (0..kh).flat_map(|a| (0..kw).map(move |b| (a, b))) {
                            let iy = oy * stride + ky * dilation - pad;
                            let ix = ox * stride + kx * dilation - pad;
                            if (0..h).contains(&iy) && (0..w).contains(&ix) {
                                seen.push(x[at(image, ch, iy, ix, h, w)]);
                            }
                        }
                        let sum: f32 = seen.iter().sum();
                        let wanted = match op {
                            0 => seen.iter().copied().fold(f32::NEG_INFINITY, f32::max),
                            1 => sum / (kh * kw) as f32,
                            _ => sum / seen.len().max(1) as f32,
                        };
                        let found = y[at(image, ch, oy, ox, oh, ow)];
                        assert!(
                            (found - wanted).abs() < 1e-6 || found == wanted,
                            "{op} {layout} {i}"
                        );
                    }
                }
            }
        }
    });
}
