//! Powers and remainders of float64.

use crate::kernels::double_parts::{
    LN2_HI, LN2_LO, ends_of_power, exp_of, fma, is_plain, poly, split, split_any,
};
use crate::kernels::pieces::PIECE;
use crate::kernels::simd::Simd;
use crate::kernels::vmath::power;
use std::ops::{Div, Mul};

/// The logarithm of a number, given by its exponent and mantissa, as a sum of two numbers, to about
/// 65 bits.
#[inline(always)]
fn long_log<S: Simd>((e, m): (f64, f64)) -> (f64, f64) {
    let f = m - 1.0;
    let below = 2.0 + f;
    let lost = f - (below - 2.0);
    let inverse = 1.0 / below;
    let u = f * inverse;
    let u_low = (fma::<S>(-u, below, f) - u * lost) * inverse;
    let z = u * u;
    let z_low = fma::<S>(u, u, -z) + 2.0 * u * u_low;
    // 2/3 u³ in two parts, the others in one.
    let third = 2.0 / 3.0;
    let t = third * z;
    let t_low = fma::<S>(third, z, -t) + third * z_low + 3.700_743_415_417_188e-17 * z;
    let more = poly::<S, 9>(
        z,
        [
            2.0 / 21.0,
            2.0 / 19.0,
            2.0 / 17.0,
            2.0 / 15.0,
            2.0 / 13.0,
            2.0 / 11.0,
            2.0 / 9.0,
            2.0 / 7.0,
            0.4,
        ],
    ) * z
        * z;
    let c = t * u;
    let c_low = fma::<S>(t, u, -c) + t * u_low + (t_low + more) * u;
    // The sum, starting with the greatest term.
    let high = e * LN2_HI;
    let sum = high + 2.0 * u;
    let sum_low = {
        let back = sum - high;
        (high - (sum - back)) + (2.0 * u - back)
    };
    let all = sum + c;
    let all_low = {
        let back = all - sum;
        (sum - (all - back)) + (c - back)
    };
    (all, all_low + sum_low + (c_low + 2.0 * u_low + e * LN2_LO))
}

/// A greater exponent than that of any power which is neither 0 nor infinite, but of 1.
const FARTHEST: f64 = 1e20;

/// The logarithm of the power `t` of a number, given by its exponent and mantissa, as a sum of two
/// numbers.
#[inline(always)]
fn log_of_power<S: Simd>(parts: (f64, f64), t: f64) -> (f64, f64) {
    let (high, low) = long_log::<S>(parts);
    let e = t * high;
    let rest = fma::<S>(t, high, -e) + t * low;
    (e, if e.abs() < 800.0 { rest } else { 0.0 })
}

/// The power of a number, given by its exponent and mantissa.
#[inline(always)]
fn of_parts<S: Simd>(parts: (f64, f64), t: f64) -> f64 {
    let (e, rest) = log_of_power::<S>(parts, t);
    exp_of::<S>(e, rest)
}

/// Returns whether [`plain_pow`] holds of two numbers.
#[inline(always)]
pub(super) fn usual(x: f64, y: f64) -> bool {
    is_plain(x) && y.abs() < FARTHEST
}

/// Powers of positive normal numbers: in two loops, each of which waits less for its operations.
#[inline(always)]
pub(super) fn plain_pow<S: Simd>(x: &[f64], y: &[f64], z: &mut [f64]) {
    let n = z.len();
    let mut rests = [0.0; PIECE];
    for i in 0..n {
        (z[i], rests[i]) = log_of_power::<S>(split(x[i]), y[i]);
    }
    for i in 0..n {
        let r = exp_of::<S>(z[i], rests[i]);
        let r = if x[i] == 1.0 { 1.0 } else { r };
        z[i] = if y[i] == 2.0 { x[i] * x[i] } else { r };
    }
}

#[inline(always)]
pub(super) fn pow<S: Simd>(x: f64, y: f64) -> f64 {
    let a = x.abs();
    let inside = a > 0.0 && a < f64::INFINITY;
    let parts = split_any(if inside { a } else { 1.0 });
    // Beyond this, every power except that of 1 is 0 or infinite, and products of parts would be
    // NaN.
    let t = if y > FARTHEST { FARTHEST } else { y };
    let t = if t < -FARTHEST { -FARTHEST } else { t };
    let r = of_parts::<S>(parts, t);
    ends_of_power(x, y, r)
}

/// A power whose exponent is so many quarters, as `vmath` has it for float32.
#[inline(always)]
pub(super) fn root(x: f64, quarters: i32) -> f64 {
    let a = if x == f64::NEG_INFINITY {
        f64::INFINITY
    } else {
        x + 0.0
    };
    let one = 1.0f64;
    power!(quarters, x, a, one)
}

/// Returns whether [`fmod`] holds of two numbers: their quotient rounds to a whole number that it
/// is not at most from below.
#[inline(always)]
pub(super) fn divides(x: f64, y: f64) -> bool {
    x.abs() < y.abs() * 1_125_899_906_842_624.0 && y.abs() < f64::INFINITY
}

/// The remainder of a division whose quotient has no more than 50 bits, with the sign of `x`.
#[inline(always)]
pub(super) fn fmod<S: Simd>(x: f64, y: f64) -> f64 {
    // One too many where the quotient was rounded up to a whole number; the rest is exact.
    let rest = fma::<S>(-(x / y).trunc(), y, x);
    let crossed = rest != 0.0 && (rest < 0.0) != (x < 0.0);
    let rest = if crossed { rest + y.copysign(x) } else { rest };
    rest.copysign(x)
}
