//! Why something could not be done: one type for the whole library.

use std::fmt;

use crate::Report;

/// Why something could not be done.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The input has errors. Warnings are in the report too.
    Invalid(Report),
    /// Values do not fit the parameters that they are for: what does not fit what, and a line for each problem.
    Unfit(String, Vec<String>),
    /// The program failed while it ran: the runtime's message, and the place where the source has one.
    Failed(String, Report),
    /// A file cannot be read.
    File(String),
    /// Something is asked for that is not there, or that cannot be done.
    Misused(String),
}

impl Error {
    /// What was found in the input, where the error is about the input.
    pub fn report(&self) -> Option<&Report> {
        match self {
            Error::Invalid(report) => Some(report),
            Error::Failed(_, report) if !report.is_empty() => Some(report),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Invalid(report) => report.fmt(f),
            Error::Failed(message, report) if report.is_empty() => f.write_str(message),
            Error::Failed(_, report) => report.fmt(f),
            Error::Unfit(what, problems) => {
                write!(f, "{what}:")?;
                problems.iter().try_for_each(|p| write!(f, "\n  {p}"))
            }
            Error::File(text) | Error::Misused(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {}
