//! Matrix transposition: `to[j * step_to + i] = from[i * step_from + j]`.
//!
//! Squares of as many elements as a register has are transposed in registers. Where the destination
//! rows are close together they are written directly; otherwise a block whose rows are two cache
//! lines is transposed in scratch memory, so that both sides are read and written in whole lines,
//! however many rows are a power of two apart.

use super::simd::{Isa, isa};
use std::mem::MaybeUninit;

/// The maximum number of elements of a block's row.
const ROW: usize = 64;
/// A block's memory: the largest one has 64 rows of 2 bytes.
const ROOM: usize = ROW * 128 / size_of::<u128>();
/// The number of bytes over which the destination rows may be spread, so that the first-level cache
/// holds all their lines.
const CLOSE: usize = 16 << 10;

/// # Safety
/// `from` has `rows` rows of `columns` elements, `step_from` apart; `to` has `columns` rows of
/// `rows` elements, `step_to` apart, and does not overlap it. Elements need no alignment.
pub(super) unsafe fn turn<T: Copy>(
    (rows, columns): (usize, usize),
    from: *const T,
    step_from: isize,
    to: *mut T,
    step_to: isize,
) {
    let size = size_of::<T>();
    let side = side(size, rows.min(columns));
    let block = (128 / size).min(ROW);
    // SAFETY: there are so many rows and columns at both steps.
    unsafe {
        let close = CLOSE / (step_to.unsigned_abs() * size).max(1);
        if close >= side.max(block / 2) {
            let close = close / block.min(close) * block.min(close);
            for (j, m) in parts(columns, close, side) {
                let (x, y) = (from.add(j), to.offset(j as isize * step_to));
                squares((rows, m), side, x, step_from, y, step_to);
            }
            return;
        }
        // A block has at most ROW rows of at most 128 bytes.
        let mut room = [MaybeUninit::<u128>::uninit(); ROOM];
        let room = room.as_mut_ptr().cast::<T>();
        for (j, m) in parts(columns, block, side) {
            for (i, n) in parts(rows, block, side) {
                let x = from.offset(i as isize * step_from + j as isize);
                let y = to.offset(j as isize * step_to + i as isize);
                squares((n, m), side, x, step_from, room, n as isize);
                for c in 0..m {
                    let row = y.offset(c as isize * step_to).cast::<u8>();
                    std::ptr::copy_nonoverlapping(room.add(c * n).cast(), row, n * size);
                }
            }
        }
    }
}

/// Returns pieces of `n`, each `most` long; the last one may overlap the one before it, so that it
/// is no shorter than `least`.
fn parts(n: usize, most: usize, least: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).step_by(most.max(1)).map(move |first| {
        let first = first.min(n.saturating_sub(least));
        (first, (n - first).min(most))
    })
}

/// Returns the side of the squares that there are instructions for, at most `most`; 1 where there
/// are none.
fn side(size: usize, most: usize) -> usize {
    let wide = isa() >= Isa::Avx2;
    match size {
        _ if !cfg!(target_arch = "x86_64") => 1,
        1 | 2 if most >= 8 => 8,
        4 if most >= 8 && wide => 8,
        4 if most >= 4 => 4,
        8 if most >= 4 && wide => 4,
        8 if most >= 2 => 2,
        _ => 1,
    }
}

/// Elements of which a square is transposed in registers; addresses and strides are in bytes.
trait Square {
    /// Bytes of an element.
    const SIZE: usize;
    /// Elements of a side.
    const SIDE: usize;
    /// # Safety
    /// All rows can be read and written, and the instructions are there.
    unsafe fn turn(from: *const u8, step_from: isize, to: *mut u8, step_to: isize);
}

/// Elements one by one.
struct One<const SIZE: usize>;

impl<const SIZE: usize> Square for One<SIZE> {
    const SIZE: usize = SIZE;
    const SIDE: usize = 1;
    #[inline(always)]
    unsafe fn turn(from: *const u8, _: isize, to: *mut u8, _: isize) {
        // SAFETY: both have an element of `SIZE` bytes.
        unsafe {
            to.cast::<[u8; SIZE]>()
                .write(from.cast::<[u8; SIZE]>().read())
        };
    }
}

/// Transposes a matrix that has at least as many rows and columns as a square; the last squares
/// overlap those before them.
#[inline(always)]
unsafe fn each<Q: Square>(
    (rows, columns): (usize, usize),
    (from, step_from): (*const u8, isize),
    (to, step_to): (*mut u8, isize),
) {
    for i in (0..rows).step_by(Q::SIDE) {
        let i = i.min(rows - Q::SIDE);
        // SAFETY: there are so many rows and columns at both steps.
        unsafe {
            let from = from.offset(i as isize * step_from);
            let to = to.add(i * Q::SIZE);
            for j in (0..columns).step_by(Q::SIDE) {
                let j = j.min(columns - Q::SIDE);
                let to = to.offset(j as isize * step_to);
                Q::turn(from.add(j * Q::SIZE), step_from, to, step_to);
            }
        }
    }
}

/// Transposes a matrix that has at least `side` rows and columns.
#[inline(always)]
unsafe fn squares<T: Copy>(
    extents: (usize, usize),
    side: usize,
    from: *const T,
    step_from: isize,
    to: *mut T,
    step_to: isize,
) {
    let size = size_of::<T>() as isize;
    let from = (from.cast::<u8>(), step_from * size);
    let to = (to.cast::<u8>(), step_to * size);
    // SAFETY: there are so many rows and columns at both steps; sides are those that there are
    // instructions for.
    unsafe {
        match (size, side) {
            #[cfg(target_arch = "x86_64")]
            (1, 8) => each::<x86::Bytes>(extents, from, to),
            #[cfg(target_arch = "x86_64")]
            (2, 8) => each::<x86::Pairs>(extents, from, to),
            #[cfg(target_arch = "x86_64")]
            (4, 4) => each::<x86::Fours>(extents, from, to),
            #[cfg(target_arch = "x86_64")]
            (4, 8) => x86::wide::<x86::WideFours>(extents, from, to),
            #[cfg(target_arch = "x86_64")]
            (8, 2) => each::<x86::Eights>(extents, from, to),
            #[cfg(target_arch = "x86_64")]
            (8, 4) => x86::wide::<x86::WideEights>(extents, from, to),
            (1, _) => each::<One<1>>(extents, from, to),
            (2, _) => each::<One<2>>(extents, from, to),
            (4, _) => each::<One<4>>(extents, from, to),
            (8, _) => each::<One<8>>(extents, from, to),
            _ => each::<One<16>>(extents, from, to),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(clippy::needless_range_loop)] // Indices keep the rows out of memory.
mod x86 {
    use super::{Square, each};
    use crate::kernels::simd::{Avx2, Simd};
    use std::arch::x86_64::*;

    /// Like [`each`], with AVX2 instructions.
    #[target_feature(enable = "avx2")]
    pub unsafe fn wide<Q: Square>(
        extents: (usize, usize),
        from: (*const u8, isize),
        to: (*mut u8, isize),
    ) {
        // SAFETY: there are so many rows and columns at both steps.
        unsafe { each::<Q>(extents, from, to) };
    }

    macro_rules! squares {
        ($($(#[$doc:meta])* $name:ident: $size:literal, $side:literal,
            |$from:ident, $down:ident, $to:ident, $right:ident| $body:block)*) => {$(
            $(#[$doc])*
            pub struct $name;
            impl Square for $name {
                const SIZE: usize = $size;
                const SIDE: usize = $side;
                #[inline(always)]
                unsafe fn turn($from: *const u8, $down: isize, $to: *mut u8, $right: isize) {
                    // SAFETY: both have a square of the type, at their steps.
                    unsafe { $body }
                }
            }
        )*};
    }

    squares! {
        /// Eight by eight bytes.
        Bytes: 1, 8, |from, down, to, right| {
            let mut r = [_mm_setzero_si128(); 8];
            for k in 0..8 {
                r[k] = _mm_loadl_epi64(from.offset(k as isize * down).cast());
            }
            let mut twos = [_mm_setzero_si128(); 4];
            for k in 0..4 {
                twos[k] = _mm_unpacklo_epi8(r[2 * k], r[2 * k + 1]);
            }
            for half in 0..2 {
                let (a, b) = if half == 0 {
                    (_mm_unpacklo_epi16(twos[0], twos[1]), _mm_unpacklo_epi16(twos[2], twos[3]))
                } else {
                    (_mm_unpackhi_epi16(twos[0], twos[1]), _mm_unpackhi_epi16(twos[2], twos[3]))
                };
                let two = [_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b)];
                for k in 0..2 {
                    let to = to.offset((4 * half + 2 * k) as isize * right);
                    _mm_storel_epi64(to.cast(), two[k]);
                    _mm_storeh_pd(to.offset(right).cast(), _mm_castsi128_pd(two[k]));
                }
            }
        }
        /// Eight by eight pairs of bytes.
        Pairs: 2, 8, |from, down, to, right| {
            let mut r = [_mm_setzero_si128(); 8];
            for k in 0..8 {
                r[k] = _mm_loadu_si128(from.offset(k as isize * down).cast());
            }
            let mut twos = r;
            for k in 0..4 {
                twos[k] = _mm_unpacklo_epi16(r[2 * k], r[2 * k + 1]);
                twos[k + 4] = _mm_unpackhi_epi16(r[2 * k], r[2 * k + 1]);
            }
            for half in 0..2 {
                let t = [twos[4 * half], twos[4 * half + 1], twos[4 * half + 2], twos[4 * half + 3]];
                let fours = [
                    (_mm_unpacklo_epi32(t[0], t[1]), _mm_unpacklo_epi32(t[2], t[3])),
                    (_mm_unpackhi_epi32(t[0], t[1]), _mm_unpackhi_epi32(t[2], t[3])),
                ];
                for k in 0..2 {
                    let (a, b) = fours[k];
                    let to = to.offset((4 * half + 2 * k) as isize * right);
                    _mm_storeu_si128(to.cast(), _mm_unpacklo_epi64(a, b));
                    _mm_storeu_si128(to.offset(right).cast(), _mm_unpackhi_epi64(a, b));
                }
            }
        }
        /// Four by four elements of 4 bytes.
        Fours: 4, 4, |from, down, to, right| {
            let mut r = [_mm_setzero_ps(); 4];
            for k in 0..4 {
                r[k] = _mm_loadu_ps(from.offset(k as isize * down).cast());
            }
            let (a, b) = (_mm_unpacklo_ps(r[0], r[1]), _mm_unpacklo_ps(r[2], r[3]));
            let (c, d) = (_mm_unpackhi_ps(r[0], r[1]), _mm_unpackhi_ps(r[2], r[3]));
            _mm_storeu_ps(to.cast(), _mm_movelh_ps(a, b));
            _mm_storeu_ps(to.offset(right).cast(), _mm_movehl_ps(b, a));
            _mm_storeu_ps(to.offset(2 * right).cast(), _mm_movelh_ps(c, d));
            _mm_storeu_ps(to.offset(3 * right).cast(), _mm_movehl_ps(d, c));
        }
        /// Eight by eight elements of 4 bytes.
        WideFours: 4, 8, |from, down, to, right| {
            let mut rows = [Avx2::splat(0.0); 8];
            for k in 0..8 {
                rows[k] = Avx2::load(from.offset(k as isize * down).cast());
            }
            let columns = Avx2::square(rows);
            for k in 0..8 {
                columns[k].store(to.offset(k as isize * right).cast());
            }
        }
        /// Two by two elements of 8 bytes.
        Eights: 8, 2, |from, down, to, right| {
            let a = _mm_loadu_si128(from.cast());
            let b = _mm_loadu_si128(from.offset(down).cast());
            _mm_storeu_si128(to.cast(), _mm_unpacklo_epi64(a, b));
            _mm_storeu_si128(to.offset(right).cast(), _mm_unpackhi_epi64(a, b));
        }
        /// Four by four elements of 8 bytes.
        WideEights: 8, 4, |from, down, to, right| {
            let mut r = [_mm256_setzero_pd(); 4];
            for k in 0..4 {
                r[k] = _mm256_loadu_pd(from.offset(k as isize * down).cast());
            }
            let even = [_mm256_unpacklo_pd(r[0], r[1]), _mm256_unpacklo_pd(r[2], r[3])];
            let odd = [_mm256_unpackhi_pd(r[0], r[1]), _mm256_unpackhi_pd(r[2], r[3])];
            for (k, [a, b]) in [even, odd].into_iter().enumerate() {
                let to = to.offset(k as isize * right);
                _mm256_storeu_pd(to.cast(), _mm256_permute2f128_pd::<0x20>(a, b));
                let to = to.offset(2 * right);
                _mm256_storeu_pd(to.cast(), _mm256_permute2f128_pd::<0x31>(a, b));
            }
        }
    }
}

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
            (12, 64),
            (4, 5),
            (65, 300),
            (2, 70),
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
