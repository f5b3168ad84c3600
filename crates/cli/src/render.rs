//! Diagnostics as people read them.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write};

use ariadne::{Color, Config, IndexType, Label, Report, ReportKind, Source};
use relax_base::{Diagnostic, Diagnostics, Severity, SourceMap, Span};

/// More diagnostics than this are counted, not shown.
const MOST: usize = 100;

/// How diagnostics are rendered.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Whether to use colours.
    pub color: bool,
}

impl Style {
    /// Colours where standard error is a terminal and `NO_COLOR` is not set.
    pub fn for_stderr() -> Style {
        let color = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Style { color }
    }
}

/// Writes diagnostics to standard error, and how many there are when there are more than are
/// shown.
pub fn to_stderr(diagnostics: &Diagnostics, sources: &SourceMap) {
    let text = to_string(diagnostics, sources, Style::for_stderr());
    // Nothing can be told to whoever closed the stream.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
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

/// Appends one diagnostic.
pub fn render(d: &Diagnostic, sources: &SourceMap, style: Style, out: &mut String) {
    let (word, color) = match d.severity {
        Severity::Error => ("error", Color::Red),
        Severity::Warning => ("warning", Color::Yellow),
        Severity::Note => ("note", Color::Blue),
    };
    let Some(file) = sources.file(d.span()).filter(|_| !d.span().is_none()) else {
        let _ = writeln!(out, "{word}[{}]: {}", d.code, d.message);
        for note in notes(d, sources) {
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
    for (i, label) in d.labels.iter().enumerate() {
        if !sources
            .file(label.span)
            .is_some_and(|f| f.start == file.start)
        {
            continue;
        }
        let color = if i == 0 { color } else { Color::Cyan };
        let mut shown = Label::new(range(label.span)).with_color(color);
        // A label that has nothing to add to the message only underlines.
        if !label.text.is_empty() {
            shown = shown.with_message(&label.text);
        }
        report = report.with_label(shown.with_order(i as i32));
    }
    for note in notes(d, sources) {
        report = report.with_note(note);
    }
    let mut bytes = Vec::new();
    let source = (file.name.as_str(), Source::from(&*file.text));
    if report.finish().write(source, &mut bytes).is_ok() {
        out.push_str(&String::from_utf8_lossy(&bytes));
    }
}

/// Notes and suggested edits as sentences.
fn notes(d: &Diagnostic, sources: &SourceMap) -> Vec<String> {
    let mut all = d.notes.clone();
    for fix in &d.fixes {
        let mut text = fix.title.clone();
        if let [edit] = &fix.edits[..]
            && !edit.text.is_empty()
            && !text.contains(edit.text.trim())
        {
            let line = sources.file(edit.span).map(|f| f.line_col(edit.span.start));
            let _ = match line {
                Some(at) => write!(text, ": `{}` at {}:{}", edit.text.trim(), at.line, at.col),
                None => write!(text, ": `{}`", edit.text.trim()),
            };
        }
        all.push(text);
    }
    all
}
