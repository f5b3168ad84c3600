//! Arc sine and arc cosine of float32: polynomials up to a half, beyond that by the sine of half
//! the angle that is missing, which is precise where the arc ends. And the angle of a point, by the arc
//! tangent of the lesser coordinate by the greater one.

use super::simd::{Simd, dispatch, over_vectors, poly};
use super::vmath::atan;

/// The larger part of a quarter of a turn; the rest is what float32 loses of it.
const QUARTER: f32 = std::f32::consts::FRAC_PI_2;
const QUARTER_LOW: f32 = -4.371_139e-8;

/// `asin x`, or `acos x` with `cosine`; NaN beyond 1.
#[inline(always)]
pub(super) fn arc<S: Simd>(x: S, cosine: bool) -> S {
    let (one, half) = (x.same(1.0), x.same(0.5));
    let a = x.abs();
    let far = half.lt(a);
    let z = S::select(far, one.sub(a).mul(half), a.mul(a));
    let s = S::select(far, z.sqrt(), a);
    // Minimax for `(asin s - s) / s^3`.
    let p = poly(
        z,
        &[
            0.042_166_308,
            0.024_179_514,
            0.045_470_376,
            0.074_952_975,
            0.166_667_52,
        ],
    );
    let y = p.mul(z).fma(s, s);
    let (quarter, low) = (x.same(QUARTER), x.same(QUARTER_LOW));
    let twice = y.add(y);
    if !cosine {
        let beyond = quarter.sub(twice.sub(low));
        // What is not a number is neither far nor near.
        return S::select(far, beyond, y).copysign(x);
    }
    let near = quarter.sub(y.copysign(x).sub(low));
    // `acos -x` is half a turn less `acos x`.
    let back = quarter.add(quarter.sub(twice.sub(low.add(low))));
    let beyond = S::select(x.lt(x.same(0.0)), back, twice);
    S::select(far, beyond, near)
}

/// Arc sine, or arc cosine with `cosine`.
///
/// # Safety
/// Both have `n` elements, and are the same or do not overlap.
pub(super) unsafe fn run(n: usize, x: *const f32, y: *mut f32, cosine: bool) {
    #[inline(always)]
    unsafe fn strip<S: Simd>(n: usize, x: *const f32, y: *mut f32, cosine: bool) {
        // SAFETY: both have `n` elements.
        unsafe { over_vectors!(n, v: x => arc(v, cosine), y) }
    }
    // SAFETY: both have `n` elements, and are the same or do not overlap.
    unsafe { dispatch!(strip(n: usize, x: *const f32, y: *mut f32, cosine: bool)) }
}

/// The angle of the point with the coordinates `y` and `x`.
#[inline(always)]
fn angle<S: Simd>(y: S, x: S) -> S {
    let (zero, one) = (y.same(0.0), y.same(1.0));
    let (up, along) = (y.abs(), x.abs());
    let steep = along.lt(up);
    let top = S::select(steep, along, up);
    let below = S::select(steep, up, along);
    // Of infinities and zeros, too.
    let t = S::select(top.eq(below), one, top.div(below));
    let t = S::select(top.eq(zero), zero, t);
    let a = atan(t);
    let (quarter, half) = (y.same(QUARTER), y.same(2.0 * QUARTER));
    let (low, half_low) = (y.same(QUARTER_LOW), y.same(2.0 * QUARTER_LOW));
    // The sign of `x`, as a number.
    let side = one.copysign(x);
    // A steep point is beside a quarter of a turn, another one that is back beside a half.
    let beside = quarter.sub(a.mul(side).sub(low));
    let back = half.sub(a.sub(half_low));
    let flat = S::select(side.lt(zero), back, a);
    let turned = S::select(steep, beside, flat);
    // What is not a number is in none of the comparisons.
    let known = S::select(x.eq(x), turned, x);
    S::select(y.eq(y), known.copysign(y), y)
}

/// Angles of points.
///
/// # Safety
/// All have `n` elements; `z` is `y`, `x` or overlaps neither.
pub(super) unsafe fn angles(n: usize, y: *const f32, x: *const f32, z: *mut f32) {
    #[inline(always)]
    unsafe fn strip<S: Simd>(n: usize, y: *const f32, x: *const f32, z: *mut f32) {
        // SAFETY: all have `n` elements.
        unsafe { over_vectors!(n, v: y, u: x => angle(v, u), z) }
    }
    // SAFETY: all have `n` elements; `z` is one of the others or overlaps neither.
    unsafe { dispatch!(strip(n: usize, y: *const f32, x: *const f32, z: *mut f32)) }
}
