//! Sixteen lanes: AVX-512.

use super::Simd;
use super::avx2::prefetch_to_write;
use std::arch::x86_64::*;

/// A zmm register.
#[derive(Clone, Copy)]
pub struct Avx512(pub(in crate::kernels) __m512);

#[inline(always)]
fn mask(n: usize) -> __mmask16 {
    (0xffff_u32 >> (16 - n as u32)) as __mmask16
}

// SAFETY: every method is one or a few intrinsics of the enabled instruction set; masked loads
// and stores touch only the lanes of the mask.
#[allow(unsafe_op_in_unsafe_fn)]
unsafe impl Simd for Avx512 {
    const LANES: usize = 16;
    const MR: usize = 8;
    const NV: usize = 3;
    const FUSED: bool = true;
    const SCALES: bool = true;
    const TABLES: bool = true;
    type Mask = __mmask16;
    type Lanes = __mmask16;

    intrinsics! {
        add(b) = _mm512_add_ps;
        sub(b) = _mm512_sub_ps;
        mul(b) = _mm512_mul_ps;
        div(b) = _mm512_div_ps;
        max(b) = _mm512_max_ps;
        min(b) = _mm512_min_ps;
        sqrt() = _mm512_sqrt_ps;
        fma(b, c) = _mm512_fmadd_ps;
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Self(_mm512_set1_ps(x))
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        Self(_mm512_loadu_ps(from))
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        _mm512_storeu_ps(to, self.0);
    }
    #[inline(always)]
    unsafe fn stream(self, to: *mut f32) {
        _mm512_stream_ps(to, self.0);
    }
    #[inline(always)]
    unsafe fn prefetch(from: *const f32) {
        _mm_prefetch::<_MM_HINT_T0>(from.cast());
    }
    #[inline(always)]
    unsafe fn prefetch_to_write(to: *const f32) {
        prefetch_to_write(to);
    }
    #[inline(always)]
    unsafe fn fence() {
        _mm_sfence();
    }
    #[inline(always)]
    unsafe fn lanes(first: usize, end: usize) -> __mmask16 {
        mask(end) & !mask(first)
    }
    #[inline(always)]
    unsafe fn load_lanes(from: *const f32, lanes: __mmask16) -> Self {
        Self(_mm512_maskz_loadu_ps(lanes, from))
    }
    #[inline(always)]
    unsafe fn load_part(from: *const f32, n: usize) -> Self {
        Self(_mm512_maskz_loadu_ps(mask(n), from))
    }
    #[inline(always)]
    unsafe fn store_part(self, to: *mut f32, n: usize) {
        _mm512_mask_storeu_ps(to, mask(n), self.0);
    }
    #[inline(always)]
    unsafe fn store_between(self, to: *mut f32, first: usize, end: usize) {
        _mm512_mask_storeu_ps(to, mask(end) & !mask(first), self.0);
    }
    #[inline(always)]
    fn half(self) -> Self {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe {
            let narrow = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0);
            Self(_mm512_cvtph_ps(narrow))
        }
    }
    #[inline(always)]
    fn round(self) -> Self {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe {
            Self(_mm512_roundscale_ps::<
                { _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC },
            >(self.0))
        }
    }
    #[inline(always)]
    fn floor(self) -> Self {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe {
            Self(_mm512_roundscale_ps::<
                { _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC },
            >(self.0))
        }
    }
    #[inline(always)]
    fn power(self) -> Self {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe {
            let bits = _mm512_slli_epi32::<23>(_mm512_castps_si512(self.0));
            Self(_mm512_castsi512_ps(bits))
        }
    }
    #[inline(always)]
    fn lift(self, n: Self) -> Self {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe {
            Self(_mm512_castsi512_ps(_mm512_add_epi32(
                _mm512_castps_si512(self.0),
                _mm512_castps_si512(n.power().0),
            )))
        }
    }
    #[inline(always)]
    fn scaled(self, n: Self) -> Self {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe { Self(_mm512_scalef_ps(self.0, n.0)) }
    }
    #[inline(always)]
    fn split(self) -> (Self, Self) {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe {
            // Of what is negative, the mantissa is NaN, but for -0.
            let m = _mm512_getmant_ps::<_MM_MANT_NORM_1_2, _MM_MANT_SIGN_NAN>(self.0);
            let e = _mm512_getexp_ps(self.0);
            let upper =
                _mm512_cmp_ps_mask::<_CMP_GE_OQ>(m, _mm512_set1_ps(std::f32::consts::SQRT_2));
            let bits = _mm512_castps_si512(m);
            let half = _mm512_mask_sub_epi32(bits, upper, bits, _mm512_set1_epi32(1 << 23));
            let m = _mm512_castsi512_ps(half);
            let e = _mm512_mask_add_ps(e, upper, e, _mm512_set1_ps(1.0));
            (Self(m), Self(e))
        }
    }
    #[inline(always)]
    fn split_evenly(self) -> (Self, Self) {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe {
            let m = _mm512_getmant_ps::<_MM_MANT_NORM_P75_1P5, _MM_MANT_SIGN_NAN>(self.0);
            let e = _mm512_getexp_ps(self.0);
            let one = _mm512_set1_ps(1.0);
            let below = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(m, one);
            (Self(m), Self(_mm512_mask_add_ps(e, below, e, one)))
        }
    }
    #[inline(always)]
    fn sixteenth(self, table: &[f32; 16]) -> Self {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe {
            // Only the four low bits of an index count.
            let index = _mm512_srli_epi32::<19>(_mm512_castps_si512(self.0));
            Self(_mm512_permutexvar_ps(
                index,
                _mm512_loadu_ps(table.as_ptr()),
            ))
        }
    }
    #[inline(always)]
    fn odd(self) -> __mmask16 {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe { _mm512_test_epi32_mask(_mm512_castps_si512(self.0), _mm512_set1_epi32(1)) }
    }
    #[inline(always)]
    fn lt(self, b: Self) -> __mmask16 {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe { _mm512_cmp_ps_mask::<_CMP_LT_OQ>(self.0, b.0) }
    }
    #[inline(always)]
    fn eq(self, b: Self) -> __mmask16 {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe { _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(self.0, b.0) }
    }
    #[inline(always)]
    fn select(mask: __mmask16, yes: Self, no: Self) -> Self {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe { Self(_mm512_mask_blend_ps(mask, no.0, yes.0)) }
    }
    #[inline(always)]
    fn abs(self) -> Self {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe { Self(_mm512_abs_ps(self.0)) }
    }
    #[inline(always)]
    fn copysign(self, b: Self) -> Self {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe {
            let sign = _mm512_set1_ps(-0.0);
            Self(_mm512_or_ps(
                _mm512_andnot_ps(sign, self.0),
                _mm512_and_ps(sign, b.0),
            ))
        }
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe { _mm512_reduce_add_ps(self.0) }
    }
    #[inline(always)]
    fn largest(self) -> f32 {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe { _mm512_reduce_max_ps(self.0) }
    }
    #[inline(always)]
    fn all_lt(self, b: Self) -> bool {
        self.lt(b) == 0xffff
    }
    #[inline(always)]
    fn weave(parts: [Self; 4]) -> [Self; 4] {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe { quarters(turned(parts)) }
    }
    #[inline(always)]
    fn unweave(whole: [Self; 4]) -> [Self; 4] {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe { turned(quarters(whole)) }
    }
    #[inline(always)]
    fn unzip(first: Self, second: Self) -> (Self, Self) {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe {
            let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            let odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
            (
                Self(_mm512_permutex2var_ps(first.0, even, second.0)),
                Self(_mm512_permutex2var_ps(first.0, odd, second.0)),
            )
        }
    }
    #[inline(always)]
    fn zip(even: Self, odd: Self) -> (Self, Self) {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe {
            let first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            let second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
            (
                Self(_mm512_permutex2var_ps(even.0, first, odd.0)),
                Self(_mm512_permutex2var_ps(even.0, second, odd.0)),
            )
        }
    }
    #[inline(always)]
    unsafe fn of_bytes(from: *const i8) -> Self {
        let wide = _mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast()));
        Self(_mm512_cvtepi32_ps(wide))
    }
    #[inline(always)]
    unsafe fn of_halves(from: *const i8) -> (Self, Self) {
        let both = _mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast()));
        let low = _mm512_srai_epi32::<28>(_mm512_slli_epi32::<28>(both));
        let high = _mm512_srai_epi32::<4>(both);
        (
            Self(_mm512_cvtepi32_ps(low)),
            Self(_mm512_cvtepi32_ps(high)),
        )
    }
}

/// Transposes the square of four lanes by four vectors in every quarter.
#[inline(always)]
unsafe fn turned(v: [Avx512; 4]) -> [Avx512; 4] {
    // SAFETY: the processor has AVX-512.
    unsafe {
        let [a, b, c, d] = [v[0].0, v[1].0, v[2].0, v[3].0];
        let (ac, bd) = (_mm512_unpacklo_ps(a, c), _mm512_unpacklo_ps(b, d));
        let (ac2, bd2) = (_mm512_unpackhi_ps(a, c), _mm512_unpackhi_ps(b, d));
        [
            Avx512(_mm512_unpacklo_ps(ac, bd)),
            Avx512(_mm512_unpackhi_ps(ac, bd)),
            Avx512(_mm512_unpacklo_ps(ac2, bd2)),
            Avx512(_mm512_unpackhi_ps(ac2, bd2)),
        ]
    }
}

/// Transposes the square of four quarters by four vectors.
#[inline(always)]
unsafe fn quarters(v: [Avx512; 4]) -> [Avx512; 4] {
    // SAFETY: the processor has AVX-512.
    unsafe {
        let [a, b, c, d] = [v[0].0, v[1].0, v[2].0, v[3].0];
        let (ab, cd) = (
            _mm512_shuffle_f32x4::<0x44>(a, b),
            _mm512_shuffle_f32x4::<0x44>(c, d),
        );
        let (ab2, cd2) = (
            _mm512_shuffle_f32x4::<0xee>(a, b),
            _mm512_shuffle_f32x4::<0xee>(c, d),
        );
        [
            Avx512(_mm512_shuffle_f32x4::<0x88>(ab, cd)),
            Avx512(_mm512_shuffle_f32x4::<0xdd>(ab, cd)),
            Avx512(_mm512_shuffle_f32x4::<0x88>(ab2, cd2)),
            Avx512(_mm512_shuffle_f32x4::<0xdd>(ab2, cd2)),
        ]
    }
}
