//! The pool that lists of expressions lie in.

use relax_base::LendableVec;

use crate::{ExprId, ExprList};

/// Lists of expressions, one behind the other. A list lies before or behind the border of what is
/// lent as a whole.
#[derive(Clone, Default, Debug)]
pub(crate) struct Lists {
    items: LendableVec<ExprId>,
}

fn list(start: usize, len: usize) -> ExprList {
    ExprList {
        start: u32::try_from(start).expect("fewer than 2^32 list items"),
        len: len as u32,
    }
}

impl Lists {
    /// Stores a list.
    pub fn add(&mut self, items: &[ExprId]) -> ExprList {
        let start = self.end();
        self.items.own().extend_from_slice(items);
        list(start, items.len())
    }
    /// The expressions of a list.
    pub fn get(&self, list: ExprList) -> &[ExprId] {
        self.items.range(list.start as usize, list.len as usize)
    }
    /// The same list over other expressions: the list itself where `f` changes none.
    pub fn map(&mut self, old: ExprList, f: &mut impl FnMut(ExprId) -> ExprId) -> ExprList {
        let start = self.end();
        let mut changed = false;
        for i in 0..old.len() {
            let item = self.get(old)[i];
            let new = f(item);
            changed |= new != item;
            self.items.own().push(new);
        }
        if !changed {
            let kept = start - self.items.start();
            self.items.own().truncate(kept);
            return old;
        }
        list(start, old.len())
    }
    /// Returns where the next list begins.
    pub fn end(&self) -> usize {
        self.items.len()
    }
    /// Gives back the room that is reserved for more.
    pub fn shrink(&mut self) {
        self.items.shrink();
    }
    /// Lends all lists.
    pub fn lend(&mut self) {
        self.items.lend();
    }
    /// Ends [`lend`](Self::lend).
    pub fn take_back(&mut self) {
        self.items.take_back();
    }
    /// Returns what a copy of lent lists has added.
    pub fn into_own(self) -> Vec<ExprId> {
        self.items.into_own()
    }
}
