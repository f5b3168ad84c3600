//! The tree-sitter grammar of Relay and Relax texts.

use tree_sitter_language::LanguageFn;

unsafe extern "C" {
    fn tree_sitter_relay() -> *const ();
}

/// The language.
// SAFETY: the function is the generated parser's, which this crate compiles.
pub const LANGUAGE: LanguageFn = unsafe { LanguageFn::from_raw(tree_sitter_relay) };

/// The query that highlights.
pub const HIGHLIGHTS: &str = include_str!("../../queries/highlights.scm");
/// The query of scopes and names.
pub const LOCALS: &str = include_str!("../../queries/locals.scm");
/// The query of what folds.
pub const FOLDS: &str = include_str!("../../queries/folds.scm");
/// The query of indentation.
pub const INDENTS: &str = include_str!("../../queries/indents.scm");
/// The query of other languages inside.
pub const INJECTIONS: &str = include_str!("../../queries/injections.scm");
