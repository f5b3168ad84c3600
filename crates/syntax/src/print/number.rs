//! Numbers and strings as text.

use crate::ast::NumSuffix;

/// Formats a number like C's `%g`: six significant digits, no trailing zeros. This is the default
/// of C++ streams, and so of TVM.
pub(crate) fn six_digits(value: f64) -> String {
    if value.is_nan() {
        return if value.is_sign_negative() {
            "-nan"
        } else {
            "nan"
        }
        .into();
    }
    if value.is_infinite() {
        return if value < 0.0 { "-inf" } else { "inf" }.into();
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0" } else { "0" }.into();
    }
    let scientific = format!("{value:.5e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        let decimals = usize::try_from(5 - exponent).unwrap_or(0);
        return trim_zeros(&format!("{value:.decimals$}")).to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim_zeros(digits), exponent.abs())
}

fn trim_zeros(text: &str) -> &str {
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.')
}

/// Returns the shortest text that reads back as the same value of the suffix's type.
pub(crate) fn shortest(value: f64, suffix: NumSuffix) -> String {
    if value.is_nan() {
        return if value.is_sign_negative() {
            "-nan"
        } else {
            "nan"
        }
        .into();
    }
    if value.is_infinite() {
        return if value < 0.0 { "-inf" } else { "inf" }.into();
    }
    let scientific = match suffix {
        NumSuffix::F | NumSuffix::Float(32) => format!("{:e}", value as f32),
        NumSuffix::Float(16) => fewest_digits(value, 10, -14),
        NumSuffix::Bf16 => fewest_digits(value, 7, -126),
        _ => format!("{value:e}"),
    };
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let power: i32 = exponent.parse().unwrap_or(0);
    if (-5..16).contains(&power) {
        // `{}` of a short decimal never needs an exponent here.
        let plain: f64 = scientific.parse().unwrap_or(value);
        return format!("{plain}");
    }
    let sign = if power < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", power.abs())
}

/// Returns the fewest decimal digits that round back to `value` in a binary format with `bits` bits
/// after the point and the smallest exponent `least`.
fn fewest_digits(value: f64, bits: i32, least: i32) -> String {
    let round = |v: f64| {
        if v == 0.0 {
            return v;
        }
        let unit = 2f64.powi((v.abs().log2().floor() as i32).max(least) - bits);
        (v / unit).round_ties_even() * unit
    };
    for digits in 0..9usize {
        let text = format!("{value:.digits$e}");
        if text.parse().map(round) == Ok(value) {
            return text;
        }
    }
    format!("{value:e}")
}

/// Formats a string literal with TVM's escapes; non-ASCII characters are kept if `unicode`.
pub(crate) fn quote(text: &str, unicode: bool) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            ' '..='~' => out.push(c),
            _ if unicode && !c.is_control() => out.push(c),
            _ => {
                let mut bytes = [0; 4];
                for b in c.encode_utf8(&mut bytes).bytes() {
                    out.push_str(&format!("\\x{b:02X}"));
                }
            }
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_digits_are_those_of_a_stream() {
        for (value, text) in [
            (1e-5, "1e-05"),
            (0.389998, "0.389998"),
            (1234567.0, "1.23457e+06"),
            (100000.0, "100000"),
            (0.0001, "0.0001"),
            (3.4028234663852886e38, "3.40282e+38"),
            (-2.5, "-2.5"),
        ] {
            assert_eq!(six_digits(value), text);
        }
    }

    #[test]
    fn shortest_text_reads_back() {
        assert_eq!(shortest(f64::from(0.1f32), NumSuffix::F), "0.1");
        assert_eq!(shortest(1e-30f32.into(), NumSuffix::F), "1e-30");
        assert_eq!(shortest(0.0999755859375, NumSuffix::Float(16)), "0.1");
        assert_eq!(shortest(65504.0, NumSuffix::Float(16)), "65500");
        assert_eq!(shortest(0.1, NumSuffix::Float(64)), "0.1");
    }
}
