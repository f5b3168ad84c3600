//! Four lanes in portable Rust, which compilers turn into SSE2 or NEON.

use super::{Simd, ends};

/// Four floats.
#[derive(Clone, Copy)]
pub struct Portable([f32; 4]);

#[inline(always)]
fn map(a: Portable, f: impl Fn(f32) -> f32) -> Portable {
    let a = a.0;
    Portable([f(a[0]), f(a[1]), f(a[2]), f(a[3])])
}

#[inline(always)]
fn zip(a: Portable, b: Portable, f: impl Fn(f32, f32) -> f32) -> Portable {
    let (a, b) = (a.0, b.0);
    Portable([f(a[0], b[0]), f(a[1], b[1]), f(a[2], b[2]), f(a[3], b[3])])
}

/// The number from which on every float is an integer; adding and subtracting it rounds one below.
const INTEGERS: f32 = 8_388_608.0;

// SAFETY: no method needs an instruction set beyond the target's; partial loads and stores touch
// the first `n` lanes.
unsafe impl Simd for Portable {
    const LANES: usize = 4;
    const MR: usize = 4;
    const NV: usize = 2;
    const FUSED: bool = cfg!(target_arch = "aarch64");
    type Mask = [bool; 4];
    type Lanes = (usize, usize);

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Self([x; 4])
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: `from` has a vector's floats.
        Self(unsafe { from.cast::<[f32; 4]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: `to` has room for a vector's floats.
        unsafe { to.cast::<[f32; 4]>().write_unaligned(self.0) };
    }
    #[inline(always)]
    unsafe fn stream(self, to: *mut f32) {
        // SAFETY: `to` has room for a vector's floats.
        unsafe { self.store(to) };
    }
    #[inline(always)]
    unsafe fn prefetch(_: *const f32) {}
    #[inline(always)]
    unsafe fn prefetch_to_write(_: *const f32) {}
    #[inline(always)]
    unsafe fn fence() {}
    #[inline(always)]
    unsafe fn lanes(first: usize, end: usize) -> (usize, usize) {
        (first, end)
    }
    #[inline(always)]
    unsafe fn load_lanes(from: *const f32, (first, end): (usize, usize)) -> Self {
        let mut all = [0.0; 4];
        let n = end.saturating_sub(first);
        // SAFETY: `from` has the lanes from `first` to `end`, which is at most 4.
        unsafe {
            let to = all.as_mut_ptr().wrapping_add(first);
            from.wrapping_add(first).copy_to_nonoverlapping(to, n);
        }
        Self(all)
    }
    #[inline(always)]
    unsafe fn load_part(from: *const f32, n: usize) -> Self {
        // SAFETY: `from` has `n` floats.
        unsafe { Self::load_lanes(from, (0, n)) }
    }
    #[inline(always)]
    unsafe fn store_part(self, to: *mut f32, n: usize) {
        // SAFETY: `to` has room for `n` floats.
        unsafe { self.store_between(to, 0, n) };
    }
    #[inline(always)]
    unsafe fn store_between(self, to: *mut f32, first: usize, end: usize) {
        let n = end.saturating_sub(first);
        let from = self.0.as_ptr().wrapping_add(first);
        // SAFETY: `to` has room for the lanes from `first` to `end`, which is at most 4.
        unsafe { to.wrapping_add(first).copy_from_nonoverlapping(from, n) };
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        zip(self, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        zip(self, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        zip(self, b, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, b: Self) -> Self {
        zip(self, b, |a, b| a / b)
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        let one = |a: f32, b: f32, c: f32| {
            if cfg!(target_arch = "aarch64") {
                a.mul_add(b, c)
            } else {
                a * b + c
            }
        };
        let (a, b, c) = (self.0, b.0, c.0);
        Self([
            one(a[0], b[0], c[0]),
            one(a[1], b[1], c[1]),
            one(a[2], b[2], c[2]),
            one(a[3], b[3], c[3]),
        ])
    }
    #[inline(always)]
    fn max(self, b: Self) -> Self {
        zip(self, b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn min(self, b: Self) -> Self {
        zip(self, b, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        map(self, f32::sqrt)
    }
    #[inline(always)]
    fn half(self) -> Self {
        map(self, |a| half::f16::from_f32(a).to_f32())
    }
    #[inline(always)]
    fn round(self) -> Self {
        map(self, |a| {
            // From 2^23 on all numbers are integers.
            let near = (a.abs() + INTEGERS) - INTEGERS;
            if a.abs() < INTEGERS {
                near.copysign(a)
            } else {
                a
            }
        })
    }
    #[inline(always)]
    fn floor(self) -> Self {
        let near = self.round();
        zip(self, near, |a, r| if a < r { r - 1.0 } else { r })
    }
    #[inline(always)]
    fn power(self) -> Self {
        map(self, |n| f32::from_bits(n.to_bits() << 23))
    }
    #[inline(always)]
    fn lift(self, n: Self) -> Self {
        zip(self, n, |a, n| {
            f32::from_bits(a.to_bits().wrapping_add(n.to_bits() << 23))
        })
    }
    #[inline(always)]
    fn split(self) -> (Self, Self) {
        let tiny = |a: f32| a < f32::MIN_POSITIVE;
        let normal = map(self, |a| if tiny(a) { a * INTEGERS } else { a });
        let exponent = |a: f32| (a.to_bits() as i32).wrapping_sub(0x3f35_04f3) >> 23;
        let m = map(normal, |a| {
            f32::from_bits((a.to_bits() as i32).wrapping_sub(exponent(a) << 23) as u32)
        });
        let e = zip(self, normal, |a, n| {
            exponent(n) as f32 - if tiny(a) { 23.0 } else { 0.0 }
        });
        (m, ends(self, e))
    }
    #[inline(always)]
    fn odd(self) -> [bool; 4] {
        self.0.map(|a| a.to_bits() & 1 != 0)
    }
    #[inline(always)]
    fn lt(self, b: Self) -> [bool; 4] {
        let (a, b) = (self.0, b.0);
        [a[0] < b[0], a[1] < b[1], a[2] < b[2], a[3] < b[3]]
    }
    #[inline(always)]
    fn eq(self, b: Self) -> [bool; 4] {
        let (a, b) = (self.0, b.0);
        [a[0] == b[0], a[1] == b[1], a[2] == b[2], a[3] == b[3]]
    }
    #[inline(always)]
    fn select(mask: [bool; 4], yes: Self, no: Self) -> Self {
        let one = |i: usize| if mask[i] { yes.0[i] } else { no.0[i] };
        Self([one(0), one(1), one(2), one(3)])
    }
    #[inline(always)]
    fn abs(self) -> Self {
        map(self, f32::abs)
    }
    #[inline(always)]
    fn copysign(self, b: Self) -> Self {
        zip(self, b, f32::copysign)
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        let [a, b, c, d] = self.0;
        (a + c) + (b + d)
    }
    #[inline(always)]
    fn largest(self) -> f32 {
        let [a, b, c, d] = self.0;
        a.max(b).max(c.max(d))
    }
    #[inline(always)]
    fn all_lt(self, b: Self) -> bool {
        let (a, b) = (self.0, b.0);
        a[0] < b[0] && a[1] < b[1] && a[2] < b[2] && a[3] < b[3]
    }
    #[inline(always)]
    fn weave(parts: [Self; 4]) -> [Self; 4] {
        [0, 1, 2, 3].map(|k| Self(parts.map(|p| p.0[k])))
    }
    #[inline(always)]
    fn unweave(whole: [Self; 4]) -> [Self; 4] {
        // A square transposed twice is itself.
        Self::weave(whole)
    }
    #[inline(always)]
    fn unzip(first: Self, second: Self) -> (Self, Self) {
        let (a, b) = (first.0, second.0);
        (
            Self([a[0], a[2], b[0], b[2]]),
            Self([a[1], a[3], b[1], b[3]]),
        )
    }
    #[inline(always)]
    fn zip(even: Self, odd: Self) -> (Self, Self) {
        let (a, b) = (even.0, odd.0);
        (
            Self([a[0], b[0], a[1], b[1]]),
            Self([a[2], b[2], a[3], b[3]]),
        )
    }
    #[inline(always)]
    unsafe fn of_bytes(from: *const i8) -> Self {
        // SAFETY: `from` has a vector's bytes.
        let bytes = unsafe { from.cast::<[i8; 4]>().read_unaligned() };
        Self(bytes.map(f32::from))
    }
    #[inline(always)]
    unsafe fn of_halves(from: *const i8) -> (Self, Self) {
        // SAFETY: `from` has a vector's bytes.
        let bytes = unsafe { from.cast::<[i8; 4]>().read_unaligned() };
        let low = bytes.map(|b| f32::from(b << 4 >> 4));
        (Self(low), Self(bytes.map(|b| f32::from(b >> 4))))
    }
}
