//! Products with weights quantised in blocks: integers of 8 or 4 bits with a scale for each run of
//! some weights of a row.
//!
//! Weights come from memory, of which a row of the result needs all: for few rows they become
//! floats in registers, once for all rows. For many rows, some rows of weights at a time become
//! floats in the caches and are multiplied as those of any other product.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr::null;

use crate::c_structure;
use crate::context::{RxContext, Status};
use crate::kernels::gemm::tile::{COLS, ROWS};
use crate::kernels::gemm::{RxGemmF32, pack, serial};
use crate::kernels::scratch::Scratch;
use crate::kernels::simd::{Simd, dispatch};
use crate::threads::{Grain, Share};

c_structure! {
    /// As in the C header.
    pub struct RxBlockwiseF32 {
        /// Rows of the result.
        pub m: i64,
        /// Columns of the result: rows of the weight.
        pub n: i64,
        /// Blocks of a row of the weight.
        pub blocks: i64,
        /// Weights of a block.
        pub block: i64,
        /// The bits of a weight: 8, or 4 with two weights in a byte, the first one in its lower
        /// half.
        pub bits: i32,
        /// 0.
        pub reserved: i32,
        /// The operand, (m, blocks * block).
        pub x: *const f32,
        /// The weight, (n, blocks * block * bits / 8) bytes.
        pub weight: *const c_void,
        /// The scales, (n, blocks).
        pub scale: *const f32,
        /// The result, (m, n).
        pub y: *mut f32,
    }
}

/// Up to this number of rows, weights become floats for each four of them.
const FEW: usize = 8;
/// Rows of the operand that share a weight in registers.
const TOGETHER: usize = 4;
/// Below this number of weights a product stays on one thread.
const SMALL: usize = 1 << 16;
/// Floats of the weights that are multiplied at a time, about: half of a second-level cache.
const PIECE: usize = 1 << 16;

impl RxBlockwiseF32 {
    /// The common axis.
    fn depth(&self) -> usize {
        (self.blocks * self.block) as usize
    }

    fn bytes_of_weight(&self) -> *const i8 {
        self.weight.cast()
    }

    /// The bytes of `weights` adjacent weights.
    fn bytes(&self, weights: usize) -> usize {
        weights * self.bits as usize / 8
    }

    /// The product of the operand's packed rows with some rows of the weight as floats.
    fn product(&self, packed: *const f32, floats: *const f32, rows: Range<usize>) -> RxGemmF32 {
        RxGemmF32 {
            m: self.m,
            n: rows.len() as i64,
            k: self.depth() as i64,
            a_packed: packed,
            b: floats,
            b_rs: 1,
            b_cs: self.depth() as i64,
            c: self.y.wrapping_add(rows.start),
            c_ld: self.n,
            ..RxGemmF32::default()
        }
    }

    /// The weights that a vector of bytes has.
    fn chunk<S: Simd>(&self) -> usize {
        S::LANES * 8 / self.bits as usize
    }
}

/// The products of `M` rows of the operand, from row `i` on, with `N` rows of the weight from `j`
/// on. `block` is the product's: where it is a constant, the loop over a block is unrolled.
#[inline(always)]
unsafe fn dots<S: Simd, const BITS: usize, const M: usize, const N: usize>(
    q: &RxBlockwiseF32,
    (i, j): (usize, usize),
    block: usize,
) {
    let (depth, blocks) = (q.depth(), q.blocks as usize);
    let row = q.bytes(depth);
    // SAFETY: rows `i` to `i + M` and `j` to `j + N` exist, and blocks are whole vectors.
    unsafe {
        let x: [_; M] = std::array::from_fn(|a| q.x.add((i + a) * depth));
        let w: [_; N] = std::array::from_fn(|b| q.bytes_of_weight().add((j + b) * row));
        let scale: [_; N] = std::array::from_fn(|b| q.scale.add((j + b) * blocks));
        let zero = S::splat(0.0);
        let mut totals = [[zero; N]; M];
        for k in 0..blocks {
            let mut sums = [[zero; N]; M];
            for w in w {
                // Of the rows after these.
                S::prefetch(w.wrapping_add(N * row + k * block * BITS / 8).cast());
            }
            let chunk = S::LANES * 8 / BITS;
            for part in 0..block / chunk {
                let t = k * block + part * chunk;
                for b in 0..N {
                    if BITS == 8 {
                        let w = S::of_bytes(w[b].add(t));
                        for a in 0..M {
                            sums[a][b] = S::load(x[a].add(t)).fma(w, sums[a][b]);
                        }
                    } else {
                        let (low, high) = S::of_halves(w[b].add(t / 2));
                        for a in 0..M {
                            let x = x[a].add(t);
                            let sum = S::load(x).fma(low, sums[a][b]);
                            sums[a][b] = S::load(x.add(S::LANES)).fma(high, sum);
                        }
                    }
                }
            }
            for b in 0..N {
                let scale = S::splat(*scale[b].add(k));
                for a in 0..M {
                    totals[a][b] = sums[a][b].fma(scale, totals[a][b]);
                }
            }
        }
        for (a, totals) in totals.iter().enumerate() {
            for (b, total) in totals.iter().enumerate() {
                *q.y.add((i + a) * q.n as usize + j + b) = total.sum();
            }
        }
    }
}

/// Rows `begin..end` of the weight against all rows of the operand.
#[inline(always)]
unsafe fn few_of<S: Simd, const BITS: usize>(
    q: &RxBlockwiseF32,
    begin: usize,
    end: usize,
    block: usize,
) {
    let m = q.m as usize;
    // SAFETY: the rows exist, and blocks are whole vectors.
    unsafe {
        let mut i = 0;
        while i + TOGETHER <= m {
            for j in begin..end {
                dots::<S, BITS, TOGETHER, 1>(q, (i, j), block);
            }
            i += TOGETHER;
        }
        for i in i..m {
            let mut j = begin;
            while j + 2 <= end {
                dots::<S, BITS, 1, 2>(q, (i, j), block);
                j += 2;
            }
            if j < end {
                dots::<S, BITS, 1, 1>(q, (i, j), block);
            }
        }
    }
}

#[inline(always)]
unsafe fn few<S: Simd>(q: &RxBlockwiseF32, begin: usize, end: usize) {
    // SAFETY: the rows exist, and blocks are whole vectors.
    unsafe {
        match (q.bits, q.block) {
            // As most models have it.
            (8, 32) => few_of::<S, 8>(q, begin, end, 32),
            (4, 32) => few_of::<S, 4>(q, begin, end, 32),
            (8, block) => few_of::<S, 8>(q, begin, end, block as usize),
            (_, block) => few_of::<S, 4>(q, begin, end, block as usize),
        }
    }
}

/// Returns whether blocks consist of whole vectors.
#[inline(always)]
unsafe fn whole<S: Simd>(q: &RxBlockwiseF32) -> bool {
    (q.block as usize).is_multiple_of(q.chunk::<S>())
}

/// Copies the operand, whose rows are pairs of whole vectors, in the order in which halves of bytes
/// become vectors: of each pair the elements at even places, then those at odd ones.
#[inline(always)]
unsafe fn zipped<S: Simd>(q: &RxBlockwiseF32, to: *mut f32) {
    // SAFETY: `to` is as large as the operand.
    unsafe {
        for t in (0..q.m as usize * q.depth()).step_by(2 * S::LANES) {
            let (first, second) = (S::load(q.x.add(t)), S::load(q.x.add(t + S::LANES)));
            let (even, odd) = S::unzip(first, second);
            even.store(to.add(t));
            odd.store(to.add(t + S::LANES));
        }
    }
}

/// Converts rows `begin..end` of the weight to floats, in the order of [`zipped`] where blocks
/// consist of whole vectors.
#[inline(always)]
unsafe fn floats<S: Simd>(q: &RxBlockwiseF32, begin: usize, end: usize, to: *mut f32) {
    let (depth, blocks, block) = (q.depth(), q.blocks as usize, q.block as usize);
    let (row, chunk) = (q.bytes(depth), q.chunk::<S>());
    let bytes = q.bits == 8;
    // SAFETY: the rows exist, and `to` has room for as many floats.
    unsafe {
        let vectors = if bytes || whole::<S>(q) {
            block / chunk
        } else {
            0
        };
        for j in begin..end {
            let (w, to) = (
                q.bytes_of_weight().add(j * row),
                to.add((j - begin) * depth),
            );
            for k in 0..blocks {
                let scale = *q.scale.add(j * blocks + k);
                let wide = S::splat(scale);
                let mut t = k * block;
                for _ in 0..vectors {
                    if bytes {
                        S::of_bytes(w.add(t)).mul(wide).store(to.add(t));
                    } else {
                        let (low, high) = S::of_halves(w.add(t / 2));
                        low.mul(wide).store(to.add(t));
                        high.mul(wide).store(to.add(t + S::LANES));
                    }
                    t += chunk;
                }
                for t in t..(k + 1) * block {
                    let number = match *w.add(q.bytes(t)) {
                        byte if bytes => byte,
                        byte if t % 2 == 0 => byte << 4 >> 4,
                        byte => byte >> 4,
                    };
                    *to.add(t) = f32::from(number) * scale;
                }
            }
        }
    }
}

/// Many rows: pieces of the weight as floats, multiplied as others are. Each thread takes whole
/// pieces, so that results do not depend on the number of threads.
unsafe fn many(context: &mut RxContext, q: &RxBlockwiseF32) -> i32 {
    let (m, n, depth) = (q.m as usize, q.n as usize, q.depth());
    let piece = (PIECE / depth.max(1)).clamp(3 * COLS, 12 * COLS) / COLS * COLS;
    let pieces = n.div_ceil(piece);
    let packed = m.next_multiple_of(ROWS) * depth;
    let (_, blocks) = {
        let g = q.product(q.x, null(), 0..piece.min(n));
        g.scratch(g.way())
    };
    let converted = (piece * depth).next_multiple_of(16);
    let each = converted + blocks;
    let threads = context.pool.threads();
    let Some(scratch) = Scratch::new(context, (packed + each * threads) * 4) else {
        return context.status;
    };
    let a = scratch.memory.cast::<f32>();
    // SAFETY: the operand has `m` rows, and the memory room for its panels and for each thread's
    // floats.
    let shared = unsafe {
        pack::rows(m, depth, q.x, depth as isize, 1, a);
        Share::new((*q, a, a.add(packed)))
    };
    context
        .pool
        .each(pieces, Grain::always(1), |begin, end, worker| {
            let &(q, a, memory) = shared.get();
            let q = &q;
            for k in begin..end {
                let (from, to) = (k * piece, n.min((k + 1) * piece));
                // SAFETY: a worker has its own memory and writes its own columns of the result.
                unsafe {
                    let memory = memory.add(worker * each);
                    dispatch!(floats(q: &RxBlockwiseF32, from: usize, to: usize, memory: *mut f32));
                    let g = q.product(a, memory, from..to);
                    serial(&g, g.way(), memory.add(converted));
                }
            }
        });
    0
}

/// `y = x · (w scaled)ᵀ`.
///
/// # Safety
/// The operands are as large as the sizes say, and do not overlap the result.
pub unsafe fn product(context: &mut RxContext, q: &RxBlockwiseF32) -> i32 {
    if q.m <= 0 || q.n <= 0 {
        return 0;
    }
    if !matches!(q.bits, 4 | 8) || q.blocks < 0 || q.block <= 0 {
        return context.fail(Status::Argument, "rx_blockwise_f32: no such blocks");
    }
    // SAFETY: only sizes are read.
    let whole = unsafe { dispatch!(whole(q: &RxBlockwiseF32) -> bool) };
    let mut in_order = *q;
    let mut order = None;
    if q.bits == 4 && whole {
        let bytes = q.m as usize * q.depth() * 4;
        let Some(scratch) = Scratch::new(context, bytes) else {
            return context.status;
        };
        let to = scratch.memory.cast::<f32>();
        // SAFETY: there is room for the operand, whose rows are pairs of whole vectors.
        unsafe { dispatch!(zipped(q: &RxBlockwiseF32, to: *mut f32)) };
        in_order.x = to;
        order = Some(scratch);
    }
    let status = if whole && q.m as usize <= FEW {
        let grain = Grain::of_work(SMALL, q.depth());
        // SAFETY: threads write different columns of the result.
        let shared = unsafe { Share::new(in_order) };
        context.pool.each(q.n as usize, grain, |begin, end, _| {
            let q = shared.get();
            // SAFETY: `begin..end` are rows of the weight, and blocks are whole vectors.
            unsafe { dispatch!(few(q: &RxBlockwiseF32, begin: usize, end: usize)) };
        });
        0
    } else {
        // SAFETY: the operands have the sizes that the descriptor says.
        unsafe { many(context, &in_order) }
    };
    drop(order);
    status
}
