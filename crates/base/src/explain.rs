//! The long explanation of each diagnostic code, `relax-check --explain RX0101`.
//!
//! One file per code, `docs/errors/RX0101.md`, holds its explanation: a heading line
//! `# RX0101: title`, prose, and fenced `relay` examples. Tests check that every code that is
//! emitted has such a file.

use crate::Code;

static EXPLANATIONS: &[(Code, &str)] = include!(concat!(env!("OUT_DIR"), "/errors.rs"));

/// Returns the Markdown text that explains `code`.
pub fn explain(code: Code) -> Option<&'static str> {
    EXPLANATIONS.iter().find(|e| e.0 == code).map(|e| e.1)
}

/// Iterates over the codes that have an explanation, in ascending order.
pub fn all() -> impl Iterator<Item = Code> {
    EXPLANATIONS.iter().map(|e| e.0)
}
