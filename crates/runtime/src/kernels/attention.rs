//! Attention: `softmax(Q Kᵀ · scale + mask) V`, or with `where(mask, …, fill)`, without the matrix
//! of scores.
//!
//! A block of queries traverses the keys piece by piece. The scores of a block against a piece stay
//! in the second-level cache; the running sums are scaled down when a later piece has a larger
//! score, so that no whole row is needed (Milakov and Gimelshein, "Online normalizer calculation
//! for softmax", 2018; Dao et al., "FlashAttention", 2022). Heads are read where they lie. Keys and
//! values are packed once for all queries of all heads that share them.
//!
//! Each row's result depends only on that row, the keys and the values, not on the number of
//! threads.

use crate::context::RxContext;
use crate::kernels::gemm::{FEW_ROWS, RxGemmF32, pack, serial};
use crate::kernels::rows::{largest, load, only, store, total};
use crate::kernels::scratch::Scratch;
use crate::kernels::simd::{Simd, dispatch};
use crate::kernels::vmath::exp;
use crate::slices::slice_mut;
use crate::threads::{Grain, Share};
use crate::{c_enumeration, c_structure};
use std::ffi::c_void;
use std::ops::Range;
use std::ptr::{null, null_mut};

/// Queries of a block.
const ROWS: usize = 64;
/// The maximum number of queries that read keys and values in place.
const IN_PLACE: usize = 2 * FEW_ROWS;
/// Keys of a piece: at most as many as products sum in one piece.
const KEYS: usize = 512;
/// The minimum number of multiplications per thread.
const GRAIN: usize = 1 << 19;

c_enumeration! {
    /// The effect of a mask on the scaled scores.
    pub enum Masking {
        /// Its float32 elements are added.
        Add = "RX_MASK_ADD",
        /// Its elements are bytes; where one is 0, `fill` replaces the score.
        Keep = "RX_MASK_KEEP",
        /// The same where one is not 0.
        Replace = "RX_MASK_REPLACE",
    }
}

c_structure! {
    /// As in the C header.
    pub struct RxAttentionF32 {
        /// Batches.
        pub batch: i64,
        /// Heads of a batch: independent problems.
        pub heads: i64,
        /// Queries.
        pub rows: i64,
        /// Keys, and values.
        pub keys: i64,
        /// Elements of a query and of a key.
        pub depth: i64,
        /// Elements of a value.
        pub width: i64,
        /// For each head `rows` queries of `depth` adjacent elements.
        pub q: *const f32,
        /// The step from one batch to the next; 0 where all share it, as in all operands.
        pub q_step: i64,
        /// The step from one head to the next.
        pub q_head: i64,
        /// The step from one query to the next.
        pub q_rs: i64,
        /// The keys as a matrix of `depth` rows and `keys` columns.
        pub k: *const f32,
        /// The step from one batch to the next.
        pub k_step: i64,
        /// The step from one head of the keys to the next.
        pub k_head: i64,
        /// The number of adjacent heads of queries that share one of the keys.
        pub k_share: i64,
        /// Its strides.
        pub k_rs: i64,
        /// Its strides.
        pub k_cs: i64,
        /// The values as a matrix of `keys` rows and `width` columns.
        pub v: *const f32,
        /// The step from one batch to the next.
        pub v_step: i64,
        /// The step from one head of the values to the next.
        pub v_head: i64,
        /// The number of adjacent heads of queries that share one of the values.
        pub v_share: i64,
        /// Its strides.
        pub v_rs: i64,
        /// Its strides.
        pub v_cs: i64,
        /// The mask of the scaled scores, by `mask_kind`; may be null. Steps and strides are in its
        /// elements.
        pub mask: *const c_void,
        /// The step from one batch to the next.
        pub mask_step: i64,
        /// The step from one head to the next.
        pub mask_head: i64,
        /// The step from one query to the next; 0 where all share it.
        pub mask_rs: i64,
        /// The step from one key to the next, 0 or 1.
        pub mask_cs: i64,
        /// For each head `rows` results of `width` adjacent elements.
        pub out: *mut f32,
        /// The step from one batch to the next.
        pub out_step: i64,
        /// The step from one head to the next.
        pub out_head: i64,
        /// The step from one result to the next.
        pub out_rs: i64,
        /// Query `i` sees the keys from `i + first` on.
        pub first: i64,
        /// And those before `i + last`.
        pub last: i64,
        /// The factor of the scores.
        pub scale: f32,
        /// A [`Masking`].
        pub mask_kind: i32,
        /// See `mask_kind`.
        pub fill: f32,
        /// 0.
        pub reserved: i32,
    }
}

/// The parts of one thread's scratch memory, in floats.
struct Room {
    /// Packed keys and values of a head.
    keys: usize,
    values: usize,
    /// Scores of a block.
    scores: usize,
    /// Memory for packing inside the products.
    packed: usize,
}

impl Masking {
    /// The size of an element of the mask in bytes.
    pub(crate) fn size(self) -> usize {
        match self {
            Masking::Add => 4,
            Masking::Keep | Masking::Replace => 1,
        }
    }
}

impl RxAttentionF32 {
    /// Returns the effect of the mask.
    pub(crate) fn masking(&self) -> Masking {
        Masking::of(self.mask_kind).unwrap_or(Masking::Replace)
    }

    /// The mask advanced by a number of elements.
    ///
    /// # Safety
    /// The mask has them.
    unsafe fn mask_at(&self, mask: *const c_void, elements: i64) -> *const c_void {
        let size = self.masking().size();
        // SAFETY: the mask has so many elements.
        unsafe { mask.byte_offset(size as isize * elements as isize) }
    }

    /// Returns whether keys and values are packed; with few queries they are read in place.
    fn packs(&self) -> bool {
        self.rows as usize > IN_PLACE
    }

    /// Queries of a block.
    fn block(&self) -> usize {
        (self.rows as usize).min(if self.packs() { ROWS } else { FEW_ROWS })
    }

    /// Returns the keys of `n` from the `p`-th on that a query sees.
    fn seen(&self, row: usize, p: usize, n: usize) -> Range<usize> {
        let edge = |by: i64| {
            (row as i64 - p as i64)
                .saturating_add(by)
                .clamp(0, n as i64) as usize
        };
        edge(self.first)..edge(self.last).max(edge(self.first))
    }

    /// The same attention where the only query of several heads that share keys and values is
    /// several queries of one head.
    fn joined(&self) -> RxAttentionF32 {
        let (share, keys) = (self.k_share, self.keys as usize);
        let all = self.seen(0, 0, keys) == (0..keys);
        let mut g = *self;
        if self.rows == 1 && share > 1 && share == self.v_share && all {
            (g.rows, g.heads, g.k_share, g.v_share) = (share, self.heads / share, 1, 1);
            (g.q_rs, g.q_head) = (self.q_head, self.q_head * share);
            (g.out_rs, g.out_head) = (self.out_head, self.out_head * share);
            (g.mask_rs, g.mask_head) = (self.mask_head, self.mask_head * share);
            (g.first, g.last) = (-share, self.keys);
        }
        g
    }

    /// Returns the places of a head's queries, keys, values, mask and results, in elements of each.
    fn places(&self, head: usize) -> [i64; 5] {
        let (batch, head) = (head as i64 / self.heads, head as i64 % self.heads);
        [
            batch * self.q_step + head * self.q_head,
            batch * self.k_step + head / self.k_share * self.k_head,
            batch * self.v_step + head / self.v_share * self.v_head,
            batch * self.mask_step + head * self.mask_head,
            batch * self.out_step + head * self.out_head,
        ]
    }

    fn room(&self) -> Room {
        let (rows, keys) = (self.block(), self.keys as usize);
        let (depth, width) = (self.depth as usize, self.width as usize);
        let piece = keys.min(KEYS);
        let (one, two) = self.products(rows, piece, null_mut());
        let room = |g: &RxGemmF32| {
            let (a, b) = g.scratch(g.way());
            a + b
        };
        Room {
            keys: if self.packs() {
                keys.next_multiple_of(16) * depth
            } else {
                0
            },
            values: if self.packs() {
                width.next_multiple_of(16) * keys.next_multiple_of(16)
            } else {
                0
            },
            scores: rows * piece.next_multiple_of(16),
            packed: room(&one).max(room(&two)),
        }
    }

    /// The two products of `m` queries with `n` keys and values, with the scores in between.
    /// Operands other than the scores are those of the first head; none is packed.
    fn products(&self, m: usize, n: usize, scores: *mut f32) -> (RxGemmF32, RxGemmF32) {
        let ld = (self.keys.min(KEYS as i64) as usize).next_multiple_of(16) as i64;
        let of_keys = RxGemmF32 {
            m: m as i64,
            n: n as i64,
            k: self.depth,
            a: self.q,
            a_rs: self.q_rs,
            a_cs: 1,
            b: self.k,
            b_rs: self.k_rs,
            b_cs: self.k_cs,
            c: scores,
            c_ld: ld,
            ..RxGemmF32::default()
        };
        let of_values = RxGemmF32 {
            n: self.width,
            k: n as i64,
            a: scores,
            a_rs: ld,
            b: self.v,
            b_rs: self.v_rs,
            b_cs: self.v_cs,
            c: self.out,
            c_ld: self.out_rs,
            ..of_keys
        };
        (of_keys, of_values)
    }
}

/// A block of queries against a piece of the keys.
#[derive(Clone, Copy)]
struct Piece {
    /// Queries and keys.
    m: usize,
    n: usize,
    /// The first query, and the first key.
    row: usize,
    key: usize,
    scores: *mut f32,
    /// The step from one query's scores to the next.
    ld: usize,
    /// The mask of the first query and key, or null.
    mask: *const c_void,
    /// The sums so far.
    out: *mut f32,
    /// Whether there are no sums yet.
    first: bool,
}

/// The sums of a block of queries.
struct Sums {
    largest: [f32; ROWS],
    total: [f32; ROWS],
}

/// Converts the scores of a row to weights, and scales the previous sums down accordingly.
#[inline(always)]
unsafe fn weigh<S: Simd>(g: &RxAttentionF32, row: &Piece, largest_yet: &mut f32, sum: &mut f32) {
    let Piece {
        n,
        scores,
        mask,
        out,
        ..
    } = *row;
    let width = g.width as usize;
    let masking = g.masking();
    // SAFETY: scores and mask have the piece's keys.
    unsafe {
        let factor = S::splat(g.scale);
        let mut i = 0;
        while i < n {
            let part = (n - i).min(S::LANES);
            let mut x = load::<S>(scores, i, part).mul(factor);
            if !mask.is_null() && masking == Masking::Add {
                let mask = mask.cast::<f32>();
                x = x.add(if g.mask_cs == 0 {
                    S::splat(*mask)
                } else {
                    load::<S>(mask, i, part)
                });
            } else if !mask.is_null() {
                let mask = mask.cast::<u8>();
                let mut bytes = [0.0f32; 16];
                for (lane, byte) in bytes.iter_mut().enumerate().take(part) {
                    let at = (i + lane) * g.mask_cs as usize;
                    *byte = f32::from(*mask.add(at));
                }
                let (zero, fill) = (S::load(bytes.as_ptr()).eq(S::splat(0.0)), S::splat(g.fill));
                let (at_zero, else_) = if masking == Masking::Keep {
                    (fill, x)
                } else {
                    (x, fill)
                };
                x = S::select(zero, at_zero, else_);
            }
            store(x, scores, i, part);
            i += part;
        }
        let seen = g.seen(row.row, row.key, n);
        let scored = std::slice::from_raw_parts_mut(scores, n);
        scored[..seen.start].fill(f32::NEG_INFINITY);
        scored[seen.end..].fill(f32::NEG_INFINITY);
        let before = *largest_yet;
        let most = before.max(largest::<S>(n, scores));
        // Where everything so far is masked out, nothing is subtracted: all weights are 0.
        let shift = if most == f32::NEG_INFINITY { 0.0 } else { most };
        let (down, zero) = (S::splat(shift), S::splat(0.0));
        let mut acc = [zero; 4];
        let (mut i, mut lane) = (0, 0);
        while i < n {
            let part = (n - i).min(S::LANES);
            let e = only(exp(load::<S>(scores, i, part).sub(down)), part);
            store(e, scores, i, part);
            acc[lane % 4] = acc[lane % 4].add(e);
            lane += 1;
            i += part;
        }
        *largest_yet = most;
        if row.first {
            *sum = total(acc);
            return;
        }
        let mut kept = [0.0f32; 16];
        exp(S::splat(before - shift)).store(kept.as_mut_ptr());
        *sum = *sum * kept[0] + total(acc);
        let kept = S::splat(kept[0]);
        let mut j = 0;
        while j < width {
            let part = (width - j).min(S::LANES);
            store(load::<S>(out, j, part).mul(kept), out, j, part);
            j += part;
        }
    }
}

/// All rows of a block: see [`weigh`].
#[inline(always)]
unsafe fn weigh_rows<S: Simd>(g: &RxAttentionF32, piece: Piece, sums: &mut Sums) {
    for i in 0..piece.m {
        let mut row = piece;
        // SAFETY: scores, mask and result have the piece's rows.
        unsafe {
            row.scores = piece.scores.add(i * piece.ld);
            row.out = piece.out.add(i * g.out_rs as usize);
            row.row += i;
            if !piece.mask.is_null() {
                row.mask = g.mask_at(piece.mask, i as i64 * g.mask_rs);
            }
            weigh::<S>(g, &row, &mut sums.largest[i], &mut sums.total[i]);
        }
    }
}

/// Divides each row of a block by its sum of weights.
#[inline(always)]
unsafe fn divide<S: Simd>(g: &RxAttentionF32, m: usize, sums: &Sums, out: *mut f32) {
    let width = g.width as usize;
    for i in 0..m {
        // SAFETY: `out` has `m` rows of `width` floats.
        unsafe {
            let by = S::splat(1.0 / sums.total[i]);
            let out = out.add(i * g.out_rs as usize);
            let mut j = 0;
            while j < width {
                let part = (width - j).min(S::LANES);
                store(load::<S>(out, j, part).mul(by), out, j, part);
                j += part;
            }
        }
    }
}

/// Packs the keys of a head.
unsafe fn pack_keys(g: &RxAttentionF32, k: *const f32, to: *mut f32) {
    let (keys, depth) = (g.keys as usize, g.depth as usize);
    // SAFETY: the head has its keys, and `to` what `room` says.
    unsafe { pack::columns(depth, keys, k, g.k_rs as isize, g.k_cs as isize, to) };
}

/// Packs the values of a head, each piece by itself.
unsafe fn pack_values(g: &RxAttentionF32, v: *const f32, to: *mut f32) {
    let (keys, width) = (g.keys as usize, g.width as usize);
    for p in (0..keys).step_by(KEYS) {
        let n = (keys - p).min(KEYS);
        // SAFETY: the head has its values, and `to` what `room` says.
        unsafe {
            let from = v.offset(p as isize * g.v_rs as isize);
            let to = to.add(p * width.next_multiple_of(16));
            pack::columns(n, width, from, g.v_rs as isize, g.v_cs as isize, to);
        }
    }
}

/// A block of queries of a head, which lies at `places`.
unsafe fn block(g: &RxAttentionF32, places: [i64; 5], row: usize, scratch: *mut f32, room: &Room) {
    let (keys, depth, width) = (g.keys as usize, g.depth as usize, g.width as usize);
    let m = (g.rows as usize - row).min(g.block());
    let mut sums = Sums {
        largest: [f32::NEG_INFINITY; ROWS],
        total: [0.0; ROWS],
    };
    let [q, k, v, mask, out] = places;
    // SAFETY: head and row are the descriptor's; the scratch memory is as large as `room` says.
    unsafe {
        let (packed_k, packed_v) = (scratch, scratch.add(room.keys));
        let scores = packed_v.add(room.values);
        let own = scores.add(room.scores);
        let row_of = |start: i64, step: i64| (start + row as i64 * step) as isize;
        let out = (g.out).offset(row_of(out, g.out_rs));
        for p in (0..keys).step_by(KEYS) {
            let n = (keys - p).min(KEYS);
            let (mut of_keys, mut of_values) = g.products(m, n, scores);
            of_keys.a = (g.q).offset(row_of(q, g.q_rs));
            (of_values.c, of_values.accumulate) = (out, i32::from(p > 0));
            if g.packs() {
                of_keys.b_packed = packed_k.add(p * depth);
                of_values.b_packed = packed_v.add(p * width.next_multiple_of(16));
            } else {
                let p = p as i64;
                of_keys.b = (g.k).offset((k + p * g.k_cs) as isize);
                of_values.b = (g.v).offset((v + p * g.v_rs) as isize);
            }
            run(&of_keys, own);
            let mask = if g.mask.is_null() {
                null()
            } else {
                let at = mask + row as i64 * g.mask_rs + p as i64 * g.mask_cs;
                g.mask_at(g.mask, at)
            };
            let piece = Piece {
                m,
                n,
                row,
                key: p,
                scores,
                ld: of_keys.c_ld as usize,
                mask,
                out,
                first: p == 0,
            };
            let sums = &mut sums;
            dispatch!(weigh_rows(g: &RxAttentionF32, piece: Piece, sums: &mut Sums));
            run(&of_values, own);
        }
        let sums = &sums;
        dispatch!(divide(g: &RxAttentionF32, m: usize, sums: &Sums, out: *mut f32));
    }
}

/// Computes the blocks from `begin` to `end`, counted over all heads.
unsafe fn blocks(g: &RxAttentionF32, begin: usize, end: usize, scratch: *mut f32, room: &Room) {
    let each = (g.rows as usize).div_ceil(g.block());
    // The places of the keys and values that are packed.
    let mut packed = [None; 2];
    for unit in begin..end {
        let places = g.places(unit / each);
        let [_, k, v, ..] = places;
        // SAFETY: the head is the descriptor's; the scratch memory is as large as `room` says.
        unsafe {
            if g.packs() && packed[0] != Some(k) {
                pack_keys(g, g.k.offset(k as isize), scratch);
            }
            if g.packs() && packed[1] != Some(v) {
                pack_values(g, g.v.offset(v as isize), scratch.add(room.keys));
            }
            packed = [Some(k), Some(v)];
            block(g, places, unit % each * g.block(), scratch, room);
        }
    }
}

unsafe fn run(g: &RxGemmF32, scratch: *mut f32) {
    // SAFETY: the operands have the product's sizes, and `scratch` what it asks for.
    unsafe { serial(g, g.way(), scratch) };
}

/// Attention.
///
/// # Safety
/// The operands are as large as the sizes and strides say, and do not overlap the result.
pub unsafe fn attend(context: &mut RxContext, g: &RxAttentionF32) -> i32 {
    let g = g.joined();
    let sizes = [g.batch, g.heads, g.rows, g.keys, g.width];
    let [batch, heads, rows, keys, width] = sizes.map(|n| n.max(0) as usize);
    let heads = batch * heads;
    if heads == 0 || rows == 0 || width == 0 {
        return 0;
    }
    if keys == 0 {
        // Without keys, the sums are empty.
        for (head, row) in (0..heads).flat_map(|h| (0..rows).map(move |r| (h, r))) {
            let at = g.places(head)[4] + row as i64 * g.out_rs;
            // SAFETY: each row of the result has `width` floats from its place on.
            unsafe { slice_mut(g.out.offset(at as isize), width) }.fill(0.0);
        }
        return 0;
    }
    let room = g.room();
    let each = (room.keys + room.values + room.scores + room.packed).next_multiple_of(16);
    let threads = context.pool.threads();
    let Some(scratch) = Scratch::new(context, each * threads * 4) else {
        return context.status;
    };
    let of_head = rows.div_ceil(g.block());
    let work = g.block() * keys * (g.depth.max(1) as usize + width);
    // Where there are enough heads, a thread takes whole ones, so that keys are packed once.
    let whole = if heads >= threads {
        of_head
    } else {
        (heads * of_head).div_ceil(threads)
    };
    let grain = Grain::of_work(GRAIN, work).at_least(whole);
    // SAFETY: blocks write their own rows of the result, and each worker has its own memory.
    let shared = unsafe { Share::new((&g, scratch.memory.cast::<f32>(), room)) };
    (context.pool).each(heads * of_head, grain, |begin, end, worker| {
        let (g, scratch, room) = shared.get();
        // SAFETY: the operands have the descriptor's sizes, and of the memory each worker has `each`
        // floats.
        unsafe { blocks(g, begin, end, scratch.add(worker * each), room) };
    });
    0
}

const _: () = assert!(size_of::<RxAttentionF32>() == 280);
