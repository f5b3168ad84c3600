//! Sines, cosines and tangents of float32.

use super::by_double;
use super::math::Math;
use super::pieces::PIECE;
use super::simd::{Simd, dispatch, poly};

/// Sines of arguments of this magnitude and above, for which the parts of a turn have too few bits, are
/// computed otherwise.
const FAR: f32 = 65_536.0;

/// The same of tangents.
const FAR_TANGENT: f32 = 1_024.0;

/// A float whose last bit is 1: adding it rounds to an integer, which its low bits hold then.
const WHOLE: f32 = 12_582_912.0;

/// Returns whether a vector is reduced here: where products are not rounded before they are added to
/// what nearly cancels them.
#[inline(always)]
fn near<S: Simd>(x: S, far: f32) -> bool {
    S::FUSED && x.abs().all_lt(x.same(far))
}

/// The sine, or with `half` of a half the cosine: the argument is `(n + half) π + r`, and the result the
/// sine of `r`, whose sign turns with every `n`.
#[inline(always)]
fn sine<S: Simd>(x: S, half: f32, scalar: fn(f32) -> f32) -> S {
    if !near(x, FAR) {
        return x.each(scalar);
    }
    let turn = x.same(std::f32::consts::FRAC_1_PI);
    let (n, odd) = if half == 0.0 {
        let shifted = x.fma(turn, x.same(WHOLE));
        (shifted.sub(x.same(WHOLE)), shifted.odd())
    } else {
        // One more than `n`, since the sine is minus the cosine half a turn on.
        let whole = x.same(WHOLE + 1.0);
        let shifted = x.fma(turn, x.same(-half)).add(whole);
        (shifted.sub(whole).add(x.same(half)), shifted.odd())
    };
    // The first product is exact, and so is its sum.
    let r = n.fma(x.same(-std::f32::consts::PI), x);
    let r = n.fma(x.same(8.742_278e-8), r);
    let r = n.fma(x.same(3.430_249e-15), r);
    let z = r.mul(r);
    let p = poly(
        z,
        &[2.606_053_8e-6, -1.980_976_8e-4, 8.333_069e-3, -0.166_666_6],
    );
    let y = p.mul(z).fma(r, r);
    S::select(odd, x.same(-0.0).sub(y), y)
}

/// The sine.
#[inline(always)]
pub(super) fn sin<S: Simd>(x: S) -> S {
    // Zero keeps its sign.
    S::select(x.eq(x.same(0.0)), x, sine(x, 0.0, libm::sinf))
}

/// The cosine.
#[inline(always)]
pub(super) fn cos<S: Simd>(x: S) -> S {
    sine(x, 0.5, libm::cosf)
}

/// The tangent of numbers that are [`near`]: the argument is `n π/2 + r`, and the tangent of `r`, as a sum of two numbers, or minus
/// its reciprocal the result.
#[inline(always)]
fn tan<S: Simd>(x: S) -> S {
    let whole = x.same(WHOLE);
    let shifted = x.fma(x.same(std::f32::consts::FRAC_2_PI), whole);
    let n = shifted.sub(whole);
    // A quarter of a turn in three parts. The first product is exact, and so are its sum and, since
    // the second part has 14 bits, products with it.
    let first = n.fma(x.same(-std::f32::consts::FRAC_PI_2), x);
    let second = x.same(4.371_031_5e-8);
    let r = n.fma(second, first);
    let low = n.fma(second, first.sub(r));
    let low = n.fma(x.same(1.074_634_6e-12), low);
    let z = r.mul(r);
    let p = poly(
        z,
        &[
            0.004_387_628,
            7.012_982e-05,
            0.010_847_59,
            0.021_279_42,
            0.054_059_97,
            0.133_326_7,
            0.333_333_5,
        ],
    );
    // The slope of the tangent is about 1 and 1.62 squares.
    let rest = low.mul(z).fma(x.same(1.62), low);
    // What is more than 5/4 of `r`, which is small, so that its rounding errors are.
    let more = p.fma(z, x.same(-0.25));
    let rest = r.fma(more, rest);
    let y = r.fma(x.same(1.25), rest);
    let lost = rest.sub(r.fma(x.same(-1.25), y));
    let one = x.same(-1.0);
    let q = one.div(y);
    // What is missing to -1.
    let error = q.fma(y, x.same(1.0));
    let error = q.fma(lost, error);
    let inverse = q.fma(error, q);
    let y = S::select(shifted.odd(), inverse, y);
    S::select(x.eq(x.same(0.0)), x, y)
}

/// Tangents.
///
/// # Safety
/// Both have `n` elements, and are the same or do not overlap.
pub(super) unsafe fn tangents(n: usize, x: *const f32, y: *mut f32) {
    #[inline(always)]
    unsafe fn strip<S: Simd>(n: usize, x: *const f32, y: *mut f32) {
        // SAFETY: both have `n` elements, of which a part ends at most there.
        unsafe {
            let mut i = 0;
            while i < n {
                let part = (n - i).min(S::LANES);
                let v = match part == S::LANES {
                    true => S::load(x.add(i)),
                    false => S::load_part(x.add(i), part),
                };
                if !near(v, FAR_TANGENT) {
                    // Others may follow.
                    let some = (n - i).min(PIECE);
                    by_double::run(Math::Tan, some, x.add(i), x.add(i), y.add(i));
                    i += some;
                    continue;
                }
                let t = tan(v);
                match part == S::LANES {
                    true => t.store(y.add(i)),
                    false => t.store_part(y.add(i), part),
                }
                i += part;
            }
        }
    }
    // SAFETY: both have `n` elements, and are the same or do not overlap.
    unsafe { dispatch!(strip(n: usize, x: *const f32, y: *mut f32)) }
}
