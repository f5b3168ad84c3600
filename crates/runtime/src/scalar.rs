//! Scalar helpers of generated code that Cranelift has no instruction for.

use half::f16;

/// The `float16` whose bits are the low half of `bits`, as `float32` (exact).
#[unsafe(no_mangle)]
pub extern "C" fn rx_f16_to_f32(bits: i32) -> f32 {
    f16::from_bits(bits as u16).to_f32()
}

/// The bits of the `float16` nearest to `value`, ties to even.
#[unsafe(no_mangle)]
pub extern "C" fn rx_f32_to_f16(value: f32) -> i32 {
    f16::from_f32(value).to_bits().into()
}

/// `base` to the power `exponent`, wrapping; a negative exponent truncates toward zero: 0, or ±1 for
/// a base of ±1.
#[unsafe(no_mangle)]
pub extern "C" fn rx_ipow(base: i64, exponent: i64) -> i64 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 if exponent % 2 == 0 => 1,
            -1 => -1,
            _ => 0,
        };
    }
    let (mut result, mut square, mut rest) = (1i64, base, exponent);
    while rest > 0 {
        if rest & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        rest >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers() {
        assert_eq!(rx_ipow(3, 4), 81);
        assert_eq!(rx_ipow(-1, -3), -1);
        assert_eq!(rx_ipow(2, -1), 0);
        assert_eq!(rx_ipow(7, 0), 1);
    }

    #[test]
    fn halves_round_to_even() {
        assert_eq!(rx_f16_to_f32(rx_f32_to_f16(1.0009766)), 1.0009766);
        assert_eq!(rx_f16_to_f32(rx_f32_to_f16(2049.0)), 2048.0);
    }
}
