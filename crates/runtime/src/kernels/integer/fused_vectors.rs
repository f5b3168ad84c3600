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
    /// Stores the first `n` bytes of each half, or all of them.
    #[inline(always)]
    unsafe fn store_halves(self, to: [*mut u8; 2], n: usize) {
        let mut all = [0u8; 64];
        // SAFETY: no vector is longer, and there is room for `n` bytes at each place.
        unsafe {
            self.store(all.as_mut_ptr());
            for (half, to) in all.chunks_exact(2 * Self::LANES).zip(to) {
                std::ptr::copy_nonoverlapping(half.as_ptr(), to, n);
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
pub(super) mod x86;
