//! What `relax-check` does with a file, and the forms in which it tells.

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

/// How files are read and checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Whether equalities of dimensions that cannot be decided are errors.
    pub strict_shapes: bool,
    /// How they are read.
    pub reading: ReadOptions,
}

/// A file, and what there is to say about it, in the order of the source.
#[derive(Debug)]
pub struct Checked {
    /// The file's text is in here.
    pub sources: SourceMap,
    /// What is wrong with it.
    pub diagnostics: Diagnostics,
    /// How many suggested edits were applied.
    pub fixed: usize,
    /// Why nothing is known of it, where it cannot be read or written.
    pub failed: Option<String>,
}

/// A file cannot be read or written.
const UNREADABLE: Code = Code(150);

impl Checked {
    /// A file of which nothing but a reason is known.
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

    /// Number of diagnostics of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.diagnostics
            .iter()
            .filter(|d| d.severity == severity)
            .count()
    }

    /// The file a span lies in, unless it is no place at all.
    fn file(&self, span: Span) -> Option<&Arc<SourceFile>> {
        self.sources.file(span).filter(|_| !span.is_none())
    }
}

/// Checks a text: syntax, names, types and what follows from them.
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

/// Checks a file, after applying its certain edits when `fix` is asked for: a file is rewritten in
/// place, standard input goes to standard output as mended.
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

/// The word for a severity.
fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}
