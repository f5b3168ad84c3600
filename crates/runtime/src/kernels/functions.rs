//! Element-wise functions by number, over strips.

use super::math::{Math, single};
use super::{arcs, by_double, doubles, logs, vmath, waves};

/// A function over a strip.
///
/// # Safety
/// `x` and `z`, and for functions of two arguments `y`, have `n` elements; `z` is one of the
/// others or overlaps none.
pub unsafe fn over_f32(math: Math, n: usize, x: *const f32, y: *const f32, z: *mut f32) {
    // SAFETY: `x` and `z` have `n` elements, and `y` too where a function of two numbers reads it.
    unsafe {
        match math {
            Math::Exp => vmath::vexp(n, x, z),
            Math::Log => vmath::vlog(n, x, z),
            Math::Tanh => vmath::vtanh(n, x, z),
            Math::Erf => vmath::verf(n, x, z),
            Math::Sigmoid => vmath::vsigmoid(n, x, z),
            Math::Sqrt => vmath::vsqrt(n, x, z),
            Math::Rsqrt => vmath::vrsqrt(n, x, z),
            Math::Sin => vmath::vsin(n, x, z),
            Math::Cos => vmath::vcos(n, x, z),
            Math::Tan => waves::tangents(n, x, z),
            Math::Atan => vmath::vatan(n, x, z),
            Math::Sinh | Math::Cosh => {
                vmath::hyperbolics(n, x, z, math == Math::Cosh);
            }
            Math::Asin | Math::Acos => arcs::run(n, x, z, math == Math::Acos),
            Math::Log2 => logs::run(n, x, z, &logs::TWO),
            Math::Log10 => logs::run(n, x, z, &logs::TEN),
            Math::Asinh | Math::Acosh | Math::Atanh => logs::areas(math, n, x, z),
            Math::Atan2 => arcs::angles(n, x, y, z),
            Math::Fmod => vmath::remainders(n, x, y, z),
            Math::Pow => vmath::vpow(n, x, y, z),
            _ if by_double::knows(math) => by_double::run(math, n, x, y, z),
            _ => {
                for i in 0..n {
                    let second = if math.binary() { *y.add(i) } else { 0.0 };
                    *z.add(i) = single(math, *x.add(i), second);
                }
            }
        }
    }
}

/// A function over a strip of float64.
///
/// # Safety
/// As [`over_f32`].
pub unsafe fn over_f64(math: Math, n: usize, x: *const f64, y: *const f64, z: *mut f64) {
    // SAFETY: `x` and `z` have `n` elements, and `y` too where a function of two numbers reads it.
    unsafe { doubles::run(math, n, x, y, z) };
}
