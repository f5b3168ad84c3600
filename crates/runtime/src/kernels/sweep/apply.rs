//! One operation over the elements of strips, for every type.

use super::divide::{Round, divide};
use super::divisor::Divided;
use super::op::{Op, RxSweepOp};
use super::{LINE, register};
use crate::kernels::functions::{over_f32, over_f64};
use crate::kernels::halves;
use crate::kernels::kinds::Kind;
use crate::kernels::math::Math;
use crate::kernels::simd::{Simd, dispatch};

/// The strip of an argument; null where an operation has no such argument.
#[derive(Clone, Copy)]
pub(super) struct Given {
    pub at: *const u8,
    /// It is one number, [`LINE`] times, which is read again and again.
    pub line: bool,
}

impl Given {
    /// The elements from one on that is a multiple of [`LINE`].
    #[inline(always)]
    unsafe fn from<T>(self, first: usize) -> *const T {
        let first = if self.line { 0 } else { first };
        // SAFETY: the strip has elements there, or is one line.
        unsafe { self.at.cast::<T>().add(first) }
    }
}

/// The strips that an operation reads.
pub(super) struct Args {
    pub a: Given,
    pub b: Given,
    pub c: Given,
    pub d: Given,
    /// The second and the third are the same number for all elements, where the operation bounds the
    /// first.
    pub bounds: bool,
}

/// `to[i] = f(a[i], b[i], …)` for `n` elements.
macro_rules! each {
    ($n:ident, $to:ident: $r:ty, $($x:ident: $t:ty),+ => $value:expr) => {{
        let lines = $($x.line)||+;
        let most = if lines { LINE } else { $n };
        let mut first = 0;
        while first < $n {
            let to = $to.cast::<$r>().add(first);
            $(let $x = $x.from::<$t>(first);)+
            let part = ($n - first).min(most);
            for i in 0..part {
                $(let $x = *$x.add(i);)+
                *to.add(i) = $value;
            }
            first += part;
        }
    }};
}

/// `to[i] = c[i]` where `a[i]` and `b[i]` compare so, else `d[i]`: bits, without branches, since
/// random comparisons would be mispredicted.
#[rustfmt::skip] // It would move the inner macro on at every run.
macro_rules! chosen {
    ($kind:expr, $n:ident, $to:ident, ($a:ident, $b:ident, $c:ident, $d:ident), |$x:ident, $y:ident| $holds:expr) => {{
        macro_rules! of {
            ($t:ty, $bits:ty) => {
                each!($n, $to: $bits, $a: $t, $b: $t, $c: $bits, $d: $bits => {
                    let ($x, $y) = ($a, $b);
                    let mask = <$bits>::from($holds).wrapping_neg();
                    $c & mask | $d & !mask
                })
            };
        }
        match $kind {
            Kind::I8 => of!(i8, u8),
            Kind::I16 => of!(i16, u16),
            Kind::U16 => of!(u16, u16),
            Kind::I32 => of!(i32, u32),
            Kind::U32 => of!(u32, u32),
            Kind::I64 => of!(i64, u64),
            Kind::U64 => of!(u64, u64),
            Kind::F32 => of!(f32, u32),
            Kind::F64 => of!(f64, u64),
            _ => of!(u8, u8),
        }
    }};
}

/// `MaxMin` or `MinMax` by two numbers that are the same for all elements.
#[inline(always)]
unsafe fn between(code: Op, kind: Kind, (a, b, c): (Given, Given, Given), to: *mut u8, n: usize) {
    // SAFETY: the argument and the result have `n` elements of the type, the others one.
    unsafe {
        numbers!(kind, T => {
            let (b, c) = (*b.at.cast::<T>(), *c.at.cast::<T>());
            match code {
                Op::MaxMin => each!(n, to: T, a: T => {
                    let x = if a > b { a } else { b };
                    if x < c { x } else { c }
                }),
                _ => each!(n, to: T, a: T => {
                    let x = if a < b { a } else { b };
                    if x > c { x } else { c }
                }),
            }
        });
    }
}

/// Applies an operation to `n` elements.
///
/// Operations of a sort are a function for each instruction set: in one function, compilers take
/// much more than the sum of their times.
pub(super) unsafe fn apply(op: &RxSweepOp, args: &Args, to: *mut u8, n: usize) {
    let Some(kind) = Kind::of(op.kind).map(register) else {
        return;
    };
    macro_rules! by {
        ($name:ident) => {
            dispatch!($name(op: &RxSweepOp, args: &Args, kind: Kind, to: *mut u8, n: usize))
        };
    }
    let float = matches!(kind, Kind::F32 | Kind::F64);
    // SAFETY: arguments and result have `n` elements of the types that the operation names.
    unsafe {
        match op.op() {
            Op::Copy => std::ptr::copy(args.a.at, to, n * kind.size()),
            Op::Rem if float => function(Math::Fmod as i32, kind, args.a, args.b, to, n),
            Op::Math => function(op.args[1], kind, args.a, args.a, to, n),
            Op::Math2 => function(op.args[2], kind, args.a, args.b, to, n),
            Op::Div | Op::FloorDiv | Op::FloorMod | Op::Rem if !float => by!(divided),
            Op::Add | Op::Sub | Op::Mul | Op::Div | Op::FloorDiv | Op::FloorMod | Op::Rem => {
                by!(arithmetic)
            }
            Op::Min | Op::Max | Op::MaxMin | Op::MinMax => by!(bounded),
            Op::And | Op::Or | Op::Xor | Op::Not => by!(bits),
            Op::Shl | Op::Shr => by!(shifted),
            Op::Eq | Op::Ne | Op::Lt | Op::Le => by!(compared),
            Op::Select | Op::SelectLt | Op::SelectLe | Op::SelectEq => by!(selected),
            Op::Neg | Op::Abs => by!(signed),
            Op::Cast => by!(cast),
            Op::Rescale => by!(rescaled),
            Op::Narrow => {
                let brain = op.result() == Some(Kind::BF16);
                halves::rounded(brain, n, args.a.at.cast(), to.cast());
            }
            Op::Floor | Op::Ceil | Op::Trunc | Op::Round | Op::RoundEven | Op::Sqrt | Op::Rsqrt => {
                by!(rounded)
            }
            Op::IsNan | Op::IsInf | Op::IsFinite => by!(classified),
        }
    }
}

#[inline(always)]
#[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
unsafe fn arithmetic<S: Simd>(op: &RxSweepOp, args: &Args, kind: Kind, to: *mut u8, n: usize) {
    let Args { a, b, .. } = *args;
    // SAFETY: arguments and result have `n` elements of the types that the operation names.
    unsafe {
        match (op.op(), kind) {
            (code, Kind::F32 | Kind::F64) => of_floats(code, kind, a, b, to, n),
            (Op::Add, _) => {
                widths!(kind, T => each!(n, to: T, a: T, b: T => a.wrapping_add(b)));
            }
            (Op::Sub, _) => {
                widths!(kind, T => each!(n, to: T, a: T, b: T => a.wrapping_sub(b)));
            }
            _ => widths!(kind, T => each!(n, to: T, a: T, b: T => a.wrapping_mul(b))),
        }
    }
}

/// Quotients and remainders of integers.
#[inline(always)]
#[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
unsafe fn divided<S: Simd>(op: &RxSweepOp, args: &Args, kind: Kind, to: *mut u8, n: usize) {
    let Args { a, b, .. } = *args;
    // SAFETY: arguments and result have `n` elements of the types that the operation names.
    unsafe {
        let round = match op.op() {
            Op::Div | Op::Rem => Round::Trunc,
            _ => Round::Floor,
        };
        let quotient = matches!(op.op(), Op::Div | Op::FloorDiv);
        integers!(kind, T => {
            let (from, to) = (a.at.cast::<T>(), to.cast::<T>());
            match *b.at.cast::<T>() {
                0 if b.line => std::ptr::write_bytes(to, 0, n),
                by if b.line => T::by_one(from, by, to, n, round, quotient),
                _ => divide::<T>((from, b.at.cast()), to, n, round, quotient),
            }
        });
    }
}

/// The lesser, the greater, and numbers between two others, which may be the same for all elements.
#[inline(always)]
#[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
unsafe fn bounded<S: Simd>(op: &RxSweepOp, args: &Args, kind: Kind, to: *mut u8, n: usize) {
    let Args {
        a, b, c, bounds, ..
    } = *args;
    // SAFETY: arguments and result have `n` elements of the types that the operation names.
    unsafe {
        match op.op() {
            Op::Min => {
                numbers!(kind, T => each!(n, to: T, a: T, b: T => if a < b { a } else { b }));
            }
            Op::Max => {
                numbers!(kind, T => each!(n, to: T, a: T, b: T => if a > b { a } else { b }));
            }
            code if bounds => between(code, kind, (a, b, c), to, n),
            Op::MaxMin => numbers!(kind, T => each!(n, to: T, a: T, b: T, c: T => {
                let x = if a > b { a } else { b };
                if x < c { x } else { c }
            })),
            _ => numbers!(kind, T => each!(n, to: T, a: T, b: T, c: T => {
                let x = if a < b { a } else { b };
                if x > c { x } else { c }
            })),
        }
    }
}

#[inline(always)]
#[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
unsafe fn rescaled<S: Simd>(_: &RxSweepOp, args: &Args, kind: Kind, to: *mut u8, n: usize) {
    let Args { a, b, c, d, .. } = *args;
    macro_rules! of {
        ($t:ty) => {{
            let [factor, half, right] = [b, c, d].map(|x| *x.at.cast::<i64>());
            let same = b.line && c.line && d.line && (0..64).contains(&right);
            match i32::try_from(factor) {
                // A product of numbers of 32 bits is one instruction.
                Ok(factor) if same => each!(n, to: i32, a: $t => {
                    let product = i64::from(a) * i64::from(factor);
                    (product.wrapping_add(half) >> right) as i32
                }),
                _ => each!(n, to: i32, a: $t, b: i64, c: i64, d: i64 => {
                    let product = i64::from(a).wrapping_mul(b);
                    (product.wrapping_add(c) >> (d as u64).min(63)) as i32
                }),
            }
        }};
    }
    // SAFETY: the result and the first argument have `n` elements of the types that the operation
    // names, the others of 64 bits.
    unsafe {
        match kind {
            Kind::I8 => of!(i8),
            Kind::U8 => of!(u8),
            _ => of!(i32),
        }
    }
}

#[inline(always)]
#[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
unsafe fn bits<S: Simd>(op: &RxSweepOp, args: &Args, kind: Kind, to: *mut u8, n: usize) {
    let Args { a, b, .. } = *args;
    // SAFETY: arguments and result have `n` elements of the types that the operation names.
    unsafe {
        match op.op() {
            Op::Not if kind == Kind::Bool => each!(n, to: u8, a: u8 => u8::from(a == 0)),
            code if kind == Kind::Bool => truths(code, a, b, to, n),
            Op::And => widths!(kind, T => each!(n, to: T, a: T, b: T => a & b)),
            Op::Or => widths!(kind, T => each!(n, to: T, a: T, b: T => a | b)),
            Op::Xor => widths!(kind, T => each!(n, to: T, a: T, b: T => a ^ b)),
            _ => widths!(kind, T => each!(n, to: T, a: T => !a)),
        }
    }
}

#[inline(always)]
#[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
unsafe fn compared<S: Simd>(op: &RxSweepOp, args: &Args, kind: Kind, to: *mut u8, n: usize) {
    let Args { a, b, .. } = *args;
    // SAFETY: arguments and result have `n` elements of the types that the operation names.
    unsafe {
        match (op.op(), kind) {
            (code, Kind::Bool) if matches!(code, Op::Eq | Op::Ne) => truths(code, a, b, to, n),
            (Op::Eq, Kind::F32) => each!(n, to: u8, a: f32, b: f32 => u8::from(a == b)),
            (Op::Eq, Kind::F64) => each!(n, to: u8, a: f64, b: f64 => u8::from(a == b)),
            (Op::Ne, Kind::F32) => each!(n, to: u8, a: f32, b: f32 => u8::from(a != b)),
            (Op::Ne, Kind::F64) => each!(n, to: u8, a: f64, b: f64 => u8::from(a != b)),
            (Op::Eq, _) => widths!(kind, T => each!(n, to: u8, a: T, b: T => u8::from(a == b))),
            (Op::Ne, _) => widths!(kind, T => each!(n, to: u8, a: T, b: T => u8::from(a != b))),
            (Op::Lt, _) => numbers!(kind, T => each!(n, to: u8, a: T, b: T => u8::from(a < b))),
            _ => numbers!(kind, T => each!(n, to: u8, a: T, b: T => u8::from(a <= b))),
        }
    }
}

#[inline(always)]
#[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
unsafe fn selected<S: Simd>(op: &RxSweepOp, args: &Args, kind: Kind, to: *mut u8, n: usize) {
    let Args { a, b, c, d, .. } = *args;
    // SAFETY: arguments and result have `n` elements of the types that the operation names.
    unsafe {
        match op.op() {
            Op::Select => {
                // Branch-free, since random truth values would be mispredicted.
                widths!(kind, T => each!(n, to: T, a: u8, b: T, c: T => {
                    let mask = T::from(a != 0).wrapping_neg();
                    b & mask | c & !mask
                }));
            }
            Op::SelectLt => chosen!(kind, n, to, (a, b, c, d), |x, y| x < y),
            Op::SelectLe => chosen!(kind, n, to, (a, b, c, d), |x, y| x <= y),
            _ => chosen!(kind, n, to, (a, b, c, d), |x, y| x == y),
        }
    }
}

#[inline(always)]
#[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
unsafe fn signed<S: Simd>(op: &RxSweepOp, args: &Args, kind: Kind, to: *mut u8, n: usize) {
    let Args { a, .. } = *args;
    // SAFETY: arguments and result have `n` elements of the types that the operation names.
    unsafe {
        match (op.op(), kind) {
            (Op::Neg, Kind::F32) => each!(n, to: f32, a: f32 => -a),
            (Op::Neg, Kind::F64) => each!(n, to: f64, a: f64 => -a),
            (Op::Neg, _) => widths!(kind, T => each!(n, to: T, a: T => a.wrapping_neg())),
            (_, Kind::F32) => each!(n, to: f32, a: f32 => a.abs()),
            (_, Kind::F64) => each!(n, to: f64, a: f64 => a.abs()),
            (_, Kind::I8) => each!(n, to: i8, a: i8 => a.wrapping_abs()),
            (_, Kind::I16) => each!(n, to: i16, a: i16 => a.wrapping_abs()),
            (_, Kind::I32) => each!(n, to: i32, a: i32 => a.wrapping_abs()),
            (_, Kind::I64) => each!(n, to: i64, a: i64 => a.wrapping_abs()),
            _ => std::ptr::copy(a.at, to, n * kind.size()),
        }
    }
}

/// Writes whether elements are NaN, infinite or finite; integers are numbers.
#[inline(always)]
#[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
unsafe fn classified<S: Simd>(op: &RxSweepOp, args: &Args, kind: Kind, to: *mut u8, n: usize) {
    let Args { a, .. } = *args;
    // SAFETY: arguments and result have `n` elements of the types that the operation names.
    unsafe {
        #[allow(clippy::eq_op)] // Only a NaN is not itself.
        match (op.op(), kind) {
            (Op::IsNan, Kind::F32) => each!(n, to: u8, a: f32 => u8::from(a != a)),
            (Op::IsNan, Kind::F64) => each!(n, to: u8, a: f64 => u8::from(a != a)),
            (Op::IsInf, Kind::F32) => {
                each!(n, to: u8, a: f32 => u8::from(a.abs() == f32::INFINITY))
            }
            (Op::IsInf, Kind::F64) => {
                each!(n, to: u8, a: f64 => u8::from(a.abs() == f64::INFINITY))
            }
            (_, Kind::F32) => each!(n, to: u8, a: f32 => u8::from(a.abs() < f32::INFINITY)),
            (_, Kind::F64) => each!(n, to: u8, a: f64 => u8::from(a.abs() < f64::INFINITY)),
            (code, _) => std::ptr::write_bytes(to, u8::from(code == Op::IsFinite), n),
        }
    }
}

#[inline(always)]
unsafe fn of_floats(code: Op, kind: Kind, a: Given, b: Given, to: *mut u8, n: usize) {
    macro_rules! of {
        ($t:ty) => {
            match code {
                Op::Add => each!(n, to: $t, a: $t, b: $t => a + b),
                Op::Sub => each!(n, to: $t, a: $t, b: $t => a - b),
                Op::Mul => each!(n, to: $t, a: $t, b: $t => a * b),
                Op::Div => each!(n, to: $t, a: $t, b: $t => a / b),
                Op::FloorDiv => each!(n, to: $t, a: $t, b: $t => (a / b).floor()),
                _ => each!(n, to: $t, a: $t, b: $t => a - (a / b).floor() * b),
            }
        };
    }
    // SAFETY: `a`, `b` and `to` have `n` elements of the type.
    unsafe {
        if kind == Kind::F32 {
            of!(f32);
        } else {
            of!(f64);
        }
    }
}

/// Operations on truth values, which may be any bytes.
#[inline(always)]
unsafe fn truths(code: Op, a: Given, b: Given, to: *mut u8, n: usize) {
    // SAFETY: `a`, `b` and `to` have `n` elements.
    unsafe {
        match code {
            Op::And => each!(n, to: u8, a: u8, b: u8 => u8::from(a != 0) & u8::from(b != 0)),
            Op::Or => each!(n, to: u8, a: u8, b: u8 => u8::from(a | b != 0)),
            Op::Eq => each!(n, to: u8, a: u8, b: u8 => u8::from(a == 0) ^ u8::from(b != 0)),
            _ => each!(n, to: u8, a: u8, b: u8 => u8::from(a != 0) ^ u8::from(b != 0)),
        }
    }
}

/// Narrow integers are shifted in 32 bits, bytes in 16, which the counts that remain do not exceed.
#[inline(always)]
#[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
unsafe fn shifted<S: Simd>(op: &RxSweepOp, args: &Args, kind: Kind, to: *mut u8, n: usize) {
    let Args { a, b, .. } = *args;
    // SAFETY: `a`, `b` and `to` have `n` elements of the type.
    unsafe {
        if op.op() == Op::Shl {
            integers!(kind, T => each!(n, to: T, a: T, b: T => {
                if T::BITS == 8 {
                    ((a as u16) << (b as u16).min(15)) as T
                } else if T::BITS < 32 {
                    ((a as u32) << (b as u32).min(31)) as T
                } else {
                    let fits = b & !(T::BITS as T - 1) == 0;
                    if fits { a << (b as u32 & (T::BITS - 1)) } else { 0 }
                }
            }));
        } else {
            integers!(kind, T => each!(n, to: T, a: T, b: T => {
                if T::BITS == 8 {
                    ((a as i16) >> (b as u16).min(15)) as T
                } else if T::BITS < 32 {
                    ((a as i32) >> (b as u32).min(31)) as T
                } else {
                    let fits = b & !(T::BITS as T - 1) == 0;
                    let sign = (a >> (T::BITS / 2)) >> (T::BITS / 2);
                    if fits { a >> (b as u32 & (T::BITS - 1)) } else { sign }
                }
            }));
        }
    }
}

#[inline(always)]
#[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
unsafe fn rounded<S: Simd>(op: &RxSweepOp, args: &Args, kind: Kind, to: *mut u8, n: usize) {
    let a = args.a;
    macro_rules! of {
        ($t:ty) => {
            match op.op() {
                Op::Floor => each!(n, to: $t, a: $t => a.floor()),
                Op::Ceil => each!(n, to: $t, a: $t => a.ceil()),
                Op::Trunc => each!(n, to: $t, a: $t => a.trunc()),
                Op::Round => each!(n, to: $t, a: $t => {
                    // Half is added in a way that does not round up numbers just below half.
                    let whole = a.trunc();
                    let up = if (a - whole).abs() >= 0.5 { (1.0 as $t).copysign(a) } else { 0.0 };
                    if up == 0.0 { whole } else { whole + up }
                }),
                Op::RoundEven => each!(n, to: $t, a: $t => a.round_ties_even()),
                Op::Sqrt => each!(n, to: $t, a: $t => a.sqrt()),
                _ => each!(n, to: $t, a: $t => 1.0 / a.sqrt()),
            }
        };
    }
    // SAFETY: `a` and `to` have `n` elements of the type.
    unsafe {
        match kind {
            Kind::F32 => of!(f32),
            Kind::F64 => of!(f64),
            // Integers are unchanged.
            kind => std::ptr::copy(a.at, to, n * kind.size()),
        }
    }
}

/// A function by its number.
unsafe fn function(number: i32, kind: Kind, a: Given, b: Given, to: *mut u8, n: usize) {
    let Some(math) = Math::of(number) else {
        return;
    };
    // SAFETY: arguments and result have `n` elements of the type.
    unsafe {
        if kind == Kind::F64 {
            over_f64(math, n, a.at.cast(), b.at.cast(), to.cast());
        } else {
            over_f32(math, n, a.at.cast(), b.at.cast(), to.cast());
        }
    }
}

#[inline(always)]
#[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
unsafe fn cast<S: Simd>(op: &RxSweepOp, args: &Args, from: Kind, to: *mut u8, n: usize) {
    let (a, Some(to_kind)) = (args.a, Kind::of(op.to).map(register)) else {
        return;
    };
    macro_rules! to {
        ($t:ty, $kind:ident => $others:expr) => {
            match to_kind {
                Kind::F32 => each!(n, to: f32, a: $t => a as f32),
                Kind::F64 => each!(n, to: f64, a: $t => a as f64),
                Kind::Bool => each!(n, to: u8, a: $t => u8::from(a != 0 as $t)),
                $kind => $others,
            }
        };
        // Of integers, the bits are the same with and without a sign.
        ($t:ty) => { to!($t, kind => widths!(kind, R => each!(n, to: R, a: $t => a as R))) };
    }
    // Floats saturate, NaN is 0; types of at most 32 bits use conversions that processors have for
    // vectors.
    macro_rules! narrow {
        ($t:ty, $wide:ty, $r:ty) => {
            each!(n, to: $r, a: $t => {
                #[allow(clippy::eq_op)] // Only a NaN is not itself.
                let x = if a != a { 0.0 } else { <$wide>::from(a) };
                let x = if x > <$r>::MAX as $wide { <$r>::MAX as $wide } else { x };
                let x = if x < <$r>::MIN as $wide { <$r>::MIN as $wide } else { x };
                // SAFETY: the number is in the range of the type.
                x.to_int_unchecked::<i32>() as $r
            })
        };
    }
    // The least number of so many bits is a float of fewer, the greatest one is not.
    macro_rules! words {
        ($t:ty, $r:ty) => {
            each!(n, to: $r, a: $t => {
                let whole = a.abs() < -(<$r>::MIN as $t);
                let x = if whole { a } else { 0.0 };
                let beyond = if a > 0.0 { <$r>::MAX } else { <$r>::MIN };
                #[allow(clippy::eq_op)] // Only a NaN is not itself.
                let beyond = if a == a { beyond } else { 0 };
                // SAFETY: the number is in the range of the type.
                if whole { x.to_int_unchecked::<$r>() } else { beyond }
            })
        };
    }
    macro_rules! floats {
        ($t:ty) => {
            match to_kind {
                Kind::I8 => narrow!($t, $t, i8),
                Kind::U8 => narrow!($t, $t, u8),
                Kind::I16 => narrow!($t, $t, i16),
                Kind::U16 => narrow!($t, $t, u16),
                // Float64 holds all of them.
                Kind::I32 if size_of::<$t>() == 8 => narrow!($t, f64, i32),
                Kind::I32 => words!($t, i32),
                Kind::I64 => words!($t, i64),
                Kind::U32 => each!(n, to: u32, a: $t => a as u32),
                _ => to!($t, _kind => each!(n, to: u64, a: $t => a as u64)),
            }
        };
    }
    // SAFETY: `a` and `to` have `n` elements of their types.
    unsafe {
        match from {
            Kind::F32 => floats!(f32),
            Kind::F64 => floats!(f64),
            Kind::Bool | Kind::U8 => to!(u8),
            Kind::I8 => to!(i8),
            Kind::I16 => to!(i16),
            Kind::U16 => to!(u16),
            Kind::I32 => to!(i32),
            Kind::U32 => to!(u32),
            Kind::I64 => to!(i64),
            _ => to!(u64),
        }
    }
}
