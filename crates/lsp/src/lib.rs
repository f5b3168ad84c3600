//! The language server for `.relay` files, based on the same library as the command-line tools.
//!
//! Invariant: replies depend only on the texts (of open documents, and of files on disk) and the
//! settings; a request that cannot be answered gets an empty reply, never a crash.

pub mod address;
pub mod attempt;
pub mod chunk;
pub mod document;
mod error;
pub mod features;
mod front;
pub mod index;
pub mod library;
pub mod scope;
pub mod server;
pub mod text;
pub mod tool;
pub mod unit;
pub mod workspace;

pub use error::Error;
