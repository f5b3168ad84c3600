//! Errors and warnings as data: a code, places, reasons and suggested edits.

use crate::Span;

/// A stable diagnostic code, `RX0101` for `Code(101)`. The first two digits name the room:
/// `RX01` lexing and parsing, `RX02` names and items, `RX03` types and kinds, `RX04` shapes,
/// `RX05` operators and attributes, `RX06` matches, `RX07` dataflow and effects, `RX08` tensor
/// programs, `RX09` pipelines and passes, `RX10` lowering and code generation, `RX11` running,
/// `RX12` files and input/output. Every code has a file in `docs/errors/` (see [`crate::explain`]).
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

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Probably a mistake; the program still means something.
    Warning,
    /// The program means nothing.
    Error,
}

/// A place and what is to be said about it. The first label of a diagnostic is the primary one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// Where.
    pub span: Span,
    /// What; may be empty for the primary label.
    pub text: String,
}

/// Replace the text at `span` by `text`; an empty span inserts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edit {
    /// What is replaced.
    pub span: Span,
    /// The new text.
    pub text: String,
}

/// A suggested change of the source, applied by `relax-check --fix` when `certain`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fix {
    /// An imperative: "insert `;`".
    pub title: String,
    /// The edits, which do not overlap.
    pub edits: Vec<Edit>,
    /// Whether the edit is what was meant beyond reasonable doubt.
    pub certain: bool,
}

/// One mistake (or doubt, or remark), complete: rendering needs nothing but the source map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// The stable code.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// One sentence without a full stop, in plain words.
    pub message: String,
    /// Places; the first is the primary one.
    pub labels: Vec<Label>,
    /// More sentences: where a fact came from, what rule was broken.
    pub notes: Vec<String>,
    /// What to do.
    pub fixes: Vec<Fix>,
}

/// The places beside the primary one that a diagnostic names; where there are more a note says so.
const MAX_PLACES: usize = 6;
const MORE_PLACES: &str = "more places have part in it";

/// The bytes of a sentence from which on its middle is left out: types and extents grow with a
/// program.
const MAX_SENTENCE: usize = 1000;

/// A sentence that somebody can read: of a very long one the beginning and the end.
fn readable(text: String) -> String {
    if text.len() <= MAX_SENTENCE {
        return text;
    }
    let head = text.floor_char_boundary(MAX_SENTENCE / 2);
    let tail = text.ceil_char_boundary(text.len() - MAX_SENTENCE / 2);
    format!("{} … {}", &text[..head], &text[tail..])
}

impl Diagnostic {
    /// A diagnostic of any severity at `span`.
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
    /// An error at `span`.
    pub fn error(code: Code, span: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, span, message)
    }
    /// A warning at `span`.
    pub fn warning(code: Code, span: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, span, message)
    }
    /// Says something at the primary place itself.
    pub fn primary(mut self, text: impl Into<String>) -> Self {
        self.labels[0].text = readable(text.into());
        self
    }
    /// Adds a second place, as long as there are few enough to be read.
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
    /// Adds a sentence.
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(readable(text.into()));
        self
    }
    /// Suggests one edit that is likely but not certain to be meant.
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
    /// Suggests one edit that `--fix` may apply unseen.
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
    /// The primary place.
    pub fn span(&self) -> Span {
        self.labels[0].span
    }
    /// Returns whether this is an error.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// What a stage has to say beside its result.
#[derive(Clone, Default, Debug)]
pub struct Diagnostics {
    items: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Nothing to say.
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds one.
    pub fn push(&mut self, d: Diagnostic) {
        self.items.push(d);
    }
    /// Adds all of another stage's.
    pub fn extend(&mut self, other: impl IntoIterator<Item = Diagnostic>) {
        self.items.extend(other);
    }
    /// Returns whether any of them is an error.
    pub fn has_errors(&self) -> bool {
        self.items.iter().any(Diagnostic::is_error)
    }
    /// Number of errors.
    pub fn error_count(&self) -> usize {
        self.items.iter().filter(|d| d.is_error()).count()
    }
    /// All, in order of discovery.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.items.iter()
    }
    /// Returns whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    /// Number of diagnostics.
    pub fn len(&self) -> usize {
        self.items.len()
    }
    /// Sorts by place, then code, and drops exact repetitions.
    pub fn sort(&mut self) {
        self.items.sort_by_key(|d| (d.span(), d.code));
        self.items.dedup();
    }
    /// The diagnostics as a vector.
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
