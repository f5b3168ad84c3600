//! Prints times and rates of convolution, rows, reductions and vector functions.
//!
//! `cargo run --release -p relax-runtime --example bench_kernels [THREADS] [PART-OF-A-NAME]`

#[path = "../tests/common/mod.rs"]
mod common;

use common::{dense, one_pixel};
use relax_runtime::capi::arrays::{
    rx_copy, rx_reduce_f32, rx_softmax, rx_transpose, rx_vcos_f32, rx_verf_f32, rx_vexp_f32,
    rx_vgelu_f32, rx_vlog_f32, rx_vrsqrt_f32, rx_vsigmoid_f32, rx_vsin_f32, rx_vsqrt_f32,
    rx_vtanh_f32,
};
use relax_runtime::capi::context::{rx_context_create, rx_context_destroy, rx_set_threads};
use relax_runtime::capi::kernels::{
    rx_conv2d_f32, rx_conv2d_i32, rx_gemm_i32, rx_layer_norm_f32, rx_pool2d_f32, rx_requantize_i32,
    rx_strips_f32,
};
use relax_runtime::capi::packing::{rx_conv2d_f32_pack, rx_conv2d_f32_pack_size};
use relax_runtime::context::RxContext;
use relax_runtime::kernels::conv::*;
use relax_runtime::kernels::gemm::epilogue::RxEpilogue;
use relax_runtime::kernels::gemm::other::RxGemmI32;
use relax_runtime::kernels::integer::conv::RxConv2dI32;
use relax_runtime::kernels::kinds::Kind;
use relax_runtime::kernels::pool2d::*;
use relax_runtime::kernels::requantize::RxRequantize;
use relax_runtime::kernels::rows::*;
use relax_runtime::kernels::strips::{Op, RxStripOp, RxStrips};
use std::time::Instant;

/// The shortest of many runs, in seconds.
fn best(mut body: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    let start = Instant::now();
    let mut runs = 0;
    while runs < 5 || start.elapsed().as_secs_f64() < 0.3 {
        let one = Instant::now();
        body();
        best = best.min(one.elapsed().as_secs_f64());
        runs += 1;
    }
    best
}

struct Conv {
    name: String,
    c: i64,
    o: i64,
    size: i64,
    window: i64,
    stride: i64,
    groups: i64,
    layout: i32,
}

/// Returns whether the command line selects this one.
fn wanted(name: &str) -> bool {
    std::env::args()
        .nth(2)
        .is_none_or(|part| name.contains(&part))
}

fn conv(ctx: *mut RxContext, p: &Conv) {
    if !wanted(&p.name) {
        return;
    }
    let pad = p.window / 2;
    let out = (p.size + 2 * pad - p.window) / p.stride + 1;
    let x = vec![0.5f32; (p.c * p.size * p.size) as usize];
    let weight = vec![0.25f32; (p.o * p.c / p.groups * p.window * p.window) as usize];
    let bias = vec![1.0f32; p.o as usize];
    let mut y = vec![0.0f32; (p.o * out * out) as usize];
    let epilogue = RxEpilogue {
        bias: bias.as_ptr(),
        activation: 1,
        ..Default::default()
    };
    let mut v = RxConv2dF32 {
        sizes: RxConv2dSizes {
            c: p.c,
            h: p.size,
            w: p.size,
            o: p.o,
            kh: p.window,
            kw: p.window,
            oh: out,
            ow: out,
            stride_h: p.stride,
            stride_w: p.stride,
            pad_t: pad,
            pad_l: pad,
            groups: p.groups,
            ..one_pixel().sizes
        },
        layout: p.layout,
        x: x.as_ptr(),
        weight: weight.as_ptr(),
        y: y.as_mut_ptr(),
        epilogue,
        ..one_pixel()
    };
    // SAFETY: all arrays have the sizes that the descriptor states.
    let seconds = unsafe {
        let mut packed = vec![0.0f32; rx_conv2d_f32_pack_size(&v) as usize];
        if !packed.is_empty() {
            rx_conv2d_f32_pack(&v, packed.as_mut_ptr());
            v.weight_packed = packed.as_ptr();
        }
        best(|| assert_eq!(rx_conv2d_f32(ctx, &v), 0))
    };
    let flops = 2 * out * out * p.o * p.c / p.groups * p.window * p.window;
    let bytes = 4 * (x.len() + y.len() + weight.len());
    println!(
        "{:34} {:9.1} us {:6.1} GFLOP/s {:6.1} GB/s",
        p.name,
        seconds * 1e6,
        flops as f64 / seconds * 1e-9,
        bytes as f64 / seconds * 1e-9
    );
}

/// A convolution of 8 bits with 32-bit sums, 56 by 56 pixels, a window of 3 by 3.
fn integers(ctx: *mut RxContext) {
    for (name, groups, layout) in [
        ("conv 3x3 64-64 56, int8", 1, 0),
        ("conv 3x3 64-64 56, int8, NHWC", 1, 1),
        ("depthwise 3x3 64 56, int8", 64, 0),
        ("depthwise 3x3 64 56, int8, NHWC", 64, 1),
    ] {
        if !wanted(name) {
            continue;
        }
        let (c, size) = (64i64, 56i64);
        let pixels = (size * size) as usize;
        let x = vec![3i8; 64 * pixels];
        let weight = vec![-2i8; (c * c / groups * 9) as usize];
        let mut y = vec![0i32; 64 * pixels];
        let v = RxConv2dI32 {
            sizes: RxConv2dSizes {
                c,
                h: size,
                w: size,
                o: c,
                kh: 3,
                kw: 3,
                oh: size,
                ow: size,
                pad_t: 1,
                pad_l: 1,
                groups,
                ..one_pixel().sizes
            },
            layout,
            x_type: 0,
            weight_type: 0,
            reserved: 0,
            x: x.as_ptr().cast(),
            weight: weight.as_ptr().cast(),
            y: y.as_mut_ptr(),
            x_zero: 3,
            weight_zero: 0,
        };
        // SAFETY: all arrays have the sizes that the descriptor states.
        let seconds = best(|| assert_eq!(unsafe { rx_conv2d_i32(ctx, &v) }, 0));
        let operations = 2 * pixels as i64 * c * c / groups * 9;
        println!(
            "{name:34} {:9.1} us {:6.1} Gop/s",
            seconds * 1e6,
            operations as f64 / seconds * 1e-9
        );
    }
}

fn show(name: &str, elements: usize, bytes: usize, body: impl FnMut()) {
    if !wanted(name) {
        return;
    }
    let seconds = best(body);
    println!(
        "{name:34} {:9.1} us {:6.2} Gelem/s {:6.1} GB/s",
        seconds * 1e6,
        elements as f64 / seconds * 1e-9,
        bytes as f64 / seconds * 1e-9
    );
}

/// Each in both layouts.
fn convolutions(ctx: *mut RxContext) {
    let of = |name: &str, c, o, size, window, stride, groups| {
        for (layout, word) in [(0, ""), (1, " NHWC")] {
            conv(
                ctx,
                &Conv {
                    name: format!("{name}{word}"),
                    c,
                    o,
                    size,
                    window,
                    stride,
                    groups,
                    layout,
                },
            );
        }
    };
    of("conv 3x3 64-64 at 56", 64, 64, 56, 3, 1, 1);
    of("conv 7x7/2 3-64 at 224", 3, 64, 224, 7, 2, 1);
    of("conv 3x3/2 3-32 at 224", 3, 32, 224, 3, 2, 1);
    of("conv 3x3/2 64-128 at 56", 64, 128, 56, 3, 2, 1);
    of("conv 3x3 16-16 at 56", 16, 16, 56, 3, 1, 1);
    of("conv 3x3 128-128 at 28", 128, 128, 28, 3, 1, 1);
    of("conv 3x3 256-256 at 14", 256, 256, 14, 3, 1, 1);
    of("conv 3x3 512-512 at 7", 512, 512, 7, 3, 1, 1);
    of("conv 5x5 64-64 at 28", 64, 64, 28, 5, 1, 1);
    of("conv 3x3 128-128 at 28, 4 groups", 128, 128, 28, 3, 1, 4);
    of("conv 1x1 256-256 at 14", 256, 256, 14, 1, 1, 1);
    of("conv 1x1 64-128 at 56", 64, 128, 56, 1, 1, 1);
    of("conv 1x1 512-512 at 7", 512, 512, 7, 1, 1, 1);
    of("conv 1x1/2 64-128 at 56", 64, 128, 56, 1, 2, 1);
    of("depthwise 3x3 32 at 112", 32, 32, 112, 3, 1, 32);
    of("depthwise 3x3 128 at 56", 128, 128, 56, 3, 1, 128);
    of("depthwise 3x3/2 128 at 56", 128, 128, 56, 3, 2, 128);
    of("depthwise 3x3 256 at 28", 256, 256, 28, 3, 1, 256);
    of("depthwise 3x3 1024 at 7", 1024, 1024, 7, 3, 1, 1024);
    of("depthwise 3x3 512 at 14", 512, 512, 14, 3, 1, 512);
    of("depthwise 5x5 128 at 28", 128, 128, 28, 5, 1, 128);
}

/// A dense layer of 8 bits over few and many rows, and sums requantised to 8 bits.
fn quantised(ctx: *mut RxContext) {
    let (n, k) = (1024usize, 1024usize);
    let weight = vec![3i8; n * k];
    for m in [1usize, 64] {
        let (x, mut c) = (vec![200u8; m * k], vec![0i32; m * n]);
        let g = RxGemmI32 {
            gemm: dense((m, n, k), true, &x, &weight, &mut c),
            a_type: 1,
            b_type: 0,
            a_zero: 128,
            b_zero: 0,
            batch: 1,
            a_step: 0,
            b_step: 0,
            c_step: 0,
        };
        show(
            &format!("dense {m} x 1024 x 1024, int8"),
            m * n * k,
            n * k,
            || {
                // SAFETY: the arrays have the sizes that the descriptor states.
                unsafe { rx_gemm_i32(ctx, &g) };
            },
        );
    }
    let (channels, pixels) = (64usize, 3136usize);
    let x: Vec<i32> = (0..channels * pixels).map(|i| i as i32 * 31).collect();
    let mut y = vec![0u8; channels * pixels];
    let (small, wide) = (vec![5i32; channels], vec![1i64 << 30; channels]);
    let (none, places) = (vec![0i64; channels], vec![45i64; channels]);
    let q = RxRequantize {
        outer: 1,
        channels: channels as i64,
        inner: pixels as i64,
        x: x.as_ptr(),
        bias: small.as_ptr(),
        left: none.as_ptr(),
        factor: wide.as_ptr(),
        half: wide.as_ptr(),
        right: places.as_ptr(),
        zero: small.as_ptr(),
        low: 0,
        high: 255,
        y_type: 1,
        reserved: 0,
        y: y.as_mut_ptr().cast(),
    };
    let elements = channels * pixels;
    show("requantise 64 x 56 x 56", elements, 5 * elements, || {
        // SAFETY: as above.
        unsafe { rx_requantize_i32(ctx, &q) };
    });
}

/// `max(1.5 x * x + 0.25 x, 0)` and a chain with a vector function, over few and over many
/// elements.
fn chains(ctx: *mut RxContext) {
    let op = |code: Op, dst, a, b| RxStripOp {
        code: code as i32,
        dst,
        args: [a, b, a, a],
    };
    // Operand 0 is the input, 1 to 3 are the constants, temporaries follow.
    let arithmetic = vec![
        op(Op::Mul, 0, 0, 1),
        op(Op::Mul, 0, 4, 0),
        op(Op::Mul, 1, 0, 2),
        op(Op::Add, 0, 4, 5),
        op(Op::Max, 0, 4, 3),
    ];
    let function = vec![
        op(Op::Sigmoid, 0, 0, 0),
        op(Op::Mul, 0, 4, 0),
        op(Op::Add, 0, 4, 1),
    ];
    for n in [4096usize, 1 << 24] {
        let x: Vec<f32> = (0..n).map(|i| (i % 1000) as f32 * 0.01 - 5.0).collect();
        let mut room = vec![0.0f32; n + 16];
        let aligned = room.as_ptr().align_offset(64);
        for (name, ops) in [("arithmetic", &arithmetic), ("x sigmoid x + c", &function)] {
            let (extents, data) = ([n as i64], [x.as_ptr()]);
            let strips = RxStrips {
                axes: 1,
                reduced: 0,
                inputs: 1,
                constants: 3,
                ops: ops.len() as i32,
                temps: 2,
                combiner: 0,
                reserved: 0,
                extents: extents.as_ptr(),
                data: data.as_ptr(),
                kinds: std::ptr::null(),
                strides: [1i64].as_ptr(),
                values: [1.5f32, 0.25, 0.0].as_ptr(),
                program: ops.as_ptr(),
                out: room[aligned..].as_mut_ptr(),
            };
            show(&format!("chain, {name}, {n}"), n, 8 * n, || {
                // SAFETY: input and result have n elements.
                unsafe { rx_strips_f32(ctx, &strips) };
            });
        }
    }
}

fn main() {
    let threads = std::env::args()
        .nth(1)
        .and_then(|t| t.parse().ok())
        .unwrap_or(1);
    let ctx = rx_context_create();
    rx_set_threads(ctx, threads);
    convolutions(ctx);
    chains(ctx);
    integers(ctx);
    quantised(ctx);
    let n = 4096 * 1024;
    let x: Vec<f32> = (0..n).map(|i| (i % 1000) as f32 * 0.01 - 5.0).collect();
    let mut y = vec![0.0f32; n];
    let (from, to) = (x.as_ptr(), y.as_mut_ptr());
    // SAFETY: both arrays have n elements, and smaller sizes are used only.
    unsafe {
        let bytes = 8 * n;
        show("copy 16 MB", n, bytes, || {
            rx_copy(4 * n as i64, from.cast(), to.cast())
        });
        show("softmax 4096 x 1024", n, bytes, || {
            rx_softmax(ctx, 4096, 1024, from.cast(), to.cast(), Kind::F32 as i32, 0);
        });
        show("log_softmax 4096 x 1024", n, bytes, || {
            rx_softmax(ctx, 4096, 1024, from.cast(), to.cast(), Kind::F32 as i32, 1);
        });
        show("layer_norm 4096 x 1024", n, bytes, || {
            let norm = RxLayerNormF32 {
                rows: 4096,
                cols: 1024,
                channels: 1024,
                inner: 1,
                x: from.cast(),
                gamma: from.cast(),
                beta: from.cast(),
                y: to.cast(),
                epsilon: 1e-5,
                centred: 1,
                kind: Kind::F32 as i32,
                factors: Kind::F32 as i32,
            };
            rx_layer_norm_f32(ctx, &norm);
        });
        show("sum 4096 x 1024, last axis", n, bytes / 2, || {
            rx_reduce_f32(ctx, 0, 4096, 1024, 1, from, to);
        });
        show("sum 4096 x 1024, first axis", n, bytes / 2, || {
            rx_reduce_f32(ctx, 0, 1, 4096, 1024, from, to);
        });
        show("transpose 2048 x 2048", n, bytes, || {
            rx_transpose(
                ctx,
                4,
                2,
                [2048, 2048].as_ptr(),
                [1, 0].as_ptr(),
                from.cast(),
                to.cast(),
            );
        });
        for (name, rows, columns) in [
            ("NCHW to NHWC 64 x 56 x 56", 64, 3136),
            ("NHWC to NCHW 56 x 56 x 64", 3136, 64),
            ("NCHW to NHWC 3 x 224 x 224", 3, 50176),
            ("NHWC to NCHW 224 x 224 x 3", 50176, 3),
            ("NCHW to NHWC 512 x 7 x 7", 512, 49),
            ("NHWC to NCHW 7 x 7 x 512", 49, 512),
        ] {
            let elements = (rows * columns) as usize;
            show(name, elements, 8 * elements, || {
                rx_transpose(
                    ctx,
                    4,
                    2,
                    [rows, columns].as_ptr(),
                    [1, 0].as_ptr(),
                    from.cast(),
                    to.cast(),
                );
            });
        }
        type Strip = unsafe extern "C" fn(i64, *const f32, *mut f32);
        let strips: [(&str, Strip); 10] = [
            ("exp", rx_vexp_f32),
            ("log", rx_vlog_f32),
            ("tanh", rx_vtanh_f32),
            ("erf", rx_verf_f32),
            ("sigmoid", rx_vsigmoid_f32),
            ("gelu", rx_vgelu_f32),
            ("sqrt", rx_vsqrt_f32),
            ("rsqrt", rx_vrsqrt_f32),
            ("sin", rx_vsin_f32),
            ("cos", rx_vcos_f32),
        ];
        for (name, strip) in strips {
            show(&format!("{name} 4096"), 4096, 8 * 4096, || {
                strip(4096, from, to)
            });
        }
        for (name, layout) in [
            ("max_pool 3x3/2 64 at 112", 0),
            ("max_pool 3x3/2 64 at 112 NHWC", 1),
        ] {
            let pool = RxPool2dF32 {
                n: 1,
                c: 64,
                h: 112,
                w: 112,
                kh: 3,
                kw: 3,
                oh: 56,
                ow: 56,
                stride_h: 2,
                stride_w: 2,
                pad_t: 1,
                pad_l: 1,
                dilation_h: 1,
                dilation_w: 1,
                layout,
                op: 0,
                x: from.cast(),
                y: to,
            };
            show(name, 64 * 3136, 4 * 64 * (12544 + 3136), || {
                rx_pool2d_f32(ctx, &pool);
            });
        }
        rx_context_destroy(ctx);
    }
}
