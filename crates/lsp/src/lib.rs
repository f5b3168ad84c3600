//! The language server: what an editor asks about `.relay` files, answered by the same library as
//! the command-line tools.
//!
//! Invariant: no answer depends on anything but the texts (of documents, and of files nobody has
//! open) and the settings; a request that cannot be answered is an empty answer, never a crash.

pub mod address;
pub mod attempt;
pub mod chunk;
pub mod document;
mod error;
pub mod features;
pub mod index;
pub mod library;
pub mod scope;
pub mod server;
pub mod text;
pub mod tool;
pub mod unit;
pub mod workspace;

pub use error::Error;
