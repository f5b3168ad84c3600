//! The tool `relax-run`.

use std::process::ExitCode;

fn main() -> ExitCode {
    relax_cli::tools::run::main(std::env::args_os().collect()).into()
}
