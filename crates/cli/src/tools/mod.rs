//! The tools. Each takes its arguments, the first of which is its name, and returns its exit code:
//! they are called by their own programs, and by programs that embed them.

pub mod bisect;
pub mod check;
pub mod fmt;
pub mod import;
pub mod opt;
#[cfg(feature = "native")]
pub mod relaxc;
#[cfg(feature = "native")]
pub mod run;

use std::ffi::OsString;
use std::path::Path;

/// Runs the tool named by the first argument; `None` if there is none of this name.
pub fn run(arguments: Vec<OsString>) -> Option<u8> {
    let name = arguments.first().map(Path::new).and_then(Path::file_stem)?;
    let tool = match name.to_str()? {
        "relax-bisect" => bisect::main,
        "relax-check" => check::main,
        "relax-fmt" => fmt::main,
        "relax-import" => import::main,
        "relax-opt" => opt::main,
        #[cfg(feature = "native")]
        "relaxc" => relaxc::main,
        #[cfg(feature = "native")]
        "relax-run" => run::main,
        _ => return None,
    };
    Some(tool(arguments))
}
