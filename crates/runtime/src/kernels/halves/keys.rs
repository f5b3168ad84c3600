//! Comparisons of float16 by its bits: sixteen at a time, where conversions take most of the time of
//! an operation that rounds nothing.

use super::{Operand, Pair};
use std::arch::x86_64::*;

/// Elements of a vector.
const LANES: usize = 16;
/// The bits of infinity.
const INFINITY: i16 = 0x7c00;

/// Returns whether an operation is one of these.
pub(super) fn knows(pair: Pair, operands: &[Operand; 2]) -> bool {
    let compares = !matches!(pair, Pair::Add | Pair::Sub | Pair::Mul | Pair::Div);
    compares && operands.iter().all(|x| !matches!(x, Operand::Number(_)))
}

/// An element's place among all: what is less has a lesser key, zeros have the same.
#[inline(always)]
unsafe fn key(x: __m256i) -> __m256i {
    // SAFETY: arithmetic of vectors, whose instruction set the callers enable.
    unsafe {
        let size = _mm256_and_si256(x, _mm256_set1_epi16(0x7fff));
        // The sign of a number that is not 0.
        _mm256_sign_epi16(size, _mm256_or_si256(x, _mm256_set1_epi16(1)))
    }
}

/// All bits of the elements that are NaN.
#[inline(always)]
unsafe fn nan(x: __m256i) -> __m256i {
    // SAFETY: as above.
    unsafe {
        let size = _mm256_and_si256(x, _mm256_set1_epi16(0x7fff));
        _mm256_cmpgt_epi16(size, _mm256_set1_epi16(INFINITY))
    }
}

/// All bits of the elements for which `a < b`, or with `EQUAL` those that are equal.
#[inline(always)]
unsafe fn holds<const EQUAL: bool>(a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: as above.
    unsafe {
        let (left, right) = (key(a), key(b));
        let holds = match EQUAL {
            true => _mm256_cmpeq_epi16(left, right),
            false => _mm256_cmpgt_epi16(right, left),
        };
        _mm256_andnot_si256(_mm256_or_si256(nan(a), nan(b)), holds)
    }
}

/// Writes truth values of all bits or none.
#[inline(always)]
unsafe fn write(all: __m256i, to: *mut u8) {
    // SAFETY: there is room for sixteen.
    unsafe {
        let (low, high) = (
            _mm256_castsi256_si128(all),
            _mm256_extracti128_si256::<1>(all),
        );
        let truths = _mm_and_si128(_mm_packs_epi16(low, high), _mm_set1_epi8(1));
        _mm_storeu_si128(to.cast(), truths);
    }
}

/// The result of a vector of elements.
#[inline(always)]
unsafe fn put(pair: Pair, a: __m256i, b: __m256i, to: *mut u8) {
    // SAFETY: there is room for sixteen results.
    unsafe {
        match pair {
            Pair::Min => {
                let value = _mm256_blendv_epi8(b, a, holds::<false>(a, b));
                _mm256_storeu_si256(to.cast(), value);
            }
            Pair::Max => {
                let value = _mm256_blendv_epi8(b, a, holds::<false>(b, a));
                _mm256_storeu_si256(to.cast(), value);
            }
            Pair::Lt => write(holds::<false>(a, b), to),
            Pair::Le => {
                let either = _mm256_or_si256(holds::<false>(a, b), holds::<true>(a, b));
                write(either, to);
            }
            Pair::Eq => write(holds::<true>(a, b), to),
            _ => write(
                _mm256_xor_si256(holds::<true>(a, b), _mm256_set1_epi16(-1)),
                to,
            ),
        }
    }
}

/// See [`super::pairs`].
///
/// # Safety
/// As there; operands are elements.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn pairs(pair: Pair, n: usize, operands: [Operand; 2], to: *mut u8) {
    /// One operation, so that it is not asked for at each vector.
    macro_rules! each {
        ($($name:ident: $size:literal),+) => {
            match pair {
                // SAFETY: the caller's arguments.
                $(Pair::$name => unsafe { row::<$size>(Pair::$name, n, operands, to) },)+
                _ => {}
            }
        };
    }
    each!(Min: 2, Max: 2, Eq: 1, Ne: 1, Lt: 1, Le: 1);
}

/// A row of results of `SIZE` bytes.
#[inline(always)]
unsafe fn row<const SIZE: usize>(pair: Pair, n: usize, operands: [Operand; 2], to: *mut u8) {
    // SAFETY: operands have `n` elements or one, and the result has `n`.
    unsafe {
        let mut lines = [[0u16; LANES]; 2];
        let mut at = [std::ptr::null::<u16>(); 2];
        let mut steps = [0usize; 2];
        for (k, operand) in operands.iter().enumerate() {
            match *operand {
                Operand::Lies(from) if n >= LANES => (at[k], steps[k]) = (from, 1),
                Operand::Lies(from) => {
                    std::ptr::copy_nonoverlapping(from, lines[k].as_mut_ptr(), n);
                }
                Operand::One(from) => lines[k] = [from.read_unaligned(); LANES],
                Operand::Number(_) => {}
            }
            if steps[k] == 0 {
                at[k] = lines[k].as_ptr();
            }
        }
        whole::<SIZE>(pair, n, (at, steps), to);
    }
}

/// [`row`] of operands that are whole vectors, with steps from one to the next.
#[inline(always)]
unsafe fn whole<const SIZE: usize>(
    pair: Pair,
    n: usize,
    (at, steps): ([*const u16; 2], [usize; 2]),
    to: *mut u8,
) {
    // SAFETY: as for [`row`]. The last vector overlaps the one before: it is read before that is
    // written, as the result may lie where an operand does.
    unsafe {
        if n < LANES {
            let mut made = [0u8; 2 * LANES];
            let (a, b) = (read(at[0]), read(at[1]));
            put(pair, a, b, made.as_mut_ptr());
            std::ptr::copy_nonoverlapping(made.as_ptr(), to, n * SIZE);
            return;
        }
        let last = n - LANES;
        let a = read(at[0].add(last * steps[0]));
        let b = read(at[1].add(last * steps[1]));
        for i in (0..last).step_by(LANES) {
            let a = read(at[0].add(i * steps[0]));
            let b = read(at[1].add(i * steps[1]));
            put(pair, a, b, to.add(i * SIZE));
        }
        put(pair, a, b, to.add(last * SIZE));
    }
}

/// Sixteen elements.
#[inline(always)]
unsafe fn read(from: *const u16) -> __m256i {
    // SAFETY: as many can be read.
    unsafe { _mm256_loadu_si256(from.cast()) }
}
