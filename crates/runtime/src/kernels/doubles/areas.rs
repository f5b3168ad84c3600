//! Hyperbolic functions of float64, their inverses, and the error function.

use std::f64::consts::FRAC_2_SQRT_PI;

use crate::kernels::double_parts::{self, exp, exp_near, expm1, fma, log_plus, one_more, poly};
use crate::kernels::simd::Simd;

/// From here on 1 is nothing beside a square.
const LARGE: f64 = 268_435_456.0;

#[inline(always)]
pub(super) fn tanh<S: Simd>(x: f64) -> f64 {
    let a = x.abs();
    let t = expm1::<S>(2.0 * if a < 22.0 { a } else { 22.0 });
    (t / (t + 2.0)).copysign(x)
}

/// The hyperbolic sine below 22.
#[inline(always)]
pub(super) fn near_sinh<S: Simd>(x: f64) -> f64 {
    let t = expm1::<S>(x.abs());
    (0.5 * (t + t / (t + 1.0))).copysign(x)
}

#[inline(always)]
pub(super) fn sinh<S: Simd>(x: f64) -> f64 {
    let a = x.abs();
    let near = near_sinh::<S>(if a < 22.0 { x } else { 22.0 });
    let e = exp::<S>(0.5 * a);
    if a < 22.0 {
        near
    } else {
        (0.5 * e * e).copysign(x)
    }
}

/// The hyperbolic cosine below 22.
#[inline(always)]
pub(super) fn near_cosh<S: Simd>(x: f64) -> f64 {
    let e = exp_near::<S>(x.abs());
    0.5 * (e + 1.0 / e)
}

#[inline(always)]
pub(super) fn cosh<S: Simd>(x: f64) -> f64 {
    let a = x.abs();
    let near = near_cosh::<S>(if a < 22.0 { a } else { 22.0 });
    let e = exp::<S>(0.5 * a);
    if a < 22.0 { near } else { 0.5 * e * e }
}

#[inline(always)]
pub(super) fn sigmoid<S: Simd>(x: f64) -> f64 {
    let e = exp::<S>(-x.abs());
    (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
}

/// A number that a function is the logarithm of: as it was rounded, what is missing to it by itself,
/// and a number of twos.
pub(super) type Sum = (f64, f64, f64);

/// That of `ln(1 + t)`, or for a large number `a` of `ln 2a`.
#[inline(always)]
fn sum_of(a: f64, t: f64, large: bool) -> Sum {
    let (whole, rest) = one_more(t);
    if large {
        (a, 0.0, 1.0)
    } else {
        (whole, rest, 0.0)
    }
}

#[inline(always)]
pub(super) fn asinh_sum(x: f64) -> Sum {
    let a = x.abs();
    let large = a > LARGE;
    let near = if large { 1.0 } else { a };
    let square = near * near;
    sum_of(a, near + square / (1.0 + (square + 1.0).sqrt()), large)
}

/// The function, by the logarithm of its sum.
#[inline(always)]
pub(super) fn asinh_of(x: f64, y: f64) -> f64 {
    let a = x.abs();
    (if a == f64::INFINITY { a } else { y }).copysign(x)
}

#[inline(always)]
pub(super) fn acosh_sum(x: f64) -> Sum {
    let large = x > LARGE;
    let t = if large { 1.0 } else { x } - 1.0;
    sum_of(x, t + (t * (t + 2.0)).sqrt(), large)
}

/// See [`asinh_of`].
#[inline(always)]
pub(super) fn acosh_of(x: f64, y: f64) -> f64 {
    let y = if x == f64::INFINITY { x } else { y };
    if x < 1.0 { f64::NAN } else { y }
}

#[inline(always)]
pub(super) fn atanh_sum(x: f64) -> Sum {
    let a = x.abs();
    sum_of(a, 2.0 * a / (1.0 - a), false)
}

/// See [`asinh_of`].
#[inline(always)]
pub(super) fn atanh_of(x: f64, y: f64) -> f64 {
    let a = x.abs();
    let y = if a == 1.0 { f64::INFINITY } else { 0.5 * y };
    let y = if a > 1.0 { f64::NAN } else { y };
    y.copysign(x)
}

/// The natural logarithm of a sum.
#[inline(always)]
pub(super) fn log_of<S: Simd>((whole, rest, twos): Sum) -> f64 {
    log_plus::<S>(whole, rest, twos)
}

#[inline(always)]
pub(super) fn log1p<S: Simd>(x: f64) -> f64 {
    let y = double_parts::log1p::<S>(x);
    let y = if x == -1.0 { f64::NEG_INFINITY } else { y };
    let y = if x < -1.0 { f64::NAN } else { y };
    if x == f64::INFINITY || x == 0.0 { x } else { y }
}

/// `e^x - 1` for magnitudes below 700.
#[inline(always)]
pub(super) fn near_expm1<S: Simd>(x: f64) -> f64 {
    let y = expm1::<S>(x);
    if x == 0.0 { x } else { y }
}

/// `e^x - 1` of any number.
#[inline(always)]
pub(super) fn any_expm1<S: Simd>(x: f64) -> f64 {
    let near = if x < -700.0 { -700.0 } else { x };
    let near = if near > 709.0 { 709.0 } else { near };
    let y = if x > 709.0 {
        exp::<S>(x)
    } else {
        expm1::<S>(near)
    };
    if x == 0.0 { x } else { y }
}

/// The error function: up to 0.65 a polynomial, beyond that 1 less its complement, which is `e^(-x²)`
/// by a polynomial of `1 / (x + 2.5)`. Its coefficients are those of the least error of the result,
/// below 2^-56 of it.
#[inline(always)]
pub(super) fn erf<S: Simd>(x: f64) -> f64 {
    let a = x.abs();
    let far = a > 0.65;
    // From 6 on the result is 1.
    let b = if a < 6.0 { a } else { 6.0 };
    let b = if far { b } else { 0.65 };
    let inverse = 1.0 / (b + 2.5);
    let complement = poly::<S, 13>(
        // Between -1 and 1.
        fma::<S>(inverse, 10.009, -2.178),
        [
            -1.623_566_106_309_747_6e-9,
            2.393_014_949_427_657e-8,
            -9.056_026_164_193_656e-8,
            -2.802_821_901_613_614_4e-7,
            2.404_023_022_214_474_7e-6,
            7.056_150_538_061_53e-6,
            -6.838_626_852_991_75e-5,
            -3.372_377_082_295_490_6e-4,
            1.502_154_313_004_151_6e-3,
            2.250_442_186_893_935e-2,
            0.124_873_125_025_153_88,
            0.443_907_823_348_266_3,
            1.128_493_117_504_313_6,
        ],
    ) * inverse
        * exp_near::<S>(-b * b);
    let z = if far { 0.0 } else { a * a };
    let near = poly::<S, 10>(
        z,
        [
            -1.352_583_357_642_791e-7,
            1.621_491_774_535_503_6e-6,
            -1.491_352_865_927_342_4e-5,
            1.205_497_112_665_925e-4,
            -8.548_320_310_991_54e-4,
            5.223_977_549_435_492e-3,
            -2.686_617_064_017_746e-2,
            0.112_837_916_709_386_98,
            -0.376_126_389_031_835_43,
            FRAC_2_SQRT_PI,
        ],
    );
    (if far { 1.0 - complement } else { a * near }).copysign(x)
}
