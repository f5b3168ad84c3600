//! The command-line tools, which the package also installs.

use std::ffi::OsString;
use std::io::Write as _;

use pyo3::prelude::*;

/// Runs a tool with these arguments, the first of which is its name; its exit code, or ``None``
/// where there is none of that name.
#[pyfunction]
pub fn run_tool(py: Python<'_>, arguments: Vec<OsString>) -> Option<u8> {
    let server = arguments.first().is_some_and(|name| name == "relax-lsp");
    py.detach(|| {
        let code = match server {
            true => Some(relax_lsp::tool::main(arguments)),
            false => relax_cli::tools::run(arguments),
        };
        // Line-buffered output is flushed by a Rust program at exit, which this is not.
        let _ = std::io::stdout().flush();
        code
    })
}
