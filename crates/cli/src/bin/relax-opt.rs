//! `relax-opt FILE`: reads a module and prints it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use relax_cli::{exit, io, render};
use relax_driver::{ReadOptions, Session};

/// Reads a Relay or Relax text, transforms it and prints it.
#[derive(Parser, Debug)]
#[command(name = "relax-opt", version)]
struct Args {
    /// The file; `-` reads standard input.
    file: PathBuf,
    /// Where the result goes; `-` is standard output.
    #[arg(short = 'o', long = "output", default_value = "-")]
    output: PathBuf,
    /// Gives constants whose metadata section is missing placeholders of zeros.
    #[arg(long)]
    stub_constants: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("relax-opt: {message}");
            exit::USAGE.into()
        }
    }
}

fn run(args: &Args) -> Result<ExitCode, String> {
    let bytes = io::read(&args.file)?;
    let mut session = Session::new(ReadOptions {
        stub_constants: args.stub_constants,
    });
    let (_module, diagnostics) = session.read(&io::display_name(&args.file), bytes);
    render::to_stderr(&diagnostics, &session.sources);
    if diagnostics.has_errors() {
        return Ok(exit::ERRORS.into());
    }
    Ok(exit::OK)
}
