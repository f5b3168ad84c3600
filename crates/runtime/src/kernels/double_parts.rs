//! What functions of float64 are made of: exponentials and logarithms, by range reductions and
//! polynomials.

use std::f64::consts::LOG2_E;

use crate::kernels::simd::Simd;

/// Adding this rounds to an integer, which is in the low bits.
pub(super) const SHIFT: f64 = 6_755_399_441_055_744.0;
/// ln 2 in two parts, the first short enough that its products with exponents are exact.
pub(super) const LN2_HI: f64 = 6.931_471_803_691_238e-1;
pub(super) const LN2_LO: f64 = 1.908_214_929_270_587_7e-10;
/// The base-10 logarithm of 2, likewise.
pub(super) const LOG10_2_HI: f64 = 3.010_299_956_636_117_7e-1;
pub(super) const LOG10_2_LO: f64 = 3.694_239_077_158_931e-13;
/// Exponentials of magnitudes below this are normal numbers.
pub(super) const NORMAL: f64 = 708.0;
/// `a * b + c`, rounded once where the processor can.
#[inline(always)]
pub(super) fn fma<S: Simd>(a: f64, b: f64, c: f64) -> f64 {
    if S::FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// A polynomial whose coefficients begin with that of the greatest power. Even and odd powers are two
/// sums, which do not wait for each other: vectors of float64 are as many as what waits allows.
#[inline(always)]
pub(super) fn poly<S: Simd, const N: usize>(x: f64, coefficients: [f64; N]) -> f64 {
    const { assert!(N > 2) };
    let square = x * x;
    let [mut sum, mut beside] = [coefficients[0], coefficients[1]];
    let mut k = 2;
    while k < N {
        sum = fma::<S>(sum, square, coefficients[k]);
        if k + 1 < N {
            beside = fma::<S>(beside, square, coefficients[k + 1]);
        }
        k += 2;
    }
    // The last coefficient, which no power is with, is in the sum that ends the other.
    match N % 2 {
        0 => fma::<S>(sum, x, beside),
        _ => fma::<S>(beside, x, sum),
    }
}

/// `2^n` for an integer `n` to which [`SHIFT`] was added, -1022 ≤ n ≤ 1023.
#[inline(always)]
pub(super) fn power_of_two(shifted: f64) -> f64 {
    f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52)
}

/// `n`, [`SHIFT`] added, and `r` with `x = n ln 2 + r`.
#[inline(always)]
fn reduced<S: Simd>(x: f64) -> (f64, f64) {
    let shifted = fma::<S>(x, LOG2_E, SHIFT);
    let n = shifted - SHIFT;
    let r = fma::<S>(n, -LN2_HI, x);
    (shifted, fma::<S>(n, -LN2_LO, r))
}

/// `e^r - 1` for `r` in ±ln 2 / 2: `r`, and its square by a polynomial whose error is below 2^-55 of
/// the result.
#[inline(always)]
fn exp_less_one<S: Simd>(r: f64) -> f64 {
    let p = poly::<S, 10>(
        r,
        [
            2.511_444_949_660_549e-8,
            2.762_621_183_214_806_3e-7,
            2.755_722_809_032_296_3e-6,
            2.480_150_478_265_999e-5,
            1.984_126_990_276_509_2e-4,
            1.388_888_893_203_787_9e-3,
            8.333_333_333_314_808e-3,
            4.166_666_666_657_498e-2,
            0.166_666_666_666_666_85,
            0.500_000_000_000_000_6,
        ],
    );
    fma::<S>(p, r * r, r)
}

/// `e^(x + low)`, where `low` is small.
#[inline(always)]
pub(super) fn exp_of<S: Simd>(x: f64, low: f64) -> f64 {
    let x = if x > 710.0 { 710.0 } else { x };
    let x = if x < -746.0 { -746.0 } else { x };
    let (shifted, r) = reduced::<S>(x);
    let (n, r) = (shifted - SHIFT, r + low);
    // In two steps: a power beyond the range may have a result within it.
    let half = n * 0.5 + SHIFT;
    let rest = n - (half - SHIFT) + SHIFT;
    (1.0 + exp_less_one::<S>(r)) * power_of_two(half) * power_of_two(rest)
}

#[inline(always)]
pub(super) fn exp<S: Simd>(x: f64) -> f64 {
    exp_of::<S>(x, 0.0)
}

/// The same for magnitudes below [`NORMAL`], whose results are normal numbers.
#[inline(always)]
pub(super) fn exp_near<S: Simd>(x: f64) -> f64 {
    let (shifted, r) = reduced::<S>(x);
    (1.0 + exp_less_one::<S>(r)) * power_of_two(shifted)
}

/// `e^x - 1` for `x` in -700 to 709.
#[inline(always)]
pub(super) fn expm1<S: Simd>(x: f64) -> f64 {
    let (shifted, r) = reduced::<S>(x);
    let p = exp_less_one::<S>(r);
    let power = power_of_two(shifted);
    fma::<S>(power, p, power - 1.0)
}

/// The exponent and the mantissa of a positive normal number, the latter between the roots of 1/2
/// and 2.
#[inline(always)]
pub(super) fn split(x: f64) -> (f64, f64) {
    let bits = x.to_bits();
    let shifted = bits.wrapping_sub(0x3fe6_a09e_667f_3bcd);
    let m = f64::from_bits(bits.wrapping_sub(shifted & 0xfff0_0000_0000_0000));
    // The exponent plus 2048 as the low bits of 2^52, which avoids a 64-bit conversion.
    let e = (shifted ^ (1 << 63)) >> 52 | 0x4330_0000_0000_0000;
    (f64::from_bits(e) - (4_503_599_627_370_496.0 + 2048.0), m)
}

/// The same of any positive number.
#[inline(always)]
pub(super) fn split_any(x: f64) -> (f64, f64) {
    let tiny = x < f64::MIN_POSITIVE;
    let (e, m) = split(if tiny {
        x * 18_014_398_509_481_984.0
    } else {
        x
    });
    (if tiny { e - 54.0 } else { e }, m)
}

/// Returns the series of the logarithm of `(1 + u) / (1 - u)`, divided by `u`, after the term 2, as
/// a function of `u²`.
#[inline(always)]
pub(super) fn log_tail<S: Simd>(z: f64) -> f64 {
    poly::<S, 7>(
        z,
        [
            1.479_819_860_511_658_6e-1,
            1.531_383_769_920_937_3e-1,
            1.818_357_216_161_805e-1,
            2.222_219_843_214_978_4e-1,
            2.857_142_874_366_239e-1,
            3.999_999_999_940_942e-1,
            6.666_666_666_666_735e-1,
        ],
    ) * z
}

/// The natural logarithm of a mantissa as a difference of two numbers.
#[inline(always)]
fn log_mantissa<S: Simd>(m: f64) -> (f64, f64) {
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let half = 0.5 * f * f;
    (f, half - s * (half + log_tail::<S>(s * s)))
}

/// The natural logarithm of a positive normal number plus `rest`, which is small beside it, and
/// `twos` times that of 2.
#[inline(always)]
pub(super) fn log_plus<S: Simd>(x: f64, rest: f64, twos: f64) -> f64 {
    let (e, m) = split(x);
    let (f, tail) = log_mantissa::<S>(m);
    let e = e + twos;
    let low = fma::<S>(e, -LN2_LO, tail) - rest;
    fma::<S>(e, LN2_HI, f - low)
}

/// `ln(1 + x)` for numbers above -1.
#[inline(always)]
pub(super) fn log1p<S: Simd>(x: f64) -> f64 {
    let (whole, rest) = one_more(x);
    log_plus::<S>(whole, rest, 0.0)
}

/// `1 + x`, and what its logarithm lacks for the rounding: what the sum lost by the sum, about. Beside
/// the logarithm of a larger number it is less than half of the last place.
#[inline(always)]
pub(super) fn one_more(x: f64) -> (f64, f64) {
    let whole = 1.0 + x;
    let back = whole - 1.0;
    let lost = (1.0 - (whole - back)) + (x - back);
    (whole, if x < 2.0 { lost * (1.0 - 0.5 * x) } else { 0.0 })
}

/// Returns whether [`log_ends`] has nothing to do, and the number is normal.
#[inline(always)]
pub(super) fn is_plain(x: f64) -> bool {
    (f64::MIN_POSITIVE..f64::INFINITY).contains(&x)
}

/// Returns `y`, a logarithm of `x`, or its special value for 0, negative numbers, infinity and what
/// is no number.
#[inline(always)]
pub(super) fn log_ends(x: f64, y: f64) -> f64 {
    let y = if x == 0.0 { f64::NEG_INFINITY } else { y };
    let y = if x < 0.0 { f64::NAN } else { y };
    // A NaN stays the one that it is.
    if x < f64::INFINITY { y } else { x }
}

/// The logarithm of a positive number to another base: the exponent times `whole` (whose first part
/// is short) plus the mantissa's times `part`. With `PLAIN` the number is normal.
#[inline(always)]
pub(super) fn log_of_base<S: Simd, const PLAIN: bool>(
    x: f64,
    (whole, whole_low, part): (f64, f64, f64),
) -> f64 {
    let (e, m) = if PLAIN { split(x) } else { split_any(x) };
    let (f, tail) = log_mantissa::<S>(m);
    let mantissa = fma::<S>(f - tail, part, e * whole_low);
    fma::<S>(e, whole, mantissa)
}

/// Returns `r`, the power `|x|^y` of a positive finite number, or its value for 0, infinity, negative
/// numbers and what is no number.
#[inline(always)]
pub(super) fn ends_of_power(x: f64, y: f64, r: f64) -> f64 {
    let a = x.abs();
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
    let huge = y.abs() >= 9_007_199_254_740_992.0;
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
    let one = y == 0.0 || x == 1.0 || (a == 1.0 && y.abs() == f64::INFINITY);
    let r = if one { 1.0 } else { r };
    if y == 2.0 { x * x } else { r }
}
