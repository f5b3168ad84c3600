//! The tool `relax-import`.

use std::process::ExitCode;

fn main() -> ExitCode {
    relax_cli::tools::import::main(std::env::args_os().collect()).into()
}
