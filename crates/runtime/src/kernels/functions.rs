//! Element-wise functions by number, over strips.

use super::math::{Math, rx_math_f32};
use super::{arcs, by_double, doubles, logs, vmath, waves};

/// A function over a strip.
///
/// # Safety
/// `x` and `z`, and for functions of two arguments `y`, have `n` elements; `z` is one of the
/// others or overlaps none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_vmath_f32(
    function: i32,
    n: i64,
    x: *const f32,
    y: *const f32,
    z: *mut f32,
) {
    let Some(math) = Math::of(function) else {
        return;
    };
    // SAFETY: `x` and `z` have `n` elements, and `y` too where a function of two numbers reads it.
    unsafe {
        match math {
            Math::Exp => vmath::rx_vexp_f32(n, x, z),
            Math::Log => vmath::rx_vlog_f32(n, x, z),
            Math::Tanh => vmath::rx_vtanh_f32(n, x, z),
            Math::Erf => vmath::rx_verf_f32(n, x, z),
            Math::Sigmoid => vmath::rx_vsigmoid_f32(n, x, z),
            Math::Sqrt => vmath::rx_vsqrt_f32(n, x, z),
            Math::Rsqrt => vmath::rx_vrsqrt_f32(n, x, z),
            Math::Sin => vmath::rx_vsin_f32(n, x, z),
            Math::Cos => vmath::rx_vcos_f32(n, x, z),
            Math::Tan => waves::tangents(n.max(0) as usize, x, z),
            Math::Atan => vmath::rx_vatan_f32(n, x, z),
            Math::Sinh | Math::Cosh => {
                vmath::hyperbolics(n.max(0) as usize, x, z, math == Math::Cosh);
            }
            Math::Asin | Math::Acos => arcs::run(n.max(0) as usize, x, z, math == Math::Acos),
            Math::Log2 => logs::run(n.max(0) as usize, x, z, &logs::TWO),
            Math::Log10 => logs::run(n.max(0) as usize, x, z, &logs::TEN),
            Math::Asinh | Math::Acosh | Math::Atanh => logs::areas(math, n.max(0) as usize, x, z),
            Math::Atan2 => arcs::angles(n.max(0) as usize, x, y, z),
            Math::Fmod => vmath::remainders(n.max(0) as usize, x, y, z),
            Math::Pow => vmath::rx_vpow_f32(n, x, y, z),
            _ if by_double::knows(math) => by_double::run(math, n.max(0) as usize, x, y, z),
            _ => {
                for i in 0..n.max(0) as usize {
                    let second = if math.binary() { *y.add(i) } else { 0.0 };
                    *z.add(i) = rx_math_f32(function, *x.add(i), second);
                }
            }
        }
    }
}

/// A function over a strip of float64.
///
/// # Safety
/// As [`rx_vmath_f32`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_vmath_f64(
    function: i32,
    n: i64,
    x: *const f64,
    y: *const f64,
    z: *mut f64,
) {
    let Some(math) = Math::of(function) else {
        return;
    };
    // SAFETY: `x` and `z` have `n` elements, and `y` too where a function of two numbers reads it.
    unsafe { doubles::run(math, n.max(0) as usize, x, y, z) };
}
