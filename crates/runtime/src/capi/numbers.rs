//! Scalar helpers of generated code.

use crate::scalar::ipow;

/// `base` to the power `exponent`, wrapping; a negative exponent truncates toward zero: 0, or ±1
/// for a base of ±1.
#[unsafe(no_mangle)]
pub extern "C" fn rx_ipow(base: i64, exponent: i64) -> i64 {
    ipow(base, exponent)
}
