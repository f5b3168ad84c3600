//! Windows over volumes that each channel has of its own against plain loops, over odd sizes, edges,
//! instruction sets and thread counts.

mod common;

use common::{Random, close, everywhere, finish};
use relax_runtime::capi::kernels::rx_depthwise3d_f32;
use relax_runtime::context::RxContext;
use relax_runtime::kernels::conv::volumes::RxDepthwise3dF32;
use relax_runtime::kernels::gemm::epilogue::RxEpilogue;
use std::ptr::{null, null_mut};

/// One axis: extent, window, step, padding before and behind, dilation.
type Axis = [i64; 6];

fn result([extent, window, step, before, behind, dilation]: Axis) -> i64 {
    (extent + before + behind - (window - 1) * dilation - 1) / step + 1
}

fn described(n: i64, c: i64, o: i64, [d, h, w]: [Axis; 3], last: bool) -> RxDepthwise3dF32 {
    RxDepthwise3dF32 {
        n,
        c,
        d: d[0],
        h: h[0],
        w: w[0],
        o,
        kd: d[1],
        kh: h[1],
        kw: w[1],
        od: result(d),
        oh: result(h),
        ow: result(w),
        stride_d: d[2],
        stride_h: h[2],
        stride_w: w[2],
        pad_d: d[3],
        pad_t: h[3],
        pad_l: w[3],
        dilation_d: d[5],
        dilation_h: h[5],
        dilation_w: w[5],
        layout: i32::from(last),
        reserved: 0,
        x: null(),
        weight: null(),
        y: null_mut(),
        epilogue: RxEpilogue::default(),
    }
}

/// The inputs of a window along an axis: the places of the window that lie in the volume, and where.
fn inside(out: i64, [extent, window, step, before, _, dilation]: Axis) -> Vec<(i64, i64)> {
    let all = (0..window).map(|k| (k, out * step + k * dilation - before));
    all.filter(|&(_, at)| (0..extent).contains(&at)).collect()
}

fn check(
    ctx: *mut RxContext,
    sizes: (i64, i64, i64),
    axes: [Axis; 3],
    last: bool,
    epilogue: usize,
) {
    let mut random = Random(11);
    let (n, c, o) = sizes;
    let mut v = described(n, c, o, axes, last);
    let x = random.floats((n * c * v.d * v.h * v.w) as usize);
    let weight = random.floats((o * v.kd * v.kh * v.kw) as usize);
    let outputs = (n * o * v.od * v.oh * v.ow) as usize;
    let (bias, scale) = (random.floats(o as usize), random.floats(o as usize));
    let residual = random.floats(outputs);
    let mut y = vec![9.0f32; outputs];
    (v.x, v.weight, v.y) = (x.as_ptr(), weight.as_ptr(), y.as_mut_ptr());
    if epilogue > 0 {
        (v.epilogue.bias, v.epilogue.activation) = (bias.as_ptr(), 1);
    }
    if epilogue > 1 {
        v.epilogue.scale = scale.as_ptr();
        v.epilogue.residual = residual.as_ptr();
    }
    let wanted_epilogue = v.epilogue;
    if epilogue > 2 {
        // The output overwrites the residual.
        y.copy_from_slice(&residual);
        v.epilogue.residual = v.y;
    }
    // SAFETY: all arrays have the sizes that the descriptor states.
    assert_eq!(unsafe { rx_depthwise3d_f32(ctx, &v) }, 0);
    let mut wanted = vec![0.0f32; outputs];
    for (at, wanted) in wanted.iter_mut().enumerate() {
        // The place in the output's own order of axes.
        let mut rest = at as i64;
        let mut take = |extent: i64| {
            let index = rest % extent;
            rest /= extent;
            index
        };
        let (image, channel, oz, oy, ox);
        if last {
            (channel, ox, oy, oz, image) = (take(o), take(v.ow), take(v.oh), take(v.od), take(n));
        } else {
            (ox, oy, oz, channel, image) = (take(v.ow), take(v.oh), take(v.od), take(o), take(n));
        }
        let from = channel / (o / c);
        let mut sum = 0.0f64;
        for (kz, z) in inside(oz, axes[0]) {
            for (ky, row) in inside(oy, axes[1]) {
                for (kx, column) in inside(ox, axes[2]) {
                    let (a, b) = match last {
                        true => (
                            (((image * v.d + z) * v.h + row) * v.w + column) * c + from,
                            ((kz * v.kh + ky) * v.kw + kx) * c + channel,
                        ),
                        false => (
                            (((image * c + from) * v.d + z) * v.h + row) * v.w + column,
                            ((channel * v.kd + kz) * v.kh + ky) * v.kw + kx,
                        ),
                    };
                    sum += f64::from(x[a as usize]) * f64::from(weight[b as usize]);
                }
            }
        }
        *wanted = finish(&wanted_epilogue, sum as f32, channel as usize, at);
    }
    close(&format!("{v:?}"), &y, &wanted, 2e-5);
}

#[test]
fn windows_over_volumes() {
    // Batch, channels, results for each channel; depth, height, width.
    let same = |extent: i64, window: i64| [extent, window, 1, window / 2, window / 2, 1];
    let halved = |extent: i64, window: i64| [extent, window, 2, window / 2, window / 2, 1];
    let cases: [((i64, i64, i64), [Axis; 3]); 14] = [
        ((1, 2, 1), [same(4, 3), same(8, 3), same(8, 3)]),
        ((2, 3, 1), [same(5, 3), same(7, 3), same(7, 3)]),
        ((1, 9, 1), [same(3, 3), halved(14, 3), halved(15, 3)]),
        ((1, 4, 2), [halved(6, 3), halved(9, 3), halved(33, 3)]),
        ((1, 17, 1), [same(6, 5), same(13, 3), same(19, 3)]),
        ((1, 5, 1), [same(9, 3), same(6, 1), same(11, 1)]),
        ((1, 3, 1), [same(4, 1), same(5, 3), same(40, 3)]),
        // A step of three and dilations.
        (
            (1, 2, 3),
            [[7, 2, 3, 0, 1, 1], [9, 3, 1, 2, 2, 2], [12, 3, 3, 1, 0, 1]],
        ),
        (
            (1, 8, 1),
            [[9, 3, 1, 2, 3, 2], [6, 2, 2, 0, 0, 3], [9, 4, 1, 3, 3, 2]],
        ),
        // Windows that lie in the padding altogether.
        (
            (1, 3, 1),
            [[1, 2, 2, 4, 4, 1], [2, 2, 2, 3, 3, 1], [3, 2, 1, 3, 4, 1]],
        ),
        // Planes between those that windows are over are not read.
        (
            (1, 2, 1),
            [[11, 2, 3, 1, 0, 4], [5, 5, 1, 2, 2, 1], [5, 5, 1, 2, 2, 1]],
        ),
        ((1, 1, 4), [same(3, 3), same(4, 3), same(5, 3)]),
        ((3, 33, 1), [[1, 1, 1, 0, 0, 1]; 3]),
        ((1, 6, 1), [same(2, 7), same(16, 7), same(16, 7)]),
    ];
    everywhere(|ctx, _| {
        for ((n, c, each), axes) in cases {
            for epilogue in 0..4 {
                check(ctx, (n, c, c * each), axes, false, epilogue);
                if each == 1 {
                    check(ctx, (n, c, c), axes, true, epilogue);
                }
            }
        }
    });
}

#[test]
fn what_no_channel_has_alone_is_refused() {
    let axes = [[2, 1, 1, 0, 0, 1]; 3];
    everywhere(|ctx, _| {
        for (c, o, last) in [(2, 3, false), (2, 4, true), (0, 2, false)] {
            let v = described(1, c, o, axes, last);
            // SAFETY: nothing is read of a convolution that is refused.
            assert_eq!(unsafe { rx_depthwise3d_f32(ctx, &v) }, 7, "{c} {o}");
        }
        let none = described(0, 2, 2, axes, false);
        // SAFETY: nothing is read where there are no images.
        assert_eq!(unsafe { rx_depthwise3d_f32(ctx, &none) }, 0);
    });
}
