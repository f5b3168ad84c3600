//! Functions of numbers alone.

use crate::kernels::math::{self, Math};
use crate::kernels::simd::isa;
use crate::scalar::ipow;

/// The instruction set of kernels: 0 portable, 1 AVX2, 2 AVX-512.
#[unsafe(no_mangle)]
pub extern "C" fn rx_isa() -> i32 {
    isa() as i32
}

/// One function value; NaN for an unknown number.
#[unsafe(no_mangle)]
pub extern "C" fn rx_math_f32(function: i32, x: f32, y: f32) -> f32 {
    Math::of(function).map_or(f32::NAN, |f| math::single(f, x, y))
}

/// One function value; NaN for an unknown number.
#[unsafe(no_mangle)]
pub extern "C" fn rx_math_f64(function: i32, x: f64, y: f64) -> f64 {
    Math::of(function).map_or(f64::NAN, |f| math::double(f, x, y))
}

/// `base` to the power `exponent`, wrapping; a negative exponent truncates toward zero: 0, or ±1
/// for a base of ±1.
#[unsafe(no_mangle)]
pub extern "C" fn rx_ipow(base: i64, exponent: i64) -> i64 {
    ipow(base, exponent)
}
