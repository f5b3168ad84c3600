//! The error type of the whole library.

use std::fmt;

use crate::Report;

/// An error of this library.
///
/// ```
/// use relax::{Error, Module};
///
/// let Err(Error::Invalid(report)) = Module::parse("def @main() { %x }") else { panic!("an error") };
/// assert_eq!(report.findings()[0].code, "RX0201");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The input has errors. The report includes the warnings too.
    Invalid(Report),
    /// Values do not match the parameters they are bound to: a summary, and one line for each
    /// problem if there may be several.
    Unfit(String, Vec<String>),
    /// The program failed at run time: the runtime's message, and a report that points into the
    /// source where a location is known.
    Failed(String, Report),
    /// A file cannot be read or has the wrong format.
    File(String),
    /// The request names something that does not exist, or cannot be fulfilled.
    Misused(String),
}

impl Error {
    /// Returns the report on the input, if the error is about the input.
    ///
    /// ```
    /// let error = relax::Module::parse("def @main( { 1 }").unwrap_err();
    /// assert!(error.report().is_some_and(|report| report.has_errors()));
    /// ```
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
            Error::Unfit(what, problems) if problems.is_empty() => f.write_str(what),
            Error::Unfit(what, problems) => {
                write!(f, "{what}:")?;
                problems.iter().try_for_each(|p| write!(f, "\n  {p}"))
            }
            Error::File(text) | Error::Misused(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(feature = "native")]
impl From<relax_codegen::Error> for Error {
    fn from(error: relax_codegen::Error) -> Error {
        use relax_codegen::Error as Code;
        let text = error.to_string();
        match error {
            Code::Call(_) => Error::Failed(text, Report::default()),
            Code::Load(_) => Error::File(text),
            _ => Error::Misused(text),
        }
    }
}
