//! The tool `relax-check`.

use std::process::ExitCode;

fn main() -> ExitCode {
    relax_cli::tools::check::main(std::env::args_os().collect()).into()
}
