//! Run-time faults.

use relax_base::Code;

/// A run that failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// The diagnostic code, the same as in the other engines.
    pub code: Code,
    /// A description of the failure.
    pub message: String,
    /// The source location, or empty.
    pub place: String,
    /// The location of the call, if a hand-written tensor program failed.
    pub called: Option<String>,
    /// The call stack, innermost first, as function names with instruction indices; at most
    /// sixteen.
    pub stack: Vec<(String, u32)>,
}

impl Fault {
    /// Creates the fault for a missing entry.
    pub fn no_entry(name: &str) -> Fault {
        Fault {
            code: MALFORMED,
            message: format!("the program has no entry @{name}"),
            place: String::new(),
            called: None,
            stack: Vec::new(),
        }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        f.write_str(&self.message)?;
        match &self.called {
            Some(place) => write!(f, " (called at {place})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Fault {}

/// A failure without a call stack yet.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub code: Code,
    pub message: String,
    /// Its own location in a tensor program, and whether that is hand-written.
    pub own: Option<(String, bool)>,
}

impl Trouble {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Box<Trouble> {
        Box::new(Trouble {
            code,
            message: message.into(),
            own: None,
        })
    }

    /// Creates the failure for a malformed program, which lowering does not produce: a value of the
    /// wrong kind for an instruction.
    pub(crate) fn malformed(message: impl std::fmt::Display) -> Box<Trouble> {
        Trouble::new(MALFORMED, format!("the program is malformed: {message}"))
    }
}

/// The program violates the machine's rules.
pub const MALFORMED: Code = Code(1400);
/// Out of memory.
pub(crate) const MEMORY: Code = Code(852);
/// An extent has an unexpected value.
pub(crate) const SHAPE: Code = Code(1101);
/// No clause of a match applies.
pub(crate) const MATCH: Code = Code(1102);
/// A value has the wrong kind.
pub(crate) const KIND: Code = Code(1103);
/// A packed function is unknown, or failed.
pub(crate) const PACKED: Code = Code(1106);
/// Calls nest too deep.
pub(crate) const STACK: Code = Code(1108);
/// A storage region is still in use.
pub(crate) const OVERLAP: Code = Code(1110);
/// The step limit was exceeded.
pub(crate) const STEPS: Code = Code(1111);
/// The observer ended the run.
pub(crate) const ENDED: Code = Code(1410);
