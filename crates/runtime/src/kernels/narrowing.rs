//! Vectors of narrow floats, held as float32.

use super::simd::{Avx2, Avx512, Simd, rounds};
use half::{bf16, f16};
use std::arch::asm;
use std::arch::x86_64::*;

/// Vectors that convert float16, or with `BRAIN` bfloat16.
///
/// # Safety
/// As for [`Simd`].
#[allow(clippy::missing_safety_doc)] // The trait's own section holds for every method.
pub(super) unsafe trait Narrowing: Simd {
    /// Reads all lanes, unaligned.
    unsafe fn widened<const BRAIN: bool>(from: *const u16) -> Self;
    /// Reads the first `n` lanes, fewer than all; the others are 0.
    unsafe fn widened_part<const BRAIN: bool>(from: *const u16, n: usize) -> Self;
    /// Writes all lanes, unaligned, each rounded to nearest even.
    unsafe fn narrow<const BRAIN: bool>(self, to: *mut u16);
    /// Returns what reading gives of what was written.
    unsafe fn rounded<const BRAIN: bool>(self) -> Self;
    /// [`Narrowing::narrow`] and [`Narrowing::rounded`] at once.
    unsafe fn put<const BRAIN: bool>(self, to: *mut u16) -> Self;
    /// Reads the elements of two vectors, in an order of lanes that [`Narrowing::narrow_two`],
    /// [`Narrowing::exact_two`] and [`Narrowing::test_two`] turn back. Unless
    /// [`Narrowing::TURNS`] says otherwise of bfloat16, it is that of the elements.
    #[inline(always)]
    unsafe fn widened_two<const BRAIN: bool>(from: *const u16) -> [Self; 2] {
        // SAFETY: as many elements can be read.
        unsafe {
            [
                Self::widened::<BRAIN>(from),
                Self::widened::<BRAIN>(from.add(Self::LANES)),
            ]
        }
    }
    /// Writes two vectors, each lane rounded to nearest even.
    #[inline(always)]
    unsafe fn narrow_two<const BRAIN: bool>(both: [Self; 2], to: *mut u16) {
        // SAFETY: `to` has room for as many elements.
        unsafe {
            both[0].narrow::<BRAIN>(to);
            both[1].narrow::<BRAIN>(to.add(Self::LANES));
        }
    }
    /// [`Narrowing::narrow_two`] of vectors in the order of elements.
    #[inline(always)]
    unsafe fn put_two<const BRAIN: bool>(both: [Self; 2], to: *mut u16) {
        // SAFETY: `to` has room for as many elements.
        unsafe {
            both[0].narrow::<BRAIN>(to);
            both[1].narrow::<BRAIN>(to.add(Self::LANES));
        }
    }
    /// [`Narrowing::narrow_two`] of what narrow floats can hold.
    #[inline(always)]
    unsafe fn exact_two<const BRAIN: bool>(both: [Self; 2], to: *mut u16) {
        // SAFETY: `to` has room for as many elements.
        unsafe { Self::narrow_two::<BRAIN>(both, to) };
    }
    /// [`Narrowing::rounded`] of two vectors, whatever the order of their lanes.
    #[inline(always)]
    unsafe fn rounded_two<const BRAIN: bool>(both: [Self; 2]) -> [Self; 2] {
        // SAFETY: arithmetic of vectors.
        unsafe { [both[0].rounded::<BRAIN>(), both[1].rounded::<BRAIN>()] }
    }
    /// [`Narrowing::test`] of two vectors.
    #[inline(always)]
    unsafe fn test_two<const BRAIN: bool, const PREDICATE: i32>(
        a: [Self; 2],
        b: [Self; 2],
        to: *mut u8,
    ) {
        // SAFETY: `to` has room for as many truth values.
        unsafe {
            a[0].test::<PREDICATE>(b[0], to);
            a[1].test::<PREDICATE>(b[1], to.add(Self::LANES));
        }
    }
    /// Two vectors of bfloat16 are those of even and of odd places: both come of a register by one
    /// instruction each, and go into one likewise.
    const TURNS: bool = false;
    /// Lanes in the order of elements, in that of [`Narrowing::widened_two`] for bfloat16.
    #[inline(always)]
    unsafe fn turned(both: [Self; 2]) -> [Self; 2] {
        both
    }
    /// The inverse of [`Narrowing::turned`].
    #[inline(always)]
    unsafe fn returned(both: [Self; 2]) -> [Self; 2] {
        both
    }
    /// Writes whether each lane and that of `b` compare so (a predicate of comparisons in AVX), as
    /// truth values.
    unsafe fn test<const PREDICATE: i32>(self, b: Self, to: *mut u8);
    /// Reads bytes as truth values, unaligned: 1 where one is not 0, else 0.
    unsafe fn truths(from: *const u8) -> Self;
    /// All lanes the one that is read.
    #[inline(always)]
    unsafe fn widened_one<const BRAIN: bool>(from: *const u16) -> Self {
        // SAFETY: the element can be read.
        unsafe {
            let bits = from.read_unaligned();
            Self::splat(match BRAIN {
                true => bf16::from_bits(bits).to_f32(),
                false => f16::from_bits(bits).to_f32(),
            })
        }
    }
}

// SAFETY: every method does what the trait says, in the instruction set of `dispatch_narrowing`.
unsafe impl Narrowing for Avx2 {
    #[inline(always)]
    unsafe fn widened<const BRAIN: bool>(from: *const u16) -> Self {
        // SAFETY: eight elements can be read.
        unsafe {
            let x = _mm_loadu_si128(from.cast());
            Avx2(match BRAIN {
                true => _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(x))),
                false => _mm256_cvtph_ps(x),
            })
        }
    }

    #[inline(always)]
    unsafe fn widened_part<const BRAIN: bool>(from: *const u16, n: usize) -> Self {
        // SAFETY: `n` elements can be read, fewer than eight.
        unsafe {
            let mut line = [0u16; 8];
            std::ptr::copy_nonoverlapping(from, line.as_mut_ptr(), n);
            Self::widened::<BRAIN>(line.as_ptr())
        }
    }

    #[inline(always)]
    unsafe fn narrow<const BRAIN: bool>(self, to: *mut u16) {
        // SAFETY: `to` has room for eight elements.
        unsafe {
            let bits = if BRAIN {
                let wide = brain(self.0);
                let packed = _mm256_packus_epi32(wide, wide);
                _mm256_castsi256_si128(_mm256_permute4x64_epi64::<0xd8>(packed))
            } else {
                _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0)
            };
            _mm_storeu_si128(to.cast(), bits);
        }
    }

    #[inline(always)]
    unsafe fn rounded<const BRAIN: bool>(self) -> Self {
        // SAFETY: arithmetic of vectors.
        unsafe {
            Avx2(match BRAIN {
                true => _mm256_castsi256_ps(_mm256_slli_epi32::<16>(brain(self.0))),
                false => _mm256_cvtph_ps(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0)),
            })
        }
    }

    #[inline(always)]
    unsafe fn put<const BRAIN: bool>(self, to: *mut u16) -> Self {
        // SAFETY: `to` has room for eight elements.
        unsafe {
            self.narrow::<BRAIN>(to);
            Self::widened::<BRAIN>(to)
        }
    }

    #[inline(always)]
    unsafe fn test<const PREDICATE: i32>(self, b: Self, to: *mut u8) {
        // SAFETY: `to` has room for eight elements.
        unsafe {
            let all = _mm256_castps_si256(_mm256_cmp_ps::<PREDICATE>(self.0, b.0));
            let ones = _mm256_srli_epi32::<31>(all);
            let halves = _mm_packs_epi32(
                _mm256_castsi256_si128(ones),
                _mm256_extracti128_si256::<1>(ones),
            );
            _mm_storel_epi64(to.cast(), _mm_packs_epi16(halves, halves));
        }
    }

    const TURNS: bool = true;

    #[inline(always)]
    unsafe fn widened_two<const BRAIN: bool>(from: *const u16) -> [Self; 2] {
        // SAFETY: sixteen elements can be read.
        unsafe {
            if !BRAIN {
                return [
                    Self::widened::<false>(from),
                    Self::widened::<false>(from.add(8)),
                ];
            }
            let all = _mm256_loadu_si256(from.cast());
            let odd = _mm256_and_si256(all, _mm256_set1_epi32(!0xffff));
            let even = _mm256_slli_epi32::<16>(all);
            [
                Avx2(_mm256_castsi256_ps(even)),
                Avx2(_mm256_castsi256_ps(odd)),
            ]
        }
    }

    #[inline(always)]
    unsafe fn narrow_two<const BRAIN: bool>(both: [Self; 2], to: *mut u16) {
        // SAFETY: `to` has room for sixteen elements.
        unsafe {
            if !BRAIN {
                both[0].narrow::<false>(to);
                return both[1].narrow::<false>(to.add(8));
            }
            let [even, odd] = brains_of(both);
            let all = _mm256_blend_epi16::<0xaa>(_mm256_srli_epi32::<16>(even), odd);
            _mm256_storeu_si256(to.cast(), all);
        }
    }

    #[inline(always)]
    unsafe fn put_two<const BRAIN: bool>(both: [Self; 2], to: *mut u16) {
        // SAFETY: `to` has room for sixteen elements.
        unsafe {
            if !BRAIN {
                return Self::narrow_two::<false>(both, to);
            }
            let [a, b] = brains_of(both);
            let (a, b) = (_mm256_srli_epi32::<16>(a), _mm256_srli_epi32::<16>(b));
            let all = _mm256_permute4x64_epi64::<0xd8>(_mm256_packus_epi32(a, b));
            _mm256_storeu_si256(to.cast(), all);
        }
    }

    #[inline(always)]
    unsafe fn exact_two<const BRAIN: bool>(both: [Self; 2], to: *mut u16) {
        // SAFETY: `to` has room for sixteen elements.
        unsafe {
            if !BRAIN {
                return Self::narrow_two::<false>(both, to);
            }
            let [even, odd] = [
                _mm256_castps_si256(both[0].0),
                _mm256_castps_si256(both[1].0),
            ];
            let all = _mm256_or_si256(_mm256_srli_epi32::<16>(even), odd);
            _mm256_storeu_si256(to.cast(), all);
        }
    }

    #[inline(always)]
    unsafe fn rounded_two<const BRAIN: bool>(both: [Self; 2]) -> [Self; 2] {
        // SAFETY: arithmetic of vectors.
        unsafe {
            if !BRAIN {
                return [both[0].rounded::<false>(), both[1].rounded::<false>()];
            }
            let [a, b] = brains_of(both);
            let high = _mm256_set1_epi32(!0xffff);
            [
                Avx2(_mm256_castsi256_ps(_mm256_and_si256(a, high))),
                Avx2(_mm256_castsi256_ps(_mm256_and_si256(b, high))),
            ]
        }
    }

    #[inline(always)]
    unsafe fn test_two<const BRAIN: bool, const PREDICATE: i32>(
        a: [Self; 2],
        b: [Self; 2],
        to: *mut u8,
    ) {
        // SAFETY: `to` has room for sixteen truth values.
        unsafe {
            let one = _mm256_castps_si256(_mm256_cmp_ps::<PREDICATE>(a[0].0, b[0].0));
            let two = _mm256_castps_si256(_mm256_cmp_ps::<PREDICATE>(a[1].0, b[1].0));
            let all = match BRAIN {
                true => _mm256_blend_epi16::<0xaa>(one, two),
                false => _mm256_permute4x64_epi64::<0xd8>(_mm256_packs_epi32(one, two)),
            };
            let (low, high) = (
                _mm256_castsi256_si128(all),
                _mm256_extracti128_si256::<1>(all),
            );
            let truths = _mm_and_si128(_mm_packs_epi16(low, high), _mm_set1_epi8(1));
            _mm_storeu_si128(to.cast(), truths);
        }
    }

    #[inline(always)]
    unsafe fn turned(both: [Self; 2]) -> [Self; 2] {
        let (even, odd) = Self::unzip(both[0], both[1]);
        [even, odd]
    }

    #[inline(always)]
    unsafe fn returned(both: [Self; 2]) -> [Self; 2] {
        // SAFETY: arithmetic of vectors.
        unsafe {
            let (low, high) = (
                _mm256_unpacklo_ps(both[0].0, both[1].0),
                _mm256_unpackhi_ps(both[0].0, both[1].0),
            );
            [
                Avx2(_mm256_permute2f128_ps::<0x20>(low, high)),
                Avx2(_mm256_permute2f128_ps::<0x31>(low, high)),
            ]
        }
    }

    #[inline(always)]
    unsafe fn truths(from: *const u8) -> Self {
        // SAFETY: eight bytes can be read.
        unsafe {
            let bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(from.cast()));
            let none = _mm256_cmpeq_epi32(bytes, _mm256_setzero_si256());
            let ones = _mm256_set1_ps(1.0);
            Avx2(_mm256_andnot_ps(_mm256_castsi256_ps(none), ones))
        }
    }
}

/// The nearest bfloat16 of each lane, in its low bits.
#[inline(always)]
unsafe fn brain(x: __m256) -> __m256i {
    // SAFETY: arithmetic of vectors, whose instruction set the callers enable.
    unsafe {
        let bits = _mm256_castps_si256(x);
        let high = _mm256_srli_epi32::<16>(bits);
        let even = _mm256_and_si256(high, _mm256_set1_epi32(1));
        let half = _mm256_add_epi32(even, _mm256_set1_epi32(0x7fff));
        let rounded = _mm256_srli_epi32::<16>(_mm256_add_epi32(bits, half));
        // Sets the quiet bit, so that a NaN remains one without its low bits.
        let lost = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
        let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(x, x));
        _mm256_blendv_epi8(rounded, lost, nan)
    }
}

/// The nearest bfloat16 of each lane, in its high bits; the low ones are anything.
#[inline(always)]
unsafe fn brains_of(both: [Avx2; 2]) -> [__m256i; 2] {
    // SAFETY: arithmetic of vectors, whose instruction set the callers enable.
    unsafe {
        let (a, b) = (both[0].0, both[1].0);
        // One comparison for both: a NaN is rare.
        if _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_UNORD_Q>(a, b)) != 0 {
            return [
                _mm256_slli_epi32::<16>(brain(a)),
                _mm256_slli_epi32::<16>(brain(b)),
            ];
        }
        [nearest(a), nearest(b)]
    }
}

/// [`brains_of`] a vector without a NaN.
#[inline(always)]
unsafe fn nearest(x: __m256) -> __m256i {
    // SAFETY: arithmetic of vectors, whose instruction set the callers enable.
    unsafe {
        let bits = _mm256_castps_si256(x);
        let even = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
        _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), even)
    }
}

// SAFETY: every method does what the trait says, in the instruction set of `dispatch_narrowing`.
unsafe impl Narrowing for Avx512 {
    #[inline(always)]
    unsafe fn widened<const BRAIN: bool>(from: *const u16) -> Self {
        // SAFETY: sixteen elements can be read.
        unsafe { Avx512(numbers::<BRAIN>(_mm256_loadu_si256(from.cast()))) }
    }

    #[inline(always)]
    unsafe fn widened_part<const BRAIN: bool>(from: *const u16, n: usize) -> Self {
        // SAFETY: `n` elements can be read, fewer than sixteen.
        unsafe {
            let mask = (1u16 << n) - 1;
            Avx512(numbers::<BRAIN>(_mm256_maskz_loadu_epi16(
                mask,
                from.cast(),
            )))
        }
    }

    #[inline(always)]
    unsafe fn narrow<const BRAIN: bool>(self, to: *mut u16) {
        // SAFETY: `to` has room for sixteen elements.
        unsafe {
            _mm256_storeu_si256(to.cast(), bits::<BRAIN>(self.0));
        }
    }

    #[inline(always)]
    unsafe fn rounded<const BRAIN: bool>(self) -> Self {
        // SAFETY: arithmetic of vectors.
        unsafe {
            let bits = bits::<BRAIN>(self.0);
            Avx512(numbers::<BRAIN>(bits))
        }
    }

    #[inline(always)]
    unsafe fn put<const BRAIN: bool>(self, to: *mut u16) -> Self {
        // SAFETY: `to` has room for sixteen elements.
        unsafe {
            let bits = bits::<BRAIN>(self.0);
            _mm256_storeu_si256(to.cast(), bits);
            Avx512(numbers::<BRAIN>(bits))
        }
    }

    #[inline(always)]
    unsafe fn test<const PREDICATE: i32>(self, b: Self, to: *mut u8) {
        // SAFETY: `to` has room for sixteen elements.
        unsafe {
            let mask = _mm512_cmp_ps_mask::<PREDICATE>(self.0, b.0);
            _mm_storeu_si128(to.cast(), _mm_maskz_set1_epi8(mask, 1));
        }
    }

    #[inline(always)]
    unsafe fn truths(from: *const u8) -> Self {
        // SAFETY: sixteen bytes can be read.
        unsafe {
            let some = _mm_test_epi8_mask(_mm_loadu_si128(from.cast()), _mm_set1_epi8(-1));
            Avx512(_mm512_maskz_mov_ps(some, _mm512_set1_ps(1.0)))
        }
    }
}

/// The float32 that narrow floats are.
#[inline(always)]
unsafe fn numbers<const BRAIN: bool>(bits: __m256i) -> __m512 {
    // SAFETY: arithmetic of vectors, whose instruction set the callers enable.
    unsafe {
        match BRAIN {
            true => _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(bits))),
            false => _mm512_cvtph_ps(bits),
        }
    }
}

/// The nearest bfloat16 of each lane, by an instruction of AVX512-BF16, which whole functions would
/// have to enable to use it by name.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn rounded_at_once(x: __m512) -> __m256i {
    let y: __m256i;
    // SAFETY: the caller has asked the processor; registers are all that it touches.
    unsafe {
        asm!("vcvtneps2bf16 {y}, {x}", x = in(zmm_reg) x, y = lateout(ymm_reg) y,
            options(pure, nomem, nostack, preserves_flags));
    }
    y
}

/// The nearest narrow float of each lane.
#[inline(always)]
unsafe fn bits<const BRAIN: bool>(x: __m512) -> __m256i {
    // SAFETY: arithmetic of vectors, whose instruction set the callers enable; the instruction that
    // is written out only runs where the processor has it.
    unsafe {
        if !BRAIN {
            return _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x);
        }
        // It takes subnormal numbers for 0.
        if rounds() && _mm512_fpclass_ps_mask::<0x20>(x) == 0 {
            return rounded_at_once(x);
        }
        _mm512_cvtepi32_epi16(brains(x))
    }
}

/// As [`brain`].
#[inline(always)]
unsafe fn brains(x: __m512) -> __m512i {
    // SAFETY: arithmetic of vectors, whose instruction set the callers enable.
    unsafe {
        let bits = _mm512_castps_si512(x);
        let high = _mm512_srli_epi32::<16>(bits);
        let even = _mm512_and_si512(high, _mm512_set1_epi32(1));
        let half = _mm512_add_epi32(even, _mm512_set1_epi32(0x7fff));
        let rounded = _mm512_srli_epi32::<16>(_mm512_add_epi32(bits, half));
        let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
        _mm512_mask_or_epi32(rounded, nan, high, _mm512_set1_epi32(0x40))
    }
}

/// Calls `name::<S, BRAIN>(arg, …)` for the instruction set in use, which has AVX2 at least.
macro_rules! dispatch_narrowing {
    // For a function that is the same for both: `name::<S>(arg, …)`.
    ($name:ident($($arg:ident: $ty:ty),* $(,)?)) => {{
        #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,fma,avx2,f16c,bmi1,bmi2")]
        unsafe fn avx512($($arg: $ty),*) {
            // SAFETY: the instruction set is enabled here; the arguments are those that the
            // function asks for.
            unsafe { $name::<$crate::kernels::simd::Avx512>($($arg),*) }
        }
        #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2")]
        unsafe fn avx2($($arg: $ty),*) {
            // SAFETY: the instruction set is enabled here; the arguments are those that the
            // function asks for.
            unsafe { $name::<$crate::kernels::simd::Avx2>($($arg),*) }
        }
        match $crate::kernels::simd::isa() == $crate::kernels::simd::Isa::Avx512 {
            true => avx512($($arg),*),
            false => avx2($($arg),*),
        }
    }};
    ($brain:expr, $name:ident($($arg:ident: $ty:ty),* $(,)?)) => {{
        #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,fma,avx2,f16c,bmi1,bmi2")]
        unsafe fn avx512<const BRAIN: bool>($($arg: $ty),*) {
            // SAFETY: the instruction set is enabled here; the arguments are those that the
            // function asks for.
            unsafe { $name::<$crate::kernels::simd::Avx512, BRAIN>($($arg),*) }
        }
        #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2")]
        unsafe fn avx2<const BRAIN: bool>($($arg: $ty),*) {
            // SAFETY: the instruction set is enabled here; the arguments are those that the
            // function asks for.
            unsafe { $name::<$crate::kernels::simd::Avx2, BRAIN>($($arg),*) }
        }
        let wide = $crate::kernels::simd::isa() == $crate::kernels::simd::Isa::Avx512;
        match (wide, $brain) {
            (true, true) => avx512::<true>($($arg),*),
            (true, false) => avx512::<false>($($arg),*),
            (false, true) => avx2::<true>($($arg),*),
            (false, false) => avx2::<false>($($arg),*),
        }
    }};
}
pub(super) use dispatch_narrowing;
