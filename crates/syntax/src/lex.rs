//! Text to tokens, with comments collected separately.

use logos::Logos;
use relax_base::{Code, Diagnostic, SourceFile, Span};

use crate::token::{self, LexState, Tok};

/// A token and its span in the source map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token {
    /// Its kind.
    pub tok: Tok,
    /// Whether it is a name with a special meaning in some contexts (`shape`, `where`, `Tensor`).
    pub word: bool,
    /// Its first byte.
    pub start: u32,
    /// One past its last byte.
    pub end: u32,
}

impl Token {
    /// Returns its span.
    pub fn span(self) -> Span {
        Span::new(self.start, self.end)
    }
}

/// A comment and its span.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Comment {
    /// Its span, including its delimiters; a line comment excludes its line end.
    pub span: Span,
    /// Whether it is a line comment.
    pub line: bool,
}

/// The result of lexing a file.
#[derive(Clone, Debug, Default)]
pub struct Lexed {
    /// The tokens, in order, without white space and comments.
    pub tokens: Vec<Token>,
    /// The comments, in order.
    pub comments: Vec<Comment>,
    /// The lexical errors.
    pub diagnostics: Vec<Diagnostic>,
}

/// Splits a file into tokens. Every byte of the text is white space or belongs to exactly one
/// token, comment or diagnostic.
pub fn lex(file: &SourceFile) -> Lexed {
    lex_range(file, file.span())
}

/// Splits a part of a file into tokens.
pub(crate) fn lex_range(file: &SourceFile, range: Span) -> Lexed {
    let mut lexer = Lexer::new(file, range);
    let mut tokens = Vec::with_capacity(range.len() / 4);
    while let Some(token) = lexer.next() {
        tokens.push(token);
    }
    Lexed {
        tokens,
        comments: lexer.comments,
        diagnostics: lexer.diagnostics,
    }
}

/// Lexes token by token; comments and errors are collected separately.
pub(crate) struct Lexer<'s> {
    file: &'s SourceFile,
    base: u32,
    inner: logos::Lexer<'s, Tok>,
    dims: DimBrackets,
    /// Whether the last token was `=`.
    after_eq: bool,
    pub(crate) comments: Vec<Comment>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl<'s> Lexer<'s> {
    pub(crate) fn new(file: &'s SourceFile, range: Span) -> Lexer<'s> {
        Lexer {
            file,
            base: range.start,
            inner: Tok::lexer_with_extras(file.slice(range), LexState::default()),
            dims: DimBrackets::default(),
            after_eq: false,
            comments: Vec::new(),
            diagnostics: Vec::new(),
        }
    }

    /// Returns the next token.
    pub(crate) fn next(&mut self) -> Option<Token> {
        let lexer = &mut self.inner;
        loop {
            lexer.extras.floor_div = self.dims.allows_floor_div();
            let (tok, span) = token::next(lexer)?;
            let token = Token {
                tok,
                word: std::mem::take(&mut lexer.extras.word),
                start: self.base + span.start as u32,
                end: self.base + span.end as u32,
            };
            if std::mem::take(&mut lexer.extras.unclosed) {
                self.diagnostics.push(unclosed(token));
            }
            match token.tok {
                Tok::LineComment | Tok::BlockComment => {
                    if is_damaged_header(self.file.slice(token.span())) {
                        self.diagnostics.push(damaged_header(token));
                    }
                    self.comments.push(Comment {
                        span: token.span(),
                        line: token.tok == Tok::LineComment,
                    });
                }
                Tok::Unknown => unknown(self.file, token, &mut self.diagnostics),
                Tok::UnknownSection => {
                    let text = self.file.slice(token.span());
                    let message = format!("unknown section `{text}`");
                    let d = Diagnostic::error(Code(104), token.span(), message);
                    self.diagnostics.push(
                        d.note("the sections are `#[version = \"0.0.5\"]` and `#[metadata]`"),
                    );
                }
                _ => {
                    let after_eq = std::mem::replace(&mut self.after_eq, token.tok == Tok::Eq);
                    let token = match token.tok {
                        Tok::Name if after_eq => self.verbatim(token),
                        _ => token,
                    };
                    self.dims.see(token, || self.file.slice(token.span()));
                    return Some(token);
                }
            }
        }
    }
}

/// Objects of TVM that its printer writes inline, as attribute values.
const OBJECTS: &[&str] = &["VirtualDevice", "SEScope", "Target", "Executor", "Runtime"];

impl Lexer<'_> {
    /// Extends a token to an inline object, `VirtualDevice(device_type=1, target=Target(…))`: one
    /// token, parsed like a reference into the metadata section.
    fn verbatim(&mut self, mut token: Token) -> Token {
        let text = self.file.slice(token.span());
        let rest = self.inner.remainder();
        if !(rest.starts_with('(') && OBJECTS.contains(&text)) {
            return token;
        }
        if let Some(len) = in_brackets(rest) {
            self.inner.bump(len);
            token.end += len as u32;
            token.tok = Tok::Meta;
        }
        token
    }
}

/// Returns the length of the bracketed text that a text begins with, within its line; brackets in
/// strings are ignored.
fn in_brackets(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0usize, None);
    for (i, b) in text.bytes().enumerate() {
        match (quote, b) {
            (_, b'\n') => return None,
            (Some(q), b) if q == b => quote = None,
            (Some(_), _) => {}
            (None, b'\'' | b'"') => quote = Some(b),
            (None, b'(' | b'[' | b'{') => depth += 1,
            (None, b')' | b']' | b'}') => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(i + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Returns whether a comment that begins with `#` is a header with damaged brackets: `#version =
/// …]`, `#[version = …`, `#[metadata`.
fn is_damaged_header(comment: &str) -> bool {
    let Some(text) = comment.strip_prefix('#').map(str::trim_start) else {
        return false;
    };
    let version = text.strip_prefix("version").map(str::trim_start);
    text.starts_with('[') || version.is_some_and(|rest| rest.starts_with('='))
}

fn damaged_header(token: Token) -> Diagnostic {
    let d = Diagnostic::error(Code(104), token.span(), "this header lacks a bracket");
    d.note("the headers are `#[version = \"0.0.5\"]` and `#[metadata]`")
}

fn unclosed(token: Token) -> Diagnostic {
    let what = if token.tok == Tok::Str {
        "string"
    } else {
        "comment"
    };
    let close = if token.tok == Tok::Str { "\"" } else { "*/" };
    let opening = Span::new(token.start, token.start + close.len() as u32);
    Diagnostic::error(Code(103), opening, format!("this {what} is never closed")).suggest(
        format!("close it with `{close}`"),
        token.span().at_end(),
        close,
    )
}

/// Reports a run of characters that begin no token, as one error.
fn unknown(file: &SourceFile, token: Token, diagnostics: &mut Vec<Diagnostic>) {
    let mut span = token.span();
    if let Some(last) = diagnostics.last()
        && last.code == Code(102)
        && last.labels[0].span.end == token.start
    {
        span.start = last.span().start;
        diagnostics.pop();
    }
    let text = file.slice(span);
    let message = format!("{} here", meaningless(text));
    let d = Diagnostic::error(Code(102), span, message);
    diagnostics.push(match meant(text) {
        Some("") => d.fix("remove it", span, ""),
        Some(" ") => d.fix("write a blank", span, " "),
        Some(plain) => d.fix(format!("write `{plain}`"), span, plain),
        None => d,
    });
}

/// Characters that are substituted by word processors, chats and web pages, with the original ones.
const MEANT: &[(&str, &str)] = &[
    (
        "\"",
        "\u{201c}\u{201d}\u{201e}\u{201f}\u{2018}\u{2019}\u{201a}\u{ab}\u{bb}\u{ff02}",
    ),
    ("-", "\u{2010}\u{2011}\u{2012}\u{2013}\u{2014}\u{2212}"),
    ("->", "\u{2192}"),
    ("=>", "\u{21d2}"),
    ("*", "\u{d7}\u{2217}"),
    (",", "\u{ff0c}"),
    (";", "\u{ff1b}\u{37e}"),
    (":", "\u{ff1a}"),
    ("(", "\u{ff08}"),
    (")", "\u{ff09}"),
    ("%", "\u{ff05}"),
    ("@", "\u{ff20}"),
    ("=", "\u{ff1d}"),
    (
        " ",
        "\u{a0}\u{2000}\u{2001}\u{2002}\u{2003}\u{2004}\u{2005}\u{2006}\u{2007}\u{2008}\u{2009}\u{200a}\u{202f}\u{3000}",
    ),
    (
        "",
        "\u{ad}\u{200b}\u{200c}\u{200d}\u{200e}\u{200f}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2060}\u{2066}\u{2067}\u{2068}\u{2069}\u{feff}",
    ),
];

/// Returns the intended character for a run of one such character.
fn meant(text: &str) -> Option<&'static str> {
    let first = text.chars().next()?;
    let alike = MEANT.iter().find(|m| m.1.contains(first))?;
    let all = text.chars().all(|c| alike.1.contains(c));
    (all && (alike.0.trim().is_empty() || text.chars().count() == 1)).then_some(alike.0)
}

/// The names of invisible characters.
const UNSEEN: &[(char, &str)] = &[
    ('\u{a0}', "a no-break space"),
    ('\u{ad}', "a soft hyphen"),
    ('\u{200b}', "a zero-width space"),
    ('\u{200c}', "a zero-width non-joiner"),
    ('\u{200d}', "a zero-width joiner"),
    ('\u{202e}', "a mark that turns the writing around"),
    ('\u{2060}', "a word joiner"),
    ('\u{3000}', "an ideographic space"),
    ('\u{feff}', "a byte-order mark"),
];

/// Describes a run of meaningless characters: as they are, or by the code point of an invisible
/// one.
fn meaningless(text: &str) -> String {
    let first = text.chars().next().unwrap_or_default();
    let unseen = matches!(meant(text), Some("" | " "));
    if !unseen {
        return format!("`{}` means nothing", printable(text));
    }
    let point = format!("U+{:04X}", first as u32);
    match UNSEEN.iter().find(|u| u.0 == first) {
        Some((_, name)) => format!("{point}, {name}, means nothing"),
        None => format!("the character {point} means nothing"),
    }
}

fn printable(text: &str) -> String {
    let mut out: String = text
        .chars()
        .take(20)
        .flat_map(|c| {
            let escape = c.is_control() || c == '\u{FFFD}';
            let plain = (!escape).then_some(c);
            escape
                .then(|| c.escape_default())
                .into_iter()
                .flatten()
                .chain(plain)
        })
        .collect();
    if text.chars().nth(20).is_some() {
        out.push('…');
    }
    out
}

/// Tracks just enough about brackets to decide where `//` is floor division: inside the brackets of
/// a shape, an index, or a list as an attribute value, after an operand.
#[derive(Default)]
struct DimBrackets {
    /// For each open round or square bracket, whether it may contain dimensions.
    open: Vec<bool>,
    last: Last,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Last {
    #[default]
    Other,
    /// An operand: a name or a value.
    Operand,
    /// A name whose following bracket contains dimensions.
    DimHead,
    /// `=`: a list after it may contain dimensions.
    Equal,
}

impl DimBrackets {
    fn allows_floor_div(&self) -> bool {
        let operand = matches!(self.last, Last::Operand | Last::DimHead);
        operand && self.open.last().copied().unwrap_or(false)
    }

    fn see<'a>(&mut self, token: Token, text: impl FnOnce() -> &'a str) {
        let tok = token.tok;
        self.last = match tok {
            Tok::LParen | Tok::LSquare => {
                let inherited = self.open.last().copied().unwrap_or(false);
                let index = tok == Tok::LSquare && matches!(self.last, Last::Operand | Last::Equal);
                self.open
                    .push(inherited || index || self.last == Last::DimHead);
                Last::Other
            }
            Tok::RParen | Tok::RSquare => {
                self.open.pop();
                Last::Operand
            }
            Tok::LBrace | Tok::RBrace | Tok::Def => {
                // An unclosed bracket must not turn all later comments into divisions.
                self.open.clear();
                Last::Other
            }
            Tok::Eq => Last::Equal,
            Tok::Local | Tok::Graph | Tok::Int | Tok::Proj => Last::Operand,
            Tok::Name if !token.word => Last::Operand,
            Tok::Name => match text() {
                "Tensor" | "Shape" | "Buffer" | "shape" | "match_shape" | "match_cast" | "grid"
                | "min" | "max" => Last::DimHead,
                _ => Last::Operand,
            },
            _ => Last::Other,
        };
    }
}
