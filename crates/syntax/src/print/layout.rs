//! Laying one chunk out: which groups break, by the crate `pretty`.
//!
//! The operations become a document in an arena that lives as long as the chunk: texts are borrowed
//! from the chunk's buffer, and whoever reads the document meets its parts in the order of the
//! text, one at a time ([`document`] builds it from the end).
//!
//! Invariant: nothing recurses over the depth of the operations. `pretty` keeps lists of what is
//! still to be done, the arena drops its nodes one by one, and frames here are a list as well.

use pretty::{Arena, Doc, DocAllocator, RefDoc, Render, RenderAnnotated};

use super::sink::Op;

/// Columns that a text takes.
pub(super) fn columns(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.chars().count()
    }
}

/// Text with line breaks of its own: a comment of several lines, or what is not formatted.
struct Verbatim;

type Node<'a> = RefDoc<'a, Verbatim>;

/// What is laid out, and where.
pub(super) struct Chunk<'a> {
    pub(super) ops: &'a [Op],
    /// What the operations' texts are parts of.
    pub(super) buf: &'a str,
    /// The columns that lines outside of all nests begin with.
    pub(super) indent: usize,
    /// The column of the first text.
    pub(super) column: usize,
}

/// Writes a chunk.
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

/// The document of a chunk.
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
    // Asked once for the chunk, not for each of its texts.
    let (plain, ascii) = (!chunk.buf.contains('\n'), chunk.buf.is_ascii());
    let nests = |op: &Op| match op {
        Op::Nest => 2,
        Op::Unnest => -2,
        _ => 0,
    };
    let mut margin = chunk.indent as isize + chunk.ops.iter().map(nests).sum::<isize>();
    // What stands behind each group and nest whose beginning is not reached yet.
    let mut behind = Vec::new();
    let mut rest = nil;
    // The columns of what stands here up to the next possible break.
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
                // Only a broken list has it, and what follows a group is measured in a broken one.
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
                // The new line begins where what follows says, so something of the same nest does.
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
    // The first line's margin is written with its text.
    let column = node(Doc::RenderLen(chunk.column, text("")));
    let rest = node(Doc::Nest(chunk.indent as isize, rest));
    node(Doc::Append(column, rest))
}

/// A text with line breaks: no group around it is flat, what it is measured as includes what stands
/// behind it (`tail` in all), and the line goes on at the column where its last one ends.
fn verbatim<'a>(
    arena: &'a Arena<'a, Verbatim>,
    text: &'a str,
    tail: usize,
    margin: isize,
) -> Node<'a> {
    let node = |doc| arena.alloc(doc);
    let last = text.rfind('\n').map_or(0, |at| at + 1);
    let column = columns(&text[last..]) as isize;
    // A break is the only thing that moves to an earlier column; `Lines` does not write this one.
    let end = node(Doc::Append(node(Doc::Hardline), node(Doc::Nil)));
    let text = node(Doc::RenderLen(tail, node(Doc::BorrowedText(text))));
    let all = node(Doc::Append(text, end));
    let all = node(Doc::Nest(column - margin, all));
    let all = node(Doc::Annotated(Verbatim, all));
    node(Doc::FlatAlt(all, node(Doc::Fail)))
}

/// How far a verbatim text is written.
enum Copying {
    No,
    Begun,
    Done,
}

/// Lines without spaces at their ends: these are held back until text comes.
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
