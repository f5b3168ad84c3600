//! Diagnostics as a SARIF 2.1.0 log, the format of code scanning services and editors.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use relax_base::{Code, Diagnostic, Severity, Span, explain};
use serde_sarif::sarif::{
    ArtifactChange, ArtifactContent, ArtifactLocation, Fix, Location, Message,
    MultiformatMessageString, PhysicalLocation, Region, Replacement, ReportingDescriptor,
    Result as Found, ResultLevel, Run, SCHEMA_URL, Sarif, Tool, ToolComponent,
};

use super::Checked;

/// Returns all findings as one log with one run.
pub fn sarif(all: &[Checked]) -> String {
    // The rules: every code that occurs, with its documentation.
    let mut rules: BTreeMap<Code, i64> = all
        .iter()
        .flat_map(|c| c.diagnostics.iter())
        .map(|d| (d.code, 0))
        .collect();
    for (i, index) in rules.values_mut().enumerate() {
        *index = i as i64;
    }
    let driver = ToolComponent::builder()
        .name("relax-check")
        .version(env!("CARGO_PKG_VERSION"))
        .rules(rules.keys().map(|&c| rule(c)).collect::<Vec<_>>())
        .build();
    let found: Vec<Found> = all
        .iter()
        .flat_map(|c| c.diagnostics.iter().map(move |d| (c, d)))
        .map(|(c, d)| result(c, d, rules[&d.code]))
        .collect();
    let run = Run::builder()
        .tool(Tool::builder().driver(driver).build())
        .column_kind("unicodeCodePoints")
        .results(found)
        .build();
    let log = Sarif::builder()
        .version("2.1.0")
        .schema(SCHEMA_URL)
        .runs(vec![run])
        .build();
    let mut text = serde_json::to_string_pretty(&log).unwrap_or_default();
    text.push('\n');
    text
}

fn rule(code: Code) -> ReportingDescriptor {
    let page = explain::explain(code).unwrap_or_default();
    // A page starts with `# RX0101: title`.
    let title = page
        .lines()
        .next()
        .and_then(|l| l.split_once(": "))
        .map_or("", |t| t.1);
    let text = |t: &str| MultiformatMessageString::builder().text(t).build();
    let help = MultiformatMessageString::builder()
        .text(page)
        .markdown(page)
        .build();
    ReportingDescriptor::builder()
        .id(code.to_string())
        .short_description(text(title))
        .help(help)
        .build()
}

fn result(checked: &Checked, d: &Diagnostic, rule: i64) -> Found {
    let level = match d.severity {
        Severity::Error => ResultLevel::Error,
        Severity::Warning => ResultLevel::Warning,
        Severity::Note => ResultLevel::Note,
    };
    let mut text = d.message.clone();
    for note in &d.notes {
        text.push('\n');
        text.push_str(note);
    }
    let at = |span, text: &str| location(checked, span, text);
    let related = d.labels.iter().skip(1).filter_map(|l| at(l.span, &l.text));
    Found::builder()
        .rule_id(d.code.to_string())
        .rule_index(rule)
        .level(level)
        .message(message(&text))
        .locations(
            at(d.span(), &d.labels[0].text)
                .into_iter()
                .collect::<Vec<_>>(),
        )
        .related_locations(related.collect::<Vec<_>>())
        .fixes(fixes(checked, d))
        .build()
}

fn message(text: &str) -> Message {
    Message::builder().text(text).build()
}

fn artifact(name: &str) -> ArtifactLocation {
    ArtifactLocation::builder().uri(uri(name)).build()
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

fn region(checked: &Checked, span: Span) -> Option<Region> {
    let file = checked.file(span)?;
    let (start, end) = (file.line_col(span.start), file.line_col(span.end));
    let region = Region::builder()
        .start_line(i64::from(start.line))
        .start_column(i64::from(start.col))
        .end_line(i64::from(end.line))
        .end_column(i64::from(end.col));
    Some(region.build())
}

fn location(checked: &Checked, span: Span, text: &str) -> Option<Location> {
    let file = checked.file(span)?;
    let place = PhysicalLocation::builder()
        .artifact_location(artifact(&file.name))
        .region(region(checked, span)?)
        .build();
    let location = Location::builder().physical_location(place);
    Some(match text {
        "" => location.build(),
        text => location.message(message(text)).build(),
    })
}

fn fixes(checked: &Checked, d: &Diagnostic) -> Vec<Fix> {
    let mut all = Vec::new();
    for fix in &d.fixes {
        let Some(file) = fix.edits.first().and_then(|e| checked.file(e.span)) else {
            continue;
        };
        let replacements: Vec<Replacement> = fix
            .edits
            .iter()
            .filter_map(|e| {
                let content = ArtifactContent::builder().text(&e.text).build();
                let deleted = region(checked, e.span)?;
                Some(
                    Replacement::builder()
                        .deleted_region(deleted)
                        .inserted_content(content)
                        .build(),
                )
            })
            .collect();
        let change = ArtifactChange::builder()
            .artifact_location(artifact(&file.name))
            .replacements(replacements)
            .build();
        all.push(
            Fix::builder()
                .description(message(&fix.title))
                .artifact_changes(vec![change])
                .build(),
        );
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
