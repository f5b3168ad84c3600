//! Why a run ended.

use relax_base::Code;

/// A run that failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// The code of the diagnostic, the same that the other engines give.
    pub code: Code,
    /// What went wrong.
    pub message: String,
    /// Where it stands in the text, or empty.
    pub place: String,
    /// Where the tensor program that failed was called, if it is one that somebody wrote.
    pub called: Option<String>,
    /// The functions that were running, the innermost first, each with the number of its
    /// instruction. No more than sixteen.
    pub stack: Vec<(String, u32)>,
}

impl Fault {
    /// There is no entry of a name.
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

/// A failure that does not know yet where it happened.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub code: Code,
    pub message: String,
    /// Its own place, in a tensor program, and whether that was written by hand.
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

    /// The program is not what lowering makes: a value of another kind than an instruction takes.
    pub(crate) fn malformed(message: impl std::fmt::Display) -> Box<Trouble> {
        Trouble::new(MALFORMED, format!("the program is malformed: {message}"))
    }
}

/// A program that breaks the machine's rules.
pub const MALFORMED: Code = Code(1400);
/// Out of memory.
pub(crate) const MEMORY: Code = Code(852);
/// An extent is not as it should be.
pub(crate) const SHAPE: Code = Code(1101);
/// No clause of a match applies.
pub(crate) const MATCH: Code = Code(1102);
/// A value is not what it should be.
pub(crate) const KIND: Code = Code(1103);
/// A function of the host is unknown, or failed.
pub(crate) const PACKED: Code = Code(1106);
/// Calls nest too deep.
pub(crate) const STACK: Code = Code(1108);
/// Bytes of a block are still used.
pub(crate) const OVERLAP: Code = Code(1110);
/// More steps than allowed.
pub(crate) const STEPS: Code = Code(1111);
/// Who looks on has ended the run.
pub(crate) const ENDED: Code = Code(1410);
