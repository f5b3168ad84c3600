//! Errors and warnings as data: a code, labelled spans, notes and suggested edits.

use crate::Span;

/// A stable diagnostic code, `RX0101` for `Code(101)`. The first two digits name the area: `RX01`
/// lexing and parsing, `RX02` names and items, `RX03` types and kinds, `RX04` shapes, `RX05`
/// operators and attributes, `RX06` matches, `RX07` dataflow and effects, `RX08` tensor programs,
/// `RX09` pipelines and passes, `RX10` lowering and code generation, `RX11` execution, `RX12` files
/// and input/output. Every code has a file in `docs/errors/` (see [`crate::explain`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(pub u16);

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RX{:04}", self.0)
    }
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

/// The severity of a diagnostic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Severity {
    /// Additional information.
    Note,
    /// Probably a mistake; the program is still valid.
    Warning,
    /// The program is invalid.
    Error,
}

/// A span with a message. The first label of a diagnostic is the primary one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// The span.
    pub span: Span,
    /// The message; may be empty for the primary label.
    pub text: String,
}

/// Replaces the text at `span` by `text`; an empty span inserts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edit {
    /// The range to replace.
    pub span: Span,
    /// The replacement.
    pub text: String,
}

/// A suggested change of the source, applied by `relax-check --fix` when `certain`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fix {
    /// The title, in the imperative: "insert `;`".
    pub title: String,
    /// The edits, which do not overlap.
    pub edits: Vec<Edit>,
    /// Whether the edit is certainly what was intended, i.e. machine-applicable.
    pub certain: bool,
}

/// One error, warning or note, self-contained: rendering needs only the source map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// The stable code.
    pub code: Code,
    /// The severity.
    pub severity: Severity,
    /// One sentence without a full stop, in plain words.
    pub message: String,
    /// The labels; the first is the primary one.
    pub labels: Vec<Label>,
    /// Additional sentences: where a fact came from, which rule was violated.
    pub notes: Vec<String>,
    /// Suggested fixes.
    pub fixes: Vec<Fix>,
}

/// The maximum number of secondary labels; further ones are replaced by a note.
const MAX_PLACES: usize = 6;
const MORE_PLACES: &str = "more places have part in it";

/// The length in bytes above which the middle of a message is elided: printed types and extents
/// grow with the program.
const MAX_SENTENCE: usize = 1000;

/// Elides the middle of a very long text.
fn readable(text: String) -> String {
    if text.len() <= MAX_SENTENCE {
        return text;
    }
    let head = text.floor_char_boundary(MAX_SENTENCE / 2);
    let tail = text.ceil_char_boundary(text.len() - MAX_SENTENCE / 2);
    format!("{} … {}", &text[..head], &text[tail..])
}

impl Diagnostic {
    /// Creates a diagnostic of any severity at `span`.
    pub fn new(severity: Severity, code: Code, span: Span, message: impl Into<String>) -> Self {
        Diagnostic {
            code,
            severity,
            message: readable(message.into()),
            labels: vec![Label {
                span,
                text: String::new(),
            }],
            notes: Vec::new(),
            fixes: Vec::new(),
        }
    }
    /// Creates an error at `span`.
    pub fn error(code: Code, span: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, span, message)
    }
    /// Creates a warning at `span`.
    pub fn warning(code: Code, span: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, span, message)
    }
    /// Sets the text of the primary label.
    pub fn primary(mut self, text: impl Into<String>) -> Self {
        self.labels[0].text = readable(text.into());
        self
    }
    /// Adds a secondary label, up to the maximum.
    pub fn label(mut self, span: Span, text: impl Into<String>) -> Self {
        if self.labels.len() > MAX_PLACES {
            if !self.notes.iter().any(|n| n == MORE_PLACES) {
                self.notes.push(MORE_PLACES.to_owned());
            }
            return self;
        }
        self.labels.push(Label {
            span,
            text: readable(text.into()),
        });
        self
    }
    /// Adds a note.
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(readable(text.into()));
        self
    }
    /// Suggests an edit that is probably but not certainly intended.
    pub fn suggest(
        mut self,
        title: impl Into<String>,
        span: Span,
        text: impl Into<String>,
    ) -> Self {
        let edits = vec![Edit {
            span,
            text: text.into(),
        }];
        self.fixes.push(Fix {
            title: title.into(),
            edits,
            certain: false,
        });
        self
    }
    /// Suggests an edit that `--fix` may apply without review.
    pub fn fix(mut self, title: impl Into<String>, span: Span, text: impl Into<String>) -> Self {
        let edits = vec![Edit {
            span,
            text: text.into(),
        }];
        self.fixes.push(Fix {
            title: title.into(),
            edits,
            certain: true,
        });
        self
    }
    /// Returns the primary span.
    pub fn span(&self) -> Span {
        self.labels[0].span
    }
    /// Returns whether this is an error.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// The diagnostics of a stage, alongside its result.
#[derive(Clone, Default, Debug)]
pub struct Diagnostics {
    items: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds a diagnostic.
    pub fn push(&mut self, d: Diagnostic) {
        self.items.push(d);
    }
    /// Adds diagnostics of another stage.
    pub fn extend(&mut self, other: impl IntoIterator<Item = Diagnostic>) {
        self.items.extend(other);
    }
    /// Returns whether any of them is an error.
    pub fn has_errors(&self) -> bool {
        self.items.iter().any(Diagnostic::is_error)
    }
    /// Returns the number of errors.
    pub fn error_count(&self) -> usize {
        self.items.iter().filter(|d| d.is_error()).count()
    }
    /// Iterates over all diagnostics, in order of discovery.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.items.iter()
    }
    /// Returns whether there are no diagnostics.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    /// Returns the number of diagnostics.
    pub fn len(&self) -> usize {
        self.items.len()
    }
    /// Sorts by position, then code, and drops exact duplicates.
    pub fn sort(&mut self) {
        self.items.sort_by_key(|d| (d.span(), d.code));
        self.items.dedup();
    }
    /// Converts the diagnostics to a vector.
    pub fn into_vec(self) -> Vec<Diagnostic> {
        self.items
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(d: Diagnostic) -> Diagnostics {
        Diagnostics { items: vec![d] }
    }
}

impl IntoIterator for Diagnostics {
    type Item = Diagnostic;
    type IntoIter = std::vec::IntoIter<Diagnostic>;
    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}
