//! Eight lanes: AVX2 with FMA.

use super::{Simd, ends};
use std::arch::asm;
use std::arch::x86_64::*;

/// A ymm register.
#[derive(Clone, Copy)]
pub struct Avx2(pub(in crate::kernels) __m256);

/// Eight ones, then eight zeros: a load from it is a mask of the first lanes.
static LANES: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

#[inline(always)]
#[allow(unsafe_op_in_unsafe_fn)]
unsafe fn mask(n: usize) -> __m256i {
    _mm256_loadu_si256(LANES.as_ptr().add(8 - n).cast())
}

/// Emits no instruction, but makes an address depend on a register.
#[inline]
#[target_feature(enable = "avx2")]
#[allow(clippy::pointers_in_nomem_asm_block)] // Nothing is read there.
unsafe fn pinned<T>(mut at: *const T, sum: &mut __m256) -> *const T {
    // SAFETY: nothing is executed.
    unsafe {
        asm!(
            "/* {0} {1} */",
            inout(reg) at,
            inout(ymm_reg) *sum,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    at
}

/// Fetches a line for writing. The intrinsic fetches it for reading where the compiler was not told
/// that the processor can do more; one that cannot, of those with AVX2, does nothing.
#[inline(always)]
pub(super) fn prefetch_to_write<T>(to: *const T) {
    // SAFETY: a hint, which accesses nothing.
    unsafe {
        asm!("prefetchw [{0}]", in(reg) to, options(nostack, preserves_flags, readonly));
    }
}

// SAFETY: every method is one or a few intrinsics of the enabled instruction set; masked loads
// and stores touch only the lanes of the mask.
#[allow(unsafe_op_in_unsafe_fn)]
unsafe impl Simd for Avx2 {
    const LANES: usize = 8;
    const MR: usize = 4;
    const NV: usize = 3;
    const FUSED: bool = true;
    type Mask = __m256;
    type Lanes = __m256i;

    intrinsics! {
        add(b) = _mm256_add_ps;
        sub(b) = _mm256_sub_ps;
        mul(b) = _mm256_mul_ps;
        div(b) = _mm256_div_ps;
        max(b) = _mm256_max_ps;
        min(b) = _mm256_min_ps;
        sqrt() = _mm256_sqrt_ps;
        fma(b, c) = _mm256_fmadd_ps;
    }
    #[inline(always)]
    unsafe fn pinned<T>(at: *const T, sum: &mut Self) -> *const T {
        pinned(at, &mut sum.0)
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Self(_mm256_set1_ps(x))
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        Self(_mm256_loadu_ps(from))
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        _mm256_storeu_ps(to, self.0);
    }
    #[inline(always)]
    unsafe fn stream(self, to: *mut f32) {
        _mm256_stream_ps(to, self.0);
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
    unsafe fn lanes(first: usize, end: usize) -> __m256i {
        _mm256_andnot_si256(mask(first), mask(end))
    }
    #[inline(always)]
    unsafe fn load_lanes(from: *const f32, lanes: __m256i) -> Self {
        Self(_mm256_maskload_ps(from, lanes))
    }
    #[inline(always)]
    unsafe fn load_part(from: *const f32, n: usize) -> Self {
        Self(_mm256_maskload_ps(from, mask(n)))
    }
    #[inline(always)]
    unsafe fn store_part(self, to: *mut f32, n: usize) {
        // Masked stores take dozens of cycles on some processors.
        if n >= 8 {
            return self.store(to);
        }
        let (mut part, mut to) = (_mm256_castps256_ps128(self.0), to);
        if n & 4 != 0 {
            _mm_storeu_ps(to, part);
            part = _mm256_extractf128_ps::<1>(self.0);
            to = to.add(4);
        }
        if n & 2 != 0 {
            _mm_storel_pd(to.cast(), _mm_castps_pd(part));
            part = _mm_movehl_ps(part, part);
            to = to.add(2);
        }
        if n & 1 != 0 {
            _mm_store_ss(to, part);
        }
    }
    #[inline(always)]
    unsafe fn store_between(self, to: *mut f32, first: usize, end: usize) {
        // The lanes from the first on, each from its position: no masked store, as in `store_part`.
        let from = _mm256_add_epi32(
            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
            _mm256_set1_epi32(first as i32),
        );
        let rest = Self(_mm256_permutevar8x32_ps(self.0, from));
        rest.store_part(to.wrapping_add(first), end - first);
    }
    #[inline(always)]
    fn half(self) -> Self {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe {
            let narrow = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(self.0);
            Self(_mm256_cvtph_ps(narrow))
        }
    }
    #[inline(always)]
    fn round(self) -> Self {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe {
            Self(_mm256_round_ps::<
                { _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC },
            >(self.0))
        }
    }
    #[inline(always)]
    fn floor(self) -> Self {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe { Self(_mm256_floor_ps(self.0)) }
    }
    #[inline(always)]
    fn power(self) -> Self {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe {
            let bits = _mm256_slli_epi32::<23>(_mm256_castps_si256(self.0));
            Self(_mm256_castsi256_ps(bits))
        }
    }
    #[inline(always)]
    fn lift(self, n: Self) -> Self {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe {
            Self(_mm256_castsi256_ps(_mm256_add_epi32(
                _mm256_castps_si256(self.0),
                _mm256_castps_si256(n.power().0),
            )))
        }
    }
    #[inline(always)]
    fn split(self) -> (Self, Self) {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe {
            let tiny = self.lt(Self::splat(f32::MIN_POSITIVE));
            let normal = Self::select(tiny, self.mul(Self::splat(8_388_608.0)), self);
            let bits = _mm256_castps_si256(normal.0);
            let shifted = _mm256_sub_epi32(bits, _mm256_set1_epi32(0x3f35_04f3));
            let e = _mm256_srai_epi32::<23>(shifted);
            let m = _mm256_sub_epi32(bits, _mm256_slli_epi32::<23>(e));
            let e = Self(_mm256_cvtepi32_ps(e));
            let lifted = _mm256_and_ps(tiny, _mm256_set1_ps(23.0));
            let e = ends(self, Self(_mm256_sub_ps(e.0, lifted)));
            (Self(_mm256_castsi256_ps(m)), e)
        }
    }
    #[inline(always)]
    fn odd(self) -> __m256 {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe {
            // Blends look at the first bit only.
            _mm256_castsi256_ps(_mm256_slli_epi32::<31>(_mm256_castps_si256(self.0)))
        }
    }
    #[inline(always)]
    fn lt(self, b: Self) -> __m256 {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe { _mm256_cmp_ps::<_CMP_LT_OQ>(self.0, b.0) }
    }
    #[inline(always)]
    fn eq(self, b: Self) -> __m256 {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe { _mm256_cmp_ps::<_CMP_EQ_OQ>(self.0, b.0) }
    }
    #[inline(always)]
    fn select(mask: __m256, yes: Self, no: Self) -> Self {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe { Self(_mm256_blendv_ps(no.0, yes.0, mask)) }
    }
    #[inline(always)]
    fn abs(self) -> Self {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe { Self(_mm256_andnot_ps(_mm256_set1_ps(-0.0), self.0)) }
    }
    #[inline(always)]
    fn copysign(self, b: Self) -> Self {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe {
            let sign = _mm256_set1_ps(-0.0);
            Self(_mm256_or_ps(
                _mm256_andnot_ps(sign, self.0),
                _mm256_and_ps(sign, b.0),
            ))
        }
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe {
            let half = _mm_add_ps(
                _mm256_castps256_ps128(self.0),
                _mm256_extractf128_ps::<1>(self.0),
            );
            let pair = _mm_add_ps(half, _mm_movehl_ps(half, half));
            _mm_cvtss_f32(_mm_add_ss(pair, _mm_shuffle_ps::<1>(pair, pair)))
        }
    }
    #[inline(always)]
    fn largest(self) -> f32 {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe {
            let half = _mm_max_ps(
                _mm256_castps256_ps128(self.0),
                _mm256_extractf128_ps::<1>(self.0),
            );
            let pair = _mm_max_ps(half, _mm_movehl_ps(half, half));
            _mm_cvtss_f32(_mm_max_ss(pair, _mm_shuffle_ps::<1>(pair, pair)))
        }
    }
    #[inline(always)]
    fn all_lt(self, b: Self) -> bool {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe { _mm256_movemask_ps(self.lt(b)) == 0xff }
    }
    #[inline(always)]
    fn weave(parts: [Self; 4]) -> [Self; 4] {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe {
            let v = turned(parts);
            let [a, b, c, d] = [v[0].0, v[1].0, v[2].0, v[3].0];
            [
                Self(_mm256_permute2f128_ps::<0x20>(a, b)),
                Self(_mm256_permute2f128_ps::<0x20>(c, d)),
                Self(_mm256_permute2f128_ps::<0x31>(a, b)),
                Self(_mm256_permute2f128_ps::<0x31>(c, d)),
            ]
        }
    }
    #[inline(always)]
    fn unweave(whole: [Self; 4]) -> [Self; 4] {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe {
            let [a, b, c, d] = [whole[0].0, whole[1].0, whole[2].0, whole[3].0];
            turned([
                Self(_mm256_permute2f128_ps::<0x20>(a, c)),
                Self(_mm256_permute2f128_ps::<0x31>(a, c)),
                Self(_mm256_permute2f128_ps::<0x20>(b, d)),
                Self(_mm256_permute2f128_ps::<0x31>(b, d)),
            ])
        }
    }
    #[inline(always)]
    fn unzip(first: Self, second: Self) -> (Self, Self) {
        let (even, odd) = Self::sift(first, second);
        (even.sifted(), odd.sifted())
    }
    #[inline(always)]
    fn zip(even: Self, odd: Self) -> (Self, Self) {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe {
            let low = _mm256_unpacklo_ps(even.0, odd.0);
            let high = _mm256_unpackhi_ps(even.0, odd.0);
            (
                Self(_mm256_permute2f128_ps::<0x20>(low, high)),
                Self(_mm256_permute2f128_ps::<0x31>(low, high)),
            )
        }
    }
    #[inline(always)]
    fn sift(first: Self, second: Self) -> (Self, Self) {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe {
            // Pairs of lanes of the first and the second vector take turns.
            (
                Self(_mm256_shuffle_ps::<0x88>(first.0, second.0)),
                Self(_mm256_shuffle_ps::<0xdd>(first.0, second.0)),
            )
        }
    }
    #[inline(always)]
    fn sifted(self) -> Self {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe {
            let pairs = _mm256_castps_pd(self.0);
            Self(_mm256_castpd_ps(_mm256_permute4x64_pd::<0xd8>(pairs)))
        }
    }
    #[inline(always)]
    unsafe fn of_bytes(from: *const i8) -> Self {
        let wide = _mm256_cvtepi8_epi32(_mm_loadl_epi64(from.cast()));
        Self(_mm256_cvtepi32_ps(wide))
    }
    #[inline(always)]
    unsafe fn of_halves(from: *const i8) -> (Self, Self) {
        let both = _mm256_cvtepi8_epi32(_mm_loadl_epi64(from.cast()));
        let low = _mm256_srai_epi32::<28>(_mm256_slli_epi32::<28>(both));
        let high = _mm256_srai_epi32::<4>(both);
        (
            Self(_mm256_cvtepi32_ps(low)),
            Self(_mm256_cvtepi32_ps(high)),
        )
    }
}

impl Avx2 {
    /// Transposes a square of eight vectors: vector `i` becomes lane `i` of all.
    ///
    /// # Safety
    /// The instruction set is enabled.
    #[inline(always)]
    pub unsafe fn square(rows: [Self; 8]) -> [Self; 8] {
        // SAFETY: the processor has AVX2.
        unsafe {
            let [a, b, c, d, e, f, g, h] = rows;
            let (upper, lower) = (turned([a, b, c, d]), turned([e, f, g, h]));
            let mut to = rows;
            for k in 0..4 {
                let (a, b) = (upper[k].0, lower[k].0);
                to[k] = Self(_mm256_permute2f128_ps::<0x20>(a, b));
                to[k + 4] = Self(_mm256_permute2f128_ps::<0x31>(a, b));
            }
            to
        }
    }
}

/// Transposes the square of four lanes by four vectors in either half.
#[inline(always)]
unsafe fn turned(v: [Avx2; 4]) -> [Avx2; 4] {
    // SAFETY: the processor has AVX2.
    unsafe {
        let [a, b, c, d] = [v[0].0, v[1].0, v[2].0, v[3].0];
        let (ac, bd) = (_mm256_unpacklo_ps(a, c), _mm256_unpacklo_ps(b, d));
        let (ac2, bd2) = (_mm256_unpackhi_ps(a, c), _mm256_unpackhi_ps(b, d));
        [
            Avx2(_mm256_unpacklo_ps(ac, bd)),
            Avx2(_mm256_unpackhi_ps(ac, bd)),
            Avx2(_mm256_unpacklo_ps(ac2, bd2)),
            Avx2(_mm256_unpackhi_ps(ac2, bd2)),
        ]
    }
}
