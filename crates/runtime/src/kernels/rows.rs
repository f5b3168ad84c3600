//! Kernels over the rows of a matrix: softmax and layer normalisation.

use crate::context::{RxContext, guard};
use crate::kernels::simd::{Simd, dispatch};
use crate::kernels::vmath::exp;
use crate::threads::Share;

/// Elements one thread should at least handle.
const GRAIN: usize = 16 << 10;

/// Sums (or otherwise combines) four vectors at a time, so that additions overlap: calls `one`
/// with a place, a vector count of lanes and an accumulator.
#[inline(always)]
unsafe fn fold<S: Simd>(
    n: usize,
    start: S,
    one: impl Fn(usize, usize, S) -> S,
    both: impl Fn(S, S) -> S,
) -> S {
    let mut acc = [start; 4];
    let mut i = 0;
    while i + 4 * S::LANES <= n {
        for (v, acc) in acc.iter_mut().enumerate() {
            *acc = one(i + v * S::LANES, S::LANES, *acc);
        }
        i += 4 * S::LANES;
    }
    while i < n {
        let part = (n - i).min(S::LANES);
        acc[0] = one(i, part, acc[0]);
        i += part;
    }
    both(both(acc[0], acc[1]), both(acc[2], acc[3]))
}

#[inline(always)]
unsafe fn load<S: Simd>(x: *const f32, i: usize, n: usize) -> S {
    // SAFETY: the callers' promise.
    unsafe {
        if n == S::LANES {
            S::load(x.add(i))
        } else {
            S::load_part(x.add(i), n)
        }
    }
}

#[inline(always)]
unsafe fn store<S: Simd>(v: S, y: *mut f32, i: usize, n: usize) {
    // SAFETY: the callers' promise.
    unsafe {
        if n == S::LANES {
            v.store(y.add(i))
        } else {
            v.store_part(y.add(i), n)
        }
    }
}

#[inline(always)]
unsafe fn largest<S: Simd>(n: usize, x: *const f32) -> f32 {
    // SAFETY: the callers' promise. Lanes beyond the row repeat its first element.
    unsafe {
        let first = S::splat(*x);
        let max = fold::<S>(
            n,
            first,
            |i, n, acc| {
                if n == S::LANES {
                    return S::load(x.add(i)).max(acc);
                }
                let mut lanes = [*x; 16];
                std::ptr::copy_nonoverlapping(x.add(i), lanes.as_mut_ptr(), n);
                S::load(lanes.as_ptr()).max(acc)
            },
            |a, b| a.max(b),
        );
        let mut lanes = [0.0f32; 16];
        max.store(lanes.as_mut_ptr());
        lanes[..S::LANES].iter().copied().fold(lanes[0], f32::max)
    }
}

/// One row: the largest element is taken away first, so that nothing overflows.
#[inline(always)]
unsafe fn softmax_row<S: Simd>(n: usize, x: *const f32, y: *mut f32, log: bool) {
    // SAFETY: the callers' promise.
    unsafe {
        let max = S::splat(largest::<S>(n, x));
        let zero = S::splat(0.0);
        let sum = fold::<S>(
            n,
            zero,
            |i, n, acc| {
                let e = exp(load::<S>(x, i, n).sub(max));
                if n == S::LANES {
                    if !log {
                        e.store(y.add(i));
                    }
                    return acc.add(e);
                }
                let mut lanes = [0.0f32; 16];
                e.store_part(lanes.as_mut_ptr(), n);
                if !log {
                    e.store_part(y.add(i), n);
                }
                acc.add(S::load(lanes.as_ptr()))
            },
            |a, b| a.add(b),
        )
        .sum();
        let (scale, shift) = if log {
            (S::splat(1.0), max.add(S::splat(libm::logf(sum))))
        } else {
            (S::splat(1.0 / sum), zero)
        };
        let from = if log { x } else { y.cast_const() };
        let mut i = 0;
        while i < n {
            let part = (n - i).min(S::LANES);
            store(load::<S>(from, i, part).sub(shift).mul(scale), y, i, part);
            i += part;
        }
    }
}

#[inline(always)]
unsafe fn softmax_rows<S: Simd>(
    rows: std::ops::Range<usize>,
    n: usize,
    x: *const f32,
    y: *mut f32,
    log: bool,
) {
    for row in rows {
        // SAFETY: the callers' promise.
        unsafe { softmax_row::<S>(n, x.add(row * n), y.add(row * n), log) };
    }
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
        // SAFETY: the callers' promise; rows are disjoint.
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
    // SAFETY: the caller's promise.
    unsafe { softmax(ctx, rows, cols, x, y, false) }
}

/// Logarithm of the softmax of each row.
///
/// # Safety
/// As [`rx_softmax_f32`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_log_softmax_f32(
    ctx: *mut RxContext,
    rows: i64,
    cols: i64,
    x: *const f32,
    y: *mut f32,
) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { softmax(ctx, rows, cols, x, y, true) }
}

/// What a layer normalisation does to each row.
#[derive(Clone, Copy)]
struct Norm {
    n: usize,
    gamma: *const f32,
    beta: *const f32,
    epsilon: f32,
}

#[inline(always)]
unsafe fn norm_rows<S: Simd>(rows: std::ops::Range<usize>, x: *const f32, y: *mut f32, norm: Norm) {
    let n = norm.n;
    // SAFETY: the callers' promise.
    unsafe {
        for row in rows {
            let (x, y) = (x.add(row * n), y.add(row * n));
            let add = |a: S, b: S| a.add(b);
            let zero = S::splat(0.0);
            let sum = fold(n, zero, |i, n, acc| acc.add(load(x, i, n)), add).sum();
            let mean = S::splat(sum / n as f32);
            let squares = fold(
                n,
                zero,
                |i, n, acc| {
                    let d = load::<S>(x, i, n).sub(mean);
                    if n == S::LANES {
                        return d.fma(d, acc);
                    }
                    let mut lanes = [0.0f32; 16];
                    d.store_part(lanes.as_mut_ptr(), n);
                    let d = S::load(lanes.as_ptr());
                    d.fma(d, acc)
                },
                add,
            )
            .sum();
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
                store(v, y, i, part);
                i += part;
            }
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
        // SAFETY: the caller's promise; rows are disjoint.
        let shared = unsafe {
            Share::new((
                x,
                y,
                Norm {
                    n,
                    gamma,
                    beta,
                    epsilon,
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
