//! relax-opt with one pass more.

use std::process::ExitCode;

use relax_passes::Registry;

mod rsqrt;

fn main() -> ExitCode {
    relax_cli::opt::main(Registry::default().with(&rsqrt::PASS))
}
