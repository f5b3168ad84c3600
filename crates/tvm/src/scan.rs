//! The tokens of TVM's JSON: objects, arrays, strings and non-negative integers, read from bytes in
//! place.
//!
//! The dialect escapes only `\\`, `\"`, `\n`, `\r` and `\t` in strings; all other bytes are
//! literal, including control characters. Other JSON values are skipped where they may occur.

use std::borrow::Cow;

use crate::error::{Found, Mistake, codes};

/// A string in the file: the bytes between the quotes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Text {
    /// The first byte.
    pub(crate) start: u32,
    /// The length; the topmost bit says whether it contains escapes.
    len: u32,
}

const ESCAPES: u32 = 1 << 31;

impl Text {
    /// Returns the range of its bytes.
    pub(crate) fn range(self) -> std::ops::Range<usize> {
        let start = self.start as usize;
        start..start + (self.len & !ESCAPES) as usize
    }

    /// Returns its bytes with escapes resolved.
    pub(crate) fn bytes(self, file: &[u8]) -> Cow<'_, [u8]> {
        let raw = file.get(self.range()).unwrap_or_default();
        if self.len & ESCAPES == 0 {
            return raw.into();
        }
        let mut out = Vec::with_capacity(raw.len());
        let mut bytes = raw.iter();
        while let Some(&b) = bytes.next() {
            out.push(match (b, b == b'\\') {
                (_, true) => match bytes.next() {
                    Some(b'n') => b'\n',
                    Some(b'r') => b'\r',
                    Some(b't') => b'\t',
                    Some(&other) => other,
                    None => b,
                },
                _ => b,
            });
        }
        out.into()
    }
}

/// A cursor over bytes.
pub(crate) struct Scan<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) at: usize,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Scan<'a> {
        let mark = b"\xef\xbb\xbf";
        let at = if bytes.starts_with(mark) {
            mark.len()
        } else {
            0
        };
        Scan { bytes, at }
    }

    /// Creates an error at the current position.
    pub(crate) fn mistake(&self, message: impl Into<String>) -> Mistake {
        Mistake::new(codes::NO_GRAPH, self.at as u64, message)
    }

    /// Returns the next byte that is not white space, without consuming it.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        while let Some(&b) = self.bytes.get(self.at) {
            if !matches!(b, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(b);
            }
            self.at += 1;
        }
        None
    }

    /// Consumes the next byte that is not white space, which must be `wanted`.
    pub(crate) fn take(&mut self, wanted: u8) -> Found<()> {
        match self.peek() {
            Some(b) if b == wanted => {
                self.at += 1;
                Ok(())
            }
            found => Err(self.expected(&format!("`{}`", wanted as char), found)),
        }
    }

    fn expected(&self, wanted: &str, found: Option<u8>) -> Mistake {
        let found = match found {
            None => "the file ends".to_owned(),
            Some(b) => format!("there is `{}`", b.escape_ascii()),
        };
        let message = format!("the JSON graph is damaged at byte {}", self.at);
        self.mistake(message)
            .label(format!("{found} where {wanted} is expected"))
    }

    /// After an element, returns whether another one follows before `close`.
    pub(crate) fn more(&mut self, close: u8) -> Found<bool> {
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(b) if b == close => {
                self.at += 1;
                Ok(false)
            }
            found => Err(self.expected(&format!("`,` or `{}`", close as char), found)),
        }
    }

    /// After an opening bracket, returns whether there is anything inside.
    pub(crate) fn inside(&mut self, open: u8, close: u8) -> Found<bool> {
        self.take(open)?;
        if self.peek() == Some(close) {
            self.at += 1;
            return Ok(false);
        }
        Ok(true)
    }

    /// Scans a string; returns the range of its bytes, and whether it contains escapes.
    pub(crate) fn raw_string(&mut self) -> Found<(usize, usize, bool)> {
        if self.peek() != Some(b'"') {
            let found = self.bytes.get(self.at).copied();
            return Err(self.expected("a string", found));
        }
        let start = self.at + 1;
        let (mut from, mut escapes) = (start, false);
        loop {
            let rest = self.bytes.get(from..).unwrap_or_default();
            match memchr::memchr2(b'"', b'\\', rest) {
                Some(i) if rest[i] == b'"' => {
                    self.at = from + i + 1;
                    return Ok((start, from + i, escapes));
                }
                Some(i) => {
                    escapes = true;
                    from += i + 2;
                }
                None => {
                    let message = format!("the JSON graph ends inside a string (byte {start})");
                    return Err(self.mistake(message).label("the string begins here"));
                }
            }
        }
    }

    /// Scans a string of the node table.
    pub(crate) fn string(&mut self) -> Found<Text> {
        let (start, end, escapes) = self.raw_string()?;
        match (u32::try_from(start), u32::try_from(end - start)) {
            (Ok(start), Ok(len)) if len < ESCAPES => {
                let len = if escapes { len | ESCAPES } else { len };
                Ok(Text { start, len })
            }
            _ => {
                Err(self
                    .mistake("the nodes of a JSON graph may take 4 GiB, a string of them 2 GiB"))
            }
        }
    }

    /// Scans a non-negative integer.
    pub(crate) fn number(&mut self) -> Found<u32> {
        let first = self.peek();
        let (start, mut value) = (self.at, 0u64);
        while let Some(digit @ b'0'..=b'9') = self.bytes.get(self.at) {
            value = (value * 10 + u64::from(digit - b'0')).min(u64::from(u32::MAX));
            self.at += 1;
        }
        if self.at == start {
            return Err(self.expected("the number of a node", first));
        }
        Ok(value as u32)
    }

    /// Skips a value.
    pub(crate) fn skip(&mut self) -> Found<()> {
        let mut depth = 0u64;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.raw_string()?;
                }
                Some(b'{' | b'[') => {
                    depth += 1;
                    self.at += 1;
                    continue;
                }
                Some(b'}' | b']') if depth > 0 => {
                    depth -= 1;
                    self.at += 1;
                }
                Some(b',' | b':') if depth > 0 => {
                    self.at += 1;
                    continue;
                }
                Some(b) if b.is_ascii_alphanumeric() || b == b'-' => {
                    let more = |b: &u8| b.is_ascii_alphanumeric() || b"+-.".contains(b);
                    while self.bytes.get(self.at).is_some_and(more) {
                        self.at += 1;
                    }
                }
                found => return Err(self.expected("a value", found)),
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_hold_every_byte_and_five_escapes() {
        let file = b"\"a\x01\xff\\n\\\"\\\\\\q\"";
        let text = Scan::new(file).string().expect("a string");
        assert_eq!(&*text.bytes(file), b"a\x01\xff\n\"\\q");
    }

    #[test]
    fn values_are_passed_over_at_any_depth() {
        let deep = "[".repeat(200_000) + &"]".repeat(200_000) + " 1";
        let mut scan = Scan::new(deep.as_bytes());
        scan.skip().expect("a value");
        assert_eq!(scan.number(), Ok(1));
        for bad in ["", "]", "{\"a", "[1", "?"] {
            assert!(Scan::new(bad.as_bytes()).skip().is_err(), "{bad}");
        }
    }
}
