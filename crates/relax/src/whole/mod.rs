//! What there is to say about a text as a whole, in place of what the parser says piece by piece: that it
//! is something else, that it stands in a log, that a part of it is missing.

mod cut;
mod foreign;
mod log;

use relax_base::{Code, Diagnostic, Diagnostics, Severity, SourceFile, Span};
use relax_syntax::{Parsed, parse};

/// A file is no Relay text.
const FOREIGN: Code = Code(140);
/// A Relay text stands in a log.
const IN_LOG: Code = Code(141);

/// What bytes are that are no text, as one error at the place that stands for the file.
pub(crate) fn no_text(name: &str, bytes: &[u8]) -> Option<impl FnOnce(Span) -> Diagnostic> {
    let found = foreign::of_bytes(bytes)?;
    let message = match name {
        "" => format!("this is {}, no Relay text", found.what),
        name => format!("`{name}` is {}, no Relay text", found.what),
    };
    Some(move |place| advised(Diagnostic::error(FOREIGN, place, message), found.advice))
}

fn advised(d: Diagnostic, advice: &str) -> Diagnostic {
    match advice {
        "" => d,
        advice => d.note(advice),
    }
}

/// Parses a text. The file that comes back, where one does, is the one to go on with: that of a text inside
/// a log, which has blanks around it.
pub(crate) fn read(file: &SourceFile, from_log: bool) -> (Option<SourceFile>, Parsed) {
    let parsed = parse(file);
    if !parsed.diagnostics.has_errors() {
        return (None, parsed);
    }
    if let Some((found, line)) = foreign::of_text(&file.text) {
        let line = Span::new(file.start + line.start, file.start + line.end);
        let message = format!("this is {}, no Relay text", found.what);
        let d = Diagnostic::error(FOREIGN, line, message).primary("it begins like that");
        return (None, said(parsed, advised(d, found.advice)));
    }
    if let Some((inner, parsed)) = in_log(file, &parsed, from_log) {
        return (Some(inner), parsed);
    }
    if is_nothing(file, &parsed) {
        let message = "this is no Relay text: nothing in it looks like a definition";
        let d = Diagnostic::error(FOREIGN, first_line(file), message)
            .primary("it begins like that")
            .note("a Relay text holds `def @main(%x: …) { … }`, or an expression over `%x`");
        return (None, said(parsed, d));
    }
    (None, complete(file, parsed))
}

/// The first line that is not blank.
fn first_line(file: &SourceFile) -> Span {
    let text = &file.text;
    let from = text.len() - text.trim_start().len();
    let line = text[from..].lines().next().unwrap_or("").trim_end();
    let start = file.start + from as u32;
    Span::new(start, start + line.len() as u32)
}

/// A text about which only one thing is to be said.
fn said(parsed: Parsed, d: Diagnostic) -> Parsed {
    let mut ast = relax_syntax::ast::Ast::default();
    ast.errors.push(d.span());
    Parsed {
        ast,
        diagnostics: d.into(),
        ..parsed
    }
}

/// The text inside a log, read; where reading it so is better than reading all.
fn in_log(file: &SourceFile, all: &Parsed, wanted: bool) -> Option<(SourceFile, Parsed)> {
    let inside = log::text_inside(&file.text)?;
    if !wanted && (inside.doubtful || inside.marks == 0 && lacks_a_part(file, all)) {
        return None;
    }
    let inner = file.with_text(inside.text);
    let mut parsed = parse(&inner);
    if parsed.diagnostics.error_count() >= all.diagnostics.error_count() && !wanted {
        return None;
    }
    if parsed.diagnostics.has_errors() {
        parsed = complete(&inner, parsed);
    }
    let first = Span::new(
        file.start + inside.first.start,
        file.start + inside.first.end,
    );
    let lines = |n: usize| match n {
        1 => "1 line".to_owned(),
        n => format!("{n} lines"),
    };
    let message = match (inside.lines, inside.marks) {
        (n, 0) => format!("{} around the text are no Relay", lines(n)),
        (0, n) => format!("marks of a log stand before {} of the text", lines(n)),
        (n, m) => format!(
            "{} around the text are no Relay, and marks of a log stand before {}",
            lines(n),
            lines(m)
        ),
    };
    let message = message.replacen("1 line around the text are", "1 line around the text is", 1);
    let d = match wanted {
        true => Diagnostic::new(Severity::Note, IN_LOG, first, message).primary("left out"),
        false => Diagnostic::error(IN_LOG, first, message)
            .primary("the first of them")
            .note("`--from-log` reads the text and leaves the rest out"),
    };
    let mut diagnostics = Diagnostics::from(d);
    diagnostics.extend(parsed.diagnostics);
    parsed.diagnostics = diagnostics;
    Some((inner, parsed))
}

/// Whether nothing at all in a text that cannot be read looks like Relay.
fn is_nothing(file: &SourceFile, parsed: &Parsed) -> bool {
    let starts = |l: &str| log::starts_item(l.trim_start());
    let sigil = |at: usize| {
        let next = file.text[at + 1..].chars().next();
        next.is_some_and(|c| c.is_alphanumeric() || c == '_')
    };
    parsed.diagnostics.error_count() > 1
        && !file.text.lines().any(starts)
        && !file.text.match_indices(['%', '@']).any(|(at, _)| sigil(at))
        && !["def", "let", "fn", "type", "match", "Tensor"]
            .iter()
            .any(|w| {
                file.text
                    .split(|c: char| !c.is_alphanumeric())
                    .any(|t| t == *w)
            })
}

/// Whether the beginning or the middle of a text is missing, so that lines of it look like no Relay.
fn lacks_a_part(file: &SourceFile, parsed: &Parsed) -> bool {
    let lexed = relax_syntax::lex(file);
    let said: Vec<Diagnostic> = parsed.diagnostics.iter().cloned().collect();
    let missing = cut::missing(&cut::Split {
        file,
        tokens: &lexed.tokens,
        comments: &lexed.comments,
        said: &said,
    });
    let part = |d: &Diagnostic| d.code == cut::LEFT_OUT || d.code == cut::BEGINS_LATE;
    missing.errors.iter().any(part)
}

/// Says what is missing of a text, in place of what follows from that.
fn complete(file: &SourceFile, mut parsed: Parsed) -> Parsed {
    let lexed = relax_syntax::lex(file);
    let said: Vec<Diagnostic> = parsed.diagnostics.into_iter().collect();
    let missing = cut::missing(&cut::Split {
        file,
        tokens: &lexed.tokens,
        comments: &lexed.comments,
        said: &said,
    });
    let mut left = Diagnostics::new();
    let follows = |d: &Diagnostic| {
        let at = d.span().start;
        let inside = |u: &Span| u.start <= at && (at < u.end || u.start == at);
        missing.unreadable.iter().any(inside)
    };
    left.extend(said.into_iter().filter(|d| !follows(d)));
    left.extend(missing.errors);
    left.sort();
    parsed.diagnostics = left;
    parsed.ast.errors.extend(missing.unreadable);
    parsed.ast.errors.sort_unstable();
    parsed
}
