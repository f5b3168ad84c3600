//! Diagnostics about a text as a whole, which replace the parser's piecemeal errors: it is in
//! another language, it is embedded in a log, or a part of it is missing.

mod cut;
mod foreign;
mod lead;
mod log;
mod pasted;

use relax_base::{Code, Diagnostic, Diagnostics, Severity, SourceFile, Span};
use relax_syntax::{Parsed, parse};

use relax_resolve::Options as TextOptions;

/// The file is not Relay text.
const FOREIGN: Code = Code(140);
/// The Relay text is embedded in a log.
const IN_LOG: Code = Code(141);

/// Returns the error for binary input, to be placed at the span that stands for the file.
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

/// Parses a text. If a file is returned, it replaces the input: a text extracted from a log, with
/// blanks around it.
pub(crate) fn read(file: &SourceFile, options: &TextOptions) -> (Option<SourceFile>, Parsed) {
    let from_log = options.from_log;
    let search = options.pasted || from_log;
    let parsed = parse(file);
    if !parsed.diagnostics.has_errors() {
        let hidden = || log::text_in_comments(&file.text);
        let empty = search && parsed.ast.items.is_empty() && !parsed.comments.is_empty();
        let Some(inside) = empty.then(hidden).flatten() else {
            return (None, parsed);
        };
        return match in_comments(file, inside, from_log) {
            Some((inner, parsed)) => (Some(inner), parsed),
            None => (None, parsed),
        };
    }
    if search && let Some((inner, parsed)) = mended(file, &parsed, from_log) {
        return (Some(inner), parsed);
    }
    if let Some((found, line)) = foreign::of_text(&file.text) {
        let line = Span::new(file.start + line.start, file.start + line.end);
        let message = format!("this is {}, no Relay text", found.what);
        let d = Diagnostic::error(FOREIGN, line, message).primary("it begins like that");
        return (None, said(parsed, advised(d, found.advice)));
    }
    if let Some(line) = foreign::patch(&file.text) {
        let line = Span::new(file.start + line.start, file.start + line.end);
        let message = "this is a patch of a Relay text, and not the text";
        let d = Diagnostic::error(FOREIGN, line, message).primary("a line that it puts in");
        return (
            None,
            said(parsed, d.note("apply it to the text that it was made for")),
        );
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

/// Recovers a text that does not parse by undoing the effects of copying and printing; succeeds if
/// no errors remain, or if it contains messages from TVM, which are no part of the text.
fn mended(file: &SourceFile, all: &Parsed, from_log: bool) -> Option<(SourceFile, Parsed)> {
    let mut text = pasted::Mended::new(&file.text);
    text.page();
    text.programs();
    let inside = log::text_inside(&text.text);
    if let Some(inside) = &inside {
        let begins_late = || lacks(file, all, &[cut::BEGINS_LATE]);
        if !inside.item || !from_log && (inside.doubtful || inside.marks == 0 && begins_late()) {
            return None;
        }
        text.text.clone_from(&inside.text);
    }
    text.lines();
    text.names();
    if text.said.is_empty() && inside.is_none() {
        return None;
    }
    let inner = file.with_text(text.text);
    let mut parsed = parse(&inner);
    if parsed.diagnostics.has_errors() {
        let fewer = parsed.diagnostics.error_count() < all.diagnostics.error_count();
        parsed = complete(&inner, parsed);
        let mut errors = parsed.diagnostics.iter().filter(|d| d.is_error());
        let cut = errors.all(|d| cut::CODES.contains(&d.code));
        if !cut && (text.said.is_empty() || !fewer) {
            return None;
        }
    }
    let mut diagnostics = Diagnostics::new();
    if let Some(inside) = inside {
        let severity = match from_log {
            true => Severity::Note,
            false => Severity::Warning,
        };
        diagnostics.push(left_out(file, &inside, severity));
    }
    diagnostics.extend(pasted::notes(&text.said, file.start));
    diagnostics.extend(parsed.diagnostics);
    parsed.diagnostics = diagnostics;
    Some((inner, parsed))
}

/// Parses a text inside comments.
fn in_comments(
    file: &SourceFile,
    inside: log::Inside,
    from_log: bool,
) -> Option<(SourceFile, Parsed)> {
    let severity = match from_log {
        true => Severity::Note,
        false => Severity::Warning,
    };
    let d = left_out(file, &inside, severity);
    let inner = file.with_text(inside.text);
    let mut parsed = parse(&inner);
    if parsed.diagnostics.has_errors() {
        return None;
    }
    let mut diagnostics = Diagnostics::from(d);
    diagnostics.extend(parsed.diagnostics);
    parsed.diagnostics = diagnostics;
    Some((inner, parsed))
}

/// Returns the first line that is not blank.
fn first_line(file: &SourceFile) -> Span {
    let text = &file.text;
    let from = text.len() - text.trim_start().len();
    let line = text[from..].lines().next().unwrap_or("").trim_end();
    let start = file.start + from as u32;
    Span::new(start, start + line.len() as u32)
}

/// Replaces the errors of a text with a single diagnostic.
fn said(parsed: Parsed, d: Diagnostic) -> Parsed {
    let mut ast = relax_syntax::ast::Ast::default();
    ast.errors.push(d.span());
    Parsed {
        ast,
        diagnostics: d.into(),
        ..parsed
    }
}

/// Parses the text inside a log, if that gives a better result than parsing the whole file.
fn in_log(file: &SourceFile, all: &Parsed, wanted: bool) -> Option<(SourceFile, Parsed)> {
    let inside = log::text_inside(&file.text)?;
    if !wanted && (inside.doubtful || inside.marks == 0 && lacks(file, all, &PARTS)) {
        return None;
    }
    let inner = file.with_text(inside.text.clone());
    let mut parsed = parse(&inner);
    if parsed.diagnostics.error_count() >= all.diagnostics.error_count() && !wanted {
        return None;
    }
    if parsed.diagnostics.has_errors() {
        parsed = complete(&inner, parsed);
    }
    let severity = match wanted {
        true => Severity::Note,
        false => Severity::Error,
    };
    let mut diagnostics = Diagnostics::from(left_out(file, &inside, severity));
    diagnostics.extend(parsed.diagnostics);
    parsed.diagnostics = diagnostics;
    Some((inner, parsed))
}

/// Returns the diagnostic about lines and prefixes left out.
fn left_out(file: &SourceFile, inside: &log::Inside, severity: Severity) -> Diagnostic {
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
    let d = Diagnostic::new(severity, IN_LOG, first, message);
    match severity {
        Severity::Error => d
            .primary("the first of them")
            .note("`--from-log` reads the text and leaves the rest out"),
        Severity::Warning => d
            .primary("left out, as all of them are")
            .note("`--from-log` says that this is meant"),
        Severity::Note => d.primary("left out"),
    }
}

/// Returns whether a text that does not parse has no resemblance to Relay.
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

/// Missing parts that can make the rest look unlike Relay.
const PARTS: [Code; 2] = [cut::LEFT_OUT, cut::BEGINS_LATE];

/// Returns whether a part of a text is missing, according to these codes.
fn lacks(file: &SourceFile, parsed: &Parsed, codes: &[Code]) -> bool {
    let lexed = relax_syntax::lex(file);
    let said: Vec<Diagnostic> = parsed.diagnostics.iter().cloned().collect();
    let missing = cut::missing(&cut::Split {
        file,
        tokens: &lexed.tokens,
        comments: &lexed.comments,
        said: &said,
    });
    missing.errors.iter().any(|d| codes.contains(&d.code))
}

/// Reports missing parts, replacing the errors they caused.
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
