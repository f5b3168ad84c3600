//! Vectors of float32 as a trait, so that every kernel is written once for all processors.
//!
//! Invariant: no closure touches a vector. Closures and the functions of `core` that take them
//! (`map`, `for_each`) are functions of their own, for which the instruction set is not enabled:
//! intrinsics in them become calls.
//!
//! A kernel is a generic `#[inline(always)]` function over [`Simd`]; `dispatch` creates the
//! variants, each inside a function that enables its instruction set, and calls the one that
//! [`isa`] names.

/// Methods that are one intrinsic over whole vectors.
#[cfg(target_arch = "x86_64")]
macro_rules! intrinsics {
    ($($name:ident($($arg:ident),*) = $intrinsic:ident;)*) => {$(
        #[inline(always)]
        fn $name(self $(, $arg: Self)*) -> Self {
            // SAFETY: there is no vector but where the instruction set is enabled.
            Self(unsafe { $intrinsic(self.0 $(, $arg.0)*) })
        }
    )*};
}

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub mod bounds;
pub mod bytes;
mod portable;
pub mod square;
pub mod wide;

#[cfg(target_arch = "x86_64")]
pub use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub use avx512::Avx512;
pub use portable::Portable;

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// An instruction set that kernels exist for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Isa {
    /// The baseline of the target.
    Portable = 0,
    /// AVX2 with FMA.
    Avx2 = 1,
    /// AVX-512 F, VL, DQ and BW.
    Avx512 = 2,
}

static CHOSEN: AtomicU8 = AtomicU8::new(u8::MAX);
static ROUNDS: AtomicBool = AtomicBool::new(false);

/// Returns the instruction set in use: the best one that the processor has, or the one that
/// `RELAX_ISA` lowers it to.
#[inline]
pub fn isa() -> Isa {
    match CHOSEN.load(Ordering::Relaxed) {
        0 => Isa::Portable,
        1 => Isa::Avx2,
        2 => Isa::Avx512,
        _ => choose(),
    }
}

/// Returns whether the processor rounds vectors of float32 to bfloat16 by an instruction
/// (AVX512-BF16), after [`isa`] was asked.
#[inline(always)]
pub fn rounds() -> bool {
    ROUNDS.load(Ordering::Relaxed)
}

/// Uses the instruction of [`rounds`] where the processor has it, or never; for tests.
pub fn set_rounds(allowed: bool) {
    #[cfg(target_arch = "x86_64")]
    let allowed = allowed && is_x86_feature_detected!("avx512bf16");
    #[cfg(not(target_arch = "x86_64"))]
    let allowed = allowed && false;
    ROUNDS.store(allowed, Ordering::Relaxed);
}

/// Returns the best instruction set of this processor.
pub fn best() -> Isa {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("fma")
        {
            return Isa::Avx512;
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            return Isa::Avx2;
        }
    }
    Isa::Portable
}

#[cold]
fn choose() -> Isa {
    let limit = match std::env::var("RELAX_ISA").as_deref() {
        Ok("portable") => Isa::Portable,
        Ok("avx2") => Isa::Avx2,
        _ => Isa::Avx512,
    };
    set(limit)
}

/// Uses `limit` or the best that the processor has, whichever is lower; for tests.
pub fn set(limit: Isa) -> Isa {
    let isa = best().min(limit);
    set_rounds(isa == Isa::Avx512);
    CHOSEN.store(isa as u8, Ordering::Relaxed);
    isa
}

/// A vector of float32 with the operations that kernels need.
///
/// Invariant: a vector is made where its instruction set is enabled, and nowhere else: what makes one
/// is unsafe, and what computes with vectors is not.
///
/// # Safety
/// Methods that take no vector may be called only where the implementation's instruction set is
/// enabled, which is what `dispatch` sees to; pointers must be valid for the lanes that are touched.
#[allow(clippy::missing_safety_doc)] // The trait's own section holds for every method.
pub unsafe trait Simd: Copy {
    /// Floats in a vector.
    const LANES: usize;
    /// Rows of a matrix product's tile.
    const MR: usize;
    /// Vectors in a row of that tile.
    const NV: usize;
    /// [`Simd::fma`] rounds once.
    const FUSED: bool;
    /// The result of a comparison.
    type Mask: Copy;
    /// Some lanes of a vector.
    type Lanes: Copy;

    /// All lanes `x`.
    unsafe fn splat(x: f32) -> Self;
    /// All lanes `x`, beside a vector.
    #[inline(always)]
    fn same(self, x: f32) -> Self {
        // SAFETY: there is no vector but where the instruction set is enabled.
        unsafe { Self::splat(x) }
    }
    /// Reads all lanes, unaligned.
    unsafe fn load(from: *const f32) -> Self;
    /// Writes all lanes, unaligned.
    unsafe fn store(self, to: *mut f32);
    /// Writes all lanes with a non-temporal store; the address is aligned to the vector's size.
    /// [`Simd::fence`] is needed before other threads read it.
    unsafe fn stream(self, to: *mut f32);
    /// Prefetches the cache line of an address, which need not be in one of our allocations.
    unsafe fn prefetch(from: *const f32);
    /// Brings a line of memory that is written soon to the caches, this processor's alone.
    unsafe fn prefetch_to_write(to: *const f32);
    /// Makes what [`Simd::stream`] wrote visible.
    unsafe fn fence();
    /// The lanes from `first` up to `end`.
    unsafe fn lanes(first: usize, end: usize) -> Self::Lanes;
    /// Loads some lanes from their positions in a whole vector, the others are 0; no other memory
    /// is accessed.
    unsafe fn load_lanes(from: *const f32, lanes: Self::Lanes) -> Self;
    /// Reads the first `n` lanes, at most `LANES`; the others are 0.
    unsafe fn load_part(from: *const f32, n: usize) -> Self;
    /// Writes the first `n` lanes, at most `LANES`.
    unsafe fn store_part(self, to: *mut f32, n: usize);
    /// Stores the lanes from `first` up to `end` to their positions in a whole vector; no other
    /// memory is accessed.
    unsafe fn store_between(self, to: *mut f32, first: usize, end: usize);
    /// `self + b`.
    fn add(self, b: Self) -> Self;
    /// `self - b`.
    fn sub(self, b: Self) -> Self;
    /// `self * b`.
    fn mul(self, b: Self) -> Self;
    /// `self / b`.
    fn div(self, b: Self) -> Self;
    /// `self * b + c`, rounded once where the processor can.
    fn fma(self, b: Self, c: Self) -> Self;
    /// Returns a pointer and orders loads through it after the computation of `sum`. Where all
    /// registers hold sums, a compiler that loads the next operands first runs out of them, and a
    /// sum is spilled at every step.
    #[inline(always)]
    unsafe fn pinned<T>(at: *const T, _sum: &mut Self) -> *const T {
        at
    }
    /// `if self > b { self } else { b }`: the second where one is NaN.
    fn max(self, b: Self) -> Self;
    /// `if self < b { self } else { b }`: the second where one is NaN.
    fn min(self, b: Self) -> Self;
    /// Square root.
    fn sqrt(self) -> Self;
    /// To the nearest integer, ties to even; zeros keep their signs.
    fn round(self) -> Self;
    /// To the nearest number that float16 has, ties to even.
    fn half(self) -> Self;
    /// The next integer below; zeros keep their signs.
    fn floor(self) -> Self;
    /// The float whose sign and exponent are the low nine bits of this one: 2^(n - 127) for a number
    /// that is an integer `n` and one in whose last bit is 1.
    fn power(self) -> Self;
    /// `self * 2^n`, where number and result are normal: the low bits of `n`, as in
    /// [`Simd::power`], are added to the exponent.
    fn lift(self, n: Self) -> Self;
    /// [`Simd::scaled`] multiplies.
    const SCALES: bool = false;
    /// `self * 2^n` for any whole `n`, as numbers are rounded: infinite, subnormal, 0. Where there is
    /// such an instruction ([`Simd::SCALES`]); else the number itself.
    fn scaled(self, n: Self) -> Self {
        let _ = n;
        self
    }
    /// `(m, e)` with `self = m * 2^e` and `m` in [√½, √2) for a positive number. `e` is -∞ for zeros, ∞
    /// for ∞ and NaN for negative numbers and NaN, and `m` some number that is not infinite (NaN where
    /// `e` is, perhaps).
    fn split(self) -> (Self, Self);
    /// [`Simd::sixteenth`] looks numbers up in a register, which takes AVX-512.
    const TABLES: bool = false;
    /// As [`Simd::split`], with `m` in [¾, 1½): there are no two of one [`Simd::sixteenth`]. Where
    /// there are tables.
    #[inline(always)]
    fn split_evenly(self) -> (Self, Self) {
        self.split()
    }
    /// The number of a table at the place that the four bits after the first one of a mantissa are.
    /// Where there are tables ([`Simd::TABLES`]); else the number itself.
    #[inline(always)]
    fn sixteenth(self, table: &[f32; 16]) -> Self {
        let _ = table;
        self
    }
    /// A function of each lane.
    #[inline(always)]
    fn each(self, f: fn(f32) -> f32) -> Self {
        const { assert!(Self::LANES <= 16) };
        let mut lanes = [0.0f32; 16];
        // SAFETY: there is no vector but where the instruction set is enabled, and the array has
        // room for its lanes, which are at most 16.
        unsafe {
            self.store(lanes.as_mut_ptr());
            for lane in &mut lanes[..Self::LANES] {
                *lane = f(*lane);
            }
            Self::load(lanes.as_ptr())
        }
    }
    /// The lanes whose last bit is 1.
    fn odd(self) -> Self::Mask;
    /// `self < b`, false for NaN.
    fn lt(self, b: Self) -> Self::Mask;
    /// `self == b`, false for NaN.
    fn eq(self, b: Self) -> Self::Mask;
    /// `mask ? yes : no`.
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self;
    /// Magnitude.
    fn abs(self) -> Self;
    /// Magnitude of `self` with the sign of `b`.
    fn copysign(self, b: Self) -> Self;
    /// Sum of the lanes, as a tree.
    fn sum(self) -> f32;
    /// The largest lane, of lanes that are not NaN.
    fn largest(self) -> f32;
    /// All lanes are below `b`.
    fn all_lt(self, b: Self) -> bool;
    /// Interleaves the lanes of four vectors: the first lanes of all four, the second ones, and so
    /// on.
    fn weave(parts: [Self; 4]) -> [Self; 4];
    /// The inverse: collects the lanes whose positions have the same remainder modulo four.
    fn unweave(whole: [Self; 4]) -> [Self; 4];
    /// Returns the lanes at even and at odd positions of two consecutive vectors.
    fn unzip(first: Self, second: Self) -> (Self, Self);
    /// The inverse: two vectors whose lanes take turns.
    fn zip(even: Self, odd: Self) -> (Self, Self);
    /// As [`Simd::unzip`] with fewer instructions, in an order of lanes that [`Simd::sifted`] turns
    /// into the usual one.
    #[inline(always)]
    fn sift(first: Self, second: Self) -> (Self, Self) {
        Self::unzip(first, second)
    }
    /// Lanes in the order of [`Simd::sift`], in the usual one.
    #[inline(always)]
    fn sifted(self) -> Self {
        self
    }
    /// Reads `LANES` integers of 8 bits.
    unsafe fn of_bytes(from: *const i8) -> Self;
    /// Reads `LANES` bytes of two integers of 4 bits each: those in the lower halves, and those in
    /// the upper ones.
    unsafe fn of_halves(from: *const i8) -> (Self, Self);
}

/// Reads `n` floats, of two vectors at most; lanes beyond them are 0.
///
/// # Safety
/// There are as many.
#[inline(always)]
pub(super) unsafe fn load_two<S: Simd>(from: *const f32, n: usize) -> (S, S) {
    // SAFETY: as the caller promises; of the second vector, nothing may be left.
    unsafe {
        (
            S::load_part(from, n.min(S::LANES)),
            S::load_part(from.wrapping_add(S::LANES), n.saturating_sub(S::LANES)),
        )
    }
}

/// Returns `y`, a logarithm of `x`, or its special value for 0, negative numbers, infinity and what
/// is no number.
#[inline(always)]
pub(super) fn ends<S: Simd>(x: S, y: S) -> S {
    let zero = x.same(0.0);
    let y = S::select(x.eq(zero), x.same(f32::NEG_INFINITY), y);
    let y = S::select(x.lt(zero), x.same(f32::NAN), y);
    S::select(x.lt(x.same(f32::INFINITY)), y, x)
}

/// A polynomial whose coefficients begin with that of the greatest power.
#[inline(always)]
pub(super) fn poly<S: Simd>(x: S, coefficients: &[f32]) -> S {
    let mut sum = x.same(coefficients[0]);
    for &c in &coefficients[1..] {
        sum = sum.fma(x, x.same(c));
    }
    sum
}

/// Calls a generic kernel for the instruction set in use.
///
/// `dispatch!(name(arg: Type, …) -> Ret)` expands to `name::<S>(arg, …)` with the right `S`.
macro_rules! dispatch {
    ($name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?) => {{
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,fma,avx2,f16c,bmi1,bmi2")]
            unsafe fn avx512($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: the instruction set is enabled here; the arguments are those that the
                // function asks for.
                unsafe { $name::<$crate::kernels::simd::Avx512>($($arg),*) }
            }
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2")]
            unsafe fn avx2($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: the instruction set is enabled here; the arguments are those that the
                // function asks for.
                unsafe { $name::<$crate::kernels::simd::Avx2>($($arg),*) }
            }
            // A function of its own as the others are: callers stay small.
            #[inline(never)]
            unsafe fn portable($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: every processor has these instructions; the arguments are those that the
                // function asks for.
                unsafe { $name::<$crate::kernels::simd::Portable>($($arg),*) }
            }
            match $crate::kernels::simd::isa() {
                $crate::kernels::simd::Isa::Avx512 => avx512($($arg),*),
                $crate::kernels::simd::Isa::Avx2 => avx2($($arg),*),
                $crate::kernels::simd::Isa::Portable => portable($($arg),*),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            $name::<$crate::kernels::simd::Portable>($($arg),*)
        }
    }};
}
pub(crate) use dispatch;

/// Stores a function of vectors of `n` elements, over `S`: `over_vectors!(n, x: from => f(x), to)`.
macro_rules! over_vectors {
    ($n:ident, $($v:ident: $from:ident),+ => $value:expr, $to:ident) => {{
        let mut i = 0;
        while i + S::LANES <= $n {
            $(let $v = S::load($from.add(i));)+
            $value.store($to.add(i));
            i += S::LANES;
        }
        // Only here, since masks take time.
        if i < $n {
            let part = $n - i;
            $(let $v = S::load_part($from.add(i), part);)+
            $value.store_part($to.add(i), part);
        }
    }};
}
pub(crate) use over_vectors;

/// Like `dispatch`, for a kernel that is also generic over types: `name::<S, T, …>(arg, …)`.
macro_rules! dispatch_of {
    ($name:ident<$($t:ident: $bound:path),+>($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?) => {{
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,fma,avx2,f16c,bmi1,bmi2")]
            unsafe fn avx512<$($t: $bound),+>($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: the instruction set is enabled here; the arguments are those that the
                // function asks for.
                unsafe { $name::<$crate::kernels::simd::Avx512, $($t),+>($($arg),*) }
            }
            #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2")]
            unsafe fn avx2<$($t: $bound),+>($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: the instruction set is enabled here; the arguments are those that the
                // function asks for.
                unsafe { $name::<$crate::kernels::simd::Avx2, $($t),+>($($arg),*) }
            }
            // A function of its own as the others are: callers stay small.
            #[inline(never)]
            unsafe fn portable<$($t: $bound),+>($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: every processor has these instructions; the arguments are those that the
                // function asks for.
                unsafe { $name::<$crate::kernels::simd::Portable, $($t),+>($($arg),*) }
            }
            match $crate::kernels::simd::isa() {
                $crate::kernels::simd::Isa::Avx512 => avx512::<$($t),+>($($arg),*),
                $crate::kernels::simd::Isa::Avx2 => avx2::<$($t),+>($($arg),*),
                $crate::kernels::simd::Isa::Portable => portable::<$($t),+>($($arg),*),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            $name::<$crate::kernels::simd::Portable, $($t),+>($($arg),*)
        }
    }};
}
pub(crate) use dispatch_of;

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(always)]
    unsafe fn woven<S: Simd>(
        from: *const f32,
        to: *mut f32,
        back: *mut f32,
        [zipped, again]: [*mut f32; 2],
    ) {
        // SAFETY: the arrays have 64 floats.
        unsafe {
            let n = S::LANES;
            let mut parts = [S::splat(0.0); 4];
            for (k, part) in parts.iter_mut().enumerate() {
                *part = S::load(from.add(k * n));
            }
            let whole = S::weave(parts);
            let parts = S::unweave(whole);
            for k in 0..4 {
                whole[k].store(to.add(k * n));
                parts[k].store(back.add(k * n));
            }
            let (even, odd) = S::unzip(parts[0], parts[1]);
            even.store(zipped);
            odd.store(zipped.add(n));
            let (first, second) = S::zip(even, odd);
            first.store(again);
            second.store(again.add(n));
        }
    }

    #[test]
    fn weaving_takes_turns() {
        for limit in [Isa::Portable, Isa::Avx2, Isa::Avx512] {
            let lanes = match best().min(limit) {
                Isa::Portable => Portable::LANES,
                Isa::Avx2 => 8,
                Isa::Avx512 => 16,
            };
            let numbers: Vec<f32> = (0..64).map(|i| i as f32).collect();
            let (mut whole, mut back) = (vec![0.0f32; 64], vec![0.0f32; 64]);
            let mut zipped = vec![0.0f32; 32];
            let (from, to, again) = (numbers.as_ptr(), whole.as_mut_ptr(), back.as_mut_ptr());
            let mut zipped_again = vec![0.0f32; 32];
            let halves = [zipped.as_mut_ptr(), zipped_again.as_mut_ptr()];
            let chosen = isa();
            set(limit);
            // SAFETY: the arrays are long enough for four vectors.
            unsafe {
                dispatch!(woven(
                    from: *const f32,
                    to: *mut f32,
                    again: *mut f32,
                    halves: [*mut f32; 2],
                ));
            }
            set(chosen);
            for i in 0..4 * lanes {
                assert_eq!(whole[i], (i % 4 * lanes + i / 4) as f32, "{limit:?}, {i}");
                assert_eq!(back[i], i as f32, "{limit:?}, {i}");
            }
            assert_eq!(zipped_again[..2 * lanes], back[..2 * lanes], "{limit:?}");
            for (i, found) in zipped.iter().take(2 * lanes).enumerate() {
                let from = i % lanes * 2 + i / lanes;
                assert_eq!(*found, from as f32, "{limit:?}, {i}");
            }
        }
    }
}
