//! The command-line tools, which the package also installs.

use std::ffi::OsString;
use std::io::Write as _;

use pyo3::prelude::*;

/// Runs a tool with these arguments, the first of which is its name; its exit code, or ``None``
/// where there is none of that name.
#[pyfunction]
pub fn run_tool(py: Python<'_>, arguments: Vec<OsString>) -> Option<u8> {
    let server = arguments.first().is_some_and(|name| name == "relax-lsp");
    let executable = executable(py);
    py.detach(|| {
        let code = match server {
            true => Some(relax_lsp::tool::main_with(arguments, || {
                let python = executable.map_err(|e| e.to_string())?;
                Ok(vec![python, "-c".into(), SERVER.into()])
            })),
            false => relax_cli::tools::run(arguments),
        };
        // Line-buffered output is flushed by a Rust program at exit, which this is not.
        let _ = std::io::stdout().flush();
        code
    })
}

/// The program by which the language server is started again: this executable is Python.
const SERVER: &str = "import sys, relax_ir_tools; sys.argv[0] = 'relax-lsp'; \
                      sys.exit(relax_ir_tools.main())";

/// Returns the Python that runs.
fn executable(py: Python<'_>) -> PyResult<OsString> {
    py.import("sys")?.getattr("executable")?.extract()
}
