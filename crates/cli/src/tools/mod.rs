//! The tools themselves. Each takes its arguments, the first of which is its name, and gives its
//! exit code: programs of their own call them, and whoever has them within another program.

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

/// Runs the tool that the first argument names; `None` where there is none of that name.
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
