//! Leaves: numbers and strings.

use relax_base::{Code, Diagnostic, Span, Symbol};

use super::Builder;
use crate::ast::*;

impl Builder<'_> {
    pub(crate) fn int(&mut self, l: u32, r: u32) -> ExprId {
        let (value, suffix) = self.read_int(l, r, false);
        self.expr(ExprKind::Int { value, suffix }, l, r)
    }

    pub(crate) fn negative_int(&mut self, l: u32, r: u32) -> ExprId {
        let (value, suffix) = self.read_int(l, r, true);
        self.expr(ExprKind::Int { value, suffix }, l, r)
    }

    pub(crate) fn dim_int(&mut self, l: u32, r: u32) -> TypeId {
        let (value, suffix) = self.read_int(l, r, false);
        self.ty(TypeExprKind::Int { value, suffix }, l, r)
    }

    /// Builds `-t`, folded into integers.
    pub(crate) fn dim_neg(&mut self, t: TypeId, l: u32, r: u32) -> TypeId {
        let node = &mut self.ast.types[t];
        if let TypeExprKind::Int { value, .. } = &mut node.kind
            && *value > 0
        {
            *value = -*value;
            node.span = Span::new(l, r);
            return t;
        }
        self.ty(TypeExprKind::Neg(t), l, r)
    }

    pub(crate) fn float(&mut self, l: u32, r: u32) -> ExprId {
        let kind = self.read_float(l, r, false);
        self.expr(kind, l, r)
    }

    pub(crate) fn negative_float(&mut self, l: u32, r: u32) -> ExprId {
        let kind = self.read_float(l, r, true);
        self.expr(kind, l, r)
    }

    /// Applies the minus signs before a literal, except the innermost, which the value includes.
    /// `first` is the position of the outermost sign.
    pub(crate) fn negate(&mut self, e: ExprId, first: u32, r: u32) -> ExprId {
        let (l, inner) = (first, self.ast.exprs[e].span.start);
        let signs = self.slice(l, inner).bytes().filter(|&b| b == b'-').count();
        let node = &mut self.ast.exprs[e];
        // A comment between the signs may contain minus signs; then only the number of signs is
        // wrong.
        if signs % 2 == 0 && signs > 0 {
            match &mut node.kind {
                ExprKind::Int { value, .. } => *value = value.wrapping_neg(),
                ExprKind::Float { value, .. } => *value = -*value,
                _ => {}
            }
        }
        node.span = Span::new(l, r);
        e
    }

    fn read_int(&mut self, l: u32, r: u32, negative: bool) -> (i64, NumSuffix) {
        let text = self.slice(l, r);
        let digits = text.find(['i', 'u']).unwrap_or(text.len());
        let suffix = self.suffix(&text[digits..], l + digits as u32, r);
        let value = text[..digits].parse::<u64>().ok().and_then(|v| {
            if negative {
                0i64.checked_sub_unsigned(v)
            } else if matches!(suffix, NumSuffix::U(64)) {
                Some(v as i64)
            } else {
                i64::try_from(v).ok()
            }
        });
        let bits = match suffix {
            NumSuffix::I(b) if b < 64 => Some((-(1i64 << (b - 1)), (1i64 << (b - 1)) - 1)),
            NumSuffix::U(b) if b < 64 => Some((0, (1i64 << b) - 1)),
            _ => None,
        };
        let fits = |v: &i64| bits.is_none_or(|(lo, hi)| (lo..=hi).contains(v));
        let value = value.filter(fits).unwrap_or_else(|| {
            let what = match suffix {
                NumSuffix::None => "64 bits".to_string(),
                s => format!("`{s}`"),
            };
            self.diagnostics.push(Diagnostic::error(
                Code(110),
                Span::new(l, r),
                format!("this integer does not fit into {what}"),
            ));
            0
        });
        (value, suffix)
    }

    fn read_float(&mut self, l: u32, r: u32, negative: bool) -> ExprKind {
        let text = self.slice(l, r);
        let (digits, suffix) = if let Some(rest) = text.strip_prefix("inf") {
            ("inf", rest)
        } else if let Some(rest) = text.strip_prefix("nan") {
            ("nan", rest)
        } else {
            let end = text.find(['f', 'b']).unwrap_or(text.len());
            text.split_at(end)
        };
        let suffix = self.suffix(suffix, r - suffix.len() as u32, r);
        let value: f64 = digits.parse().unwrap_or(f64::NAN);
        if value.is_infinite() && digits != "inf" {
            self.diagnostics.push(Diagnostic::error(
                Code(110),
                Span::new(l, r),
                "this number is too large for any floating point type",
            ));
        }
        let value = if negative { -value } else { value };
        ExprKind::Float { value, suffix }
    }

    fn suffix(&mut self, text: &str, l: u32, r: u32) -> NumSuffix {
        NumSuffix::parse(text).unwrap_or_else(|| {
            self.diagnostics.push(
                Diagnostic::error(
                    Code(110),
                    Span::new(l, r),
                    format!("`{text}` is no number suffix"),
                )
                .note(
                    "suffixes are `f`, `f16`, `f32`, `f64`, `bf16`, `i8` to `i64`, `u8` to `u64`",
                ),
            );
            NumSuffix::None
        })
    }

    pub(crate) fn string(&mut self, l: u32, r: u32) -> ExprId {
        let value = unescape(self.slice(l, r));
        self.expr(ExprKind::Str(value), l, r)
    }
}

/// Returns the value of a string literal with its quotes. Unknown escapes are kept: TVM printed
/// some strings unescaped.
pub(crate) fn unescape(text: &str) -> Symbol {
    let inner = &text[1..];
    let inner = inner.strip_suffix(['"', '\'']).unwrap_or(inner);
    if !inner.contains('\\') {
        return Symbol::new(inner);
    }
    let mut out = Vec::with_capacity(inner.len());
    let bytes = inner.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        if bytes[i] != b'\\' || i + 1 == bytes.len() {
            out.push(bytes[i]);
            i += 1;
            continue;
        }
        let simple = match bytes[i + 1] {
            b'n' => Some(b'\n'),
            b't' => Some(b'\t'),
            b'r' => Some(b'\r'),
            b'"' => Some(b'"'),
            b'\'' => Some(b'\''),
            b'\\' => Some(b'\\'),
            _ => None,
        };
        i += 2;
        if let Some(b) = simple {
            out.push(b);
            continue;
        }
        match bytes[i - 1] {
            b'x' => {
                let digits = hex_digits(&bytes[i..], 2);
                match u8::from_str_radix(digits, 16) {
                    Ok(b) => out.push(b),
                    Err(_) => out.extend(b"\\x"),
                }
                i += digits.len();
            }
            first @ b'0'..=b'7' => {
                // Up to three octal digits, as C prints them.
                let mut value = u32::from(first - b'0');
                let mut n = 1;
                while n < 3 && i < bytes.len() && (b'0'..=b'7').contains(&bytes[i]) {
                    value = value * 8 + u32::from(bytes[i] - b'0');
                    i += 1;
                    n += 1;
                }
                out.push(value as u8);
            }
            other => out.extend([b'\\', other]),
        }
    }
    Symbol::new(&String::from_utf8_lossy(&out))
}

fn hex_digits(bytes: &[u8], most: usize) -> &str {
    let n = bytes
        .iter()
        .take(most)
        .take_while(|b| b.is_ascii_hexdigit())
        .count();
    std::str::from_utf8(&bytes[..n]).unwrap_or("")
}
