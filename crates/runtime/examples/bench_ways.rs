//! Prints the shortest time of convolutions by every way that they can go, the way first that they
//! go by themselves: what the costs in `kernels/conv/ways.rs` are fitted to.
//!
//! `cargo run --release -p relax-runtime --example bench_ways [FILE] [SECONDS] [ROUNDS]`: a line of
//! the file is a convolution, `n c h w o kh kw oh ow stride_h stride_w pad_t pad_l dilation_h
//! dilation_w groups`; without one, some sizes of networks.

use relax_runtime::capi::context::{rx_context_create, rx_set_threads};
use relax_runtime::kernels::conv::*;
use relax_runtime::kernels::gemm::epilogue::RxEpilogue;
use std::time::Instant;

/// Sizes of networks: channels, extent, output channels, window, step, groups.
const SOME: [[i64; 6]; 12] = [
    [192, 6, 192, 3, 1, 1],
    [64, 28, 192, 3, 1, 1],
    [32, 48, 32, 3, 1, 1],
    [16, 96, 16, 3, 1, 1],
    [128, 12, 32, 3, 1, 1],
    [512, 7, 512, 3, 1, 1],
    [512, 7, 512, 3, 2, 1],
    [64, 16, 128, 3, 2, 1],
    [32, 12, 64, 3, 2, 1],
    [256, 16, 256, 3, 2, 32],
    [64, 15, 192, 5, 1, 1],
    [32, 16, 32, 4, 4, 1],
];

/// A padded square window over a square image.
fn square([c, size, o, window, stride, groups]: [i64; 6]) -> [i64; 16] {
    let pad = if stride < window { window / 2 } else { 0 };
    let out = (size + 2 * pad - window) / stride + 1;
    [
        1, c, size, size, o, window, window, out, out, stride, stride, pad, pad, 1, 1, groups,
    ]
}

fn main() {
    let mut args = std::env::args().skip(1);
    let list: Vec<[i64; 16]> = match args.next() {
        None => SOME.into_iter().map(square).collect(),
        Some(file) => {
            let text = std::fs::read_to_string(file).expect("a file of convolutions");
            let numbers = |l: &str| -> Vec<i64> {
                let words = l.split_whitespace().take(16);
                words.map(|w| w.parse().expect("a number")).collect()
            };
            text.lines()
                .map(|l| numbers(l).try_into().expect("16 numbers"))
                .collect()
        }
    };
    let mut number = || args.next().and_then(|t| t.parse::<f64>().ok());
    let (seconds, rounds) = (number().unwrap_or(0.02), number().unwrap_or(4.0) as usize);
    let ctx = rx_context_create();
    rx_set_threads(ctx, 1);
    for v in list {
        let [n, c, h, w, o, kh, kw, oh, ow, stride_h, stride_w, ..] = v;
        let [pad_t, pad_l, dilation_h, dilation_w, groups] = [v[11], v[12], v[13], v[14], v[15]];
        let weight = vec![0.01f32; (o * c / groups * kh * kw) as usize];
        let bias = vec![1.0f32; o as usize];
        let x = vec![0.5f32; (n * c * h * w) as usize];
        let mut y = vec![0.0f32; (n * o * oh * ow) as usize];
        let sizes = RxConv2dSizes {
            n,
            c,
            h,
            w,
            o,
            kh,
            kw,
            oh,
            ow,
            stride_h,
            stride_w,
            pad_t,
            pad_l,
            dilation_h,
            dilation_w,
            groups,
        };
        let conv = RxConv2dF32 {
            sizes,
            layout: Layout::Nchw as i32,
            reserved: 0,
            x: x.as_ptr(),
            weight: weight.as_ptr(),
            weight_packed: std::ptr::null(),
            y: y.as_mut_ptr(),
            epilogue: RxEpilogue {
                bias: bias.as_ptr(),
                activation: 1,
                ..Default::default()
            },
        };
        let ways = ways_of(&sizes, conv.layout);
        // SAFETY: the weight has the sizes that the descriptor states.
        let packed = (ways.iter()).map(|&way| unsafe { packed_for(&conv, way) });
        let packed: Vec<Vec<f32>> = packed.collect();
        let mut least = vec![f64::INFINITY; ways.len()];
        for _ in 0..rounds {
            for ((&way, packed), least) in ways.iter().zip(&packed).zip(&mut least) {
                let mut conv = RxConv2dF32 { ..conv };
                if !packed.is_empty() {
                    conv.weight_packed = packed.as_ptr();
                }
                let begin = Instant::now();
                while begin.elapsed().as_secs_f64() < seconds {
                    let begin = Instant::now();
                    // SAFETY: all arrays have the sizes that the descriptor states.
                    assert_eq!(unsafe { by_way(&mut *ctx, &conv, way) }, 0);
                    *least = least.min(begin.elapsed().as_secs_f64());
                }
            }
        }
        let sums = (n * o * oh * ow * c / groups * kh * kw) as f64;
        print!("{v:?}: {:.1} GFLOP/s", 2e-9 * sums / least[0]);
        for (way, least) in ways.iter().zip(&least) {
            print!("  {way:?} {:.1} us", least * 1e6);
        }
        println!();
    }
}
