//! Logarithms of float32, an exponent and a polynomial for the mantissa's near 1, and the area
//! functions, which are logarithms.

use super::math::Math;
use super::simd::{Simd, dispatch, over_vectors, poly};

/// A positive number taken apart: its exponent, its mantissa less 1, and what the natural logarithm
/// of the mantissa is more than that.
#[inline(always)]
unsafe fn parts<S: Simd>(x: S) -> (S, S, S) {
    // SAFETY: arithmetic of vectors, whose instruction set the callers enable.
    unsafe {
        let tiny = x.lt(S::splat(f32::MIN_POSITIVE));
        let scaled = S::select(tiny, x.mul(S::splat(8_388_608.0)), x);
        let (m, e) = scaled.split();
        let e = S::select(tiny, e.sub(S::splat(23.0)), e);
        let f = m.sub(S::splat(1.0));
        let z = f.mul(f);
        let p = poly(
            f,
            &[
                7.037_683_6e-2,
                -1.151_461e-1,
                1.167_699_9e-1,
                -1.242_014_1e-1,
                1.424_932_3e-1,
                -1.666_805_8e-1,
                2.000_071_5e-1,
                -2.499_999_4e-1,
                0.333_333_3,
            ],
        );
        (e, f, p.mul(f).mul(z))
    }
}

/// Returns `y`, a logarithm of `x`, or its special value for 0, negative numbers, infinity and what
/// is no number.
#[inline(always)]
unsafe fn ends<S: Simd>(x: S, y: S) -> S {
    // SAFETY: arithmetic of vectors, whose instruction set the callers enable.
    unsafe {
        let zero = S::splat(0.0);
        let y = S::select(x.eq(zero), S::splat(f32::NEG_INFINITY), y);
        let y = S::select(x.lt(zero), S::splat(f32::NAN), y);
        S::select(x.lt(S::splat(f32::INFINITY)), y, x)
    }
}

/// The natural logarithm of a number that was taken apart.
#[inline(always)]
unsafe fn joined<S: Simd>(e: S, f: S, y: S) -> S {
    // SAFETY: arithmetic of vectors, whose instruction set the callers enable.
    unsafe {
        let y = e.fma(S::splat(-2.121_944_4e-4), y);
        let y = f.mul(f).fma(S::splat(-0.5), y);
        e.fma(S::splat(355.0 / 512.0), f.add(y))
    }
}

/// `ln x`.
#[inline(always)]
pub(super) unsafe fn natural<S: Simd>(x: S) -> S {
    // SAFETY: arithmetic of vectors, whose instruction set the callers enable.
    unsafe {
        let (e, f, y) = parts(x);
        ends(x, joined(e, f, y))
    }
}

/// `ln(1 + t)` for `t ≥ 0`, or where `large` `ln 2a`.
#[inline(always)]
unsafe fn inverse<S: Simd>(a: S, t: S, large: S::Mask) -> S {
    // SAFETY: arithmetic of vectors, whose instruction set the callers enable.
    unsafe {
        let (zero, one) = (S::splat(0.0), S::splat(1.0));
        let whole = one.add(t);
        let back = whole.sub(one);
        let lost = one.sub(whole.sub(back)).add(t.sub(back));
        let rest = S::select(large, zero, lost.div(whole));
        let (e, f, y) = parts(S::select(large, a, whole));
        let e = S::select(large, e.add(one), e);
        joined(e, f, y.add(rest))
    }
}

/// An area function of a vector: the inverse of the hyperbolic sine, cosine or tangent.
#[inline(always)]
unsafe fn area<S: Simd>(x: S, math: Math) -> S {
    // SAFETY: arithmetic of vectors, whose instruction set the callers enable.
    unsafe {
        let (zero, one, infinity) = (S::splat(0.0), S::splat(1.0), S::splat(f32::INFINITY));
        let (a, nan) = (x.abs(), S::splat(f32::NAN));
        // From here on 1 is nothing beside a square.
        let large = S::splat(8_192.0).lt(a);
        let y = if math == Math::Atanh {
            let t = a.add(a).div(one.sub(a));
            let none = one.lt(zero);
            let y = inverse(a, t, none).mul(S::splat(0.5));
            let y = S::select(a.eq(one), infinity, y);
            S::select(one.lt(a), nan, y).copysign(x)
        } else if math == Math::Asinh {
            let near = S::select(large, one, a);
            let square = near.mul(near);
            let t = near.add(square.div(one.add(square.add(one).sqrt())));
            let y = inverse(a, t, large);
            S::select(a.eq(infinity), a, y).copysign(x)
        } else {
            let t = S::select(large, one, x).sub(one);
            let t = t.add(t.mul(t.add(S::splat(2.0))).sqrt());
            let y = inverse(x, t, large);
            let y = S::select(x.lt(one), nan, y);
            S::select(x.eq(infinity), x, y)
        };
        S::select(x.eq(x), y, x)
    }
}

/// Area functions.
///
/// # Safety
/// Both have `n` elements, and are the same or do not overlap.
pub(super) unsafe fn areas(math: Math, n: usize, x: *const f32, y: *mut f32) {
    #[inline(always)]
    unsafe fn strip<S: Simd>(math: Math, n: usize, x: *const f32, y: *mut f32) {
        // SAFETY: both have `n` elements.
        unsafe { over_vectors!(n, v: x => area(v, math), y) }
    }
    // SAFETY: both have `n` elements, and are the same or do not overlap.
    unsafe { dispatch!(strip(math: Math, n: usize, x: *const f32, y: *mut f32)) }
}

/// A base of logarithms.
struct Base {
    /// The logarithm of 2 in two parts, the first short enough that its products with exponents are
    /// exact.
    two: (f32, f32),
    /// The logarithm of e, in two parts, the first of 12 bits.
    e: (f32, f32),
    /// The same as the nearest number, and what that lacks.
    factor: f32,
    rest: f32,
}

const TWO: Base = Base {
    two: (1.0, 0.0),
    e: (1.442_871_1, -1.760_528_5e-4),
    factor: std::f32::consts::LOG2_E,
    rest: 1.925_963e-8,
};
const TEN: Base = Base {
    two: (0.301_025_4, 4.605_039e-6),
    e: (0.434_326_17, -3.168_997e-5),
    factor: std::f32::consts::LOG10_E,
    rest: -1.010_305_1e-8,
};

/// The logarithm to another base.
#[inline(always)]
unsafe fn of_base<S: Simd>(x: S, base: &Base) -> S {
    // SAFETY: arithmetic of vectors, whose instruction set the callers enable.
    unsafe {
        let (e, f, y) = parts(x);
        if S::FUSED {
            let rest = f.mul(f).fma(S::splat(-0.5), y);
            let low = f.fma(S::splat(base.rest), rest.mul(S::splat(base.factor)));
            let low = e.fma(S::splat(base.two.1), low);
            let low = f.fma(S::splat(base.factor), low);
            return ends(x, e.fma(S::splat(base.two.0), low));
        }
        let half = f.mul(f).mul(S::splat(0.5));
        // The mantissa's logarithm is `high + low`, the former of 12 bits, so that its product with
        // the first part of the factor is exact.
        let near = f.sub(half);
        let rest = f.sub(near).sub(half).add(y);
        let wide = near.mul(S::splat(4_097.0));
        let high = wide.sub(wide.sub(near));
        let low = near.sub(high).add(rest);
        let (first, second) = (S::splat(base.e.0), S::splat(base.e.1));
        let small = near.add(rest).mul(second);
        let small = low.fma(first, small);
        let small = e.fma(S::splat(base.two.1), small);
        let large = high.mul(first);
        // The greater of the two is the exponent's, unless that is 0.
        let whole = e.mul(S::splat(base.two.0));
        let sum = whole.add(large);
        let lost = large.sub(sum.sub(whole));
        ends(x, sum.add(lost.add(small)))
    }
}

/// Base-2 logarithms, or base-10 ones.
///
/// # Safety
/// Both have `n` elements, and are the same or do not overlap.
pub(super) unsafe fn run(n: usize, x: *const f32, y: *mut f32, ten: bool) {
    #[inline(always)]
    unsafe fn strip<S: Simd>(n: usize, x: *const f32, y: *mut f32, ten: bool) {
        let base = if ten { &TEN } else { &TWO };
        // SAFETY: both have `n` elements.
        unsafe { over_vectors!(n, v: x => of_base(v, base), y) }
    }
    // SAFETY: both have `n` elements, and are the same or do not overlap.
    unsafe { dispatch!(strip(n: usize, x: *const f32, y: *mut f32, ten: bool)) }
}
