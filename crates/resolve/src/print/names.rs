//! Unique names.

use relax_base::Symbol;
use rustc_hash::FxHashMap;

/// The names in use, across the whole text as in TVM: a name that is taken gets the first free
/// numeric suffix.
#[derive(Default)]
pub(super) struct Names {
    taken: FxHashMap<Symbol, u32>,
    /// Whether any name contains a dot.
    dotted: bool,
}

impl Names {
    /// Returns a unique name for a variable, based on `wish`.
    pub(super) fn variable(&mut self, wish: Symbol) -> Symbol {
        let text = wish.as_str();
        // TVM's rule: a name starts with a letter.
        if text.starts_with(|c: char| c.is_ascii_alphabetic()) {
            self.unique(wish)
        } else {
            self.unique(Symbol::new(&format!("v{text}")))
        }
    }

    /// Returns `wish`, with a numeric suffix if it is taken.
    pub(super) fn unique(&mut self, wish: Symbol) -> Symbol {
        let name = match self.taken.get(&wish).copied() {
            None => wish,
            Some(mut last) => {
                let name = loop {
                    last += 1;
                    let name = Symbol::new(&format!("{wish}{last}"));
                    if !self.taken.contains_key(&name) {
                        break name;
                    }
                };
                self.taken.insert(wish, last);
                name
            }
        };
        self.taken.insert(name, 0);
        self.dotted |= name.as_str().contains('.');
        name
    }

    /// Returns whether a tuple projection would be parsed as a variable: `%t.0` if a variable is
    /// named `t.0`.
    pub(super) fn hides_field(&self, tuple: Symbol, index: u32) -> bool {
        let name = || Symbol::new(&format!("{tuple}.{index}"));
        self.dotted && self.taken.contains_key(&name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_names_get_numbers() {
        let mut names = Names::default();
        let mut name = |wish: &str| names.variable(wish.into()).to_string();
        assert_eq!(name("x"), "x");
        assert_eq!(name("x1"), "x1");
        assert_eq!(name("x"), "x2");
        assert_eq!(name("x"), "x3");
        assert_eq!(name("x1"), "x11");
        assert_eq!(name("_"), "v_");
        assert_eq!(name(""), "v");
    }
}
