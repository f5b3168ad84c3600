//! The tensor programs that a program of the machine calls.

use relax_loops::Program;
use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::file::{FileError, program_bytes, program_of};
use crate::verify::{self, Breach};

/// A file in memory.
pub(crate) type Bytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// A tensor program that is called.
///
/// One from a file that was [opened](crate::open) is read and verified when it is first asked for:
/// a kernel whose native code is at hand is never looked at.
#[derive(Clone)]
pub struct Kernel {
    /// Its name in the program.
    pub name: String,
    /// Whether it is a tensor program that somebody wrote: what fails is at its own lines, called
    /// from elsewhere.
    pub by_hand: bool,
    /// Where its parts and its accesses stand in the text that it comes from, in their order.
    pub places: Vec<String>,
    inputs: usize,
    outputs: usize,
    stored: Option<Stored>,
    found: OnceLock<Result<Arc<Program>, FileError>>,
}

/// Where a program stands in a file.
#[derive(Clone)]
struct Stored {
    bytes: Bytes,
    from: usize,
    to: usize,
}

impl Kernel {
    /// A kernel of a program.
    pub fn new(name: String, program: Arc<Program>, by_hand: bool, places: Vec<String>) -> Kernel {
        Kernel {
            name,
            by_hand,
            places,
            inputs: program.inputs.len(),
            outputs: program.outputs.len(),
            stored: None,
            found: OnceLock::from(Ok(program)),
        }
    }

    /// A kernel whose program, of so many inputs and outputs, stands in a file from one byte to
    /// another.
    pub(crate) fn stored(
        name: String,
        (inputs, outputs): (usize, usize),
        bytes: &Bytes,
        (from, to): (usize, usize),
    ) -> Kernel {
        let bytes = bytes.clone();
        Kernel {
            name,
            by_hand: false,
            places: Vec::new(),
            inputs,
            outputs,
            stored: Some(Stored { bytes, from, to }),
            found: OnceLock::new(),
        }
    }

    /// Returns how many tensors it takes.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Returns how many tensors it gives.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Returns what it computes.
    ///
    /// # Errors
    /// Its bytes are no tensor program, or one that breaks a rule. Of a program that was
    /// [read](crate::read) whole none are.
    pub fn program(&self) -> Result<&Arc<Program>, &FileError> {
        self.found.get_or_init(|| self.find()).as_ref()
    }

    fn find(&self) -> Result<Arc<Program>, FileError> {
        let gone = || FileError::Damaged(0, "a kernel has no program".to_owned());
        let stored = self.stored.as_ref().ok_or_else(gone)?;
        let all = (*stored.bytes).as_ref();
        let program = program_of(all.get(..stored.to).ok_or_else(gone)?, stored.from)?;
        if (program.inputs.len(), program.outputs.len()) != (self.inputs, self.outputs) {
            let what = "a kernel takes or gives another number of tensors than it says";
            return Err(FileError::Damaged(stored.from, what.to_owned()));
        }
        verify::program(&program).map_err(|message| FileError::Breach(self.breach(message)))?;
        Ok(Arc::new(program))
    }

    /// Its program as a file has it: as it stands there, where it comes from one.
    pub(crate) fn bytes(&self) -> Cow<'_, [u8]> {
        if let Some(s) = &self.stored {
            let all = (*s.bytes).as_ref();
            return Cow::Borrowed(all.get(s.from..s.to).unwrap_or_default());
        }
        let made = self.program().map(|p| program_bytes(p));
        Cow::Owned(made.unwrap_or_default())
    }

    /// Returns whether its program keeps the rules.
    pub(crate) fn verify(&self) -> Result<(), Breach> {
        match (self.program(), &self.stored) {
            // What stood in a file was looked at when it was read.
            (Ok(_), Some(_)) => Ok(()),
            (Ok(program), None) => verify::program(program).map_err(|m| self.breach(m)),
            (Err(FileError::Breach(b)), _) => Err(b.clone()),
            (Err(e), _) => Err(self.breach(e.to_string())),
        }
    }

    fn breach(&self, message: String) -> Breach {
        Breach {
            name: self.name.clone(),
            at: None,
            message,
        }
    }

    /// Returns where a part of the program stands in the text.
    pub(crate) fn place(&self, span: relax_base::Span) -> Option<&str> {
        if span.is_none() {
            return None;
        }
        let program = self.program().ok()?;
        let parts = program.parts.iter().copied();
        let mut all = parts.chain(program.accesses.iter().map(|a| a.span));
        let found = self.places.get(all.position(|s| s == span)?)?;
        Some(found.as_str()).filter(|place| !place.is_empty())
    }
}

impl PartialEq for Kernel {
    fn eq(&self, other: &Kernel) -> bool {
        self.name == other.name
            && self.by_hand == other.by_hand
            && self.places == other.places
            && self.program() == other.program()
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel")
            .field("name", &self.name)
            .field("by_hand", &self.by_hand)
            .field("places", &self.places)
            .field("program", &self.program())
            .finish()
    }
}
