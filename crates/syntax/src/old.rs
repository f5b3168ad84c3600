//! Forms of earlier versions of the text: accepted, with one warning per file.

use relax_base::{Code, Diagnostic, Edit, Fix, Span};

/// The code of the one warning about old forms.
pub const OLD_FORM: Code = Code(120);

/// An occurrence of an earlier version's form.
#[derive(Clone, PartialEq, Debug)]
pub struct OldForm {
    /// Its span.
    pub span: Span,
    /// A short description: "`^`, which reads a reference".
    pub what: &'static str,
    /// The edits that rewrite it to the current form.
    pub edits: Vec<Edit>,
}

impl OldForm {
    /// Creates an occurrence that a single edit rewrites.
    pub fn new(what: &'static str, span: Span, text: impl Into<String>) -> OldForm {
        OldForm {
            span,
            what,
            edits: vec![Edit {
                span,
                text: text.into(),
            }],
        }
    }

    /// Adds an edit.
    pub fn edit(mut self, span: Span, text: impl Into<String>) -> OldForm {
        self.edits.push(Edit {
            span,
            text: text.into(),
        });
        self
    }
}

/// The maximum number of kinds of forms that a warning lists.
const NAMED: usize = 6;

/// Returns the warning about all old forms of a file; `None` if there are none. Its fix rewrites
/// them.
pub fn warning(mut forms: Vec<OldForm>) -> Option<Diagnostic> {
    forms.sort_by_key(|f| f.span);
    let first = forms.first()?;
    let mut kinds: Vec<(&'static str, usize)> = Vec::new();
    for form in &forms {
        match kinds.iter_mut().find(|k| k.0 == form.what) {
            Some(kind) => kind.1 += 1,
            None => kinds.push((form.what, 1)),
        }
    }
    let places = match forms.len() {
        1 => String::new(),
        n => format!(", in {n} places"),
    };
    let message = format!("this text is written as an earlier version of TVM wrote it{places}");
    let mut d = Diagnostic::warning(OLD_FORM, first.span, message).primary(first.what);
    for (what, count) in kinds.iter().take(NAMED).filter(|_| forms.len() > 1) {
        d = d.note(match count {
            1 => format!("once: {what}"),
            n => format!("{n} times: {what}"),
        });
    }
    if kinds.len() > NAMED {
        d = d.note(format!("and {} more sorts", kinds.len() - NAMED));
    }
    let edits = forms.into_iter().flat_map(|f| f.edits).collect();
    d = d.note("`relax-fmt --upgrade` rewrites it");
    d.fixes.push(Fix {
        title: "write it as it is written now".into(),
        edits,
        certain: true,
    });
    Some(d)
}
