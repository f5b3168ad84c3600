//! Diagnostics as a SARIF 2.1.0 log, the format of code scanning services and editors.
//!
//! The objects are written as they are in the standard; a test reads them back with the types of a
//! crate that is generated from its schema.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use relax_base::{Code, Diagnostic, Severity, Span, explain};
use serde_json::{Value, json};

use super::Checked;

/// The schema of version 2.1.0.
const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// Returns all findings as one log with one run.
pub fn sarif(all: &[Checked]) -> String {
    // The rules: every code that occurs, with its documentation.
    let mut rules: BTreeMap<Code, usize> = all
        .iter()
        .flat_map(|c| c.diagnostics.iter())
        .map(|d| (d.code, 0))
        .collect();
    for (i, index) in rules.values_mut().enumerate() {
        *index = i;
    }
    let found: Vec<Value> = all
        .iter()
        .flat_map(|c| c.diagnostics.iter().map(move |d| (c, d)))
        .map(|(c, d)| result(c, d, rules[&d.code]))
        .collect();
    let log = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "columnKind": "unicodeCodePoints",
            "results": found,
            "tool": {
                "driver": {
                    "name": "relax-check",
                    "version": env!("CARGO_PKG_VERSION"),
                    "rules": rules.keys().map(|&c| rule(c)).collect::<Vec<_>>(),
                },
            },
        }],
    });
    let mut text = serde_json::to_string_pretty(&log).unwrap_or_default();
    text.push('\n');
    text
}

fn rule(code: Code) -> Value {
    let page = explain::explain(code).unwrap_or_default();
    // A page starts with `# RX0101: title`.
    let title = page
        .lines()
        .next()
        .and_then(|l| l.split_once(": "))
        .map_or("", |t| t.1);
    json!({
        "id": code.to_string(),
        "shortDescription": { "text": title },
        "help": { "text": page, "markdown": page },
    })
}

fn result(checked: &Checked, d: &Diagnostic, rule: usize) -> Value {
    let level = match d.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    let mut text = d.message.clone();
    for note in &d.notes {
        text.push('\n');
        text.push_str(note);
    }
    let at = |span, text: &str| location(checked, span, text);
    let related = d.labels.iter().skip(1).filter_map(|l| at(l.span, &l.text));
    json!({
        "ruleId": d.code.to_string(),
        "ruleIndex": rule,
        "level": level,
        "message": { "text": text },
        "locations": at(d.span(), &d.labels[0].text).into_iter().collect::<Vec<_>>(),
        "relatedLocations": related.collect::<Vec<_>>(),
        "fixes": fixes(checked, d),
    })
}

fn artifact(name: &str) -> Value {
    json!({ "uri": uri(name) })
}

/// Converts a path to a URI, relative if the path is; reserved characters are escaped.
fn uri(path: &str) -> String {
    let path = path.replace('\\', "/");
    let mut out = String::with_capacity(path.len());
    if path.starts_with('/') {
        out.push_str("file://");
    }
    for b in path.bytes() {
        let plain = b.is_ascii_alphanumeric() || b"-._~/".contains(&b);
        match plain {
            true => out.push(char::from(b)),
            false => _ = write!(out, "%{b:02X}"),
        }
    }
    out
}

fn region(checked: &Checked, span: Span) -> Option<Value> {
    let file = checked.file(span)?;
    let (start, end) = (file.line_col(span.start), file.line_col(span.end));
    Some(json!({
        "startLine": start.line,
        "startColumn": start.col,
        "endLine": end.line,
        "endColumn": end.col,
    }))
}

fn location(checked: &Checked, span: Span, text: &str) -> Option<Value> {
    let file = checked.file(span)?;
    let mut location = json!({
        "physicalLocation": {
            "artifactLocation": artifact(&file.name),
            "region": region(checked, span)?,
        },
    });
    if !text.is_empty() {
        location["message"] = json!({ "text": text });
    }
    Some(location)
}

fn fixes(checked: &Checked, d: &Diagnostic) -> Vec<Value> {
    let mut all = Vec::new();
    for fix in &d.fixes {
        let Some(file) = fix.edits.first().and_then(|e| checked.file(e.span)) else {
            continue;
        };
        let replacements: Vec<Value> = fix
            .edits
            .iter()
            .filter_map(|e| {
                Some(json!({
                    "deletedRegion": region(checked, e.span)?,
                    "insertedContent": { "text": e.text },
                }))
            })
            .collect();
        all.push(json!({
            "description": { "text": fix.title },
            "artifactChanges": [{
                "artifactLocation": artifact(&file.name),
                "replacements": replacements,
            }],
        }));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::uri;

    #[test]
    fn addresses_are_escaped() {
        assert_eq!(uri("a b/c#1%.relay"), "a%20b/c%231%25.relay");
        assert_eq!(
            uri("/tmp/größe[1].relay"),
            "file:///tmp/gr%C3%B6%C3%9Fe%5B1%5D.relay"
        );
        assert_eq!(uri("<stdin>"), "%3Cstdin%3E");
    }
}
