//! Kernels over the rows of a matrix: softmax and layer normalisation.
#![allow(clippy::needless_range_loop)] // Indices keep accumulators out of memory.

use crate::c_structure;
use crate::context::{RxContext, Status};
use crate::kernels::kinds::{Kind, Sum};
use crate::kernels::logs;
use crate::kernels::scratch::Scratch;
use crate::kernels::simd::{Simd, dispatch};
use crate::kernels::strips::streams;
use crate::kernels::vmath::exp_below;
use crate::threads::{Grain, Share};
use std::ffi::c_void;

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
pub(crate) fn total<S: Simd>(acc: [S; 4]) -> f32 {
    acc[0].add(acc[1]).add(acc[2].add(acc[3])).sum()
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

/// Elements of a row from which vectors run along it, and the rows that vectors run across where there
/// are fewer.
const SHORT: usize = 12;
const SIDE_BY_SIDE: usize = 16;

/// Rows of fewer than [`SHORT`] elements, as many side by side as vectors have lanes.
#[inline(always)]
unsafe fn short_rows<S: Simd>(rows: usize, n: usize, x: *const f32, y: *mut f32, log: bool) {
    let mut lines = [[0f32; 16]; SHORT];
    let mut row = 0;
    // SAFETY: `x` and `y` have the rows, of `n` floats each; vectors have at most 16 lanes.
    unsafe {
        while row < rows {
            // Of the last ones there are fewer: the other lanes hold others' results.
            let count = (rows - row).min(S::LANES);
            let (x, y) = (x.add(row * n), y.add(row * n));
            for r in 0..count {
                for (c, line) in lines[..n].iter_mut().enumerate() {
                    line[r] = *x.add(r * n + c);
                }
            }
            let mut max = S::splat(f32::NEG_INFINITY);
            for line in &lines[..n] {
                max = S::load(line.as_ptr()).max(max);
            }
            let mut sum = S::splat(0.0);
            for line in &mut lines[..n] {
                let apart = S::load(line.as_ptr()).sub(max);
                let e = exp_below(apart);
                sum = sum.add(e);
                if log { apart } else { e }.store(line.as_mut_ptr());
            }
            let shift = if log {
                logs::of_base(sum, &logs::NATURAL)
            } else {
                sum
            };
            for line in &mut lines[..n] {
                let v = S::load(line.as_ptr());
                let v = if log { v.sub(shift) } else { v.div(shift) };
                v.store(line.as_mut_ptr());
            }
            for r in 0..count {
                for (c, line) in lines[..n].iter().enumerate() {
                    *y.add(r * n + c) = line[r];
                }
            }
            row += count;
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
    rows: usize,
    n: usize,
    x: *const f32,
    y: *mut f32,
    log: bool,
    (short, stream): (bool, bool),
) {
    let mut apart = std::mem::MaybeUninit::<Row>::uninit();
    let apart = apart.as_mut_ptr().cast::<f32>();
    // SAFETY: `x` and `y` have the rows, of `n` floats each; with `stream` a row has at most `ROW`
    // elements, and a short one fewer than `SHORT`.
    unsafe {
        if short {
            return short_rows::<S>(rows, n, x, y, log);
        }
        for row in 0..rows {
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
/// aligned for vectors. Rows take long enough for memory to keep up with several threads.
fn past_caches(rows: usize, n: usize, y: *const f32) -> bool {
    (y as usize).is_multiple_of(64) && n.is_multiple_of(16) && streams(rows * n * 4, 1)
}

/// Elements of rows that are converted at a time.
const CONVERTED: usize = 2048;

/// Runs a function of float32 over rows of elements of a kind: over several adjacent ones at a
/// time, where the first of them is its first argument. Narrow floats are widened before it and
/// rounded after it, in memory of a thread's own.
///
/// # Safety
/// Both arrays have `rows` rows of `n` elements, and are the same or do not overlap; the function
/// reads and writes the rows that it is given.
unsafe fn over_rows(
    context: &mut RxContext,
    kind: i32,
    (rows, n): (usize, usize),
    (x, y): (*const c_void, *mut c_void),
    each: impl Fn(usize, usize, *const f32, *mut f32) + Sync,
) -> i32 {
    let kind = match Kind::of(kind) {
        Some(kind @ (Kind::F32 | Kind::F16 | Kind::BF16)) => kind,
        _ => return context.fail(Status::Argument, "rows of another type"),
    };
    let narrow = kind != Kind::F32;
    let step = if narrow { (CONVERTED / n).max(1) } else { rows };
    let room = if narrow { step * n * 4 } else { 0 };
    let threads = context.pool.threads();
    let Some(scratch) = Scratch::new(context, room * threads) else {
        return context.status;
    };
    // SAFETY: threads take rows of their own, and memory of their own.
    let shared = unsafe { Share::new((x, y, &each, scratch.memory.cast::<u8>())) };
    let grain = Grain::of_work(GRAIN, n);
    context.pool.each(rows, grain, |begin, end, worker| {
        let &(x, y, each, room_of) = shared.get();
        let mut row = begin;
        while row < end {
            let count = (end - row).min(step);
            // SAFETY: the rows lie in the arrays, and memory has room for so many.
            unsafe {
                let at = row * n * kind.size();
                let (x, y) = (x.cast::<u8>().add(at), y.cast::<u8>().add(at));
                if narrow {
                    let wide = room_of.add(worker * room).cast::<f32>();
                    f32::widen(kind, count * n, x, wide);
                    each(row, count, wide, wide);
                    f32::narrow(kind, count * n, wide, y);
                } else {
                    each(row, count, x.cast(), y.cast());
                }
            }
            row += count;
        }
    });
    0
}

/// Softmax of each row, or with `log` its logarithm. `kind` is the number of a float of at most
/// four bytes.
///
/// # Safety
/// Both arrays have `rows * n` elements of the kind, and are the same or do not overlap.
pub unsafe fn softmax(
    context: &mut RxContext,
    (rows, n): (usize, usize),
    (x, y): (*const c_void, *mut c_void),
    kind: i32,
    log: bool,
) -> i32 {
    if rows == 0 || n == 0 {
        return 0;
    }
    let wide = kind == Kind::F32 as i32;
    let stream = wide && n <= ROW && past_caches(rows, n, y.cast());
    // Which way rows go is the same for all threads.
    let ways = (n < SHORT && rows >= SIDE_BY_SIDE, stream);
    // SAFETY: `x` and `y` have `rows` rows of `n` elements.
    unsafe {
        over_rows(context, kind, (rows, n), (x, y), |_, count, x, y| {
            dispatch!(softmax_rows(
                count: usize,
                n: usize,
                x: *const f32,
                y: *mut f32,
                log: bool,
                ways: (bool, bool),
            ));
        })
    }
}

c_structure! {
    /// As in the C header.
    pub struct RxLayerNormF32 {
        /// Rows.
        pub rows: i64,
        /// Elements of a row.
        pub cols: i64,
        /// The number of scales and shifts, which rows go through again and again.
        pub channels: i64,
        /// The number of adjacent elements that share a scale and a shift.
        pub inner: i64,
        /// `rows` times `cols` elements.
        pub x: *const c_void,
        /// `channels` scales; may be null.
        pub gamma: *const c_void,
        /// `channels` shifts; may be null.
        pub beta: *const c_void,
        /// `rows` times `cols` elements; may be `x`.
        pub y: *mut c_void,
        /// Added to the variance.
        pub epsilon: f32,
        /// Whether the mean is subtracted; else it is taken for 0.
        pub centred: i32,
        /// The elements of `x` and `y`: a [`Kind`], a float of at most four bytes.
        pub kind: i32,
        /// The elements of `gamma` and `beta`, the same way.
        pub factors: i32,
    }
}

/// Sums the elements of a row after a mean is subtracted, or with `SQUARES` their squares.
#[inline(always)]
unsafe fn summed<S: Simd, const SQUARES: bool>(n: usize, x: *const f32, mean: S) -> f32 {
    // SAFETY: `x` has `n` floats.
    unsafe {
        let onto = |acc: S, v: S| {
            if SQUARES { v.fma(v, acc) } else { acc.add(v) }
        };
        let mut acc = [S::splat(0.0); 4];
        let mut i = 0;
        while i + 4 * S::LANES <= n {
            for v in 0..4 {
                acc[v] = onto(acc[v], S::load(x.add(i + v * S::LANES)).sub(mean));
            }
            i += 4 * S::LANES;
        }
        while i < n {
            let part = (n - i).min(S::LANES);
            acc[0] = onto(acc[0], only(load::<S>(x, i, part).sub(mean), part));
            i += part;
        }
        total(acc)
    }
}

#[inline(always)]
unsafe fn norm_rows<S: Simd>(
    g: &RxLayerNormF32,
    (gamma, beta): (*const f32, *const f32),
    rows: std::ops::Range<usize>,
    x: *const f32,
    y: *mut f32,
    stream: bool,
) {
    let [n, channels, inner] = [g.cols, g.channels, g.inner].map(|n| n as usize);
    // The row is one piece with a factor for each element, or pieces with one each.
    let (piece, each) = if inner == 1 { (n, n) } else { (inner, 1) };
    let mut channel = rows.start * (n / inner) % channels;
    // SAFETY: `x` and `y` have the rows, of `n` floats each, and `gamma` and `beta` one for each
    // channel, where they are not null.
    unsafe {
        for row in 0..rows.len() {
            let (x, y) = (x.add(row * n), y.add(row * n));
            let zero = S::splat(0.0);
            let mean = if g.centred == 0 {
                zero
            } else {
                S::splat(summed::<S, false>(n, x, zero) / n as f32)
            };
            let squares = summed::<S, true>(n, x, mean);
            let scale = S::splat(1.0 / (squares / n as f32 + g.epsilon).sqrt());
            let mut begin = 0;
            while begin < n {
                let factor = |of: *const f32, i: usize, part: usize| {
                    if inner == 1 {
                        load::<S>(of.add(channel), i, part)
                    } else {
                        S::splat(*of.add(channel))
                    }
                };
                let (x, y) = (x.add(begin), y.add(begin));
                let mut i = 0;
                while i < piece {
                    let part = (piece - i).min(S::LANES);
                    let mut v = load::<S>(x, i, part).sub(mean).mul(scale);
                    if !gamma.is_null() {
                        v = v.mul(factor(gamma, i, part));
                    }
                    if !beta.is_null() {
                        v = v.add(factor(beta, i, part));
                    }
                    if stream {
                        v.stream(y.add(i));
                    } else {
                        store(v, y, i, part);
                    }
                    i += part;
                }
                begin += piece;
                channel += each;
                if channel == channels {
                    channel = 0;
                }
            }
        }
        if stream {
            S::fence();
        }
    }
}

/// The scales and shifts of a normalisation as floats, each of them null where there are none.
struct Factors {
    gamma: *const f32,
    beta: *const f32,
    /// Where they were converted to.
    _held: Option<Scratch>,
}

impl Factors {
    /// Converts those of a descriptor that are narrow. Returns `None` where they have another type or
    /// memory has run out, which the context has recorded.
    ///
    /// # Safety
    /// The factors that are given have an element for each channel.
    unsafe fn new(context: &mut RxContext, g: &RxLayerNormF32) -> Option<Factors> {
        let kind = match Kind::of(g.factors) {
            Some(Kind::F32) => {
                return Some(Factors {
                    gamma: g.gamma.cast(),
                    beta: g.beta.cast(),
                    _held: None,
                });
            }
            Some(kind @ (Kind::F16 | Kind::BF16)) => kind,
            _ => {
                context.fail(Status::Argument, "factors of another type");
                return None;
            }
        };
        let channels = g.channels.max(0) as usize;
        let held = Scratch::new(context, 2 * channels * size_of::<f32>())?;
        let wide = |from: *const c_void, at: usize| {
            if from.is_null() {
                return std::ptr::null();
            }
            // SAFETY: `from` has `channels` elements, and memory has room for as many floats from
            // `at` on, which is 0 or `channels`.
            unsafe {
                let to = held.memory.cast::<f32>().add(at);
                f32::widen(kind, channels, from.cast(), to);
                to.cast_const()
            }
        };
        let (gamma, beta) = (wide(g.gamma, 0), wide(g.beta, channels));
        Some(Factors {
            gamma,
            beta,
            _held: Some(held),
        })
    }
}

/// Normalisation of each row.
///
/// # Safety
/// The arrays are as long as the sizes say; rows are whole pieces of `inner` elements, and no piece
/// of one element each goes beyond the channels.
pub unsafe fn normalise(context: &mut RxContext, g: &RxLayerNormF32) -> i32 {
    // SAFETY: the arrays have the sizes that the descriptor says.
    unsafe {
        let (rows, n) = (g.rows.max(0) as usize, g.cols.max(0) as usize);
        if rows == 0 || n == 0 || g.inner <= 0 || g.channels <= 0 {
            return 0;
        }
        let even = g.inner == 1 || g.inner % 16 == 0;
        let wide = g.kind == Kind::F32 as i32;
        let stream = wide && even && past_caches(rows, n, g.y.cast());
        let (kind, sizes, arrays) = (g.kind, (rows, n), (g.x, g.y));
        let Some(Factors { gamma, beta, _held }) = Factors::new(context, g) else {
            return context.status;
        };
        let shared = Share::new((g, (gamma, beta)));
        over_rows(context, kind, sizes, arrays, |first, count, x, y| {
            let &(g, factors) = shared.get();
            let rows = first..first + count;
            dispatch!(norm_rows(
                g: &RxLayerNormF32,
                factors: (*const f32, *const f32),
                rows: std::ops::Range<usize>,
                x: *const f32,
                y: *mut f32,
                stream: bool,
            ));
        })
    }
}

const _: () = assert!(size_of::<RxLayerNormF32>() == 80);
