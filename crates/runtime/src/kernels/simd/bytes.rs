//! Vectors of integers of 8 and 16 bits, and what windows need of those of any type.
//!
//! Invariant: as for [`Simd`](super::Simd), no closure touches a vector.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use crate::kernels::combiner::Combiner;

/// The combiners of [`Lanes::with`]; any other number is the minimum. Products are those of
/// [`Vector`](super::wide::Vector)s.
pub const SUM: i32 = Combiner::Sum as i32;
/// See [`SUM`].
pub const PRODUCT: i32 = Combiner::Product as i32;
/// See [`SUM`].
pub const MAX: i32 = Combiner::Max as i32;

/// Adjacent elements that are reduced together.
#[allow(clippy::missing_safety_doc)] // As for `Vector`.
pub trait Lanes: Copy {
    /// An element.
    type Element: Copy;
    /// Elements of a vector.
    const LANES: usize;
    /// All lanes `x`.
    unsafe fn all(x: Self::Element) -> Self;
    /// Reads all lanes, unaligned.
    unsafe fn read(from: *const Self::Element) -> Self;
    /// Writes all lanes, unaligned.
    unsafe fn write(self, to: *mut Self::Element);
    /// Combines further elements: `COMBINER` as in the descriptor.
    unsafe fn with<const COMBINER: i32>(self, x: Self) -> Self;
}

/// 32 bytes of a type without vectors.
#[derive(Clone, Copy)]
pub struct Row<T, const N: usize>([T; N]);

macro_rules! rows {
    ($($t:ty),*) => {$(
        // SAFETY: plain memory.
        #[allow(unsafe_op_in_unsafe_fn)]
        impl Lanes for Row<$t, { 32 / size_of::<$t>() }> {
            type Element = $t;
            const LANES: usize = 32 / size_of::<$t>();
            #[inline(always)]
            unsafe fn all(x: $t) -> Self {
                Self([x; _])
            }
            #[inline(always)]
            unsafe fn read(from: *const $t) -> Self {
                Self(from.cast::<[$t; 32 / size_of::<$t>()]>().read_unaligned())
            }
            #[inline(always)]
            unsafe fn write(self, to: *mut $t) {
                to.cast::<[$t; 32 / size_of::<$t>()]>().write_unaligned(self.0);
            }
            #[inline(always)]
            unsafe fn with<const COMBINER: i32>(self, x: Self) -> Self {
                let mut y = self.0;
                for i in 0..y.len() {
                    y[i] = match COMBINER {
                        SUM => y[i].wrapping_add(x.0[i]),
                        MAX => if y[i] > x.0[i] { y[i] } else { x.0[i] },
                        _ => if y[i] < x.0[i] { y[i] } else { x.0[i] },
                    };
                }
                Self(y)
            }
        }
    )*};
}
rows!(i8, u8, i16, u16, u32, u64);

#[cfg(target_arch = "x86_64")]
macro_rules! vectors {
    ($($(#[$doc:meta])* $name:ident of $t:ty: $set:ident, $add:ident, $max:ident, $min:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name(__m256i);
        // SAFETY: every method is one intrinsic of the enabled instruction set.
        #[allow(unsafe_op_in_unsafe_fn, clippy::cast_possible_wrap)]
        impl Lanes for $name {
            type Element = $t;
            const LANES: usize = 32 / size_of::<$t>();
            #[inline(always)]
            unsafe fn all(x: $t) -> Self {
                Self($set(x as _))
            }
            #[inline(always)]
            unsafe fn read(from: *const $t) -> Self {
                Self(_mm256_loadu_si256(from.cast()))
            }
            #[inline(always)]
            unsafe fn write(self, to: *mut $t) {
                _mm256_storeu_si256(to.cast(), self.0);
            }
            #[inline(always)]
            unsafe fn with<const COMBINER: i32>(self, x: Self) -> Self {
                Self(match COMBINER {
                    SUM => $add(self.0, x.0),
                    MAX => $max(self.0, x.0),
                    _ => $min(self.0, x.0),
                })
            }
        }
    )*};
}
#[cfg(target_arch = "x86_64")]
vectors! {
    /// 32 signed bytes.
    I8s of i8: _mm256_set1_epi8, _mm256_add_epi8, _mm256_max_epi8, _mm256_min_epi8;
    /// 32 bytes.
    U8s of u8: _mm256_set1_epi8, _mm256_add_epi8, _mm256_max_epu8, _mm256_min_epu8;
    /// Sixteen of 16 bits.
    I16s of i16: _mm256_set1_epi16, _mm256_add_epi16, _mm256_max_epi16, _mm256_min_epi16;
    /// Sixteen of 16 bits without signs.
    U16s of u16: _mm256_set1_epi16, _mm256_add_epi16, _mm256_max_epu16, _mm256_min_epu16;
}
