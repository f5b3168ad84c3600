//! Single-line output formats.

use std::fmt::Write as _;

use relax_base::Severity;

use super::{Checked, word};

/// Appends `file:line:column: error[RX0301]: message`, the usual format of compilers.
pub fn short(checked: &Checked, out: &mut String) {
    // Unreadable files are reported on standard error, with their name.
    for d in checked
        .diagnostics
        .iter()
        .filter(|_| checked.failed.is_none())
    {
        if let Some(file) = checked.file(d.span()) {
            let at = file.line_col(d.span().start);
            let _ = write!(out, "{}:{}:{}: ", file.name, at.line, at.col);
        }
        let _ = writeln!(out, "{}[{}]: {}", word(d.severity), d.code, d.message);
    }
}

/// Appends workflow commands of GitHub Actions, which show diagnostics in the diff of a pull
/// request.
pub fn github(checked: &Checked, out: &mut String) {
    for d in checked.diagnostics.iter() {
        let command = match d.severity {
            Severity::Note => "notice",
            other => word(other),
        };
        let _ = write!(out, "::{command} ");
        if let Some(file) = checked.file(d.span()) {
            let (from, to) = (file.line_col(d.span().start), file.line_col(d.span().end));
            let _ = write!(out, "file={},line={},", property(&file.name), from.line);
            let _ = write!(out, "endLine={},col={},", to.line, from.col);
            // Columns are only meaningful on a single line.
            if from.line == to.line {
                let _ = write!(out, "endColumn={},", to.col);
            }
        }
        let mut text = d.message.clone();
        for more in d.notes.iter().chain(d.fixes.iter().map(|f| &f.title)) {
            let _ = write!(text, "\n{more}");
        }
        let _ = writeln!(out, "title={}::{}", d.code, data(&text));
    }
}

fn data(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
