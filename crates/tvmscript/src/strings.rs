//! Python literals: parsing and printing values.

/// Returns the value of an integer literal.
pub(crate) fn integer(text: &str) -> Option<i64> {
    let plain;
    let text = if text.contains('_') {
        plain = text.replace('_', "");
        &plain
    } else {
        text
    };
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Returns the content of a string literal, and the length of its opening quote in bytes.
pub(crate) fn content(text: &str) -> (&str, usize) {
    let n = if text.len() >= 6 && (text.starts_with("\"\"\"") || text.starts_with("'''")) {
        3
    } else {
        1
    };
    (text.get(n..text.len() - n).unwrap_or(""), n)
}

/// Returns the value of a string literal; `None` for an invalid escape.
pub(crate) fn unquote(text: &str) -> Option<String> {
    let (inner, _) = content(text);
    if !inner.contains('\\') {
        return Some(inner.to_owned());
    }
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let mut chars = rest[at + 1..].chars();
        let c = chars.next()?;
        let after = chars.as_str();
        let (value, used) = match c {
            '\n' => (None, 0),
            '\\' | '\'' | '"' => (Some(c), 0),
            'n' => (Some('\n'), 0),
            't' => (Some('\t'), 0),
            'r' => (Some('\r'), 0),
            'a' => (Some('\u{7}'), 0),
            'b' => (Some('\u{8}'), 0),
            'f' => (Some('\u{c}'), 0),
            'v' => (Some('\u{b}'), 0),
            'x' | 'u' | 'U' => {
                let n = match c {
                    'x' => 2,
                    'u' => 4,
                    _ => 8,
                };
                let code = u32::from_str_radix(after.get(..n)?, 16).ok()?;
                (Some(char::from_u32(code)?), n)
            }
            '0'..='7' => {
                let digits = after
                    .bytes()
                    .take(2)
                    .take_while(|b| (b'0'..=b'7').contains(b))
                    .count();
                let from = rest.len() - after.len() - 1;
                let code = u32::from_str_radix(&rest[from..from + 1 + digits], 8).ok()?;
                (Some(char::from_u32(code)?), digits)
            }
            // Python keeps unknown escapes.
            other => {
                out.push('\\');
                (Some(other), 0)
            }
        };
        out.extend(value);
        rest = &after[used..];
    }
    out.push_str(rest);
    Some(out)
}

/// Prints a string as a literal in double quotes.
pub(crate) fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if (c as u32) < 32 || c as u32 == 127 => {
                out.push_str(&format!("\\x{:02x}", c as u32))
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Prints a float as a literal that reads back as the same number.
pub(crate) fn float(x: f64, out: &mut String) {
    use std::fmt::Write;
    if x.is_nan() {
        out.push_str("float(\"nan\")");
    } else if x.is_infinite() {
        out.push_str(if x > 0.0 {
            "float(\"inf\")"
        } else {
            "float(\"-inf\")"
        });
    } else {
        let _ = write!(out, "{x:?}");
    }
}
