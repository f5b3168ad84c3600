//! What it costs to share a loop among threads: the grain of shared loops in generated code
//! (`crates/codegen/src/kernel/share.rs`) is the work in which sleeping workers wake up.
//!
//! `cargo run --release -p relax-runtime --example bench_threads [THREADS]`

use std::ffi::c_void;
use std::hint::black_box;
use std::time::{Duration, Instant};

use relax_runtime::threads::Pool;

/// Elementary operations on elements that lie side by side, as a scalar loop does them.
fn operations(n: usize) -> f64 {
    let mut sum = 1.0f64;
    for i in 0..n {
        sum = black_box(sum * 0.999 + i as f64);
    }
    sum
}

/// The median of many rounds with `pause` before each.
fn median(pause: Duration, mut round: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..101)
        .map(|_| {
            std::thread::sleep(pause);
            let begin = Instant::now();
            round();
            begin.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}

unsafe extern "C" fn nothing(_: *mut c_void, _: i64, _: i64, _: i32) {}

fn main() {
    let threads = std::env::args().nth(1).and_then(|t| t.parse().ok());
    let threads = threads.unwrap_or(2);
    let mut pool = Pool::new();
    pool.resize(threads);
    let empty = || {
        // SAFETY: the function touches nothing.
        unsafe { pool.run(threads as i64, 1, nothing, std::ptr::null_mut()) }
    };
    println!("threads              {threads}");
    println!("an empty loop, awake {:?}", median(Duration::ZERO, empty));
    println!(
        "an empty loop, asleep {:?}",
        median(Duration::from_millis(2), empty)
    );
    let n = 1 << 16;
    let serial = median(Duration::ZERO, || {
        black_box(operations(n));
    });
    println!("{n} operations     {serial:?}");
    for n in [1 << 14, 1 << 16, 1 << 18, 1 << 20] {
        let alone = median(Duration::from_millis(2), || {
            black_box(operations(n));
        });
        let shared = median(Duration::from_millis(2), || {
            pool.each(n, 1 << 14, |begin, end, _| {
                black_box(operations(end - begin));
            });
        });
        println!("{n:>8} operations: alone {alone:?}, shared {shared:?}");
    }
}
