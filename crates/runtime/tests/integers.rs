//! Products and convolutions of small integers, bitwise, and transposed convolutions, against plain
//! loops.

mod common;

use common::{Random, close, dense, everywhere, one_pixel};
use relax_runtime::capi::kernels::{
    rx_conv2d_i32, rx_conv2d_transpose_f32, rx_gemm_i32, rx_gemm_i32_i32_i32, rx_requantize_i32,
};
use relax_runtime::capi::packing::{rx_pack_a_f32, rx_pack_a_f32_size};
use relax_runtime::context::RxContext;
use relax_runtime::kernels::conv::{RxConv2dF32, RxConv2dSizes};
use relax_runtime::kernels::gemm::epilogue::RxEpilogue;
use relax_runtime::kernels::gemm::other::*;
use relax_runtime::kernels::integer::conv::RxConv2dI32;
use relax_runtime::kernels::requantize::RxRequantize;
use std::ptr::null;

/// Numbers of an element type as bytes, and their values.
fn numbers(random: &mut Random, code: i32, n: usize, large: bool) -> (Vec<u8>, Vec<i32>) {
    let (mut bytes, mut values) = (Vec::new(), Vec::new());
    for _ in 0..n {
        let bits = random.bits();
        let (value, width) = match code {
            0 => (i32::from(bits as i8), 1),
            1 => (i32::from(bits as u8), 1),
            2 => (i32::from(bits as i16), 2),
            _ if large => (bits as i32, 4),
            _ => (i32::from(bits as i16) / 64, 4),
        };
        bytes.extend_from_slice(&value.to_le_bytes()[..width]);
        values.push(value);
    }
    (bytes, values)
}

/// A convolution without arrays: sizes in the order of the descriptor up to the window, then
/// strides, padding, dilations, groups.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Case {
    image: [i64; 4],
    filters: [i64; 3],
    step: [i64; 2],
    pad: [i64; 2],
    apart: [i64; 2],
    groups: i64,
    layout: i32,
}

impl Case {
    /// The descriptor's sizes with these output extents.
    fn sizes(&self, [oh, ow]: [i64; 2]) -> RxConv2dSizes {
        let ([n, c, h, w], [o, kh, kw]) = (self.image, self.filters);
        RxConv2dSizes {
            n,
            c,
            h,
            w,
            o,
            kh,
            kw,
            oh,
            ow,
            stride_h: self.step[0],
            stride_w: self.step[1],
            pad_t: self.pad[0],
            pad_l: self.pad[1],
            dilation_h: self.apart[0],
            dilation_w: self.apart[1],
            groups: self.groups,
        }
    }
}

fn check_conv(ctx: *mut RxContext, case: Case, types: (i32, i32), zeros: (i32, i32), large: bool) {
    let ([n, c, h, w], [o, kh, kw]) = (case.image, case.filters);
    let extent = |size: i64, window: i64, k: usize| {
        (size + 2 * case.pad[k] - (window - 1) * case.apart[k] - 1) / case.step[k] + 1
    };
    let (oh, ow) = (extent(h, kh, 0), extent(w, kw, 1));
    let cg = c / case.groups;
    let mut random = Random(11);
    let (x, xs) = numbers(&mut random, types.0, (n * c * h * w) as usize, large);
    let (weight, ws) = numbers(&mut random, types.1, (o * cg * kh * kw) as usize, large);
    let mut y = vec![77i32; (n * o * oh * ow) as usize];
    let v = RxConv2dI32 {
        sizes: case.sizes([oh, ow]),
        layout: case.layout,
        x_type: types.0,
        weight_type: types.1,
        reserved: 0,
        x: x.as_ptr().cast(),
        weight: weight.as_ptr().cast(),
        y: y.as_mut_ptr(),
        x_zero: zeros.0,
        weight_zero: zeros.1,
    };
    // SAFETY: all arrays have the sizes that the descriptor states.
    assert_eq!(unsafe { rx_conv2d_i32(ctx, &v) }, 0);
    let nhwc = case.layout == 1;
    let places = |a: i64, b: i64| (0..a).flat_map(move |y| (0..b).map(move |x| (y, x)));
    for ((image, filter), (oy, ox)) in
        places(n, o).flat_map(|a| places(oh, ow).map(move |b| (a, b)))
    {
        let mut sum = 0i32;
        for (channel, (ky, kx)) in (0..cg).flat_map(|c| places(kh, kw).map(move |t| (c, t))) {
            let iy = oy * case.step[0] + ky * case.apart[0] - case.pad[0];
            let ix = ox * case.step[1] + kx * case.apart[1] - case.pad[1];
            if iy < 0 || ix < 0 || iy >= h || ix >= w {
                continue;
            }
            let from = filter / (o / case.groups) * cg + channel;
            let (at, tap) = if nhwc {
                (
                    ((image * h + iy) * w + ix) * c + from,
                    ((ky * kw + kx) * cg + channel) * o + filter,
                )
            } else {
                (
                    ((image * c + from) * h + iy) * w + ix,
                    ((filter * cg + channel) * kh + ky) * kw + kx,
                )
            };
            let x = xs[at as usize].wrapping_sub(zeros.0);
            sum = sum.wrapping_add(x.wrapping_mul(ws[tap as usize].wrapping_sub(zeros.1)));
        }
        let at = if nhwc {
            ((image * oh + oy) * ow + ox) * o + filter
        } else {
            ((image * o + filter) * oh + oy) * ow + ox
        };
        assert_eq!(
            y[at as usize], sum,
            "{case:?} {types:?} {zeros:?} at {image} {filter} {oy} {ox}"
        );
    }
}

fn case(image: [i64; 4], filters: [i64; 3]) -> Case {
    Case {
        image,
        filters,
        step: [1, 1],
        pad: [1, 1],
        apart: [1, 1],
        groups: 1,
        layout: 0,
    }
}

#[test]
fn convolutions_of_integers_are_exact() {
    everywhere(|ctx, _| {
        let plain = case([2, 5, 9, 11], [7, 3, 3]);
        let cases = [
            plain,
            case([1, 16, 14, 14], [33, 3, 3]),
            Case {
                pad: [0, 0],
                ..case([1, 20, 7, 7], [18, 1, 1])
            },
            Case {
                step: [2, 3],
                pad: [2, 0],
                ..plain
            },
            Case {
                apart: [2, 2],
                pad: [2, 2],
                ..plain
            },
            Case {
                groups: 2,
                ..case([2, 6, 8, 7], [4, 3, 2])
            },
            // Depthwise, with one and with two filters per channel.
            Case {
                groups: 6,
                ..case([2, 6, 9, 10], [6, 3, 3])
            },
            Case {
                groups: 6,
                step: [2, 2],
                ..case([1, 6, 9, 10], [12, 3, 3])
            },
            // More than one piece of the common axis.
            Case {
                pad: [0, 0],
                ..case([1, 130, 5, 6], [9, 3, 3])
            },
        ];
        for types in [(0, 0), (1, 0), (2, 2), (3, 3), (3, 0), (1, 1)] {
            for layout in [0, 1] {
                for case in &cases {
                    for zeros in [
                        (0, 0),
                        (17, 0),
                        (100, -5),
                        (-128, 127),
                        (300, 0),
                        (0, 40_000),
                    ] {
                        // Zero points of 0, and those of wider elements, use the general path.
                        if zeros.0 != 300 && zeros.1 != 40_000 || *case == plain {
                            check_conv(ctx, Case { layout, ..*case }, types, zeros, false);
                        }
                    }
                }
            }
        }
        // Elements beyond 16 bits.
        for layout in [0, 1] {
            check_conv(ctx, Case { layout, ..plain }, (3, 3), (0, 0), true);
            check_conv(ctx, Case { layout, ..plain }, (0, 3), (7, -3), true);
        }
    });
}

#[test]
fn products_of_integers_are_exact() {
    everywhere(|ctx, _| {
        let mut random = Random(3);
        for (m, n, k) in [
            (1, 200, 37),
            (5, 33, 64),
            (64, 96, 600),
            (130, 40, 1030),
            (2, 7, 5),
        ] {
            for (transposed, large) in [(false, false), (true, false), (true, true)] {
                let (_, a) = numbers(&mut random, 3, m * k, large);
                let (_, b) = numbers(&mut random, 3, k * n, false);
                let mut c: Vec<i32> = (0..m * n).map(|i| i as i32).collect();
                let g = RxGemm {
                    accumulate: i32::from(large),
                    ..dense((m, n, k), transposed, &a, &b, &mut c)
                };
                // SAFETY: all arrays have the sizes that the product states.
                assert_eq!(unsafe { rx_gemm_i32_i32_i32(ctx, &g) }, 0);
                for (at, &found) in c.iter().enumerate() {
                    let (i, j) = (at / n, at % n);
                    let mut want = if large { at as i32 } else { 0 };
                    for p in 0..k {
                        let y = b[if transposed { j * k + p } else { p * n + j }];
                        want = want.wrapping_add(a[i * k + p].wrapping_mul(y));
                    }
                    assert_eq!(found, want, "{m} {n} {k} at {i}, {j}");
                }
            }
        }
    });
}

/// Products of all types and of few and many rows, with and without zero points.
#[test]
fn products_without_zero_points_are_exact() {
    everywhere(|ctx, _| {
        let mut random = Random(5);
        for (m, n, k) in [
            (1, 50, 37),
            (3, 33, 130),
            (4, 5, 64),
            (19, 70, 200),
            (64, 33, 1030),
        ] {
            for types in [(0, 0), (1, 0), (1, 1), (0, 1), (3, 0), (2, 2)] {
                for (zeros, transposed) in [
                    ((0, 0), true),
                    ((12, 0), false),
                    ((-7, 90), true),
                    ((130, 3), false),
                ] {
                    // One product, several by one right operand, and several pairs.
                    for (batch, apart) in [(1, 0), (5, 0), (3, 1)] {
                        let rights = 1 + (batch - 1) * apart;
                        let (a, av) = numbers(&mut random, types.0, batch * m * k, false);
                        let (b, bv) = numbers(&mut random, types.1, rights * k * n, false);
                        let mut c = vec![5i32; batch * m * n];
                        let gemm = RxGemm {
                            accumulate: i32::from(transposed),
                            ..dense((m, n, k), transposed, &a, &b, &mut c)
                        };
                        let g = RxGemmI32 {
                            gemm,
                            a_type: types.0,
                            b_type: types.1,
                            a_zero: zeros.0,
                            b_zero: zeros.1,
                            batch: batch as i64,
                            a_step: (m * k) as i64,
                            b_step: (apart * k * n) as i64,
                            c_step: (m * n) as i64,
                        };
                        // SAFETY: all arrays have the sizes that the products state.
                        assert_eq!(unsafe { rx_gemm_i32(ctx, &g) }, 0);
                        for (at, &found) in c.iter().enumerate() {
                            let (row, j) = (at / n, at % n);
                            let right = row / m * apart * k * n;
                            let mut want = if transposed { 5 } else { 0i32 };
                            for p in 0..k {
                                let y = if transposed { j * k + p } else { p * n + j };
                                let (x, y) = (av[row * k + p] - zeros.0, bv[right + y] - zeros.1);
                                want = want.wrapping_add(x.wrapping_mul(y));
                            }
                            let text = format!("{batch} {m} {n} {k} {types:?} {zeros:?} at {at}");
                            assert_eq!(found, want, "{text}");
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn sums_are_requantised_exactly() {
    everywhere(|ctx, _| {
        let mut random = Random(6);
        for (outer, channels, inner) in [(2usize, 5usize, 37usize), (9, 20, 1), (1, 1, 100)] {
            let n = outer * channels * inner;
            let x: Vec<i32> = (0..n).map(|_| random.bits() as i32 >> 6).collect();
            let bias: Vec<i32> = (0..channels).map(|c| c as i32 * 100 - 7).collect();
            let left: Vec<i64> = (0..channels).map(|c| (c % 3) as i64).collect();
            let factor: Vec<i64> = (0..channels)
                .map(|c| (1 << 30) + 12_345 * c as i64)
                .collect();
            let right: Vec<i64> = (0..channels).map(|c| 45 + c as i64 % 4).collect();
            let half: Vec<i64> = right.iter().map(|r| 1 << (r - 1)).collect();
            let zero: Vec<i32> = (0..channels).map(|c| c as i32 - 3).collect();
            for (y_type, low, high) in [(0, -128, 127), (1, 0, 255), (2, -300, 300), (3, -9, 1000)]
            {
                let mut y = vec![0u8; 4 * n];
                let q = RxRequantize {
                    outer: outer as i64,
                    channels: channels as i64,
                    inner: inner as i64,
                    x: x.as_ptr(),
                    bias: bias.as_ptr(),
                    left: left.as_ptr(),
                    factor: factor.as_ptr(),
                    half: half.as_ptr(),
                    right: right.as_ptr(),
                    zero: zero.as_ptr(),
                    low,
                    high,
                    y_type,
                    reserved: 0,
                    y: y.as_mut_ptr().cast(),
                };
                // SAFETY: arrays and tables have the sizes that the descriptor states.
                assert_eq!(unsafe { rx_requantize_i32(ctx, &q) }, 0);
                for (i, &x) in x.iter().enumerate() {
                    let c = i / inner % channels;
                    let product = (i64::from(x + bias[c]) << left[c]) * factor[c] + half[c];
                    let want = ((product >> right[c]) as i32 + zero[c]).clamp(low, high);
                    let found = match y_type {
                        0 => i32::from(y[i] as i8),
                        1 => i32::from(y[i]),
                        2 => i32::from(i16::from_le_bytes([y[2 * i], y[2 * i + 1]])),
                        _ => i32::from_le_bytes(y[4 * i..4 * i + 4].try_into().unwrap()),
                    };
                    assert_eq!(found, want, "type {y_type} at {i}");
                }
            }
        }
    });
}

/// Output extents of a transposed convolution, with `more` rows and columns of output padding.
fn check_transposed(ctx: *mut RxContext, case: Case, more: i64, epilogue: bool, pack: bool) {
    let ([n, c, h, w], [o, kh, kw]) = (case.image, case.filters);
    let extent = |size: i64, window: i64, k: usize| {
        (size - 1) * case.step[k] + (window - 1) * case.apart[k] + 1 - 2 * case.pad[k] + more
    };
    let (oh, ow) = (extent(h, kh, 0), extent(w, kw, 1));
    let (cg, og) = (c / case.groups, o / case.groups);
    let mut random = Random(4);
    let x = random.floats((n * c * h * w) as usize);
    let weight = random.floats((c * og * kh * kw) as usize);
    let (scale, bias) = (random.floats(o as usize), random.floats(o as usize));
    let mut y = vec![9.0f32; (n * o * oh * ow) as usize];
    let mut packed = vec![0.0; rx_pack_a_f32_size(o * kh * kw, c) as usize];
    if pack {
        let filters = o * kh * kw;
        // SAFETY: with one group the weight is c rows of so many numbers.
        unsafe { rx_pack_a_f32(filters, c, weight.as_ptr(), 1, filters, packed.as_mut_ptr()) };
    }
    let v = RxConv2dF32 {
        sizes: case.sizes([oh, ow]),
        x: x.as_ptr(),
        weight: if pack { null() } else { weight.as_ptr() },
        weight_packed: if pack { packed.as_ptr() } else { null() },
        y: y.as_mut_ptr(),
        epilogue: RxEpilogue {
            scale: if epilogue { scale.as_ptr() } else { null() },
            bias: if epilogue { bias.as_ptr() } else { null() },
            activation: i32::from(epilogue),
            ..RxEpilogue::default()
        },
        ..one_pixel()
    };
    // SAFETY: all arrays have the sizes that the descriptor states.
    assert_eq!(unsafe { rx_conv2d_transpose_f32(ctx, &v) }, 0);
    let mut wanted = vec![0.0f64; y.len()];
    let places = |a: i64, b: i64| (0..a).flat_map(move |y| (0..b).map(move |x| (y, x)));
    for ((image, channel), (iy, ix)) in places(n, c).flat_map(|a| places(h, w).map(move |b| (a, b)))
    {
        let from = f64::from(x[(((image * c + channel) * h + iy) * w + ix) as usize]);
        for (filter, (ky, kx)) in (0..og).flat_map(|f| places(kh, kw).map(move |t| (f, t))) {
            let oy = iy * case.step[0] + ky * case.apart[0] - case.pad[0];
            let ox = ix * case.step[1] + kx * case.apart[1] - case.pad[1];
            if oy < 0 || ox < 0 || oy >= oh || ox >= ow {
                continue;
            }
            let at = ((image * o + channel / cg * og + filter) * oh + oy) * ow + ox;
            let tap = ((channel * og + filter) * kh + ky) * kw + kx;
            wanted[at as usize] += from * f64::from(weight[tap as usize]);
        }
    }
    let finish = |(i, sum): (usize, &f64)| {
        let channel = i / (oh * ow) as usize % o as usize;
        let sum = *sum as f32;
        if epilogue {
            (sum * scale[channel] + bias[channel]).max(0.0)
        } else {
            sum
        }
    };
    let wanted: Vec<f32> = wanted.iter().enumerate().map(finish).collect();
    close(&format!("{case:?}"), &y, &wanted, 2e-5);
}

#[test]
fn transposed_convolutions_are_right() {
    everywhere(|ctx, _| {
        let layer = Case {
            step: [2, 2],
            ..case([2, 9, 5, 6], [7, 4, 4])
        };
        for epilogue in [false, true] {
            for case in [
                layer,
                case([1, 3, 4, 4], [5, 3, 3]),
                Case {
                    pad: [0, 0],
                    ..case([1, 40, 1, 1], [20, 4, 4])
                },
                Case {
                    apart: [2, 1],
                    step: [1, 3],
                    pad: [0, 2],
                    ..layer
                },
                Case {
                    groups: 3,
                    ..case([2, 9, 5, 6], [6, 3, 2])
                },
                // Several pieces of rows.
                Case {
                    step: [2, 2],
                    ..case([1, 4, 40, 50], [16, 4, 4])
                },
            ] {
                check_transposed(ctx, case, 0, epilogue, false);
                if case.groups == 1 {
                    check_transposed(ctx, case, 0, epilogue, true);
                }
            }
            check_transposed(ctx, layer, 1, epilogue, false);
        }
        let mut bad = one_pixel();
        (bad.sizes.groups, bad.sizes.c, bad.sizes.o) = (2, 3, 2);
        // SAFETY: sizes that do not fit are found before anything is read.
        assert_eq!(unsafe { rx_conv2d_transpose_f32(ctx, &bad) }, 7);
    });
}
