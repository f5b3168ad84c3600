//! Comparison of results.

use relax_tensor::{Tensor, Value};

fn kind(a: &Tensor, b: &Tensor) -> bool {
    a.dtype() == b.dtype() && a.shape() == b.shape()
}

/// Returns whether tensors are equal element by element; the sign of zeros counts, all NaNs are
/// equal.
pub fn same(a: &Tensor, b: &Tensor) -> bool {
    let equal = |i: usize| {
        if a.dtype().is_float() {
            let (x, y) = (a.get_f64(i), b.get_f64(i));
            x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan()
        } else {
            a.get_i64(i) == b.get_i64(i)
        }
    };
    kind(a, b) && (0..a.len()).all(equal)
}

/// Returns whether tensors are equal up to `relative` of the larger magnitude or `absolute`,
/// whichever is larger; NaN and infinities only equal themselves.
pub fn agree(a: &Tensor, b: &Tensor, relative: f64, absolute: f64) -> bool {
    let near = |i: usize| {
        if !a.dtype().is_float() {
            return a.get_i64(i) == b.get_i64(i);
        }
        let (x, y) = (a.get_f64(i), b.get_f64(i));
        x == y
            || x.is_nan() && y.is_nan()
            || (x - y).abs() <= (relative * x.abs().max(y.abs())).max(absolute)
                && (x - y).is_finite()
    };
    kind(a, b) && (0..a.len()).all(near)
}

/// Returns whether values are equal up to reordered rounding.
pub fn alike(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Tensor(a), Value::Tensor(b)) => {
            let (relative, absolute) = match (a.dtype().is_float(), a.dtype().bits) {
                (true, 16) => (4e-2, 4e-2),
                _ => (1e-4, 1e-5),
            };
            agree(a, b, relative, absolute)
        }
        (Value::Tuple(a), Value::Tuple(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b))
        }
        _ => a == b,
    }
}
