//! What every other room stands on: ids and arenas, interned names, positions in source
//! files, diagnostics as data, and threads that share work.
//!
//! This room knows nothing about Relay. It prints nothing and opens no file: rendering a
//! [`Diagnostic`] is the command line's (or the language server's) work.

mod arena;
mod diagnostic;
pub mod explain;
mod failure;
mod helpers;
mod lendable;
mod source;
mod suggest;
mod symbol;

pub use arena::{Arena, Id, SideTable};
pub use diagnostic::{Code, Diagnostic, Diagnostics, Edit, Fix, Label, Severity};
pub use failure::BoxError;
pub use helpers::{helpers, with_helpers};
pub use lendable::LendableVec;
pub use source::{LineCol, SourceFile, SourceMap, Span};
pub use suggest::{did_you_mean, edit_distance};
pub use symbol::Symbol;
