//! relax-opt with one pass more.

use std::process::ExitCode;

use relax_passes::Registry;

mod rsqrt;

fn main() -> ExitCode {
    let passes = Registry::default().with(&rsqrt::PASS);
    relax_cli::tools::opt::with_passes(std::env::args_os().collect(), passes).into()
}
