//! Vectors of narrow floats, held as float32.

use super::simd::{Avx2, Avx512, Simd};
use half::{bf16, f16};
use std::arch::x86_64::*;

/// Vectors that convert float16, or with `BRAIN` bfloat16.
///
/// # Safety
/// As for [`Simd`].
#[allow(clippy::missing_safety_doc)] // The trait's own section holds for every method.
pub(super) unsafe trait Narrowing: Simd {
    /// Reads all lanes, unaligned.
    unsafe fn widened<const BRAIN: bool>(from: *const u16) -> Self;
    /// Writes all lanes, unaligned, each rounded to nearest even.
    unsafe fn narrow<const BRAIN: bool>(self, to: *mut u16);
    /// Returns what reading gives of what was written.
    unsafe fn rounded<const BRAIN: bool>(self) -> Self;
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

// SAFETY: every method does what the trait says, in the instruction set of `dispatch_narrowing`.
unsafe impl Narrowing for Avx512 {
    #[inline(always)]
    unsafe fn widened<const BRAIN: bool>(from: *const u16) -> Self {
        // SAFETY: sixteen elements can be read.
        unsafe {
            let x = _mm256_loadu_si256(from.cast());
            Avx512(match BRAIN {
                true => _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(x))),
                false => _mm512_cvtph_ps(x),
            })
        }
    }

    #[inline(always)]
    unsafe fn narrow<const BRAIN: bool>(self, to: *mut u16) {
        // SAFETY: `to` has room for sixteen elements.
        unsafe {
            let bits = match BRAIN {
                true => _mm512_cvtepi32_epi16(brains(self.0)),
                false => _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0),
            };
            _mm256_storeu_si256(to.cast(), bits);
        }
    }

    #[inline(always)]
    unsafe fn rounded<const BRAIN: bool>(self) -> Self {
        // SAFETY: arithmetic of vectors.
        unsafe {
            Avx512(match BRAIN {
                true => _mm512_castsi512_ps(_mm512_slli_epi32::<16>(brains(self.0))),
                false => _mm512_cvtph_ps(_mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0)),
            })
        }
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
