//! Errors of reading a file of arrays.

use std::fmt;

/// The reason why a file, or a member of one, cannot be read: a predicate, "is damaged".
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unreadable(pub String);

impl From<String> for Unreadable {
    fn from(clause: String) -> Unreadable {
        Unreadable(clause)
    }
}

impl From<&str> for Unreadable {
    fn from(clause: &str) -> Unreadable {
        Unreadable(clause.to_owned())
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreadable {}
