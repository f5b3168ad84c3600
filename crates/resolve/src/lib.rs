//! Resolution of syntax trees to modules, and conversion of modules to syntax trees.
//!
//! [`resolve`] resolves names to ids, desugars operators to calls, converts literals and the
//! metadata section to tensors, and completes attributes. It checks what can be checked without
//! types: names, kinds, numbers of arguments, attributes.
//!
//! Invariant: no function here recurses over the depth of a program; nested constructs are
//! traversed with worklists.
//!
//! Invariant: every tree resolves to a module; what cannot be resolved is `Expr::Error` or
//! `Type::Error` and has been reported exactly once.

mod build;
pub mod codes;
pub mod names;
mod options;
pub mod print;

pub use build::{
    Given, GivenTypes, PreludeNames, fit_attribute, prelude_files, prelude_gradients,
    prelude_names, resolve, resolve_given, resolve_noting,
};
pub use options::{NoStubs, Options, Release, Stubs};
