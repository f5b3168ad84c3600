//! Products with one column: vectors run along rows.
//!
//! A panel of A has eight adjacent rows, so that a vector of them times an element of B contributes
//! to eight sums at once, where a tile of one column would use a single lane.

use super::epilogue::Target;
use super::tile::{Columns, ROWS};
use crate::kernels::simd::square::Turning;

/// Panels that are read together, so that the sums' latencies overlap.
const PANELS: usize = 8;

/// Computes the whole column: `m` rows in panels that are `panel` floats apart, each sum a chain
/// over `k` steps of each run.
///
/// # Safety
/// As for `block`, with one column.
#[inline(always)]
pub(super) unsafe fn column<S: Turning>(
    m: usize,
    k: usize,
    a: *const f32,
    panel: usize,
    b: Columns,
    target: &Target,
) {
    // SAFETY: `a` has panels of `m` rows, each `k` long, `b` a column of `k`, and the target `m`
    // places.
    unsafe {
        let mut first = 0;
        while first < m {
            let panels = (m - first).div_ceil(ROWS).min(PANELS);
            let a = a.add(first / ROWS * panel);
            let to = target.shift(first, 0);
            let rows = (m - first).min(panels * ROWS);
            match panels {
                PANELS => some::<S, PANELS>(rows, k, a, panel, b, &to),
                2.. => some::<S, 2>(rows.min(2 * ROWS), k, a, panel, b, &to),
                _ => some::<S, 1>(rows, k, a, panel, b, &to),
            }
            first += ROWS
                * match panels {
                    PANELS => PANELS,
                    2.. => 2,
                    _ => 1,
                };
        }
    }
}

/// Computes some panels, of which `rows` rows exist.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the sums out of memory.
unsafe fn some<S: Turning, const N: usize>(
    rows: usize,
    k: usize,
    a: *const f32,
    panel: usize,
    b: Columns,
    target: &Target,
) {
    let mut sums = [[0.0f32; ROWS]; N];
    for lane in (0..ROWS).step_by(S::LANES) {
        // SAFETY: the instruction set of `S` is enabled here.
        let mut acc = unsafe { [S::splat(0.0); N] };
        // SAFETY: panels are whole, and the target has a place for each row.
        let mut a = unsafe { a.add(lane) };
        // SAFETY: panels are whole, and the target has a place for each row.
        unsafe {
            for run in 0..b.runs {
                let mut at = b.ptr.add(b.lane).wrapping_add(*b.starts.add(run));
                for _ in 0..k {
                    let x = S::splat(*at);
                    for i in 0..N {
                        acc[i] = x.fma(S::load(a.add(i * panel)), acc[i]);
                    }
                    at = at.wrapping_add(b.row);
                    a = a.wrapping_add(ROWS);
                }
            }
            for i in 0..N {
                acc[i].store(sums[i].as_mut_ptr().add(lane));
            }
        }
    }
    let sums = sums.as_ptr().cast::<f32>();
    // SAFETY: panels are whole, and the target has a place for each row.
    unsafe {
        if target.plain() && !target.accumulate {
            for i in 0..rows {
                *target.c.add(i * target.ld) = *sums.add(i);
            }
            return;
        }
        for i in 0..rows {
            let sum = S::splat(*sums.add(i));
            target.shift(i, 0).finish::<S>(&sum, 1, 1, 1);
        }
    }
}
