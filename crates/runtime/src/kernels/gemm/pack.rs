//! Operands in the order in which tiles read them. The format is the same on every machine: panels
//! of 8 rows of A and of 16 columns of B, within which the common axis is the outer one.

use super::tile::{COLS, ROWS};
use crate::kernels::turn::turn;

/// Packs `m` by `k` elements of A into panels of 8 rows; missing rows are 0.
///
/// # Safety
/// `a` is readable at all `i * rs + p * cs`, `out` has room for `ceil(m/8) * 8 * k` floats.
pub unsafe fn rows(m: usize, k: usize, a: *const f32, rs: isize, cs: isize, out: *mut f32) {
    // SAFETY: `a` has `m` by `k` floats at its strides, and `out` room for whole panels.
    unsafe {
        for panel in 0..m.div_ceil(ROWS) {
            let a = a.offset((panel * ROWS) as isize * rs);
            panel_of::<ROWS>(
                (m - panel * ROWS).min(ROWS),
                k,
                a,
                rs,
                cs,
                out.add(panel * ROWS * k),
            );
        }
    }
}

/// Packs `k` by `n` elements of B into panels of 16 columns; missing columns are 0.
///
/// # Safety
/// `b` is readable at all `p * rs + j * cs`, `out` has room for `ceil(n/16) * 16 * k` floats.
pub unsafe fn columns(k: usize, n: usize, b: *const f32, rs: isize, cs: isize, out: *mut f32) {
    // SAFETY: `b` has `k` by `n` floats at its strides, and `out` room for whole panels.
    unsafe {
        for panel in 0..n.div_ceil(COLS) {
            let b = b.offset((panel * COLS) as isize * cs);
            panel_of::<COLS>(
                (n - panel * COLS).min(COLS),
                k,
                b,
                cs,
                rs,
                out.add(panel * COLS * k),
            );
        }
    }
}

/// Packs one panel: `out[p * W + i] = x[i * across + p * along]` for `i < width`, 0 up to `W`.
#[inline(always)]
unsafe fn panel_of<const W: usize>(
    width: usize,
    k: usize,
    x: *const f32,
    across: isize,
    along: isize,
    out: *mut f32,
) {
    // SAFETY: the matrix has `width` by `k` floats at its strides, and `out` room for a panel.
    unsafe {
        if width < W {
            std::ptr::write_bytes(out, 0, k * W);
        }
        if across == 1 {
            for p in 0..k {
                let (from, to) = (x.offset(p as isize * along), out.add(p * W));
                // Lengths known at compile time become a few moves instead of a call.
                match width == W {
                    true => std::ptr::copy_nonoverlapping(from, to, W),
                    false => std::ptr::copy_nonoverlapping(from, to, width),
                }
            }
        } else if along == 1 && k > 0 {
            turn((width, k), x, across, out, W as isize);
        } else {
            for (p, i) in (0..k).flat_map(|p| (0..width).map(move |i| (p, i))) {
                *out.add(p * W + i) = *x.offset(i as isize * across + p as isize * along);
            }
        }
    }
}

/// Returns the number of floats that [`rows`] writes.
pub const fn size_of_rows(m: usize, k: usize) -> usize {
    m.next_multiple_of(ROWS) * k
}

/// Returns the number of floats that [`columns`] writes.
pub const fn size_of_columns(k: usize, n: usize) -> usize {
    n.next_multiple_of(COLS) * k
}
