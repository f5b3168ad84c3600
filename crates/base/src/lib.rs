//! The foundation of all other crates: ids and arenas, interned names, source positions, structured
//! diagnostics, and threads that share work.
//!
//! This crate knows nothing about Relay. It neither prints nor opens files: rendering a
//! [`Diagnostic`] is up to the command line or the language server.

mod arena;
mod diagnostic;
pub mod explain;
mod failure;
mod helpers;
mod lendable;
mod names;
pub mod small;
mod source;
mod suggest;
mod symbol;

pub use arena::{Arena, Id, SideTable};
pub use diagnostic::{Code, Diagnostic, Diagnostics, Edit, Fix, Label, Severity};
pub use failure::BoxError;
pub use helpers::{helpers, with_helpers};
pub use lendable::LendableVec;
pub use names::name_end;
pub use source::{LineCol, SourceFile, SourceMap, Span};
pub use suggest::{did_you_mean, edit_distance};
pub use symbol::Symbol;
