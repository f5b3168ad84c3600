//! Turns run-time errors of native code into the diagnostics that the evaluator gives for the same
//! failures.

use std::cell::RefCell;

use relax_base::{Code, Diagnostic, SourceMap, Span, Symbol};
use rustc_hash::FxHashMap;

use crate::native;

/// The source locations that a program's run-time messages may refer to.
#[derive(Default)]
pub struct Places(RefCell<FxHashMap<Symbol, Span>>);

impl Places {
    /// Returns the name of a location and records it.
    pub fn name(&self, sources: &SourceMap, span: Span) -> Symbol {
        let name = native::place(sources, span);
        self.0.borrow_mut().entry(name).or_insert(span);
        name
    }

    /// Returns the span with this location name.
    pub(crate) fn find(&self, name: &str) -> Option<Span> {
        self.0.borrow().get(&Symbol::new(name)).copied()
    }

    /// Converts a run-time message to a diagnostic: its location is the prefix of the message
    /// (`a.relay:3:5: …`), that of the call its suffix (`… (called at a.relay:7:3)`). Returns
    /// `None` for a message without a location.
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

/// Maps a status of the runtime (`RxStatus`) to the error code that the evaluator uses for it.
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
