//! Syntax tree to module, and module to syntax tree.
//!
//! [`resolve`] turns what was written into what is meant: names become ids, sugar becomes
//! operator calls, literals and the metadata section become tensors, attributes become complete.
//! It checks what can be checked without types: names, kinds, numbers of arguments, attributes.
//!
//! Invariant: no function here recurses over the depth of a program; nested constructs are walked
//! with work lists.
//! Invariant: whatever the tree, the result is a module; what could not be resolved is
//! `Expr::Error` or `Type::Error` and has been reported once.

mod build;
pub mod codes;
pub mod names;
mod options;
pub mod print;

pub use build::{
    Given, GivenTypes, PreludeNames, fit_attribute, prelude_files, prelude_names, resolve,
    resolve_given, resolve_noting,
};
pub use options::{NoStubs, Options, Release, Stubs};
