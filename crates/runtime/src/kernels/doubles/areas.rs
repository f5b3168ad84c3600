//! Hyperbolic functions of float64, their inverses, and the error function.

use std::f64::consts::FRAC_2_SQRT_PI;

use crate::kernels::double_parts::{self, exp, exp_near, expm1, log_plus, one_more, poly};
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

/// The error function: up to 0.85 a polynomial, beyond that 1 less its complement, which is
/// `e^(-x²)` by `2x + 1`, times a polynomial of `(x - 3.75) / (x + 3.75)`.
#[inline(always)]
pub(super) fn erf<S: Simd>(x: f64) -> f64 {
    let a = x.abs();
    let far = a > 0.85;
    // From 6 on the result is 1.
    let b = if a < 6.0 { a } else { 6.0 };
    let b = if far { b } else { 0.85 };
    let complement = poly::<S, 16>(
        (b - 3.75) / (b + 3.75),
        [
            -4.777_959_842_078_939e-6,
            -1.505_838_688_708_372e-5,
            2.075_116_477_000_272_8e-5,
            5.151_612_771_114_368e-5,
            -2.899_602_520_852_559e-4,
            2.937_854_556_899_235e-4,
            1.755_625_129_613_531_3e-3,
            -9.746_584_305_568_226e-3,
            2.836_227_686_943_131_4e-2,
            -5.869_339_846_994_239e-2,
            9.230_432_118_212_872e-2,
            -1.088_039_301_429_065_4e-1,
            8.227_673_848_986_307e-2,
            3.585_415_485_467_424_7e-3,
            -1.402_405_985_855_46e-1,
            1.237_512_630_837_827_5,
        ],
    ) / (2.0 * b + 1.0)
        * exp::<S>(-b * b);
    let z = if far { 0.0 } else { a * a };
    let near = poly::<S, 12>(
        z,
        [
            -8.837_207_342_831_387e-10,
            1.418_958_429_413_366_1e-8,
            -1.630_049_599_806_481e-7,
            1.645_767_649_621_403_3e-6,
            -1.492_545_009_091_294e-5,
            1.205_532_693_205_465_5e-4,
            -8.548_326_902_886_471e-4,
            5.223_977_623_916_789e-3,
            -2.686_617_064_501_726e-2,
            1.128_379_167_095_468_5e-1,
            -3.761_263_890_318_375e-1,
            FRAC_2_SQRT_PI,
        ],
    );
    (if far { 1.0 - complement } else { a * near }).copysign(x)
}
