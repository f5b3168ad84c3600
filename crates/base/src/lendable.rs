//! A vector to which several threads can add.

use std::sync::Arc;

/// Makes room for one more element. Large vectors grow by a quarter: their pages are moved, not
/// copied, and what doubling reserves would be most of the memory of a large file.
#[inline]
fn make_room<T>(items: &mut Vec<T>) {
    if items.len() == items.capacity() {
        grow(items);
    }
}

#[cold]
fn grow<T>(items: &mut Vec<T>) {
    const LARGE: usize = 1 << 20;
    if size_of_val(items.as_slice()) >= LARGE {
        items.reserve_exact(items.len() / 4);
    }
}

/// A vector that may be [lent](Self::lend): its elements then stand still, and each copy adds its
/// own behind them.
///
/// Invariant: elements that are lent do not change until they are [taken back](Self::take_back).
#[derive(Clone, Debug, PartialEq)]
pub struct LendableVec<T> {
    /// The elements from `start` on.
    items: Vec<T>,
    start: usize,
    /// The elements before `start`, while they are lent.
    lent: Option<Arc<Vec<T>>>,
}

impl<T> Default for LendableVec<T> {
    fn default() -> Self {
        Self::from(Vec::new())
    }
}

impl<T> From<Vec<T>> for LendableVec<T> {
    fn from(items: Vec<T>) -> Self {
        LendableVec {
            items,
            start: 0,
            lent: None,
        }
    }
}

impl<T> LendableVec<T> {
    /// Adds an element.
    #[inline]
    pub fn push(&mut self, item: T) {
        make_room(&mut self.items);
        self.items.push(item);
    }
    /// Number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.start + self.items.len()
    }
    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns how many elements are lent.
    #[inline]
    pub fn start(&self) -> usize {
        self.start
    }
    /// The element at `index`.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        match self.items.get(index.wrapping_sub(self.start)) {
            None => self.lent.as_ref()?.get(index),
            item => item,
        }
    }
    /// The elements of a range that lies before or behind the border between what is lent and what
    /// is not.
    #[inline]
    pub fn range(&self, from: usize, len: usize) -> &[T] {
        match &self.lent {
            Some(lent) if from < self.start => &lent[from..from + len],
            _ => &self.items[from - self.start..from - self.start + len],
        }
    }
    /// The elements that are not lent: behind them more can be added.
    #[inline]
    pub fn own(&mut self) -> &mut Vec<T> {
        &mut self.items
    }
    /// The copy's own elements, from the first that was not lent on.
    pub fn into_own(self) -> Vec<T> {
        self.items
    }
    /// Gives back the room that is reserved for more elements.
    pub fn shrink(&mut self) {
        self.items.shrink_to_fit();
    }
    /// Lends all elements: copies share them until each is dropped, none can change them, and
    /// elements that are added are a copy's own.
    pub fn lend(&mut self) {
        assert!(self.lent.is_none(), "the elements are lent already");
        self.start = self.items.len();
        self.lent = Some(Arc::new(std::mem::take(&mut self.items)));
    }
    /// Ends [`lend`](Self::lend), when all copies are gone.
    pub fn take_back(&mut self) {
        let lent = self.lent.take().and_then(Arc::into_inner);
        let mut items = lent.expect("the elements were lent and no copy holds them");
        items.append(&mut self.items);
        (self.items, self.start) = (items, 0);
    }
}

impl<T: Clone> LendableVec<T> {
    /// Makes elements that others lent elements of this copy alone.
    #[cold]
    pub fn unshare(&mut self) {
        if let Some(lent) = self.lent.take() {
            let mut items = Vec::with_capacity(lent.len() + self.items.len());
            items.extend_from_slice(&lent);
            items.append(&mut self.items);
            (self.items, self.start) = (items, 0);
        }
    }
    /// Fills up with `item` to `len` elements, of which at least those that are lent are there.
    pub fn fill(&mut self, len: usize, item: &T) {
        if len > self.len() {
            make_room(&mut self.items);
            self.items.resize(len - self.start, item.clone());
        }
    }
}
