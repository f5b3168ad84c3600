//! Text to syntax tree and back: tokens, grammar, tree, printer, formatter.
//!
//! This room knows how the text format looks and nothing about what it means: no operator, no
//! type rule, no name lookup.

pub mod ast;
