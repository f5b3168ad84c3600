//! The transforms of weights, inputs and sums.
#![allow(clippy::needless_range_loop)] // Indices keep vectors out of memory.

use super::plan::{IN, OUT};
use crate::kernels::simd::Simd;

/// The transform of three weights.
#[inline(always)]
pub(super) fn weights<S: Simd>(g: [S; 3]) -> [S; IN] {
    let sixth = g[0].same(1.0 / 6.0);
    let near = g[0].add(g[2]).mul(g[0].same(-1.0 / 6.0));
    let far = g[2].fma(sixth, g[0].mul(g[0].same(1.0 / 24.0)));
    let (one, two) = (g[1].mul(sixth), g[1].mul(g[0].same(1.0 / 12.0)));
    [
        g[0].mul(g[0].same(0.25)),
        near.sub(one),
        near.add(one),
        far.add(two),
        far.sub(two),
        g[2],
    ]
}

/// The transform of six inputs.
#[inline(always)]
pub(super) unsafe fn input<S: Simd>(d: [S; IN]) -> [S; IN] {
    // SAFETY: the processor has the instructions of `S`, for which the function is compiled.
    unsafe {
        let (two, four, five) = (S::splat(2.0), S::splat(4.0), S::splat(-5.0));
        // Common parts of the rows for +1, -1 and for +2, -2.
        let a = S::splat(-4.0).fma(d[2], d[4]);
        let b = S::splat(-4.0).fma(d[1], d[3]);
        let c = d[4].sub(d[2]);
        let e = two.mul(d[3].sub(d[1]));
        [
            four.fma(d[0], five.fma(d[2], d[4])),
            a.add(b),
            a.sub(b),
            c.add(e),
            c.sub(e),
            four.fma(d[1], five.fma(d[3], d[5])),
        ]
    }
}

/// The transform of six sums to four outputs.
#[inline(always)]
unsafe fn output<S: Simd>(m: [S; IN]) -> [S; OUT] {
    // SAFETY: the processor has the instructions of `S`, for which the function is compiled.
    unsafe {
        let (a, b) = (m[1].add(m[2]), m[1].sub(m[2]));
        let (c, d) = (m[3].add(m[4]), m[3].sub(m[4]));
        [
            m[0].add(a).add(c),
            S::splat(2.0).fma(d, b),
            S::splat(4.0).fma(c, a),
            S::splat(8.0).fma(d, b).add(m[5]),
        ]
    }
}

/// The four rows of four outputs of a vector's tiles, from their sums in matrices that lie `step`
/// apart.
#[inline(always)]
pub(super) unsafe fn lines<S: Simd>(from: *const f32, step: usize) -> [[S; OUT]; OUT] {
    // SAFETY: `from` has a vector of sums in each of the matrices that lie `step` apart.
    unsafe {
        let mut half = [[S::splat(0.0); IN]; OUT];
        for j in 0..IN {
            let mut column = [S::splat(0.0); IN];
            for i in 0..IN {
                column[i] = S::load(from.add((i * IN + j) * step));
            }
            let column = output(column);
            for i in 0..OUT {
                half[i][j] = column[i];
            }
        }
        let mut lines = [[S::splat(0.0); OUT]; OUT];
        for i in 0..OUT {
            lines[i] = output(half[i]);
        }
        lines
    }
}
