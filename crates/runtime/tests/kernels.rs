//! Kernels against plain loops, over odd sizes, edges, instruction sets and thread counts.

mod common;

use common::{Random, close, everywhere};
use relax_runtime::context::RxContext;
use relax_runtime::kernels::conv::*;
use relax_runtime::kernels::gemm::epilogue::RxEpilogue;
use relax_runtime::kernels::gemm::other::*;
use relax_runtime::kernels::gemm::pack::*;
use relax_runtime::kernels::gemm::*;
use relax_runtime::kernels::pool2d::*;
use relax_runtime::kernels::reduce::rx_reduce_f32;
use relax_runtime::kernels::rows::*;
use relax_runtime::kernels::strided::*;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

/// `epilogue(sum)` for element `(i, j)` of a result whose rows are `ld` apart.
fn finish(e: &RxEpilogue, sum: f32, bias: usize, residual: usize) -> f32 {
    let mut x = sum;
    // SAFETY: the tests give bias and residual their sizes.
    unsafe {
        if !e.scale.is_null() {
            x *= *e.scale.add(bias);
        }
        if !e.bias.is_null() {
            x += *e.bias.add(bias);
        }
        if !e.residual.is_null() {
            x += *e.residual.add(residual);
        }
    }
    match e.activation {
        1 => x.max(0.0),
        2 => x.clamp(e.lo, e.hi),
        _ => x,
    }
}

struct Product {
    m: usize,
    n: usize,
    k: usize,
    /// A, B as stored: transposed or not.
    a_t: bool,
    b_t: bool,
    packed: (bool, bool),
    accumulate: bool,
    /// 0 nothing, 1 bias per row, 2 scale and bias per column and relu, 3 residual and clip.
    epilogue: usize,
}

fn check_product(ctx: *mut RxContext, p: &Product, random: &mut Random) {
    let &Product { m, n, k, .. } = p;
    let (a, b) = (random.floats(m * k), random.floats(k * n));
    let old = random.floats(m * (n + 3));
    let (row_bias, column_bias) = (random.floats(m), random.floats(n));
    let column_scale = random.floats(n);
    let residual = random.floats(m * (n + 1));
    let mut c = old.clone();
    let mut e = RxEpilogue::default();
    match p.epilogue {
        1 => e.bias = row_bias.as_ptr(),
        2 => {
            (e.bias, e.bias_axis, e.activation) = (column_bias.as_ptr(), 1, 1);
            e.scale = column_scale.as_ptr();
        }
        3 => {
            (e.residual, e.residual_ld) = (residual.as_ptr(), n as i64 + 1);
            (e.activation, e.lo, e.hi) = (2, -0.25, 0.5);
        }
        _ => {}
    }
    let (a_rs, a_cs) = if p.a_t { (1, m) } else { (k, 1) };
    let (b_rs, b_cs) = if p.b_t { (1, k) } else { (n, 1) };
    let mut a_packed = vec![0.0; rx_pack_a_f32_size(m as i64, k as i64) as usize];
    let mut b_packed = vec![0.0; rx_pack_b_f32_size(k as i64, n as i64) as usize];
    // SAFETY: all arrays have the sizes that the product states.
    unsafe {
        rx_pack_a_f32(
            m as i64,
            k as i64,
            a.as_ptr(),
            a_rs as i64,
            a_cs as i64,
            a_packed.as_mut_ptr(),
        );
        rx_pack_b_f32(
            k as i64,
            n as i64,
            b.as_ptr(),
            b_rs as i64,
            b_cs as i64,
            b_packed.as_mut_ptr(),
        );
        let g = RxGemmF32 {
            m: m as i64,
            n: n as i64,
            k: k as i64,
            a: if p.packed.0 { null() } else { a.as_ptr() },
            a_rs: a_rs as i64,
            a_cs: a_cs as i64,
            b: if p.packed.1 { null() } else { b.as_ptr() },
            b_rs: b_rs as i64,
            b_cs: b_cs as i64,
            a_packed: if p.packed.0 {
                a_packed.as_ptr()
            } else {
                null()
            },
            b_packed: if p.packed.1 {
                b_packed.as_ptr()
            } else {
                null()
            },
            c: c.as_mut_ptr(),
            c_ld: n as i64 + 3,
            accumulate: i32::from(p.accumulate),
            reserved: 0,
            epilogue: e,
        };
        assert_eq!(rx_gemm_f32(ctx, &g), 0);
    }
    let mut wanted = old;
    for i in 0..m {
        for j in 0..n {
            let at = i * (n + 3) + j;
            let products = (0..k)
                .map(|q| f64::from(a[i * a_rs + q * a_cs]) * f64::from(b[q * b_rs + j * b_cs]));
            let sum = products.sum::<f64>() as f32 + if p.accumulate { wanted[at] } else { 0.0 };
            let bias = if e.bias_axis == 0 { i } else { j };
            wanted[at] = finish(&e, sum, bias, i * (n + 1) + j);
        }
    }
    let what = format!(
        "{m} x {n} x {k}, transposed {} {}, packed {:?}, accumulate {}, epilogue {}",
        p.a_t, p.b_t, p.packed, p.accumulate, p.epilogue
    );
    close(&what, &c, &wanted, 1e-5 * (k as f32).sqrt().max(1.0));
}

#[test]
fn products_of_all_sizes_and_strides() {
    everywhere(|ctx, _| {
        let mut random = Random(1);
        let edges = [
            0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 47, 48, 49, 65,
        ];
        let product = |m, n, k, random: &mut Random| {
            let p = Product {
                m,
                n,
                k,
                a_t: random.below(2) == 1,
                b_t: random.below(2) == 1,
                packed: (random.below(3) == 0, random.below(3) == 0),
                accumulate: random.below(3) == 0,
                epilogue: random.below(4),
            };
            check_product(ctx, &p, random);
        };
        for m in edges {
            for n in edges {
                product(m, n, edges[random.below(edges.len())], &mut random);
            }
        }
        // Across the borders of blocks, and large enough for two threads.
        for (m, n, k) in [
            (130, 130, 130),
            (9, 500, 1030),
            (70, 485, 515),
            (1, 700, 1100),
            (3, 300, 600),
        ] {
            for _ in 0..4 {
                product(m, n, k, &mut random);
            }
        }
    });
}

#[test]
fn a_product_of_many_rows_is_cut_into_blocks() {
    everywhere(|ctx, _| {
        for packed in [false, true] {
            let p = Product {
                m: 2100,
                n: 20,
                k: 17,
                a_t: false,
                b_t: false,
                packed: (packed, packed),
                accumulate: true,
                epilogue: 2,
            };
            check_product(ctx, &p, &mut Random(2));
        }
    });
}

#[test]
fn batches_step_through_their_operands() {
    everywhere(|ctx, _| {
        for (batch, m, n, k) in [
            (0, 3, 4, 5),
            (1, 3, 4, 5),
            (7, 5, 33, 9),
            (5, 64, 64, 64),
            (1, 90, 90, 90),
        ] {
            let mut random = Random(3);
            let (a, b) = (random.floats(batch * m * k), random.floats(k * n));
            let mut c = vec![0.0f32; batch * m * n];
            let g = RxGemmF32 {
                m: m as i64,
                n: n as i64,
                k: k as i64,
                a: a.as_ptr(),
                a_rs: k as i64,
                a_cs: 1,
                b: b.as_ptr(),
                b_rs: n as i64,
                b_cs: 1,
                c: c.as_mut_ptr(),
                c_ld: n as i64,
                ..Default::default()
            };
            // SAFETY: all arrays have the sizes that the products state.
            let status = unsafe {
                rx_batch_gemm_f32(ctx, &g, batch as i64, (m * k) as i64, 0, (m * n) as i64)
            };
            assert_eq!(status, 0);
            let wanted: Vec<f32> = (0..batch * m * n)
                .map(|x| {
                    let (i, j) = (x / n, x % n);
                    (0..k)
                        .map(|q| f64::from(a[i * k + q]) * f64::from(b[q * n + j]))
                        .sum::<f64>() as f32
                })
                .collect();
            close("batch", &c, &wanted, 1e-5);
        }
    });
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let run = |ctx: *mut RxContext, k: usize| {
        let mut random = Random(4);
        let (m, n) = (150, 170);
        let (a, b) = (random.floats(m * k), random.floats(k * n));
        let mut c = vec![0.0f32; m * n];
        let g = RxGemmF32 {
            m: m as i64,
            n: n as i64,
            k: k as i64,
            a: a.as_ptr(),
            a_rs: k as i64,
            a_cs: 1,
            b: b.as_ptr(),
            b_rs: 1,
            b_cs: k as i64,
            c: c.as_mut_ptr(),
            c_ld: n as i64,
            ..Default::default()
        };
        // SAFETY: all arrays have the sizes that the product states.
        assert_eq!(unsafe { rx_gemm_f32(ctx, &g) }, 0);
        c
    };
    let seen = std::cell::RefCell::new(Vec::new());
    everywhere(|ctx, isa| {
        let c = run(ctx, 700);
        // SAFETY: a live context.
        if unsafe { (*ctx).threads } == 1 {
            seen.borrow_mut().push((isa, c));
        } else {
            let seen = seen.borrow();
            let (first, one) = seen.last().expect("one thread came first");
            assert!(*first == isa && *one == c, "{isa:?}");
        }
    });
}

type Entry = unsafe extern "C" fn(*mut RxContext, *const RxGemm) -> i32;

fn check_other<A, C>(
    ctx: *mut RxContext,
    entry: Entry,
    a: impl Fn(u64) -> A,
    wide: impl Fn(&A) -> i128,
    narrow: impl Fn(i128) -> C,
) where
    C: Copy + PartialEq + std::fmt::Debug,
{
    for (m, n, k) in [
        (1, 1, 0),
        (1, 1, 1),
        (3, 65, 130),
        (9, 7, 300),
        (40, 70, 20),
    ] {
        let mut random = Random(5);
        let x: Vec<A> = (0..m * k).map(|_| a(random.bits())).collect();
        let y: Vec<A> = (0..k * n).map(|_| a(random.bits())).collect();
        let mut c: Vec<C> = (0..m * n).map(|i| narrow(i as i128)).collect();
        let g = RxGemm {
            m: m as i64,
            n: n as i64,
            k: k as i64,
            a: x.as_ptr().cast(),
            a_rs: k as i64,
            a_cs: 1,
            b: y.as_ptr().cast(),
            b_rs: 1,
            b_cs: k as i64,
            c: c.as_mut_ptr().cast(),
            c_ld: n as i64,
            accumulate: 1,
            reserved: 0,
        };
        // SAFETY: all arrays have the sizes that the product states.
        assert_eq!(unsafe { entry(ctx, &g) }, 0);
        for (i, c) in c.iter().enumerate() {
            let products = (0..k).map(|q| wide(&x[i / n * k + q]) * wide(&y[i % n * k + q]));
            assert_eq!(
                *c,
                narrow(products.sum::<i128>() + i as i128),
                "{m} {n} {k} at {i}"
            );
        }
    }
}

#[test]
fn products_of_other_types() {
    everywhere(|ctx, _| {
        let i32_of = |x: i128| x as i32;
        check_other(
            ctx,
            rx_gemm_i8_i8_i32,
            |r| r as i8,
            |x| i128::from(*x),
            i32_of,
        );
        check_other(
            ctx,
            rx_gemm_u8_u8_i32,
            |r| r as u8,
            |x| i128::from(*x),
            i32_of,
        );
        check_other(
            ctx,
            rx_gemm_i16_i16_i32,
            |r| r as i16,
            |x| i128::from(*x),
            i32_of,
        );
        check_other(
            ctx,
            rx_gemm_i32_i32_i32,
            |r| r as i32,
            |x| i128::from(*x),
            i32_of,
        );
        check_other(
            ctx,
            rx_gemm_i64_i64_i64,
            |r| r as i64,
            |x| i128::from(*x),
            |x| x as i64,
        );
        let small = |r: u64| (r % 1000) as f64;
        check_other(ctx, rx_gemm_f64, small, |x| *x as i128, |x| x as f64);
        // The one with two types, by hand.
        let (a, b, mut c) = ([200u8, 3], [-5i8, 7], [0i32]);
        let g = RxGemm {
            m: 1,
            n: 1,
            k: 2,
            a: a.as_ptr().cast(),
            a_rs: 2,
            a_cs: 1,
            b: b.as_ptr().cast(),
            b_rs: 1,
            b_cs: 2,
            c: c.as_mut_ptr().cast(),
            c_ld: 1,
            accumulate: 0,
            reserved: 0,
        };
        // SAFETY: as above.
        assert_eq!(unsafe { rx_gemm_u8_i8_i32(ctx, &g) }, 0);
        assert_eq!(c, [-979]);
    });
}

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
    let (bias, residual) = (random.floats(s.o as usize), random.floats(outputs));
    let mut y = vec![9.0f32; outputs];
    (v.x, v.weight, v.y) = (x.as_ptr(), weight.as_ptr(), y.as_mut_ptr());
    if epilogue > 0 {
        (v.epilogue.bias, v.epilogue.activation) = (bias.as_ptr(), 1);
    }
    let scale = random.floats(s.o as usize);
    if epilogue > 1 {
        v.epilogue.scale = scale.as_ptr();
        v.epilogue.residual = residual.as_ptr();
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
            wanted[at] = finish(&v.epilogue, sum as f32, o as usize, at);
        }
    }
    let minimal = !nhwc && s.c.min(s.o) >= 32 && s.kh == 3 && s.groups == 1;
    // Terms are as large as 1, and errors grow with their number.
    let tolerance = if minimal { 2e-4 } else { 2e-5 } * (s.c as f32 / 64.0).max(1.0);
    close(&format!("{v:?}"), &y, &wanted, tolerance);
}

#[test]
fn convolutions_of_all_kinds() {
    let base = RxConv2dF32 {
        sizes: RxConv2dSizes {
            n: 1,
            c: 1,
            h: 1,
            w: 1,
            o: 1,
            kh: 1,
            kw: 1,
            oh: 0,
            ow: 0,
            stride_h: 1,
            stride_w: 1,
            pad_t: 0,
            pad_l: 0,
            dilation_h: 1,
            dilation_w: 1,
            groups: 1,
        },
        layout: 0,
        reserved: 0,
        x: null(),
        weight: null(),
        weight_packed: null(),
        y: null_mut(),
        epilogue: RxEpilogue::default(),
    };
    everywhere(|ctx, _| {
        // c, o, groups, h, w, kh, kw, stride, pad, dilation
        let cases = [
            [1, 1, 1, 1, 1, 1, 1, 1, 0, 1],
            [3, 5, 1, 7, 9, 3, 3, 1, 1, 1],
            [8, 16, 1, 14, 14, 3, 3, 1, 1, 1],
            [4, 6, 2, 9, 8, 3, 2, 1, 1, 1],
            [3, 8, 1, 23, 17, 7, 7, 2, 3, 1],
            [2, 3, 1, 12, 12, 3, 3, 1, 2, 2],
            [5, 9, 1, 6, 6, 1, 1, 1, 0, 1],
            [5, 9, 1, 7, 6, 1, 1, 2, 0, 1],
            [100, 20, 1, 5, 5, 3, 3, 1, 1, 1],
            [6, 6, 6, 11, 35, 3, 3, 1, 1, 1],
            [6, 6, 6, 11, 70, 3, 3, 2, 1, 1],
            [5, 5, 5, 7, 7, 3, 3, 1, 1, 1],
            [5, 10, 5, 14, 14, 3, 3, 1, 1, 1],
            [3, 3, 3, 13, 57, 3, 3, 1, 1, 1],
            [3, 3, 3, 9, 67, 3, 3, 1, 1, 1],
            [3, 3, 3, 9, 33, 3, 3, 1, 0, 1],
            [3, 3, 3, 9, 33, 3, 3, 1, 2, 1],
            [4, 8, 4, 9, 9, 5, 3, 1, 2, 2],
            [3, 3, 3, 4, 3, 3, 3, 1, 3, 1],
            [40, 40, 40, 6, 6, 3, 3, 1, 1, 1],
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
            // Too few channels for it.
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
                check_conv(ctx, v, i % 3, i % 2 == 0);
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
                for (kh, kw, stride, pad, dilation) in [
                    (1, 1, 1, 0, 1),
                    (2, 2, 2, 0, 1),
                    (3, 3, 2, 1, 1),
                    (3, 2, 1, 1, 2),
                ] {
                    let (n, c, h, w) = (2, 21, 9, 8);
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

#[test]
fn rows_are_normalised() {
    everywhere(|ctx, _| {
        for (rows, n) in [
            (0, 5),
            (1, 1),
            (3, 2),
            (5, 15),
            (4, 16),
            (3, 17),
            (7, 63),
            (65, 1000),
        ] {
            let x: Vec<f32> = Random(8)
                .floats(rows * n)
                .iter()
                .map(|x| x * 20.0 + 100.0)
                .collect();
            let (gamma, beta) = (Random(9).floats(n), Random(10).floats(n));
            let mut soft = vec![0.0f32; rows * n];
            let (mut log, mut norm) = (soft.clone(), soft.clone());
            let mut inplace = x.clone();
            let (r, c) = (rows as i64, n as i64);
            // SAFETY: all arrays have the sizes that are stated.
            unsafe {
                assert_eq!(rx_softmax_f32(ctx, r, c, x.as_ptr(), soft.as_mut_ptr()), 0);
                assert_eq!(
                    rx_softmax_f32(ctx, r, c, inplace.as_ptr(), inplace.as_mut_ptr()),
                    0
                );
                assert_eq!(
                    rx_log_softmax_f32(ctx, r, c, x.as_ptr(), log.as_mut_ptr()),
                    0
                );
                let (gamma, beta) = (gamma.as_ptr(), beta.as_ptr());
                let y = norm.as_mut_ptr();
                assert_eq!(
                    rx_layer_norm_f32(ctx, r, c, x.as_ptr(), gamma, beta, 1e-5, y),
                    0
                );
            }
            assert_eq!(soft, inplace);
            for row in 0..rows {
                let line = row * n..(row + 1) * n;
                let wide: Vec<f64> = x[line.clone()].iter().map(|x| f64::from(*x)).collect();
                let max = wide.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = wide.iter().map(|x| (x - max).exp()).sum();
                let wanted: Vec<f32> = wide
                    .iter()
                    .map(|x| ((x - max).exp() / total) as f32)
                    .collect();
                close("softmax", &soft[line.clone()], &wanted, 1e-6);
                let wanted: Vec<f32> = wide.iter().map(|x| (x - max - total.ln()) as f32).collect();
                close("log_softmax", &log[line.clone()], &wanted, 1e-5);
                let mean = wide.iter().sum::<f64>() / n as f64;
                let variance = wide.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
                let wanted: Vec<f32> = (0..n)
                    .map(|i| {
                        let unit = (wide[i] - mean) / (variance + 1e-5).sqrt();
                        (unit * f64::from(gamma[i]) + f64::from(beta[i])) as f32
                    })
                    .collect();
                close("layer_norm", &norm[line], &wanted, 1e-4);
            }
        }
        // Infinite and missing numbers.
        let x = [f32::NEG_INFINITY, 0.0, f32::NEG_INFINITY];
        let mut y = [9.0f32; 3];
        // SAFETY: as above.
        unsafe { rx_softmax_f32(ctx, 1, 3, x.as_ptr(), y.as_mut_ptr()) };
        assert_eq!(y, [0.0, 1.0, 0.0]);
    });
}

#[test]
fn reductions() {
    everywhere(|ctx, _| {
        for (outer, axis, inner) in [
            (1, 0, 1),
            (2, 0, 3),
            (1, 1, 1),
            (3, 7, 1),
            (5, 64, 1),
            (2, 65, 1),
            (3, 1000, 1),
            (4, 5, 3),
            (2, 130, 17),
            (3, 9, 70),
            (1, 100_003, 1),
            (600, 100, 1),
            (3, 200, 300),
        ] {
            let x = Random(11).floats(outer * axis * inner);
            for op in 0..6 {
                let mut y = vec![0.0f32; outer * inner];
                let (o, a, i) = (outer as i64, axis as i64, inner as i64);
                // SAFETY: both arrays have the sizes that are stated.
                assert_eq!(
                    unsafe { rx_reduce_f32(ctx, op, o, a, i, x.as_ptr(), y.as_mut_ptr()) },
                    0
                );
                let wanted: Vec<f32> = (0..outer * inner)
                    .map(|at| {
                        let line = (0..axis)
                            .map(|q| f64::from(x[(at / inner * axis + q) * inner + at % inner]));
                        (match op {
                            0 => line.sum::<f64>(),
                            1 => line.sum::<f64>() / axis as f64,
                            2 => line.fold(f64::NEG_INFINITY, f64::max),
                            3 => line.fold(f64::INFINITY, f64::min),
                            4 => line.product(),
                            _ => line.map(|x| x * x).sum(),
                        }) as f32
                    })
                    .collect();
                close(
                    &format!("{op} of {outer} {axis} {inner}"),
                    &y,
                    &wanted,
                    3e-6,
                );
            }
        }
        // A sum of ten million tenths: one chain of additions would be off by a percent or more.
        let x = vec![0.1f32; 10_000_000];
        let mut y = [0.0f32];
        // SAFETY: as above.
        unsafe { rx_reduce_f32(ctx, 0, 1, x.len() as i64, 1, x.as_ptr(), y.as_mut_ptr()) };
        assert!((y[0] - 1_000_000.0).abs() < 0.5, "{}", y[0]);
        for n in [1, 20, 100] {
            for at in [0, n / 2, n - 1] {
                for op in [2, 3] {
                    let mut x = Random(12).floats(n);
                    x[at] = f32::NAN;
                    // SAFETY: as above.
                    unsafe { rx_reduce_f32(ctx, op, 1, n as i64, 1, x.as_ptr(), y.as_mut_ptr()) };
                    assert!(y[0].is_nan(), "{op} of {n} with NaN at {at}");
                }
            }
        }
    });
}

fn check_transpose<T: Copy + PartialEq + std::fmt::Debug>(
    ctx: *mut RxContext,
    shape: &[i64],
    axes: &[i32],
    make: impl Fn(usize) -> T,
) {
    let n: i64 = shape.iter().product();
    let src: Vec<T> = (0..n as usize).map(&make).collect();
    let mut dst = vec![make(0); n as usize];
    // SAFETY: both arrays have the sizes that the shape states.
    let status = unsafe {
        rx_transpose(
            ctx,
            size_of::<T>() as i32,
            shape.len() as i32,
            shape.as_ptr(),
            axes.as_ptr(),
            src.as_ptr().cast(),
            dst.as_mut_ptr().cast(),
        )
    };
    assert_eq!(status, 0);
    let mut index = vec![0i64; shape.len()];
    for found in dst {
        let mut at = 0;
        for (axis, extent) in shape.iter().enumerate() {
            let place = axes
                .iter()
                .position(|a| *a as usize == axis)
                .expect("a permutation");
            at = at * extent + index[place];
        }
        assert_eq!(found, src[at as usize], "{shape:?} {axes:?} {index:?}");
        for place in (0..shape.len()).rev() {
            index[place] += 1;
            if index[place] < shape[axes[place] as usize] {
                break;
            }
            index[place] = 0;
        }
    }
}

#[test]
fn transposition_copying_and_filling() {
    everywhere(|ctx, _| {
        for (shape, axes) in [
            (vec![], vec![]),
            (vec![5], vec![0]),
            (vec![3, 0], vec![1, 0]),
            (vec![33, 50], vec![1, 0]),
            (vec![2, 3, 4], vec![2, 0, 1]),
            (vec![4, 7, 18], vec![0, 2, 1]),
            (vec![2, 17, 5, 19], vec![0, 2, 3, 1]),
            (vec![2, 17, 5, 19], vec![3, 1, 0, 2]),
            (vec![1, 6, 1, 7, 3], vec![4, 3, 2, 1, 0]),
            (vec![3, 200, 150], vec![0, 2, 1]),
        ] {
            check_transpose(ctx, &shape, &axes, |i| i as u8);
            check_transpose(ctx, &shape, &axes, |i| i as u16);
            check_transpose(ctx, &shape, &axes, |i| i as f32);
            check_transpose(ctx, &shape, &axes, |i| i as f64);
            check_transpose(ctx, &shape, &axes, |i| [i as f64; 2]);
        }
        let src = [1i32, 2, 3];
        let mut dst = [0i32; 6];
        // SAFETY: two rows of the same three numbers, backwards.
        unsafe {
            let from: *const c_void = src.as_ptr().add(2).cast();
            let (shape, from_strides, to_strides) = ([2i64, 3], [0i64, -1], [3i64, 1]);
            let status = rx_copy_strided(
                ctx,
                4,
                2,
                shape.as_ptr(),
                from,
                from_strides.as_ptr(),
                dst.as_mut_ptr().cast(),
                to_strides.as_ptr(),
            );
            assert_eq!((status, dst), (0, [3, 2, 1, 3, 2, 1]));
            rx_fill(4, 5, (&raw const src[1]).cast(), dst.as_mut_ptr().cast());
            assert_eq!(dst, [2, 2, 2, 2, 2, 1]);
            rx_copy(8, src.as_ptr().cast(), dst.as_mut_ptr().cast());
            assert_eq!(dst[..3], [1, 2, 2]);
            assert_eq!(
                rx_transpose(ctx, 4, 17, null(), null(), null(), null_mut()),
                7
            );
        }
    });
}

#[test]
fn halves_round_to_even() {
    use relax_runtime::kernels::convert::*;
    let x = [
        0.0f32,
        1.0,
        -2.5,
        65504.0,
        1e6,
        1.0 + 1.0 / 2048.0,
        f32::NAN,
        3e-8,
    ];
    let (mut half, mut brain, mut back) = ([0u16; 8], [0u16; 8], [0.0f32; 8]);
    // SAFETY: all have eight elements.
    unsafe {
        rx_vf32_to_f16(8, x.as_ptr(), half.as_mut_ptr());
        rx_vf16_to_f32(8, half.as_ptr(), back.as_mut_ptr());
        assert_eq!(back[..6], [0.0, 1.0, -2.5, 65504.0, f32::INFINITY, 1.0]);
        assert!(back[6].is_nan() && (back[7] - 3e-8).abs() < 3e-8);
        rx_vf32_to_bf16(8, x.as_ptr(), brain.as_mut_ptr());
        rx_vbf16_to_f32(8, brain.as_ptr(), back.as_mut_ptr());
        assert_eq!(back[..4], [0.0, 1.0, -2.5, 65536.0]);
    }
}
