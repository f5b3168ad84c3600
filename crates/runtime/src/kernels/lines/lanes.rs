//! Vectors of numbers that are sorted: what `order` needs of them, for each width.

use std::arch::x86_64::*;

/// Numbers in a vector.
///
/// # Safety
/// The processor has AVX2, and AVX-512 for [`Words`].
pub(super) trait Lanes: Copy {
    type Number: Copy + Ord;
    /// The greatest number.
    const MOST: Self::Number;
    const LANES: usize;
    unsafe fn all(x: Self::Number) -> Self;
    unsafe fn load(from: *const Self::Number) -> Self;
    unsafe fn store(self, to: *mut Self::Number);
    /// The lesser ones of two vectors, and the greater ones.
    unsafe fn both(self, b: Self) -> (Self, Self);
    /// The lanes in reverse order.
    unsafe fn reversed(self) -> Self;
    /// One stage of the network within a vector, by its number: 0 to 2 compare lanes 1, 2 and
    /// 4 apart, those from `LANES.ilog2()` on lanes that lie opposite in 4 and in 8.
    unsafe fn within(self, stage: usize) -> Self;
    /// Lanes that are less than another vector's first, with `EQUAL` those that are not greater,
    /// and the number of them.
    unsafe fn parted<const EQUAL: bool>(self, by: Self) -> (Self, usize);
}

/// For each mask, the lanes of its bits and then the others.
const fn lanes_of<const N: usize, const W: usize>() -> [[u8; 8]; N] {
    let mut all = [[0; 8]; N];
    let mut mask = 0;
    while mask < N {
        let (mut at, mut pass) = (0, 0);
        while pass < 2 {
            let mut lane = 0;
            while lane < 8 / W {
                if (mask >> lane & 1 == 1) == (pass == 0) {
                    let mut part = 0;
                    while part < W {
                        all[mask][at] = (lane * W + part) as u8;
                        at += 1;
                        part += 1;
                    }
                }
                lane += 1;
            }
            pass += 1;
        }
        mask += 1;
    }
    all
}
static EIGHTS: [[u8; 8]; 256] = lanes_of::<256, 1>();
static FOURS: [[u8; 8]; 16] = lanes_of::<16, 2>();

/// The lanes of a vector of words in the order of a table.
#[inline(always)]
unsafe fn permuted(x: __m256i, order: &[u8; 8]) -> __m256i {
    // SAFETY: the processor has AVX2, and the table has eight bytes.
    unsafe {
        let order = _mm256_cvtepu8_epi32(_mm_loadl_epi64(order.as_ptr().cast()));
        _mm256_permutevar8x32_epi32(x, order)
    }
}

#[derive(Clone, Copy)]
pub(super) struct Eight(__m256i);

/// Compares lanes with others: the lesser ones where `$greater` has no bits.
macro_rules! compared {
    ($x:expr, $other:expr, $greater:literal) => {{
        let (less, more) = Self($x).both(Self($other));
        Self(_mm256_blend_epi32::<$greater>(less.0, more.0))
    }};
}

// SAFETY: intrinsics of AVX2.
#[allow(unsafe_op_in_unsafe_fn)]
impl Lanes for Eight {
    type Number = i32;
    const MOST: i32 = i32::MAX;
    const LANES: usize = 8;
    #[inline(always)]
    unsafe fn all(x: i32) -> Self {
        Self(_mm256_set1_epi32(x))
    }
    #[inline(always)]
    unsafe fn load(from: *const i32) -> Self {
        Self(_mm256_loadu_si256(from.cast()))
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut i32) {
        _mm256_storeu_si256(to.cast(), self.0);
    }
    #[inline(always)]
    unsafe fn both(self, b: Self) -> (Self, Self) {
        (
            Self(_mm256_min_epi32(self.0, b.0)),
            Self(_mm256_max_epi32(self.0, b.0)),
        )
    }
    #[inline(always)]
    unsafe fn reversed(self) -> Self {
        let halves = _mm256_shuffle_epi32::<0x1b>(self.0);
        Self(_mm256_permute4x64_epi64::<0x4e>(halves))
    }
    #[inline(always)]
    unsafe fn within(self, stage: usize) -> Self {
        let x = self.0;
        match stage {
            0 => compared!(x, _mm256_shuffle_epi32::<0xb1>(x), 0xaa),
            1 => compared!(x, _mm256_shuffle_epi32::<0x4e>(x), 0xcc),
            2 => compared!(x, _mm256_permute4x64_epi64::<0x4e>(x), 0xf0),
            3 => compared!(x, _mm256_shuffle_epi32::<0x1b>(x), 0xcc),
            _ => compared!(x, self.reversed().0, 0xf0),
        }
    }
    #[inline(always)]
    unsafe fn parted<const EQUAL: bool>(self, by: Self) -> (Self, usize) {
        let first = match EQUAL {
            true => _mm256_xor_si256(_mm256_cmpgt_epi32(self.0, by.0), _mm256_set1_epi8(-1)),
            false => _mm256_cmpgt_epi32(by.0, self.0),
        };
        let mask = _mm256_movemask_ps(_mm256_castsi256_ps(first)) as usize;
        (
            Self(permuted(self.0, &EIGHTS[mask])),
            mask.count_ones() as usize,
        )
    }
}

#[derive(Clone, Copy)]
pub(super) struct Four(__m256i);

// SAFETY: intrinsics of AVX2.
#[allow(unsafe_op_in_unsafe_fn)]
impl Lanes for Four {
    type Number = i64;
    const MOST: i64 = i64::MAX;
    const LANES: usize = 4;
    #[inline(always)]
    unsafe fn all(x: i64) -> Self {
        Self(_mm256_set1_epi64x(x))
    }
    #[inline(always)]
    unsafe fn load(from: *const i64) -> Self {
        Self(_mm256_loadu_si256(from.cast()))
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut i64) {
        _mm256_storeu_si256(to.cast(), self.0);
    }
    #[inline(always)]
    unsafe fn both(self, b: Self) -> (Self, Self) {
        let more = _mm256_cmpgt_epi64(self.0, b.0);
        (
            Self(_mm256_blendv_epi8(self.0, b.0, more)),
            Self(_mm256_blendv_epi8(b.0, self.0, more)),
        )
    }
    #[inline(always)]
    unsafe fn reversed(self) -> Self {
        Self(_mm256_permute4x64_epi64::<0x1b>(self.0))
    }
    #[inline(always)]
    unsafe fn within(self, stage: usize) -> Self {
        let x = self.0;
        match stage {
            0 => compared!(x, _mm256_shuffle_epi32::<0x4e>(x), 0xcc),
            1 => compared!(x, _mm256_permute4x64_epi64::<0x4e>(x), 0xf0),
            _ => compared!(x, self.reversed().0, 0xf0),
        }
    }
    #[inline(always)]
    unsafe fn parted<const EQUAL: bool>(self, by: Self) -> (Self, usize) {
        let first = match EQUAL {
            true => _mm256_xor_si256(_mm256_cmpgt_epi64(self.0, by.0), _mm256_set1_epi8(-1)),
            false => _mm256_cmpgt_epi64(by.0, self.0),
        };
        let mask = _mm256_movemask_pd(_mm256_castsi256_pd(first)) as usize;
        (
            Self(permuted(self.0, &FOURS[mask])),
            mask.count_ones() as usize,
        )
    }
}

#[derive(Clone, Copy)]
pub(super) struct Words(__m512i);

/// Compares lanes with others: the greater ones where the mask has bits.
macro_rules! masked {
    ($x:expr, $other:expr, $greater:literal) => {{
        let (x, other) = ($x, $other);
        let less = _mm512_min_epi64(x, other);
        Self(_mm512_mask_max_epi64(less, $greater, x, other))
    }};
}

// SAFETY: intrinsics of AVX-512 F.
#[allow(unsafe_op_in_unsafe_fn)]
impl Lanes for Words {
    type Number = i64;
    const MOST: i64 = i64::MAX;
    const LANES: usize = 8;
    #[inline(always)]
    unsafe fn all(x: i64) -> Self {
        Self(_mm512_set1_epi64(x))
    }
    #[inline(always)]
    unsafe fn load(from: *const i64) -> Self {
        Self(_mm512_loadu_epi64(from))
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut i64) {
        _mm512_storeu_epi64(to, self.0);
    }
    #[inline(always)]
    unsafe fn both(self, b: Self) -> (Self, Self) {
        (
            Self(_mm512_min_epi64(self.0, b.0)),
            Self(_mm512_max_epi64(self.0, b.0)),
        )
    }
    #[inline(always)]
    unsafe fn reversed(self) -> Self {
        let fours = _mm512_permutex_epi64::<0x1b>(self.0);
        Self(_mm512_shuffle_i64x2::<0x4e>(fours, fours))
    }
    #[inline(always)]
    unsafe fn within(self, stage: usize) -> Self {
        let x = self.0;
        match stage {
            0 => masked!(x, _mm512_permutex_epi64::<0xb1>(x), 0xaa),
            1 => masked!(x, _mm512_permutex_epi64::<0x4e>(x), 0xcc),
            2 => masked!(x, _mm512_shuffle_i64x2::<0x4e>(x, x), 0xf0),
            3 => masked!(x, _mm512_permutex_epi64::<0x1b>(x), 0xcc),
            _ => masked!(x, self.reversed().0, 0xf0),
        }
    }
    #[inline(always)]
    unsafe fn parted<const EQUAL: bool>(self, by: Self) -> (Self, usize) {
        let mask = match EQUAL {
            true => _mm512_cmple_epi64_mask(self.0, by.0),
            false => _mm512_cmplt_epi64_mask(self.0, by.0),
        };
        let count = mask.count_ones() as usize;
        let first = _mm512_maskz_compress_epi64(mask, self.0);
        let others = _mm512_maskz_compress_epi64(!mask, self.0);
        let behind = (0xff_u32 << count) as __mmask8;
        (Self(_mm512_mask_expand_epi64(first, behind, others)), count)
    }
}
