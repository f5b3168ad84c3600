//! Interleaves the comments of the original text with the printed tokens.
//!
//! The printer emits the tokens of the text in their order, so the position of a comment is the
//! pair of tokens between which it occurs, and no comment can be lost or moved to another
//! construct.
//!
//! Invariant: each printed token is the next token of the original, except for commas and
//! semicolons that may be inserted or omitted, and empty lists of type parameters, `<>` and `[]`,
//! that are omitted. If this is ever violated, formatting fails and changes nothing.

use relax_base::{SourceFile, Span, Symbol};

use super::sink::Sink;
use crate::lex::{Comment, Token};

/// The original text, and how much of it has been printed.
pub(crate) struct Comments<'a> {
    file: &'a SourceFile,
    tokens: &'a [Token],
    comments: &'a [Comment],
    /// Where tokens start that a space precedes, in order.
    apart: &'a [u32],
    token: usize,
    comment: usize,
    /// The end of the last token or comment taken from the original.
    end: u32,
    /// The end of the range that is copied verbatim.
    copied: u32,
    failed: bool,
}

impl<'a> Comments<'a> {
    /// The tokens that start at `apart` do not touch those before them.
    pub(crate) fn new(
        file: &'a SourceFile,
        tokens: &'a [Token],
        comments: &'a [Comment],
        apart: &'a [u32],
    ) -> Self {
        Comments {
            file,
            tokens,
            comments,
            apart,
            token: 0,
            comment: 0,
            end: file.start,
            copied: 0,
            failed: false,
        }
    }

    fn newlines(&self, from: u32, to: u32) -> usize {
        self.file.newlines(Span::new(from, to.max(from)))
    }

    fn next_token_start(&self) -> u32 {
        let next = self.tokens.get(self.token);
        next.map_or(self.file.span().end, |t| t.start)
    }

    /// Returns the end of an empty list of type parameters, if one comes next and contains no
    /// comment.
    fn empty_list(&self) -> Option<Token> {
        let (open, close) = (
            self.tokens.get(self.token)?,
            self.tokens.get(self.token + 1)?,
        );
        let pair = (self.file.slice(open.span()), self.file.slice(close.span()));
        let empty = matches!(pair, ("<", ">") | ("[", "]"));
        let commented = self
            .comments
            .get(self.comment)
            .is_some_and(|c| c.span.start < close.start);
        (empty && !commented).then_some(*close)
    }

    /// Returns the last of several tokens that together make up `text`.
    fn pieces(&self, next: Token, text: &str) -> Option<usize> {
        let end = next.start + text.len() as u32;
        if end > self.file.span().end || !text.contains('.') {
            return None;
        }
        let from = (next.start - self.file.start) as usize;
        let same = self.file.text.get(from..from + text.len()) == Some(text);
        let last = self.tokens[self.token..]
            .iter()
            .position(|t| t.end >= end)?
            + self.token;
        (same && self.tokens[last].end == end).then_some(last)
    }

    /// Returns the next comment, if it precedes the next token.
    fn next_comment(&self) -> Option<Comment> {
        let c = *self.comments.get(self.comment)?;
        (c.span.start < self.next_token_start()).then_some(c)
    }
}

impl Sink<'_> {
    /// Returns whether the current text is copied from the original.
    pub(super) fn skipping(&self) -> bool {
        self.comments
            .as_ref()
            .is_some_and(|w| w.copied > w.next_token_start().min(w.file.span().end - 1))
    }

    /// Prints a token, preceded by the comments before it.
    pub(super) fn token_with_comments(&mut self, text: &str) {
        let Some(w) = &mut self.comments else { return };
        loop {
            let Some(src) = w.tokens.get(w.token).copied() else {
                if text != "," && text != ";" {
                    w.failed = true;
                }
                break;
            };
            let original = w.file.slice(src.span());
            if original == text {
                self.comments_before(src.start);
                self.take(text);
                return;
            }
            if let Some(last) = w.pieces(src, text) {
                // A name of several tokens, `%input.1`.
                self.comments_before(src.start);
                if let Some(w) = &mut self.comments {
                    w.token = last;
                }
                self.take(text);
                return;
            }
            if original == "," || original == ";" {
                // Omitted in the output.
                w.end = src.end;
                w.token += 1;
                continue;
            }
            if text != "," && text != ";" {
                if let Some(close) = w.empty_list() {
                    w.end = close.end;
                    w.token += 2;
                    continue;
                }
                w.failed = true;
                return;
            }
            break;
        }
        if !self.skipping() {
            self.raw(text);
        }
    }

    fn take(&mut self, text: &str) {
        let skip = self.skipping();
        let mut apart = false;
        if let Some(w) = &mut self.comments {
            let source = w.tokens[w.token];
            apart = w.apart.binary_search(&source.start).is_ok();
            w.end = source.end.max(w.copied);
            w.token += 1;
        }
        if !skip {
            if apart && !self.after_gap() {
                self.raw(" ");
            }
            self.raw(text);
        }
    }

    /// Prints the original's tokens up to `end` verbatim, without spaces between them.
    pub(super) fn literal(&mut self, end: u32) {
        loop {
            let Some(w) = &self.comments else { return };
            let Some(src) = w.tokens.get(w.token).copied() else {
                return;
            };
            if src.start >= end {
                return;
            }
            // The metadata section extends to the end of the file.
            let text = w.file.slice(src.span()).trim_end();
            self.comments_before(src.start);
            self.take(text);
        }
    }

    /// Prints the next token of the original verbatim.
    pub(super) fn next_as_is(&mut self) {
        let Some(w) = &self.comments else { return };
        if let Some(t) = w.tokens.get(w.token) {
            let end = t.end;
            self.literal(end);
        }
    }

    /// Returns the tokens of a projection that ends at `end`, after its operand.
    pub(super) fn projection(&self, end: u32) -> Option<Vec<Symbol>> {
        let w = self.comments.as_ref()?;
        let i = w.tokens.partition_point(|t| t.end < end);
        let last = w.tokens.get(i)?;
        let text = w.file.slice(last.span());
        let mut out = Vec::new();
        if !text.starts_with('.') {
            out.push(Symbol::new("."));
        }
        out.push(Symbol::new(text));
        Some(out)
    }

    /// Skips an optional comma of the original; returns whether there was one, without a comment
    /// before it.
    pub(super) fn pass_comma(&mut self) -> bool {
        if let Some(w) = &mut self.comments
            && let Some(src) = w.tokens.get(w.token)
            && w.file.slice(src.span()) == ","
            && w.next_comment().is_none()
        {
            w.end = src.end;
            w.token += 1;
            return true;
        }
        false
    }

    /// Skips a semicolon of the original at the end of a block, likewise.
    fn pass_last_semicolon(&mut self) -> bool {
        if let Some(w) = &mut self.comments
            && let Some(&[semicolon, close, ..]) = w.tokens.get(w.token..)
            && w.file.slice(semicolon.span()) == ";"
            && w.file.slice(close.span()) == "}"
            && w.next_comment().is_none()
        {
            w.end = semicolon.end;
            w.token += 1;
            return true;
        }
        false
    }

    /// Prints the comments before the token that begins at `start`.
    fn comments_before(&mut self, start: u32) {
        let next = self
            .comments
            .as_ref()
            .and_then(|w| w.comments.get(w.comment));
        if next.is_some_and(|c| c.span.start < start) {
            let held = self.hold();
            self.comments_up_to(start);
            self.release(held);
        }
    }

    fn comments_up_to(&mut self, start: u32) {
        loop {
            let Some(w) = &self.comments else { return };
            let Some(c) = w.comments.get(w.comment).copied() else {
                return;
            };
            if c.span.start >= start {
                return;
            }
            let own_line = w.end == w.file.start || w.newlines(w.end, c.span.start) > 0;
            let blank = w.newlines(w.end, c.span.start) > 1;
            if own_line {
                if !self.at_line_start() {
                    self.clear_break();
                    self.take_separator();
                    self.break_here();
                }
                if blank {
                    self.blank();
                }
            }
            self.comment(c, !own_line);
            let Some(w) = &self.comments else { return };
            let next = match w.comments.get(w.comment) {
                Some(n) if n.span.start < start => n.span.start,
                _ => start,
            };
            let newlines = w.newlines(w.end, next);
            if c.line || newlines > 0 && own_line {
                self.require_break();
                if next == start && newlines > 1 {
                    self.break_now();
                    self.blank();
                }
            } else if next != start || !self.separator_follows() {
                self.raw(" ");
            }
        }
    }

    /// Returns whether the next token is a separator, which is not preceded by a space.
    fn separator_follows(&self) -> bool {
        self.comments.as_ref().is_some_and(|w| {
            let next = w.tokens.get(w.token).map(|t| w.file.slice(t.span()));
            matches!(next, Some("," | ";"))
        })
    }

    fn break_now(&mut self) {
        if !self.at_line_start() {
            self.hard_without_comments();
        }
    }

    fn hard_without_comments(&mut self) {
        self.clear_break();
        self.break_here();
    }

    /// Prints one comment; `inline` ones follow the text before them.
    fn comment(&mut self, c: Comment, inline: bool) {
        let Some(w) = &mut self.comments else { return };
        let text = w.file.slice(c.span).trim_end();
        if is_fmt(text, "off") {
            let on = w.comments[w.comment..]
                .iter()
                .position(|c| is_fmt(w.file.slice(c.span), "on"));
            let end = match on {
                Some(i) => {
                    let last = w.comments[w.comment + i];
                    w.comment += i + 1;
                    last.span.end
                }
                None => {
                    w.comment = w.comments.len();
                    w.file.span().end
                }
            };
            let from = c.span.start - w.file.start;
            let copied = w.file.text[from as usize..(end - w.file.start) as usize].trim_end();
            w.copied = end;
            w.end = end;
            self.verbatim(copied);
            return;
        }
        w.comment += 1;
        w.end = c.span.end;
        if w.copied > c.span.start {
            return;
        }
        let next = w.tokens.get(w.token).map(|t| w.file.slice(t.span()));
        let before_closing = next.is_none_or(|t| matches!(t, ")" | "]" | "}" | ">" | "," | ";"));
        let next_line = w.newlines(c.span.end, w.next_token_start()) > 0;
        if inline && !self.at_line_start() {
            if c.line || before_closing || next_line {
                // It belongs to the text before it.
                self.take_separator();
                self.raw(" ");
            } else if !self.after_gap() {
                self.raw(" ");
            }
        }
        if text.contains('\n') {
            self.verbatim(text);
            self.clear_break();
        } else {
            self.raw(text);
        }
        if c.line {
            self.require_break();
        }
    }

    /// Prints the comments at the end of the original's current line.
    pub(super) fn trailing(&mut self) {
        loop {
            let Some(w) = &self.comments else { return };
            let Some(c) = w.next_comment() else { return };
            if w.newlines(w.end, c.span.start) > 0 {
                return;
            }
            let next = w.next_token_start();
            if !c.line && w.newlines(c.span.end, next) == 0 && next < w.file.span().end {
                return;
            }
            self.comment(c, true);
        }
    }

    /// Prints the comments before a closing bracket, with the indentation of the bracket's content.
    pub(super) fn comments_before_closing(&mut self) {
        if self.comments.is_none() || self.skipping() {
            return;
        }
        self.trailing();
        loop {
            let Some(w) = &self.comments else { return };
            let Some(c) = w.next_comment() else {
                // There may be comments both before and after the comma or semicolon that follows
                // the last element.
                if !self.pass_comma() && !self.pass_last_semicolon() {
                    return;
                }
                self.trailing();
                continue;
            };
            let newlines = w.newlines(w.end, c.span.start);
            if newlines == 0 {
                self.comment(c, true);
                continue;
            }
            self.clear_break();
            if !self.at_line_start() {
                self.take_separator();
                self.break_here();
            }
            if newlines > 1 {
                self.blank();
            }
            self.comment(c, false);
        }
    }

    /// Returns whether a comment precedes the next token.
    pub(super) fn comment_follows(&self) -> bool {
        self.comments
            .as_ref()
            .is_some_and(|w| w.next_comment().is_some())
    }

    /// Returns whether the original has an empty line here.
    pub(super) fn blank_follows(&self) -> bool {
        self.comments.as_ref().is_some_and(|w| {
            let next = w
                .next_comment()
                .map_or(w.next_token_start(), |c| c.span.start);
            w.newlines(w.end, next) > 1
        })
    }

    /// Prints the remaining comments; returns whether the interleaving failed.
    pub(super) fn finish_comments(&mut self) -> bool {
        if self.comments.is_none() {
            return false;
        }
        self.pass_last();
        self.trailing();
        let end = self.comments.as_ref().map_or(0, |w| w.file.span().end + 1);
        self.clear_break();
        self.comments_before(end);
        self.clear_break();
        self.comments
            .as_ref()
            .is_some_and(|w| w.failed || w.token < w.tokens.len())
    }

    fn pass_last(&mut self) {
        if let Some(w) = &mut self.comments {
            while let Some(t) = w.tokens.get(w.token)
                && matches!(w.file.slice(t.span()), "," | ";")
            {
                w.end = t.end;
                w.token += 1;
            }
        }
    }
}

fn is_fmt(text: &str, what: &str) -> bool {
    let text = text.trim_start_matches(['/', '#', '*']).trim();
    text.strip_prefix("fmt:").is_some_and(|t| t.trim() == what)
}
