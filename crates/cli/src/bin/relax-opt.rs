//! `relax-opt`: reads a module, runs passes over it and prints it.

use std::process::ExitCode;

use relax_passes::Registry;

fn main() -> ExitCode {
    relax_cli::opt::main(Registry::default())
}
