//! The tool `relax-lsp`: speaks the language server protocol over standard input and output.

use std::ffi::OsString;
use std::io::Write as _;

use clap::{CommandFactory as _, Parser};
use clap_complete::Shell;
use lsp_server::Connection;

/// The language server for Relay and Relax texts.
///
/// It speaks the language server protocol over standard input and output; an editor starts it. The
/// process that the editor knows keeps the session; another one, which it starts, serves it, and is
/// replaced where it fails or has met too many names.
#[derive(Parser, Debug)]
#[command(name = "relax-lsp", version = env!("RELAX_VERSION"), max_term_width = 100)]
struct Args {
    /// Standard input and output are what it talks over anyway; editors say so by habit.
    #[arg(long)]
    stdio: bool,
    /// The bytes of names that a server may meet before another one takes its place: names that were
    /// typed once stay in memory.
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    max_names: usize,
    /// Serves in this process, which nothing replaces.
    #[arg(long)]
    direct: bool,
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

/// Runs the tool with its arguments, the first of which is its name; returns the exit code. Servers
/// are started as this executable.
pub fn main(arguments: Vec<OsString>) -> u8 {
    let own = || std::env::current_exe().map_err(|e| e.to_string());
    main_with(arguments, || Ok(vec![own()?.into_os_string()]))
}

/// Runs the tool with its arguments, the first of which is its name; returns the exit code. `program`
/// is the command that runs this tool, to which its options can be added.
#[allow(clippy::print_stderr)]
pub fn main_with(
    arguments: Vec<OsString>,
    program: impl FnOnce() -> Result<Vec<OsString>, String>,
) -> u8 {
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
    let served = match args.direct {
        true => direct(args.max_names).map(|()| 0),
        false => program().and_then(|mut program| {
            program.push("--direct".into());
            program.push(format!("--max-names={}", args.max_names).into());
            crate::front::serve(program)
        }),
    };
    served.unwrap_or_else(|said| {
        eprintln!("relax-lsp: {said}");
        2
    })
}

/// Serves in this process.
fn direct(most_names: usize) -> Result<(), String> {
    let (connection, threads) = Connection::stdio();
    let served = crate::server::serve(&connection, Some(most_names));
    drop(connection);
    served.map_err(|e| e.to_string())?;
    threads.join().map_err(|e| e.to_string())
}
