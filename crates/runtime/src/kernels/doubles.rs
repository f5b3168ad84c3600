//! Functions of float64 over strips: range reductions and polynomials whose error is within 2 units
//! in the last place. Plain loops without branches, which become vectors where the instruction set
//! multiplies and adds in one step; what rests on products without rounding (sine, power, remainder) is left
//! to the scalar functions elsewhere.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2, FRAC_PI_4, LOG2_E, LOG10_E};
use std::ops::{Div, Mul};

use super::math::{Math, rx_math_f64};
use super::simd::{Simd, dispatch};
use super::vmath::{power, quarters};

/// Elements processed at a time in local memory, since the result may alias an operand.
const PIECE: usize = 64;
/// Adding this rounds to an integer, which is in the low bits.
const SHIFT: f64 = 6_755_399_441_055_744.0;
/// ln 2 in two parts, the first short enough that its products with exponents are exact.
const LN2_HI: f64 = 6.931_471_803_691_238e-1;
const LN2_LO: f64 = 1.908_214_929_270_587_7e-10;
/// The base-10 logarithm of 2, likewise.
const LOG10_2_HI: f64 = 3.010_299_956_636_117_7e-1;
const LOG10_2_LO: f64 = 3.694_239_077_158_931e-13;
/// Exponentials of magnitudes below this are normal numbers.
const NORMAL: f64 = 708.0;
/// Sines of larger magnitudes are left to the scalar function.
const FAR: f64 = 1_048_576.0;

/// `a * b + c`, rounded once where the processor can.
#[inline(always)]
fn fma<S: Simd>(a: f64, b: f64, c: f64) -> f64 {
    if S::FUSED { a.mul_add(b, c) } else { a * b + c }
}

#[inline(always)]
fn poly<S: Simd, const N: usize>(x: f64, coefficients: [f64; N]) -> f64 {
    let mut sum = coefficients[0];
    let mut k = 1;
    while k < N {
        sum = fma::<S>(sum, x, coefficients[k]);
        k += 1;
    }
    sum
}

/// `2^n` for an integer `n` to which [`SHIFT`] was added, -1022 ≤ n ≤ 1023.
#[inline(always)]
fn power_of_two(shifted: f64) -> f64 {
    f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52)
}

/// `n` and `r` with `x + low = n ln 2 + r`.
#[inline(always)]
fn reduced<S: Simd>(x: f64, low: f64) -> (f64, f64) {
    let n = x * LOG2_E + SHIFT - SHIFT;
    let r = fma::<S>(n, -LN2_HI, x);
    (n, fma::<S>(n, -LN2_LO, r + low))
}

/// `e^r - 1` for `r` in ±ln 2 / 2.
#[inline(always)]
fn exp_less_one<S: Simd>(r: f64) -> f64 {
    let p = poly::<S, 12>(
        r,
        [
            1.0 / 6_227_020_800.0,
            1.0 / 479_001_600.0,
            1.0 / 39_916_800.0,
            1.0 / 3_628_800.0,
            1.0 / 362_880.0,
            1.0 / 40_320.0,
            1.0 / 5_040.0,
            1.0 / 720.0,
            1.0 / 120.0,
            1.0 / 24.0,
            1.0 / 6.0,
            0.5,
        ],
    );
    fma::<S>(p, r * r, r)
}

/// `e^(x + low)`, where `low` is small.
#[inline(always)]
fn exp_of<S: Simd>(x: f64, low: f64) -> f64 {
    let x = if x > 710.0 { 710.0 } else { x };
    let x = if x < -746.0 { -746.0 } else { x };
    let (n, r) = reduced::<S>(x, low);
    // In two steps: a power beyond the range may have a result within it.
    let half = n * 0.5 + SHIFT;
    let rest = n - (half - SHIFT) + SHIFT;
    (1.0 + exp_less_one::<S>(r)) * power_of_two(half) * power_of_two(rest)
}

#[inline(always)]
fn exp<S: Simd>(x: f64) -> f64 {
    exp_of::<S>(x, 0.0)
}

/// The same for magnitudes below [`NORMAL`], whose results are normal numbers.
#[inline(always)]
fn exp_near<S: Simd>(x: f64) -> f64 {
    let (n, r) = reduced::<S>(x, 0.0);
    (1.0 + exp_less_one::<S>(r)) * power_of_two(n + SHIFT)
}

/// `e^x - 1` for `x` in -700 to 709.
#[inline(always)]
fn expm1<S: Simd>(x: f64) -> f64 {
    let (n, r) = reduced::<S>(x, 0.0);
    let p = exp_less_one::<S>(r);
    let power = power_of_two(n + SHIFT);
    fma::<S>(power, p, power - 1.0)
}

/// The exponent and the mantissa of a positive number, the latter between the roots of 1/2 and 2.
#[inline(always)]
fn split(x: f64) -> (f64, f64) {
    let tiny = x < f64::MIN_POSITIVE;
    let scaled = if tiny {
        x * 18_014_398_509_481_984.0
    } else {
        x
    };
    let bits = scaled.to_bits();
    let shifted = bits.wrapping_sub(0x3fe6_a09e_667f_3bcd);
    let m = f64::from_bits(bits.wrapping_sub(shifted & 0xfff0_0000_0000_0000));
    // The exponent plus 2048 as the low bits of 2^52, which avoids a 64-bit conversion.
    let e = (shifted ^ (1 << 63)) >> 52 | 0x4330_0000_0000_0000;
    let e = f64::from_bits(e) - (4_503_599_627_370_496.0 + 2048.0);
    (if tiny { e - 54.0 } else { e }, m)
}

/// Returns the series of the logarithm of `(1 + u) / (1 - u)`, divided by `u`, after the term 2, as
/// a function of `u²`.
#[inline(always)]
fn log_tail<S: Simd>(z: f64) -> f64 {
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

/// The exponent, and the natural logarithm of the mantissa as a difference of two numbers.
#[inline(always)]
fn log_parts<S: Simd>(x: f64) -> (f64, f64, f64) {
    let (e, m) = split(x);
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let half = 0.5 * f * f;
    (e, f, half - s * (half + log_tail::<S>(s * s)))
}

/// Returns `y`, a logarithm of `x`, or its special value for 0, negative numbers and infinity.
#[inline(always)]
fn log_ends(x: f64, y: f64) -> f64 {
    let y = if x == 0.0 { f64::NEG_INFINITY } else { y };
    let y = if x < 0.0 { f64::NAN } else { y };
    if x == f64::INFINITY { x } else { y }
}

#[inline(always)]
fn log<S: Simd>(x: f64) -> f64 {
    let (e, f, tail) = log_parts::<S>(x);
    log_ends(x, fma::<S>(e, LN2_HI, f - fma::<S>(e, -LN2_LO, tail)))
}

#[inline(always)]
fn tanh<S: Simd>(x: f64) -> f64 {
    let a = x.abs();
    let t = expm1::<S>(2.0 * if a < 22.0 { a } else { 22.0 });
    (t / (t + 2.0)).copysign(x)
}

#[inline(always)]
fn sinh<S: Simd>(x: f64) -> f64 {
    let a = x.abs();
    let t = expm1::<S>(if a < 700.0 { a } else { 700.0 });
    let near = 0.5 * (t + t / (t + 1.0));
    let e = exp::<S>(0.5 * a);
    (if a < 22.0 { near } else { 0.5 * e * e }).copysign(x)
}

#[inline(always)]
fn cosh<S: Simd>(x: f64) -> f64 {
    let a = x.abs();
    let e = exp::<S>(if a < 22.0 { a } else { 0.5 * a });
    if a < 22.0 {
        0.5 * (e + 1.0 / e)
    } else {
        0.5 * e * e
    }
}

#[inline(always)]
fn sigmoid<S: Simd>(x: f64) -> f64 {
    let e = exp::<S>(-x.abs());
    (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
}

#[inline(always)]
fn atan<S: Simd>(x: f64) -> f64 {
    let a = x.abs();
    let far = a > 2.414_213_562_373_095;
    let middle = a > 0.66;
    let top = if far { -1.0 } else { a - 1.0 };
    let below = if far { a } else { a + 1.0 };
    let t = if middle { top / below } else { a };
    let z = t * t;
    let p = poly::<S, 5>(
        z,
        [
            -8.750_608_600_031_904e-1,
            -1.615_753_718_733_365_1e1,
            -7.500_855_792_314_705e1,
            -1.228_866_684_490_136_2e2,
            -6.485_021_904_942_025e1,
        ],
    );
    let q = poly::<S, 6>(
        z,
        [
            1.0,
            2.485_846_490_142_306_3e1,
            1.650_270_098_316_988_5e2,
            4.328_810_604_912_903e2,
            4.853_903_996_359_137e2,
            1.945_506_571_482_614e2,
        ],
    );
    let y = fma::<S>(t * z, p / q, t);
    // The rounding errors of a quarter and an eighth of a turn.
    let rest = if far {
        6.123_233_995_736_766e-17
    } else {
        3.061_616_997_868_383e-17
    };
    let base = if far { FRAC_PI_2 } else { FRAC_PI_4 };
    (if middle { base + (y + rest) } else { y }).copysign(x)
}

/// Sine and cosine of a number below [`FAR`] reduced by quarter turns, and their number, in the low
/// bits.
#[inline(always)]
fn turned<S: Simd>(x: f64) -> (f64, f64, u64) {
    let shifted = x * FRAC_2_PI + SHIFT;
    let n = shifted - SHIFT;
    let r = fma::<S>(n, -FRAC_PI_2, x);
    let r = fma::<S>(n, -6.123_233_995_736_766e-17, r);
    let r = fma::<S>(n, 1.497_384_904_859_169_8e-33, r);
    let z = r * r;
    let s = poly::<S, 6>(
        z,
        [
            1.589_690_995_211_55e-10,
            -2.505_076_025_340_686_3e-8,
            2.755_731_370_707_006_8e-6,
            -1.984_126_982_985_795e-4,
            8.333_333_333_322_49e-3,
            -1.666_666_666_666_663_2e-1,
        ],
    );
    let sin = fma::<S>(s * z, r, r);
    let c = poly::<S, 6>(
        z,
        [
            -1.135_964_755_778_819_5e-11,
            2.087_572_321_298_175e-9,
            -2.755_731_435_139_066_3e-7,
            2.480_158_728_947_673e-5,
            -1.388_888_888_887_411e-3,
            4.166_666_666_666_66e-2,
        ],
    );
    let half = 0.5 * z;
    let near = 1.0 - half;
    let cos = near + fma::<S>(c * z, z, (1.0 - near) - half);
    (sin, cos, shifted.to_bits())
}

/// Sine, or cosine with `quarter` 1, of numbers below [`FAR`].
#[inline(always)]
fn sine<S: Simd>(x: f64, quarter: u64) -> f64 {
    let (sin, cos, quarters) = turned::<S>(x);
    let place = quarters.wrapping_add(quarter);
    let y = if place & 1 == 0 { sin } else { cos };
    f64::from_bits(y.to_bits() ^ (place & 2) << 62)
}

/// Tangent of numbers below [`FAR`].
#[inline(always)]
fn tan<S: Simd>(x: f64) -> f64 {
    let (sin, cos, quarters) = turned::<S>(x);
    let odd = quarters & 1 != 0;
    (if odd { -cos } else { sin }) / (if odd { sin } else { cos })
}

/// The logarithm to another base: the exponent times `whole` (whose first part is short) plus the
/// mantissa's times `part`.
#[inline(always)]
fn log_of_base<S: Simd>(x: f64, whole: f64, whole_low: f64, part: f64) -> f64 {
    let (e, f, tail) = log_parts::<S>(x);
    let mantissa = fma::<S>(f - tail, part, e * whole_low);
    log_ends(x, fma::<S>(e, whole, mantissa))
}

#[inline(always)]
fn asin<S: Simd>(x: f64) -> f64 {
    let a = x.abs();
    let rest = if S::FUSED {
        fma::<S>(-x, x, 1.0)
    } else {
        (1.0 - a) * (1.0 + a)
    };
    atan::<S>(x / rest.sqrt())
}

/// By the tangent of half the angle, which is precise for small angles.
#[inline(always)]
fn acos<S: Simd>(x: f64) -> f64 {
    2.0 * atan::<S>(((1.0 - x) / (1.0 + x)).sqrt())
}

/// The logarithm of a positive number as a sum of two numbers, to about 65 bits.
#[inline(always)]
fn long_log<S: Simd>(x: f64) -> (f64, f64) {
    let (e, m) = split(x);
    let f = m - 1.0;
    let below = 2.0 + f;
    let lost = f - (below - 2.0);
    let u = f / below;
    let u_low = (fma::<S>(-u, below, f) - u * lost) / below;
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

#[inline(always)]
fn pow<S: Simd>(x: f64, y: f64) -> f64 {
    let a = x.abs();
    let inside = a > 0.0 && a < f64::INFINITY;
    let (high, low) = long_log::<S>(if inside { a } else { 1.0 });
    // Beyond this, every power except that of 1 is 0 or infinite, and products of parts would be
    // NaN.
    let t = if y > 1e20 { 1e20 } else { y };
    let t = if t < -1e20 { -1e20 } else { t };
    let e = t * high;
    let rest = fma::<S>(t, high, -e) + t * low;
    let r = exp_of::<S>(e, if e.abs() < 800.0 { rest } else { 0.0 });
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
    let r = if negative && !whole && inside {
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

/// A power whose exponent is so many quarters, as `vmath` has it for float32.
#[inline(always)]
fn root(x: f64, quarters: i32) -> f64 {
    let a = if x == f64::NEG_INFINITY {
        f64::INFINITY
    } else {
        x + 0.0
    };
    let one = 1.0f64;
    power!(quarters, x, a, one)
}

/// Whether [`fmod`] holds of two numbers: their quotient rounds to a whole number that it is not at
/// most from below.
#[inline(always)]
fn divides(x: f64, y: f64) -> bool {
    x.abs() < y.abs() * 1_125_899_906_842_624.0 && y.abs() < f64::INFINITY
}

/// The remainder of a division whose quotient has no more than 50 bits, with the sign of `x`.
#[inline(always)]
fn fmod<S: Simd>(x: f64, y: f64) -> f64 {
    // One too many where the quotient was rounded up to a whole number; the rest is exact.
    let rest = fma::<S>(-(x / y).trunc(), y, x);
    let crossed = rest != 0.0 && (rest < 0.0) != (x < 0.0);
    let rest = if crossed { rest + y.copysign(x) } else { rest };
    rest.copysign(x)
}

/// Returns whether a function is computed here, where `fused` says that the instruction set
/// multiplies and adds in one step.
fn knows(math: Math, fused: bool) -> bool {
    match math {
        Math::Exp | Math::Log | Math::Tanh | Math::Sigmoid => true,
        Math::Sinh | Math::Cosh | Math::Atan | Math::Asin | Math::Acos => true,
        Math::Log2 | Math::Log10 => true,
        Math::Sin | Math::Cos | Math::Tan | Math::Pow | Math::Fmod => fused,
        Math::Sqrt | Math::Rsqrt => true,
        _ => false,
    }
}

#[inline(always)]
unsafe fn strip<S: Simd>(math: Math, n: usize, x: *const f64, y: *const f64, z: *mut f64) {
    let binary = math.binary();
    // SAFETY: all that are read have `n` elements.
    unsafe {
        if math == Math::Pow
            && let Some(quarters) = quarters(std::slice::from_raw_parts(y, n))
        {
            for i in 0..n {
                *z.add(i) = root(*x.add(i), quarters);
            }
            return;
        }
        if !knows(math, S::FUSED) {
            for i in 0..n {
                let second = if binary { *y.add(i) } else { 0.0 };
                *z.add(i) = rx_math_f64(math as i32, *x.add(i), second);
            }
            return;
        }
        let (mut a, mut b, mut c) = ([1.0; PIECE], [1.0; PIECE], [0.0; PIECE]);
        let mut at = 0;
        while at < n {
            let part = (n - at).min(PIECE);
            std::ptr::copy_nonoverlapping(x.add(at), a.as_mut_ptr(), part);
            if binary {
                std::ptr::copy_nonoverlapping(y.add(at), b.as_mut_ptr(), part);
            }
            piece::<S>(math, part, &a, &b, &mut c);
            std::ptr::copy_nonoverlapping(c.as_ptr(), z.add(at), part);
            at += part;
        }
    }
}

#[inline(always)]
fn piece<S: Simd>(math: Math, n: usize, a: &[f64; PIECE], b: &[f64; PIECE], c: &mut [f64; PIECE]) {
    macro_rules! each {
        ($x:ident => $value:expr) => {
            for ((&$x, &_y), z) in a.iter().zip(b).zip(c.iter_mut()).take(n) {
                let value: f64 = $value;
                #[allow(clippy::eq_op)] // A NaN stays the NaN that it is.
                let value = if $x != $x { $x } else { value };
                *z = value;
            }
        };
    }
    match math {
        Math::Exp => {
            let mut near = true;
            for x in &a[..n] {
                near &= x.abs() < NORMAL;
            }
            if near {
                each!(x => exp_near::<S>(x));
            } else {
                each!(x => exp::<S>(x));
            }
        }
        Math::Log => each!(x => log::<S>(x)),
        Math::Tanh => each!(x => tanh::<S>(x)),
        Math::Sinh => each!(x => sinh::<S>(x)),
        Math::Cosh => each!(x => cosh::<S>(x)),
        Math::Sigmoid => each!(x => sigmoid::<S>(x)),
        Math::Atan => each!(x => atan::<S>(x)),
        Math::Sqrt => each!(x => x.sqrt()),
        Math::Rsqrt => each!(x => 1.0 / x.sqrt()),
        Math::Asin => each!(x => asin::<S>(x)),
        Math::Acos => each!(x => acos::<S>(x)),
        Math::Log2 => each!(x => log_of_base::<S>(x, 1.0, 0.0, LOG2_E)),
        Math::Log10 => each!(x => log_of_base::<S>(x, LOG10_2_HI, LOG10_2_LO, LOG10_E)),
        Math::Sin | Math::Cos | Math::Tan => {
            let mut near = true;
            for x in &a[..n] {
                near &= x.abs() < FAR;
            }
            if !near {
                for (x, z) in a.iter().zip(c).take(n) {
                    *z = rx_math_f64(math as i32, *x, 0.0);
                }
            } else if math == Math::Cos {
                each!(x => sine::<S>(x, 1));
            } else if math == Math::Tan {
                each!(x => if x == 0.0 { x } else { tan::<S>(x) });
            } else {
                // Zero keeps its sign.
                each!(x => if x == 0.0 { x } else { sine::<S>(x, 0) });
            }
        }
        Math::Fmod => {
            let mut usual = true;
            for (&x, &y) in a[..n].iter().zip(b) {
                usual &= divides(x, y);
            }
            for ((&x, &y), z) in a.iter().zip(b).zip(c).take(n) {
                *z = if usual { fmod::<S>(x, y) } else { x % y };
            }
        }
        _ => {
            for ((&x, &y), z) in a.iter().zip(b).zip(c).take(n) {
                *z = pow::<S>(x, y);
            }
        }
    }
}

/// # Safety
/// `x` and `z`, and for functions of two arguments `y`, have `n` elements; `z` is one of the others
/// or overlaps none.
pub(super) unsafe fn run(math: Math, n: usize, x: *const f64, y: *const f64, z: *mut f64) {
    // SAFETY: all that are read have `n` elements.
    unsafe {
        dispatch!(strip(math: Math, n: usize, x: *const f64, y: *const f64, z: *mut f64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_constant_are_the_whole() {
        assert_eq!(LN2_HI + LN2_LO, std::f64::consts::LN_2);
    }
}
