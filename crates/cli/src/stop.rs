//! Early exits of tools, and how they are reported.

use std::fmt;

use relax_base::{Diagnostics, SourceMap};

use crate::{exit, io, render};

/// The reason why a tool exits early.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The input has errors, which were printed.
    Shown,
    /// The usage is wrong, which was printed.
    Misused,
    /// Values do not match: a summary, and all mismatches, one per line.
    Unfit(String, Vec<String>),
    /// The program failed at run time.
    Failed(String),
    /// The tool was used incorrectly, or a file could not be read or written.
    Usage(String),
}

impl From<String> for Stop {
    fn from(message: String) -> Stop {
        Stop::Usage(message)
    }
}

impl From<&str> for Stop {
    fn from(message: &str) -> Stop {
        Stop::Usage(message.to_owned())
    }
}

impl From<relax::Error> for Stop {
    fn from(error: relax::Error) -> Stop {
        Stop::Usage(error.to_string())
    }
}

#[cfg(feature = "native")]
impl From<relax_codegen::Error> for Stop {
    fn from(error: relax_codegen::Error) -> Stop {
        Stop::Usage(error.to_string())
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl std::error::Error for Stop {}

impl Stop {
    /// Prints diagnostics that include errors.
    pub fn show(diagnostics: &Diagnostics, sources: &SourceMap) -> Stop {
        render::to_stderr(diagnostics, sources);
        Stop::Shown
    }

    /// Converts the exit code of work that has already reported its errors.
    pub fn unless_well(code: u8) -> Result<(), Stop> {
        match code {
            0 => Ok(()),
            exit::ERRORS => Err(Stop::Shown),
            _ => Err(Stop::Misused),
        }
    }

    /// Returns what is left to print; mismatches are on lines of their own.
    pub fn text(&self) -> String {
        match self {
            Stop::Shown | Stop::Misused => String::new(),
            Stop::Unfit(what, lines) => format!("{what}:\n  {}", lines.join("\n  ")),
            Stop::Failed(message) | Stop::Usage(message) => message.clone(),
        }
    }
}

/// Returns the exit code of a tool, after printing on standard error why it exited early.
pub fn code(tool: &str, ended: Result<(), Stop>) -> u8 {
    let Err(stop) = ended else {
        return exit::OK;
    };
    if !matches!(stop, Stop::Shown | Stop::Misused) {
        io::say(&format!("{tool}: {}\n", stop.text()));
    }
    match stop {
        Stop::Usage(_) | Stop::Misused => exit::USAGE,
        _ => exit::ERRORS,
    }
}
