//! The tool `relax-fmt`.

use std::process::ExitCode;

fn main() -> ExitCode {
    relax_cli::tools::fmt::main(std::env::args_os().collect()).into()
}
