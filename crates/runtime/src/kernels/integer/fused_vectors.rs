//! Vectors for [`fused`](super::fused): sums of 32 bits, quads of bytes, and what brings sums back to
//! bytes.

use super::fused_scales::{Finish, Fixed, Narrow, PANEL, Quick, Range, real};

/// A vector of 32-bit sums, of quads of bytes, or of bytes.
///
/// # Safety
/// Methods may be called only where the implementation's instruction set is enabled; pointers must
/// be valid for all lanes.
pub(super) unsafe trait Wide: Copy {
    /// Sums in a vector.
    const LANES: usize;
    /// Whether there are 32 registers.
    const MANY: bool = false;
    unsafe fn zero() -> Self;
    /// Four bytes in all lanes.
    unsafe fn splat(from: *const u8) -> Self;
    unsafe fn load(from: *const u8) -> Self;
    /// Of 16 bytes, those at the places in each 16 of `order`.
    unsafe fn picked(from: *const u8, order: Self) -> Self;
    unsafe fn xor(self, other: Self) -> Self;
    unsafe fn store(self, to: *mut u8);
    /// Stores the first `n` bytes.
    #[inline(always)]
    unsafe fn store_some(self, to: *mut u8, n: usize) {
        let mut all = [0u8; 64];
        // SAFETY: no vector is longer, and there is room for `n` bytes.
        unsafe {
            self.store(all.as_mut_ptr());
            std::ptr::copy_nonoverlapping(all.as_ptr(), to, n);
        }
    }
    /// Stores the first `n` bytes of each quarter, or all of them.
    #[inline(always)]
    unsafe fn store_parts(self, to: [*mut u8; 4], n: usize) {
        let mut all = [0u8; 64];
        // SAFETY: no vector is longer, and there is room for `n` bytes at each place.
        unsafe {
            self.store(all.as_mut_ptr());
            for (part, to) in all.chunks_exact(Self::LANES).zip(to) {
                std::ptr::copy_nonoverlapping(part.as_ptr(), to, n);
            }
        }
    }
    /// Adds to each lane the four products of its bytes, exactly.
    unsafe fn dot(self, unsigned: Self, signed: Self) -> Self;
    /// Sums times a factor each, within bounds, rounded with halves to even, with a number added.
    unsafe fn finish(self, factor: Self, to: &Range) -> Self;
    /// Sums times a factor each, plus a number each, within bounds, as floats.
    unsafe fn real(self, factor: Self, shift: Self, bounds: [f32; 2]) -> Self;
    /// Sums in fixed point within bounds, by the numbers from a place of the tables on.
    #[inline(always)]
    unsafe fn finish_fixed(self, (fixed, at): (&Fixed, usize), [low, high]: [i32; 2]) -> Self {
        let mut all = [0i32; 16];
        // SAFETY: no vector has more lanes, and tables have a number for each.
        unsafe {
            self.store(all.as_mut_ptr().cast());
            for (i, x) in all.iter_mut().enumerate().take(Self::LANES) {
                *x = fixed.bring(*x, at + i).min(high).max(low);
            }
            Self::load(all.as_ptr().cast())
        }
    }
    /// The same where products have 64 bits at most, by the numbers of a
    /// [`Narrow`](super::fused_scales::Narrow).
    unsafe fn finish_narrow(self, tables: [Self; 6], bounds: [i32; 2]) -> Self;
    /// Writes the low bytes of all lanes.
    unsafe fn store_low(self, to: *mut u8);
    /// The same of the first `n` lanes, fewer than there are.
    #[inline(always)]
    unsafe fn store_low_some(self, to: *mut u8, n: usize) {
        let mut all = [0u8; 16];
        // SAFETY: no vector has more lanes, and there is room for `n` bytes.
        unsafe {
            self.store_low(all.as_mut_ptr());
            std::ptr::copy_nonoverlapping(all.as_ptr(), to, n);
        }
    }
    /// Interleaves bytes in each 16 of them: of the lower halves, and of the upper ones.
    unsafe fn interleave8(self, b: Self) -> (Self, Self);
    /// The same with pairs of bytes.
    unsafe fn interleave16(self, b: Self) -> (Self, Self);
    /// The low bytes of lanes, of all four in each 16 bytes.
    unsafe fn join(parts: [Self; 4]) -> Self;
    /// Sums times a factor each, rounded with halves to even.
    unsafe fn steps(self, factor: Self) -> Self;
    /// The results of rounded numbers, as [`Wide::join`] has them.
    unsafe fn bytes(parts: [Self; 4], to: &Quick) -> Self;
    /// Returns what [`Wide::join`] has, part after part.
    unsafe fn in_order(self) -> Self;
    /// Replaces the sums of the channels in each panel's places from `at` on by results, whatever
    /// brings them there: a function of its own, which has the instruction set itself.
    unsafe fn exactly(finish: &Finish<'_>, sums: &mut [Self; 4], at: usize);
}

/// The body of [`Wide::exactly`].
#[inline(always)]
unsafe fn exactly<S: Wide>(finish: &Finish<'_>, sums: &mut [S; 4], at: usize) {
    for (j, sum) in sums.iter_mut().enumerate() {
        // SAFETY: the caller has the instruction set; tables have a number for each channel.
        unsafe { finish.all(std::iter::once(sum), j * PANEL + at) };
    }
}

impl Narrow {
    /// The numbers for a vector of channels from an even place on: multipliers, what is added to even
    /// and to odd products, the places that these are shifted by, and zero points.
    #[inline(always)]
    unsafe fn load<S: Wide>(&self, at: usize) -> [S; 6] {
        let ([even, odd], [even_right, odd_right]) = (&self.half, &self.right);
        // SAFETY: the caller has the instruction set; there are numbers for all lanes.
        unsafe {
            [
                S::load(self.multiplier.as_ptr().add(at).cast()),
                S::load(even.as_ptr().add(at / 2).cast()),
                S::load(odd.as_ptr().add(at / 2).cast()),
                S::load(even_right.as_ptr().add(at / 2).cast()),
                S::load(odd_right.as_ptr().add(at / 2).cast()),
                S::load(self.zero.as_ptr().add(at).cast()),
            ]
        }
    }
}

impl Finish<'_> {
    /// Replaces sums with their bias, of channels from a place of the tables on, which is even, by
    /// their results.
    ///
    /// # Safety
    /// The instruction set is enabled, and the tables have a number for each lane.
    #[inline(always)]
    pub(super) unsafe fn all<'s, S: Wide + 's>(
        &self,
        sums: impl Iterator<Item = &'s mut S>,
        at: usize,
    ) {
        // SAFETY: as promised.
        unsafe {
            match *self {
                Finish::Float(factor, range, _) => {
                    let factor = S::load(factor.as_ptr().add(at).cast());
                    for s in sums {
                        *s = s.finish(factor, &range);
                    }
                }
                Finish::Real(factor, shift, bounds) => {
                    let factor = S::load(factor.as_ptr().add(at).cast());
                    let shift = S::load(shift.as_ptr().add(at).cast());
                    for s in sums {
                        *s = s.real(factor, shift, bounds);
                    }
                }
                Finish::Fixed(fixed, bounds) => match &fixed.narrow {
                    Some(narrow) => {
                        let tables = narrow.load(at);
                        for s in sums {
                            *s = s.finish_narrow(tables, bounds);
                        }
                    }
                    None => {
                        for s in sums {
                            *s = s.finish_fixed((fixed, at), bounds);
                        }
                    }
                },
            }
        }
    }
}

/// Portable code, which compilers vectorise as far as they can.
#[derive(Clone, Copy)]
pub(super) struct Plain([u32; 4]);

impl Plain {
    #[inline(always)]
    fn bytes(self) -> [u8; 16] {
        let mut all = [0; 16];
        for (to, word) in all.chunks_exact_mut(4).zip(self.0) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        all
    }
    #[inline(always)]
    fn of(bytes: [u8; 16]) -> Plain {
        Plain(std::array::from_fn(|i| {
            u32::from_le_bytes([0, 1, 2, 3].map(|k| bytes[4 * i + k]))
        }))
    }
}

// SAFETY: nothing is enabled beyond what every processor has.
#[allow(unsafe_op_in_unsafe_fn)]
unsafe impl Wide for Plain {
    const LANES: usize = 4;
    unsafe fn exactly(finish: &Finish<'_>, sums: &mut [Self; 4], at: usize) {
        exactly(finish, sums, at);
    }
    #[inline(always)]
    unsafe fn zero() -> Self {
        Plain([0; 4])
    }
    #[inline(always)]
    unsafe fn splat(from: *const u8) -> Self {
        Plain([u32::from_le_bytes(from.cast::<[u8; 4]>().read()); 4])
    }
    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        Plain::of(from.cast::<[u8; 16]>().read())
    }
    #[inline(always)]
    unsafe fn picked(from: *const u8, order: Self) -> Self {
        let all = from.cast::<[u8; 16]>().read();
        Plain::of(order.bytes().map(|at| all[usize::from(at % 16)]))
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        to.cast::<[u8; 16]>().write(self.bytes());
    }
    #[inline(always)]
    unsafe fn dot(self, unsigned: Self, signed: Self) -> Self {
        let (u, s) = (unsigned.bytes(), signed.bytes());
        Plain(std::array::from_fn(|i| {
            let product = |k: usize| i32::from(u[4 * i + k]) * i32::from(s[4 * i + k] as i8);
            let sum = product(0) + product(1) + product(2) + product(3);
            self.0[i].wrapping_add(sum as u32)
        }))
    }
    #[inline(always)]
    unsafe fn finish(self, factor: Self, to: &Range) -> Self {
        let mut all = self.0;
        for (x, factor) in all.iter_mut().zip(factor.0) {
            *x = to.bring(*x as i32, f32::from_bits(factor)) as u32;
        }
        Plain(all)
    }
    #[inline(always)]
    unsafe fn real(self, factor: Self, shift: Self, bounds: [f32; 2]) -> Self {
        Plain(std::array::from_fn(|i| {
            let [factor, shift] = [factor, shift].map(|t| f32::from_bits(t.0[i]));
            real(self.0[i] as i32, factor, shift, bounds).to_bits()
        }))
    }
    #[inline(always)]
    unsafe fn finish_narrow(self, tables: [Self; 6], [low, high]: [i32; 2]) -> Self {
        let [multiplier, even, odd, even_right, odd_right, zero] = tables.map(|t| t.0);
        let word = |t: [u32; 4], k: usize| u64::from(t[2 * k]) | u64::from(t[2 * k + 1]) << 32;
        Plain(std::array::from_fn(|i| {
            let (half, right) = match i % 2 {
                0 => (even, even_right),
                _ => (odd, odd_right),
            };
            let product = i64::from(self.0[i] as i32) * i64::from(multiplier[i] as i32);
            let y = (product as u64).wrapping_add(word(half, i / 2)) >> word(right, i / 2);
            (y as i32).wrapping_add(zero[i] as i32).min(high).max(low) as u32
        }))
    }
    #[inline(always)]
    unsafe fn store_low(self, to: *mut u8) {
        to.cast::<[u8; 4]>().write(self.0.map(|x| x as u8));
    }
    // Rows are computed one by one where there are no vectors.
    #[inline(always)]
    unsafe fn interleave8(self, b: Self) -> (Self, Self) {
        (self, b)
    }
    #[inline(always)]
    unsafe fn interleave16(self, b: Self) -> (Self, Self) {
        (self, b)
    }
    #[inline(always)]
    unsafe fn join([first, ..]: [Self; 4]) -> Self {
        first
    }
    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        Plain(std::array::from_fn(|i| self.0[i] ^ other.0[i]))
    }
    #[inline(always)]
    unsafe fn steps(self, _: Self) -> Self {
        self
    }
    #[inline(always)]
    unsafe fn bytes([first, ..]: [Self; 4], _: &Quick) -> Self {
        first
    }
    #[inline(always)]
    unsafe fn in_order(self) -> Self {
        self
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
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
}
