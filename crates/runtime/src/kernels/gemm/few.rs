//! Products of few rows, which read operands as they lie.

use super::RxGemmF32;
use super::tile::{self, COLS, Columns};
use crate::kernels::simd::Simd;

/// One row: A and B are read as they lie, in the order of sums of [`blocks`](super::blocks). Where
/// products with the same weight follow each other, every other one goes `backwards`: it begins with
/// what the last one left in the caches, of which a weight that does not fit would otherwise find
/// nothing.
#[inline(always)]
pub(super) unsafe fn one_row<S: Simd>(g: &RxGemmF32, backwards: bool) {
    let (n, k) = (g.n as usize, g.k as usize);
    let packed = !g.b_packed.is_null();
    let b = if packed {
        Columns::of(g.b_packed, k * COLS, COLS)
    } else {
        Columns::of(g.b, COLS, g.b_rs as usize)
    };
    // Panels are whole, rows that lie side by side end where they end.
    let whole = if packed { n } else { n / COLS * COLS };
    let a = (g.a, g.a_cs as usize);
    let target = g.target(true);
    // SAFETY: the operands and the result have the sizes of the product.
    unsafe {
        let wide = 8 * S::LANES;
        let blocks = whole.div_ceil(wide);
        for block in 0..blocks {
            let j = wide * if backwards { blocks - 1 - block } else { block };
            let columns = (whole - j).min(wide);
            tile::row::<S>(columns, k, a, b.from(j), &target.shift(0, j));
        }
        if whole < n {
            let rest = target.shift(0, whole);
            tile::row_rest::<S>(n - whole, k, a, b.from(whole), &rest);
        }
    }
}

/// Few rows against columns that are contiguous: each element is a sum of products.
#[inline(always)]
pub(super) unsafe fn dots<S: Simd>(g: &RxGemmF32) {
    let (m, n, k) = (g.m as usize, g.n as usize, g.k as usize);
    let target = g.target(true);
    // SAFETY: the operands and the result have the sizes of the product.
    unsafe {
        let mut j = 0;
        while j < n {
            let columns = (n - j).min(4);
            let b = g.b.offset(j as isize * g.b_cs as isize);
            // All rows while the columns are in the first cache.
            for i in 0..m {
                let a = g.a.offset(i as isize * g.a_rs as isize);
                let mut sums = [0.0f32; 16];
                if columns == 4 {
                    let dot = dot4::<S>(k, a, b, g.b_cs as isize);
                    sums[..4].copy_from_slice(&dot);
                } else {
                    for (c, sum) in sums.iter_mut().enumerate().take(columns) {
                        let b = b.offset(c as isize * g.b_cs as isize);
                        *sum = dot4::<S>(k, a, b, 0)[0];
                    }
                }
                let part = S::load(sums.as_ptr());
                target.shift(i, j).finish::<S>(&part, 1, 1, columns);
            }
            j += columns;
        }
    }
}

/// The products of one vector with four others that lie `step` apart.
#[inline(always)]
unsafe fn dot4<S: Simd>(k: usize, a: *const f32, b: *const f32, step: isize) -> [f32; 4] {
    // SAFETY: `a` and the four others have `k` floats.
    unsafe {
        let mut acc = [[S::splat(0.0); 2]; 4];
        let at = [b, b.offset(step), b.offset(2 * step), b.offset(3 * step)];
        let mut p = 0;
        while p + 2 * S::LANES <= k {
            for half in 0..2 {
                let q = p + half * S::LANES;
                let x = S::load(a.add(q));
                for (acc, at) in acc.iter_mut().zip(at) {
                    acc[half] = x.fma(S::load(at.add(q)), acc[half]);
                }
            }
            p += 2 * S::LANES;
        }
        while p < k {
            let part = (k - p).min(S::LANES);
            let x = S::load_part(a.add(p), part);
            for (acc, at) in acc.iter_mut().zip(at) {
                acc[0] = x.fma(S::load_part(at.add(p), part), acc[0]);
            }
            p += part;
        }
        let mut sums = [0.0; 4];
        for (sum, [x, y]) in sums.iter_mut().zip(acc) {
            *sum = x.add(y).sum();
        }
        sums
    }
}
