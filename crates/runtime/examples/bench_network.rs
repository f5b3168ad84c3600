//! Prints the shortest time of every layer of a network's convolutions, run in sequence as in the
//! network: each finds its weights where the previous layers left them in the caches.
//!
//! `cargo run --release -p relax-runtime --example bench_network [THREADS] [mobilenet|resnet]`

#[path = "../tests/common/mod.rs"]
mod common;

use common::one_pixel;
use relax_runtime::capi::context::{rx_context_create, rx_set_threads};
use relax_runtime::capi::kernels::rx_conv2d_f32;
use relax_runtime::capi::packing::{rx_conv2d_f32_pack, rx_conv2d_f32_pack_size};
use relax_runtime::context::RxContext;
use relax_runtime::kernels::conv::*;
use relax_runtime::kernels::gemm::epilogue::RxEpilogue;
use std::time::Instant;

/// Runs of the network.
const RUNS: usize = 200;

/// A convolution with its weight.
struct Layer {
    name: String,
    conv: RxConv2dF32,
    flops: f64,
    _weight: Vec<f32>,
    _packed: Vec<f32>,
    _bias: Vec<f32>,
}

/// A square window over a square image, with a bias and relu.
fn layer(c: i64, o: i64, size: i64, window: i64, stride: i64, groups: i64) -> Layer {
    let pad = window / 2;
    let out = (size + 2 * pad - window) / stride + 1;
    let weight = vec![0.01f32; (o * c / groups * window * window) as usize];
    let bias = vec![1.0f32; o as usize];
    let sizes = RxConv2dSizes {
        c,
        h: size,
        w: size,
        o,
        kh: window,
        kw: window,
        oh: out,
        ow: out,
        stride_h: stride,
        stride_w: stride,
        pad_t: pad,
        pad_l: pad,
        groups,
        ..one_pixel().sizes
    };
    let mut conv = RxConv2dF32 {
        sizes,
        weight: weight.as_ptr(),
        epilogue: RxEpilogue {
            bias: bias.as_ptr(),
            activation: 1,
            ..Default::default()
        },
        ..one_pixel()
    };
    // SAFETY: only sizes are read, then the weight, which has them.
    let packed = unsafe {
        let mut packed = vec![0.0f32; rx_conv2d_f32_pack_size(&conv) as usize];
        if !packed.is_empty() {
            rx_conv2d_f32_pack(&conv, packed.as_mut_ptr());
            conv.weight_packed = packed.as_ptr();
        }
        packed
    };
    let group = if groups > 1 { " depthwise" } else { "" };
    Layer {
        name: format!("{window}x{window}/{stride} {c}-{o} at {size}{group}"),
        conv,
        flops: (2 * out * out * o * c / groups * window * window) as f64,
        _weight: weight,
        _packed: packed,
        _bias: bias,
    }
}

fn mobilenet() -> Vec<Layer> {
    let mut layers = vec![layer(3, 32, 224, 3, 2, 1)];
    let (mut c, mut size) = (32, 112);
    let plan = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)];
    let plan = plan.into_iter().chain([(512, 1); 5]);
    for (o, stride) in plan.chain([(1024, 2), (1024, 1)]) {
        layers.push(layer(c, c, size, 3, stride, c));
        size /= stride;
        layers.push(layer(c, o, size, 1, 1, 1));
        c = o;
    }
    layers
}

fn resnet() -> Vec<Layer> {
    let mut layers = vec![layer(3, 64, 224, 7, 2, 1)];
    let (mut c, mut size) = (64, 56);
    for (o, stride) in [(64, 1), (128, 2), (256, 2), (512, 2)] {
        layers.push(layer(c, o, size, 3, stride, 1));
        if stride > 1 {
            layers.push(layer(c, o, size, 1, stride, 1));
        }
        size /= stride;
        layers.extend((0..3).map(|_| layer(o, o, size, 3, 1, 1)));
        c = o;
    }
    layers
}

fn main() {
    let mut args = std::env::args().skip(1);
    let threads = args.next().and_then(|t| t.parse().ok()).unwrap_or(1);
    let mut layers = match args.next().as_deref() {
        Some("resnet") => resnet(),
        _ => mobilenet(),
    };
    let ctx: *mut RxContext = rx_context_create();
    rx_set_threads(ctx, threads);
    let largest = (layers.iter())
        .map(|l| l.conv.sizes)
        .flat_map(|s| [s.c * s.h * s.w, s.o * s.oh * s.ow])
        .max();
    let mut rooms = [(); 2].map(|()| vec![0.5f32; largest.unwrap_or(0) as usize]);
    for (i, l) in layers.iter_mut().enumerate() {
        l.conv.x = rooms[i % 2].as_ptr();
        l.conv.y = rooms[(i + 1) % 2].as_mut_ptr();
    }
    let mut least = vec![f64::INFINITY; layers.len()];
    for _ in 0..RUNS {
        for (l, least) in layers.iter().zip(&mut least) {
            let begin = Instant::now();
            // SAFETY: the rooms are as large as the largest activation.
            assert_eq!(unsafe { rx_conv2d_f32(ctx, &l.conv) }, 0);
            *least = least.min(begin.elapsed().as_secs_f64());
        }
    }
    for (l, t) in layers.iter().zip(&least) {
        let rate = l.flops / t * 1e-9;
        println!("{:34} {:9.1} us {rate:6.1} GFLOP/s", l.name, t * 1e6);
    }
    let (all, flops): (f64, f64) = (least.iter().sum(), layers.iter().map(|l| l.flops).sum());
    println!(
        "{:34} {:9.1} us {:6.1} GFLOP/s",
        "all",
        all * 1e6,
        flops / all * 1e-9
    );
}
