//! Text to syntax tree and back: tokens, grammar, tree, printer, formatter.
//!
//! This room knows how the text format looks and nothing about what it means: no operator, no
//! type rule, no name lookup.

pub mod ast;
mod build;
mod context;
mod fmt;
mod lex;
mod parse;
mod print;
mod token;

#[allow(clippy::all, clippy::pedantic, missing_docs, unused)]
mod grammar {
    include!(concat!(env!("OUT_DIR"), "/relay.rs"));
}

pub use fmt::{FmtOptions, LineEnds, decode, format_source};
pub use lex::{Comment, Lexed, Token, lex};
pub use parse::{Parsed, parse, parse_type};
pub use print::{PrintOptions, Style, print};
pub use token::{HighlightClass, TOKENS, Tok, TokenInfo};
