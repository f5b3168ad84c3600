//! The tool `relax-bisect`.

use std::process::ExitCode;

fn main() -> ExitCode {
    relax_cli::tools::bisect::main(std::env::args_os().collect()).into()
}
