//! Layout of one chunk: decides which groups break, with the crate `pretty`.
//!
//! The operations become a document in an arena that lives as long as the chunk: texts are borrowed
//! from the chunk's buffer, and a traversal of the document meets its parts in the order of the
//! text, one at a time ([`document`] builds it from the end).
//!
//! Invariant: nothing recurses over the depth of the operations. `pretty` keeps its pending work in
//! lists, the arena drops its nodes one by one, and frames here are a list as well.

use pretty::{Arena, Doc, DocAllocator, RefDoc, Render, RenderAnnotated};

use super::sink::Op;

/// Returns the width of a text in columns.
pub(super) fn columns(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.chars().count()
    }
}

/// Marks text with its own line breaks: a multi-line comment, or unformatted text.
struct Verbatim;

type Node<'a> = RefDoc<'a, Verbatim>;

/// The operations to lay out, and their position.
pub(super) struct Chunk<'a> {
    pub(super) ops: &'a [Op],
    /// The buffer with the operations' texts.
    pub(super) buf: &'a str,
    /// The indentation of lines outside all nests.
    pub(super) indent: usize,
    /// The column of the first text.
    pub(super) column: usize,
}

/// Lays out a chunk.
pub(super) fn lay_out(chunk: &Chunk, width: usize, out: &mut String) {
    let arena = Arena::new();
    let doc = document(&arena, chunk);
    let mut lines = Lines {
        out,
        spaces: chunk.column,
        verbatim: Copying::No,
    };
    let written = doc.render_raw(width, &mut lines);
    debug_assert!(written.is_ok(), "what cannot be flat is in no flat group");
}

/// Builds the document of a chunk.
fn document<'a>(arena: &'a Arena<'a, Verbatim>, chunk: &Chunk<'a>) -> Node<'a> {
    let node = |doc| arena.alloc(doc);
    let append = |first: Node<'a>, second: Node<'a>| match (&*first, &*second) {
        (Doc::Nil, _) => second,
        (_, Doc::Nil) => first,
        _ => node(Doc::Append(first, second)),
    };
    let nil = node(Doc::Nil);
    let line_break = node(Doc::Hardline);
    let text = |text: &'a str| node(Doc::BorrowedText(text));
    let line = node(Doc::FlatAlt(line_break, text(" ")));
    let soft = node(Doc::FlatAlt(line_break, nil));
    let comma = node(Doc::FlatAlt(text(","), nil));
    // Computed once for the chunk rather than for each of its texts.
    let (plain, ascii) = (!chunk.buf.contains('\n'), chunk.buf.is_ascii());
    let nests = |op: &Op| match op {
        Op::Nest => 2,
        Op::Unnest => -2,
        _ => 0,
    };
    let mut margin = chunk.indent as isize + chunk.ops.iter().map(nests).sum::<isize>();
    // The documents that follow groups and nests whose beginnings have not been reached yet.
    let mut behind = Vec::new();
    let mut rest = nil;
    // The width from here to the next possible break.
    let mut tail = 0;
    for op in chunk.ops.iter().rev() {
        margin -= nests(op);
        let doc = match *op {
            Op::Text { start, end } => {
                let piece = &chunk.buf[start as usize..end as usize];
                let own = if ascii { piece.len() } else { columns(piece) };
                tail += own;
                match plain || !piece.contains('\n') {
                    true if own == piece.len() => text(piece),
                    true => node(Doc::RenderLen(own, text(piece))),
                    false => verbatim(arena, piece, tail, margin),
                }
            }
            Op::LastComma => {
                // It only exists in a broken list, and the text after a group is measured as in a
                // broken one.
                tail += 1;
                comma
            }
            Op::Line | Op::Soft | Op::Hard | Op::Blank => {
                tail = 0;
                let op = match op {
                    Op::Line => line,
                    Op::Soft => soft,
                    _ => line_break,
                };
                // The indentation of the new line is determined by what follows it, so the break
                // belongs to the same nest as that.
                rest = node(Doc::Append(op, rest));
                continue;
            }
            Op::Close | Op::Unnest => {
                behind.push(std::mem::replace(&mut rest, nil));
                continue;
            }
            Op::Open | Op::Nest | Op::Broken => {
                let outside = behind.pop();
                let inside = match op {
                    Op::Open if outside.is_some() => node(Doc::Group(rest)),
                    Op::Nest => node(Doc::Nest(2, rest)),
                    _ => rest,
                };
                rest = outside.unwrap_or(nil);
                inside
            }
        };
        rest = append(doc, rest);
    }
    while let Some(outside) = behind.pop() {
        rest = append(rest, outside);
    }
    // The indentation of the first line is written with its text.
    let column = node(Doc::RenderLen(chunk.column, text("")));
    let rest = node(Doc::Nest(chunk.indent as isize, rest));
    node(Doc::Append(column, rest))
}

/// Builds a text with line breaks: groups around it are never flat, it is measured together with
/// the text after it (`tail` in all), and the line continues at the column where its last line
/// ends.
fn verbatim<'a>(
    arena: &'a Arena<'a, Verbatim>,
    text: &'a str,
    tail: usize,
    margin: isize,
) -> Node<'a> {
    let node = |doc| arena.alloc(doc);
    let last = text.rfind('\n').map_or(0, |at| at + 1);
    let column = columns(&text[last..]) as isize;
    // Only a break can move to an earlier column; `Lines` does not write this one.
    let end = node(Doc::Append(node(Doc::Hardline), node(Doc::Nil)));
    let text = node(Doc::RenderLen(tail, node(Doc::BorrowedText(text))));
    let all = node(Doc::Append(text, end));
    let all = node(Doc::Nest(column - margin, all));
    let all = node(Doc::Annotated(Verbatim, all));
    node(Doc::FlatAlt(all, node(Doc::Fail)))
}

/// The progress of writing a verbatim text.
enum Copying {
    No,
    Begun,
    Done,
}

/// Writes lines without trailing spaces: spaces are held back until text follows.
struct Lines<'a> {
    out: &'a mut String,
    spaces: usize,
    verbatim: Copying,
}

impl Lines<'_> {
    fn push(&mut self, text: &str) {
        let spaces = std::mem::take(&mut self.spaces);
        self.out.extend(std::iter::repeat_n(' ', spaces));
        self.out.push_str(text);
    }
}

impl Render for Lines<'_> {
    type Error = std::fmt::Error;

    fn write_str(&mut self, text: &str) -> Result<usize, Self::Error> {
        match self.verbatim {
            Copying::No if text == "\n" => {
                self.spaces = 0;
                self.out.push('\n');
            }
            Copying::No => {
                let shown = text.trim_end_matches(' ');
                if !shown.is_empty() {
                    self.push(shown);
                }
                self.spaces += text.len() - shown.len();
            }
            Copying::Begun => {
                self.push(text);
                self.verbatim = Copying::Done;
            }
            Copying::Done => {}
        }
        Ok(text.len())
    }

    fn fail_doc(&self) -> Self::Error {
        std::fmt::Error
    }
}

impl RenderAnnotated<'_, Verbatim> for Lines<'_> {
    fn push_annotation(&mut self, _: &Verbatim) -> Result<(), Self::Error> {
        self.verbatim = Copying::Begun;
        Ok(())
    }

    fn pop_annotation(&mut self) -> Result<(), Self::Error> {
        self.verbatim = Copying::No;
        Ok(())
    }
}
