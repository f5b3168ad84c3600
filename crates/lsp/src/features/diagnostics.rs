//! Conversion of diagnostics to the protocol.

use lsp_types::{
    CodeDescription, Diagnostic, DiagnosticRelatedInformation, DiagnosticSeverity, DiagnosticTag,
    Location, NumberOrString, Uri,
};
use relax_base::Severity;

use super::place::range;
use crate::document::Document;

/// The source name of the server's diagnostics.
pub const SOURCE: &str = "relax";

/// Returns all diagnostics of a document.
pub fn all(doc: &mut Document, uri: &Uri) -> Vec<Diagnostic> {
    let found = doc.diagnostics();
    (found.iter()).map(|d| one(doc, uri, d)).collect()
}

fn one(doc: &Document, uri: &Uri, d: &relax_base::Diagnostic) -> Diagnostic {
    let severity = match d.severity {
        Severity::Error => DiagnosticSeverity::ERROR,
        Severity::Warning => DiagnosticSeverity::WARNING,
        Severity::Note => DiagnosticSeverity::INFORMATION,
    };
    let mut message = d.message.clone();
    if let Some(label) = d.labels.first().filter(|l| !l.text.is_empty()) {
        message.push_str(&format!("\n{}", label.text));
    }
    for note in &d.notes {
        message.push_str(&format!("\nnote: {note}"));
    }
    let related: Vec<_> = (d.labels.iter().skip(1))
        .map(|l| DiagnosticRelatedInformation {
            location: Location::new(uri.clone(), range(doc, l.span)),
            message: l.text.clone(),
        })
        .collect();
    let code = d.code.to_string();
    Diagnostic {
        range: range(doc, d.span()),
        severity: Some(severity),
        code_description: super::lens::explain_uri(&code).map(|href| CodeDescription { href }),
        code: Some(NumberOrString::String(code)),
        source: Some(SOURCE.into()),
        message,
        related_information: (!related.is_empty()).then_some(related),
        tags: relax::is_unnecessary(d.code).then(|| vec![DiagnosticTag::UNNECESSARY]),
        data: None,
    }
}
