//! Matrices turned over: `to[j * step_to + i] = from[i * step_from + j]`.
//!
//! A block whose rows are two lines of the cache is turned over in memory of its own, so that both sides are read and
//! written in whole lines, however many rows lie a power of two apart.

use super::simd::{Isa, isa};
use std::mem::MaybeUninit;

/// Most elements of a block's row.
const ROW: usize = 64;
/// A block's memory: the largest one has 64 rows of 2 bytes.
const ROOM: usize = ROW * 128 / size_of::<u128>();

/// # Safety
/// `from` has `rows` rows of `columns` elements, `step_from` apart; `to` has `columns` rows of `rows` elements, `step_to`
/// apart, and overlaps it nowhere. Elements may lie anywhere.
pub(super) unsafe fn turn<T: Copy>(
    (rows, columns): (usize, usize),
    from: *const T,
    step_from: isize,
    to: *mut T,
    step_to: isize,
) {
    let size = size_of::<T>();
    let block = (128 / size).min(ROW);
    let mut room = [MaybeUninit::<u128>::uninit(); ROOM];
    let room = room.as_mut_ptr().cast::<T>();
    // SAFETY: the caller's promise; a block has at most ROW rows of at most 128 bytes.
    unsafe {
        let wide = size == 4 && isa() >= Isa::Avx2;
        let (mut i, mut j) = (0, 0);
        while j < columns {
            let (n, m) = ((rows - i).min(block), (columns - j).min(block));
            let x = from.offset(i as isize * step_from + j as isize);
            let y = to.offset(j as isize * step_to + i as isize);
            // Whole squares in vectors, the rows and columns that are left one by one.
            let (rows8, columns8) = if wide { (n / 8 * 8, m / 8 * 8) } else { (0, 0) };
            squares((rows8, columns8), x.cast(), step_from, room.cast(), n);
            for r in 0..n {
                let row = x.offset(r as isize * step_from);
                for c in if r < rows8 { columns8 } else { 0 }..m {
                    *room.add(c * n + r) = row.add(c).read_unaligned();
                }
            }
            for c in 0..m {
                let row = y.offset(c as isize * step_to).cast::<u8>();
                std::ptr::copy_nonoverlapping(room.add(c * n).cast(), row, n * size);
            }
            i += n;
            if i == rows {
                (i, j) = (0, j + m);
            }
        }
    }
}

/// Elements of 4 bytes, `n` by `m`, which are multiples of 8, to rows that lie `to_step` apart.
#[cfg(target_arch = "x86_64")]
unsafe fn squares(
    (n, m): (usize, usize),
    from: *const f32,
    step: isize,
    to: *mut f32,
    to_step: usize,
) {
    use std::arch::x86_64::*;
    #[target_feature(enable = "avx2")]
    unsafe fn square(from: *const f32, step: isize, to: *mut f32, to_step: usize) {
        // SAFETY: the callers' promise.
        unsafe {
            let mut r = [_mm256_setzero_ps(); 8];
            for (k, row) in r.iter_mut().enumerate() {
                *row = _mm256_loadu_ps(from.offset(k as isize * step));
            }
            let mut pairs = r;
            for k in 0..4 {
                pairs[2 * k] = _mm256_unpacklo_ps(r[2 * k], r[2 * k + 1]);
                pairs[2 * k + 1] = _mm256_unpackhi_ps(r[2 * k], r[2 * k + 1]);
            }
            let mut fours = r;
            for k in 0..2 {
                for h in 0..2 {
                    let (a, b) = (pairs[4 * k + h], pairs[4 * k + h + 2]);
                    fours[4 * k + 2 * h] = _mm256_shuffle_ps::<0b01_00_01_00>(a, b);
                    fours[4 * k + 2 * h + 1] = _mm256_shuffle_ps::<0b11_10_11_10>(a, b);
                }
            }
            for k in 0..4 {
                let (a, b) = (fours[k], fours[k + 4]);
                let to = to.add(k * to_step);
                _mm256_storeu_ps(to, _mm256_permute2f128_ps::<0x20>(a, b));
                _mm256_storeu_ps(to.add(4 * to_step), _mm256_permute2f128_ps::<0x31>(a, b));
            }
        }
    }
    for i in (0..n).step_by(8) {
        for j in (0..m).step_by(8) {
            // SAFETY: the callers' promise: AVX2 is there.
            unsafe {
                let from = from.offset(i as isize * step + j as isize);
                square(from, step, to.add(j * to_step + i), to_step);
            }
        }
    }
}

/// Never called: only x86-64 has the instruction set.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn squares(_: (usize, usize), _: *const f32, _: isize, _: *mut f32, _: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Copy + Default + PartialEq + std::fmt::Debug>(of: impl Fn(usize) -> T) {
        for (rows, columns) in [
            (1, 1),
            (3, 200),
            (64, 64),
            (96, 40),
            (33, 70),
            (8, 16),
            (130, 9),
        ] {
            let (gap, other) = (columns + 3, rows + 5);
            let x: Vec<T> = (0..rows * gap).map(&of).collect();
            let mut y = vec![of(7); columns * other];
            // SAFETY: both have room for all rows.
            unsafe {
                let to = y.as_mut_ptr();
                turn(
                    (rows, columns),
                    x.as_ptr(),
                    gap as isize,
                    to,
                    other as isize,
                );
            }
            for (place, found) in y.iter().enumerate() {
                let (c, r) = (place / other, place % other);
                let wanted = if r < rows { x[r * gap + c] } else { of(7) };
                assert_eq!(*found, wanted, "{rows} by {columns}, {r}, {c}");
            }
        }
    }

    #[test]
    fn turned_matrices_are_what_loops_give() {
        check(|i| i as u8);
        check(|i| i as u16);
        check(|i| i as u32);
        check(|i| i as u64);
        check(|i| i as u128);
    }
}
