//! Transposed convolutions against plain loops.

mod common;

use common::{Random, close, everywhere, finish, halved, one_pixel};
use relax_runtime::capi::kernels::rx_conv2d_transpose_f32;
use relax_runtime::context::RxContext;
use relax_runtime::kernels::conv::*;
use relax_runtime::kernels::gemm::epilogue::Rounding;

/// c, o, groups, h, w, kh, kw, step down, step right, padding above, padding left, dilation.
fn check(ctx: *mut RxContext, case: [i64; 12], images: i64, epilogue: bool) {
    let [
        c,
        o,
        groups,
        h,
        w,
        kh,
        kw,
        down,
        right,
        above,
        left,
        dilation,
    ] = case;
    let (oh, ow) = (
        (h - 1) * down + (kh - 1) * dilation + 1 - 2 * above,
        (w - 1) * right + (kw - 1) * dilation + 1 - 2 * left,
    );
    let (og, cg) = (o / groups, c / groups);
    let mut random = Random(9);
    let x = random.floats((images * c * h * w) as usize);
    let weight = random.floats((c * og * kh * kw) as usize);
    let (bias, outputs) = (random.floats(o as usize), (images * o * oh * ow) as usize);
    let scale = random.floats(o as usize);
    let mut y = vec![9.0f32; outputs];
    let mut v = one_pixel();
    v.sizes = RxConv2dSizes {
        n: images,
        c,
        h,
        w,
        o,
        kh,
        kw,
        oh,
        ow,
        stride_h: down,
        stride_w: right,
        pad_t: above,
        pad_l: left,
        dilation_h: dilation,
        dilation_w: dilation,
        groups,
    };
    (v.x, v.weight, v.y) = (x.as_ptr(), weight.as_ptr(), y.as_mut_ptr());
    if epilogue {
        (v.epilogue.bias, v.epilogue.activation) = (bias.as_ptr(), 1);
        (v.epilogue.offset, v.epilogue.scale) = (scale.as_ptr(), scale.as_ptr());
    }
    let mut wanted = vec![0.0f32; outputs];
    for (n, from) in (0..images).flat_map(|n| (0..c).map(move |i| (n, i))) {
        for (iy, ix) in (0..h).flat_map(|y| (0..w).map(move |x| (y, x))) {
            let value = x[(((n * c + from) * h + iy) * w + ix) as usize];
            for (to, ky, kx) in (0..og).flat_map(|o| (0..kh * kw).map(move |t| (o, t / kw, t % kw)))
            {
                let oy = iy * down + ky * dilation - above;
                let ox = ix * right + kx * dilation - left;
                if oy < 0 || ox < 0 || oy >= oh || ox >= ow {
                    continue;
                }
                let plane = n * o + from / cg * og + to;
                let tap = ((from * og + to) * kh + ky) * kw + kx;
                wanted[((plane * oh + oy) * ow + ox) as usize] += value * weight[tap as usize];
            }
        }
    }
    for (at, x) in wanted.iter_mut().enumerate() {
        let channel = at / (oh * ow) as usize % o as usize;
        *x = finish(&v.epilogue, *x, channel, at);
    }
    // SAFETY: all arrays have the sizes that the descriptor states.
    assert_eq!(unsafe { rx_conv2d_transpose_f32(ctx, &v) }, 0);
    close(&format!("{case:?}"), &y, &wanted, 1e-4);
    let plain = std::mem::replace(&mut y, vec![9.0; outputs]);
    (v.y, v.epilogue.rounding) = (y.as_mut_ptr(), Rounding::Half as i32);
    // SAFETY: as before.
    assert_eq!(unsafe { rx_conv2d_transpose_f32(ctx, &v) }, 0);
    halved(&format!("{case:?}"), &y, &plain);
}

#[test]
fn transposed_convolutions() {
    everywhere(|ctx, _| {
        for case in [
            [64, 32, 1, 1, 1, 7, 7, 1, 1, 0, 0, 1],
            [32, 16, 1, 7, 7, 4, 4, 2, 2, 1, 1, 1],
            [3, 5, 1, 6, 9, 3, 2, 3, 2, 1, 0, 1],
            [8, 4, 2, 5, 4, 3, 3, 1, 2, 2, 2, 1],
            [4, 6, 1, 4, 5, 2, 3, 1, 3, 0, 2, 2],
            // Steps longer than the window, and padding that takes the first columns.
            [2, 3, 1, 3, 4, 1, 2, 2, 5, 0, 1, 1],
            [2, 2, 1, 4, 3, 5, 5, 1, 1, 3, 3, 1],
            // Several vectors of a row, padding wider than a step, and rows in several pieces.
            [4, 3, 1, 5, 37, 5, 5, 2, 2, 3, 3, 1],
            [2, 40, 1, 70, 40, 3, 3, 2, 2, 1, 1, 1],
        ] {
            check(ctx, case, 1, false);
            check(ctx, case, 2, true);
        }
    });
}
