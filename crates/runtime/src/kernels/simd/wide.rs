//! Vectors of the other element types, with the few operations that sums of products need.
//!
//! Invariant: as for [`Simd`], no closure touches a vector.

use super::bytes::{Lanes, MAX, PRODUCT, Row, SUM};
#[cfg(target_arch = "x86_64")]
use super::{Avx2, Avx512, bytes};
use super::{Portable, Simd};
#[cfg(target_arch = "x86_64")]
use std::arch::asm;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// A vector of one element type.
///
/// # Safety
/// As for [`Simd`].
#[allow(clippy::missing_safety_doc)] // The trait's own section holds for every method.
pub unsafe trait Vector: Copy {
    /// Its elements.
    type Element: Copy + Default + PartialEq + std::fmt::Debug;
    /// Elements of a vector.
    const LANES: usize;
    /// What changes no sum, not even the sign of one that is zero.
    const NOTHING: Self::Element;
    /// All lanes `x`.
    unsafe fn splat(x: Self::Element) -> Self;
    /// Reads all lanes, unaligned.
    unsafe fn load(from: *const Self::Element) -> Self;
    /// Writes all lanes, unaligned.
    unsafe fn store(self, to: *mut Self::Element);
    /// `self + b`; integers wrap.
    unsafe fn add(self, b: Self) -> Self;
    /// `self * b + c`; integers wrap, floats are rounded once where the processor supports it.
    unsafe fn fma(self, b: Self, c: Self) -> Self;
    /// The product; integers wrap.
    #[inline(always)]
    unsafe fn times(self, b: Self) -> Self {
        // SAFETY: as for every vector.
        unsafe { self.fma(b, Self::splat(Self::NOTHING)) }
    }
    /// See [`Simd::pinned`].
    #[inline(always)]
    unsafe fn pinned<T>(at: *const T, _sum: &mut Self) -> *const T {
        at
    }
    /// The result of a comparison.
    type Mask: Copy;
    /// `self > b`, false for NaN.
    unsafe fn above(self, b: Self) -> Self::Mask;
    /// `self == b`, false for NaN.
    unsafe fn same(self, b: Self) -> Self::Mask;
    /// `mask ? yes : no`.
    unsafe fn pick(mask: Self::Mask, yes: Self, no: Self) -> Self;
    /// Returns whether a comparison holds for any lane.
    unsafe fn any(mask: Self::Mask) -> bool;
    /// `self > b ? self : b`.
    #[inline(always)]
    unsafe fn greater(self, b: Self) -> Self {
        // SAFETY: the processor has the instructions of `Self`, for which the function is compiled.
        unsafe { Self::pick(self.above(b), self, b) }
    }
    /// `self < b ? self : b`.
    #[inline(always)]
    unsafe fn lesser(self, b: Self) -> Self {
        // SAFETY: the processor has the instructions of `Self`, for which the function is compiled.
        unsafe { Self::pick(b.above(self), self, b) }
    }
}

// SAFETY: of all methods, what holds for vectors.
#[allow(unsafe_op_in_unsafe_fn)]
impl<V: Vector> Lanes for V {
    type Element = V::Element;
    const LANES: usize = V::LANES;
    #[inline(always)]
    unsafe fn all(x: V::Element) -> Self {
        V::splat(x)
    }
    #[inline(always)]
    unsafe fn read(from: *const V::Element) -> Self {
        V::load(from)
    }
    #[inline(always)]
    unsafe fn write(self, to: *mut V::Element) {
        self.store(to);
    }
    #[inline(always)]
    unsafe fn with<const COMBINER: i32>(self, x: Self) -> Self {
        match COMBINER {
            SUM => self.add(x),
            PRODUCT => self.times(x),
            MAX => self.greater(x),
            _ => self.lesser(x),
        }
    }
}

/// The vectors of an instruction set.
pub trait Wide: Simd {
    /// The vector of float32.
    type F32: Vector<Element = f32>;
    /// The vector of float64.
    type F64: Vector<Element = f64>;
    /// The vector of 32-bit integers.
    type I32: Vector<Element = i32>;
    /// The vector of 64-bit integers.
    type I64: Vector<Element = i64>;
    /// The vector of 16-bit integers with products.
    type Words: Vector<Element = i16>;
    /// Those of narrow integers.
    type I8: Lanes<Element = i8>;
    /// Bytes.
    type U8: Lanes<Element = u8>;
    /// 16 bits.
    type I16: Lanes<Element = i16>;
    /// 16 bits without signs.
    type U16: Lanes<Element = u16>;
}

/// Vectors of float32 are those of [`Simd`].
#[derive(Clone, Copy)]
pub struct Floats<S>(S);

// SAFETY: every method is one of `S`.
#[allow(unsafe_op_in_unsafe_fn)]
unsafe impl<S: Simd> Vector for Floats<S> {
    type Element = f32;
    const LANES: usize = S::LANES;
    const NOTHING: f32 = -0.0;
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Self(S::splat(x))
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        Self(S::load(from))
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        self.0.store(to);
    }
    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        Self(self.0.add(b.0))
    }
    #[inline(always)]
    unsafe fn fma(self, b: Self, c: Self) -> Self {
        Self(self.0.fma(b.0, c.0))
    }
    #[inline(always)]
    unsafe fn pinned<T>(at: *const T, sum: &mut Self) -> *const T {
        S::pinned(at, &mut sum.0)
    }
    type Mask = S::Mask;
    #[inline(always)]
    unsafe fn above(self, b: Self) -> S::Mask {
        b.0.lt(self.0)
    }
    #[inline(always)]
    unsafe fn same(self, b: Self) -> S::Mask {
        self.0.eq(b.0)
    }
    #[inline(always)]
    unsafe fn pick(mask: S::Mask, yes: Self, no: Self) -> Self {
        Self(S::select(mask, yes.0, no.0))
    }
    #[inline(always)]
    unsafe fn any(mask: S::Mask) -> bool {
        let zero = S::splat(0.0);
        !S::select(mask, zero, S::splat(-1.0)).all_lt(zero)
    }
    #[inline(always)]
    unsafe fn greater(self, b: Self) -> Self {
        Self(self.0.max(b.0))
    }
    #[inline(always)]
    unsafe fn lesser(self, b: Self) -> Self {
        Self(self.0.min(b.0))
    }
}

/// Four elements, for processors without a known instruction set.
#[derive(Clone, Copy)]
pub struct Four<T>([T; 4]);

macro_rules! portable {
    ($($t:ty: $add:expr, $mul:expr;)*) => {$(
        // SAFETY: plain memory.
        #[allow(unsafe_op_in_unsafe_fn)]
        unsafe impl Vector for Four<$t> {
            type Element = $t;
            const LANES: usize = 4;
            const NOTHING: $t = -(0 as $t);
            #[inline(always)]
            unsafe fn splat(x: $t) -> Self {
                Self([x; 4])
            }
            #[inline(always)]
            unsafe fn load(from: *const $t) -> Self {
                Self(from.cast::<[$t; 4]>().read_unaligned())
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $t) {
                to.cast::<[$t; 4]>().write_unaligned(self.0);
            }
            #[inline(always)]
            unsafe fn add(self, b: Self) -> Self {
                let (x, y) = (self.0, b.0);
                Self([$add(x[0], y[0]), $add(x[1], y[1]), $add(x[2], y[2]), $add(x[3], y[3])])
            }
            #[inline(always)]
            unsafe fn fma(self, b: Self, c: Self) -> Self {
                let (x, y) = (self.0, b.0);
                Self([$mul(x[0], y[0]), $mul(x[1], y[1]), $mul(x[2], y[2]), $mul(x[3], y[3])]).add(c)
            }
            type Mask = [bool; 4];
            #[inline(always)]
            unsafe fn above(self, b: Self) -> [bool; 4] {
                let (x, y) = (self.0, b.0);
                [x[0] > y[0], x[1] > y[1], x[2] > y[2], x[3] > y[3]]
            }
            #[inline(always)]
            unsafe fn same(self, b: Self) -> [bool; 4] {
                let (x, y) = (self.0, b.0);
                [x[0] == y[0], x[1] == y[1], x[2] == y[2], x[3] == y[3]]
            }
            #[inline(always)]
            unsafe fn pick(mask: [bool; 4], yes: Self, no: Self) -> Self {
                let mut picked = no.0;
                for i in 0..4 {
                    picked[i] = if mask[i] { yes.0[i] } else { no.0[i] };
                }
                Self(picked)
            }
            #[inline(always)]
            unsafe fn any(mask: [bool; 4]) -> bool {
                mask[0] | mask[1] | mask[2] | mask[3]
            }
        }
    )*};
}

portable! {
    f64: std::ops::Add::add, std::ops::Mul::mul;
    i32: i32::wrapping_add, i32::wrapping_mul;
    i64: i64::wrapping_add, i64::wrapping_mul;
    i16: i16::wrapping_add, i16::wrapping_mul;
}

impl Wide for Portable {
    type F32 = Floats<Portable>;
    type F64 = Four<f64>;
    type I32 = Four<i32>;
    type I64 = Four<i64>;
    type Words = Four<i16>;
    type I8 = Row<i8, 32>;
    type U8 = Row<u8, 32>;
    type I16 = Row<i16, 16>;
    type U16 = Row<u16, 16>;
}

#[cfg(target_arch = "x86_64")]
macro_rules! vectors {
    ($($(#[$doc:meta])* $name:ident($reg:ty) of $t:ty, $lanes:literal: $set:expr, $load:expr, $store:expr, $add:ident,
        |$a:ident, $b:ident, $c:ident| $fma:expr;
        $mask:ty, $above:expr, $same:expr, $pick:expr, $any:expr $(, $class:ident)?; $([$max:ident, $min:ident])?;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name($reg);
        // SAFETY: every method is one or a few intrinsics of the enabled instruction set.
        #[allow(unsafe_op_in_unsafe_fn)]
        unsafe impl Vector for $name {
            type Element = $t;
            const LANES: usize = $lanes;
            const NOTHING: $t = -(0 as $t);
            #[inline(always)]
            unsafe fn splat(x: $t) -> Self {
                Self($set(x))
            }
            #[inline(always)]
            unsafe fn load(from: *const $t) -> Self {
                Self($load(from.cast()))
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $t) {
                $store(to.cast(), self.0);
            }
            #[inline(always)]
            unsafe fn add(self, b: Self) -> Self {
                Self($add(self.0, b.0))
            }
            #[inline(always)]
            unsafe fn fma(self, b: Self, c: Self) -> Self {
                let ($a, $b, $c) = (self.0, b.0, c.0);
                Self($fma)
            }
            $(#[inline(always)]
            unsafe fn pinned<T>(at: *const T, sum: &mut Self) -> *const T {
                #[inline]
                #[target_feature(enable = "avx2")]
                #[allow(clippy::pointers_in_nomem_asm_block)] // Nothing is read there.
                unsafe fn pinned<T>(mut at: *const T, sum: &mut $reg) -> *const T {
                    asm!(
                        "/* {0} {1} */",
                        inout(reg) at,
                        inout($class) *sum,
                        options(pure, nomem, nostack, preserves_flags)
                    );
                    at
                }
                pinned(at, &mut sum.0)
            })?
            type Mask = $mask;
            #[inline(always)]
            unsafe fn above(self, b: Self) -> $mask {
                $above(self.0, b.0)
            }
            #[inline(always)]
            unsafe fn same(self, b: Self) -> $mask {
                $same(self.0, b.0)
            }
            #[inline(always)]
            unsafe fn pick(mask: $mask, yes: Self, no: Self) -> Self {
                // In the operand order of blends: the alternative first.
                Self($pick(no.0, yes.0, mask))
            }
            #[inline(always)]
            unsafe fn any(mask: $mask) -> bool {
                $any(mask) != 0
            }
            $(
                #[inline(always)]
                unsafe fn greater(self, b: Self) -> Self {
                    Self($max(self.0, b.0))
                }
                #[inline(always)]
                unsafe fn lesser(self, b: Self) -> Self {
                    Self($min(self.0, b.0))
                }
            )?
        }
    )*};
}

#[cfg(target_arch = "x86_64")]
macro_rules! blend {
    ($name:ident: $mask:ty, $reg:ty, $blend:ident) => {
        /// The operands in the order of AVX2's.
        #[inline(always)]
        unsafe fn $name(no: $reg, yes: $reg, mask: $mask) -> $reg {
            // SAFETY: the processor has the instructions that the function is compiled for.
            unsafe { $blend(mask, no, yes) }
        }
    };
}
#[cfg(target_arch = "x86_64")]
blend!(blend_pd: __mmask8, __m512d, _mm512_mask_blend_pd);
#[cfg(target_arch = "x86_64")]
blend!(blend_epi32: __mmask16, __m512i, _mm512_mask_blend_epi32);
#[cfg(target_arch = "x86_64")]
blend!(blend_epi64: __mmask8, __m512i, _mm512_mask_blend_epi64);
#[cfg(target_arch = "x86_64")]
blend!(blend_epi16: __mmask32, __m512i, _mm512_mask_blend_epi16);

#[cfg(target_arch = "x86_64")]
vectors! {
    /// Eight float64.
    D512(__m512d) of f64, 8: _mm512_set1_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_add_pd,
        |a, b, c| _mm512_fmadd_pd(a, b, c);
        __mmask8, _mm512_cmp_pd_mask::<_CMP_GT_OQ>, _mm512_cmp_pd_mask::<_CMP_EQ_OQ>, blend_pd, i32::from;
        [_mm512_max_pd, _mm512_min_pd];
    /// Sixteen of 32 bits.
    I512(__m512i) of i32, 16: _mm512_set1_epi32, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_add_epi32,
        |a, b, c| _mm512_add_epi32(_mm512_mullo_epi32(a, b), c);
        __mmask16, _mm512_cmpgt_epi32_mask, _mm512_cmpeq_epi32_mask, blend_epi32, i32::from;
        [_mm512_max_epi32, _mm512_min_epi32];
    /// Eight of 64 bits.
    L512(__m512i) of i64, 8: _mm512_set1_epi64, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_add_epi64,
        |a, b, c| _mm512_add_epi64(_mm512_mullo_epi64(a, b), c);
        __mmask8, _mm512_cmpgt_epi64_mask, _mm512_cmpeq_epi64_mask, blend_epi64, i32::from;
        [_mm512_max_epi64, _mm512_min_epi64];
    /// 32 of 16 bits.
    W512(__m512i) of i16, 32: _mm512_set1_epi16, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_add_epi16,
        |a, b, c| _mm512_add_epi16(_mm512_mullo_epi16(a, b), c);
        __mmask32, _mm512_cmpgt_epi16_mask, _mm512_cmpeq_epi16_mask, blend_epi16, std::convert::identity;
        [_mm512_max_epi16, _mm512_min_epi16];
    /// Four float64.
    D256(__m256d) of f64, 4: _mm256_set1_pd, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_add_pd,
        |a, b, c| _mm256_fmadd_pd(a, b, c);
        __m256d, _mm256_cmp_pd::<_CMP_GT_OQ>, _mm256_cmp_pd::<_CMP_EQ_OQ>, _mm256_blendv_pd, _mm256_movemask_pd, ymm_reg;
        [_mm256_max_pd, _mm256_min_pd];
    /// Eight of 32 bits.
    I256(__m256i) of i32, 8: _mm256_set1_epi32, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_add_epi32,
        |a, b, c| _mm256_add_epi32(_mm256_mullo_epi32(a, b), c);
        __m256i, _mm256_cmpgt_epi32, _mm256_cmpeq_epi32, _mm256_blendv_epi8, _mm256_movemask_epi8, ymm_reg;
        [_mm256_max_epi32, _mm256_min_epi32];
    /// Four of 64 bits.
    L256(__m256i) of i64, 4: _mm256_set1_epi64x, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_add_epi64,
        |a, b, c| _mm256_add_epi64(product(a, b), c);
        __m256i, _mm256_cmpgt_epi64, _mm256_cmpeq_epi64, _mm256_blendv_epi8, _mm256_movemask_epi8, ymm_reg;
        ;
    /// Sixteen of 16 bits.
    W256(__m256i) of i16, 16: _mm256_set1_epi16, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_add_epi16,
        |a, b, c| _mm256_add_epi16(_mm256_mullo_epi16(a, b), c);
        __m256i, _mm256_cmpgt_epi16, _mm256_cmpeq_epi16, _mm256_blendv_epi8, _mm256_movemask_epi8, ymm_reg;
        [_mm256_max_epi16, _mm256_min_epi16];
}

/// Returns the lower halves of 64-bit products: AVX2 multiplies 32 bits.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn product(a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: the processor has AVX2.
    unsafe {
        let low = _mm256_mul_epu32(a, b);
        let cross = _mm256_mul_epu32(_mm256_srli_epi64::<32>(a), b);
        let other = _mm256_mul_epu32(a, _mm256_srli_epi64::<32>(b));
        let high = _mm256_slli_epi64::<32>(_mm256_add_epi64(cross, other));
        _mm256_add_epi64(low, high)
    }
}

#[cfg(target_arch = "x86_64")]
impl Wide for Avx512 {
    type F32 = Floats<Avx512>;
    type F64 = D512;
    type I32 = I512;
    type I64 = L512;
    type Words = W512;
    type I8 = bytes::I8s;
    type U8 = bytes::U8s;
    type I16 = bytes::I16s;
    type U16 = bytes::U16s;
}

#[cfg(target_arch = "x86_64")]
impl Wide for Avx2 {
    type F32 = Floats<Avx2>;
    type F64 = D256;
    type I32 = I256;
    type I64 = L256;
    type Words = W256;
    type I8 = bytes::I8s;
    type U8 = bytes::U8s;
    type I16 = bytes::I16s;
    type U16 = bytes::U16s;
}
