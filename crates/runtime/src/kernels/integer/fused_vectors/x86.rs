//! Vectors of AVX2 and AVX-512.

use super::{Finish, Quick, Range, Wide};
use std::arch::x86_64::*;

/// AVX-512 with VNNI.
#[derive(Clone, Copy)]
pub(in super::super) struct Avx512(__m512i);

// SAFETY: used only where AVX-512 BW and VNNI are enabled.
#[allow(unsafe_op_in_unsafe_fn)]
unsafe impl Wide for Avx512 {
    const LANES: usize = 16;
    const MANY: bool = true;
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2")]
    unsafe fn exactly(finish: &Finish<'_>, sums: &mut [Self; 4], at: usize) {
        super::exactly(finish, sums, at);
    }
    #[inline(always)]
    unsafe fn zero() -> Self {
        Avx512(_mm512_setzero_si512())
    }
    #[inline(always)]
    unsafe fn splat(from: *const u8) -> Self {
        Avx512(_mm512_set1_epi32(from.cast::<i32>().read_unaligned()))
    }
    #[inline(always)]
    unsafe fn picked(from: *const u8, order: Self) -> Self {
        let all = _mm512_broadcast_i32x4(_mm_loadu_si128(from.cast()));
        Avx512(_mm512_shuffle_epi8(all, order.0))
    }
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        Avx512(_mm512_loadu_si512(from.cast()))
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        _mm512_storeu_si512(to.cast(), self.0);
    }
    #[inline(always)]
    unsafe fn store_some(self, to: *mut u8, n: usize) {
        match n {
            64 => _mm512_storeu_si512(to.cast(), self.0),
            n => _mm512_mask_storeu_epi8(to.cast(), u64::MAX >> (64 - n), self.0),
        }
    }
    #[inline(always)]
    unsafe fn store_parts(self, [a, b, c, d]: [*mut u8; 4], n: usize) {
        let parts = [
            (a, _mm512_castsi512_si128(self.0)),
            (b, _mm512_extracti32x4_epi32::<1>(self.0)),
            (c, _mm512_extracti32x4_epi32::<2>(self.0)),
            (d, _mm512_extracti32x4_epi32::<3>(self.0)),
        ];
        let mask = u16::MAX >> (16 - n);
        for (to, part) in parts {
            match n {
                16 => _mm_storeu_si128(to.cast(), part),
                _ => _mm_mask_storeu_epi8(to.cast(), mask, part),
            }
        }
    }
    #[inline(always)]
    unsafe fn dot(self, unsigned: Self, signed: Self) -> Self {
        Avx512(_mm512_dpbusd_epi32(self.0, unsigned.0, signed.0))
    }
    #[inline(always)]
    unsafe fn finish(self, factor: Self, to: &Range) -> Self {
        let y = _mm512_mul_ps(_mm512_cvtepi32_ps(self.0), _mm512_castsi512_ps(factor.0));
        let y = _mm512_max_ps(y, _mm512_set1_ps(to.low));
        let y = _mm512_cvtps_epi32(_mm512_min_ps(y, _mm512_set1_ps(to.high)));
        Avx512(_mm512_add_epi32(y, _mm512_set1_epi32(to.zero)))
    }
    #[inline(always)]
    unsafe fn real(self, factor: Self, shift: Self, [least, most]: [f32; 2]) -> Self {
        let y = _mm512_mul_ps(_mm512_cvtepi32_ps(self.0), _mm512_castsi512_ps(factor.0));
        let y = _mm512_add_ps(y, _mm512_castsi512_ps(shift.0));
        // Where one is NaN, the second operand is the result.
        let y = _mm512_min_ps(
            _mm512_set1_ps(most),
            _mm512_max_ps(_mm512_set1_ps(least), y),
        );
        Avx512(_mm512_castps_si512(y))
    }
    #[inline(always)]
    unsafe fn finish_narrow(self, tables: [Self; 6], [low, high]: [i32; 2]) -> Self {
        let [multiplier, even, odd, even_right, odd_right, zero] = tables.map(|t| t.0);
        let scaled = |sums, multiplier, half, right| {
            let product = _mm512_mul_epi32(sums, multiplier);
            _mm512_srlv_epi64(_mm512_add_epi64(product, half), right)
        };
        let upper = |x| _mm512_srli_epi64::<32>(x);
        let even = scaled(self.0, multiplier, even, even_right);
        let odd = scaled(upper(self.0), upper(multiplier), odd, odd_right);
        let y = _mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64::<32>(odd));
        let y = _mm512_min_epi32(_mm512_add_epi32(y, zero), _mm512_set1_epi32(high));
        Avx512(_mm512_max_epi32(y, _mm512_set1_epi32(low)))
    }
    #[inline(always)]
    unsafe fn store_low(self, to: *mut u8) {
        _mm_storeu_si128(to.cast(), _mm512_cvtepi32_epi8(self.0));
    }
    #[inline(always)]
    unsafe fn store_low_some(self, to: *mut u8, n: usize) {
        _mm512_mask_cvtepi32_storeu_epi8(to.cast(), (1 << n) - 1, self.0);
    }
    #[inline(always)]
    unsafe fn interleave8(self, b: Self) -> (Self, Self) {
        let low = _mm512_unpacklo_epi8(self.0, b.0);
        (Avx512(low), Avx512(_mm512_unpackhi_epi8(self.0, b.0)))
    }
    #[inline(always)]
    unsafe fn interleave16(self, b: Self) -> (Self, Self) {
        let low = _mm512_unpacklo_epi16(self.0, b.0);
        (Avx512(low), Avx512(_mm512_unpackhi_epi16(self.0, b.0)))
    }
    #[inline(always)]
    unsafe fn join(parts: [Self; 4]) -> Self {
        let low = _mm512_set1_epi32(255);
        let [a, b, c, d] = parts.map(|p| _mm512_and_si512(p.0, low));
        let (a, b) = (_mm512_packus_epi32(a, b), _mm512_packus_epi32(c, d));
        Avx512(_mm512_packus_epi16(a, b))
    }
    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        Avx512(_mm512_xor_si512(self.0, other.0))
    }
    #[inline(always)]
    unsafe fn steps(self, factor: Self) -> Self {
        let y = _mm512_mul_ps(_mm512_cvtepi32_ps(self.0), _mm512_castsi512_ps(factor.0));
        Avx512(_mm512_cvtps_epi32(y))
    }
    #[inline(always)]
    unsafe fn bytes([a, b, c, d]: [Self; 4], to: &Quick) -> Self {
        let zero = _mm512_set1_epi16(to.zero);
        let pair = |a: Self, b: Self| _mm512_adds_epi16(_mm512_packs_epi32(a.0, b.0), zero);
        let y = _mm512_packus_epi16(pair(a, b), pair(c, d));
        let y = _mm512_min_epu8(y, _mm512_set1_epi8(to.high as i8));
        let y = _mm512_max_epu8(y, _mm512_set1_epi8(to.low as i8));
        Avx512(_mm512_xor_si512(y, _mm512_set1_epi8(to.flip as i8)))
    }
    #[inline(always)]
    unsafe fn in_order(self) -> Self {
        let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        Avx512(_mm512_permutexvar_epi32(order, self.0))
    }
}

/// How vectors of 32 bytes are multiplied: by AVX2, by its VNNI extension, by that of AVX-512.
pub(in super::super) const PAIRS: u8 = 0;
pub(in super::super) const QUADS: u8 = 1;
pub(in super::super) const QUADS_512: u8 = 2;

/// Vectors of 32 bytes.
#[derive(Clone, Copy)]
pub(in super::super) struct Avx<const BY: u8>(__m256i);

// SAFETY: used only where AVX2 and what `BY` says is enabled.
#[allow(unsafe_op_in_unsafe_fn)]
unsafe impl<const BY: u8> Wide for Avx<BY> {
    const LANES: usize = 8;
    const MANY: bool = BY == QUADS_512;
    #[target_feature(enable = "avx2")]
    unsafe fn exactly(finish: &Finish<'_>, sums: &mut [Self; 4], at: usize) {
        super::exactly(finish, sums, at);
    }
    #[inline(always)]
    unsafe fn zero() -> Self {
        Avx(_mm256_setzero_si256())
    }
    #[inline(always)]
    unsafe fn splat(from: *const u8) -> Self {
        Avx(_mm256_set1_epi32(from.cast::<i32>().read_unaligned()))
    }
    #[inline(always)]
    unsafe fn picked(from: *const u8, order: Self) -> Self {
        let all = _mm256_broadcastsi128_si256(_mm_loadu_si128(from.cast()));
        Avx(_mm256_shuffle_epi8(all, order.0))
    }
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        Avx(_mm256_loadu_si256(from.cast()))
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        _mm256_storeu_si256(to.cast(), self.0);
    }
    #[inline(always)]
    unsafe fn dot(self, unsigned: Self, signed: Self) -> Self {
        match BY {
            QUADS => return Avx(_mm256_dpbusd_avx_epi32(self.0, unsigned.0, signed.0)),
            QUADS_512 => return Avx(_mm256_dpbusd_epi32(self.0, unsigned.0, signed.0)),
            _ => {}
        }
        // Pairs of products of 8 bits by 8 exceed 16 bits and would saturate: even and odd bytes are
        // widened, which compilers do once for all products that a vector is in.
        let low = _mm256_and_si256(unsigned.0, _mm256_set1_epi16(255));
        let low = _mm256_madd_epi16(
            low,
            _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(signed.0)),
        );
        let high = _mm256_srli_epi16::<8>(unsigned.0);
        let high = _mm256_madd_epi16(high, _mm256_srai_epi16::<8>(signed.0));
        Avx(_mm256_add_epi32(self.0, _mm256_add_epi32(low, high)))
    }
    #[inline(always)]
    unsafe fn finish(self, factor: Self, to: &Range) -> Self {
        let y = _mm256_mul_ps(_mm256_cvtepi32_ps(self.0), _mm256_castsi256_ps(factor.0));
        let y = _mm256_max_ps(y, _mm256_set1_ps(to.low));
        let y = _mm256_cvtps_epi32(_mm256_min_ps(y, _mm256_set1_ps(to.high)));
        Avx(_mm256_add_epi32(y, _mm256_set1_epi32(to.zero)))
    }
    #[inline(always)]
    unsafe fn real(self, factor: Self, shift: Self, [least, most]: [f32; 2]) -> Self {
        let y = _mm256_mul_ps(_mm256_cvtepi32_ps(self.0), _mm256_castsi256_ps(factor.0));
        let y = _mm256_add_ps(y, _mm256_castsi256_ps(shift.0));
        // As above.
        let y = _mm256_min_ps(
            _mm256_set1_ps(most),
            _mm256_max_ps(_mm256_set1_ps(least), y),
        );
        Avx(_mm256_castps_si256(y))
    }
    #[inline(always)]
    unsafe fn finish_narrow(self, tables: [Self; 6], [low, high]: [i32; 2]) -> Self {
        let [multiplier, even, odd, even_right, odd_right, zero] = tables.map(|t| t.0);
        let scaled = |sums, multiplier, half, right| {
            let product = _mm256_mul_epi32(sums, multiplier);
            _mm256_srlv_epi64(_mm256_add_epi64(product, half), right)
        };
        let upper = |x| _mm256_srli_epi64::<32>(x);
        let even = scaled(self.0, multiplier, even, even_right);
        let odd = scaled(upper(self.0), upper(multiplier), odd, odd_right);
        let y = _mm256_blend_epi32::<0xaa>(even, _mm256_slli_epi64::<32>(odd));
        let y = _mm256_min_epi32(_mm256_add_epi32(y, zero), _mm256_set1_epi32(high));
        Avx(_mm256_max_epi32(y, _mm256_set1_epi32(low)))
    }
    #[inline(always)]
    unsafe fn store_low(self, to: *mut u8) {
        let zero = _mm256_setzero_si256();
        let bytes = Avx::<BY>::join([self, Avx(zero), Avx(zero), Avx(zero)]).0;
        let high = _mm256_extracti128_si256::<1>(bytes);
        to.cast::<i32>()
            .write_unaligned(_mm256_cvtsi256_si32(bytes));
        to.cast::<i32>()
            .add(1)
            .write_unaligned(_mm_cvtsi128_si32(high));
    }
    #[inline(always)]
    unsafe fn interleave8(self, b: Self) -> (Self, Self) {
        let low = _mm256_unpacklo_epi8(self.0, b.0);
        (Avx(low), Avx(_mm256_unpackhi_epi8(self.0, b.0)))
    }
    #[inline(always)]
    unsafe fn interleave16(self, b: Self) -> (Self, Self) {
        let low = _mm256_unpacklo_epi16(self.0, b.0);
        (Avx(low), Avx(_mm256_unpackhi_epi16(self.0, b.0)))
    }
    #[inline(always)]
    unsafe fn join(parts: [Self; 4]) -> Self {
        let low = _mm256_set1_epi32(255);
        let [a, b, c, d] = parts.map(|p| _mm256_and_si256(p.0, low));
        let (a, b) = (_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d));
        Avx(_mm256_packus_epi16(a, b))
    }
    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        Avx(_mm256_xor_si256(self.0, other.0))
    }
    #[inline(always)]
    unsafe fn store_some(self, to: *mut u8, n: usize) {
        match n {
            32 => _mm256_storeu_si256(to.cast(), self.0),
            16 => _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(self.0)),
            _ => {
                let mut all = [0u8; 32];
                _mm256_storeu_si256(all.as_mut_ptr().cast(), self.0);
                std::ptr::copy_nonoverlapping(all.as_ptr(), to, n);
            }
        }
    }
    #[inline(always)]
    unsafe fn store_halves(self, [low, high]: [*mut u8; 2], n: usize) {
        let halves = [
            _mm256_castsi256_si128(self.0),
            _mm256_extracti128_si256::<1>(self.0),
        ];
        for (half, to) in halves.into_iter().zip([low, high]) {
            match n {
                16 => _mm_storeu_si128(to.cast(), half),
                8 => _mm_storel_epi64(to.cast(), half),
                _ => {
                    let mut all = [0u8; 16];
                    _mm_storeu_si128(all.as_mut_ptr().cast(), half);
                    std::ptr::copy_nonoverlapping(all.as_ptr(), to, n);
                }
            }
        }
    }
    #[inline(always)]
    unsafe fn steps(self, factor: Self) -> Self {
        let y = _mm256_mul_ps(_mm256_cvtepi32_ps(self.0), _mm256_castsi256_ps(factor.0));
        Avx(_mm256_cvtps_epi32(y))
    }
    #[inline(always)]
    unsafe fn bytes([a, b, c, d]: [Self; 4], to: &Quick) -> Self {
        let zero = _mm256_set1_epi16(to.zero);
        let pair = |a: Self, b: Self| _mm256_adds_epi16(_mm256_packs_epi32(a.0, b.0), zero);
        let y = _mm256_packus_epi16(pair(a, b), pair(c, d));
        let y = _mm256_min_epu8(y, _mm256_set1_epi8(to.high as i8));
        let y = _mm256_max_epu8(y, _mm256_set1_epi8(to.low as i8));
        Avx(_mm256_xor_si256(y, _mm256_set1_epi8(to.flip as i8)))
    }
    #[inline(always)]
    unsafe fn in_order(self) -> Self {
        let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        Avx(_mm256_permutevar8x32_epi32(self.0, order))
    }
}
