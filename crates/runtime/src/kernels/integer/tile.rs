//! The innermost part: a few rows by a few columns of sums, kept in registers.

use super::share::{COLS, MOST, ROWS};
use crate::kernels::simd::{Isa, isa};

/// A vector of 32-bit sums, and the products that are added to it.
///
/// # Safety
/// Methods may be called only where the implementation's instruction set is enabled; pointers must
/// be valid for all lanes.
unsafe trait Sums: Copy {
    /// Sums in a vector.
    const LANES: usize;
    unsafe fn zero() -> Self;
    /// Returns, for each lane, `self + x.0 * y.0 + x.1 * y.1`, where the lane of `y` at `pairs` is
    /// two numbers of 16 bits and `x` is the pair at `pair` in all lanes.
    unsafe fn dot(self, pair: *const i16, pairs: Self) -> Self;
    unsafe fn pairs(from: *const i16) -> Self;
    unsafe fn store(self, to: *mut i32);
}

/// Portable code, which compilers vectorise for the target.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[derive(Clone, Copy)]
struct Plain([i32; 4]);

// SAFETY: nothing is enabled beyond what every processor has.
#[cfg(any(test, not(target_arch = "x86_64")))]
unsafe impl Sums for Plain {
    const LANES: usize = 4;
    #[inline(always)]
    unsafe fn zero() -> Self {
        Plain([0; 4])
    }
    #[inline(always)]
    unsafe fn dot(mut self, pair: *const i16, pairs: Self) -> Self {
        // SAFETY: `pair` has two numbers.
        let (x, y) = unsafe { (i32::from(*pair), i32::from(*pair.add(1))) };
        for (sum, pair) in self.0.iter_mut().zip(pairs.0) {
            let (low, high) = (i32::from(pair as i16), pair >> 16);
            *sum = sum.wrapping_add((x * low).wrapping_add(y * high));
        }
        self
    }
    #[inline(always)]
    unsafe fn pairs(from: *const i16) -> Self {
        // SAFETY: `from` has two numbers for each lane.
        let lane = |l: usize| unsafe {
            let (low, high) = (*from.add(2 * l), *from.add(2 * l + 1));
            i32::from(low) & 0xffff | i32::from(high) << 16
        };
        Plain(std::array::from_fn(lane))
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut i32) {
        // SAFETY: `to` has room for a vector.
        unsafe { to.cast::<[i32; 4]>().write_unaligned(self.0) };
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Sums;
    use std::arch::x86_64::*;

    #[derive(Clone, Copy)]
    pub(super) struct Sse2(__m128i);

    // SAFETY: every x86-64 has SSE2.
    unsafe impl Sums for Sse2 {
        const LANES: usize = 4;
        #[inline(always)]
        unsafe fn zero() -> Self {
            // SAFETY: as above.
            Sse2(unsafe { _mm_setzero_si128() })
        }
        #[inline(always)]
        unsafe fn dot(self, pair: *const i16, pairs: Self) -> Self {
            // SAFETY: `pair` has two numbers.
            unsafe {
                let x = _mm_set1_epi32(pair.cast::<i32>().read_unaligned());
                Sse2(_mm_add_epi32(self.0, _mm_madd_epi16(x, pairs.0)))
            }
        }
        #[inline(always)]
        unsafe fn pairs(from: *const i16) -> Self {
            // SAFETY: `from` has two numbers for each lane.
            Sse2(unsafe { _mm_loadu_si128(from.cast()) })
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut i32) {
            // SAFETY: `to` has room for a vector.
            unsafe { _mm_storeu_si128(to.cast(), self.0) };
        }
    }

    #[derive(Clone, Copy)]
    pub(super) struct Avx2(__m256i);

    // SAFETY: used only where AVX2 is enabled.
    unsafe impl Sums for Avx2 {
        const LANES: usize = 8;
        #[inline(always)]
        unsafe fn zero() -> Self {
            // SAFETY: the processor has AVX2.
            Avx2(unsafe { _mm256_setzero_si256() })
        }
        #[inline(always)]
        unsafe fn dot(self, pair: *const i16, pairs: Self) -> Self {
            // SAFETY: the processor has AVX2, and `pair` two numbers.
            unsafe {
                let x = _mm256_set1_epi32(pair.cast::<i32>().read_unaligned());
                Avx2(_mm256_add_epi32(self.0, _mm256_madd_epi16(x, pairs.0)))
            }
        }
        #[inline(always)]
        unsafe fn pairs(from: *const i16) -> Self {
            // SAFETY: the processor has AVX2, and `from` two numbers for each lane.
            Avx2(unsafe { _mm256_loadu_si256(from.cast()) })
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut i32) {
            // SAFETY: the processor has AVX2, and `to` room for a vector.
            unsafe { _mm256_storeu_si256(to.cast(), self.0) };
        }
    }

    /// AVX-512, with its VNNI extension where `VNNI`.
    #[derive(Clone, Copy)]
    pub(super) struct Avx512<const VNNI: bool>(__m512i);

    // SAFETY: used only where AVX-512 BW (and VNNI, if so) is enabled.
    unsafe impl<const VNNI: bool> Sums for Avx512<VNNI> {
        const LANES: usize = 16;
        #[inline(always)]
        unsafe fn zero() -> Self {
            // SAFETY: the processor has AVX-512.
            Avx512(unsafe { _mm512_setzero_si512() })
        }
        #[inline(always)]
        unsafe fn dot(self, pair: *const i16, pairs: Self) -> Self {
            // SAFETY: the processor has AVX-512, with VNNI where that is asked for, and `pair` two
            // numbers.
            unsafe {
                let x = _mm512_set1_epi32(pair.cast::<i32>().read_unaligned());
                Avx512(if VNNI {
                    _mm512_dpwssd_epi32(self.0, x, pairs.0)
                } else {
                    _mm512_add_epi32(self.0, _mm512_madd_epi16(x, pairs.0))
                })
            }
        }
        #[inline(always)]
        unsafe fn pairs(from: *const i16) -> Self {
            // SAFETY: the processor has AVX-512, and `from` two numbers for each lane.
            Avx512(unsafe { _mm512_loadu_si512(from.cast()) })
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut i32) {
            // SAFETY: the processor has AVX-512, and `to` room for a vector.
            unsafe { _mm512_storeu_si512(to.cast(), self.0) };
        }
    }
}

/// A tile's operands and destination.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    pub a: *const i16,
    pub b: *const i16,
    pub pairs: usize,
    /// The distance in elements from one panel of B to the next.
    pub step: usize,
    pub high: usize,
    pub wide: usize,
    pub c: *mut i32,
    pub ld: usize,
    /// Whether to add to the old contents.
    pub keep: bool,
}

/// `R` rows from row `first` of the panel, `V` vectors of columns.
#[inline(always)]
unsafe fn rows<S: Sums, const R: usize, const V: usize>(t: &Tile, first: usize) {
    // SAFETY: the panels have the tile's rows and columns, `t.pairs` long, and the result a place
    // for each.
    unsafe {
        let mut sums = [[S::zero(); V]; R];
        let column = |v: usize| (v * S::LANES / COLS * t.step) + v * S::LANES % COLS * 2;
        for p in 0..t.pairs {
            let mut line = [S::zero(); V];
            for (v, pairs) in line.iter_mut().enumerate() {
                *pairs = S::pairs(t.b.add(column(v) + p * 2 * COLS));
            }
            for (i, sums) in sums.iter_mut().enumerate() {
                let pair = t.a.add(p * 2 * ROWS + 2 * (first + i));
                for (sum, &pairs) in sums.iter_mut().zip(&line) {
                    *sum = sum.dot(pair, pairs);
                }
            }
        }
        let mut line = [0i32; MOST];
        for (i, sums) in sums.iter().enumerate().take(t.high.saturating_sub(first)) {
            for (v, sum) in sums.iter().enumerate() {
                sum.store(line.as_mut_ptr().add(v * S::LANES));
            }
            let to = t.c.add((first + i) * t.ld);
            for (j, &sum) in line.iter().enumerate().take(t.wide) {
                let old = if t.keep { *to.add(j) } else { 0 };
                *to.add(j) = old.wrapping_add(sum);
            }
        }
    }
}

/// Computes all rows, `R` at a time; `V` vectors make a panel.
#[inline(always)]
unsafe fn panel<S: Sums, const R: usize, const V: usize, const TWICE: usize>(t: &Tile) {
    let mut first = 0;
    while first < t.high {
        // SAFETY: the panels have the tile's rows and columns, `t.pairs` long, and the result a
        // place for each.
        unsafe {
            match (t.high - first, t.wide > COLS) {
                (1, false) => rows::<S, 1, V>(t, first),
                (1, true) => rows::<S, 1, TWICE>(t, first),
                (_, false) => rows::<S, R, V>(t, first),
                (_, true) => rows::<S, R, TWICE>(t, first),
            }
        }
        first += R;
    }
}

/// The instructions that compute tiles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kernel {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Vnni,
}

impl Kernel {
    /// Returns the best that the processor has and `RELAX_ISA` allows.
    pub(super) fn chosen() -> Kernel {
        match isa() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 if is_x86_feature_detected!("avx512vnni") => Kernel::Vnni,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Kernel::Avx512,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Kernel::Avx2,
            _ => Kernel::Plain,
        }
    }

    /// Panels of B in a tile.
    pub(super) fn panels(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 | Kernel::Vnni => 2,
            _ => 1,
        }
    }

    /// The products of a panel of A and of one or two panels of B.
    ///
    /// # Safety
    /// The panels have as many pairs as the tile says, the result the rows and columns; the
    /// processor has the instructions.
    pub(super) unsafe fn run(self, t: &Tile) {
        #[cfg(target_arch = "x86_64")]
        {
            use x86::{Avx2, Avx512, Sse2};
            #[target_feature(enable = "avx2")]
            unsafe fn avx2(t: &Tile) {
                // SAFETY: the instruction set is enabled here; the panels and the result are those
                // of the tile.
                unsafe { panel::<Avx2, 4, 2, 2>(t) };
            }
            #[target_feature(enable = "avx512f,avx512bw,avx2")]
            unsafe fn avx512(t: &Tile) {
                // SAFETY: as above.
                unsafe { panel::<Avx512<false>, 8, 1, 2>(t) };
            }
            #[target_feature(enable = "avx512f,avx512bw,avx512vnni,avx2")]
            unsafe fn vnni(t: &Tile) {
                // SAFETY: as above.
                unsafe { panel::<Avx512<true>, 8, 1, 2>(t) };
            }
            // SAFETY: `chosen` found what is enabled; the panels and the result are those of the
            // tile.
            unsafe {
                match self {
                    Kernel::Plain => panel::<Sse2, 2, 4, 4>(t),
                    Kernel::Avx2 => avx2(t),
                    Kernel::Avx512 => avx512(t),
                    Kernel::Vnni => vnni(t),
                }
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        // SAFETY: the panels and the result are those of the tile.
        unsafe {
            panel::<Plain, 2, 4, 4>(t);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks every kernel of this processor, and the portable code that other targets use, against
    /// the sums one by one.
    #[test]
    fn tiles_are_right() {
        let number = |i: usize| (i as i64 * 7919 % 65_536 - 32_768) as i16;
        let pairs = 5;
        let step = pairs * 2 * COLS;
        let a: Vec<i16> = (0..pairs * 2 * ROWS).map(number).collect();
        let b: Vec<i16> = (0..2 * step).map(|i| number(i + 99)).collect();
        let mut kernels = vec![None, Some(Kernel::Plain)];
        #[cfg(target_arch = "x86_64")]
        {
            let short = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
            let vnni = short && is_x86_feature_detected!("avx512vnni");
            kernels.extend(is_x86_feature_detected!("avx2").then_some(Some(Kernel::Avx2)));
            kernels.extend(short.then_some(Some(Kernel::Avx512)));
            kernels.extend(vnni.then_some(Some(Kernel::Vnni)));
        }
        for kernel in kernels {
            let most = kernel.map_or(1, Kernel::panels) * COLS;
            for (high, wide) in [
                (1, 13),
                (2, 16),
                (7, 3),
                (8, most),
                (1, most),
                (5, most - 1),
            ] {
                let mut c = vec![3i32; ROWS * MOST];
                let t = Tile {
                    a: a.as_ptr(),
                    b: b.as_ptr(),
                    pairs,
                    step,
                    high,
                    wide,
                    c: c.as_mut_ptr(),
                    ld: MOST,
                    keep: true,
                };
                // SAFETY: the panels have five pairs, the result all rows and columns; the
                // processor has the instructions.
                unsafe {
                    match kernel {
                        None => panel::<Plain, 2, 4, 4>(&t),
                        Some(k) => k.run(&t),
                    }
                }
                for (at, &found) in c.iter().enumerate() {
                    let (i, j) = (at / MOST, at % MOST);
                    let mut want = 3i32;
                    for p in (0..2 * pairs).filter(|_| i < high && j < wide) {
                        let x = a[(p / 2 * ROWS + i) * 2 + p % 2];
                        let y = b[j / COLS * step + (p / 2 * COLS + j % COLS) * 2 + p % 2];
                        want = want.wrapping_add(i32::from(x) * i32::from(y));
                    }
                    assert_eq!(found, want, "{kernel:?}: {i}, {j} of {high} by {wide}");
                }
            }
        }
    }
}
