//! The tensor programs (kernels) that a bytecode program calls.

use relax_loops::Program;
use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::file::{FileError, program_bytes, program_of};
use crate::verify::{self, Breach};

/// The contents of a file.
pub(crate) type Bytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// A tensor program that is called.
///
/// One from a file that was [opened](crate::open) is parsed and verified on first use: a kernel
/// with native code never is.
#[derive(Clone)]
pub struct Kernel {
    /// The name in the program.
    pub name: String,
    /// Whether it is a hand-written tensor program: its failures are reported at its own lines,
    /// with the call's location.
    pub by_hand: bool,
    /// The source locations of its parts and its accesses, in order.
    pub places: Vec<String>,
    inputs: usize,
    outputs: usize,
    stored: Option<Stored>,
    found: OnceLock<Result<Arc<Program>, FileError>>,
}

/// A serialised program in a file.
#[derive(Clone)]
struct Stored {
    bytes: Bytes,
    from: usize,
    to: usize,
}

impl Kernel {
    /// Creates a kernel of a program.
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

    /// Creates a kernel whose serialised program, with this many inputs and outputs, is in a range
    /// of a file.
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

    /// Returns the number of input tensors.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Returns the number of output tensors.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Returns the tensor program.
    ///
    /// # Errors
    /// The serialised program is invalid or violates a rule. Never returned for programs that were
    /// [read](crate::read) as a whole.
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

    /// Returns the serialised program, as it is in the file if it comes from one.
    pub(crate) fn bytes(&self) -> Cow<'_, [u8]> {
        if let Some(s) = &self.stored {
            let all = (*s.bytes).as_ref();
            return Cow::Borrowed(all.get(s.from..s.to).unwrap_or_default());
        }
        let made = self.program().map(|p| program_bytes(p));
        Cow::Owned(made.unwrap_or_default())
    }

    /// Verifies the tensor program.
    pub(crate) fn verify(&self) -> Result<(), Breach> {
        match (self.program(), &self.stored) {
            // A program from a file is verified when it is parsed.
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

    /// Returns the source location of a part of the program.
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
