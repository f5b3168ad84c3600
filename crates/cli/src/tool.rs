//! Shared by all tools: argument parsing, `--version`, completions, the man page, the exit code.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Command, Parser, value_parser};
use clap_complete::Shell;

use crate::stop::{self, Stop};
use crate::{exit, io, memory};

/// The version, and the commit of a release build.
pub const VERSION: &str = env!("RELAX_VERSION");

/// The maximum width that help is wrapped at; narrower terminals use their own.
const WIDEST: usize = 100;

const COMPLETIONS: &str = "completions";
const MAN: &str = "man";
/// The help heading of both options.
const HEADING: &str = "Other forms of this help";
const MEMORY: &str = "max-memory";
const COPY: &str = "copy-weights";

/// Runs a tool: parses its arguments, does its work, and reports on standard error why it exited
/// early.
pub fn main<A: Parser>(arguments: Vec<OsString>, work: impl FnOnce(&A) -> Result<(), Stop>) -> u8 {
    crate::memory::keep();
    let mut command = command::<A>();
    let name = command.get_name().to_owned();
    let args = match command.try_get_matches_from_mut(arguments) {
        Ok(matches) => match asked(&mut command, &matches) {
            Some(text) => return stop::code(&name, io::print(&text)),
            None => {
                if let Some(&most) = matches.get_one::<usize>(MEMORY) {
                    memory::limit(most);
                }
                if matches.get_flag(COPY) {
                    relax::weights::copy_all();
                }
                A::from_arg_matches(&matches).map_err(|e| e.format(&mut command))
            }
        },
        Err(e) => Err(e),
    };
    match args {
        Ok(args) => stop::code(&name, work(&args)),
        Err(e) => {
            // The stream was closed: there is no one to report to.
            let _ = e.print();
            match e.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => exit::OK,
                _ => exit::USAGE,
            }
        }
    }
}

/// Returns a tool's command-line definition, with the arguments that all tools have.
fn command<A: Parser>() -> Command {
    A::command()
        .version(VERSION)
        .max_term_width(WIDEST)
        .arg(
            Arg::new(COMPLETIONS)
                .long(COMPLETIONS)
                .help_heading(HEADING)
                .value_name("SHELL")
                .value_parser(value_parser!(Shell))
                .exclusive(true)
                .help("Prints what makes a shell complete this tool's arguments"),
        )
        .arg(
            Arg::new(MEMORY)
                .long(MEMORY)
                .value_name("BYTES")
                .value_parser(memory::bytes)
                .help("Ends with an error when more memory is needed: `512M`, `2G`"),
        )
        .arg(
            Arg::new(COPY)
                .long(COPY)
                .action(clap::ArgAction::SetTrue)
                .help(
                    "Reads large files instead of mapping them: others may change them meanwhile",
                ),
        )
        .arg(
            Arg::new(MAN)
                .long(MAN)
                .help_heading(HEADING)
                .action(clap::ArgAction::SetTrue)
                .exclusive(true)
                .help("Prints this tool's manual page, for `man -l -` or a package"),
        )
}

/// Returns the output that replaces the tool's work, if any was requested.
fn asked(command: &mut Command, matches: &ArgMatches) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    if let Some(shell) = matches.get_one::<Shell>(COMPLETIONS) {
        let name = command.get_name().to_owned();
        clap_complete::generate(*shell, command, name, &mut text);
        return Some(text);
    }
    if !matches.get_flag(MAN) {
        return None;
    }
    let page = clap_mangen::Man::new(command.clone());
    // Writing to memory cannot fail.
    let _ = page.render(&mut text);
    Some(text)
}

/// Like [`input`], for tools that process many files.
pub fn inputs(files: &[PathBuf]) -> Result<Vec<PathBuf>, Stop> {
    match files {
        [] => input(None).map(|file| vec![file.to_owned()]),
        files => Ok(files.to_vec()),
    }
}

/// Returns the input of a tool: the named file, or standard input if none is named and it is
/// redirected.
///
/// # Errors
/// Standard input is a terminal, where waiting for input would look as if the tool hung.
pub fn input(file: Option<&Path>) -> Result<&Path, Stop> {
    use std::io::IsTerminal as _;
    match file {
        Some(file) => Ok(file),
        None if std::io::stdin().is_terminal() => {
            Err("no file is given (`-` reads what is typed; --help says more)".into())
        }
        None => Ok(Path::new(io::STREAM)),
    }
}
