//! Source files and positions in them.
//!
//! All files of a session share one position space, as in rustc: a [`Span`] is just two `u32`s, and
//! still identifies its file.

use std::sync::Arc;

/// A half-open byte range `[start, end)` in the position space of a [`SourceMap`]. `Span::NONE` is
/// the span of nodes without source text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The span of nodes that were not read from a file.
    pub const NONE: Span = Span { start: 0, end: 0 };
    /// Creates the span `[start, end)`.
    pub fn new(start: u32, end: u32) -> Span {
        Span { start, end }
    }
    /// Returns the smallest span that covers both; `NONE` is neutral.
    pub fn to(self, other: Span) -> Span {
        if self.is_none() {
            return other;
        }
        if other.is_none() {
            return self;
        }
        Span {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }
    /// Returns whether this is [`Span::NONE`].
    pub fn is_none(self) -> bool {
        self == Span::NONE
    }
    /// Returns the number of bytes.
    pub fn len(self) -> usize {
        (self.end - self.start) as usize
    }
    /// Returns whether the span is empty (an insertion point, or `NONE`).
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }
    /// Returns the empty span at the start.
    pub fn at_start(self) -> Span {
        Span {
            start: self.start,
            end: self.start,
        }
    }
    /// Returns the empty span at the end.
    pub fn at_end(self) -> Span {
        Span {
            start: self.end,
            end: self.end,
        }
    }
    /// Returns whether `pos` lies inside or at either end.
    pub fn touches(self, pos: u32) -> bool {
        self.start <= pos && pos <= self.end
    }
}

impl Default for Span {
    fn default() -> Self {
        Span::NONE
    }
}

impl std::fmt::Debug for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

/// A source file: its name, its text and its line starts.
#[derive(Debug)]
pub struct SourceFile {
    /// The name shown in diagnostics.
    pub name: String,
    /// The text. Invalid UTF-8 is replaced by replacement characters.
    pub text: Arc<str>,
    /// The position of the first byte in the source map's position space; at least 1.
    pub start: u32,
    line_starts: Vec<u32>,
}

/// A one-based line and a one-based column counted in characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineCol {
    /// One-based line.
    pub line: u32,
    /// One-based column, in characters.
    pub col: u32,
}

impl SourceFile {
    /// Returns the file at the same position with another text of the same length.
    pub fn with_text(&self, text: String) -> SourceFile {
        debug_assert_eq!(text.len(), self.text.len());
        SourceFile {
            name: self.name.clone(),
            line_starts: line_starts(&text),
            text: text.into(),
            start: self.start,
        }
    }
    /// Returns the span of the whole file.
    pub fn span(&self) -> Span {
        Span::new(self.start, self.start + self.text.len() as u32)
    }
    /// Returns the text of a span in this file.
    pub fn slice(&self, span: Span) -> &str {
        &self.text[(span.start - self.start) as usize..(span.end - self.start) as usize]
    }
    /// Returns the line and column of a position in this file.
    pub fn line_col(&self, pos: u32) -> LineCol {
        let offset = (pos - self.start).min(self.text.len() as u32);
        let line = self.line_starts.partition_point(|&s| s <= offset) - 1;
        let from = self.line_starts[line] as usize;
        let col = self
            .text
            .get(from..offset as usize)
            .map_or(0, |t| t.chars().count());
        LineCol {
            line: line as u32 + 1,
            col: col as u32 + 1,
        }
    }
    /// Returns the text of a one-based line, without the line terminator.
    pub fn line(&self, line: u32) -> &str {
        let i = line as usize - 1;
        let from = self.line_starts[i] as usize;
        let to = self
            .line_starts
            .get(i + 1)
            .map_or(self.text.len(), |&e| e as usize);
        self.text[from..to].trim_end_matches(['\n', '\r'])
    }
    /// Returns the number of line terminators in a span, ignoring parts outside of this file.
    pub fn newlines(&self, span: Span) -> usize {
        let line = |pos: u32| {
            let offset = pos.saturating_sub(self.start);
            self.line_starts.partition_point(|&s| s <= offset)
        };
        line(span.end).saturating_sub(line(span.start))
    }
    /// Returns the number of lines.
    pub fn line_count(&self) -> usize {
        self.line_starts.len()
    }
}

fn line_starts(text: &str) -> Vec<u32> {
    let ends = text.bytes().enumerate().filter(|b| b.1 == b'\n');
    std::iter::once(0)
        .chain(ends.map(|b| b.0 as u32 + 1))
        .collect()
}

/// All files of a session.
#[derive(Debug, Default)]
pub struct SourceMap {
    files: Vec<Arc<SourceFile>>,
}

impl SourceMap {
    /// Creates an empty map.
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds a file. Returns `None` when the position space (4 GiB over all files) is full.
    pub fn add(
        &mut self,
        name: impl Into<String>,
        text: impl Into<Arc<str>>,
    ) -> Option<Arc<SourceFile>> {
        let text = text.into();
        // Position 0 never belongs to a file, so that `Span::NONE` is invalid; each file takes one
        // position more than it has bytes, so that its end differs from the next file's start.
        let start = self.files.last().map_or(1, |f| f.span().end + 1);
        let len = u32::try_from(text.len()).ok()?;
        start.checked_add(len)?.checked_add(2)?;
        let file = Arc::new(SourceFile {
            name: name.into(),
            line_starts: line_starts(&text),
            text,
            start,
        });
        self.files.push(file.clone());
        Some(file)
    }
    /// Returns the file that contains a span; `None` for [`Span::NONE`] and foreign spans.
    pub fn file(&self, span: Span) -> Option<&Arc<SourceFile>> {
        let i = self.files.partition_point(|f| f.start <= span.start);
        let file = self.files.get(i.checked_sub(1)?)?;
        (span.end <= file.span().end).then_some(file)
    }
    /// Returns all files, in the order they were added.
    pub fn files(&self) -> &[Arc<SourceFile>] {
        &self.files
    }
}
