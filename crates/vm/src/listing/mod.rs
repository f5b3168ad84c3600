//! Printing and parsing of listings.

pub(crate) mod ast;
mod print;
mod read;
pub(crate) mod token;

pub(crate) use print::Shown;
pub use print::print;
pub use read::{ListingError, read};

/// The marker before the program's interface, which is Relay text.
const INTERFACE: &str = "#[interface]\n";

/// The marker before the kernels' tensor programs, which are Relay text.
const KERNELS: &str = "#[kernels]\n";

lalrpop_util::lalrpop_mod!(
    #[allow(clippy::all, clippy::pedantic, missing_docs, unused)]
    grammar,
    "/vm.rs"
);

/// Quotes a string.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Unquotes a string.
fn unquoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some(c) => c,
                None => break,
            },
            c => c,
        });
    }
    out
}

/// Formats a function's name with its sigil.
fn global(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
    match !name.is_empty() && name.chars().all(plain) {
        true => format!("@{name}"),
        false => format!("@{}", quoted(name)),
    }
}

/// Removes the sigil from a name written by [`global`].
fn name(text: &str) -> String {
    match text.strip_prefix('"').and_then(|t| t.strip_suffix('"')) {
        Some(inner) => unquoted(inner),
        None => text.to_owned(),
    }
}
