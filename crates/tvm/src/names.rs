//! Names for nodes: syntax trees identify entities by name, graphs by node.

use relax_base::Symbol;
use rustc_hash::FxHashMap;

use crate::graph::NodeId;

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
}
