//! The pass between lexer and parser: decides what depends on context, and reports the errors that
//! are best detected here.
//!
//! One pass over the tokens follows the brackets and
//! - turns names into soft keywords (`data`, `where`, `shape`, …) in their contexts,
//! - turns `<` and `>` into brackets where they enclose types,
//! - balances the brackets, so that the parser never sees an unbalanced one,
//! - inserts a missing separator between two things that cannot be adjacent,
//! - cuts the file into items and expressions.
//!
//! Each repair reports its error, so the parser has nothing to add about it.
//!
//! Invariant: the pass looks ahead only over text that it does not look over again, or over a
//! bounded number of tokens: its time is linear in the text.

mod brackets;
mod keywords;
mod separators;
mod stream;
mod window;

use std::cell::Cell;

use relax_base::{Code, Diagnostic, SourceFile, Span};

use crate::lex::Token;
use crate::old::OldForm;
use crate::token::Tok;
use window::Window;

pub(crate) use stream::Stream;

/// A range of tokens that is parsed separately.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// An item, or else the expression of an expression file.
    pub(crate) item: bool,
}

/// The result of the pass.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    pub(crate) tokens: Window,
    pub(crate) segments: Vec<Segment>,
    pub(crate) version: Option<Span>,
    pub(crate) metadata: Option<Span>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Occurrences of earlier versions' forms.
    pub(crate) old: Vec<OldForm>,
    /// Whether there are headers before parts of the text.
    pub(crate) parts: bool,
    /// The end of the file's expression, if it ends in a binding without a body.
    pub(crate) open_end: Option<u32>,
    /// Whether there were more errors than are reported.
    pub(crate) unreported: bool,
}

/// The maximum number of reported errors.
pub(crate) const MOST_ERRORS: usize = 200;

/// The construct that an open bracket encloses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FrameKind {
    Top,
    /// `{ statements }`
    Block,
    /// The braces of a `match`.
    Arms,
    /// The braces of a data type.
    Ctors,
    /// Attributes in braces.
    AttrBraces,
    /// Parameters of a function.
    Params,
    /// Arguments of a call: `(` after an expression.
    Args,
    /// Any other `(`.
    Parens,
    Square,
    /// `<types>`
    Angle,
}

/// The construct that the next bracket of a frame belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pending {
    None,
    Match,
    Fn,
    Data,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    kind: FrameKind,
    opener: Token,
    pending: Pending,
    /// The first token of the current statement or element, if it has begun.
    first: Option<Tok>,
    /// Whether the current statement has its `=`, or the current clause its `=>`.
    bound: bool,
}

impl Frame {
    /// Records that a token belongs to the current statement or element, and may be its first.
    fn starts(&mut self, tok: Tok) {
        if self.first.is_none() {
            self.first = Some(tok);
            self.bound = false;
        }
    }
    /// Ends a statement or element.
    fn next(&mut self) {
        self.first = None;
        self.bound = false;
        self.pending = Pending::None;
    }
}

pub(crate) struct Pass<'s> {
    file: &'s SourceFile,
    input: Window,
    /// Whether more tokens follow those of `input`.
    partial: bool,
    /// Whether a look-ahead reached the end of the available tokens.
    cut: Cell<bool>,
    out: Prepared,
    frames: Vec<Frame>,
    segment: Option<Segment>,
    /// The current item at top level, if any.
    item: Option<Tok>,
    has_turnstile: bool,
    /// The parameter list that was closed last: the number of tokens up to its `)`, and its first
    /// token.
    params: Option<(usize, Option<Tok>)>,
    /// Whether the text has no `;`, computed on demand.
    bare: Option<bool>,
}

/// Runs the pass over all tokens of a file.
pub(crate) fn prepare(file: &SourceFile, tokens: Vec<Token>) -> Prepared {
    let turnstile = tokens.iter().any(|t| t.tok == Tok::Turnstile);
    let mut pass = Pass::new(file, Window::whole(tokens), turnstile);
    pass.out.tokens.reserve(pass.input.len() + 16);
    let mut i = 0;
    while i < pass.input.len() {
        i = pass.step(i);
    }
    pass.finish();
    pass.out
}

impl<'s> Pass<'s> {
    fn new(file: &'s SourceFile, input: Window, has_turnstile: bool) -> Pass<'s> {
        let bottom = Frame {
            kind: FrameKind::Top,
            opener: Token {
                tok: Tok::Error,
                word: false,
                start: file.start,
                end: file.start,
            },
            pending: Pending::None,
            first: None,
            bound: false,
        };
        Pass {
            file,
            input,
            partial: false,
            cut: Cell::new(false),
            out: Prepared::default(),
            frames: vec![bottom],
            segment: None,
            item: None,
            params: None,
            bare: None,
            has_turnstile,
        }
    }

    /// Records that a look-ahead ran to the end of the available tokens.
    fn ran_out(&self) {
        if self.partial {
            self.cut.set(true);
        }
    }

    fn top(&mut self) -> &mut Frame {
        self.frames
            .last_mut()
            .expect("the top frame is never popped")
    }

    fn kind(&self) -> FrameKind {
        self.frames.last().map_or(FrameKind::Top, |f| f.kind)
    }

    fn at(&self, i: usize) -> Option<Tok> {
        self.input.get(i).map(|t| t.tok)
    }

    fn text(&self, t: Token) -> &'s str {
        self.file.slice(t.span())
    }

    fn last(&self) -> Option<Token> {
        let from = self.segment.map_or(self.out.tokens.len(), |s| s.start);
        self.out.tokens.since(from).last().copied()
    }

    fn report(&mut self, d: Diagnostic) {
        if self.out.diagnostics.len() < MOST_ERRORS {
            self.out.diagnostics.push(d);
        } else {
            self.out.unreported = true;
        }
    }

    /// Returns the end of the text before the current token.
    fn end_of_last(&self) -> u32 {
        self.out.tokens.last().map_or(self.file.start, |t| t.end)
    }

    /// A fast path for tokens that are valid in place and unaffected by context, as most are:
    /// inside brackets, an operand that does not follow an operand, an operator, a separator, a
    /// bracket. None of the other checks of [`Pass::step`] apply to these.
    fn plain(&mut self, i: usize, t: Token) -> bool {
        if self.frames.len() == 1 {
            return false;
        }
        let Some(last) = self.out.tokens.last() else {
            return false;
        };
        match t.tok {
            Tok::Name if t.word => return false,
            Tok::Local
            | Tok::Graph
            | Tok::Global
            | Tok::Name
            | Tok::Int
            | Tok::Float
            | Tok::Str
            | Tok::True
            | Tok::False => {
                if keywords::ends_operand(last.tok) || last.tok == Tok::Def {
                    return false;
                }
            }
            Tok::Colon
            | Tok::Proj
            | Tok::Plus
            | Tok::Minus
            | Tok::Star
            | Tok::Slash
            | Tok::SlashSlash => {}
            Tok::Comma => {
                self.out.tokens.push(t);
                self.comma();
                return true;
            }
            Tok::Eq if self.kind() == FrameKind::Block => {
                self.top().starts(t.tok);
                self.top().bound = true;
                self.out.tokens.push(t);
                return true;
            }
            Tok::LParen if !last.word => {
                self.top().starts(t.tok);
                self.open(t);
                return true;
            }
            Tok::RParen => {
                self.top().starts(t.tok);
                self.close(i, t);
                return true;
            }
            Tok::Semi => {
                self.top().starts(t.tok);
                self.semicolon(i, t);
                return true;
            }
            _ => return false,
        }
        self.out.tokens.push(t);
        self.top().starts(t.tok);
        true
    }

    /// Ends a statement or element at a comma, but not between the variables of a loop's header.
    fn comma(&mut self) {
        let block = self.kind() == FrameKind::Block;
        let f = self.top();
        if !(block && !f.bound && matches!(f.first, Some(Tok::For | Tok::Name))) {
            f.next();
        }
    }

    /// Handles the token at `i` and returns the index of the next one to handle.
    fn step(&mut self, i: usize) -> usize {
        let Some(mut t) = self.input.get(i) else {
            return i + 1;
        };
        if self.plain(i, t) {
            return i + 1;
        }
        match t.tok {
            Tok::Version => {
                match self.out.version {
                    None => self.out.version = Some(t.span()),
                    Some(_) if self.frames.len() == 1 => {
                        // Text that was printed in pieces has a header before each piece.
                        self.end_segment();
                        self.out.parts = true;
                        let old = OldForm::new("a header before a part of the text", t.span(), "");
                        self.out.old.push(old);
                    }
                    Some(_) => {
                        let message = "a second version header";
                        self.report(Diagnostic::error(Code(104), t.span(), message));
                    }
                }
                return i + 1;
            }
            Tok::Metadata => {
                self.out.metadata = Some(t.span());
                return i + 1;
            }
            Tok::BadGraph => {
                self.bad_graph(t);
                t.tok = Tok::Error;
            }
            _ => {}
        }
        if let Some(tok) = self.keyword(i) {
            t.tok = tok;
        }
        if let Some(next) = self.foreign(i) {
            match next {
                keywords::Foreign::Fn => t.tok = Tok::Fn,
                keywords::Foreign::Def => t.tok = Tok::Def,
                keywords::Foreign::Let => t.tok = Tok::Let,
                keywords::Foreign::ElseIf => {
                    self.out.tokens.push(Token {
                        tok: Tok::Else,
                        ..t
                    });
                    t.tok = Tok::If;
                }
                keywords::Foreign::Drop => return i + 1,
                keywords::Foreign::Value(next) => {
                    t.tok = Tok::Error;
                    t.end = self.input.get(next - 1).map_or(t.end, |t| t.end);
                    self.begin(i, t);
                    self.out.tokens.push(t);
                    return next;
                }
                keywords::Foreign::Item(next) => {
                    self.end_segment();
                    return next;
                }
            }
        }
        if matches!(t.tok, Tok::Def | Tok::Type | Tok::Extern) && self.frames.len() > 1 {
            self.close_all(Some(t));
        }
        if t.tok == Tok::Arrow && self.kind() == FrameKind::Arms && !self.top().bound {
            // Behind parameters it is the arrow of a function's type.
            let params = self.params.map(|p| p.0);
            if params != Some(self.out.tokens.len()) {
                self.thin_arrow(&mut t);
            }
        }
        self.close_before(t);
        self.separate(i, &mut t);
        self.begin(i, t);
        match t.tok {
            Tok::LParen | Tok::LSquare | Tok::LBrace | Tok::TLt => self.open(t),
            Tok::RParen | Tok::RSquare | Tok::RBrace | Tok::TGt => {
                self.close(i, t);
                return i + 1;
            }
            Tok::Semi => {
                self.semicolon(i, t);
                return i + 1;
            }
            Tok::Comma => {
                self.out.tokens.push(t);
                self.comma();
            }
            _ => {
                match t.tok {
                    Tok::Match | Tok::MatchQ => self.top().pending = Pending::Match,
                    Tok::Fn | Tok::Def | Tok::Op | Tok::Grad | Tok::PrimFunc => {
                        self.top().pending = Pending::Fn;
                    }
                    Tok::Type | Tok::Data => self.top().pending = Pending::Data,
                    Tok::Eq => self.top().bound = true,
                    Tok::FatArrow if self.kind() == FrameKind::Arms => self.top().bound = true,
                    _ => {}
                }
                self.out.tokens.push(t);
            }
        }
        i + 1
    }

    /// Starts a statement and, at top level, a segment, where none has begun.
    fn begin(&mut self, i: usize, t: Token) {
        let at_top = self.frames.len() == 1;
        let starts_item = matches!(
            t.tok,
            Tok::Def
                | Tok::Type
                | Tok::Extern
                | Tok::Data
                | Tok::Rel
                | Tok::Op
                | Tok::Grad
                | Tok::PrimFunc
        );
        if at_top {
            let extern_type = t.tok == Tok::Type && self.last().map(|t| t.tok) == Some(Tok::Extern);
            // A type without constructors needs no `;` before the expression that follows.
            let after_type = matches!(self.item, Some(Tok::Type | Tok::Data | Tok::Extern))
                && matches!(t.tok, Tok::FreeVar | Tok::Let | Tok::Local | Tok::Graph);
            if starts_item && !extern_type || after_type {
                self.end_segment();
            }
            if self.segment.is_none() {
                let prolog = self.has_turnstile && self.is_prolog(i);
                let start = self.out.tokens.len();
                let item = starts_item || prolog;
                self.segment = Some(Segment {
                    start,
                    end: start,
                    item,
                });
                self.item = starts_item.then_some(t.tok);
                if prolog {
                    self.item = Some(Tok::Prolog);
                    self.out.tokens.push(Token {
                        tok: Tok::Prolog,
                        word: false,
                        start: t.start,
                        end: t.start,
                    });
                }
            }
        }
        self.top().starts(t.tok);
    }

    fn end_segment(&mut self) {
        if let Some(mut s) = self.segment.take() {
            s.end = self.out.tokens.len();
            self.out.segments.push(s);
        }
        self.item = None;
        self.top().next();
    }

    /// Handles the end of a statement at top level: a closing brace that returns to it, or a `;`.
    fn statement_ends_at_top(&mut self, brace: bool) {
        match self.item {
            Some(
                Tok::Def
                | Tok::Op
                | Tok::Grad
                | Tok::PrimFunc
                | Tok::Type
                | Tok::Data
                | Tok::Extern,
            ) => {
                self.end_segment();
            }
            Some(Tok::Rel | Tok::Prolog) if !brace => self.end_segment(),
            _ => {}
        }
    }

    fn finish(&mut self) {
        if self.frames.len() > 1 {
            self.close_all(None);
        }
        // The text ends in a binding without `;`: the parser reports what is missing.
        let bound = self.frames[0].bound && self.item.is_none();
        if let Some(last) = self.last()
            && bound
            && keywords::ends_operand(last.tok)
        {
            self.out.open_end = Some(last.end);
            self.out.tokens.push(Token {
                tok: Tok::Semi,
                word: false,
                start: last.end,
                end: last.end,
            });
        }
        self.end_segment();
    }

    /// Reports a `->` in a clause that has no `=>` yet: patterns contain no arrows but those of types.
    fn thin_arrow(&mut self, t: &mut Token) {
        self.report(
            Diagnostic::error(
                Code(101),
                t.span(),
                "expected `=>` after this pattern, found `->`",
            )
            .fix("write `=>`", t.span(), "=>"),
        );
        t.tok = Tok::FatArrow;
    }

    fn bad_graph(&mut self, t: Token) {
        let text = self.text(t);
        let digits = text[1..].find(|c: char| !c.is_ascii_digit()).unwrap_or(0) + 1;
        let (number, rest) = text.split_at(digits);
        self.report(
            Diagnostic::error(
                Code(113),
                t.span(),
                format!("`{text}` is neither a graph variable nor a local variable"),
            )
            .note("a graph variable is `%` and a number, a local variable begins with a letter")
            .suggest(
                format!("drop `{rest}`: `{number}`"),
                Span::new(t.start + digits as u32, t.end),
                "",
            ),
        );
    }
}
