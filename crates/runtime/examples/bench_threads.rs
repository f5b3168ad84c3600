//! Measures the cost of sharing work among threads, and the amount of work from which on it pays.
//!
//! `cargo run --release -p relax-runtime --example bench_threads [THREADS]`
//!
//! The grains of the runtime's kernels (`SMALL` and `GRAIN` in `crates/runtime/src/kernels/`) and
//! of parallel loops in generated code (`crates/codegen/src/kernel/share.rs`) are based on this:
//! work is counted in elementary operations on elements, as they count it. Each row is the same
//! work on one thread and on all of them, once with workers that are still spinning (a model's
//! kernels follow each other) and once after they went to sleep. Times are the lower quartile of
//! many rounds: on a busy machine the others reflect its load.

use std::hint::black_box;
use std::time::{Duration, Instant};

use relax_runtime::capi::arrays::rx_vexp_f32;
use relax_runtime::threads::{Grain, Pool};

/// Workers sleep after some fifty microseconds without work.
const ASLEEP: Duration = Duration::from_millis(1);
const ROUNDS: usize = 101;

/// A kind of work on elements `[begin, end)` of two arrays.
struct Work {
    name: &'static str,
    /// Operations per element, as the kernels count them.
    operations: usize,
    body: fn(&[f32], *mut f32, usize, usize),
}

/// The elements `[begin, end)` of both arrays.
fn part(
    x: &[f32],
    y: *mut f32,
    begin: usize,
    end: usize,
) -> impl Iterator<Item = (&f32, &mut f32)> {
    // SAFETY: the threads write disjoint elements of an array as long as `x`.
    let y = unsafe { std::slice::from_raw_parts_mut(y.add(begin), end - begin) };
    x[begin..end].iter().zip(y)
}

/// Scalar operations in sequence, as in a loop that is not vectorised.
fn scalar(x: &[f32], y: *mut f32, begin: usize, end: usize) {
    part(x, y, begin, end).for_each(|(x, y)| *y = black_box(*x * 0.999 + 1.0));
}

/// A sum of two vectors.
fn sum(x: &[f32], y: *mut f32, begin: usize, end: usize) {
    part(x, y, begin, end).for_each(|(x, y)| *y = *x + 1.5);
}

/// A function that takes some twenty instructions.
fn exponential(x: &[f32], y: *mut f32, begin: usize, end: usize) {
    let x = &x[begin..end];
    // SAFETY: the threads write disjoint elements of an array as long as `x`.
    unsafe { rx_vexp_f32(x.len() as i64, x.as_ptr(), y.add(begin)) };
}

/// The lower quartile of many rounds with `pause` before each.
fn quartile(pause: Duration, mut round: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            if !pause.is_zero() {
                std::thread::sleep(pause);
            }
            let begin = Instant::now();
            round();
            begin.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() / 4]
}

fn main() {
    let threads = std::env::args().nth(1).and_then(|t| t.parse().ok());
    let threads = threads.unwrap_or(2usize).max(2);
    let mut pool = Pool::new();
    let threads = pool.resize(threads);
    let empty = || pool.each(threads, Grain::always(1), |_, _, _| {});
    println!("{threads} threads");
    println!(
        "an empty loop, workers awake  {:?}",
        quartile(Duration::ZERO, empty)
    );
    println!(
        "an empty loop, workers asleep {:?}",
        quartile(ASLEEP, empty)
    );
    let works = [
        Work {
            name: "scalar loop",
            operations: 2,
            body: scalar,
        },
        Work {
            name: "vector sum",
            operations: 1,
            body: sum,
        },
        Work {
            name: "vector exp",
            operations: 1,
            body: exponential,
        },
    ];
    println!(
        "\n{:>12} {:>10} {:>12} {:>12} {:>12} {:>12}",
        "work", "operations", "one, awake", "all, awake", "one, asleep", "all, asleep"
    );
    for work in &works {
        let mut pays = [None; 2];
        for bits in 12..=20 {
            let n = (1usize << bits) / work.operations;
            let (x, mut y) = (vec![0.5f32; n], vec![0.0f32; n]);
            let to = y.as_mut_ptr() as usize;
            let body = work.body;
            let one = || body(black_box(&x), to as *mut f32, 0, n);
            let all = || {
                pool.each(n, Grain::always(n.div_ceil(threads)), |begin, end, _| {
                    body(black_box(&x), to as *mut f32, begin, end);
                });
            };
            let times = [
                [quartile(Duration::ZERO, one), quartile(Duration::ZERO, all)],
                [quartile(ASLEEP, one), quartile(ASLEEP, all)],
            ];
            for (pays, [one, all]) in pays.iter_mut().zip(times) {
                // A tenth is more than the clock's own noise.
                let better = all.as_secs_f64() < 0.9 * one.as_secs_f64();
                *pays = if better { pays.or(Some(bits)) } else { None };
            }
            println!(
                "{:>12} {:>10} {:>12?} {:>12?} {:>12?} {:>12?}",
                work.name,
                n * work.operations,
                times[0][0],
                times[0][1],
                times[1][0],
                times[1][1]
            );
        }
        let shown = |bits: Option<u32>| match bits {
            Some(bits) => format!("from 2^{bits} operations on"),
            None => "at none of these sizes".to_owned(),
        };
        println!(
            "{:>12} sharing pays {} with workers awake, {} asleep\n",
            work.name,
            shown(pays[0]),
            shown(pays[1])
        );
    }
}
