//! Relax as TVM 0.27 writes it: a subset of Python, read into a module and printed from it.
//!
//! A text is split into logical lines ([`parse`]: logos' tokens, joined where a bracket is open,
//! with changes of indentation), each line is parsed as a statement by the grammar of
//! `grammar/tvmscript.lalrpop`, and the statements become a module ([`read`]). Nothing is
//! evaluated: only names, numbers and lists are resolved; operators remain calls. [`print()`] is
//! the inverse.

pub mod ast;
mod build;
pub mod codes;
mod indices;
mod lines;
mod parse;
mod print;
mod read;
mod strings;
mod table;
mod token;
mod values;

pub use parse::{Parsed, parse};
pub use print::{Printed, print};
pub use read::read;
pub use token::Tok;
pub use values::{Values, needs_values, values};

/// The maximum nesting depth of brackets, as in Python.
const DEPTH: u32 = 200;
