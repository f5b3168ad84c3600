//! Names for nodes: syntax trees identify entities by name, graphs by node and by any text.

use std::borrow::Cow;

use relax_base::Symbol;
use relax_syntax::{in_letters, reads_as_global, reads_as_name, reads_as_word};
use relax_tensor::DType;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::error::Found;
use crate::graph::{Graph, NodeId};
use crate::kinds::Sort;

/// The separator between a name and the suffix that makes it unique. No name in TVM contains it.
const MARK: char = '\0';

/// Returns the name without the suffix that makes it unique.
pub(crate) fn plain(name: Symbol) -> Symbol {
    match name.as_str().split_once(MARK) {
        Some((plain, _)) => Symbol::new(plain),
        None => name,
    }
}

/// Unique names of nodes.
#[derive(Default)]
pub(crate) struct Names {
    given: FxHashMap<NodeId, Symbol>,
    taken: FxHashMap<Symbol, u32>,
}

impl Names {
    /// Returns the unique name of a node, based on `wish`.
    pub(crate) fn of(&mut self, node: NodeId, wish: impl FnOnce() -> Symbol) -> Symbol {
        *self.given.entry(node).or_insert_with(|| {
            let wish = wish();
            let count = self.taken.entry(wish).or_default();
            *count += 1;
            match *count {
                1 => wish,
                n => Symbol::new(&format!("{wish}{MARK}{n}")),
            }
        })
    }

    /// Returns whether a node has a name.
    pub(crate) fn has(&self, node: NodeId) -> bool {
        self.given.contains_key(&node)
    }

    /// Removes all names.
    pub(crate) fn clear(&mut self) {
        self.given.clear();
        self.taken.clear();
    }
}

/// The names of items: functions, data types and constructors, which a text knows by nothing else.
/// One that no text can hold is replaced by one that resembles it.
#[derive(Default)]
pub(crate) struct Items {
    /// The names of nodes that were asked for.
    of: FxHashMap<NodeId, Symbol>,
    /// What stands for names that no text can hold.
    given: FxHashMap<String, Symbol>,
    /// The names of all items, once one of them is replaced.
    taken: Option<FxHashSet<String>>,
}

impl Items {
    fn instead(&mut self, g: &Graph<'_>, text: &str) -> Symbol {
        let taken = self.taken.get_or_insert_with(|| {
            let all = (1..g.nodes.len() as NodeId).filter_map(|id| item(g, id).ok()?);
            all.collect()
        });
        *self.given.entry(text.to_owned()).or_insert_with(|| {
            resembling(text, taken, |name| {
                reads_as_word(name) && name.parse::<DType>().is_err()
            })
        })
    }

    /// Returns the name in the text of a function, a data type or a constructor.
    pub(crate) fn of(&mut self, g: &Graph<'_>, id: NodeId) -> Found<Symbol> {
        if let Some(&known) = self.of.get(&id) {
            return Ok(known);
        }
        let text = item(g, id)?.unwrap_or_default();
        let fine = match g.sort(id) {
            Sort::GlobalVar => reads_as_global(&text),
            // An element type is one wherever it stands.
            _ => reads_as_word(&text) && text.parse::<DType>().is_err(),
        };
        let name = match fine {
            true => Symbol::new(&text),
            false => self.instead(g, &text),
        };
        self.of.insert(id, name);
        Ok(name)
    }
}

/// Takes and returns a name that resembles a text, reads as it has to and is not taken.
fn resembling(text: &str, taken: &mut FxHashSet<String>, reads: impl Fn(&str) -> bool) -> Symbol {
    let base = in_letters(text);
    let numbered = (1u32..).map(|n| format!("{base}{n}"));
    let mut names = std::iter::once(base.clone()).chain(numbered);
    let free = |name: &String| reads(name) && !taken.contains(name);
    let name = names.find(free).expect("one of 2^32 is free");
    taken.insert(name.clone());
    Symbol::new(&name)
}

/// Returns the names in the text of attributes, which are the keys of one map: those that no text
/// can hold are replaced by ones that resemble them.
pub(crate) fn attributes<'k>(keys: impl Iterator<Item = Cow<'k, str>>) -> Vec<Symbol> {
    let keys: Vec<Cow<'k, str>> = keys.collect();
    let fine: Vec<bool> = keys.iter().map(|key| reads_as_name(key)).collect();
    if fine.iter().all(|fine| *fine) {
        return keys.iter().map(|key| Symbol::new(key)).collect();
    }
    let mut taken: FxHashSet<String> = keys.iter().map(|key| key.to_string()).collect();
    let mut name = |(key, fine): (&Cow<'k, str>, &bool)| {
        if *fine {
            return Symbol::new(key);
        }
        resembling(key, &mut taken, reads_as_name)
    };
    keys.iter().zip(&fine).map(&mut name).collect()
}

/// Returns the name of a kind of objects in references to them.
pub(crate) fn kind(text: &str) -> Symbol {
    let fine = !text.is_empty() && text.trim() == text;
    match fine && !text.contains(|c: char| c.is_control() || c == ']') {
        true => Symbol::new(text),
        false => Symbol::new(&in_letters(text)),
    }
}

/// Returns the name of an item; `None` for another node.
fn item(g: &Graph<'_>, id: NodeId) -> Found<Option<String>> {
    Ok(match g.sort(id) {
        Sort::GlobalTypeVar => Some(g.type_name(id)?.into_owned()),
        Sort::GlobalVar | Sort::Ctor => Some(g.name(id, "name_hint")?.into_owned()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_one_name_differ() {
        let mut names = Names::default();
        let (a, b) = (names.of(1, || "x".into()), names.of(2, || "x".into()));
        assert_ne!(a, b);
        assert_eq!(names.of(1, || "y".into()), a);
        assert_eq!((plain(a), plain(b)), ("x".into(), "x".into()));
    }

    #[test]
    fn attributes_have_names_of_a_text() {
        let names = |keys: &[&'static str]| -> Vec<String> {
            let keys = keys.iter().map(|k| Cow::Borrowed(*k));
            attributes(keys).iter().map(Symbol::to_string).collect()
        };
        assert_eq!(
            names(&["Primitive", "a.b", "shape"]),
            ["Primitive", "a.b", "shape"]
        );
        assert_eq!(names(&["a b", "a_b", "a-b"]), ["a_b1", "a_b", "a_b2"]);
        assert_eq!(
            names(&["fn", "", "\0", "Inlin\u{fffd}"]),
            ["fn1", "v", "v_", "Inlin_"]
        );
        assert_eq!(kind("relay.Constant"), "relay.Constant");
        assert_eq!(kind("S\0x]"), "S_x_");
    }
}
