//! Expected diagnostics: `--verify-diagnostics`.
//!
//! `// expected-error@+1 {{text}}` expects a diagnostic on the next line whose code and message
//! contain the text; `@-1`, `@above`, `@below` and no offset at all work likewise, and so do
//! `expected-warning` and `expected-note`.

use relax_base::{Diagnostic, Diagnostics, Severity, SourceFile};

use crate::stop::Stop;

/// An expectation.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Expected {
    severity: Severity,
    /// The line of the diagnostic, from 1; 0 for one without a location.
    line: u32,
    text: String,
    /// The line of the comment, from 1.
    at: u32,
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

fn parse(text: &str) -> Vec<Expected> {
    let mut out = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let at = i as u32 + 1;
        let Some((_, comment)) = line.split_once("//") else {
            continue;
        };
        for severity in [Severity::Error, Severity::Warning, Severity::Note] {
            let mut rest = comment;
            while let Some((_, after)) = rest.split_once(&format!("expected-{}", word(severity))) {
                let Some((place, message)) = after.split_once("{{") else {
                    break;
                };
                let Some((message, tail)) = message.split_once("}}") else {
                    break;
                };
                rest = tail;
                let line = match place.trim().trim_start_matches('@') {
                    "" => Some(at),
                    "above" => at.checked_sub(1),
                    "below" => Some(at + 1),
                    "unknown" => Some(0),
                    offset => offset
                        .parse::<i32>()
                        .ok()
                        .and_then(|o| at.checked_add_signed(o)),
                };
                if let Some(line) = line {
                    out.push(Expected {
                        severity,
                        line,
                        text: message.to_owned(),
                        at,
                    });
                }
            }
        }
    }
    out
}

fn line_of(file: &SourceFile, d: &Diagnostic) -> u32 {
    let (span, whole) = (d.span(), file.span());
    if span.is_none() || span.start < whole.start || span.end > whole.end {
        return 0;
    }
    file.line_col(span.start).line
}

/// Compares the expectations in a text with its diagnostics.
///
/// # Errors
/// [`Stop::Failed`]: expectations without a diagnostic, and diagnostics without an expectation, one
/// per line.
pub fn compare(file: &SourceFile, diagnostics: &Diagnostics) -> Result<(), Stop> {
    let mut open = parse(&file.text);
    let mut problems = String::new();
    for d in diagnostics.iter() {
        let (line, message) = (line_of(file, d), format!("{}: {}", d.code, d.message));
        let fits =
            |e: &Expected| e.severity == d.severity && e.line == line && message.contains(&e.text);
        match open.iter().position(fits) {
            Some(i) => {
                open.remove(i);
            }
            None => {
                let severity = word(d.severity);
                problems.push_str(&format!(
                    "{}:{line}: unexpected {severity}: {message}\n",
                    file.name
                ));
            }
        }
    }
    for e in open {
        let (severity, name) = (word(e.severity), &file.name);
        problems.push_str(&format!(
            "{name}:{}: expected {severity} was not reported on line {}: {}\n",
            e.at, e.line, e.text
        ));
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Stop::Failed(problems))
    }
}

/// Returns the text with its expectations replaced by the actual diagnostics.
pub fn update(file: &SourceFile, diagnostics: &Diagnostics) -> String {
    let old: Vec<u32> = parse(&file.text).iter().map(|e| e.at).collect();
    let mut found: Vec<(u32, &Diagnostic)> =
        diagnostics.iter().map(|d| (line_of(file, d), d)).collect();
    found.sort_by_key(|f| f.0);
    let mut out = String::new();
    let comment = |d: &Diagnostic, place: &str, indent: &str| {
        let severity = word(d.severity);
        format!(
            "{indent}// expected-{severity}@{place} {{{{{}: {}}}}}\n",
            d.code, d.message
        )
    };
    for (_, d) in found.iter().filter(|f| f.0 == 0) {
        out.push_str(&comment(d, "unknown", ""));
    }
    for (i, line) in file.text.lines().enumerate() {
        let number = i as u32 + 1;
        let here: Vec<_> = found.iter().filter(|f| f.0 == number).collect();
        let indent = &line[..line.len() - line.trim_start().len()];
        for (k, (_, d)) in here.iter().enumerate() {
            out.push_str(&comment(d, &format!("+{}", here.len() - k), indent));
        }
        if !old.contains(&number) {
            out.push_str(line);
            out.push('\n');
        } else if let Some((code, _)) = line.split_once("//")
            && !code.trim().is_empty()
        {
            out.push_str(code.trim_end());
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use relax_base::{Code, SourceMap};

    #[test]
    fn updated_texts_fit() {
        let text = "a\n  b // expected-note {{old}}\n// expected-error@+1 {{RX0101: no}}\nc\n";
        let mut map = SourceMap::new();
        let file = map.add("x", text).expect("short");
        let at = |needle: &str| {
            let start = file.start + text.find(needle).expect("there") as u32;
            relax_base::Span::new(start, start + 1)
        };
        let mut all = Diagnostics::new();
        all.push(Diagnostic::error(Code(101), at("b"), "no"));
        all.push(Diagnostic::warning(Code(102), at("b"), "yes"));
        assert!(compare(&file, &all).is_err());
        let new = map.add("x", update(&file, &all)).expect("short");
        let moved = |needle: &str| {
            let start = new.start + new.text.find(needle).expect("there") as u32;
            relax_base::Span::new(start, start + 1)
        };
        let mut again = Diagnostics::new();
        again.push(Diagnostic::error(Code(101), moved("b\n"), "no"));
        again.push(Diagnostic::warning(Code(102), moved("b\n"), "yes"));
        assert_eq!(compare(&new, &again), Ok(()), "{}", new.text);
    }
}
