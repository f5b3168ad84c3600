//! What is wrong with a file, and where.

use relax_base::Code;

/// The codes of this room.
pub mod codes {
    use relax_base::Code;

    /// The bytes are no JSON graph.
    pub const NO_GRAPH: Code = Code(1211);
    /// A node does not fit where it is used.
    pub const BAD_NODE: Code = Code(1212);
    /// A node of a kind that means nothing here.
    pub const UNSUPPORTED: Code = Code(1213);
    /// A tensor of a graph cannot be read.
    pub const BAD_TENSOR: Code = Code(1214);
    /// The root of a graph is no program.
    pub const NO_PROGRAM: Code = Code(1215);
    /// What a node stands for is too large to be written out.
    pub const TOO_LARGE: Code = Code(1216);
    /// A parameter file cannot be read.
    pub const BAD_PARAMS: Code = Code(1220);

    /// All of them.
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

/// Why a file cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mistake {
    /// The code that explains it.
    pub code: Code,
    /// The byte where it is.
    pub at: u64,
    /// What is wrong.
    pub message: String,
    /// What stands at the place.
    pub label: String,
}

impl Mistake {
    /// A mistake at a byte.
    pub(crate) fn new(code: Code, at: u64, message: impl Into<String>) -> Mistake {
        let (message, label) = (message.into(), String::new());
        Mistake {
            code,
            at,
            message,
            label,
        }
    }

    /// Says what stands at the place.
    pub(crate) fn label(mut self, text: impl Into<String>) -> Mistake {
        self.label = text.into();
        self
    }
}

/// A value, or what is wrong with the file.
pub(crate) type Found<T> = Result<T, Mistake>;
