//! A program as text, and back.

pub(crate) mod ast;
mod print;
mod read;
pub(crate) mod token;

pub(crate) use print::Shown;
pub use print::print;
pub use read::{ListingError, read};

/// What stands before the program's interface, which is text of the language too.
const INTERFACE: &str = "#[interface]\n";

/// What stands before the kernels' tensor programs, which are text of the language.
const KERNELS: &str = "#[kernels]\n";

lalrpop_util::lalrpop_mod!(
    #[allow(clippy::all, clippy::pedantic, missing_docs, unused)]
    grammar,
    "/vm.rs"
);

/// A text in quotes.
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

/// A text without its quotes.
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

/// A function's name with its sigil.
fn global(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
    match !name.is_empty() && name.chars().all(plain) {
        true => format!("@{name}"),
        false => format!("@{}", quoted(name)),
    }
}

/// The name that [`global`] wrote, without the sigil.
fn name(text: &str) -> String {
    match text.strip_prefix('"').and_then(|t| t.strip_suffix('"')) {
        Some(inner) => unquoted(inner),
        None => text.to_owned(),
    }
}
