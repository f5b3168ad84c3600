//! Text to syntax tree and back: tokens, grammar, tree, printer, formatter.
//!
//! This crate implements the syntax of the text format and no semantics: no operators, no type
//! rules, no name lookup.

pub mod ast;
mod build;
mod context;
mod fmt;
mod lex;
mod names;
mod old;
mod parse;
mod print;
mod text;
mod token;

#[allow(clippy::all, clippy::pedantic, missing_docs, unused)]
mod grammar {
    include!(concat!(env!("OUT_DIR"), "/relay.rs"));
}

pub use fmt::{FmtOptions, LineEnds, format_source};
pub use lex::{Comment, Lexed, Token, lex};
pub use names::{in_letters, reads_as_global, reads_as_local, reads_as_name, reads_as_word};
pub use old::{OLD_FORM, OldForm, warning as old_forms};
pub use parse::{Parsed, parse, parse_type};
pub use print::{PrintOptions, Style, print};
pub use text::{Decoded, READ_AS, decode, is_utf16};
pub use token::{HighlightClass, TOKENS, Tok, TokenInfo};
