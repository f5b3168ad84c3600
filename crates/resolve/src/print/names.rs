//! Unique names that read back.
//!
//! A module's names are any texts: graphs of other frameworks have names with blanks, and a text's
//! `%True` or `Tensor[(True,), float32]` are names only where they stand. A variable is printed
//! under the nearest name that is read as one in all its positions.

use relax_base::Symbol;
use relax_ir::Module;
use relax_syntax::{in_letters, reads_as_local, reads_as_word};
use rustc_hash::{FxHashMap, FxHashSet};

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
            self.local(wish)
        } else {
            self.local(Symbol::new(&format!("v{text}")))
        }
    }

    /// Returns a unique name for what stands after `%`.
    pub(super) fn local(&mut self, wish: Symbol) -> Symbol {
        match reads_as_local(wish.as_str()) {
            true => self.unique(wish),
            false => self.unique(Symbol::new(&in_letters(wish.as_str()))),
        }
    }

    /// Returns a unique name for what stands without a sigil: a dimension, a type parameter.
    pub(super) fn word(&mut self, wish: Symbol, words: &Words) -> Symbol {
        let wish = match reads_as_word(wish.as_str()) {
            true => wish,
            // A number makes a word that means something another one.
            false => Symbol::new(&in_letters(wish.as_str())),
        };
        if words.mean(wish) {
            self.taken.entry(wish).or_insert(0);
        }
        let mut name = self.unique(wish);
        while words.mean(name) {
            name = self.unique(wish);
        }
        name
    }

    /// Returns `wish`, with a numeric suffix if it is taken.
    fn unique(&mut self, wish: Symbol) -> Symbol {
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

/// Words that types and attributes give a meaning, so that no variable may hide it.
#[derive(Default)]
pub(super) struct Words {
    types: FxHashSet<Symbol>,
}

impl Words {
    pub(super) fn of(m: &Module) -> Words {
        Words {
            types: m.adts.values().map(|a| a.name).collect(),
        }
    }

    /// Returns whether a word means something other than a variable.
    pub(super) fn mean(&self, word: Symbol) -> bool {
        let text = word.as_str();
        matches!(
            text,
            "Object" | "Storage" | "Tuple" | "None" | "nullptr" | "broadcast" | "prod" | "meta"
        ) || !reads_as_word(text)
            || self.types.contains(&word)
            || text.parse::<relax_tensor::DType>().is_ok()
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
        assert_eq!(name("model/conv.weight"), "model/conv.weight");
        assert_eq!(name("x:0"), "x:0");
        assert_eq!(name("q.1.2"), "q.1.2");
        assert_eq!(name("größe"), "größe");
        assert_eq!(name("a b"), "a_b");
        assert_eq!(name("a-b"), "a_b1");
        assert_eq!(name("fn"), "fn");
    }

    #[test]
    fn words_with_a_meaning_get_numbers() {
        let (mut names, words) = (Names::default(), Words::default());
        let mut name = |wish: &str| names.word(wish.into(), &words).to_string();
        assert_eq!(name("n"), "n");
        assert_eq!(name("True"), "True1");
        assert_eq!(name("fn"), "fn1");
        assert_eq!(name("nan"), "nan1");
        assert_eq!(name("max"), "max1");
        assert_eq!(name("Tensor"), "Tensor1");
        assert_eq!(name("METADATA"), "METADATA1");
        assert_eq!(name("2d"), "v2d");
        assert_eq!(name("seq len"), "seq_len");
        assert_eq!(name("?"), "v_");
    }
}
