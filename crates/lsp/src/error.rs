//! Why the server cannot do what it is asked.

use std::fmt;

/// Why the server cannot do what it is asked: a sentence for who asks.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The peer breaks the protocol, or is gone.
    Protocol(String),
    /// What is asked for cannot be done with this text.
    Refused(String),
}

impl Error {
    pub(crate) fn refused(text: impl Into<String>) -> Error {
        Error::Refused(text.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Protocol(text) | Error::Refused(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {}
