//! The program `relax-lsp`.

use std::process::ExitCode;

fn main() -> ExitCode {
    relax_lsp::tool::main(std::env::args_os().collect()).into()
}
