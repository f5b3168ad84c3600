//! Text to tree, including errors.

mod message;
mod recover;

use std::cell::Cell;

use lalrpop_util::ParseError;
use relax_base::{Code, Diagnostic, Diagnostics, Severity, SourceFile, Span, Symbol};

use crate::ast::{Ast, FileForm, Item, ItemKind};
use crate::build::Builder;
use crate::context::{self, MOST_ERRORS, Prepared, Segment, Stream};
use crate::grammar::SegmentParser;
use crate::lex::{self, Comment, Lexed, Token};
use crate::old::OldForm;
use crate::token::Tok;

/// The result of parsing a text.
#[derive(Debug)]
pub struct Parsed {
    /// The tree; complete if there are no errors.
    pub ast: Ast,
    /// Every comment of the file, in order.
    pub comments: Vec<Comment>,
    /// The errors, in source order.
    pub diagnostics: Diagnostics,
    /// The occurrences of earlier versions' forms; these are not errors.
    pub old: Vec<OldForm>,
}

/// Parses a file. Always returns a tree: unreadable text becomes `Error` nodes, each of them
/// covered by a diagnostic.
pub fn parse(file: &SourceFile) -> Parsed {
    if let Some(parsed) = parse_clean(file) {
        return parsed;
    }
    parse_lexed(file, lex::lex(file))
}

/// Parses a file without errors; `None` at the first error, since explaining it requires the tokens
/// around it.
fn parse_clean(file: &SourceFile) -> Option<Parsed> {
    let mut stream = Stream::new(file);
    let mut parser = Parser::new(file, Prepared::default());
    while let Some(item) = stream.segment() {
        if !item && parser.looks_like_type(&stream.peek()) {
            return None;
        }
        let tokens = std::iter::from_fn(|| stream.token().map(|t| Ok((t.start, t.tok, t.end))));
        let item = parse_segment(&mut parser.builder, form(item), tokens).ok()?;
        parser.parts = stream.has_parts();
        parser.add(item);
        if !stream.is_clean() || !parser.is_clean() {
            return None;
        }
    }
    if !stream.is_clean() {
        return None;
    }
    let (prepared, lexed) = stream.finish();
    parser.prepared = prepared;
    parser.header();
    parser.is_clean().then(|| parser.finish(lexed))
}

/// Parses the part of a file at `range` as one type, for example the content of a `/* ty=… */`
/// comment. The tree's only item is the type.
pub fn parse_type(file: &SourceFile, range: Span) -> Parsed {
    let mut lexed = lex::lex_range(file, range);
    let prepared = context::prepare(file, std::mem::take(&mut lexed.tokens));
    let mut parser = Parser::new(file, prepared);
    let whole = Segment {
        start: 0,
        end: parser.prepared.tokens.len(),
        item: false,
    };
    let first = parser.try_type(whole);
    if let Err(failure) = first {
        parser.report(whole, &failure);
    }
    parser.finish(lexed)
}

pub(crate) fn parse_lexed(file: &SourceFile, mut lexed: Lexed) -> Parsed {
    let prepared = context::prepare(file, std::mem::take(&mut lexed.tokens));
    parse_prepared(file, prepared, lexed)
}

fn parse_prepared(file: &SourceFile, prepared: Prepared, lexed: Lexed) -> Parsed {
    let mut parser = Parser::new(file, prepared);
    let unknown = lexed.diagnostics.iter().filter(|d| d.code == Code(102));
    parser.unknown = unknown.map(Diagnostic::span).collect();
    parser.header();
    for segment in std::mem::take(&mut parser.prepared.segments) {
        parser.segment(segment);
    }
    parser.finish(lexed)
}

/// The header of current texts.
const CURRENT: &str = "#[version = \"0.0.5\"]";
/// Earlier versions, some of which were written in brackets.
const EARLIER: &[&str] = &["0.0.1", "0.0.2", "0.0.3", "0.0.4"];

/// The reason why LALRPOP stopped.
struct Failure {
    /// The index of the offending token; the number of tokens at the end.
    at: usize,
    expected: Vec<String>,
}

struct Parser<'s> {
    file: &'s SourceFile,
    builder: Builder<'s>,
    prepared: Prepared,
    diagnostics: Vec<Diagnostic>,
    /// The spans of missing or extra brackets: the parser does not report further errors in these
    /// statements.
    bracket_errors: Vec<Span>,
    /// Invalid characters, reported by the lexer.
    unknown: Vec<Span>,
    /// Whether the text has headers before its parts, each of which may be an expression.
    parts: bool,
    /// The number of tokens that may still be parsed again to find further errors.
    budget: usize,
}

impl<'s> Parser<'s> {
    fn new(file: &'s SourceFile, mut prepared: Prepared) -> Self {
        let diagnostics = std::mem::take(&mut prepared.diagnostics);
        let brackets = diagnostics
            .iter()
            .filter(|d| matches!(d.code, Code(105 | 106)));
        let bracket_errors = brackets.map(Diagnostic::span).collect();
        let budget = 4_000_000 + prepared.tokens.len() * 8;
        Parser {
            file,
            builder: Builder::new(file),
            prepared,
            diagnostics,
            bracket_errors,
            unknown: Vec::new(),
            parts: false,
            budget,
        }
    }

    fn finish(mut self, lexed: Lexed) -> Parsed {
        let mut diagnostics = Diagnostics::new();
        diagnostics.extend(lexed.diagnostics);
        diagnostics.extend(self.diagnostics);
        diagnostics.extend(std::mem::take(&mut self.builder.diagnostics));
        if let Some(end) = self.prepared.open_end
            && !diagnostics.has_errors()
        {
            let at = Span::new(end, end);
            diagnostics.push(
                Diagnostic::error(
                    Code(119),
                    at,
                    "expected `;` and a result after this binding",
                )
                .note("the value of a sequence of bindings is the expression after the last one"),
            );
        }
        diagnostics.sort();
        if self.prepared.unreported {
            diagnostics.push(Diagnostic::new(
                Severity::Note,
                Code(114),
                self.file.span().at_end(),
                "there are too many errors to report them all",
            ));
        }
        let errors = diagnostics.iter().filter(|d| d.is_error());
        self.builder.ast.errors = errors.map(Diagnostic::span).collect();
        self.builder.ast.shrink();
        let mut old = std::mem::take(&mut self.prepared.old);
        old.append(&mut self.builder.old);
        Parsed {
            ast: self.builder.ast,
            comments: lexed.comments,
            diagnostics,
            old,
        }
    }

    /// Parses version and metadata.
    fn header(&mut self) {
        if let Some(span) = self.prepared.version {
            let text = self.file.slice(span);
            if let Some(number) = text.strip_prefix('v') {
                let old = OldForm::new("a header without brackets", span, CURRENT);
                self.prepared.old.push(old);
                self.builder.ast.version = Some((Symbol::new(number), span));
                self.metadata();
                return;
            }
            let version = text.split('"').nth(1);
            let assigned = text.split('"').next().is_some_and(|t| t.contains('='));
            match version {
                Some(v) if assigned => {
                    self.builder.ast.version = Some((Symbol::new(v), span));
                    if EARLIER.contains(&v) {
                        let old = OldForm::new("the version of the header", span, CURRENT);
                        self.prepared.old.push(old);
                    } else if v != "0.0.5" {
                        self.diagnostics.push(
                            Diagnostic::error(
                                Code(104),
                                span,
                                format!("version `{v}` of the text format is not known"),
                            )
                            .suggest(
                                "write version 0.0.5",
                                span,
                                "#[version = \"0.0.5\"]",
                            ),
                        );
                    }
                }
                _ => self.diagnostics.push(
                    Diagnostic::error(Code(104), span, "this version header is malformed").fix(
                        "write the header as TVM does",
                        span,
                        "#[version = \"0.0.5\"]",
                    ),
                ),
            }
        }
        self.metadata();
    }

    fn metadata(&mut self) {
        let Some(span) = self.prepared.metadata else {
            return;
        };
        let text = self.file.slice(span);
        let bracket = |close: &str| text.find(close).map_or(text.len(), |i| i + close.len());
        let part =
            |from: usize, to: usize| Span::new(span.start + from as u32, span.start + to as u32);
        let (head, end) = if text.starts_with("META") {
            (bracket(":"), text.len())
        } else if text.starts_with("# ") {
            // A triple-quoted Python string.
            let head = bracket("\"\"\"");
            (
                head,
                text.rfind("\"\"\"")
                    .filter(|&end| end > head)
                    .unwrap_or(text.len()),
            )
        } else {
            let head = bracket("]");
            self.builder.ast.metadata = Some(part(head, text.len()));
            return;
        };
        let what = "the metadata section without its header";
        let old = OldForm::new(what, part(0, head), "#[metadata]\n");
        self.prepared.old.push(old.edit(part(end, text.len()), ""));
        self.builder.ast.metadata = Some(part(head, end));
    }

    fn segment(&mut self, segment: Segment) {
        if !segment.item {
            let tokens = self.prepared.tokens.between(segment.start, segment.end);
            if self.looks_like_type(tokens) && self.try_type(segment).is_ok() {
                return;
            }
        }
        let mut tokens: Option<Vec<Token>> = None;
        let mut first_error = true;
        loop {
            let mark = self.builder.mark();
            let slice = match &tokens {
                Some(t) => t.as_slice(),
                None => self.prepared.tokens.between(segment.start, segment.end),
            };
            let result = run(&mut self.builder, slice, segment.item);
            let failure = match result {
                Ok(item) => {
                    self.add(item);
                    return;
                }
                Err(failure) => failure,
            };
            self.builder.reset(mark);
            if first_error && !segment.item && slice.len() < 100_000 {
                // A file may contain a type that no expression resembles: `fn (A) -> B`.
                if self.try_type(segment).is_ok() {
                    return;
                }
            }
            first_error = false;
            let owned = tokens.get_or_insert_with(|| {
                let all = &self.prepared.tokens;
                all.between(segment.start, segment.end).to_vec()
            });
            let echo = recover::is_echo(owned, failure.at)
                || recover::in_statement(owned, failure.at, &self.bracket_errors)
                || (owned.get(failure.at)).is_some_and(|t| follows(self.file, &self.unknown, *t));
            if !echo {
                let d = message::explain(self.file, owned, failure.at, &failure.expected);
                self.diagnostics.push(d);
            }
            let cost = owned.len();
            let give_up = self.budget < cost || self.diagnostics.len() >= MOST_ERRORS;
            self.prepared.unreported |= give_up;
            self.budget = self.budget.saturating_sub(cost);
            if give_up || !recover::cut(owned, failure.at) {
                // If nothing is left to parse, the item is the whole text.
                let left = match owned.is_empty() {
                    true => self.prepared.tokens.between(segment.start, segment.end),
                    false => owned.as_slice(),
                };
                let span = (left.first())
                    .map_or(Span::NONE, |f| f.span())
                    .to(left.last().map_or(Span::NONE, |l| l.span()));
                self.add(Item {
                    kind: ItemKind::Error,
                    span,
                    name_span: span,
                });
                return;
            }
        }
    }

    fn add(&mut self, item: Item) {
        let ast = &mut self.builder.ast;
        if let ItemKind::Expr(_) = item.kind {
            let parts = self.parts || self.prepared.parts;
            if ast.form == FileForm::Expression && !parts {
                self.diagnostics.push(
                    Diagnostic::error(Code(117), item.span, "a file holds at most one expression")
                        .note("functions are declared with `def @name(…) { … }`"),
                );
            }
            ast.form = FileForm::Expression;
        }
        ast.items.push(item);
    }

    /// Returns whether there are no errors.
    fn is_clean(&self) -> bool {
        self.diagnostics.is_empty() && self.builder.diagnostics.is_empty()
    }

    fn looks_like_type(&self, t: &[Token]) -> bool {
        let [first, rest @ ..] = t else { return false };
        match (first.tok, rest.first().map(|t| t.tok)) {
            (Tok::Name, Some(Tok::LSquare)) => {
                matches!(self.file.slice(first.span()), "Tensor" | "Shape" | "Buffer")
            }
            (Tok::Name, None) => {
                let text = self.file.slice(first.span());
                matches!(text, "Object" | "Shape")
                    || ["int", "uint", "float", "bool", "bfloat"].iter().any(|p| {
                        text.strip_prefix(p)
                            .is_some_and(|r| r.chars().all(|c| c.is_ascii_digit()))
                    })
            }
            _ => false,
        }
    }

    fn try_type(&mut self, s: Segment) -> Result<(), Failure> {
        let mark = self.builder.mark();
        let tokens = self.prepared.tokens.between(s.start, s.end);
        let at = Cell::new(0);
        match parse_segment(&mut self.builder, Tok::AsType, feed(tokens, &at)) {
            Ok(item) => {
                self.builder.ast.form = FileForm::Type;
                self.builder.ast.items.push(item);
                Ok(())
            }
            Err(e) => {
                self.builder.reset(mark);
                Err(failure(e, at.get(), tokens.len()))
            }
        }
    }

    fn report(&mut self, s: Segment, failure: &Failure) {
        let tokens = self.prepared.tokens.between(s.start, s.end);
        let d = message::explain(self.file, tokens, failure.at, &failure.expected);
        self.diagnostics.push(d);
    }
}

/// Returns whether only white space separates one of `places` from the token.
fn follows(file: &SourceFile, places: &[Span], t: Token) -> bool {
    let before = places.partition_point(|p| p.end <= t.start);
    before.checked_sub(1).is_some_and(|i| {
        let between = Span::new(places[i].end, t.start);
        file.slice(between).trim().is_empty()
    })
}

/// Returns the token that tells the parser what a segment is.
fn form(item: bool) -> Tok {
    if item { Tok::AsItem } else { Tok::AsBody }
}

/// Parses a segment, an item or an expression.
fn run(builder: &mut Builder<'_>, tokens: &[Token], item: bool) -> Result<Item, Failure> {
    let at = Cell::new(0);
    let result = parse_segment(builder, form(item), feed(tokens, &at));
    result.map_err(|e| failure(e, at.get(), tokens.len()))
}

type Fed = Result<(u32, Tok, u32), ()>;

/// Runs the generated parser over the tokens of a segment, which `form` says what it is.
fn parse_segment(
    builder: &mut Builder<'_>,
    form: Tok,
    tokens: impl Iterator<Item = Fed>,
) -> Result<Item, ParseError<u32, Tok, ()>> {
    // It takes no text: what follows tells where the segment begins.
    let first = Ok((0, form, 0));
    let segment = SegmentParser::new().parse(builder, std::iter::once(first).chain(tokens))?;
    Ok(*segment)
}

/// Feeds tokens to the parser and counts them.
fn feed<'a>(tokens: &'a [Token], at: &'a Cell<usize>) -> impl Iterator<Item = Fed> + 'a {
    tokens.iter().map(|t| {
        at.set(at.get() + 1);
        Ok((t.start, t.tok, t.end))
    })
}

fn failure(e: ParseError<u32, Tok, ()>, fed: usize, all: usize) -> Failure {
    match e {
        ParseError::UnrecognizedEof { expected, .. } => Failure { at: all, expected },
        ParseError::UnrecognizedToken { expected, .. } => Failure {
            at: fed.saturating_sub(1),
            expected,
        },
        _ => Failure {
            at: fed.saturating_sub(1),
            expected: Vec::new(),
        },
    }
}
