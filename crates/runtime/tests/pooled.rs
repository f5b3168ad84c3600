//! A convolution pooled strip by strip equals the convolution followed by the pooling, bitwise.

mod common;

use common::{Random, everywhere, one_pixel};
use relax_runtime::capi::kernels::{rx_conv2d_f32, rx_conv2d_pool2d_f32, rx_pool2d_f32};
use relax_runtime::capi::packing::{rx_conv2d_f32_pack, rx_conv2d_f32_pack_size};
use relax_runtime::kernels::conv::*;
use relax_runtime::kernels::pool2d::*;
use std::ptr::{null, null_mut};

/// A square window: its size, stride, padding and dilation.
type Window = [i64; 4];

fn extent(size: i64, [window, step, pad, dilation]: Window) -> i64 {
    (size + 2 * pad - (window - 1) * dilation - 1) / step + 1
}

fn descriptors(
    [n, c, o, groups, h, w]: [i64; 6],
    conv: Window,
    pool: Window,
    (layout, op): (i32, i32),
) -> (RxConv2dF32, RxPool2dF32) {
    let (oh, ow) = (extent(h, conv), extent(w, conv));
    let sizes = RxConv2dSizes {
        n,
        c,
        h,
        w,
        o,
        kh: conv[0],
        kw: conv[0],
        oh,
        ow,
        stride_h: conv[1],
        stride_w: conv[1],
        pad_t: conv[2],
        pad_l: conv[2],
        dilation_h: conv[3],
        dilation_w: conv[3],
        groups,
    };
    let conv = RxConv2dF32 {
        sizes,
        layout,
        ..one_pixel()
    };
    let pool = RxPool2dF32 {
        n,
        c: o,
        h: oh,
        w: ow,
        kh: pool[0],
        kw: pool[0],
        oh: extent(oh, pool),
        ow: extent(ow, pool),
        stride_h: pool[1],
        stride_w: pool[1],
        pad_t: pool[2],
        pad_l: pool[2],
        dilation_h: pool[3],
        dilation_w: pool[3],
        layout,
        op,
        x: null(),
        y: null_mut(),
    };
    (conv, pool)
}

#[test]
fn strips_are_the_whole() {
    let shapes = [
        // Images, channels, output channels, groups, height, width.
        [1, 3, 8, 1, 33, 30],
        [2, 4, 6, 2, 23, 40],
        // Several strips on one thread, and one that is too large for any strip.
        [1, 3, 96, 1, 60, 57],
        [1, 1, 40, 1, 9, 1800],
        // Winograd, depthwise, few pixels.
        [1, 32, 32, 1, 20, 20],
        [1, 9, 9, 9, 17, 16],
        [1, 64, 64, 1, 7, 7],
    ];
    let windows: [Window; 4] = [[7, 2, 3, 1], [3, 1, 1, 1], [3, 1, 2, 2], [1, 1, 0, 1]];
    let pools: [Window; 5] = [
        [3, 2, 1, 1],
        [2, 2, 0, 1],
        [2, 3, 0, 1],
        [3, 1, 1, 2],
        [3, 3, 2, 1],
    ];
    everywhere(|ctx, _| {
        let mut random = Random(3);
        for (i, shape) in shapes.into_iter().enumerate() {
            for (j, conv) in windows.into_iter().enumerate() {
                for (k, pool) in pools.into_iter().enumerate() {
                    // Not all combinations, but every shape with every window, and all of these
                    // with every pooling.
                    if (i + j + k) % 2 == 1 && i > 2 {
                        continue;
                    }
                    let layout = i32::from((i + k) % 5 == 4);
                    let (mut v, mut p) =
                        descriptors(shape, conv, pool, (layout, ((i + j + k) % 3) as i32));
                    let s = v.sizes;
                    if s.oh < 1 || s.ow < 1 || p.oh < 1 || p.ow < 1 {
                        continue;
                    }
                    let x = random.floats((s.n * s.c * s.h * s.w) as usize);
                    let weight = random.floats((s.o * s.c / s.groups * s.kh * s.kw) as usize);
                    let bias = random.floats(s.o as usize);
                    let outputs = (s.n * s.o * s.oh * s.ow) as usize;
                    let residual = random.floats(outputs);
                    (v.x, v.weight) = (x.as_ptr(), weight.as_ptr());
                    (v.epilogue.bias, v.epilogue.activation) = (bias.as_ptr(), 1);
                    if (i + k) % 4 == 3 {
                        v.epilogue.residual = residual.as_ptr();
                    }
                    let mut between = vec![0.0f32; outputs];
                    let mut wanted = vec![0.0f32; (p.n * p.c * p.oh * p.ow) as usize];
                    let mut got = vec![9.0f32; wanted.len()];
                    // SAFETY: all arrays have the sizes that the descriptors state.
                    unsafe {
                        let mut packed = vec![0.0f32; rx_conv2d_f32_pack_size(&v) as usize];
                        if !packed.is_empty() && (j + k) % 3 > 0 {
                            rx_conv2d_f32_pack(&v, packed.as_mut_ptr());
                            (v.weight_packed, v.weight) = (packed.as_ptr(), null());
                        }
                        p.y = got.as_mut_ptr();
                        assert_eq!(rx_conv2d_pool2d_f32(ctx, &v, &p), 0);
                        v.y = between.as_mut_ptr();
                        assert_eq!(rx_conv2d_f32(ctx, &v), 0);
                        (p.x, p.y) = (between.as_ptr(), wanted.as_mut_ptr());
                        assert_eq!(rx_pool2d_f32(ctx, &p), 0);
                    }
                    let differs = got
                        .iter()
                        .zip(&wanted)
                        .position(|(a, b)| a.to_bits() != b.to_bits());
                    assert_eq!(differs, None, "{v:?} {p:?}");
                }
            }
        }
    });
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    everywhere(|ctx, _| {
        let of = || descriptors([1, 3, 4, 1, 9, 9], [3, 1, 1, 1], [2, 2, 0, 1], (0, 0));
        let (v, mut p) = of();
        p.h += 1;
        // SAFETY: descriptors that are refused before anything is read.
        assert_eq!(unsafe { rx_conv2d_pool2d_f32(ctx, &v, &p) }, 7);
        let (v, mut p) = of();
        p.stride_h = 0;
        // SAFETY: as above.
        assert_eq!(unsafe { rx_conv2d_pool2d_f32(ctx, &v, &p) }, 7);
    });
}
