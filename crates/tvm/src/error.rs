//! Errors in files, and their positions.

use relax_base::Code;

/// The codes of this crate.
pub mod codes {
    use relax_base::Code;

    /// The bytes are not a JSON graph.
    pub const NO_GRAPH: Code = Code(1211);
    /// A node is of the wrong kind for its use.
    pub const BAD_NODE: Code = Code(1212);
    /// A node of an unsupported kind.
    pub const UNSUPPORTED: Code = Code(1213);
    /// A tensor of a graph cannot be decoded.
    pub const BAD_TENSOR: Code = Code(1214);
    /// The root of a graph is not a program.
    pub const NO_PROGRAM: Code = Code(1215);
    /// A node expands to a text that is too large.
    pub const TOO_LARGE: Code = Code(1216);
    /// A parameter file cannot be read.
    pub const BAD_PARAMS: Code = Code(1220);

    /// All codes.
    pub const ALL: &[Code] = &[
        NO_GRAPH,
        BAD_NODE,
        UNSUPPORTED,
        BAD_TENSOR,
        NO_PROGRAM,
        TOO_LARGE,
        crate::write::NO_FORM,
        BAD_PARAMS,
    ];
}

/// The reason why a file cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mistake {
    /// The code.
    pub code: Code,
    /// The byte offset.
    pub at: u64,
    /// A description of the error.
    pub message: String,
    /// The label at the offset.
    pub label: String,
}

impl Mistake {
    /// Creates an error at a byte offset.
    pub(crate) fn new(code: Code, at: u64, message: impl Into<String>) -> Mistake {
        let (message, label) = (message.into(), String::new());
        Mistake {
            code,
            at,
            message,
            label,
        }
    }

    /// Sets the label at the offset.
    pub(crate) fn label(mut self, text: impl Into<String>) -> Mistake {
        self.label = text.into();
        self
    }
}

/// A result with a [`Mistake`].
pub(crate) type Found<T> = Result<T, Mistake>;
