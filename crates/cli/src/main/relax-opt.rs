//! The tool `relax-opt`.

use std::process::ExitCode;

fn main() -> ExitCode {
    relax_cli::tools::opt::main(std::env::args_os().collect()).into()
}
