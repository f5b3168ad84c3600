//! The representation of element types in registers, and the lane-wise semantics of every scalar
//! function.
//!
//! Integers and `bool` live in `i64` lanes, wrapped to their type after every operation (`uint64`
//! by bit pattern); `float32`, `float16` and `bfloat16` in `f32` lanes, the narrow ones rounded
//! after every operation; `float64` in `f64` lanes. `f32` has more than twice the precision of the
//! narrow floats, so rounding an operation twice gives the same as rounding it once.

use half::{bf16, f16};
use relax_tensor::{DType, TypeCode};

use crate::{BinOp, UnOp};

/// The arithmetic of an element type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Num {
    Bool,
    /// Signed, with its number of bits.
    I(u8),
    /// Unsigned, with its number of bits.
    U(u8),
    F16,
    BF16,
    F32,
    F64,
}

/// The Rust type of a register's lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    Int,
    Single,
    Double,
}

impl Num {
    /// `None` for types that tensor programs do not compute with (handles, vectors).
    pub(super) fn of(dtype: DType) -> Option<Num> {
        if dtype.lanes != 1 || dtype.bits == 0 || dtype.bits > 64 {
            return None;
        }
        let whole = matches!(dtype.size(), 1 | 2 | 4 | 8);
        match dtype.code {
            TypeCode::UInt if dtype.bits == 1 => Some(Num::Bool),
            TypeCode::Int if whole => Some(Num::I(dtype.bits)),
            TypeCode::UInt if whole => Some(Num::U(dtype.bits)),
            TypeCode::Float if dtype.bits == 16 => Some(Num::F16),
            TypeCode::Float if dtype.bits == 32 => Some(Num::F32),
            TypeCode::Float if dtype.bits == 64 => Some(Num::F64),
            TypeCode::BFloat if dtype.bits == 16 => Some(Num::BF16),
            _ => None,
        }
    }
    pub(super) fn class(self) -> Class {
        match self {
            Num::Bool | Num::I(_) | Num::U(_) => Class::Int,
            Num::F16 | Num::BF16 | Num::F32 => Class::Single,
            Num::F64 => Class::Double,
        }
    }
    fn bits(self) -> u32 {
        match self {
            Num::Bool => 1,
            Num::I(b) | Num::U(b) => b.into(),
            Num::F16 | Num::BF16 => 16,
            Num::F32 => 32,
            Num::F64 => 64,
        }
    }
    /// Wraps `v` to this integer type.
    #[inline(always)]
    pub(super) fn wrap(self, v: i64) -> i64 {
        match self {
            Num::Bool => i64::from(v != 0),
            Num::I(b) if b < 64 => (v << (64 - b)) >> (64 - b),
            Num::U(b) if b < 64 => v & ((1 << b) - 1),
            _ => v,
        }
    }
}

/// Applies `f` lane by lane; an operand of one lane is broadcast.
#[inline(always)]
fn map1<A: Copy, R>(d: &mut [R], a: &[A], f: impl Fn(A) -> R) {
    if a.len() == d.len() {
        for (d, a) in d.iter_mut().zip(a) {
            *d = f(*a);
        }
    } else {
        let a = a[0];
        for d in d {
            *d = f(a);
        }
    }
}

#[inline(always)]
fn map2<A: Copy, B: Copy, R>(d: &mut [R], a: &[A], b: &[B], f: impl Fn(A, B) -> R) {
    match (a.len() == d.len(), b.len() == d.len()) {
        (true, true) => {
            for ((d, a), b) in d.iter_mut().zip(a).zip(b) {
                *d = f(*a, *b);
            }
        }
        (true, false) => {
            let b = b[0];
            for (d, a) in d.iter_mut().zip(a) {
                *d = f(*a, b);
            }
        }
        (false, true) => {
            let a = a[0];
            for (d, b) in d.iter_mut().zip(b) {
                *d = f(a, *b);
            }
        }
        (false, false) => {
            let (a, b) = (a[0], b[0]);
            for d in d {
                *d = f(a, b);
            }
        }
    }
}

/// `d = c ? a : b`, lane by lane.
pub(super) fn select<T: Copy>(d: &mut [T], c: &[i64], a: &[T], b: &[T]) {
    if c.len() != d.len() {
        return map1(d, if c[0] != 0 { a } else { b }, |v| v);
    }
    let (sa, sb) = (
        usize::from(a.len() == d.len()),
        usize::from(b.len() == d.len()),
    );
    for (i, d) in d.iter_mut().enumerate() {
        *d = if c[i] != 0 { a[i * sa] } else { b[i * sb] };
    }
}

/// Copies, broadcasting a single lane.
pub(super) fn copy<T: Copy>(d: &mut [T], a: &[T]) {
    map1(d, a, |v| v);
}

/// Rounds `f32` lanes to a narrow float; leaves other types unchanged.
pub(super) fn round(num: Num, d: &mut [f32]) {
    match num {
        Num::F16 => d.iter_mut().for_each(|v| *v = f16::from_f32(*v).to_f32()),
        Num::BF16 => d.iter_mut().for_each(|v| *v = bf16::from_f32(*v).to_f32()),
        _ => {}
    }
}

fn wrap(num: Num, d: &mut [i64]) {
    match num {
        Num::Bool => d.iter_mut().for_each(|v| *v = i64::from(*v != 0)),
        Num::I(64) | Num::U(64) => {}
        Num::I(b) => d.iter_mut().for_each(|v| *v = (*v << (64 - b)) >> (64 - b)),
        Num::U(b) => {
            let mask = (1i64 << b) - 1;
            d.iter_mut().for_each(|v| *v &= mask);
        }
        _ => {}
    }
}

fn floor_div(x: i64, y: i64) -> i64 {
    if y == 0 {
        return 0;
    }
    let q = x.wrapping_div(y);
    if x.wrapping_rem(y) != 0 && (x < 0) != (y < 0) {
        q - 1
    } else {
        q
    }
}

fn floor_mod(x: i64, y: i64) -> i64 {
    if y == 0 {
        return 0;
    }
    let r = x.wrapping_rem(y);
    if r != 0 && (r < 0) != (y < 0) {
        r + y
    } else {
        r
    }
}

/// Integer power by repeated squaring, wrapping; a negative exponent gives the truncated quotient.
fn int_pow(num: Num, mut x: i64, y: i64) -> i64 {
    if y < 0 && num != Num::U(64) {
        return match x {
            1 => 1,
            -1 => 1 - 2 * (y & 1),
            _ => 0,
        };
    }
    let (mut y, mut r) = (y as u64, 1i64);
    while y != 0 {
        if y & 1 != 0 {
            r = r.wrapping_mul(x);
        }
        x = x.wrapping_mul(x);
        y >>= 1;
    }
    r
}

/// Returns whether a function is defined on a type; programs where it is not are rejected.
pub(super) fn unary_exists(op: UnOp, num: Num) -> bool {
    use UnOp::*;
    match num.class() {
        Class::Int => matches!(
            op,
            Neg | Abs
                | Not
                | Floor
                | Ceil
                | Trunc
                | Round
                | RoundEven
                | IsNan
                | IsInf
                | IsFinite
                | Popcount
                | Clz
        ),
        _ => !matches!(op, Not | Popcount | Clz),
    }
}

/// Like [`unary_exists`].
pub(super) fn binary_exists(op: BinOp, num: Num) -> bool {
    use BinOp::*;
    match num.class() {
        Class::Int => op != Atan2,
        _ => !matches!(op, And | Or | Xor | Shl | Shr),
    }
}

/// A unary function on integer lanes.
pub(super) fn int_unary(op: UnOp, num: Num, d: &mut [i64], a: &[i64]) {
    let bits = num.bits();
    let ones = if bits == 64 {
        u64::MAX
    } else {
        (1 << bits) - 1
    };
    match op {
        UnOp::Neg => map1(d, a, i64::wrapping_neg),
        UnOp::Abs if matches!(num, Num::I(_)) => map1(d, a, i64::wrapping_abs),
        UnOp::Not if num == Num::Bool => map1(d, a, |v| i64::from(v == 0)),
        UnOp::Not => map1(d, a, |v| !v),
        UnOp::IsNan | UnOp::IsInf => return map1(d, a, |_| 0),
        UnOp::IsFinite => return map1(d, a, |_| 1),
        UnOp::Popcount => map1(d, a, |v| (v as u64 & ones).count_ones().into()),
        UnOp::Clz => map1(d, a, |v| {
            i64::from((v as u64 & ones).leading_zeros()) - i64::from(64 - bits)
        }),
        _ => map1(d, a, |v| v),
    }
    wrap(num, d);
}

/// A binary function on integer lanes; comparisons give 0 and 1.
pub(super) fn int_binary(op: BinOp, num: Num, d: &mut [i64], a: &[i64], b: &[i64]) {
    if num == Num::U(64) && uint64_binary(op, d, a, b) {
        return;
    }
    let bits = i64::from(num.bits());
    // Mostly strides: for powers of two, division is avoided.
    if let (BinOp::FloorDiv | BinOp::FloorMod, [k]) = (op, b)
        && *k > 0
        && k & (k - 1) == 0
    {
        let (shift, mask) = (k.trailing_zeros(), k - 1);
        return match op {
            BinOp::FloorDiv => map1(d, a, |x| x >> shift),
            _ => map1(d, a, |x| x & mask),
        };
    }
    match op {
        BinOp::Add => map2(d, a, b, i64::wrapping_add),
        BinOp::Sub => map2(d, a, b, i64::wrapping_sub),
        BinOp::Mul => map2(d, a, b, i64::wrapping_mul),
        BinOp::Div => map2(d, a, b, |x, y| if y == 0 { 0 } else { x.wrapping_div(y) }),
        BinOp::FloorDiv => map2(d, a, b, floor_div),
        BinOp::FloorMod => return map2(d, a, b, floor_mod),
        BinOp::Rem => return map2(d, a, b, |x, y| if y == 0 { 0 } else { x.wrapping_rem(y) }),
        BinOp::Min => return map2(d, a, b, i64::min),
        BinOp::Max => return map2(d, a, b, i64::max),
        BinOp::Pow => map2(d, a, b, |x, y| int_pow(num, x, y)),
        BinOp::And => return map2(d, a, b, |x, y| x & y),
        BinOp::Or => return map2(d, a, b, |x, y| x | y),
        BinOp::Xor => return map2(d, a, b, |x, y| x ^ y),
        BinOp::Shl => map2(
            d,
            a,
            b,
            |x, y| if (0..bits).contains(&y) { x << y } else { 0 },
        ),
        BinOp::Shr => {
            return map2(d, a, b, |x, y| {
                x >> if (0..bits).contains(&y) { y } else { 63 }
            });
        }
        BinOp::Eq => return map2(d, a, b, |x, y| i64::from(x == y)),
        BinOp::Ne => return map2(d, a, b, |x, y| i64::from(x != y)),
        BinOp::Lt => return map2(d, a, b, |x, y| i64::from(x < y)),
        BinOp::Le => return map2(d, a, b, |x, y| i64::from(x <= y)),
        BinOp::Gt => return map2(d, a, b, |x, y| i64::from(x > y)),
        BinOp::Ge => return map2(d, a, b, |x, y| i64::from(x >= y)),
        BinOp::Atan2 => unreachable!("refused when the program was compiled"),
    }
    wrap(num, d);
}

/// The functions that differ when the lanes hold `uint64` bit patterns.
fn uint64_binary(op: BinOp, d: &mut [i64], a: &[i64], b: &[i64]) -> bool {
    let u = |x: i64| x as u64;
    match op {
        BinOp::Div | BinOp::FloorDiv => {
            map2(d, a, b, |x, y| u(x).checked_div(u(y)).unwrap_or(0) as i64);
        }
        BinOp::Rem | BinOp::FloorMod => {
            map2(d, a, b, |x, y| u(x).checked_rem(u(y)).unwrap_or(0) as i64);
        }
        BinOp::Min => map2(d, a, b, |x, y| u(x).min(u(y)) as i64),
        BinOp::Max => map2(d, a, b, |x, y| u(x).max(u(y)) as i64),
        BinOp::Shr => map2(
            d,
            a,
            b,
            |x, y| if u(y) < 64 { (u(x) >> y) as i64 } else { 0 },
        ),
        BinOp::Lt => map2(d, a, b, |x, y| i64::from(u(x) < u(y))),
        BinOp::Le => map2(d, a, b, |x, y| i64::from(u(x) <= u(y))),
        BinOp::Gt => map2(d, a, b, |x, y| i64::from(u(x) > u(y))),
        BinOp::Ge => map2(d, a, b, |x, y| i64::from(u(x) >= u(y))),
        _ => return false,
    }
    true
}

macro_rules! real {
    ($t:ident $compare:ident $binary:ident; $pow:ident $atan2:ident) => {
        /// A comparison of float lanes.
        pub(super) fn $compare(op: BinOp, d: &mut [i64], a: &[$t], b: &[$t]) {
            match op {
                BinOp::Eq => map2(d, a, b, |x, y| i64::from(x == y)),
                BinOp::Ne => map2(d, a, b, |x, y| i64::from(x != y)),
                BinOp::Lt => map2(d, a, b, |x, y| i64::from(x < y)),
                BinOp::Le => map2(d, a, b, |x, y| i64::from(x <= y)),
                BinOp::Gt => map2(d, a, b, |x, y| i64::from(x > y)),
                _ => map2(d, a, b, |x, y| i64::from(x >= y)),
            }
        }
        /// A binary function on float lanes that gives floats, before rounding to narrow types.
        pub(super) fn $binary(op: BinOp, d: &mut [$t], a: &[$t], b: &[$t]) {
            match op {
                BinOp::Add => map2(d, a, b, |x, y| x + y),
                BinOp::Sub => map2(d, a, b, |x, y| x - y),
                BinOp::Mul => map2(d, a, b, |x, y| x * y),
                BinOp::Div => map2(d, a, b, |x, y| x / y),
                BinOp::FloorDiv => map2(d, a, b, |x, y| (x / y).floor()),
                BinOp::FloorMod => map2(d, a, b, |x, y| x - (x / y).floor() * y),
                BinOp::Rem => map2(d, a, b, |x, y| x % y),
                BinOp::Min => map2(d, a, b, |x, y| if x < y { x } else { y }),
                BinOp::Max => map2(d, a, b, |x, y| if x > y { x } else { y }),
                BinOp::Pow => map2(d, a, b, libm::$pow),
                BinOp::Atan2 => map2(d, a, b, libm::$atan2),
                _ => unreachable!("refused when the program was compiled, or a comparison"),
            }
        }
    };
}

real!(f32 single_compare single_binary; powf atan2f);
real!(f64 double_compare double_binary; pow atan2);

/// C's functions, by crate `libm`. Its inverse hyperbolic cosine has a value below 1, where C's has
/// none.
mod c {
    pub use libm::*;

    pub fn acosh(x: f64) -> f64 {
        if x < 1.0 { f64::NAN } else { libm::acosh(x) }
    }
    pub fn acoshf(x: f32) -> f32 {
        if x < 1.0 { f32::NAN } else { libm::acoshf(x) }
    }
}

macro_rules! unary {
    (@of $name:ident $t:ident $exp:ident: $($op:ident $($f:ident)?;)*) => {
        /// A unary function on float lanes, before rounding to narrow types.
        pub(super) fn $name(op: UnOp, d: &mut [$t], a: &[$t]) {
            match op {
                UnOp::Neg => map1(d, a, |v| -v),
                UnOp::Abs => map1(d, a, $t::abs),
                UnOp::Sqrt => map1(d, a, $t::sqrt),
                UnOp::Rsqrt => map1(d, a, |v| 1.0 / v.sqrt()),
                UnOp::Sigmoid => map1(d, a, |v| 1.0 / (1.0 + libm::$exp(-v))),
                UnOp::Floor => map1(d, a, $t::floor),
                UnOp::Ceil => map1(d, a, $t::ceil),
                UnOp::Trunc => map1(d, a, $t::trunc),
                UnOp::RoundEven => map1(d, a, $t::round_ties_even),
                $($(UnOp::$op => map1(d, a, c::$f),)?)*
                UnOp::Not | UnOp::Popcount | UnOp::Clz | UnOp::IsNan | UnOp::IsInf | UnOp::IsFinite => {
                    unreachable!("refused when the program was compiled, or a test")
                }
            }
        }
    };
    ($($(#[$meta:meta])* $op:ident $text:literal $takes:ident $($double:ident $single:ident)?;)*) => {
        unary!(@of single_unary f32 expf: $($op $($single)?;)*);
        unary!(@of double_unary f64 exp: $($op $($double)?;)*);
    };
}
crate::unary_functions!(unary);

/// `isnan` and similar tests, on either float width.
pub(super) fn float_test<T: Copy + Into<f64>>(op: UnOp, d: &mut [i64], a: &[T]) {
    match op {
        UnOp::IsNan => map1(d, a, |v| i64::from(v.into().is_nan())),
        UnOp::IsInf => map1(d, a, |v| i64::from(v.into().is_infinite())),
        _ => map1(d, a, |v| i64::from(v.into().is_finite())),
    }
}

fn f64_to_int(to: Num, v: f64) -> i64 {
    match to {
        Num::Bool => i64::from(v != 0.0),
        Num::U(64) => v as u64 as i64,
        Num::U(b) => (v as i64).clamp(0, (1 << b) - 1),
        Num::I(b) if b < 64 => (v as i64).clamp(-(1 << (b - 1)), (1 << (b - 1)) - 1),
        _ => v as i64,
    }
}

/// Integer to integer.
pub(super) fn cast_int_int(to: Num, d: &mut [i64], a: &[i64]) {
    map1(d, a, |v| v);
    wrap(to, d);
}
/// Float to integer: truncates, saturates, NaN to 0; to `bool` is `!= 0`.
pub(super) fn cast_float_int<T: Copy + Into<f64>>(to: Num, d: &mut [i64], a: &[T]) {
    map1(d, a, |v| f64_to_int(to, v.into()));
}
/// Integer to a float held as `f32`.
pub(super) fn cast_int_single(from: Num, to: Num, d: &mut [f32], a: &[i64]) {
    match (to, from) {
        (Num::F32, Num::U(64)) => map1(d, a, |v| v as u64 as f32),
        (Num::F32, _) => map1(d, a, |v| v as f32),
        (_, Num::U(64)) => map1(d, a, |v| narrow(to, v as u64 as f64)),
        _ => map1(d, a, |v| narrow(to, v as f64)),
    }
}
/// Integer to `float64`.
pub(super) fn cast_int_double(from: Num, d: &mut [f64], a: &[i64]) {
    if from == Num::U(64) {
        map1(d, a, |v| v as u64 as f64);
    } else {
        map1(d, a, |v| v as f64);
    }
}
fn narrow(to: Num, v: f64) -> f32 {
    match to {
        Num::F16 => f16::from_f64(v).to_f32(),
        Num::BF16 => bf16::from_f64(v).to_f32(),
        _ => v as f32,
    }
}
/// Between floats held as `f32`.
pub(super) fn cast_single_single(to: Num, d: &mut [f32], a: &[f32]) {
    map1(d, a, |v| v);
    round(to, d);
}
/// `float64` to a float held as `f32`.
pub(super) fn cast_double_single(to: Num, d: &mut [f32], a: &[f64]) {
    map1(d, a, |v| narrow(to, v));
}
/// To `float64` from a float held as `f32`.
pub(super) fn cast_single_double(d: &mut [f64], a: &[f32]) {
    map1(d, a, f64::from);
}

/// The bits of float lanes as integers of the same width.
pub(super) fn single_bits(from: Num, v: f32) -> u64 {
    match from {
        Num::F16 => f16::from_f32(v).to_bits().into(),
        Num::BF16 => bf16::from_f32(v).to_bits().into(),
        _ => v.to_bits().into(),
    }
}
/// The float with these bits.
pub(super) fn single_from_bits(to: Num, bits: u64) -> f32 {
    match to {
        Num::F16 => f16::from_bits(bits as u16).to_f32(),
        Num::BF16 => bf16::from_bits(bits as u16).to_f32(),
        _ => f32::from_bits(bits as u32),
    }
}
