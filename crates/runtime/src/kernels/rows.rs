//! Kernels over the rows of a matrix: softmax and layer normalisation.
#![allow(clippy::needless_range_loop)] // Indices keep accumulators out of memory.

use crate::context::{RxContext, guard};
use crate::kernels::simd::{Simd, dispatch};
use crate::kernels::strips::STREAM;
use crate::kernels::vmath::exp_below;
use crate::threads::Share;

/// The minimum number of elements per thread; several operations each (`--example bench_threads`).
const GRAIN: usize = 16 << 10;

#[inline(always)]
pub(crate) unsafe fn load<S: Simd>(x: *const f32, i: usize, n: usize) -> S {
    // SAFETY: `x` has `n` floats from `i` on.
    unsafe {
        if n == S::LANES {
            S::load(x.add(i))
        } else {
            S::load_part(x.add(i), n)
        }
    }
}

#[inline(always)]
pub(crate) unsafe fn store<S: Simd>(v: S, y: *mut f32, i: usize, n: usize) {
    // SAFETY: `y` has room for `n` floats from `i` on.
    unsafe {
        if n == S::LANES {
            v.store(y.add(i))
        } else {
            v.store_part(y.add(i), n)
        }
    }
}

/// Adds four accumulators.
#[inline(always)]
pub(crate) unsafe fn total<S: Simd>(acc: [S; 4]) -> f32 {
    // SAFETY: the processor has the instructions of `S`, for which the function is compiled.
    unsafe { acc[0].add(acc[1]).add(acc[2].add(acc[3])).sum() }
}

/// The first `n` lanes of a vector, the others 0.
#[inline(always)]
pub(crate) unsafe fn only<S: Simd>(v: S, n: usize) -> S {
    // SAFETY: the processor has the instructions of `S`, for which the function is compiled, and
    // `n` is at most its lanes.
    unsafe {
        if n == S::LANES {
            return v;
        }
        // Through memory, the load would stall on a narrower store (no store forwarding).
        static ONES: [f32; 16] = [1.0; 16];
        let here = S::load_part(ONES.as_ptr(), n).eq(S::splat(1.0));
        S::select(here, v, S::splat(0.0))
    }
}

#[inline(always)]
pub(crate) unsafe fn largest<S: Simd>(n: usize, x: *const f32) -> f32 {
    // SAFETY: `x` has `n` floats.
    unsafe {
        let mut acc = [S::splat(f32::NEG_INFINITY); 4];
        let mut i = 0;
        while i + 4 * S::LANES <= n {
            for v in 0..4 {
                acc[v] = S::load(x.add(i + v * S::LANES)).max(acc[v]);
            }
            i += 4 * S::LANES;
        }
        while i + S::LANES <= n {
            acc[0] = S::load(x.add(i)).max(acc[0]);
            i += S::LANES;
        }
        let max = acc[0].max(acc[1]).max(acc[2].max(acc[3])).largest();
        (i..n).map(|i| *x.add(i)).fold(max, f32::max)
    }
}

/// Computes one row: the largest element is subtracted first, so that nothing overflows. `between`
/// holds the row's exponentials: the result itself, or cached scratch memory for a result that is
/// written with non-temporal stores (`stream`).
#[inline(always)]
unsafe fn softmax_row<S: Simd>(
    n: usize,
    x: *const f32,
    between: *mut f32,
    y: *mut f32,
    log: bool,
    stream: bool,
) {
    // SAFETY: `x` and `y` have `n` floats.
    unsafe {
        let max = S::splat(largest::<S>(n, x));
        let zero = S::splat(0.0);
        let mut acc = [zero; 4];
        let mut i = 0;
        while i + 4 * S::LANES <= n {
            for v in 0..4 {
                let at = i + v * S::LANES;
                let e = exp_below(S::load(x.add(at)).sub(max));
                if !log {
                    e.store(between.add(at));
                }
                acc[v] = acc[v].add(e);
                if stream {
                    // Prefetches the next row while this one is computed.
                    for line in (0..S::LANES).step_by(16) {
                        S::prefetch(x.wrapping_add(n + at + line));
                    }
                }
            }
            i += 4 * S::LANES;
        }
        while i < n {
            let part = (n - i).min(S::LANES);
            let e = only(exp_below(load::<S>(x, i, part).sub(max)), part);
            if !log {
                store(e, between, i, part);
            }
            acc[0] = acc[0].add(e);
            i += part;
        }
        let sum = total(acc);
        let (scale, shift) = if log {
            (S::splat(1.0), max.add(S::splat(libm::logf(sum))))
        } else {
            (S::splat(1.0 / sum), zero)
        };
        let from = if log { x } else { between.cast_const() };
        let mut i = 0;
        while i + 4 * S::LANES <= n {
            for v in 0..4 {
                let at = i + v * S::LANES;
                let result = S::load(from.add(at)).sub(shift).mul(scale);
                if stream {
                    result.stream(y.add(at));
                } else {
                    result.store(y.add(at));
                }
            }
            i += 4 * S::LANES;
        }
        while i < n {
            let part = (n - i).min(S::LANES);
            let result = load::<S>(from, i, part).sub(shift).mul(scale);
            if stream {
                result.stream(y.add(i));
            } else {
                store(result, y, i, part);
            }
            i += part;
        }
    }
}

/// Longest row whose exponentials stay apart from the result.
const ROW: usize = 2048;

/// A row of exponentials, aligned for vectors.
#[repr(C, align(64))]
struct Row([f32; ROW]);

#[inline(always)]
unsafe fn softmax_rows<S: Simd>(
    rows: std::ops::Range<usize>,
    n: usize,
    x: *const f32,
    y: *mut f32,
    log: bool,
    stream: bool,
) {
    let mut apart = std::mem::MaybeUninit::<Row>::uninit();
    let apart = apart.as_mut_ptr().cast::<f32>();
    // SAFETY: `x` and `y` have the rows, of `n` floats each; with `stream` a row has at most `ROW`
    // elements.
    unsafe {
        for row in rows {
            let (x, y) = (x.add(row * n), y.add(row * n));
            if stream {
                softmax_row::<S>(n, x, apart, y, log, true);
            } else {
                softmax_row::<S>(n, x, y, y, log, false);
            }
        }
        if stream {
            S::fence();
        }
    }
}

/// Returns whether a result is written with non-temporal stores: it is large, and every row is
/// aligned for vectors.
fn past_caches(rows: usize, n: usize, y: *const f32) -> bool {
    (y as usize).is_multiple_of(64) && n.is_multiple_of(16) && rows * n * 4 >= STREAM
}

unsafe fn softmax(
    ctx: *mut RxContext,
    rows: i64,
    cols: i64,
    x: *const f32,
    y: *mut f32,
    log: bool,
) -> i32 {
    guard(ctx, |context| {
        let (rows, n) = (rows.max(0) as usize, cols.max(0) as usize);
        if rows == 0 || n == 0 {
            return 0;
        }
        let stream = past_caches(rows, n, y) && n <= ROW;
        // SAFETY: `x` and `y` have `rows` rows of `cols` floats, which are disjoint.
        let shared = unsafe { Share::new((x, y)) };
        context
            .pool
            .each(rows, (GRAIN / n).max(1), |begin, end, _| {
                let &(x, y) = shared.get();
                let rows = begin..end;
                // SAFETY: as above.
                unsafe {
                    dispatch!(softmax_rows(
                        rows: std::ops::Range<usize>,
                        n: usize,
                        x: *const f32,
                        y: *mut f32,
                        log: bool,
                        stream: bool,
                    ));
                }
            });
        0
    })
}

/// Softmax of each row.
///
/// # Safety
/// Both have `rows * cols` elements, and are the same or do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_softmax_f32(
    ctx: *mut RxContext,
    rows: i64,
    cols: i64,
    x: *const f32,
    y: *mut f32,
) -> i32 {
    // SAFETY: `x` and `y` have `rows` rows of `cols` floats.
    unsafe { softmax(ctx, rows, cols, x, y, false) }
}

/// Logarithm of the softmax of each row.
///
/// # Safety
/// See [`rx_softmax_f32`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_log_softmax_f32(
    ctx: *mut RxContext,
    rows: i64,
    cols: i64,
    x: *const f32,
    y: *mut f32,
) -> i32 {
    // SAFETY: `x` and `y` have `rows` rows of `cols` floats.
    unsafe { softmax(ctx, rows, cols, x, y, true) }
}

/// The operations of a layer normalisation on each row.
#[derive(Clone, Copy)]
struct Norm {
    n: usize,
    gamma: *const f32,
    beta: *const f32,
    epsilon: f32,
    /// Whether the result is written with non-temporal stores.
    stream: bool,
}

#[inline(always)]
unsafe fn norm_rows<S: Simd>(rows: std::ops::Range<usize>, x: *const f32, y: *mut f32, norm: Norm) {
    let n = norm.n;
    // SAFETY: `x` and `y` have the rows, of `n` floats each, and the factors `n` floats, where
    // there are any.
    unsafe {
        for row in rows {
            let (x, y) = (x.add(row * n), y.add(row * n));
            let zero = S::splat(0.0);
            let mut acc = [zero; 4];
            let mut i = 0;
            while i + 4 * S::LANES <= n {
                for v in 0..4 {
                    acc[v] = acc[v].add(S::load(x.add(i + v * S::LANES)));
                }
                i += 4 * S::LANES;
            }
            while i < n {
                let part = (n - i).min(S::LANES);
                acc[0] = acc[0].add(load(x, i, part));
                i += part;
            }
            let mean = S::splat(total(acc) / n as f32);
            let mut acc = [zero; 4];
            let mut i = 0;
            while i + 4 * S::LANES <= n {
                for v in 0..4 {
                    let d = S::load(x.add(i + v * S::LANES)).sub(mean);
                    acc[v] = d.fma(d, acc[v]);
                }
                i += 4 * S::LANES;
            }
            while i < n {
                let part = (n - i).min(S::LANES);
                let d = only(load::<S>(x, i, part).sub(mean), part);
                acc[0] = d.fma(d, acc[0]);
                i += part;
            }
            let squares = total(acc);
            let scale = S::splat(1.0 / (squares / n as f32 + norm.epsilon).sqrt());
            let mut i = 0;
            while i < n {
                let part = (n - i).min(S::LANES);
                let mut v = load::<S>(x, i, part).sub(mean).mul(scale);
                if !norm.gamma.is_null() {
                    v = v.mul(load(norm.gamma, i, part));
                }
                if !norm.beta.is_null() {
                    v = v.add(load(norm.beta, i, part));
                }
                if norm.stream {
                    v.stream(y.add(i));
                } else {
                    store(v, y, i, part);
                }
                i += part;
            }
        }
        if norm.stream {
            S::fence();
        }
    }
}

/// Layer normalisation of each row.
///
/// # Safety
/// `x` and `y` as for [`rx_softmax_f32`]; `gamma` and `beta` are null or have `cols` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_layer_norm_f32(
    ctx: *mut RxContext,
    rows: i64,
    cols: i64,
    x: *const f32,
    gamma: *const f32,
    beta: *const f32,
    epsilon: f32,
    y: *mut f32,
) -> i32 {
    guard(ctx, |context| {
        let (rows, n) = (rows.max(0) as usize, cols.max(0) as usize);
        if rows == 0 || n == 0 {
            return 0;
        }
        // SAFETY: `x` and `y` have `rows` rows of `cols` floats, and the factors `cols` floats,
        // where there are any; rows are disjoint.
        let shared = unsafe {
            Share::new((
                x,
                y,
                Norm {
                    n,
                    gamma,
                    beta,
                    epsilon,
                    stream: past_caches(rows, n, y),
                },
            ))
        };
        context
            .pool
            .each(rows, (GRAIN / n).max(1), |begin, end, _| {
                let &(x, y, norm) = shared.get();
                let rows = begin..end;
                // SAFETY: as above.
                unsafe {
                    dispatch!(norm_rows(
                        rows: std::ops::Range<usize>,
                        x: *const f32,
                        y: *mut f32,
                        norm: Norm,
                    ));
                }
            });
        0
    })
}
