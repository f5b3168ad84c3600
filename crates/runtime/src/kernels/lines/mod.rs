//! Operations along the lines of an array: sorting, the index of the greatest element, running
//! sums.

mod extreme;
mod keys;
#[cfg(target_arch = "x86_64")]
mod lanes;
mod order;
mod running;
mod select;
mod sort;

use std::ffi::c_void;

use half::{bf16, f16};

use crate::context::{RxContext, Status};
use crate::kernels::kinds::Kind;
use crate::{c_enumeration, c_structure};

c_enumeration! {
    /// The operation along each line.
    pub enum Work {
        /// The elements, or their indices, in order; the first `keep` of them.
        Sort = "RX_LINES_SORT",
        /// The index of the greatest element.
        Greatest = "RX_LINES_GREATEST",
        /// The index of the least element.
        Least = "RX_LINES_LEAST",
        /// The sum up to each element.
        Sum = "RX_LINES_SUM",
        /// The product up to each element.
        Product = "RX_LINES_PRODUCT",
    }
}

c_structure! {
    /// As in the C header.
    pub struct RxLines {
        /// The product of the extents before the axis.
        pub outer: i64,
        /// The extent of the axis.
        pub extent: i64,
        /// The product of the extents after it.
        pub inner: i64,
        /// The number of elements of a sorted line that are kept.
        pub keep: i64,
        /// The elements, a [`Kind`]. Running sums have the same.
        pub kind: i32,
        /// The type of indices: int32 or int64.
        pub index_kind: i32,
        /// A [`Work`].
        pub work: i32,
        /// Sorting: in ascending order. Greatest and least: the last one of equals. Running:
        /// excludes the element itself.
        pub flag: i32,
        /// The array.
        pub x: *const c_void,
        /// The kept elements, or the running results; or null.
        pub values: *mut c_void,
        /// Indices; or null.
        pub indices: *mut c_void,
    }
}

impl RxLines {
    fn count(&self) -> usize {
        (self.outer.max(0) as usize).saturating_mul(self.inner.max(0) as usize)
    }
    /// Returns the offset of a line in elements, when lines have `extent` elements.
    fn begin(&self, line: usize, extent: i64) -> usize {
        let inner = self.inner as usize;
        line / inner * extent as usize * inner + line % inner
    }
    unsafe fn put_index(&self, at: usize, index: i64) {
        // SAFETY: the indices have a place `at`.
        unsafe {
            if self.index_kind == Kind::I64 as i32 {
                *self.indices.cast::<i64>().add(at) = index;
            } else {
                *self.indices.cast::<i32>().add(at) = index as i32;
            }
        }
    }
}

/// An ordered element.
trait Element: Copy + PartialOrd + Default + Send + Sync {
    /// The bits of a number that is ordered like the elements; equal elements have equal keys.
    fn key(self) -> u64;
    /// An element with this key: of the zeros, the one without a sign.
    fn of_key(key: u64) -> Self;
    /// The keys of the least and the greatest element: others are unordered (NaN).
    fn bounds() -> (u64, u64);
    /// Whether there are two zeros, which are equal.
    const SIGNED_ZERO: bool;
    /// The sum; integers wrap.
    fn plus(self, b: Self) -> Self;
    /// The product; integers wrap.
    fn times(self, b: Self) -> Self;
    /// Returns the initial value of products.
    fn one() -> Self;
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl Element for $t {
            #[inline(always)]
            #[allow(clippy::cast_lossless)]
            fn key(self) -> u64 {
                // The least number becomes 0.
                (self as i128 - <$t>::MIN as i128) as u64
            }
            #[inline(always)]
            #[allow(clippy::cast_lossless)]
            fn of_key(key: u64) -> Self {
                (key as i128 + <$t>::MIN as i128) as $t
            }
            const SIGNED_ZERO: bool = false;
            #[inline(always)]
            fn bounds() -> (u64, u64) {
                (0, <$t>::MAX.key())
            }
            #[inline(always)]
            fn plus(self, b: Self) -> Self {
                self.wrapping_add(b)
            }
            #[inline(always)]
            fn times(self, b: Self) -> Self {
                self.wrapping_mul(b)
            }
            #[inline(always)]
            fn one() -> Self {
                1
            }
        }
    )*};
}
integers!(i8, u8, i16, u16, i32, u32, i64, u64);

macro_rules! floats {
    ($($t:ty, $bits:ty, $shift:literal, |$a:ident, $b:ident| $plus:expr, $times:expr;)*) => {$(
        impl Element for $t {
            #[inline(always)]
            fn key(self) -> u64 {
                // Both zeros have the same key.
                let bits = if self.to_bits() == 1 << $shift { 0 } else { self.to_bits() };
                let turned = if bits >> $shift != 0 { !bits } else { bits | (1 << $shift) };
                u64::from(turned)
            }
            #[inline(always)]
            fn of_key(key: u64) -> Self {
                let key = key as $bits;
                let turned = if key >> $shift != 0 { key & !(1 << $shift) } else { !key };
                Self::from_bits(turned)
            }
            const SIGNED_ZERO: bool = true;
            #[inline(always)]
            fn bounds() -> (u64, u64) {
                (Self::NEG_INFINITY.key(), Self::INFINITY.key())
            }
            #[inline(always)]
            fn plus(self, $b: Self) -> Self {
                let $a = self;
                $plus
            }
            #[inline(always)]
            fn times(self, $b: Self) -> Self {
                let $a = self;
                $times
            }
            #[inline(always)]
            fn one() -> Self {
                Self::from(1u8)
            }
        }
    )*};
}
floats! {
    f32, u32, 31, |a, b| a + b, a * b;
    f64, u64, 63, |a, b| a + b, a * b;
    // Rounded at every step.
    f16, u16, 15, |a, b| f16::from_f32(a.to_f32() + b.to_f32()), f16::from_f32(a.to_f32() * b.to_f32());
    bf16, u16, 15, |a, b| bf16::from_f32(a.to_f32() + b.to_f32()), bf16::from_f32(a.to_f32() * b.to_f32());
}

/// Returns whether there is a kernel for an operation along lines of elements of a type.
pub fn knows(kind: Kind, work: Work) -> bool {
    matches!(work, Work::Greatest | Work::Least) || kind != Kind::Bool
}

unsafe fn extreme(context: &mut RxContext, lines: &RxLines, kind: Kind) -> i32 {
    // SAFETY: the arrays have the lines' sizes.
    unsafe {
        match kind {
            Kind::F16 | Kind::BF16 | Kind::F32 => extreme::run::<f32>(context, lines, kind),
            Kind::F64 => extreme::run::<f64>(context, lines, kind),
            Kind::U32 | Kind::I64 | Kind::U64 => extreme::run::<i64>(context, lines, kind),
            _ => extreme::run::<i32>(context, lines, kind),
        }
    }
}

unsafe fn of<T: Element>(context: &mut RxContext, lines: &RxLines, work: Work) -> i32 {
    // SAFETY: the arrays have the lines' sizes.
    unsafe {
        match work {
            Work::Sort => sort::run::<T>(context, lines),
            _ => running::run::<T>(context, lines),
        }
    }
}

/// Runs an operation along all lines of an array.
///
/// # Safety
/// The array has as many elements as the extents say; values and indices, where they are not null,
/// have as many, with `keep` in place of the axis for sorting and 1 for the greatest and the least;
/// nothing overlaps.
pub unsafe fn along(context: &mut RxContext, lines: &RxLines) -> i32 {
    // SAFETY: the arrays have the sizes that the descriptor says.
    unsafe {
        if lines.count() == 0 {
            return 0;
        }
        let Some(work) = Work::of(lines.work) else {
            return context.fail(Status::Argument, "rx_lines: no such work");
        };
        match Kind::of(lines.kind) {
            Some(kind) if matches!(work, Work::Greatest | Work::Least) => {
                extreme(context, lines, kind)
            }
            Some(Kind::I8) => of::<i8>(context, lines, work),
            Some(Kind::U8) => of::<u8>(context, lines, work),
            Some(Kind::I16) => of::<i16>(context, lines, work),
            Some(Kind::U16) => of::<u16>(context, lines, work),
            Some(Kind::I32) => of::<i32>(context, lines, work),
            Some(Kind::U32) => of::<u32>(context, lines, work),
            Some(Kind::I64) => of::<i64>(context, lines, work),
            Some(Kind::U64) => of::<u64>(context, lines, work),
            Some(kind @ (Kind::F16 | Kind::BF16)) if work != Work::Sort => {
                running::narrow(context, lines, kind)
            }
            Some(Kind::F16) => sort::run::<f16>(context, lines),
            Some(Kind::BF16) => sort::run::<bf16>(context, lines),
            Some(Kind::F32) => of::<f32>(context, lines, work),
            Some(Kind::F64) => of::<f64>(context, lines, work),
            _ => context.fail(Status::Argument, "rx_lines: no such elements"),
        }
    }
}
