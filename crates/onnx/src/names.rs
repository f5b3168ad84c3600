//! Names of the text, derived from names of the model.

use rustc_hash::{FxHashMap, FxHashSet};

/// Returns whether a name is a valid identifier.
pub fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Returns a readable identifier derived from a name: invalid characters become `_`, and exporters'
/// decorations are removed.
pub fn readable(name: &str, otherwise: &str) -> String {
    if is_identifier(name) {
        return name.to_owned();
    }
    let name = name.strip_suffix("_output_0").unwrap_or(name);
    let parts: Vec<&str> = name.split('/').filter(|p| !p.is_empty()).collect();
    let short = match parts.as_slice() {
        [.., a, b] if name.starts_with('/') => format!("{a}_{b}"),
        _ => name.to_owned(),
    };
    let mut out = String::new();
    for c in short.chars() {
        match c {
            c if c.is_ascii_alphanumeric() => out.push(c),
            _ if out.ends_with('_') => {}
            _ => out.push('_'),
        }
    }
    let out = out.trim_matches('_');
    if out.is_empty() {
        return otherwise.to_owned();
    }
    if out.starts_with(|c: char| c.is_ascii_digit()) {
        return format!("{otherwise}_{out}");
    }
    out.to_owned()
}

/// The names in use.
#[derive(Default, Debug)]
pub struct Names {
    taken: FxHashSet<String>,
    /// The next numeric suffix for each name in use.
    next: FxHashMap<String, usize>,
}

impl Names {
    /// Returns the name, with a numeric suffix if it is taken.
    pub fn unique(&mut self, name: String) -> String {
        if self.taken.insert(name.clone()) {
            return name;
        }
        let k = self.next.entry(name.clone()).or_insert(0);
        loop {
            *k += 1;
            let next = format!("{name}_{k}");
            if self.taken.insert(next.clone()) {
                return next;
            }
        }
    }
}
