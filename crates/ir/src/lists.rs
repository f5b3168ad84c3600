//! The pool of expression lists.

use relax_base::LendableVec;

use crate::{ExprId, ExprList};

/// Lists of expressions in one contiguous buffer. A list never crosses the boundary between the
/// lent (frozen) part and the rest.
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
    /// Returns the expressions of a list.
    pub fn get(&self, list: ExprList) -> &[ExprId] {
        self.items.range(list.start as usize, list.len as usize)
    }
    /// Maps a list's expressions; returns the same list if `f` changes none of them.
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
    /// Returns the start of the next list.
    pub fn end(&self) -> usize {
        self.items.len()
    }
    /// Releases excess capacity.
    pub fn shrink(&mut self) {
        self.items.shrink();
    }
    /// Lends (freezes) all lists.
    pub fn lend(&mut self) {
        self.items.lend();
    }
    /// Ends [`lend`](Self::lend).
    pub fn take_back(&mut self) {
        self.items.take_back();
    }
    /// Returns the lists that this copy added to the lent ones.
    pub fn into_own(self) -> Vec<ExprId> {
        self.items.into_own()
    }
}
