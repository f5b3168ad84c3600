//! The server's errors.

use std::fmt;

/// The reason why a request fails, as a message for the user.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The peer violated the protocol, or disconnected.
    Protocol(String),
    /// The request cannot be fulfilled for this text.
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
