//! One operation over the elements of strips, for every type.

use super::divide::{Round, divide};
use super::op::{Op, RxSweepOp};
use super::{MAX, MIN, SUM, register};
use crate::kernels::halves;
use crate::kernels::kinds::{Combiner, Kind};
use crate::kernels::math::{Math, rx_vmath_f32, rx_vmath_f64};
use crate::kernels::simd::wide::{Vector, Wide};
use crate::kernels::simd::{Simd, dispatch};
use crate::kernels::strips::{Op as Float, apply as float};

/// The strips that an operation reads; null where it reads none.
pub(super) struct Args {
    pub a: *const u8,
    pub b: *const u8,
    pub c: *const u8,
}

/// `to[i] = f(a[i], b[i], …)` for `n` elements.
macro_rules! each {
    ($n:ident, $to:ident: $r:ty, $($x:ident: $t:ty),+ => $value:expr) => {{
        let to = $to.cast::<$r>();
        $(let $x = $x.cast::<$t>();)+
        for i in 0..$n {
            $(let $x = *$x.add(i);)+
            *to.add(i) = $value;
        }
    }};
}

/// An expression over an integer type, by its number.
macro_rules! integers {
    ($kind:expr, $t:ident => $body:expr) => {
        match $kind {
            Kind::I8 => {
                type $t = i8;
                $body
            }
            Kind::U8 => {
                type $t = u8;
                $body
            }
            Kind::I16 => {
                type $t = i16;
                $body
            }
            Kind::U16 => {
                type $t = u16;
                $body
            }
            Kind::I32 => {
                type $t = i32;
                $body
            }
            Kind::U32 => {
                type $t = u32;
                $body
            }
            Kind::I64 => {
                type $t = i64;
                $body
            }
            Kind::U64 => {
                type $t = u64;
                $body
            }
            _ => {}
        }
    };
}

/// The same where signedness does not matter.
macro_rules! widths {
    ($kind:expr, $t:ident => $body:expr) => {
        match $kind.size() {
            1 => {
                type $t = u8;
                $body
            }
            2 => {
                type $t = u16;
                $body
            }
            4 => {
                type $t = u32;
                $body
            }
            _ => {
                type $t = u64;
                $body
            }
        }
    };
}

/// Over all types but booleans, which are bytes.
macro_rules! numbers {
    ($kind:expr, $t:ident => $body:expr) => {
        match $kind {
            Kind::F32 => { type $t = f32; $body }
            Kind::F64 => { type $t = f64; $body }
            Kind::Bool => { type $t = u8; $body }
            kind => integers!(kind, $t => $body),
        }
    };
}

/// Applies an operation to `n` elements.
#[inline(always)]
pub(super) unsafe fn apply<S: Simd>(op: &RxSweepOp, args: &Args, to: *mut u8, n: usize) {
    let (Some(kind), Some(result)) = (Kind::of(op.kind), Kind::of(op.to)) else {
        return;
    };
    let kind = register(kind);
    let Args { a, b, c, .. } = *args;
    let float = matches!(kind, Kind::F32 | Kind::F64);
    // SAFETY: arguments and result have `n` elements of the types that the operation names.
    unsafe {
        match op.op() {
            Op::Copy => std::ptr::copy(a, to, n * kind.size()),
            code @ (Op::Add | Op::Sub | Op::Mul) if float => arithmetic(code, kind, a, b, to, n),
            Op::Add => widths!(kind, T => each!(n, to: T, a: T, b: T => a.wrapping_add(b))),
            Op::Sub => widths!(kind, T => each!(n, to: T, a: T, b: T => a.wrapping_sub(b))),
            Op::Mul => widths!(kind, T => each!(n, to: T, a: T, b: T => a.wrapping_mul(b))),
            Op::Rem if float => math::<S>(Math::Fmod as i32, kind, a, b, to, n),
            code @ (Op::Div | Op::FloorDiv | Op::FloorMod | Op::Rem) => match kind {
                Kind::F32 | Kind::F64 => arithmetic(code, kind, a, b, to, n),
                kind => {
                    let round = if matches!(code, Op::Div | Op::Rem) {
                        Round::Trunc
                    } else {
                        Round::Floor
                    };
                    let quotient = matches!(code, Op::Div | Op::FloorDiv);
                    integers!(kind, T => divide::<T>((a.cast(), b.cast()), to.cast(), n, round, quotient));
                }
            },
            Op::Min => {
                numbers!(kind, T => each!(n, to: T, a: T, b: T => if a < b { a } else { b }))
            }
            Op::Max => {
                numbers!(kind, T => each!(n, to: T, a: T, b: T => if a > b { a } else { b }))
            }
            Op::And => widths!(kind, T => each!(n, to: T, a: T, b: T => a & b)),
            Op::Or => widths!(kind, T => each!(n, to: T, a: T, b: T => a | b)),
            Op::Xor => widths!(kind, T => each!(n, to: T, a: T, b: T => a ^ b)),
            Op::Shl => integers!(kind, T => each!(n, to: T, a: T, b: T => {
                let fits = (b as u64) < u64::from(T::BITS);
                if fits { a << (b as u32 & (T::BITS - 1)) } else { 0 }
            })),
            Op::Shr => integers!(kind, T => each!(n, to: T, a: T, b: T => {
                let fits = (b as u64) < u64::from(T::BITS);
                let sign = (a >> (T::BITS / 2)) >> (T::BITS / 2);
                if fits { a >> (b as u32 & (T::BITS - 1)) } else { sign }
            })),
            Op::Eq => numbers!(kind, T => each!(n, to: u8, a: T, b: T => u8::from(a == b))),
            Op::Ne => numbers!(kind, T => each!(n, to: u8, a: T, b: T => u8::from(a != b))),
            Op::Lt => numbers!(kind, T => each!(n, to: u8, a: T, b: T => u8::from(a < b))),
            Op::Le => numbers!(kind, T => each!(n, to: u8, a: T, b: T => u8::from(a <= b))),
            Op::Select => {
                // Branch-free, since random truth values would be mispredicted.
                widths!(kind, T => each!(n, to: T, a: u8, b: T, c: T => {
                    let mask = T::from(a != 0).wrapping_neg();
                    b & mask | c & !mask
                }))
            }
            Op::Neg => match kind {
                Kind::F32 => each!(n, to: f32, a: f32 => -a),
                Kind::F64 => each!(n, to: f64, a: f64 => -a),
                kind => widths!(kind, T => each!(n, to: T, a: T => a.wrapping_neg())),
            },
            Op::Abs => match kind {
                Kind::F32 => each!(n, to: f32, a: f32 => a.abs()),
                Kind::F64 => each!(n, to: f64, a: f64 => a.abs()),
                Kind::I8 => each!(n, to: i8, a: i8 => a.wrapping_abs()),
                Kind::I16 => each!(n, to: i16, a: i16 => a.wrapping_abs()),
                Kind::I32 => each!(n, to: i32, a: i32 => a.wrapping_abs()),
                Kind::I64 => each!(n, to: i64, a: i64 => a.wrapping_abs()),
                kind => std::ptr::copy(a, to, n * kind.size()),
            },
            Op::Not if kind == Kind::Bool => each!(n, to: u8, a: u8 => a ^ 1),
            Op::Not => widths!(kind, T => each!(n, to: T, a: T => !a)),
            Op::Cast => cast(kind, register(result), a, to, n),
            Op::Narrow => halves::rounded(result == Kind::BF16, n, a.cast(), to.cast()),
            code @ (Op::Floor
            | Op::Ceil
            | Op::Trunc
            | Op::Round
            | Op::RoundEven
            | Op::Sqrt
            | Op::Rsqrt) => {
                rounded(code, kind, a, to, n);
            }
            Op::IsNan => numbers!(kind, T => each!(n, to: u8, a: T => {
                #[allow(clippy::eq_op)] // Only a NaN is not itself.
                u8::from(a != a)
            })),
            Op::IsInf => match kind {
                Kind::F32 => each!(n, to: u8, a: f32 => u8::from(a.abs() == f32::INFINITY)),
                Kind::F64 => each!(n, to: u8, a: f64 => u8::from(a.abs() == f64::INFINITY)),
                _ => std::ptr::write_bytes(to, 0, n),
            },
            Op::IsFinite => match kind {
                Kind::F32 => each!(n, to: u8, a: f32 => u8::from(a.abs() < f32::INFINITY)),
                Kind::F64 => each!(n, to: u8, a: f64 => u8::from(a.abs() < f64::INFINITY)),
                _ => std::ptr::write_bytes(to, 1, n),
            },
            Op::Math => math::<S>(op.args[1], kind, a, a, to, n),
            Op::Math2 => math::<S>(op.args[2], kind, a, b, to, n),
        }
    }
}

#[inline(always)]
unsafe fn arithmetic(code: Op, kind: Kind, a: *const u8, b: *const u8, to: *mut u8, n: usize) {
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

#[inline(always)]
unsafe fn rounded(code: Op, kind: Kind, a: *const u8, to: *mut u8, n: usize) {
    macro_rules! of {
        ($t:ty) => {
            match code {
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
            kind => std::ptr::copy(a, to, n * kind.size()),
        }
    }
}

#[inline(always)]
unsafe fn math<S: Simd>(
    number: i32,
    kind: Kind,
    a: *const u8,
    b: *const u8,
    to: *mut u8,
    n: usize,
) {
    // SAFETY: arguments and result have `n` elements of the type.
    unsafe {
        if kind == Kind::F64 {
            rx_vmath_f64(number, n as i64, a.cast(), b.cast(), to.cast());
            return;
        }
        let vector = match Math::of(number) {
            Some(Math::Exp) => Float::Exp,
            Some(Math::Log) => Float::Log,
            Some(Math::Tanh) => Float::Tanh,
            Some(Math::Erf) => Float::Erf,
            Some(Math::Sigmoid) => Float::Sigmoid,
            Some(Math::Sin) => Float::Sin,
            Some(Math::Cos) => Float::Cos,
            Some(Math::Pow) => Float::Pow,
            _ => return rx_vmath_f32(number, n as i64, a.cast(), b.cast(), to.cast()),
        };
        let (a, b) = (a.cast(), b.cast());
        float::<S>(vector, [a, b, b, b], to.cast(), n);
    }
}

#[inline(always)]
unsafe fn cast(from: Kind, to_kind: Kind, a: *const u8, to: *mut u8, n: usize) {
    macro_rules! to {
        ($t:ty) => {
            match to_kind {
                Kind::F32 => each!(n, to: f32, a: $t => a as f32),
                Kind::F64 => each!(n, to: f64, a: $t => a as f64),
                Kind::Bool => each!(n, to: u8, a: $t => u8::from(a != 0 as $t)),
                kind => integers!(kind, R => each!(n, to: R, a: $t => a as R)),
            }
        };
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
    macro_rules! floats {
        ($t:ty) => {
            match to_kind {
                Kind::I8 => narrow!($t, $t, i8),
                Kind::U8 => narrow!($t, $t, u8),
                Kind::I16 => narrow!($t, $t, i16),
                Kind::U16 => narrow!($t, $t, u16),
                Kind::I32 => narrow!($t, f64, i32),
                _ => to!($t),
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

/// Fills `n` sums of a type with the initial value of a reduction.
pub(super) unsafe fn neutral(combiner: Combiner, kind: Kind, sums: *mut u8, n: usize) {
    macro_rules! fill {
        ($t:ty, $least:expr, $most:expr, $ones:expr) => {{
            let start: $t = match combiner {
                Combiner::Product => 1 as $t,
                Combiner::Max => $least,
                Combiner::Min => $most,
                Combiner::And => $ones,
                Combiner::Sum | Combiner::Or => 0 as $t,
            };
            for i in 0..n {
                *sums.cast::<$t>().add(i) = start;
            }
        }};
    }
    // SAFETY: `sums` has room for `n` elements of the type.
    unsafe {
        match kind {
            // The greatest finite numbers of the narrow types.
            Kind::F16 => fill!(f32, -65504.0, 65504.0, 0.0),
            Kind::BF16 => fill!(
                f32,
                -f32::from_bits(0x7f7f_0000),
                f32::from_bits(0x7f7f_0000),
                0.0
            ),
            Kind::F32 => fill!(f32, f32::MIN, f32::MAX, 0.0),
            Kind::F64 => fill!(f64, f64::MIN, f64::MAX, 0.0),
            Kind::Bool => fill!(u8, 0, 1, 1),
            kind => integers!(kind, T => fill!(T, T::MIN, T::MAX, !0)),
        }
    }
}

/// Bytes of sums that a line is folded onto.
pub(super) const FOLDED: usize = 256;

/// `sums[i] = sums[i] combined with x[i]`; with `FOLD`, `x` is folded onto the first [`FOLDED`]
/// bytes of sums.
pub(super) unsafe fn combine<const FOLD: bool>(
    combiner: Combiner,
    kind: Kind,
    sums: *mut u8,
    x: *const u8,
    n: usize,
) {
    #[inline(always)]
    #[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
    unsafe fn beside<S: Wide>(
        combiner: Combiner,
        kind: Kind,
        sums: *mut u8,
        x: *const u8,
        n: usize,
    ) {
        // SAFETY: `sums` and `x` have `n` elements of the type.
        unsafe { combined::<S, false>(combiner, kind, sums, x, n) };
    }
    #[inline(always)]
    #[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
    unsafe fn onto<S: Wide>(combiner: Combiner, kind: Kind, sums: *mut u8, x: *const u8, n: usize) {
        // SAFETY: `sums` has room for what is folded, and `x` `n` elements of the type.
        unsafe { combined::<S, true>(combiner, kind, sums, x, n) };
    }
    // SAFETY: `sums` and `x` have `n` elements of the type, or `sums` what is folded.
    unsafe {
        if FOLD {
            dispatch!(onto(combiner: Combiner, kind: Kind, sums: *mut u8, x: *const u8, n: usize));
        } else {
            dispatch!(beside(combiner: Combiner, kind: Kind, sums: *mut u8, x: *const u8, n: usize));
        }
    }
}

/// Combines one line into the other, for element types with vectors: `a + b`, `a > b ? a : b`,
/// `a < b ? a : b`.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the vectors out of memory.
unsafe fn vectors<V: Vector, const COMBINER: i32, const FOLD: bool>(
    sums: *mut u8,
    x: *const u8,
    n: usize,
) {
    let (sums, x) = (sums.cast::<V::Element>(), x.cast::<V::Element>());
    let across = FOLDED / size_of::<V::Element>();
    // The remainder is no longer than the sums.
    let whole = if FOLD { n / across * across } else { 0 };
    macro_rules! onto {
        ($a:expr, $b:expr) => {
            match COMBINER {
                SUM => $a.add($b),
                MAX => $a.greater($b),
                _ => $a.lesser($b),
            }
        };
    }
    // SAFETY: `sums` and `x` have `n` elements, or `sums` what is folded.
    unsafe {
        if FOLD {
            // As many vectors as [`FOLDED`] bytes are with the smallest registers.
            let mut acc = [V::splat(V::Element::default()); 16];
            let vectors = across / V::LANES;
            for k in 0..vectors {
                acc[k] = V::load(sums.add(k * V::LANES));
            }
            for i in (0..whole).step_by(across) {
                for k in 0..vectors {
                    acc[k] = onto!(acc[k], V::load(x.add(i + k * V::LANES)));
                }
            }
            for k in 0..vectors {
                acc[k].store(sums.add(k * V::LANES));
            }
        }
        let mut i = whole;
        while i + V::LANES <= n {
            let to = sums.add(i - whole);
            onto!(V::load(to), V::load(x.add(i))).store(to);
            i += V::LANES;
        }
        while i < n {
            let to = sums.add(i - whole);
            let mut line = [V::Element::default(); 16];
            onto!(V::splat(*to), V::splat(*x.add(i))).store(line.as_mut_ptr());
            *to = line[0];
            i += 1;
        }
    }
}

/// Folds the lanes of folded sums onto each other, halves onto halves.
pub(super) unsafe fn together(combiner: Combiner, kind: Kind, sums: *mut u8) {
    #[inline(always)]
    unsafe fn halves<S: Wide>(combiner: Combiner, kind: Kind, sums: *mut u8) {
        let mut half = FOLDED / kind.size() / 2;
        while half > 0 {
            // SAFETY: `sums` has [`FOLDED`] bytes, of which both halves are elements.
            unsafe {
                let other = sums.add(half * kind.size()).cast_const();
                combined::<S, false>(combiner, kind, sums, other, half);
            }
            half /= 2;
        }
    }
    // SAFETY: `sums` has [`FOLDED`] bytes.
    unsafe { dispatch!(halves(combiner: Combiner, kind: Kind, sums: *mut u8)) }
}

/// Combines one line of a type into another.
macro_rules! pairs {
    ($fold:ident, $sums:ident, $x:ident, $n:ident: $t:ty, |$a:ident, $v:ident| $value:expr) => {{
        const LANES: usize = FOLDED / size_of::<$t>();
        let (sums, x) = ($sums.cast::<$t>(), $x.cast::<$t>());
        let whole = $n / LANES * LANES;
        let at = |i: usize| if $fold { sums } else { sums.add(i) }.cast::<[$t; LANES]>();
        // All lanes are stored, changed or not: compilers do not vectorise conditional stores.
        let mut lanes = [<$t>::default(); LANES];
        if $fold {
            lanes = at(0).read_unaligned();
        }
        for i in (0..whole).step_by(LANES) {
            if !$fold {
                lanes = at(i).read_unaligned();
            }
            for j in 0..LANES {
                let ($a, $v) = (lanes[j], *x.add(i + j));
                lanes[j] = $value;
            }
            if !$fold {
                at(i).write_unaligned(lanes);
            }
        }
        if $fold {
            at(0).write_unaligned(lanes);
        }
        for i in whole..$n {
            let to = sums.add(if $fold { i - whole } else { i });
            let ($a, $v) = (*to, *x.add(i));
            *to = $value;
        }
    }};
}

#[inline(always)]
#[allow(clippy::needless_range_loop)] // Indices keep the lanes out of memory.
unsafe fn combined<S: Wide, const FOLD: bool>(
    combiner: Combiner,
    kind: Kind,
    sums: *mut u8,
    x: *const u8,
    n: usize,
) {
    // SAFETY: `sums` and `x` have `n` elements of the type, or `sums` what is folded.
    unsafe {
        match (combiner, kind) {
            (Combiner::Sum, Kind::F32) => vectors::<S::F32, SUM, FOLD>(sums, x, n),
            (Combiner::Max, Kind::F32) => vectors::<S::F32, MAX, FOLD>(sums, x, n),
            (Combiner::Min, Kind::F32) => vectors::<S::F32, MIN, FOLD>(sums, x, n),
            (Combiner::Sum, Kind::F64) => vectors::<S::F64, SUM, FOLD>(sums, x, n),
            (Combiner::Max, Kind::F64) => vectors::<S::F64, MAX, FOLD>(sums, x, n),
            (Combiner::Min, Kind::F64) => vectors::<S::F64, MIN, FOLD>(sums, x, n),
            (Combiner::Sum, Kind::I32 | Kind::U32) => vectors::<S::I32, SUM, FOLD>(sums, x, n),
            (Combiner::Max, Kind::I32) => vectors::<S::I32, MAX, FOLD>(sums, x, n),
            (Combiner::Min, Kind::I32) => vectors::<S::I32, MIN, FOLD>(sums, x, n),
            (Combiner::Sum, Kind::I64 | Kind::U64) => vectors::<S::I64, SUM, FOLD>(sums, x, n),
            (Combiner::Max, Kind::I64) => vectors::<S::I64, MAX, FOLD>(sums, x, n),
            (Combiner::Min, Kind::I64) => vectors::<S::I64, MIN, FOLD>(sums, x, n),
            (Combiner::Product, Kind::F32) => pairs!(FOLD, sums, x, n: f32, |a, v| a * v),
            (Combiner::Product, Kind::F64) => pairs!(FOLD, sums, x, n: f64, |a, v| a * v),
            (Combiner::Sum, _) => {
                widths!(kind, T => pairs!(FOLD, sums, x, n: T, |a, v| a.wrapping_add(v)))
            }
            (Combiner::Product, _) => {
                widths!(kind, T => pairs!(FOLD, sums, x, n: T, |a, v| a.wrapping_mul(v)))
            }
            (Combiner::Max, _) => {
                numbers!(kind, T => pairs!(FOLD, sums, x, n: T, |a, v| if a > v { a } else { v }));
            }
            (Combiner::Min, _) => {
                numbers!(kind, T => pairs!(FOLD, sums, x, n: T, |a, v| if a < v { a } else { v }));
            }
            (Combiner::And, _) => widths!(kind, T => pairs!(FOLD, sums, x, n: T, |a, v| a & v)),
            (Combiner::Or, _) => widths!(kind, T => pairs!(FOLD, sums, x, n: T, |a, v| a | v)),
        }
    }
}
