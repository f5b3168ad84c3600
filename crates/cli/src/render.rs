//! Diagnostics as people read them.

use std::fmt::Write as _;
use std::io::IsTerminal;

use ariadne::{Color, Config, IndexType, Label, Report, ReportKind, Source};
use relax_base::{Diagnostic, Diagnostics, Edit, Fix, Severity, SourceMap, Span, explain};

/// More diagnostics than this are counted, not shown.
const MOST: usize = 100;

/// How diagnostics are rendered.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Whether to use colours.
    pub color: bool,
}

impl Style {
    /// Of what goes to standard error.
    pub fn for_stderr() -> Style {
        Style {
            color: colored(&std::io::stderr()),
        }
    }
}

/// Whether what is written there has colours: on a terminal, or where `CLICOLOR_FORCE` asks for them, unless `NO_COLOR` is
/// set.
pub fn colored(stream: &impl IsTerminal) -> bool {
    let forced = std::env::var_os("CLICOLOR_FORCE").is_some_and(|v| v != "0");
    (stream.is_terminal() || forced) && std::env::var_os("NO_COLOR").is_none()
}

/// Writes diagnostics to standard error, and how many there are when there are more than are
/// shown.
pub fn to_stderr(diagnostics: &Diagnostics, sources: &SourceMap) {
    let text = to_string(diagnostics, sources, Style::for_stderr());
    crate::io::say(&text);
}

/// The same as a text.
pub fn to_string(diagnostics: &Diagnostics, sources: &SourceMap, style: Style) -> String {
    let mut text = String::new();
    for d in diagnostics.iter().take(MOST) {
        render(d, sources, style, &mut text);
    }
    if diagnostics.len() > MOST {
        let rest = diagnostics.len() - MOST;
        let _ = writeln!(text, "{rest} more are not shown");
    }
    text
}

/// The lines around a place, the place marked; nothing for a span that is in no file.
pub fn context(title: &str, span: Span, sources: &SourceMap) -> String {
    const AROUND: u32 = 2;
    let Some(file) = sources.file(span).filter(|_| !span.is_none()) else {
        return String::new();
    };
    let (from, to) = (file.line_col(span.start), file.line_col(span.end));
    let mut text = format!("  {title}: {}:{}:{}\n", file.name, from.line, from.col);
    let last = (from.line + AROUND).min(file.line_count() as u32);
    for line in from.line.saturating_sub(AROUND).max(1)..=last {
        let _ = writeln!(text, "  {line:5} │ {}", file.line(line));
        if line == from.line {
            let width = if to.line == from.line {
                to.col - from.col
            } else {
                (file.line(line).chars().count() as u32 + 1).saturating_sub(from.col)
            };
            let (indent, marks) = ((from.col - 1) as usize, width.max(1) as usize);
            let _ = writeln!(
                text,
                "        │ {}{}",
                " ".repeat(indent),
                "^".repeat(marks)
            );
        }
    }
    text
}

/// Appends one diagnostic.
pub fn render(d: &Diagnostic, sources: &SourceMap, style: Style, out: &mut String) {
    let (word, color) = match d.severity {
        Severity::Error => ("error", Color::Red),
        Severity::Warning => ("warning", Color::Yellow),
        Severity::Note => ("note", Color::Blue),
    };
    let Some(file) = sources.file(d.span()).filter(|_| !d.span().is_none()) else {
        let _ = writeln!(out, "{word}[{}]: {}", d.code, d.message);
        for note in d
            .notes
            .iter()
            .cloned()
            .chain(d.fixes.iter().map(|f| advice(f, sources)))
        {
            let _ = writeln!(out, "  {note}");
        }
        return;
    };
    let range = |span: Span| {
        let start = (span.start - file.start) as usize;
        let end = (span.end - file.start) as usize;
        (file.name.as_str(), start..end.max(start))
    };
    let config = Config::default()
        .with_color(style.color)
        .with_index_type(IndexType::Byte);
    let kind = match d.severity {
        Severity::Error => ReportKind::Error,
        Severity::Warning => ReportKind::Warning,
        Severity::Note => ReportKind::Advice,
    };
    let mut report = Report::build(kind, range(d.span()))
        .with_config(config)
        .with_code(d.code)
        .with_message(&d.message);
    let (primary, fixes) = primary(d);
    let mut labels: Vec<(bool, Span, &str)> = Vec::new();
    for (i, label) in d.labels.iter().enumerate() {
        if sources
            .file(label.span)
            .is_some_and(|f| f.start == file.start)
        {
            let text = if i == 0 { primary } else { &label.text };
            labels.push((i == 0, label.span, text));
        }
    }
    // From the first line down, and within a line from right to left, so that no line to a label
    // crosses another label.
    labels.sort_by_key(|l| {
        let at = file.line_col(l.1.start);
        (at.line, std::cmp::Reverse(at.col))
    });
    for (order, (is_primary, span, text)) in labels.into_iter().enumerate() {
        let color = if is_primary { color } else { Color::Cyan };
        let label = Label::new(range(span)).with_color(color).with_message(text);
        report = report.with_label(label.with_order(order as i32));
    }
    for note in &d.notes {
        report = report.with_note(note);
    }
    for fix in fixes {
        report = report.with_help(advice(fix, sources));
    }
    let mut bytes = Vec::new();
    let source = (file.name.as_str(), Source::from(&*file.text));
    if report.finish().write(source, &mut bytes).is_ok() {
        out.push_str(&String::from_utf8_lossy(&bytes));
    }
}

/// What is said at the primary place, and the suggestions that are not said there. A place that has
/// nothing to say for itself shows the first suggestion when that is about it, and what kind of
/// mistake it is otherwise: a place without words would not be marked at all.
fn primary(d: &Diagnostic) -> (&str, &[Fix]) {
    if !d.labels[0].text.is_empty() {
        return (&d.labels[0].text, &d.fixes);
    }
    if let Some((fix, rest)) = d.fixes.split_first()
        && let [edit] = &fix.edits[..]
        && says_all(fix, edit)
        && (d.span().touches(edit.span.start) || d.span().touches(edit.span.end))
    {
        return (&fix.title, rest);
    }
    let page = explain::explain(d.code).unwrap_or_default();
    let title = page.lines().next().and_then(|l| l.split_once(": "));
    (title.map_or("here", |t| t.1), &d.fixes)
}

/// Whether the title of a suggestion says what it would do.
fn says_all(fix: &Fix, edit: &Edit) -> bool {
    edit.text.is_empty() || fix.title.contains(edit.text.trim())
}

/// A suggested edit as a sentence.
fn advice(fix: &Fix, sources: &SourceMap) -> String {
    let mut text = fix.title.clone();
    if let [edit] = &fix.edits[..]
        && !says_all(fix, edit)
    {
        let line = sources.file(edit.span).map(|f| f.line_col(edit.span.start));
        let _ = match line {
            Some(at) => write!(text, ": `{}` at {}:{}", edit.text.trim(), at.line, at.col),
            None => write!(text, ": `{}`", edit.text.trim()),
        };
    }
    text
}
