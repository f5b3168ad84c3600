//! Matrix products of float32.
//!
//! A block of A is packed into panels of 8 rows and a block of B into panels of 16 columns, so that
//! tiles read both sequentially; a panel of A stays in the first-level cache while the block of B
//! comes from the second. Each element of the result is one chain of sums over the common axis,
//! with any number of threads.

pub mod epilogue;
mod few;
mod grid;
mod narrow;
pub mod other;
pub mod pack;
pub mod tile;
mod way;

use crate::c_structure;
use crate::context::RxContext;
use crate::kernels::simd::square::dispatch_turning;
use crate::kernels::simd::{Simd, dispatch};
use crate::threads::{Grain, Share};
use crate::values::{scratch_alloc, scratch_free};
use epilogue::{RxEpilogue, Target};
use few::{dots, one_row};
use grid::grid;
use narrow::column;
use std::ptr::{null, null_mut};
use tile::{COLS, Columns, ROWS};
pub(crate) use way::{FEW_ROWS, Way};
use way::{KC, MC, NARROW, NEAR, STRIP, STRIP_KC, columns};

/// Floats from which on an A comes from memory, or may.
const FETCHED: usize = 32 << 10;
/// Tiles of a panel of A up to which it matters that its first one waits for memory.
const ACROSS: usize = 4;
/// Below this number of multiplications a product stays on one thread.
const SMALL: usize = 1 << 18;
/// The same for few rows: memory is slow then, and each thread's part of B stays in its cache.
const SMALL_FEW: usize = 1 << 16;
/// The fewest rows of a piece of a product, in which packing B costs little.
const PIECE: usize = 64;

c_structure! {
    /// As in the C header.
    pub struct RxGemmF32 {
        /// Rows of the result.
        pub m: i64,
        /// Columns of the result.
        pub n: i64,
        /// The common axis.
        pub k: i64,
        /// Left operand.
        pub a: *const f32,
        /// Its strides.
        pub a_rs: i64,
        /// Its strides.
        pub a_cs: i64,
        /// Right operand.
        pub b: *const f32,
        /// Its strides.
        pub b_rs: i64,
        /// Its strides.
        pub b_cs: i64,
        /// The left operand, packed; or null.
        pub a_packed: *const f32,
        /// The right operand, packed; or null.
        pub b_packed: *const f32,
        /// The result.
        pub c: *mut f32,
        /// Its row stride.
        pub c_ld: i64,
        /// Whether to add to the result's old contents.
        pub accumulate: i32,
        /// 0.
        pub reserved: i32,
        /// The operations before storing.
        pub epilogue: RxEpilogue,
    }
}

impl Default for RxGemmF32 {
    fn default() -> Self {
        Self {
            m: 0,
            n: 0,
            k: 0,
            a: null(),
            a_rs: 0,
            a_cs: 0,
            b: null(),
            b_rs: 0,
            b_cs: 0,
            a_packed: null(),
            b_packed: null(),
            c: null_mut(),
            c_ld: 0,
            accumulate: 0,
            reserved: 0,
            epilogue: RxEpilogue::default(),
        }
    }
}

impl RxGemmF32 {
    /// The part of the product from `(row, column)` on, `m` by `n`.
    unsafe fn part(&self, row: usize, column: usize, m: usize, n: usize) -> Self {
        let mut part = *self;
        let (i, j) = (row as isize, column as isize);
        (part.m, part.n) = (m as i64, n as i64);
        // SAFETY: the part lies in the product; packed operands are cut between panels.
        unsafe {
            if self.a_packed.is_null() {
                part.a = self.a.offset(i * self.a_rs as isize);
            } else {
                part.a_packed = self.a_packed.add(row * self.k as usize);
            }
            if self.b_packed.is_null() {
                part.b = self.b.offset(j * self.b_cs as isize);
            } else {
                part.b_packed = self.b_packed.add(column * self.k as usize);
            }
            let target = self.target(true).shift(row, column);
            part.c = target.c;
            if let Some(epilogue) = target.epilogue {
                part.epilogue = epilogue;
            }
        }
        part
    }

    /// The result, with the epilogue when the sums are complete.
    fn target(&self, last: bool) -> Target {
        let epilogue = (last && !self.epilogue.none()).then_some(self.epilogue);
        Target {
            c: self.c,
            ld: self.c_ld as usize,
            accumulate: self.accumulate != 0,
            epilogue,
        }
    }
}

/// Computes one product on one thread.
pub(crate) unsafe fn serial(g: &RxGemmF32, way: Way, scratch: *mut f32) {
    // SAFETY: the operands have the product's sizes, and `scratch` what `RxGemmF32::scratch` says.
    unsafe {
        if way == Way::Dots {
            dispatch!(dots(g: &RxGemmF32));
        } else {
            blocks(g, way, scratch);
        }
    }
}

unsafe fn blocks(g: &RxGemmF32, way: Way, scratch: *mut f32) {
    let (m, n, k) = (g.m as usize, g.n as usize, g.k as usize);
    // SAFETY: the operands have the product's sizes, and `scratch` is as large as
    // `RxGemmF32::scratch` says.
    unsafe {
        let (a_room, b_room) = (scratch, scratch.add(g.scratch(way).0));
        let (wide, most) = match way {
            Way::Strips => (STRIP, STRIP_KC),
            _ => (columns(k), KC),
        };
        let mut p0 = 0;
        loop {
            let kc = even_piece(k - p0, most, 1);
            let mut target = g.target(p0 + kc == k);
            target.accumulate |= p0 > 0;
            for i0 in (0..m).step_by(MC) {
                let mc = (m - i0).min(MC);
                // A panel of A starts every `panel` floats.
                let (a, panel) = if g.a_packed.is_null() {
                    let a =
                        g.a.offset(i0 as isize * g.a_rs as isize + p0 as isize * g.a_cs as isize);
                    pack::rows(mc, kc, a, g.a_rs as isize, g.a_cs as isize, a_room);
                    (a_room.cast_const(), kc * ROWS)
                } else {
                    (g.a_packed.add(i0 * k + p0 * ROWS), k * ROWS)
                };
                let mut j0 = 0;
                while j0 < n {
                    let (nc, b) = if g.gathers() {
                        let nc = (n - j0).min(wide);
                        for panel in 0..nc.div_ceil(COLS) {
                            let from = g.b_packed.add((j0 + panel * COLS) * k + p0 * COLS);
                            let to = b_room.add(panel * kc * COLS);
                            std::ptr::copy_nonoverlapping(from, to, kc * COLS);
                        }
                        (nc, Columns::of(b_room, kc * COLS, COLS))
                    } else if !g.b_packed.is_null() {
                        let nc = (n - j0).min(wide);
                        let ptr = g.b_packed.add(j0 * k + p0 * COLS);
                        (nc, Columns::of(ptr, k * COLS, COLS))
                    } else if way == Way::Direct && n - j0 >= COLS {
                        let most = if m <= NARROW { n } else { wide };
                        let nc = (n - j0).min(most) / COLS * COLS;
                        let ptr = g.b.offset(p0 as isize * g.b_rs as isize).add(j0);
                        (nc, Columns::of(ptr, COLS, g.b_rs as usize))
                    } else {
                        let nc = (n - j0).min(wide);
                        let (rs, cs) = (g.b_rs as isize, g.b_cs as isize);
                        let from = g.b.offset(p0 as isize * rs + j0 as isize * cs);
                        pack::columns(kc, nc, from, rs, cs, b_room);
                        (nc, Columns::of(b_room, kc * COLS, COLS))
                    };
                    let near = if way == Way::Strips { NEAR } else { nc };
                    for j in (0..nc).step_by(near) {
                        let (columns, target) = ((nc - j).min(near), target.shift(i0, j0 + j));
                        block(mc, columns, kc, a, panel, b.from(j), &target);
                    }
                    j0 += nc;
                }
            }
            p0 += kc;
            if p0 >= k {
                return;
            }
        }
    }
}

/// Returns the size of the next piece of `rest`, about `limit` at most, so that the last one is not
/// tiny.
pub(crate) fn even_piece(rest: usize, limit: usize, unit: usize) -> usize {
    if rest <= limit {
        return rest;
    }
    rest.div_ceil(rest.div_ceil(limit)).next_multiple_of(unit)
}

/// Computes all tiles of a block. Tiles are most of the kernels' code, so they are instantiated
/// once per instruction set rather than once per kernel that multiplies matrices.
#[inline(never)]
pub(crate) unsafe fn block(
    m: usize,
    n: usize,
    k: usize,
    a: *const f32,
    panel: usize,
    b: Columns,
    target: &Target,
) {
    // SAFETY: `a` has panels of `m` rows, `b` of `n` columns, each `k` long, and the target `m` by
    // `n` places.
    unsafe {
        if n == 1 && m > 1 {
            dispatch_turning!(column(
                m: usize,
                k: usize,
                a: *const f32,
                panel: usize,
                b: Columns,
                target: &Target,
            ));
            return;
        }
        dispatch!(tiles(
            m: usize,
            n: usize,
            k: usize,
            a: *const f32,
            panel: usize,
            b: Columns,
            target: &Target,
        ));
    }
}

#[inline(always)]
unsafe fn tiles<S: Simd>(
    m: usize,
    n: usize,
    k: usize,
    a: *const f32,
    panel: usize,
    b: Columns,
    target: &Target,
) {
    // SAFETY: `a` has panels of `m` rows, `b` of `n` columns, each `k` long, and the target `m` by
    // `n` places.
    unsafe {
        if m == 1 {
            let wide = 8 * S::LANES;
            for j in (0..n).step_by(wide) {
                let columns = (n - j).min(wide);
                let b = b.from(j);
                tile::row::<S>(columns, k, (a, ROWS), b, &target.shift(0, j));
            }
            return;
        }
        let wide = S::NV * S::LANES;
        // One vector of columns: more rows at once, so that the sums' latencies overlap.
        let high = if n <= S::LANES { ROWS } else { S::MR };
        let mut b = b;
        let steps = k * b.runs;
        let across = n.div_ceil(wide);
        if b.ahead.1 > 0 {
            b.pace = b
                .ahead
                .1
                .div_ceil((steps * m.div_ceil(S::MR) * across).max(1));
        }
        // Of an A that the second cache does not hold, the next panel.
        let panels = b.ahead.1 == 0 && m * steps > FETCHED && across <= ACROSS;
        if panels {
            b.pace = ROWS.div_ceil(ROWS.div_ceil(S::MR) * across);
        }
        // A vector of columns that is left behind whole tiles is multiplied by all rows of a panel.
        let vectors = n.div_ceil(S::LANES);
        let alone = match S::MR < ROWS && vectors % S::NV == 1 && vectors > S::NV + 1 {
            true => n - (vectors - 1) * S::LANES,
            false => 0,
        };
        let mut i = 0;
        while i < m {
            let whole = m - i / ROWS * ROWS >= ROWS;
            let n = if whole { n - alone } else { n };
            let a = a.add(i / ROWS * panel + i % ROWS);
            if panels && i.is_multiple_of(ROWS) {
                b.ahead.0 = a.wrapping_add(panel);
            }
            if high > S::MR && m - i >= high {
                tile::tall::<S>(n, k, a, b, &target.shift(i, 0));
                i += high;
                continue;
            }
            // What is left of a panel in even parts: a row alone waits for its sums.
            let rows = match (m - i).min(ROWS - i % ROWS) {
                left if left <= S::MR || left >= 2 * S::MR => left.min(S::MR),
                left => left.div_ceil(2),
            };
            let mut j = 0;
            while j < n {
                // Of more than two tiles, all but the last two are whole: divisions would take half
                // as long as a tile with a short common axis.
                let columns = match n - j > 2 * wide {
                    true => wide,
                    false => even_piece(n - j, wide, S::LANES).min(wide),
                };
                tile::run::<S>(rows, columns, k, a, b.from(j), &target.shift(i, j));
                b.ahead.0 = b.ahead.0.wrapping_add(steps * b.pace);
                j += columns;
            }
            i += rows;
            if alone > 0 && whole && i.is_multiple_of(ROWS) {
                let (a, first) = (a.sub(ROWS - rows), i - ROWS);
                tile::tall::<S>(alone, k, a, b.from(n), &target.shift(first, n));
            }
        }
    }
}

/// Computes a product on as many threads as pay.
///
/// # Safety
/// The operands are as large as the sizes and strides say, and do not overlap the result.
pub unsafe fn gemm(context: &mut RxContext, g: &RxGemmF32) -> i32 {
    let g = &g.turned().unwrap_or(*g);
    let (m, n, k) = (
        g.m.max(0) as usize,
        g.n.max(0) as usize,
        g.k.max(0) as usize,
    );
    if m == 0 || n == 0 {
        return 0;
    }
    let work = m.saturating_mul(n).saturating_mul(k);
    let threads = context.pool.threads();
    let way = g.way();
    let small = if m <= FEW_ROWS { SMALL_FEW } else { SMALL };
    // Rows of B are contiguous, or in panels.
    let in_rows = way == Way::Direct || !g.b_packed.is_null();
    let row = m == 1 && k <= KC && in_rows && g.a_packed.is_null();
    context.backwards ^= row;
    let backwards = context.backwards;
    if row && (threads == 1 || work < small) {
        // SAFETY: the operands and the result have the product's sizes.
        unsafe { dispatch!(one_row(g: &RxGemmF32, backwards: bool)) };
        return 0;
    }
    let (rows, columns) = if threads == 1 || work < small {
        (1, 1)
    } else {
        grid(g, threads)
    };
    let h = m.div_ceil(rows).next_multiple_of(ROWS);
    let w = n.div_ceil(columns).next_multiple_of(3 * COLS);
    let sizes = RxGemmF32 {
        m: h.min(m) as i64,
        n: w.min(n) as i64,
        ..*g
    }
    .scratch(way);
    let each = if row { 0 } else { sizes.0 + sizes.1 };
    let parts = rows * columns;
    let mut scratch = null_mut();
    if each > 0 {
        // SAFETY: the context lives, and the memory is freed below.
        scratch = unsafe { scratch_alloc(context, (each * parts * 4) as u64).cast::<f32>() };
        if scratch.is_null() {
            return context.status;
        }
    }
    if parts == 1 {
        // SAFETY: the operands and the result have the product's sizes, and the scratch what this
        // way takes.
        unsafe { serial(g, way, scratch) };
    } else {
        // SAFETY: threads take tasks of their own, which write disjoint places.
        let shared = unsafe { Share::new((g, scratch)) };
        context.pool.each(parts, Grain::always(1), |begin, end, _| {
            let &(g, scratch) = shared.get();
            for part in begin..end {
                let (i, j) = (part / columns * h, part % columns * w);
                if i >= m || j >= n {
                    continue;
                }
                // SAFETY: the part begins within the product and ends at its last row and column,
                // and the scratch has as much for each.
                unsafe {
                    let sub = &g.part(i, j, h.min(m - i), w.min(n - j));
                    if row {
                        dispatch!(one_row(sub: &RxGemmF32, backwards: bool));
                    } else {
                        serial(sub, way, scratch.add(part * each));
                    }
                }
            }
        });
    }
    // SAFETY: allocated above from the same context, or null.
    unsafe { scratch_free(context, scratch.cast()) };
    0
}

/// Many products of the same sizes.
///
/// # Safety
/// As [`gemm`], for each of them.
pub unsafe fn batch(
    context: &mut RxContext,
    g: &RxGemmF32,
    batch: i64,
    a_step: i64,
    b_step: i64,
    c_step: i64,
) -> i32 {
    let turned = g.turned();
    let (a_step, b_step) = match turned {
        Some(_) => (b_step, a_step),
        None => (a_step, b_step),
    };
    let g = &turned.unwrap_or(*g);
    let of = |i: i64| {
        let mut one = *g;
        let (a, b, c) = ((i * a_step) as isize, (i * b_step) as isize, i * c_step);
        // SAFETY: each operand has what so many steps reach.
        unsafe {
            if g.a_packed.is_null() {
                one.a = g.a.offset(a);
            } else {
                one.a_packed = g.a_packed.offset(a);
            }
            if g.b_packed.is_null() {
                one.b = g.b.offset(b);
            } else {
                one.b_packed = g.b_packed.offset(b);
            }
            one.c = g.c.offset(c as isize);
            if !g.epilogue.residual.is_null() {
                one.epilogue.residual = g.epilogue.residual.offset(c as isize);
            }
        }
        one
    };
    if g.m <= 0 || g.n <= 0 || batch <= 0 {
        return 0;
    }
    let work = (g.m as usize)
        .saturating_mul(g.n as usize)
        .saturating_mul(g.k as usize);
    let threads = context.pool.threads();
    if threads > 1 && batch < threads as i64 && work >= SMALL {
        for i in 0..batch {
            // SAFETY: `i` is one of the products.
            let status = unsafe { gemm(context, &of(i)) };
            if status != 0 {
                return status;
            }
        }
        return 0;
    }
    let way = g.way();
    let sizes = g.scratch(way);
    let each = sizes.0 + sizes.1;
    // SAFETY: the context lives, and the memory is freed below.
    let scratch = unsafe { scratch_alloc(context, (each * threads * 4) as u64).cast::<f32>() };
    if scratch.is_null() {
        return context.status;
    }
    // Few products that threads cannot share evenly are cut along their rows.
    let (m, batch) = (g.m as usize, batch as usize);
    let uneven = batch < 4 * threads && !batch.is_multiple_of(threads);
    let pieces = if uneven && m >= PIECE * threads {
        threads
    } else {
        1
    };
    let high = m.div_ceil(pieces).next_multiple_of(ROWS);
    let pieces = m.div_ceil(high);
    // SAFETY: threads take tasks of their own, which write disjoint places.
    let shared = unsafe { Share::new((of, scratch)) };
    let grain = Grain::of_work(SMALL, work / pieces);
    context
        .pool
        .each(batch * pieces, grain, |begin, end, worker| {
            let (of, scratch) = shared.get();
            for i in begin..end {
                let (one, row) = (of((i / pieces) as i64), i % pieces * high);
                // SAFETY: `row` is one of the product's, whose result is its own, and the scratch
                // has room for each thread.
                unsafe {
                    let part = one.part(row, 0, high.min(m - row), one.n as usize);
                    serial(&part, way, scratch.add(worker * each));
                }
            }
        });
    // SAFETY: allocated above from the same context.
    unsafe { scratch_free(context, scratch.cast()) };
    0
}
