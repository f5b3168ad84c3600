//! Functions of float32 computed in float64, whose polynomials are more precise than float32:
//! within 1 unit in the last place. The loops are plain and branch-free, so that compilers
//! vectorise them for every instruction set.

use std::f64::consts::FRAC_2_PI;
use std::marker::PhantomData;

use super::double_parts::{SHIFT, ends_of_power, fma, poly, power_of_two, split};
#[cfg(target_arch = "x86_64")]
use super::double_tables;
use super::math::Math;
use super::pieces::{OfPieces, PIECE, pieces};
use super::simd::{Simd, dispatch};

/// `2^t` for `t` in -1000 to 1000: a polynomial whose error is 2^-28.
#[inline(always)]
fn exp2<S: Simd>(t: f64) -> f64 {
    let shifted = t + SHIFT;
    let n = shifted - SHIFT;
    // 1 at 0, so that exact powers stay exact.
    let p = poly::<S, 7>(
        t - n,
        [
            1.535_336_182_311_620_3e-4,
            1.339_887_444_223_475_1e-3,
            9.618_437_358_239_92e-3,
            5.550_332_471_037_106e-2,
            0.240_226_479_136_205_73,
            0.693_147_202_855_122_7,
            1.0,
        ],
    );
    p * power_of_two(shifted)
}

/// The base-2 logarithm of `(1 + f) 2^e`, where the former is between the roots of ½ and 2, with a
/// relative error of 2^-37.
#[inline(always)]
fn log2<S: Simd>(f: f64, e: f64) -> f64 {
    let s = f / (f + 2.0);
    let p = poly::<S, 5>(
        s * s,
        [
            0.340_732_202_773_393_44,
            0.411_672_610_889_262_66,
            0.577_083_586_674_212_3,
            0.961_796_673_333_360_7,
            2.885_390_081_790_092,
        ],
    );
    fma::<S>(p, s, e)
}

/// The mantissas less 1 and the exponents of numbers.
#[inline(always)]
unsafe fn parts<S: Simd>(x: &[f32], f: &mut [f32], e: &mut [f32]) {
    // SAFETY: all have a number of elements that vectors divide, see [`pieces`].
    unsafe {
        let (n, x) = (x.len(), x.as_ptr());
        let (f, e) = (f.as_mut_ptr(), e.as_mut_ptr());
        for i in (0..n).step_by(S::LANES) {
            let (mantissa, exponent) = S::load(x.add(i)).split();
            mantissa.sub(S::splat(1.0)).store(f.add(i));
            exponent.store(e.add(i));
        }
    }
}

/// An exponent of 2 no farther out than float32 goes; NaN stays NaN.
#[inline(always)]
fn exponent(e: f64) -> f64 {
    let e = if e > 200.0 { 200.0 } else { e };
    if e < -200.0 { -200.0 } else { e }
}

/// Returns whether a power is of a positive finite number.
#[inline(always)]
fn has_plain_pow(x: f32, y: f32) -> bool {
    x > 0.0 && x < f32::INFINITY && y.abs() < f32::INFINITY
}

/// Returns whether [`remainder`] holds of two numbers: a quotient of fewer than 28 bits is farther
/// from a whole number that it is not than float64 rounds it, and its product with the divisor has
/// no more than 53.
#[inline(always)]
fn divides(x: f32, y: f32) -> bool {
    x.abs() < y.abs() * 67_108_864.0 && y.abs() < f32::INFINITY
}

#[inline(always)]
fn remainder(x: f32, y: f32) -> f32 {
    let (a, b) = (f64::from(x), f64::from(y));
    let rest = a - (a / b).trunc() * b;
    (rest as f32).copysign(x)
}

#[inline(always)]
fn pow<S: Simd>(x: f32, y: f32) -> f32 {
    let (x, y) = (f64::from(x), f64::from(y));
    let a = x.abs();
    let (e, m) = split(if a > 0.0 && a < f64::INFINITY { a } else { 1.0 });
    let e = y * log2::<S>(m - 1.0, e);
    ends_of_power(x, y, exp2::<S>(exponent(e))) as f32
}

/// The tangent of a number below [`FAR`].
#[inline(always)]
fn near_tan<S: Simd>(x: f64) -> f64 {
    let shifted = x * FRAC_2_PI + SHIFT;
    let n = shifted - SHIFT;
    // A quarter turn in two parts: products with the first are exact.
    let r = x - n * 1.570_796_326_734_125_6;
    let r = r - n * 6.077_100_506_506_192e-11;
    let z = r * r;
    // The continued fraction of the tangent, cut off where it differs by 2^-33.
    let s = r * poly::<S, 3>(z, [21.0, -1_260.0, 10_395.0]);
    let c = poly::<S, 4>(z, [-1.0, 210.0, -4_725.0, 10_395.0]);
    let odd = shifted.to_bits() & 1 != 0;
    (if odd { -c } else { s }) / (if odd { s } else { c })
}

/// Numbers from this on are left to the scalar function.
const FAR: f32 = 100_000.0;

/// A function with the instruction set that it is computed by.
struct ByDouble<S>(Math, PhantomData<S>);

impl<S: Simd> OfPieces<f32> for ByDouble<S> {
    #[inline(always)]
    fn piece(&self, a: &[f32], b: &[f32], c: &mut [f32]) {
        let n = c.len();
        let (a, b) = (&a[..n], &b[..n]);
        macro_rules! each {
            ($x:ident, $y:ident => $value:expr) => {
                for i in 0..n {
                    let ($x, $y) = (a[i], b[i]);
                    c[i] = $value;
                }
            };
        }
        /// A short form where it holds for all elements, else another one.
        macro_rules! usual {
            ($x:ident, $y:ident: $usual:expr => $short:expr, $any:expr) => {{
                let mut usual = true;
                for i in 0..n {
                    let ($x, $y) = (a[i], b[i]);
                    usual &= $usual;
                }
                if usual {
                    each!($x, $y => $short)
                } else {
                    each!($x, $y => $any)
                }
            }};
        }
        match self.0 {
            Math::Rint => each!(x, _y => x.round_ties_even()),
            // The greatest number below a half, so that it does not round up to one.
            Math::Round => each!(x, _y => (x.abs() + 0.499_999_97).trunc().copysign(x)),
            Math::Tan => usual!(x, _y: x.abs() < FAR => {
                let y = near_tan::<S>(f64::from(x)) as f32;
                if x == 0.0 { x } else { y }
            }, libm::tanf(x)),
            Math::Fmod => usual!(x, y: divides(x, y) => remainder(x, y), x % y),
            _ => {
                let mut usual = true;
                for i in 0..n {
                    usual &= has_plain_pow(a[i], b[i]);
                }
                if !usual {
                    return each!(x, y => pow::<S>(x, y));
                }
                #[cfg(target_arch = "x86_64")]
                if S::TABLES {
                    // SAFETY: the processor has AVX-512, and pieces a multiple of eight elements.
                    return unsafe { double_tables::single_powers(a, b, c) };
                }
                let (mut f, mut e) = ([0.0f32; PIECE], [0.0f32; PIECE]);
                // SAFETY: all have `n` elements.
                unsafe { parts::<S>(a, &mut f[..n], &mut e[..n]) };
                // In two loops, each of which waits less for its operations.
                let mut t = [0.0f64; PIECE];
                for i in 0..n {
                    t[i] = f64::from(b[i]) * log2::<S>(f64::from(f[i]), f64::from(e[i]));
                }
                for i in 0..n {
                    let power = exp2::<S>(exponent(t[i])) as f32;
                    c[i] = if b[i] == 2.0 { a[i] * a[i] } else { power };
                }
            }
        }
    }
}

/// Returns whether a function is computed here.
pub(super) fn knows(math: Math) -> bool {
    use Math::{Fmod, Pow, Rint, Round, Tan};
    matches!(math, Rint | Round | Tan | Fmod | Pow)
}

#[inline(always)]
unsafe fn strip<S: Simd>(math: Math, n: usize, x: *const f32, y: *const f32, z: *mut f32) {
    let beside = if math.binary() { y } else { x };
    // SAFETY: all that are read have `n` elements.
    unsafe { pieces(n, (x, beside), z, 1.0, &ByDouble::<S>(math, PhantomData)) }
}

/// # Safety
/// All that are read, and `z`, have `n` elements; `z` is one of the others or overlaps none.
pub(super) unsafe fn run(math: Math, n: usize, x: *const f32, y: *const f32, z: *mut f32) {
    // SAFETY: all that are read have `n` elements.
    unsafe {
        dispatch!(strip(math: Math, n: usize, x: *const f32, y: *const f32, z: *mut f32));
    }
}
