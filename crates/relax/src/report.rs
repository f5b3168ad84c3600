//! Diagnostics with resolved source locations, independent of the source map.

use std::fmt::{self, Write as _};

use relax_base::{Diagnostic, Diagnostics, Severity, SourceMap, Span};

/// A source location: one-based lines, one-based columns counted in characters.
///
/// ```
/// let report = relax::Module::check("def @main() {\n  %y\n}");
/// let place = &report.findings()[0].places[0];
/// assert_eq!((place.line, place.column, place.source.as_str()), (2, 3, "  %y"));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The file.
    pub file: String,
    /// The line of the first character.
    pub line: u32,
    /// The column of the first character.
    pub column: u32,
    /// The line of the character after the last.
    pub end_line: u32,
    /// The column of the character after the last.
    pub end_column: u32,
    /// The label's text; may be empty.
    pub text: String,
    /// The first source line.
    pub source: String,
}

/// A suggested fix.
///
/// ```
/// let report = relax::Module::check("def @main(%input: int32) { %imput }");
/// let suggestion = &report.findings()[0].suggestions[0];
/// assert_eq!(suggestion.edits[0].1, "%input");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Suggestion {
    /// What to do, in the imperative.
    pub title: String,
    /// Whether the fix is machine-applicable: it is certainly what was intended.
    pub certain: bool,
    /// The ranges to replace and their replacements.
    pub edits: Vec<(Place, String)>,
}

/// An error, a warning or a note.
///
/// ```
/// let report = relax::Module::check("def @main() { %y }");
/// let finding = &report.findings()[0];
/// assert_eq!((finding.word(), finding.code.as_str()), ("error", "RX0201"));
/// assert!(relax::explain(relax::Code(201)).is_some());
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The code, such as `RX0319`; [`crate::explain`] has a page for each.
    pub code: String,
    /// The severity.
    pub severity: Severity,
    /// One sentence without a full stop.
    pub message: String,
    /// The locations, the primary one first; empty if the finding concerns no source file.
    pub places: Vec<Place>,
    /// Additional sentences.
    pub notes: Vec<String>,
    /// Suggested fixes.
    pub suggestions: Vec<Suggestion>,
}

/// All findings about an input, in order.
///
/// ```
/// let report = relax::Module::check("def @main(%x: Tensor[(2), float32]) { %y }");
/// assert!(report.has_errors());
/// assert_eq!(report.findings()[0].places[0].line, 1);
/// ```
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Report(Vec<Finding>);

impl Report {
    /// Resolves the locations of diagnostics.
    pub fn new(diagnostics: &Diagnostics, sources: &SourceMap) -> Report {
        Report(diagnostics.iter().map(|d| finding(d, sources)).collect())
    }

    /// All findings.
    pub fn findings(&self) -> &[Finding] {
        &self.0
    }

    /// Returns whether there are no findings.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether any finding is an error.
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|f| f.severity == Severity::Error)
    }
}

fn place(span: Span, text: &str, sources: &SourceMap) -> Option<Place> {
    let file = sources.file(span).filter(|_| !span.is_none())?;
    let (from, to) = (file.line_col(span.start), file.line_col(span.end));
    Some(Place {
        file: file.name.clone(),
        line: from.line,
        column: from.col,
        end_line: to.line,
        end_column: to.col,
        text: text.to_owned(),
        source: file.line(from.line).to_owned(),
    })
}

fn finding(d: &Diagnostic, sources: &SourceMap) -> Finding {
    let suggestions = d.fixes.iter().map(|fix| Suggestion {
        title: fix.title.clone(),
        certain: fix.certain,
        edits: (fix.edits.iter())
            .filter_map(|e| Some((place(e.span, "", sources)?, e.text.clone())))
            .collect(),
    });
    Finding {
        code: d.code.to_string(),
        severity: d.severity,
        message: d.message.clone(),
        places: (d.labels.iter())
            .filter_map(|l| place(l.span, &l.text, sources))
            .collect(),
        notes: d.notes.clone(),
        suggestions: suggestions.collect(),
    }
}

impl Finding {
    /// Returns the severity as a word.
    pub fn word(&self) -> &'static str {
        match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

/// Source lines longer than this are abbreviated.
const WIDE: usize = 160;

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place {
            file, line, column, ..
        } = self;
        writeln!(f, "  --> {file}:{line}:{column}")?;
        let width = self.source.chars().count();
        if width > WIDE {
            return match self.text.is_empty() {
                true => Ok(()),
                false => writeln!(f, "    {}", self.text),
            };
        }
        let end = match self.end_line == self.line {
            true => self.end_column,
            false => width as u32 + 1,
        };
        let marks = "^".repeat(end.saturating_sub(self.column).max(1) as usize);
        let indent = " ".repeat(column.saturating_sub(1) as usize);
        writeln!(f, "{line:>5} | {}", self.source)?;
        writeln!(
            f,
            "      | {}",
            format!("{indent}{marks} {}", self.text).trim_end()
        )
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}[{}]: {}", self.word(), self.code, self.message)?;
        self.places.iter().try_for_each(|p| p.fmt(f))?;
        (self.notes.iter()).try_for_each(|n| writeln!(f, "  note: {n}"))?;
        self.suggestions.iter().try_for_each(|s| {
            let with = match &s.edits[..] {
                [(_, text)] if !text.trim().is_empty() => format!(": `{}`", text.trim()),
                _ => String::new(),
            };
            writeln!(f, "  help: {}{with}", s.title)
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for finding in &self.0 {
            write!(text, "{finding}")?;
        }
        f.write_str(text.trim_end())
    }
}
