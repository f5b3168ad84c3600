//! Why code cannot be made for a target, brought into memory, or called.

use std::fmt;

/// Why code cannot be made for a target, brought into memory, or called. What of a program has no
/// native code is a [`Diagnostic`](relax_base::Diagnostic) instead, for it has a place.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// There is no such target, processor or feature; what there is.
    Target(String),
    /// There is no memory for a context of the runtime, or it refuses what it is told: the number
    /// of threads, a stack, a function of the host.
    Context(String),
    /// There is no entry of this name.
    NoEntry(String),
    /// The arguments do not fit, or the program failed while it ran: the runtime's message.
    Call(String),
    /// A library or an image of code does not fit this process, or is damaged.
    Load(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoEntry(name) => write!(f, "there is no entry @{name}"),
            Error::Target(text) | Error::Context(text) | Error::Call(text) | Error::Load(text) => {
                f.write_str(text)
            }
        }
    }
}

impl std::error::Error for Error {}

/// Why a program has no code: it asks for something that the back end does not do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unsupported(pub String);
