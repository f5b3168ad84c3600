//! Formatting, as the smallest edits of whole lines.

use imara_diff::{Algorithm, Diff, InternedInput};
use lsp_types::{Range, TextEdit};
use relax_base::SourceMap;
use relax_syntax::FmtOptions;

use crate::document::Document;

/// Returns the edits that format a document, or the part of it that touches `only`. A text with
/// syntax errors is formatted chunk by chunk, except for the chunks that have errors.
pub fn format(doc: &mut Document, only: Option<Range>) -> Vec<TextEdit> {
    let old = doc.text.as_str().to_owned();
    let new = match layout(&old) {
        Some(new) => new,
        None => piecewise(doc, &old),
    };
    edits(doc, &old, &new, only)
}

fn layout(text: &str) -> Option<String> {
    let mut map = SourceMap::new();
    let file = map.add("", text)?;
    relax_syntax::format_source(&file, &FmtOptions::default()).ok()
}

fn piecewise(doc: &mut Document, old: &str) -> String {
    let mut out = String::with_capacity(old.len());
    let mut last = 0;
    for part in doc.parts() {
        let c = &part.chunk;
        out.push_str(&old[last..c.start]);
        last = c.end;
        let text = &old[c.start..c.end];
        let sound = part.unit.syntax_errors == 0;
        match sound.then(|| layout(text)).flatten() {
            // The surrounding white space also affects its neighbours.
            Some(new) => {
                let body = text.trim();
                let at = text.len() - text.trim_start().len();
                out.push_str(&text[..at]);
                out.push_str(new.trim());
                out.push_str(&text[at + body.len()..]);
            }
            None => out.push_str(text),
        }
    }
    out.push_str(&old[last..]);
    out
}

/// Returns where lines start, and where the last one ends.
fn line_starts(text: &str) -> Vec<usize> {
    let mut starts = vec![0];
    for line in text.split_inclusive('\n') {
        starts.push(starts[starts.len() - 1] + line.len());
    }
    starts
}

fn edits(doc: &Document, old: &str, new: &str, only: Option<Range>) -> Vec<TextEdit> {
    let (a, b) = (line_starts(old), line_starts(new));
    let mut out = Vec::new();
    for change in Diff::compute(Algorithm::Myers, &InternedInput::new(old, new)).hunks() {
        let place = |starts: &[usize], line: u32| starts[line as usize];
        let (from, to) = (change.before, change.after);
        let range = doc.text.range(place(&a, from.start), place(&a, from.end));
        let text = &new[place(&b, to.start)..place(&b, to.end)];
        let outside = |r: Range| range.end < r.start || r.end < range.start;
        if !only.is_some_and(outside) {
            out.push(TextEdit::new(range, text.to_owned()));
        }
    }
    out
}
