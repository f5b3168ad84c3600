//! `relax-lsp`: speaks the language server protocol over standard input and output.

use std::process::ExitCode;

use lsp_server::Connection;

const USAGE: &str = "\
relax-lsp: the language server for Relay and Relax texts.

It speaks the language server protocol over standard input and output; an editor starts it.

Usage: relax-lsp [--stdio] [--version] [--help]
";

fn main() -> ExitCode {
    for arg in std::env::args().skip(1) {
        match arg.as_str() {
            // What editors pass by habit; there is no other way to talk to it.
            "--stdio" => {}
            "--version" | "-V" => {
                println!("relax-lsp {}", env!("CARGO_PKG_VERSION"));
                return ExitCode::SUCCESS;
            }
            "--help" | "-h" => {
                print!("{USAGE}");
                return ExitCode::SUCCESS;
            }
            other => {
                eprintln!("relax-lsp: there is no option `{other}`\n\n{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    let (connection, threads) = Connection::stdio();
    let served = relax_lsp::server::serve(&connection);
    drop(connection);
    if let Err(message) = served {
        eprintln!("relax-lsp: {message}");
        return ExitCode::from(2);
    }
    match threads.join() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("relax-lsp: {e}");
            ExitCode::from(2)
        }
    }
}
