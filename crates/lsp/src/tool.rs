//! The tool `relax-lsp`: speaks the language server protocol over standard input and output.

use std::ffi::OsString;
use std::io::Write as _;

use clap::{CommandFactory as _, Parser};
use clap_complete::Shell;
use lsp_server::Connection;

/// The language server for Relay and Relax texts.
///
/// It speaks the language server protocol over standard input and output; an editor starts it.
#[derive(Parser, Debug)]
#[command(name = "relax-lsp", version = env!("RELAX_VERSION"), max_term_width = 100)]
struct Args {
    /// Standard input and output are what it talks over anyway; editors say so by habit.
    #[arg(long)]
    stdio: bool,
    /// Prints what makes a shell complete this tool's arguments.
    #[arg(long, value_name = "SHELL", help_heading = HEADING, exclusive = true)]
    completions: Option<Shell>,
    /// Prints this tool's manual page, for `man -l -` or a package.
    #[arg(long, help_heading = HEADING, exclusive = true)]
    man: bool,
}

/// The help heading of the completion and manual options, as in the other tools.
const HEADING: &str = "Other forms of this help";

/// Returns the output that replaces serving, if any was requested.
fn asked(args: &Args) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let mut command = Args::command();
    if let Some(shell) = args.completions {
        clap_complete::generate(shell, &mut command, "relax-lsp", &mut text);
    } else if args.man {
        // Writing to memory cannot fail.
        let _ = clap_mangen::Man::new(command).render(&mut text);
    } else {
        return None;
    }
    Some(text)
}

/// Runs the tool with its arguments, the first of which is its name; returns the exit code.
#[allow(clippy::print_stderr)]
pub fn main(arguments: Vec<OsString>) -> u8 {
    let args = match Args::try_parse_from(arguments) {
        Ok(args) => args,
        Err(said) => {
            // The stream was closed: there is no one to report to.
            let _ = said.print();
            return u8::try_from(said.exit_code()).unwrap_or(2);
        }
    };
    if let Some(text) = asked(&args) {
        // The stream was closed: there is no one to report to.
        let _ = std::io::stdout().write_all(&text);
        return 0;
    }
    let (connection, threads) = Connection::stdio();
    let served = crate::server::serve(&connection);
    drop(connection);
    if let Err(message) = served {
        eprintln!("relax-lsp: {message}");
        return 2;
    }
    match threads.join() {
        Ok(()) => 0,
        Err(e) => {
            eprintln!("relax-lsp: {e}");
            2
        }
    }
}
