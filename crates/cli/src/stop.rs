//! Why a tool ends before its work is done, and how it says so.

use std::process::ExitCode;

use relax_base::{Diagnostics, SourceMap};

use crate::{exit, io, render};

/// Why a tool ends early.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The input has errors, which were shown.
    Shown,
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

impl Stop {
    /// Shows diagnostics with errors among them.
    pub fn show(diagnostics: &Diagnostics, sources: &SourceMap) -> Stop {
        render::to_stderr(diagnostics, sources);
        Stop::Shown
    }
}

/// The exit code of a tool, after it has said on standard error why it ended early.
pub fn code(tool: &str, ended: Result<(), Stop>) -> ExitCode {
    let (code, text) = match ended {
        Ok(()) => return exit::OK,
        Err(Stop::Shown) => (exit::ERRORS, String::new()),
        Err(Stop::Unfit(what, lines)) => {
            let lines: String = lines.iter().map(|line| format!("  {line}\n")).collect();
            (exit::ERRORS, format!("{tool}: {what}:\n{lines}"))
        }
        Err(Stop::Failed(message)) => (exit::ERRORS, format!("{tool}: {message}\n")),
        Err(Stop::Usage(message)) => (exit::USAGE, format!("{tool}: {message}\n")),
    };
    io::say(&text);
    code.into()
}
