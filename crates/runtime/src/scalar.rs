//! Scalar arithmetic of generated code for which Cranelift has no instruction.

/// `base` to the power `exponent`, wrapping; a negative exponent truncates toward zero: 0, or ±1
/// for a base of ±1.
pub fn ipow(base: i64, exponent: i64) -> i64 {
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
        assert_eq!(ipow(3, 4), 81);
        assert_eq!(ipow(-1, -3), -1);
        assert_eq!(ipow(2, -1), 0);
        assert_eq!(ipow(7, 0), 1);
    }
}
