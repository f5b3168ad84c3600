//! Elementary functions over strips.
//!
//! Each is a range reduction and a polynomial in float32; the error bounds that the C header
//! states are checked in `tests/vmath.rs` against float64.

use crate::kernels::by_double;
use crate::kernels::logs;
use crate::kernels::math::Math;
use crate::kernels::pieces::PIECE;
use crate::kernels::simd::{Simd, dispatch, over_vectors, poly};
use crate::kernels::waves::{cos, sin};

/// `ln 2` split in two parts, where products of the first with small integers are exact.
const LN2_HI: f32 = 355.0 / 512.0;
const LN2_LO: f32 = -2.121_944_4e-4;

/// A float whose last bit is 1: adding it rounds to an integer, which its low bits hold then.
const WHOLE: f32 = 12_582_912.0;

/// The exponent of 1, as the bits of a float hold it.
const BIAS: f32 = 127.0;

/// `x = n ln 2 + r`.
struct Parts<S> {
    /// An integer's bits: `n` and what was asked for.
    shifted: S,
    /// `e^r - 1`; NaN where `x` is.
    rest: S,
}

/// Takes an argument apart, where 2^n is a normal number; `bias` is added to the bits. With `short`,
/// the rounding error of `r` is 1.9e-9 for each of `n` where products are not rounded.
#[inline(always)]
fn parts<S: Simd>(x: S, bias: f32, short: bool) -> Parts<S> {
    const LN2: f32 = std::f32::consts::LN_2;
    let whole = x.same(WHOLE + bias);
    let shifted = x.fma(x.same(std::f32::consts::LOG2_E), whole);
    let n = shifted.sub(whole);
    let r = if short && S::FUSED {
        n.fma(x.same(-LN2), x)
    } else {
        n.fma(x.same(-LN2_LO), n.fma(x.same(-LN2_HI), x))
    };
    // Minimax on ±ln 2 / 2, with the first two coefficients 1. Pairs of terms are independent
    // of each other, so that dependency chains are short.
    let square = r.mul(r);
    let high = poly(r, &[1.381_454e-3, 8.368_745e-3, 4.166_839e-2]);
    let low = poly(r, &[0.166_665_21, 0.499_999_94]);
    let rest = high.fma(square, low).fma(square, r);
    Parts { shifted, rest }
}

/// `e^x`. The argument is `n ln 2 + r`, with a polynomial for `e^r`.
#[inline(always)]
pub fn exp<S: Simd>(x: S) -> S {
    if S::SCALES {
        // Beyond, the result is infinite or 0; the operand order propagates NaN.
        let x = x.same(-104.0).max(x.same(89.0).min(x));
        let Parts { shifted, rest } = parts(x, 0.0, false);
        return rest.add(x.same(1.0)).scaled(shifted.sub(x.same(WHOLE)));
    }
    // 2^n may be infinite where the result is not.
    let Parts { shifted, rest } = parts(x, 0.0, false);
    let y = rest.add(x.same(1.0)).lift(shifted);
    // The least argument whose result is a normal number, and the greatest with a finite result.
    let y = S::select(x.lt(x.same(-87.336_54)), x.same(0.0), y);
    // NaN is above, too.
    let inside = x.lt(x.same(88.722_84));
    S::select(inside, y, x.add(x.same(f32::INFINITY)))
}

/// `e^x` for `x ≤ 0`, as in softmax for differences from the largest element: within 3 units in the
/// last place down to `e^-40`, 6 beyond; 0 where the result is not a normal number. With fewer
/// operations than [`exp`], which assumes nothing about its argument.
#[inline(always)]
pub fn exp_below<S: Simd>(x: S) -> S {
    let Parts { shifted, rest } = parts(x, BIAS, true);
    let power = shifted.power();
    let y = power.fma(rest, power);
    S::select(x.lt(x.same(-87.336_54)), x.same(0.0), y)
}

/// `2t / (1 + t^2)` for `t = x P(x^2) / Q(x^2)`: at a `t` of 1, errors of `t` are none of the result.
#[inline(always)]
fn doubled<S: Simd>(x: S, p: &[f32], q: &[f32]) -> S {
    let z = x.mul(x);
    let (top, below) = (x.mul(poly(z, p)), poly(z, q));
    let squares = top.fma(top, below.mul(below));
    top.add(top).mul(below).div(squares)
}

/// `tanh x` by `tanh x/2`. The polynomials' scale is one with which rounding errors are small.
#[inline(always)]
pub fn tanh<S: Simd>(x: S) -> S {
    // There the result is 1, and nowhere before it is more; the operand order propagates NaN.
    let x = x.same(8.789_014).min(x);
    let x = x.same(-8.789_014).max(x);
    let p = [1.048_660_4e-4, 2.722_103e-2, 0.9135];
    let q = [2.266_535_8e-6, 2.209_124_9e-3, 0.206_692_01, 1.827];
    doubled(x, &p, &q)
}

/// `sinh x`, or `cosh x` with `even`, by `t = (e^|x| - 1) / 2`, which is exact near 0, too: the
/// former is `t + t / (2t + 1)`, the latter `t + (1 + 1 / (2t + 1)) / 2`. Halves, because `e^|x|`
/// overflows first.
#[inline(always)]
pub(super) fn hyperbolic<S: Simd>(x: S, even: bool) -> S {
    let one = x.same(1.0);
    // From here on the result is infinite; the operand order propagates NaN.
    let a = x.same(89.5).min(x.abs());
    let Parts { shifted, rest } = parts(a, BIAS - 2.0, false);
    let power = shifted.power();
    let t = power.fma(rest, power.sub(x.same(0.25)));
    let t = t.add(t);
    let whole = t.add(t).add(one);
    let y = if even {
        let half = x.same(0.5);
        t.add(half.div(whole).add(half))
    } else {
        t.add(t.div(whole))
    };
    // The greatest argument with a finite result.
    let y = S::select(x.same(89.415_985).lt(a), x.same(f32::INFINITY), y);
    if even { y } else { y.copysign(x) }
}

/// Hyperbolic sines or, with `even`, cosines of `n` numbers.
///
/// # Safety
/// Both have `n` elements, and are the same or do not overlap.
pub(super) unsafe fn hyperbolics(n: usize, x: *const f32, y: *mut f32, even: bool) {
    #[inline(always)]
    unsafe fn strip<S: Simd>(n: usize, x: *const f32, y: *mut f32, even: bool) {
        // SAFETY: both have `n` elements.
        unsafe { over_vectors!(n, v: x => hyperbolic(v, even), y) }
    }
    // SAFETY: both have `n` elements.
    unsafe { dispatch!(strip(n: usize, x: *const f32, y: *mut f32, even: bool)) }
}

/// `atan x`: beyond the tangents of 1/16 and 3/16 of a turn, relative to 1/8 or 1/4 of a turn.
#[inline(always)]
pub fn atan<S: Simd>(x: S) -> S {
    let (zero, one) = (x.same(0.0), x.same(1.0));
    let a = x.abs();
    let far = x.same(2.414_213_6).lt(a);
    let middle = x.same(0.414_213_57).lt(a);
    let top = S::select(far, x.same(-1.0), a.sub(one));
    let below = S::select(far, a, a.add(one));
    let top = S::select(middle, top, a);
    let below = S::select(middle, below, one);
    let t = top.div(below);
    let z = t.mul(t);
    // Minimax for `(atan t - t) / t^3`.
    let p = poly(
        z,
        &[
            -6.082_297e-2,
            0.105_955_675,
            -0.142_437_94,
            0.199_984_87,
            -0.333_333_16,
        ],
    );
    // The rounding errors of a quarter and an eighth of a turn.
    let rest = S::select(far, x.same(-4.371_139e-8), x.same(-2.185_569_4e-8));
    let rest = S::select(middle, rest, zero);
    let base = S::select(
        far,
        x.same(std::f32::consts::FRAC_PI_2),
        x.same(std::f32::consts::FRAC_PI_4),
    );
    let base = S::select(middle, base, zero);
    let y = p.mul(z).fma(t, rest).add(t);
    base.add(y).copysign(x)
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub fn sigmoid<S: Simd>(x: S) -> S {
    // From here on the result is 1; the operand order propagates NaN.
    let below = x.same(-80.0).max(x.same(0.0).sub(x));
    let Parts { shifted, rest } = parts(below, BIAS, false);
    let (one, power) = (x.same(1.0), shifted.power());
    let y = one.div(power.fma(rest, power.add(one)));
    // The result is no normal number.
    S::select(x.lt(x.same(-87.336_54)), x.same(0.0), y)
}

/// The error function, by `tanh(atanh(erf x) / 2)`.
#[inline(always)]
pub fn erf<S: Simd>(x: S) -> S {
    // There the result is 1, and nowhere before it is more; the operand order propagates NaN.
    let x = x.same(3.891_169_3).min(x);
    let x = x.same(-3.891_169_3).max(x);
    let p = [
        -6.741_04e-6,
        6.241_755e-4,
        1.876_030_9e-2,
        0.152_865_01,
        1.048_264_3,
    ];
    let q = [4.373_010_7e-3, 6.684_89e-2, 0.298_859_9, 1.858];
    doubled(x, &p, &q)
}

/// `x/2 (1 + erf(x / √2))`.
#[inline(always)]
pub fn gelu<S: Simd>(x: S) -> S {
    let e = erf(x.mul(x.same(std::f32::consts::FRAC_1_SQRT_2)));
    x.mul(x.same(0.5)).mul(e.add(x.same(1.0)))
}

#[inline(always)]
fn sqrt<S: Simd>(x: S) -> S {
    x.sqrt()
}

#[inline(always)]
fn rsqrt<S: Simd>(x: S) -> S {
    x.same(1.0).div(x.sqrt())
}

macro_rules! strips {
    ($($(#[$doc:meta])* $name:ident = $function:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// Both have `n` elements, and are the same or do not overlap.
        pub unsafe fn $name(n: usize, x: *const f32, y: *mut f32) {
            #[inline(always)]
            unsafe fn strip<S: Simd>(n: usize, x: *const f32, y: *mut f32) {
                // SAFETY: both have `n` elements, and vectors end at most there.
                unsafe {
                    let mut i = 0;
                    // Two vectors at a time wait for each other's operations.
                    while i + 2 * S::LANES <= n {
                        let (a, b) = (S::load(x.add(i)), S::load(x.add(i + S::LANES)));
                        let (a, b) = ($function(a), $function(b));
                        a.store(y.add(i));
                        b.store(y.add(i + S::LANES));
                        i += 2 * S::LANES;
                    }
                    while i < n {
                        let part = (n - i).min(S::LANES);
                        $function(S::load_part(x.add(i), part)).store_part(y.add(i), part);
                        i += part;
                    }
                }
            }
            // SAFETY: both have `n` elements.
            unsafe { dispatch!(strip(n: usize, x: *const f32, y: *mut f32)) }
        }
    )*};
}

strips! {
    /// Exponential.
    vexp = exp;
    /// Hyperbolic tangent.
    vtanh = tanh;
    /// Error function.
    verf = erf;
    /// Logistic function.
    vsigmoid = sigmoid;
    /// Square root.
    vsqrt = sqrt;
    /// Reciprocal square root.
    vrsqrt = rsqrt;
    /// Sine.
    vsin = sin;
    /// Cosine.
    vcos = cos;
    /// Gaussian error linear unit.
    vgelu = gelu;
    /// Arc tangent.
    vatan = atan;
}

/// Natural logarithm.
///
/// # Safety
/// Both have `n` elements, and are the same or do not overlap.
pub unsafe fn vlog(n: usize, x: *const f32, y: *mut f32) {
    // SAFETY: both have `n` elements.
    unsafe { logs::run(n, x, y, &logs::NATURAL) }
}

/// Returns whether [`remainder`] is exact: of quotients of few bits, or of two zeros, whose remainder
/// is NaN, since what follows the last elements is zeros.
#[inline(always)]
fn divides<S: Simd>(x: S, y: S) -> bool {
    let (a, b) = (x.abs(), y.abs());
    let most = b.mul(x.same(4_194_304.0)).max(x.same(f32::MIN_POSITIVE));
    S::FUSED && a.all_lt(most) && b.all_lt(x.same(f32::INFINITY))
}

/// The remainder of a division, with the sign of `x`. A quotient is at most rounded up to the whole
/// number that it is just below: then the remainder is one divisor too small.
#[inline(always)]
fn remainder<S: Simd>(x: S, y: S) -> S {
    let (a, b, zero) = (x.abs(), y.abs(), x.same(0.0));
    let rest = zero.sub(a.div(b).floor()).fma(b, a);
    S::select(rest.lt(zero), rest.add(b), rest).copysign(x)
}

/// Remainders of divisions.
///
/// # Safety
/// All have `n` elements; `z` is `x`, `y` or overlaps neither.
pub(super) unsafe fn remainders(n: usize, x: *const f32, y: *const f32, z: *mut f32) {
    #[inline(always)]
    unsafe fn strip<S: Simd>(n: usize, x: *const f32, y: *const f32, z: *mut f32) {
        // SAFETY: all have `n` elements, of which a part ends at most there.
        unsafe {
            let mut i = 0;
            while i < n {
                let part = (n - i).min(S::LANES);
                let (a, b) = match part == S::LANES {
                    true => (S::load(x.add(i)), S::load(y.add(i))),
                    false => (S::load_part(x.add(i), part), S::load_part(y.add(i), part)),
                };
                if !divides(a, b) {
                    // Others may follow.
                    let some = (n - i).min(PIECE);
                    by_double::run(Math::Fmod, some, x.add(i), y.add(i), z.add(i));
                    i += some;
                    continue;
                }
                let rest = remainder(a, b);
                match part == S::LANES {
                    true => rest.store(z.add(i)),
                    false => rest.store_part(z.add(i), part),
                }
                i += part;
            }
        }
    }
    // SAFETY: all have `n` elements, and `z` is one of the others or overlaps none.
    unsafe { dispatch!(strip(n: usize, x: *const f32, y: *const f32, z: *mut f32)) }
}

/// Power, element by element.
///
/// # Safety
/// All have `n` elements; `z` is `x`, `y` or overlaps neither.
pub unsafe fn vpow(n: usize, x: *const f32, y: *const f32, z: *mut f32) {
    // SAFETY: all have `n` elements; an exponent was read before its place is written.
    unsafe {
        if let Some(quarters) = quarters(std::slice::from_raw_parts(y, n)) {
            return dispatch!(roots(n: usize, x: *const f32, z: *mut f32, quarters: i32));
        }
        by_double::run(Math::Pow, n, x, y, z);
    }
}

/// Returns four times the exponent, where all exponents are the same and such that roots, products
/// and a reciprocal compute the power.
pub(super) fn quarters<T: Copy + PartialEq + Into<f64>>(exponents: &[T]) -> Option<i32> {
    let first = *exponents.first().filter(|_| exponents.len() >= 16)?;
    let four = 4.0 * first.into();
    let known = [
        -8.0, -6.0, -4.0, -3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0,
    ];
    let same = exponents
        .iter()
        .fold(known.contains(&four), |same, &y| same & (y == first));
    same.then_some(four as i32)
}

/// The power of `$x` by a number of quarters that [`quarters`] knows, of numbers or vectors with the
/// methods of numbers. `$a` is `$x` with 0 and infinity for -0 and -∞, which have the same powers
/// where these are no whole numbers.
macro_rules! power {
    ($quarters:expr, $x:ident, $a:ident, $one:ident) => {
        match $quarters {
            4 => $x,
            8 => $x.mul($x),
            12 => $x.mul($x).mul($x),
            1 => $a.sqrt().sqrt(),
            2 => $a.sqrt(),
            3 => $a.sqrt().mul($a.sqrt().sqrt()),
            6 => $a.sqrt().mul($a),
            -4 => $one.div($x),
            // Of factors that overflow no earlier than the result.
            -8 => $one.div($x).mul($one.div($x)),
            -1 => $one.div($a.sqrt().sqrt()),
            -2 => $one.div($a.sqrt()),
            -3 => $one.div($a.sqrt().mul($a.sqrt().sqrt())),
            _ => $one.div($a.sqrt()).mul($one.div($a)),
        }
    };
}
pub(super) use power;

/// Powers with quarters of whole numbers as exponents.
#[inline(always)]
unsafe fn roots<S: Simd>(n: usize, x: *const f32, z: *mut f32, quarters: i32) {
    let mut i = 0;
    // SAFETY: both have `n` elements, of which a part ends at most there.
    unsafe {
        let (zero, one) = (S::splat(0.0), S::splat(1.0));
        let (infinity, below) = (S::splat(f32::INFINITY), S::splat(f32::NEG_INFINITY));
        while i < n {
            let part = (n - i).min(S::LANES);
            let x = S::load_part(x.add(i), part);
            let a = S::select(x.eq(below), infinity, x.add(zero));
            let y = power!(quarters, x, a, one);
            y.store_part(z.add(i), part);
            i += part;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::simd::{Isa, isa, set};

    #[inline(always)]
    unsafe fn below<S: Simd>(n: usize, x: *const f32, y: *mut f32) {
        // SAFETY: both have `n` elements, a multiple of the lanes.
        unsafe {
            for i in (0..n).step_by(S::LANES) {
                exp_below(S::load(x.add(i))).store(y.add(i));
            }
        }
    }

    #[test]
    fn exponentials_below_one_are_within_their_bounds() {
        let special = [0.0, -0.0, f32::NEG_INFINITY, f32::NAN, -1e30, -87.4, -200.0];
        let mut x: Vec<f32> = special.to_vec();
        x.extend((0..1 << 20).map(|i| -90.0 * i as f32 / (1 << 20) as f32));
        x.extend((0..1 << 16).map(|i| -f32::from_bits(i * 16_273)));
        x.resize(x.len().next_multiple_of(16), -1.0);
        let chosen = isa();
        for limit in [Isa::Portable, Isa::Avx2, Isa::Avx512] {
            set(limit);
            let mut y = vec![0.0f32; x.len()];
            let (n, from, to) = (x.len(), x.as_ptr(), y.as_mut_ptr());
            // SAFETY: both have as many elements.
            unsafe { dispatch!(below(n: usize, from: *const f32, to: *mut f32)) };
            for (&x, &y) in x.iter().zip(&y) {
                let exact = f64::from(x).exp();
                if x.is_nan() || x > 0.0 {
                    assert!(y.is_nan() || x > 0.0, "{x}: {y}");
                } else if x < -87.336_54 {
                    assert_eq!(y, 0.0, "{x}");
                } else {
                    let unit = f64::from((exact as f32).next_up() - exact as f32);
                    let error = (f64::from(y) - exact).abs() / unit;
                    let bound = if x < -40.0 { 6.0 } else { 3.0 };
                    assert!(error <= bound, "{limit:?} {x}: {y}, {error} units");
                }
            }
        }
        set(chosen);
    }
}
