//! Reductions along an axis, with the rounding error of a tree of additions.
//!
//! Elements are combined in blocks of `BLOCK`, and the blocks pairwise, as the bits of a binary
//! counter carry: the error grows with the logarithm of the length, and no memory is needed.

use std::mem::MaybeUninit;

use crate::c_enumeration;
use crate::context::{RxContext, Status};
use crate::kernels::simd::{Simd, dispatch};
use crate::threads::{Grain, Share};

/// Vectors (or rows) that are combined one after another.
const BLOCK: usize = 64;
/// The minimum number of elements per thread; several operations each (`--example bench_threads`).
const GRAIN: usize = 32 << 10;

c_enumeration! {
    /// The kind of reduction.
    pub enum Op {
        /// The sum.
        Sum = "RX_SUM",
        /// The mean.
        Mean = "RX_MEAN",
        /// The greatest.
        Max = "RX_MAX",
        /// The least.
        Min = "RX_MIN",
        /// The product.
        Prod = "RX_PROD",
        /// The sum of squares.
        SumSq = "RX_SUMSQ",
    }
}

impl Op {
    /// The neutral element.
    fn start(self) -> f32 {
        match self {
            Self::Sum | Self::Mean | Self::SumSq => 0.0,
            Self::Max => f32::NEG_INFINITY,
            Self::Min => f32::INFINITY,
            Self::Prod => 1.0,
        }
    }

    /// Combines two partial results; NaN is preserved.
    #[inline(always)]
    fn both<S: Simd>(self, a: S, b: S) -> S {
        match self {
            Self::Sum | Self::Mean | Self::SumSq => a.add(b),
            Self::Max => S::select(b.eq(b), b.max(a), b),
            Self::Min => S::select(b.eq(b), b.min(a), b),
            Self::Prod => a.mul(b),
        }
    }

    /// Combines one more element.
    #[inline(always)]
    fn one<S: Simd>(self, acc: S, x: S) -> S {
        if self == Self::SumSq {
            x.fma(x, acc)
        } else {
            self.both(acc, x)
        }
    }

    fn both_scalar(self, a: f32, b: f32) -> f32 {
        match self {
            Self::Sum | Self::Mean | Self::SumSq => a + b,
            Self::Max if a.is_nan() || a > b => a,
            Self::Min if a.is_nan() || a < b => a,
            Self::Max | Self::Min => b,
            Self::Prod => a * b,
        }
    }
}

/// Partial results of 2^i blocks each, as the bits of a counter.
///
/// Invariant: the slots of the bits that `blocks` has are written. No other is: most lines are
/// shorter than what writing all of them would take.
struct Counter<S, const NV: usize> {
    op: Op,
    start: [S; NV],
    slots: [MaybeUninit<[S; NV]>; 48],
    blocks: usize,
}

impl<S: Simd, const NV: usize> Counter<S, NV> {
    #[inline(always)]
    fn new(op: Op, start: [S; NV]) -> Self {
        Self {
            op,
            start,
            slots: [MaybeUninit::uninit(); 48],
            blocks: 0,
        }
    }

    #[inline(always)]
    fn both(&self, mut a: [S; NV], b: [S; NV]) -> [S; NV] {
        for (a, b) in a.iter_mut().zip(b) {
            *a = self.op.both(*a, b);
        }
        a
    }

    /// Adds a block's result.
    #[inline(always)]
    fn push(&mut self, mut value: [S; NV]) {
        let mut bit = 0;
        while self.blocks >> bit & 1 == 1 {
            // SAFETY: the bit's slot is written.
            let slot = unsafe { self.slots[bit].assume_init() };
            value = self.both(slot, value);
            bit += 1;
        }
        self.slots[bit].write(value);
        self.blocks += 1;
    }

    /// Returns the result of all blocks.
    #[inline(always)]
    fn total(&self) -> [S; NV] {
        let mut total = self.start;
        for (bit, slot) in self.slots.iter().enumerate() {
            if self.blocks >> bit & 1 == 1 {
                // SAFETY: as in `push`.
                total = self.both(unsafe { slot.assume_init() }, total);
            }
        }
        total
    }
}

/// A whole contiguous line.
#[inline(always)]
unsafe fn line<S: Simd>(op: Op, n: usize, x: *const f32) -> f32 {
    // SAFETY: the instruction set of `S` is enabled here.
    let start = unsafe { S::splat(op.start()) };
    let mut counter = Counter::new(op, [start]);
    let mut i = 0;
    // Four independent chains of additions within a block.
    // SAFETY: `x` has `n` floats.
    unsafe {
        while i + 4 * S::LANES <= n {
            let mut acc = [start; 4];
            let steps = ((n - i) / (4 * S::LANES)).min(BLOCK / 4);
            for _ in 0..steps {
                for (v, acc) in acc.iter_mut().enumerate() {
                    *acc = op.one(*acc, S::load(x.add(i + v * S::LANES)));
                }
                i += 4 * S::LANES;
            }
            let pairs = [op.both(acc[0], acc[1]), op.both(acc[2], acc[3])];
            counter.push([op.both(pairs[0], pairs[1])]);
        }
    }
    let mut lanes = [op.start(); 16];
    // SAFETY: `x` has `n` floats.
    unsafe {
        counter.total()[0].store(lanes.as_mut_ptr());
    }
    let mut width = S::LANES;
    while width > 1 {
        width /= 2;
        for lane in 0..width {
            lanes[lane] = op.both_scalar(lanes[lane], lanes[lane + width]);
        }
    }
    let mut rest = op.start();
    // SAFETY: `x` has `n` floats.
    unsafe {
        while i < n {
            let x = *x.add(i);
            rest = op.both_scalar(rest, if op == Op::SumSq { x * x } else { x });
            i += 1;
        }
    }
    op.both_scalar(lanes[0], rest)
}

/// Reduces a strip of `NV` vectors of columns, of which `columns` are stored, along the axis.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep accumulators out of memory.
unsafe fn strip<S: Simd, const NV: usize>(
    op: Op,
    axis: usize,
    step: usize,
    x: *const f32,
    columns: usize,
) -> [S; NV] {
    // SAFETY: the instruction set of `S` is enabled here.
    let start = unsafe { [S::splat(op.start()); NV] };
    let mut counter = Counter::new(op, start);
    let mut i = 0;
    while i < axis {
        let end = (i + BLOCK).min(axis);
        let mut acc = start;
        // SAFETY: `x` has `NV` vectors in each row of the axis.
        unsafe {
            while i < end {
                for v in 0..NV {
                    let at = x.add(i * step + v * S::LANES);
                    let n = columns - v * S::LANES;
                    let x = if n >= S::LANES {
                        S::load(at)
                    } else {
                        S::load_part(at, n)
                    };
                    acc[v] = op.one(acc[v], x);
                }
                i += 1;
            }
        }
        counter.push(acc);
    }
    counter.total()
}

/// Sizes of a reduction.
#[derive(Clone, Copy)]
struct Reduction {
    op: Op,
    axis: usize,
    inner: usize,
}

#[inline(always)]
unsafe fn part<S: Simd>(r: Reduction, pieces: std::ops::Range<usize>, x: *const f32, y: *mut f32) {
    let Reduction { op, axis, inner } = r;
    let scale = if op == Op::Mean {
        1.0 / axis as f32
    } else {
        1.0
    };
    // SAFETY: the pieces are the reduction's, whose arrays have its sizes.
    unsafe {
        if inner == 1 {
            for i in pieces {
                let total = line::<S>(op, axis, x.add(i * axis));
                *y.add(i) = if op == Op::Mean {
                    total / axis as f32
                } else {
                    total
                };
            }
            return;
        }
    }
    let strips = inner.div_ceil(COLUMNS);
    for piece in pieces {
        let (outer, first) = (piece / strips, piece % strips * COLUMNS);
        let end = (first + COLUMNS).min(inner);
        let mut column = first;
        while column < end {
            let n = (end - column).min(4 * S::LANES);
            // SAFETY: the pieces are the reduction's, whose arrays have its sizes.
            let (from, to) = unsafe {
                (
                    x.add(outer * axis * inner + column),
                    y.add(outer * inner + column),
                )
            };
            // SAFETY: the pieces are the reduction's, whose arrays have its sizes.
            unsafe {
                if n > 3 * S::LANES {
                    let sums = strip::<S, 4>(op, axis, inner, from, n);
                    for (v, sum) in sums.into_iter().enumerate() {
                        let lane = v * S::LANES;
                        let sum = sum.mul(S::splat(scale));
                        sum.store_part(to.add(lane), (n - lane).min(S::LANES));
                    }
                    column += n;
                } else {
                    let n = n.min(S::LANES);
                    let [sum] = strip::<S, 1>(op, axis, inner, from, n);
                    sum.mul(S::splat(scale)).store_part(to, n);
                    column += n;
                }
            }
        }
    }
}

/// Columns per unit of work.
const COLUMNS: usize = 64;

/// Reduces the middle axis of `x`, which has `outer * axis * inner` elements, to `y`, which has
/// `outer * inner`; an error for other lengths, or where `op` is the number of no [`Op`].
pub fn reduce(
    context: &mut RxContext,
    op: i32,
    [outer, axis, inner]: [usize; 3],
    x: &[f32],
    y: &mut [f32],
) -> i32 {
    let Some(op) = Op::of(op) else {
        return context.fail(
            Status::Argument,
            &format!("rx_reduce_f32: no operation {op}"),
        );
    };
    let results = outer.checked_mul(inner);
    let elements = results.and_then(|n| n.checked_mul(axis));
    if elements != Some(x.len()) || results != Some(y.len()) {
        return context.fail(Status::Argument, "rx_reduce_f32: no such arrays");
    }
    if y.is_empty() {
        return 0;
    }
    let r = Reduction { op, axis, inner };
    let (pieces, columns) = if inner == 1 {
        (outer, 1)
    } else {
        (outer * inner.div_ceil(COLUMNS), COLUMNS)
    };
    let grain = Grain::of_work(GRAIN, axis * columns);
    // SAFETY: threads take tasks of their own, which write disjoint places.
    let shared = unsafe { Share::new((x.as_ptr(), y.as_mut_ptr(), r)) };
    context.pool.each(pieces, grain, |begin, end, _| {
        let &(x, y, r) = shared.get();
        let pieces = begin..end;
        // SAFETY: as above.
        unsafe {
            dispatch!(part(
                r: Reduction,
                pieces: std::ops::Range<usize>,
                x: *const f32,
                y: *mut f32,
            ));
        }
    });
    0
}
