//! What native code says when it fails, as the diagnostic that the evaluator gives for it.

use std::cell::RefCell;

use relax_base::{Code, Diagnostic, SourceMap, Span, Symbol};
use rustc_hash::FxHashMap;

use crate::native;

/// The places that a program's messages may name.
#[derive(Default)]
pub struct Places(RefCell<FxHashMap<Symbol, Span>>);

impl Places {
    /// Names a place, and remembers which it is.
    pub fn name(&self, sources: &SourceMap, span: Span) -> Symbol {
        let name = native::place(sources, span);
        self.0.borrow_mut().entry(name).or_insert(span);
        name
    }

    /// Returns where a place is, by its name.
    pub(crate) fn find(&self, name: &str) -> Option<Span> {
        self.0.borrow().get(&Symbol::new(name)).copied()
    }

    /// A failure with its place, where the message begins with one (`a.relay:3:5: …`), and that of
    /// the call that it ends with (`… (called at a.relay:7:3)`). `None` for a message without a
    /// place.
    pub fn diagnostic(&self, status: i32, message: &str) -> Option<Diagnostic> {
        let code = code(status)?;
        let (place, mut text) = message.split_once(": ")?;
        let mut called = None;
        if let Some((rest, at)) = text.rsplit_once(" (called at ")
            && let Some(span) = at.strip_suffix(')').and_then(|at| self.find(at))
        {
            (text, called) = (rest, Some(span));
        }
        let d = Diagnostic::error(code, self.find(place)?, text);
        Some(match called {
            Some(span) => d.label(span, "called here"),
            None => d,
        })
    }
}

/// The code of a status of the runtime (`RxStatus`); the evaluator gives the same.
pub(crate) fn code(status: i32) -> Option<Code> {
    Some(Code(match status {
        1 => 852,
        2 => 1101,
        3 => 1103,
        4 => 1108,
        5 => 1106,
        6 => 1102,
        10 => 850,
        11 => 851,
        12 => 1110,
        13 => 854,
        _ => return None,
    }))
}
