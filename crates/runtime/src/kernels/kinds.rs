//! The kernels' numbering of element types, and conversions of whole arrays between them.

use super::halves;
use crate::c_enumeration;

c_enumeration! {
    /// An element type.
    #[allow(missing_docs)] // The names are the types'.
    pub enum Kind {
        I8 = "RX_INT8",
        U8 = "RX_UINT8",
        I16 = "RX_INT16",
        I32 = "RX_INT32",
        U16 = "RX_UINT16",
        U32 = "RX_UINT32",
        I64 = "RX_INT64",
        U64 = "RX_UINT64",
        F16 = "RX_FLOAT16",
        BF16 = "RX_BFLOAT16",
        F32 = "RX_FLOAT32",
        F64 = "RX_FLOAT64",
        Bool = "RX_BOOL",
    }
}

impl Kind {
    /// The bytes of an element.
    pub const fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 | Self::Bool => 1,
            Self::I16 | Self::U16 | Self::F16 | Self::BF16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// Returns the accumulator type for products of such elements: float32 for narrow floats, 32
    /// bits for narrow integers, whose low bits are those of the narrow sums.
    pub const fn wide(self) -> Self {
        match self {
            Self::F16 | Self::BF16 | Self::F32 => Self::F32,
            Self::F64 => Self::F64,
            Self::I64 | Self::U64 => Self::I64,
            _ => Self::I32,
        }
    }
}

/// An accumulator type.
pub trait Sum: Copy + Default + Send + Sync {
    /// Its number.
    const KIND: Kind;
    /// `self + b`; integers wrap.
    fn plus(self, b: Self) -> Self;
    /// Converts `n` elements of another type to this one; `false` for conversions that no kernel
    /// needs.
    ///
    /// # Safety
    /// Both have `n` elements and do not overlap.
    unsafe fn widen(from: Kind, n: usize, x: *const u8, y: *mut Self) -> bool;
    /// Converts `n` sums to a type that is accumulated in this one.
    ///
    /// # Safety
    /// Both have `n` elements and do not overlap.
    unsafe fn narrow(to: Kind, n: usize, x: *const Self, y: *mut u8);
}

#[inline(always)]
unsafe fn each<A: Copy, B>(n: usize, x: *const u8, y: *mut B, f: impl Fn(A) -> B) {
    // SAFETY: `x` and `y` have `n` elements, and `i` is below `n`.
    unsafe {
        let x = x.cast::<A>();
        for i in 0..n {
            *y.add(i) = f(x.add(i).read_unaligned());
        }
    }
}

macro_rules! sums {
    ($($t:ident $kind:ident $plus:path { $($from:ident: $a:ty),* } { $($to:ident: $b:ty),* } $($more:ident)?);* $(;)?) => {$(
        impl Sum for $t {
            const KIND: Kind = Kind::$kind;
            #[inline(always)]
            fn plus(self, b: Self) -> Self {
                $plus(self, b)
            }
            unsafe fn widen(from: Kind, n: usize, x: *const u8, y: *mut Self) -> bool {
                // SAFETY: `x` and `y` have `n` elements.
                unsafe {
                    match from {
                        $(Kind::$from => each(n, x, y, |v: $a| v as $t),)*
                        Kind::Bool => each(n, x, y, |v: u8| u8::from(v != 0) as $t),
                        _ => return sums!(@widen $($more)? from n x y),
                    }
                }
                true
            }
            unsafe fn narrow(to: Kind, n: usize, x: *const Self, y: *mut u8) {
                // SAFETY: `x` and `y` have `n` elements.
                unsafe {
                    match to {
                        $(Kind::$to => each(n, x.cast(), y.cast::<$b>(), |v: $t| v as $b),)*
                        _ => { sums!(@narrow $($more)? to n x y); }
                    }
                }
            }
        }
    )*};
    (@widen halves $from:ident $n:ident $x:ident $y:ident) => {{
        match $from {
            Kind::F16 | Kind::BF16 => halves::widened($from == Kind::BF16, $n, $x.cast(), $y),
            _ => return false,
        }
        true
    }};
    (@widen $from:ident $n:ident $x:ident $y:ident) => { false };
    (@narrow halves $to:ident $n:ident $x:ident $y:ident) => {
        halves::narrowed($to != Kind::F16, $n, $x, $y.cast())
    };
    (@narrow $to:ident $n:ident $x:ident $y:ident) => {};
}

sums! {
    f32 F32 std::ops::Add::add { I8: i8, U8: u8, I16: i16, U16: u16, I32: i32, U32: u32, I64: i64, U64: u64, F32: f32 }
        { F32: f32, I32: i32 } halves;
    f64 F64 std::ops::Add::add { I8: i8, U8: u8, I16: i16, U16: u16, I32: i32, U32: u32, I64: i64, U64: u64, F32: f32, F64: f64 }
        { F64: f64, I64: i64, U64: u64 };
    i32 I32 i32::wrapping_add { I8: i8, U8: u8, I16: i16, U16: u16, I32: i32, U32: u32, I64: i64, U64: u64 }
        { I8: i8, U8: u8, I16: i16, U16: u16, I32: i32, U32: u32 };
    i64 I64 i64::wrapping_add { I8: i8, U8: u8, I16: i16, U16: u16, I32: i32, U32: u32, I64: i64, U64: u64 } { I64: i64, U64: u64 };
    i16 I16 i16::wrapping_add { I8: i8, U8: u8, I16: i16, U16: u16, I32: i32, U32: u32, I64: i64, U64: u64 }
        { I8: i8, U8: u8, I16: i16, U16: u16 };
}
