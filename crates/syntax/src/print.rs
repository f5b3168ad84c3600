//! Tree to text.
//!
//! There is one printer. It walks the tree with a worklist (never by recursion) and emits tokens
//! and layout operations in the order of the text; the [`sink`] turns these into lines: directly
//! for TVM's style, which never wraps, and otherwise one unwrapped line at a time: lines that fit
//! are printed as they are, others are laid out by the crate `pretty` ([`layout`]). The formatter
//! is the same printer with a sink that interleaves the comments of the original text.
//!
//! Invariant: memory is bounded by the longest statement, not by the file. Of a statement that does
//! not fit on a line, at most a few thousand elements wait for their layout ([`front`]).

pub(crate) mod comments;
mod control;
pub(crate) mod emit;
mod expr;
mod front;
mod item;
mod layout;
pub(crate) mod number;
pub(crate) mod sink;
mod stmt;
mod ty;

use crate::ast::Ast;

/// The layout of the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Style {
    /// TVM's `astext()`, byte for byte.
    Tvm,
    /// Wrapped at a given width.
    #[default]
    Pretty,
}

/// Options for printing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrintOptions {
    /// The layout.
    pub style: Style,
    /// The column after which lines wrap, in the pretty style.
    pub width: usize,
    /// Whether the types of [`Ast::expr_types`] and [`Ast::binder_types`] are printed as
    /// `/* ty=… */`.
    pub types: bool,
}

impl Default for PrintOptions {
    fn default() -> Self {
        PrintOptions {
            style: Style::Pretty,
            width: 100,
            types: true,
        }
    }
}

/// Prints a tree.
pub fn print(ast: &Ast, options: &PrintOptions) -> String {
    let sink = sink::Sink::new(options, None);
    emit::Emitter::new(ast, options, sink).file()
}
