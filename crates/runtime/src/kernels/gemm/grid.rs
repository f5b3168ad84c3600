//! The division of a product among threads.

use super::RxGemmF32;
use super::tile::{COLS, ROWS};

/// Returns how many parts along rows and columns a product is cut into for `threads`.
pub(super) fn grid(g: &RxGemmF32, threads: usize) -> (usize, usize) {
    let (m, n) = (g.m as usize, g.n as usize);
    let (row_units, column_units) = (m.div_ceil(ROWS), n.div_ceil(3 * COLS));
    let mut best = (1, 1, f64::INFINITY);
    for rows in 1..=threads {
        if !threads.is_multiple_of(rows) {
            continue;
        }
        let columns = threads / rows;
        // The largest part's work, including packing.
        let (h, w) = (
            (row_units.div_ceil(rows) * ROWS).min(m),
            (column_units.div_ceil(columns) * 3 * COLS).min(n),
        );
        let a = if g.a_packed.is_null() {
            h as f64 * 4.0
        } else {
            0.0
        };
        let b = if g.b_packed.is_null() {
            w as f64 * 4.0
        } else {
            0.0
        };
        let cost = h as f64 * w as f64 + a + b;
        if cost < best.2 {
            best = (rows, columns, cost);
        }
    }
    (best.0, best.1)
}
