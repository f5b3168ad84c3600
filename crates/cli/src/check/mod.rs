//! Checking of files by `relax-check`, and its output formats.

pub mod fix;
mod json;
pub mod levels;
mod lines;
mod sarif;

use std::path::Path;
use std::sync::Arc;

use relax::{Contents, InferOptions, ReadOptions, Session};
use relax_base::{Code, Diagnostic, Diagnostics, Severity, SourceFile, SourceMap, Span};

use crate::stop::Stop;

pub use json::json;
pub use lines::{github, short};
pub use sarif::sarif;

/// Options for reading and checking files.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Whether undecidable equalities of dimensions are errors.
    pub strict_shapes: bool,
    /// The reading options.
    pub reading: ReadOptions,
}

/// A file with its diagnostics, in source order.
#[derive(Debug)]
pub struct Checked {
    /// The source map with the file's text.
    pub sources: SourceMap,
    /// The diagnostics.
    pub diagnostics: Diagnostics,
    /// The number of fixes applied.
    pub fixed: usize,
    /// The reason, if the file cannot be read or written.
    pub failed: Option<String>,
}

/// A file cannot be read or written.
const UNREADABLE: Code = Code(150);

impl Checked {
    /// Creates the result for an unreadable file.
    pub fn failed(name: &str, reason: String) -> Checked {
        let mut sources = SourceMap::new();
        let file = sources.add(name, "");
        let place = file.map_or(Span::NONE, |f| f.span());
        let d = Diagnostic::error(UNREADABLE, place, reason.clone());
        Checked {
            sources,
            diagnostics: d.into(),
            fixed: 0,
            failed: Some(reason),
        }
    }

    /// Returns the number of diagnostics of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.diagnostics
            .iter()
            .filter(|d| d.severity == severity)
            .count()
    }

    /// Returns the file that a span lies in, if any.
    fn file(&self, span: Span) -> Option<&Arc<SourceFile>> {
        self.sources.file(span).filter(|_| !span.is_none())
    }
}

/// Checks a text: syntax, names, types, and everything that follows from them.
pub fn check(name: &str, bytes: impl Into<Contents>, options: &Options) -> Checked {
    let mut session = Session::new(options.reading);
    session.beside = Some(crate::model::beside);
    let infer = InferOptions {
        strict_shapes: options.strict_shapes,
    };
    let diagnostics = session.review(name, bytes, &infer);
    Checked {
        sources: session.sources,
        diagnostics,
        fixed: 0,
        failed: None,
    }
}

/// Checks a file; with `fix`, its machine-applicable fixes are applied first: a file is rewritten
/// in place, fixed standard input is written to standard output.
///
/// # Errors
/// The file cannot be read or written.
pub fn check_file(path: &Path, options: &Options, fix: bool) -> Result<Checked, Stop> {
    let name = crate::io::display_name(path);
    if !fix {
        return Ok(check(&name, crate::io::contents(path)?, options));
    }
    let bytes = crate::io::read(path)?;
    let (checked, text) = fix::mend(&name, bytes.clone(), options);
    let stdin = path == Path::new("-");
    match text {
        Some(text) => crate::io::write(path, text.as_bytes())?,
        None if stdin => crate::io::write(path, &bytes)?,
        None => {}
    }
    Ok(checked)
}

/// Returns the word for a severity.
fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}
