//! Why a tool ends before its work is done, and how it says so.

use std::fmt;

use relax_base::{Diagnostics, SourceMap};

use crate::{exit, io, render};

/// Why a tool ends early.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The input has errors, which were shown.
    Shown,
    /// What was asked for is wrong, which was shown.
    Misused,
    /// What was given does not fit: a sentence, and all that does not, a line each.
    Unfit(String, Vec<String>),
    /// The program failed while it ran.
    Failed(String),
    /// The tool was called wrongly, or a file could not be read or written.
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
    /// Shows diagnostics with errors among them.
    pub fn show(diagnostics: &Diagnostics, sources: &SourceMap) -> Stop {
        render::to_stderr(diagnostics, sources);
        Stop::Shown
    }

    /// Returns how a tool ends whose work has this exit code, and has said why.
    pub fn unless_well(code: u8) -> Result<(), Stop> {
        match code {
            0 => Ok(()),
            exit::ERRORS => Err(Stop::Shown),
            _ => Err(Stop::Misused),
        }
    }

    /// Returns what is left to say; what does not fit on lines of its own.
    pub fn text(&self) -> String {
        match self {
            Stop::Shown | Stop::Misused => String::new(),
            Stop::Unfit(what, lines) => format!("{what}:\n  {}", lines.join("\n  ")),
            Stop::Failed(message) | Stop::Usage(message) => message.clone(),
        }
    }
}

/// The exit code of a tool, after it has said on standard error why it ended early.
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
