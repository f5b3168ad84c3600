//! Functions of float32 where vectors have least to spare: angles near quarter turns, and powers that are
//! whole.

mod common;

use common::everywhere;
use relax_runtime::capi::arrays::rx_vmath_f32;
use relax_runtime::capi::numbers::rx_math_f64;
use relax_runtime::kernels::math::Math;
use std::f64::consts::FRAC_PI_2;

/// Where results nearly vanish or are nearly infinite, all is due to the reduction; and where vectors
/// have arguments that are computed otherwise.
#[test]
fn values_near_quarter_turns_are_within_their_bounds() {
    let mut x: Vec<f32> = Vec::new();
    for n in (0..700).chain((700..50_000).step_by(7)) {
        let near = (f64::from(n) * FRAC_PI_2) as f32;
        x.extend([near.next_down(), near, near.next_up(), -near]);
    }
    everywhere(|_, isa| {
        for (math, bound) in [(Math::Sin, 2.0), (Math::Cos, 2.0), (Math::Tan, 1.0)] {
            let mut y = vec![0.0f32; x.len()];
            let (n, from, to) = (x.len() as i64, x.as_ptr(), y.as_mut_ptr());
            // SAFETY: both have as many elements.
            unsafe { rx_vmath_f32(math as i32, n, from, from, to) };
            for (&x, &y) in x.iter().zip(&y) {
                let exact = rx_math_f64(math as i32, f64::from(x), 0.0);
                let size = (exact.abs() as f32).max(f32::MIN_POSITIVE);
                let unit = f64::from(size.next_up()) - f64::from(size);
                let error = (f64::from(y) - exact).abs() / unit;
                assert!(
                    error <= bound,
                    "{math:?} {isa:?} {x:e}: {y:e}, {error} units"
                );
            }
        }
    });
}

/// Powers of whole numbers that float32 holds are exact.
#[test]
fn powers_of_whole_numbers_are_exact() {
    let (mut x, mut y, mut wanted) = (Vec::new(), Vec::new(), Vec::new());
    for base in 1..200i32 {
        for exponent in 0..9 {
            let power = f64::from(base).powi(exponent);
            if power < 16_777_216.0 {
                x.push(base as f32);
                y.push(exponent as f32);
                wanted.push(power as f32);
            }
        }
    }
    everywhere(|_, isa| {
        let mut z = vec![0.0f32; x.len()];
        let (n, a, b) = (x.len() as i64, x.as_ptr(), y.as_ptr());
        // SAFETY: all have as many elements.
        unsafe { rx_vmath_f32(Math::Pow as i32, n, a, b, z.as_mut_ptr()) };
        assert_eq!(z, wanted, "{isa:?}");
    });
}
