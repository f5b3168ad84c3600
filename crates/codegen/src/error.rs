//! Errors of generating code for a target, loading it, or calling it.

use std::fmt;

/// An error of generating code for a target, loading it, or calling it. A construct without native
/// code is a [`Diagnostic`](relax_base::Diagnostic) instead, since it has a source location.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// An unknown target, processor or feature; the text lists the known ones.
    Target(String),
    /// The runtime's context cannot be allocated, or rejects a setting: the number of threads, the
    /// stack size, a host function.
    Context(String),
    /// There is no entry of this name.
    NoEntry(String),
    /// The arguments do not match, or the program failed at run time: the runtime's message.
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

/// The construct for which the back end cannot generate code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unsupported(pub String);
