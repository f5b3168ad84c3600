//! Decoding of input bytes to text: encodings, terminal colours.
//!
//! Invariant: characters that are removed from a line are replaced by blanks at its end, so that a
//! location in the text is a location of the same line and, except for a change of the encoding, of
//! the same file offset of the line's beginning; its column is the one that a reader sees.
//!
//! Invariant: a clean text is only scanned, never copied.

use relax_base::Code;

/// A note about a text that was read in another form than it will be written in.
pub const READ_AS: Code = Code(121);

/// The text of a file, and notes on its decoding.
#[derive(Debug, Default)]
pub struct Decoded {
    /// The text.
    pub text: String,
    /// The offset of the first invalid bytes, if there are any.
    pub bad: Option<usize>,
    /// The notes, each with its code and the offset in the text that it refers to.
    pub notes: Vec<(Code, usize, String)>,
}

/// Decodes bytes as text. Invalid bytes become replacement characters.
pub fn decode(bytes: Vec<u8>) -> Decoded {
    let mut out = characters(bytes);
    if memchr::memchr(ESCAPE, out.text.as_bytes()).is_some() {
        let (text, first, count) = without_escapes(&out.text);
        out.text = text;
        if count > 0 {
            let s = if count == 1 { "" } else { "s" };
            let what = format!("{count} terminal control sequence{s} (colours) left out");
            out.notes.push((READ_AS, first, what));
        }
    }
    out
}

fn characters(mut bytes: Vec<u8>) -> Decoded {
    if let Some((units, order)) = utf16(&bytes) {
        let text: Result<String, _> = char::decode_utf16(units.iter().copied()).collect();
        let bad = text.is_err();
        let text = text.unwrap_or_else(|_| String::from_utf16_lossy(&units));
        let first = text.find('\u{FFFD}').filter(|_| bad);
        return Decoded {
            text,
            bad: first,
            notes: vec![(READ_AS, 0, format!("read as UTF-16 ({order})"))],
        };
    }
    if bytes.starts_with(b"\xEF\xBB\xBF") {
        bytes.drain(..3);
    }
    match String::from_utf8(bytes) {
        Ok(text) => Decoded {
            text,
            ..Decoded::default()
        },
        Err(e) => Decoded {
            bad: Some(e.utf8_error().valid_up_to()),
            text: String::from_utf8_lossy(e.as_bytes()).into_owned(),
            notes: Vec::new(),
        },
    }
}

/// Returns whether bytes are a text in UTF-16.
pub fn is_utf16(bytes: &[u8]) -> bool {
    utf16(&bytes[..bytes.len().min(64)]).is_some()
}

/// Returns the code units of a text in UTF-16, recognised by a byte-order mark, or by zeros in
/// every other byte of its beginning.
fn utf16(bytes: &[u8]) -> Option<(Vec<u16>, &'static str)> {
    let zero = |at: usize| bytes.iter().skip(at).step_by(2).take(8).all(|&b| b == 0);
    let some = |at: usize| bytes.iter().skip(at).step_by(2).take(8).all(|&b| b != 0);
    let long = bytes.len() >= 8 && bytes.len().is_multiple_of(2);
    let (rest, little) = match bytes {
        [0xFF, 0xFE, rest @ ..] => (rest, true),
        [0xFE, 0xFF, rest @ ..] => (rest, false),
        _ if long && zero(1) && some(0) => (bytes, true),
        _ if long && zero(0) && some(1) => (bytes, false),
        _ => return None,
    };
    let unit = |pair: &[u8]| match little {
        true => u16::from_le_bytes([pair[0], pair[1]]),
        false => u16::from_be_bytes([pair[0], pair[1]]),
    };
    let order = if little {
        "little-endian"
    } else {
        "big-endian"
    };
    Some((rest.chunks_exact(2).map(unit).collect(), order))
}

const ESCAPE: u8 = 0x1B;

/// Removes the control sequences of terminals and appends as many blanks to their lines; returns
/// the text, the offset of the first sequence, and their number.
fn without_escapes(text: &str) -> (String, usize, usize) {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let (mut from, mut owed, mut count, mut first) = (0, 0, 0, 0);
    let pad = |out: &mut String, owed: &mut usize| {
        out.extend(std::iter::repeat_n(' ', std::mem::take(owed)));
    };
    for at in memchr::memchr2_iter(ESCAPE, b'\n', bytes) {
        if at < from {
            continue;
        }
        if bytes[at] == b'\n' {
            if owed > 0 {
                let end = at - usize::from(at > from && bytes[at - 1] == b'\r');
                out.push_str(&text[from..end]);
                pad(&mut out, &mut owed);
                from = end;
            }
            continue;
        }
        let len = sequence(&bytes[at..]);
        out.push_str(&text[from..at]);
        if count == 0 {
            first = out.len();
        }
        count += 1;
        owed += len;
        from = at + len;
    }
    out.push_str(&text[from..]);
    pad(&mut out, &mut owed);
    (out, first, count)
}

/// Returns the length of the control sequence at the beginning of some bytes.
fn sequence(bytes: &[u8]) -> usize {
    let ends = |from: usize, last: &dyn Fn(u8) -> bool| {
        let line = bytes[from..].iter().take_while(|&&b| b != b'\n');
        let found = line.clone().position(|&b| last(b));
        found.map_or(from, |i| from + i + 1)
    };
    match bytes.get(1) {
        // CSI: parameters, then a letter.
        Some(b'[') => ends(2, &|b| (0x40..=0x7E).contains(&b)),
        // OSC (titles, links): up to BEL, or to the backslash of ST.
        Some(b']') => ends(2, &|b| b == 7 || b == b'\\'),
        Some(b'(' | b')') if bytes.len() > 2 && bytes[2].is_ascii() => 3,
        Some(b) if b.is_ascii() && *b != b'\n' => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> Decoded {
        decode(bytes.to_vec())
    }

    #[test]
    fn encodings() {
        assert_eq!(text(b"\xEF\xBB\xBFdef").text, "def");
        let little: Vec<u8> = "def @größe"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        assert_eq!(text(&little).text, "def @größe");
        let marked: Vec<u8> = [vec![0xFF, 0xFE], little].concat();
        assert_eq!(text(&marked).text, "def @größe");
        assert_eq!(text(&marked).notes.len(), 1);
        let big: Vec<u8> = "\u{FEFF}%x"
            .encode_utf16()
            .flat_map(u16::to_be_bytes)
            .collect();
        assert_eq!(text(&big).text, "%x");
        assert_eq!(text(b"a\xFFb").bad, Some(1));
        assert_eq!(text(b"").text, "");
    }

    #[test]
    fn colours_leave_blanks_at_the_end_of_the_line() {
        let coloured = text(b"\x1b[34mdef\x1b[0m @\x1b[1mf\x1b[0m()\r\nx\x1b[0m");
        assert_eq!(coloured.text, "def @f()                 \r\nx    ");
        assert_eq!(coloured.text.len(), 32);
        assert_eq!(coloured.notes.len(), 1);
        assert_eq!(text(b"\x1b]0;title\x07x").text, "x          ");
        assert_eq!(text(b"\x1b").text, " ");
        assert_eq!(text(b"\x1b[\n").text, "  \n");
    }
}
