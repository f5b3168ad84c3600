//! Rendering of diagnostics for terminals.

mod view;

use std::fmt::Write as _;
use std::io::IsTerminal;

use ariadne::{Color, Config, IndexType, Label, Report, ReportKind, Source};
use clap::ValueEnum;
use relax_base::{Diagnostic, Diagnostics, Edit, Fix, Severity, SourceMap, Span, explain};

use view::View;

/// The limit on diagnostics shown; further ones are counted.
const MOST: usize = 100;

/// The maximum width of source lines if there is no terminal.
const WIDTH: usize = 240;
/// The width taken by what is before and after a source line.
const MARGIN: usize = 12;

/// The rendering style.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Whether to use colours.
    pub color: bool,
    /// The number of characters shown of a source line.
    pub width: usize,
}

/// The choice of colours.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, or where `FORCE_COLOR` or `CLICOLOR_FORCE` asks for them, unless `NO_COLOR`
    /// is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Style {
    /// Returns the style for standard error.
    pub fn for_stderr() -> Style {
        Style::of(ColorChoice::Auto)
    }

    /// Returns the style for standard error, with a choice of colours.
    pub fn of(choice: ColorChoice) -> Style {
        Style {
            color: match choice {
                ColorChoice::Auto => colored(&std::io::stderr()),
                ColorChoice::Always => true,
                ColorChoice::Never => false,
            },
            width: width().saturating_sub(MARGIN).max(40),
        }
    }
}

/// Returns the width of lines on standard error.
fn width() -> usize {
    let told = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    let terminal = || terminal_size::terminal_size_of(std::io::stderr());
    told.or_else(|| terminal().map(|(w, _)| usize::from(w.0)))
        .unwrap_or(WIDTH)
}

/// Returns whether a stream gets colours: on a terminal, or if `FORCE_COLOR` or `CLICOLOR_FORCE` is
/// set, unless `NO_COLOR` is set.
pub fn colored(stream: &impl IsTerminal) -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|v| !v.is_empty() && v != "0");
    let forced = set("FORCE_COLOR") || set("CLICOLOR_FORCE");
    let none = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    (stream.is_terminal() || forced) && !none
}

/// Prints diagnostics on standard error, and their number if not all are shown.
pub fn to_stderr(diagnostics: &Diagnostics, sources: &SourceMap) {
    to_stderr_in(diagnostics, sources, Style::for_stderr());
}

/// Like [`to_stderr`], in a style.
pub fn to_stderr_in(diagnostics: &Diagnostics, sources: &SourceMap, style: Style) {
    let text = to_string(diagnostics, sources, style);
    crate::io::say(&text);
}

/// Renders diagnostics to a string.
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

/// Renders the lines around a span, which is marked; empty for a span that is in no file.
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
    let own = |s: &Span| sources.file(*s).is_some_and(|f| f.start == file.start);
    let places: Vec<Span> = (d.labels.iter().map(|l| l.span)).filter(own).collect();
    let view = View::new(file, &places, style.width);
    let range = |span: Span| {
        let start = view.at((span.start - file.start) as usize);
        let end = view.at((span.end - file.start) as usize);
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
        if own(&label.span) {
            let text = if i == 0 { primary } else { &label.text };
            labels.push((i == 0, label.span, text));
        }
    }
    // From top to bottom, and within a line from right to left, so that connecting lines never
    // cross a label.
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
    let source = (file.name.as_str(), Source::from(view.text.as_str()));
    if report.finish().write(source, &mut bytes).is_ok() {
        let text = String::from_utf8_lossy(&bytes);
        // The column in the file, if that of the displayed line differs.
        let at = file.line_col(d.span().start);
        let shown = view.column(range(d.span()).1.start);
        let place = |column| format!("{}:{}:{column}", file.name, at.line);
        out.push_str(&text.replacen(&place(shown), &place(at.col as usize), 1));
    }
}

/// Returns the text at the primary span, and the suggestions not shown there. A primary label
/// without text shows the first suggestion if that concerns its span, otherwise the kind of error:
/// a label without text would not be marked at all.
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

/// Returns whether the title of a suggestion fully describes its edit.
fn says_all(fix: &Fix, edit: &Edit) -> bool {
    edit.text.is_empty() || fix.title.contains(edit.text.trim())
}

/// Formats a suggested edit as a sentence.
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
