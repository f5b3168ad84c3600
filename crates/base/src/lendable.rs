//! A vector that several threads can append to.

use std::sync::Arc;

/// Reserves space for one more element. Large vectors grow by a quarter: growing them remaps pages
/// instead of copying, and the slack of doubling would dominate the memory for a large file.
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

/// A vector that can be [lent](Self::lend): its elements are then frozen and shared, and each copy
/// appends its own after them.
///
/// Invariant: lent elements do not change until they are [taken back](Self::take_back).
#[derive(Clone, Debug, PartialEq)]
pub struct LendableVec<T> {
    /// The elements from index `start` on.
    items: Vec<T>,
    start: usize,
    /// The elements before `start`, while lent.
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
    /// Appends an element.
    #[inline]
    pub fn push(&mut self, item: T) {
        make_room(&mut self.items);
        self.items.push(item);
    }
    /// Returns the number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.start + self.items.len()
    }
    /// Returns whether the vector is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns the number of lent elements.
    #[inline]
    pub fn start(&self) -> usize {
        self.start
    }
    /// Returns the element at `index`.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        match self.items.get(index.wrapping_sub(self.start)) {
            None => self.lent.as_ref()?.get(index),
            item => item,
        }
    }
    /// Returns a range of elements that does not cross the boundary between lent and own elements.
    #[inline]
    pub fn range(&self, from: usize, len: usize) -> &[T] {
        match &self.lent {
            Some(lent) if from < self.start => &lent[from..from + len],
            _ => &self.items[from - self.start..from - self.start + len],
        }
    }
    /// Returns the own elements, after the lent ones; more can be appended to them.
    #[inline]
    pub fn own(&mut self) -> &mut Vec<T> {
        &mut self.items
    }
    /// Returns this copy's own elements: those after the lent ones.
    pub fn into_own(self) -> Vec<T> {
        self.items
    }
    /// Releases excess capacity.
    pub fn shrink(&mut self) {
        self.items.shrink_to_fit();
    }
    /// Lends all elements: they are frozen, copies share them until dropped, and elements pushed to
    /// a copy belong to it alone.
    pub fn lend(&mut self) {
        assert!(self.lent.is_none(), "the elements are lent already");
        self.start = self.items.len();
        self.lent = Some(Arc::new(std::mem::take(&mut self.items)));
    }
    /// Ends [`lend`](Self::lend); all copies must have been dropped.
    pub fn take_back(&mut self) {
        let lent = self.lent.take().and_then(Arc::into_inner);
        let mut items = lent.expect("the elements were lent and no copy holds them");
        items.append(&mut self.items);
        (self.items, self.start) = (items, 0);
    }
}

impl<T: Clone> LendableVec<T> {
    /// Copies lent elements, so that this copy owns all of its elements.
    #[cold]
    pub fn unshare(&mut self) {
        if let Some(lent) = self.lent.take() {
            let mut items = Vec::with_capacity(lent.len() + self.items.len());
            items.extend_from_slice(&lent);
            items.append(&mut self.items);
            (self.items, self.start) = (items, 0);
        }
    }
    /// Returns a copy of the first `len` elements, with clones of `item` after the last.
    pub fn copied(&self, len: usize, item: &T) -> Vec<T> {
        let mut out = Vec::with_capacity(len);
        for items in [self.lent.as_ref().map(|l| &l[..]), Some(&self.items[..])] {
            let items = items.unwrap_or_default();
            out.extend_from_slice(&items[..items.len().min(len - out.len())]);
        }
        out.resize(len, item.clone());
        out
    }
    /// Extends the vector to `len` elements with clones of `item`; all lent elements must exist.
    pub fn fill(&mut self, len: usize, item: &T) {
        if len > self.len() {
            make_room(&mut self.items);
            self.items.resize(len - self.start, item.clone());
        }
    }
}
