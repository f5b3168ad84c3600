//! Whether two engines agree.

use relax_codegen::Value;
use relax_testkit::agree;

/// Equal up to what another order of roundings may change.
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Tensor(a), Value::Tensor(b)) => {
            let (relative, absolute) = match (a.dtype().is_float(), a.dtype().bits) {
                (true, 16) => (4e-2, 4e-2),
                _ => (1e-4, 1e-5),
            };
            agree(a, b, relative, absolute)
        }
        (Value::Tuple(a), Value::Tuple(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        _ => a == b,
    }
}
