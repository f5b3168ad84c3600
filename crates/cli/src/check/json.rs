//! Diagnostics as a JSON object, as documented in `docs/diagnostics.md`.

use relax_base::{Severity, Span};
use serde::Serialize;

use super::{Checked, word};

#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    files: usize,
    errors: usize,
    warnings: usize,
    diagnostics: Vec<Item<'a>>,
}

#[derive(Serialize)]
struct Item<'a> {
    code: String,
    severity: &'static str,
    message: &'a str,
    place: Option<Place<'a>>,
    labels: Vec<Label<'a>>,
    notes: &'a [String],
    fixes: Vec<Fix<'a>>,
}

#[derive(Serialize)]
struct Label<'a> {
    primary: bool,
    text: &'a str,
    place: Option<Place<'a>>,
}

#[derive(Serialize)]
struct Fix<'a> {
    title: &'a str,
    certain: bool,
    edits: Vec<Edit<'a>>,
}

#[derive(Serialize)]
struct Edit<'a> {
    place: Option<Place<'a>>,
    text: &'a str,
}

#[derive(Serialize)]
struct Place<'a> {
    file: &'a str,
    start: Position,
    end: Position,
}

#[derive(Serialize)]
struct Position {
    /// The one-based line.
    line: u32,
    /// The one-based column, in characters.
    column: u32,
    /// The byte offset in the file.
    offset: u32,
}

/// Returns all findings as one object.
pub fn json(all: &[Checked]) -> String {
    let sum = |s| all.iter().map(|c| c.count(s)).sum();
    let report = Report {
        version: 1,
        files: all.len(),
        errors: sum(Severity::Error),
        warnings: sum(Severity::Warning),
        diagnostics: all.iter().flat_map(items).collect(),
    };
    let mut text = serde_json::to_string_pretty(&report).unwrap_or_default();
    text.push('\n');
    text
}

fn items(checked: &Checked) -> impl Iterator<Item = Item<'_>> {
    checked.diagnostics.iter().map(|d| Item {
        code: d.code.to_string(),
        severity: word(d.severity),
        message: &d.message,
        place: place(checked, d.span()),
        labels: d
            .labels
            .iter()
            .enumerate()
            .map(|(i, l)| Label {
                primary: i == 0,
                text: &l.text,
                place: place(checked, l.span),
            })
            .collect(),
        notes: &d.notes,
        fixes: d
            .fixes
            .iter()
            .map(|f| Fix {
                title: &f.title,
                certain: f.certain,
                edits: f
                    .edits
                    .iter()
                    .map(|e| Edit {
                        place: place(checked, e.span),
                        text: &e.text,
                    })
                    .collect(),
            })
            .collect(),
    })
}

fn place(checked: &Checked, span: Span) -> Option<Place<'_>> {
    let file = checked.file(span)?;
    let position = |at: u32| {
        let line_col = file.line_col(at);
        Position {
            line: line_col.line,
            column: line_col.col,
            offset: at - file.start,
        }
    };
    Some(Place {
        file: &file.name,
        start: position(span.start),
        end: position(span.end),
    })
}
