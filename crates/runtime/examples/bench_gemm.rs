//! Prints the GFLOP/s of matrix products; with `peak`, what one thread multiplies and adds at most;
//! with `copy BYTES`, the bandwidth of the faster of two copies of so many bytes.
//!
//! `cargo run --release -p relax-runtime --example bench_gemm [THREADS | peak | copy BYTES]`

#[path = "../tests/common/mod.rs"]
mod common;

use common::dense_f32;
use relax_runtime::capi::context::{rx_context_create, rx_context_destroy, rx_set_threads};
use relax_runtime::capi::kernels::rx_gemm_f32;
use relax_runtime::capi::packing::{rx_pack_b_f32, rx_pack_b_f32_size};
use relax_runtime::context::RxContext;
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

fn random(n: usize) -> Vec<f32> {
    let mut state = 1u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    std::iter::repeat_with(next).take(n).collect()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
#[allow(clippy::needless_range_loop)]
fn peak_body(rounds: usize) -> f32 {
    use std::arch::x86_64::*;
    let x = _mm512_set1_ps(std::hint::black_box(0.999));
    let mut acc = [x; 16];
    for _ in 0..rounds {
        for i in 0..16 {
            acc[i] = _mm512_fmadd_ps(acc[i], x, x);
        }
    }
    acc.iter().map(|a| _mm512_reduce_add_ps(*a)).sum()
}

fn peak() {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        let rounds = 100_000;
        let seconds = best(|| {
            // SAFETY: the feature was just found.
            std::hint::black_box(unsafe { peak_body(rounds) });
        });
        println!(
            "peak of one thread: {:.1} GFLOP/s",
            (rounds * 16 * 32) as f64 / seconds * 1e-9
        );
    }
}

/// Copies by stores that go past the caches: they don't read the lines that they replace.
///
/// Invariant: `from` and `to` have the same length.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn streamed(from: &[f32], to: &mut [f32]) {
    use std::arch::x86_64::*;
    for (x, z) in from.chunks_exact(16).zip(to.chunks_exact_mut(16)) {
        // SAFETY: both have 16 elements, and `z` lies at a multiple of 64: `copy` begins `to` at
        // one, and each piece is 64 bytes long.
        unsafe { _mm512_stream_ps(z.as_mut_ptr(), _mm512_loadu_ps(x.as_ptr())) };
    }
    _mm_sfence();
}

/// Prints the bandwidth of a copy: bytes that are read and written.
fn copy(bytes: usize) {
    let n = (bytes / 4).max(16);
    let (from, mut block) = (random(n), vec![0.0f32; n + 16]);
    let skip = block.as_ptr().align_offset(64);
    let to = &mut block[skip..skip + n];
    let mut seconds = best(|| std::hint::black_box(&mut *to).copy_from_slice(&from));
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the feature was just found.
        seconds = seconds.min(best(|| unsafe {
            streamed(&from, std::hint::black_box(&mut *to))
        }));
    }
    println!("copy of one thread: {:.1} GB/s", 8e-9 * n as f64 / seconds);
}

fn row(ctx: *mut RxContext, m: usize, n: usize, k: usize, transposed: bool) {
    let (a, b, mut c) = (random(m * k), random(k * n), vec![0.0f32; m * n]);
    let mut packed = vec![0.0f32; rx_pack_b_f32_size(k as i64, n as i64) as usize];
    let mut g = dense_f32((m, n, k), transposed, &a, &b, &mut c);
    // SAFETY: all operands have the stated sizes.
    let (ours, prepacked) = unsafe {
        let ours = best(|| assert_eq!(rx_gemm_f32(ctx, &g), 0));
        rx_pack_b_f32(g.k, g.n, b.as_ptr(), g.b_rs, g.b_cs, packed.as_mut_ptr());
        g.b_packed = packed.as_ptr();
        let prepacked = best(|| assert_eq!(rx_gemm_f32(ctx, &g), 0));
        (ours, prepacked)
    };
    let rate = |seconds: f64| 2e-9 * (m * n * k) as f64 / seconds;
    println!(
        "{m:5} {n:5} {k:5} {} | {:9.1} us {:6.1} | packed {:9.1} us {:6.1}",
        if transposed { "T" } else { " " },
        ours * 1e6,
        rate(ours),
        prepacked * 1e6,
        rate(prepacked)
    );
}

fn main() {
    let mut words = std::env::args().skip(1);
    match words.next().as_deref() {
        Some("peak") => return peak(),
        Some("copy") => {
            let bytes = words.next().and_then(|w| w.parse().ok());
            return copy(bytes.unwrap_or(64 << 20));
        }
        _ => {}
    }
    let threads = std::env::args()
        .nth(1)
        .and_then(|t| t.parse().ok())
        .unwrap_or(1);
    peak();
    let ctx = rx_context_create();
    rx_set_threads(ctx, threads);
    for size in [16, 32, 64, 128, 256, 512, 1024, 2048] {
        row(ctx, size, size, size, false);
    }
    for (m, n, k) in [
        (1, 512, 784),
        (1, 1024, 1024),
        (1, 4096, 1024),
        (4, 512, 512),
        (32, 512, 784),
        (256, 512, 784),
    ] {
        row(ctx, m, n, k, true);
    }
    for (m, n, k) in [
        (1, 1024, 1024),
        (64, 3136, 576),
        (128, 512, 512),
        (128, 128, 64),
        (128, 64, 128),
    ] {
        row(ctx, m, n, k, false);
    }
    // SAFETY: the context is not used any more.
    unsafe { rx_context_destroy(ctx) };
}
