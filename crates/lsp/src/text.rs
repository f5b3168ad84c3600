//! Positions: byte offsets, and editors' lines and columns.

use lsp_types::{
    InitializeParams, Position, PositionEncodingKind, Range, TextDocumentContentChangeEvent,
};

/// The unit in which an editor counts columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Encoding {
    /// Bytes.
    Utf8,
    /// UTF-16 code units, which every editor supports.
    #[default]
    Utf16,
    /// Characters (code points).
    Utf32,
}

impl Encoding {
    /// Returns the preferred encoding of those a client offers: bytes need no conversion.
    pub fn choose(offered: &[PositionEncodingKind]) -> Encoding {
        if offered.contains(&PositionEncodingKind::UTF8) {
            Encoding::Utf8
        } else if offered.is_empty() || offered.contains(&PositionEncodingKind::UTF16) {
            Encoding::Utf16
        } else if offered.contains(&PositionEncodingKind::UTF32) {
            Encoding::Utf32
        } else {
            Encoding::Utf16
        }
    }

    /// Returns the encoding of a session.
    pub fn of(params: &InitializeParams) -> Encoding {
        let general = params.capabilities.general.as_ref();
        let offered = general.and_then(|g| g.position_encodings.as_deref());
        Encoding::choose(offered.unwrap_or_default())
    }

    /// Returns the encoding's name in the protocol.
    pub fn kind(self) -> PositionEncodingKind {
        match self {
            Encoding::Utf8 => PositionEncodingKind::UTF8,
            Encoding::Utf16 => PositionEncodingKind::UTF16,
            Encoding::Utf32 => PositionEncodingKind::UTF32,
        }
    }

    /// Returns the width of a text without line terminators, in columns.
    pub fn width(self, text: &str) -> u32 {
        let n = match self {
            Encoding::Utf8 => text.len(),
            _ if text.is_ascii() => text.len(),
            Encoding::Utf16 => text.chars().map(char::len_utf16).sum(),
            Encoding::Utf32 => text.chars().count(),
        };
        n as u32
    }

    /// Returns the byte offset of a column; the end of the line if it is shorter, and the start of
    /// a character inside it.
    fn byte(self, line: &str, col: u32) -> usize {
        if self == Encoding::Utf8 || line.is_ascii() {
            let mut at = (col as usize).min(line.len());
            while !line.is_char_boundary(at) {
                at -= 1;
            }
            return at;
        }
        let mut seen = 0;
        for (i, c) in line.char_indices() {
            let w = if self == Encoding::Utf16 {
                c.len_utf16()
            } else {
                1
            };
            if seen + w as u32 > col {
                return i;
            }
            seen += w as u32;
        }
        line.len()
    }
}

/// A text with its line starts.
#[derive(Clone, Debug, Default)]
pub struct Text {
    text: String,
    /// The offset of each line.
    lines: Vec<u32>,
    encoding: Encoding,
}

impl Text {
    /// Creates a text.
    pub fn new(text: String, encoding: Encoding) -> Text {
        let mut out = Text {
            text,
            lines: Vec::new(),
            encoding,
        };
        out.find_lines();
        out
    }

    fn find_lines(&mut self) {
        self.lines.clear();
        self.lines.push(0);
        let bytes = self.text.bytes().enumerate();
        let starts = bytes.filter(|b| b.1 == b'\n').map(|b| b.0 as u32 + 1);
        self.lines.extend(starts);
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Replaces a byte range, clamped to the text and to character boundaries.
    pub fn replace(&mut self, range: std::ops::Range<usize>, with: &str) {
        let mut start = range.start.min(self.text.len());
        let mut end = range.end.clamp(start, self.text.len());
        while !self.text.is_char_boundary(start) {
            start -= 1;
        }
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        self.text.replace_range(start..end, with);
        self.find_lines();
    }

    /// Makes an editor's change.
    pub fn change(&mut self, change: TextDocumentContentChangeEvent) {
        match change.range {
            Some(r) => self.replace(self.offset(r.start)..self.offset(r.end), &change.text),
            None => *self = Text::new(change.text, self.encoding),
        }
    }

    fn line(&self, line: usize) -> &str {
        let from = self.lines[line] as usize;
        let to = self.lines.get(line + 1);
        let to = to.map_or(self.text.len(), |&t| t as usize);
        self.text[from..to].trim_end_matches(['\n', '\r'])
    }

    /// Returns the byte offset of a position, or of the nearest one before.
    pub fn offset(&self, p: Position) -> usize {
        let line = p.line as usize;
        if line >= self.lines.len() {
            return self.text.len();
        }
        let text = self.line(line);
        self.lines[line] as usize + self.encoding.byte(text, p.character)
    }

    /// Returns the position of a byte offset.
    pub fn position(&self, offset: usize) -> Position {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        let line = self.lines.partition_point(|&s| s as usize <= offset) - 1;
        let before = &self.text[self.lines[line] as usize..offset];
        Position::new(line as u32, self.encoding.width(before))
    }

    /// Returns a cursor at the beginning.
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor {
            text: self,
            line: 0,
            offset: 0,
            column: 0,
        }
    }

    /// Returns the range of a byte range.
    pub fn range(&self, from: usize, to: usize) -> Range {
        Range::new(self.position(from), self.position(to))
    }

    /// Returns the encoding of columns.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }
}

/// A place in a text that only goes on: positions of many offsets in order cost a walk through the
/// text.
pub struct Cursor<'t> {
    text: &'t Text,
    line: usize,
    /// The offset of the place.
    offset: usize,
    column: u32,
}

impl Cursor<'_> {
    /// Returns the position of a byte offset at a boundary of characters, which is not before the
    /// last one.
    pub fn position(&mut self, offset: usize) -> Position {
        let Text { text, lines, .. } = self.text;
        let next = |line: usize| lines.get(line + 1).map(|s| *s as usize);
        while let Some(start) = next(self.line).filter(|s| *s <= offset) {
            (self.line, self.offset, self.column) = (self.line + 1, start, 0);
        }
        let passed = text.get(self.offset..offset).unwrap_or_default();
        self.column += self.text.encoding.width(passed);
        self.offset = offset;
        Position::new(self.line as u32, self.column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_finds_the_positions_of_offsets() {
        let content = "één\n\n😀 two\r\nthree";
        for encoding in [Encoding::Utf8, Encoding::Utf16, Encoding::Utf32] {
            let text = Text::new(content.to_owned(), encoding);
            let offsets = (0..=content.len()).filter(|k| content.is_char_boundary(*k));
            for step in [1, 2, 5] {
                let mut cursor = text.cursor();
                for offset in offsets.clone().step_by(step) {
                    assert_eq!(cursor.position(offset), text.position(offset), "{offset}");
                }
            }
        }
    }

    #[test]
    fn columns_count_as_asked() {
        for (encoding, col) in [
            (Encoding::Utf8, 6),
            (Encoding::Utf16, 3),
            (Encoding::Utf32, 2),
        ] {
            let t = Text::new("a\r\né😀x\n".into(), encoding);
            let x = t.as_str().find('x').expect("there");
            assert_eq!(t.position(x), Position::new(1, col));
            assert_eq!(t.offset(Position::new(1, col)), x);
            assert_eq!(t.offset(Position::new(0, 99)), 1);
            assert_eq!(t.offset(Position::new(9, 0)), t.as_str().len());
        }
        // Inside a surrogate pair: before the character.
        let t = Text::new("😀".into(), Encoding::Utf16);
        assert_eq!(t.offset(Position::new(0, 1)), 0);
    }
}
