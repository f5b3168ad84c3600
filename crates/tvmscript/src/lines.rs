//! Text to logical lines: tokens, joined where a bracket is open, with changes of indentation.
//!
//! Invariant: every line is scanned once, however it is broken; the work is linear in the text.
//!
//! Most bindings of a program share their type with others. A type that depends on nothing but its
//! text is a single token from its second occurrence on.

use logos::Logos;
use relax_base::{Diagnostic, SourceFile, Span};
use rustc_hash::FxHashMap;

use crate::ast::NodeId;
use crate::codes;
use crate::token::{self, Tok};

/// A token and its span.
pub(crate) type Token = (u32, Tok, u32);

/// One logical line.
#[derive(Default, Debug)]
pub(crate) struct Line {
    /// Its tokens, without the terminator.
    pub tokens: Vec<Token>,
    /// The number of blocks that end before it.
    pub dedents: u32,
    /// Whether it is indented deeper than the line before it.
    pub indent: bool,
    /// Whether it has an error that was reported: its tokens are then meaningless.
    pub bad: bool,
    /// The type that its [`Tok::Known`] refers to.
    pub same: Option<NodeId>,
}

/// Reads logical lines one by one.
pub(crate) struct Lines<'s> {
    file: &'s SourceFile,
    lexer: logos::Lexer<'s, Tok>,
    /// Columns of the open blocks: with tabs to multiples of eight, and with tabs as one column.
    columns: Vec<(u32, u32)>,
    /// The first token of the next line, if it was read already.
    ahead: Option<Token>,
    brackets: Vec<(Tok, Span)>,
    /// Types seen so far, by their text, and the length of the longest.
    types: FxHashMap<&'s str, NodeId>,
    longest: usize,
    pub diagnostics: Vec<Diagnostic>,
}

impl<'s> Lines<'s> {
    pub fn new(file: &'s SourceFile) -> Lines<'s> {
        Lines {
            file,
            lexer: Tok::lexer(&file.text),
            columns: vec![(0, 0)],
            ahead: None,
            brackets: Vec::new(),
            types: FxHashMap::default(),
            longest: 0,
            diagnostics: Vec::new(),
        }
    }

    fn raw(&mut self, bad: &mut bool) -> Option<Token> {
        loop {
            let (tok, range) = token::next(&mut self.lexer)?;
            let base = self.file.start;
            let (start, end) = (base + range.start as u32, base + range.end as u32);
            match tok {
                Some(Tok::OpenStr) | None => {
                    self.unreadable(Span::new(start, end));
                    *bad = true;
                }
                Some(tok) => return Some((start, tok, end)),
            }
        }
    }

    fn unreadable(&mut self, span: Span) {
        let text = self.file.slice(span);
        let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''));
        let d = match quote {
            Some(quote) => Diagnostic::error(codes::STRING, span, "the string is not closed")
                .primary("begins here")
                .suggest("close it", span.at_end(), quote.to_string()),
            None => {
                let message = format!("`{text}` has no meaning in TVMScript");
                Diagnostic::error(codes::STRING, span, message)
            }
        };
        self.diagnostics.push(d);
    }

    /// Reads the next line into `line`; returns whether there is one.
    pub fn next(&mut self, line: &mut Line) -> bool {
        line.tokens.clear();
        line.bad = false;
        line.same = None;
        (line.dedents, line.indent) = (0, false);
        let mut bad = false;
        let first = loop {
            match self.ahead.take().or_else(|| self.raw(&mut bad)) {
                Some((_, Tok::Newline, _)) if !bad => {}
                Some((_, Tok::Newline, _)) => return self.finish_bad(line),
                Some(token) => break token,
                None if bad => return self.finish_bad(line),
                None => return false,
            }
        };
        self.indentation(first.0, line);
        self.brackets.clear();
        self.rest(first, &mut bad, line);
        line.bad |= bad;
        true
    }

    fn finish_bad(&mut self, line: &mut Line) -> bool {
        line.bad = true;
        true
    }

    /// Reads tokens up to the end of the logical line.
    fn rest(&mut self, first: Token, bad: &mut bool, line: &mut Line) {
        let mut next = Some(first);
        let mut fresh = false;
        while let Some(token) = next {
            let (start, tok, end) = token;
            if tok == Tok::Newline {
                if self.brackets.is_empty() {
                    return;
                }
                fresh = true;
                next = self.raw(bad);
                continue;
            }
            if fresh && tok.starts_statement() {
                self.ahead = Some(token);
                break;
            }
            fresh = false;
            if tok.closing().is_some() {
                if self.brackets.len() == crate::DEPTH as usize {
                    let d = Diagnostic::error(
                        codes::BRACKET,
                        Span::new(start, end),
                        "brackets nest too deep",
                    )
                    .note("as in Python, 200 brackets may be open at a place");
                    self.diagnostics.push(d);
                    *bad = true;
                }
                self.brackets.push((tok, Span::new(start, end)));
            } else if tok.closes() {
                self.close(tok, Span::new(start, end), line);
            }
            line.tokens.push(token);
            if let [(_, Tok::Name, _), (_, Tok::Colon, _)] = line.tokens[..] {
                self.known_type(line);
            }
            next = self.raw(bad);
        }
        if let Some(&(tok, span)) = self.brackets.first() {
            line.bad = true;
            if !*bad {
                let text = self.file.slice(span);
                let mut d =
                    Diagnostic::error(codes::BRACKET, span, format!("`{text}` is never closed"));
                // Most likely, the bracket is missing at the end of the line that has the innermost
                // one.
                let (_, inner) = self.brackets[self.brackets.len() - 1];
                let at = self.line_end(inner.start);
                let missing = tok.closing().map_or("", |t| t.describe().trim_matches('`'));
                d = d.suggest(format!("insert `{missing}`"), at, missing);
                self.diagnostics.push(d);
            }
        }
    }

    /// Records the text of a type, which must have the same meaning on every line.
    pub fn remember(&mut self, span: Span, id: NodeId) -> bool {
        let text = self.file.slice(span);
        self.longest = self.longest.max(text.len());
        self.types.insert(text, id).is_none()
    }

    /// Reads the type of a binding as one token if the same text was read before. The text up to `
    /// = ` consisted of complete tokens then, so it does now.
    fn known_type(&mut self, line: &mut Line) {
        let rest = self.lexer.remainder();
        let text = rest.trim_start_matches(' ').as_bytes();
        // The search is bounded by the longest type, so that a line without `=` is not searched to
        // the end of the text.
        let near = &text[..text.len().min(self.longest + 3)];
        let mut signs = memchr::memchr_iter(b'=', near);
        let Some(at) =
            signs.find(|&i| i > 0 && near[i - 1] == b' ' && near.get(i + 1) == Some(&b' '))
        else {
            return;
        };
        let skip = rest.len() - text.len();
        let Some(&id) = self.types.get(&rest[skip..skip + at - 1]) else {
            return;
        };
        let start = self.file.start + (self.lexer.span().end + skip) as u32;
        self.lexer.bump(skip + at - 1);
        line.tokens.push((start, Tok::Known, start + at as u32 - 1));
        line.same = Some(id);
    }

    /// Returns the position after the last non-blank character of a line.
    fn line_end(&self, at: u32) -> Span {
        let from = (at - self.file.start) as usize;
        let rest = &self.file.text[from..];
        let len = rest.find('\n').unwrap_or(rest.len());
        let end = at + rest[..len].trim_end().len() as u32;
        Span::new(end, end)
    }

    fn close(&mut self, tok: Tok, span: Span, line: &mut Line) {
        let open = self.brackets.pop();
        match open {
            Some((open, _)) if open.closing() == Some(tok) => return,
            Some((open, at)) => {
                let want = open.closing().map_or("", |t| t.describe());
                let message = format!("{} closes nothing here", tok.describe());
                let d = Diagnostic::error(codes::BRACKET, span, message)
                    .primary(format!("expected {want}"))
                    .label(at, "this is open");
                self.diagnostics.push(d);
            }
            None => {
                let message = format!("{} closes nothing", tok.describe());
                let d =
                    Diagnostic::error(codes::BRACKET, span, message).suggest("remove it", span, "");
                self.diagnostics.push(d);
            }
        }
        line.bad = true;
    }

    /// Compares the indentation of the line that begins at `start` with the open blocks.
    fn indentation(&mut self, start: u32, line: &mut Line) {
        let at = (start - self.file.start) as usize;
        let text = &self.file.text[..at];
        let from = text.rfind(['\n', '\r']).map_or(0, |i| i + 1);
        let white = &text[from..];
        let (mut wide, mut narrow) = (0, 0);
        for c in white.bytes() {
            (wide, narrow) = match c {
                b'\t' => (wide / 8 * 8 + 8, narrow + 1),
                b'\x0c' => (0, 0),
                _ => (wide + 1, narrow + 1),
            };
        }
        let place = Span::new(self.file.start + from as u32, start);
        let own = (wide, narrow);
        let mut uneven = false;
        while let Some(&(w, n)) = self.columns.last() {
            uneven |= (wide.cmp(&w)) != (narrow.cmp(&n));
            if wide >= w || self.columns.len() == 1 {
                break;
            }
            self.columns.pop();
            line.dedents += 1;
        }
        let last = self.columns[self.columns.len() - 1];
        if uneven {
            let d = Diagnostic::error(
                codes::INDENTATION,
                place,
                "tabs and spaces are mixed in the indentation",
            )
            .note("how deep the line is depends on the width of a tab: use spaces");
            self.diagnostics.push(d);
        }
        if wide > last.0 {
            if line.dedents > 0 {
                let message = "the indentation is that of no block around it";
                let fix = " ".repeat(last.0 as usize);
                let d = Diagnostic::error(codes::INDENTATION, place, message).suggest(
                    "indent it like the block before",
                    place,
                    fix,
                );
                self.diagnostics.push(d);
            } else {
                line.indent = true;
                self.columns.push(own);
            }
        }
    }

    /// Undoes an indentation that no block requires.
    pub fn forget_indent(&mut self) {
        if self.columns.len() > 1 {
            self.columns.pop();
        }
    }
}
