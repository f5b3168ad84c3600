//! The pool that lists of expressions lie in.

use std::sync::Arc;

use crate::{ExprId, ExprList};

/// Lists of expressions, one behind the other. They are lent as an [`Arena`](relax_base::Arena)'s nodes are; a
/// list lies before or behind that border as a whole.
#[derive(Clone, Default, Debug)]
pub(crate) struct Lists {
    items: Vec<ExprId>,
    start: usize,
    lent: Option<Arc<Vec<ExprId>>>,
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
        self.items.extend_from_slice(items);
        list(start, items.len())
    }
    /// The expressions of a list.
    pub fn get(&self, list: ExprList) -> &[ExprId] {
        let (from, len) = (list.start as usize, list.len as usize);
        match &self.lent {
            Some(lent) if from < self.start => &lent[from..from + len],
            _ => &self.items[from - self.start..from - self.start + len],
        }
    }
    /// The same list over other expressions: the list itself where `f` changes none.
    pub fn map(&mut self, old: ExprList, f: &mut impl FnMut(ExprId) -> ExprId) -> ExprList {
        let start = self.items.len();
        let mut changed = false;
        for i in 0..old.len() {
            let item = self.get(old)[i];
            let new = f(item);
            changed |= new != item;
            self.items.push(new);
        }
        if !changed {
            self.items.truncate(start);
            return old;
        }
        list(self.start + start, old.len())
    }
    /// Where the next list begins.
    pub fn end(&self) -> usize {
        self.start + self.items.len()
    }
    /// Gives back the room that is reserved for more.
    pub fn shrink(&mut self) {
        self.items.shrink_to_fit();
    }
    /// Lends all lists.
    pub fn lend(&mut self) {
        self.start = self.items.len();
        self.lent = Some(Arc::new(std::mem::take(&mut self.items)));
    }
    /// Ends [`lend`](Self::lend).
    pub fn take_back(&mut self) {
        let lent = self.lent.take().and_then(Arc::into_inner);
        let mut items = lent.expect("the lists were lent and no copy holds them");
        items.append(&mut self.items);
        (self.items, self.start) = (items, 0);
    }
    /// What a copy of lent lists has added.
    pub fn into_own(self) -> Vec<ExprId> {
        self.items
    }
}
