//! Shared parts of the command-line tools: files, standard streams, exit codes, rendered
//! diagnostics.

#![warn(clippy::print_stdout, clippy::print_stderr)]

// The tools refer to the library by its name, as out-of-tree tools would.
extern crate self as relax_cli;

#[cfg(feature = "native")]
mod archive;
pub mod bench;
pub mod bisect;
#[cfg(feature = "native")]
pub mod cc;
pub mod check;
pub mod diff;
#[cfg(feature = "native")]
pub mod evaluator;
pub mod files;
pub mod formats;
pub mod interrupt;
pub mod io;
#[cfg(feature = "native")]
pub mod kit;
pub mod load;
#[cfg(feature = "native")]
pub mod machine;
pub mod memory;
pub mod model;
pub mod npz;
pub mod opt;
pub mod output;
pub mod places;
#[cfg(feature = "native")]
pub mod program;
pub mod progress;
pub mod reading;
pub mod render;
#[cfg(feature = "native")]
pub mod results;
pub mod save;
pub mod stop;
pub mod taking;
pub mod tool;
pub mod tools;
#[cfg(feature = "native")]
pub mod trace;
pub mod weights;

#[cfg(feature = "native")]
pub use relax::{failure, native, profile};
pub use relax::{fit, inputs, layout, parts, random, show, words};

/// The exit codes of all tools.
pub mod exit {
    /// Success.
    pub const OK: u8 = 0;
    /// The input has errors (or a comparison failed).
    pub const ERRORS: u8 = 1;
    /// The tool was used incorrectly, or a file could not be read or written.
    pub const USAGE: u8 = 2;
}
