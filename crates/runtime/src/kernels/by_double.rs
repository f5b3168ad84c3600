//! Functions of float32 by way of float64, whose polynomials leave more than float32 keeps: within 1 unit in the last
//! place. Plain loops without branches, which become vectors of every instruction set.

use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, LN_2, LOG2_E, LOG10_E};

use super::math::Math;
use super::simd::{Simd, dispatch};

/// `2^t` for `t` in -1000 to 1000.
#[inline(always)]
fn exp2(t: f64) -> f64 {
    const FACTORIALS: [f64; 11] = [
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ];
    // Adding this rounds to an integer, which stands in the lower bits.
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    let shifted = t + SHIFT;
    let n = shifted - SHIFT;
    let u = (t - n) * LN_2;
    let mut p = FACTORIALS[0];
    for c in &FACTORIALS[1..] {
        p = p * u + c;
    }
    let power = shifted.to_bits().wrapping_add(1023) << 52;
    p * f64::from_bits(power)
}

/// The logarithm to the base 2 of a positive normal number.
#[inline(always)]
fn log2(x: f64) -> f64 {
    let bits = x.to_bits();
    // The mantissa is brought between the roots of 1/2 and 2.
    let shifted = bits.wrapping_sub(0x3fe6_a09e_667f_3bcd);
    let m = f64::from_bits(bits.wrapping_sub(shifted & 0xfff0_0000_0000_0000));
    // The exponent as a number without a conversion of 64 bits.
    let e = ((shifted as i64 >> 52) as i32) as f64;
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let mut p = 1.0 / 17.0;
    for k in [15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        p = p * z + 1.0 / k;
    }
    e + p * s * (2.0 * LOG2_E)
}

#[inline(always)]
fn exp(x: f64) -> f64 {
    exp2((x * LOG2_E).clamp(-1000.0, 1000.0))
}

#[inline(always)]
fn atan(x: f64) -> f64 {
    // Beyond the tangents of a sixteenth turn and of three, the angle from an eighth turn or a quarter on.
    let a = x.abs();
    let far = a > 2.414_213_562_373_095;
    let middle = a > 0.414_213_562_373_095_03;
    let top = if far { -1.0 } else { a - 1.0 };
    let below = if far { a } else { a + 1.0 };
    let t = if middle { top / below } else { a };
    let z = t * t;
    let mut p = 1.0 / 25.0;
    for k in [
        -23.0, 21.0, -19.0, 17.0, -15.0, 13.0, -11.0, 9.0, -7.0, 5.0, -3.0, 1.0,
    ] {
        p = p * z + 1.0 / k;
    }
    let base = if far { FRAC_PI_2 } else { FRAC_PI_4 };
    let y = p * t + if middle { base } else { 0.0 };
    y.copysign(x)
}

#[inline(always)]
fn pow(x: f32, y: f32) -> f32 {
    let (a, t) = (f64::from(x.abs()), f64::from(y));
    let e = t * log2(if a > 0.0 && a < f64::INFINITY { a } else { 1.0 });
    let e = if e > 200.0 { 200.0 } else { e };
    let e = if e < -200.0 { -200.0 } else { e };
    let r = exp2(e);
    // Roots and poles.
    let up = y > 0.0;
    let r = if a == 0.0 {
        if up { 0.0 } else { f64::INFINITY }
    } else {
        r
    };
    let r = if a == f64::INFINITY {
        if up { f64::INFINITY } else { 0.0 }
    } else {
        r
    };
    let huge = y.abs() >= 16_777_216.0;
    let whole = huge || y.trunc() == y;
    let half = y * 0.5;
    let odd = !huge && whole && half.trunc() != half;
    let negative = x.is_sign_negative();
    let r = if negative && odd { -r } else { r };
    let r = if negative && !whole && a > 0.0 && a < f64::INFINITY {
        f64::NAN
    } else {
        r
    };
    #[allow(clippy::eq_op)] // Only a NaN is not itself.
    let r = if x != x || y != y { f64::NAN } else { r };
    let r = if y == 0.0 || x == 1.0 || (a == 1.0 && t.abs() == f64::INFINITY) {
        1.0
    } else {
        r
    };
    if y == 2.0 { x * x } else { r as f32 }
}

/// What a function of one number is by float64; `None` for those that have no form here.
macro_rules! forms {
    ($($math:ident: |$x:ident| $value:expr;)*) => {
        /// Whether a function is computed here.
        pub(super) fn knows(math: Math) -> bool {
            matches!(math, Math::Pow $(| Math::$math)*)
        }
        #[inline(always)]
        #[allow(clippy::extra_unused_type_parameters)] // The instruction set that it is compiled for.
        unsafe fn strip<S: Simd>(math: Math, n: usize, x: *const f32, y: *const f32, z: *mut f32) {
            // SAFETY: the callers' promise: all have `n` elements.
            unsafe {
                match math {
                    $(Math::$math => {
                        for i in 0..n {
                            let given = *x.add(i);
                            let $x = f64::from(given);
                            let value: f64 = $value;
                            #[allow(clippy::eq_op)] // A NaN stays the NaN that it is.
                            let value = if given != given { given } else { value as f32 };
                            *z.add(i) = value;
                        }
                    })*
                    _ => {
                        for i in 0..n {
                            *z.add(i) = pow(*x.add(i), *y.add(i));
                        }
                    }
                }
            }
        }
    };
}

/// The logarithm of any float32.
#[inline(always)]
fn any_log2(x: f64) -> f64 {
    let y = log2(if x > 0.0 && x < f64::INFINITY { x } else { 1.0 });
    let y = if x == 0.0 { f64::NEG_INFINITY } else { y };
    let y = if x < 0.0 { f64::NAN } else { y };
    if x == f64::INFINITY { x } else { y }
}

forms! {
    Log2: |x| any_log2(x);
    Log10: |x| any_log2(x) * (LN_2 * LOG10_E);
    Sinh: |x| {
        let e = exp(x.abs());
        let large = ((e - 1.0 / e) * 0.5).copysign(x);
        if x.abs() < 1e-3 { x + x * x * x * (1.0 / 6.0) } else { large }
    };
    Cosh: |x| {
        let e = exp(x.abs());
        (e + 1.0 / e) * 0.5
    };
    Atan: |x| atan(x);
    Asin: |x| {
        let y = atan(x / (1.0 - x * x).sqrt());
        if x.abs() > 1.0 { f64::NAN } else { y }
    };
    Acos: |x| {
        let y = FRAC_PI_2 - atan(x / (1.0 - x * x).sqrt());
        if x.abs() > 1.0 { f64::NAN } else { y }
    };
    Asinh: |x| {
        let a = x.abs();
        let large = any_log2(a + (a * a + 1.0).sqrt()) * LN_2;
        if a < 1e-3 { x - x * x * x * (1.0 / 6.0) } else { large.copysign(x) }
    };
    Acosh: |x| {
        let y = any_log2(x + (x * x - 1.0).sqrt()) * LN_2;
        if x < 1.0 { f64::NAN } else { y }
    };
    Atanh: |x| {
        let y = any_log2((1.0 + x) / (1.0 - x)) * (0.5 * LN_2);
        let y = if x.abs() < 1e-3 { x + x * x * x * (1.0 / 3.0) } else { y };
        let y = if x.abs() == 1.0 { f64::INFINITY.copysign(x) } else { y };
        if x.abs() > 1.0 { f64::NAN } else { y }
    };
}

/// # Safety
/// All have `n` elements; `z` is `x`, `y` or overlaps neither.
pub(super) unsafe fn run(math: Math, n: usize, x: *const f32, y: *const f32, z: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe {
        dispatch!(strip(math: Math, n: usize, x: *const f32, y: *const f32, z: *mut f32));
    }
}
