//! The context pass in streaming mode: lexer, pass and parser are interleaved, and no list of all
//! tokens is ever built. Files without errors are read this way; after an error, all tokens are
//! needed.

use relax_base::SourceFile;

use super::window::Window;
use super::{Pass, Prepared};
use crate::lex::{Lexed, Lexer, Token};

/// A bound on the pass's bounded look-aheads and look-backs.
const REACH: usize = 3072;
/// The number of steps that the pass makes at a time.
const STEPS: usize = 512;

/// Prepared tokens, created on demand.
pub(crate) struct Stream<'s> {
    pass: Pass<'s>,
    lexer: Lexer<'s>,
    lexed_all: bool,
    /// The index of the pass's next token.
    at: usize,
    /// The index of the current segment.
    segment: usize,
    /// The parser's next token, and the end of the tokens that are ready for it.
    next: usize,
    ready: usize,
    finished: bool,
}

impl<'s> Stream<'s> {
    pub(crate) fn new(file: &'s SourceFile) -> Stream<'s> {
        Stream {
            pass: Pass::new(file, Window::default(), file.text.contains(":-")),
            lexer: Lexer::new(file, file.span()),
            lexed_all: false,
            at: 0,
            segment: 0,
            next: 0,
            ready: 0,
            finished: false,
        }
    }

    /// Continues the pass for a while; returns false at the end.
    fn advance(&mut self) -> bool {
        if self.finished {
            return false;
        }
        let out = &mut self.pass.out.tokens;
        if out.since(0).len() > 2 * REACH {
            out.forget(self.next.min(out.len().saturating_sub(REACH)));
        }
        for _ in 0..STEPS {
            if !self.lexed_all && self.pass.input.len() < self.at + REACH {
                self.pass.input.forget(self.at.saturating_sub(REACH / 2));
                while self.pass.input.len() < self.at + 2 * REACH {
                    match self.lexer.next() {
                        Some(t) => self.pass.input.push(t),
                        None => {
                            self.lexed_all = true;
                            break;
                        }
                    }
                }
                self.pass.partial = !self.lexed_all;
            }
            if self.at >= self.pass.input.len() {
                self.pass.finish();
                self.finished = true;
                break;
            }
            self.at = self.pass.step(self.at);
        }
        true
    }

    /// Starts the next item or expression; returns whether it is an item.
    pub(crate) fn segment(&mut self) -> Option<bool> {
        loop {
            let out = &self.pass.out;
            let closed = out.segments.get(self.segment).copied();
            if let Some(s) = closed.or(self.pass.segment) {
                self.next = s.start;
                self.ready = s.start;
                return Some(s.item);
            }
            if !self.advance() {
                return None;
            }
        }
    }

    /// Returns the next token of the segment.
    #[inline]
    pub(crate) fn token(&mut self) -> Option<Token> {
        if self.next == self.ready && !self.more() {
            return None;
        }
        let t = self.pass.out.tokens.get(self.next);
        self.next += 1;
        t
    }

    /// Makes more tokens of the segment available; at its end, moves on to the next and returns
    /// false.
    fn more(&mut self) -> bool {
        loop {
            let out = &self.pass.out;
            let closed = out.segments.get(self.segment).map(|s| s.end);
            self.ready = closed.unwrap_or(out.tokens.len());
            if self.next < self.ready {
                return true;
            }
            if closed.is_some() || !self.advance() {
                self.segment += 1;
                return false;
            }
        }
    }

    /// Returns the first two tokens of the segment.
    pub(crate) fn peek(&mut self) -> Vec<Token> {
        let from = self.next;
        let two = [self.token(), self.token()];
        if two[1].is_none() && two[0].is_some() {
            // The end was reached and passed; go back.
            self.segment -= 1;
        }
        self.next = from;
        two.into_iter().flatten().collect()
    }

    /// Returns whether no error was reported, and no decision was based on an incomplete
    /// look-ahead.
    pub(crate) fn is_clean(&self) -> bool {
        let out = &self.pass.out;
        self.lexer.diagnostics.is_empty()
            && out.diagnostics.is_empty()
            && out.open_end.is_none()
            && !self.pass.cut.get()
    }

    /// Returns whether the text has headers before its parts.
    pub(crate) fn has_parts(&self) -> bool {
        self.pass.out.parts
    }

    /// Returns the headers and the comments, after everything was read.
    pub(crate) fn finish(self) -> (Prepared, Lexed) {
        let lexed = Lexed {
            tokens: Vec::new(),
            comments: self.lexer.comments,
            diagnostics: self.lexer.diagnostics,
        };
        (self.pass.out, lexed)
    }
}
