//! Arenas addressed by small integer ids, and side tables.
//!
//! Invariant: nodes refer to each other by id only, so dropping an arena drops a flat vector
//! and never recurses, however deep the structure it holds.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

use crate::lendable::LendableVec;

/// A newtype over `u32` that indexes an [`Arena`]. Implemented by [`define_id!`](crate::define_id).
pub trait Id: Copy + Eq + std::hash::Hash + Ord {
    /// Creates the id of the `index`-th node.
    fn from_index(index: usize) -> Self;
    /// Returns the index of the node in its arena.
    fn index(self) -> usize;
}

/// Defines id types: `define_id! { /// doc pub struct ExprId("e"); }`. `Debug` prints the prefix
/// and the number (`e12`).
#[macro_export]
macro_rules! define_id {
    ($($(#[$m:meta])* $v:vis struct $name:ident($prefix:literal);)*) => {$(
        $(#[$m])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $v struct $name(pub u32);
        impl $crate::Id for $name {
            fn from_index(index: usize) -> Self {
                $name(u32::try_from(index).expect("arena holds fewer than 2^32 nodes"))
            }
            fn index(self) -> usize { self.0 as usize }
        }
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    )*};
}

/// A growable vector of nodes, addressed by `I`.
///
/// It can be [lent](Self::lend): its nodes are then frozen and shared, and each copy appends its
/// own after them. This lets several threads add to one arena.
#[derive(Clone, Debug, PartialEq)]
pub struct Arena<I, T> {
    nodes: LendableVec<T>,
    id: PhantomData<fn() -> I>,
}

impl<I: Id, T> Default for Arena<I, T> {
    fn default() -> Self {
        Self::from(Vec::new())
    }
}

impl<I: Id, T> From<Vec<T>> for Arena<I, T> {
    fn from(items: Vec<T>) -> Self {
        Arena {
            nodes: items.into(),
            id: PhantomData,
        }
    }
}

impl<I: Id, T> Arena<I, T> {
    /// Creates an empty arena.
    pub fn new() -> Self {
        Self::default()
    }
    /// Creates an empty arena with capacity for `n` nodes.
    pub fn with_capacity(n: usize) -> Self {
        Self::from(Vec::with_capacity(n))
    }
    /// Adds a node and returns its id.
    pub fn push(&mut self, item: T) -> I {
        let id = self.next_id();
        self.nodes.push(item);
        id
    }
    /// Returns the id that the next [`push`](Self::push) will return.
    pub fn next_id(&self) -> I {
        I::from_index(self.len())
    }
    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }
    /// Returns whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns the node, if the id belongs to this arena.
    pub fn get(&self, id: I) -> Option<&T> {
        self.nodes.get(id.index())
    }
    /// Iterates over all ids, in order of creation.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + use<I, T> {
        (0..self.len()).map(I::from_index)
    }
    /// Iterates over all ids with their nodes, in order of creation.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (I, &T)> + ExactSizeIterator {
        self.ids().map(|id| (id, &self[id]))
    }
    /// Iterates over all nodes, in order of creation.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator {
        self.ids().map(|id| &self[id])
    }
    /// Iterates over the nodes from `id` on.
    pub fn values_from(&self, id: I) -> impl DoubleEndedIterator<Item = &T> {
        (id.index()..self.len()).map(|i| &self[I::from_index(i)])
    }
    /// Iterates over all nodes that are not lent, mutably.
    pub fn values_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.nodes.own().iter_mut()
    }
    /// Releases excess capacity.
    pub fn shrink(&mut self) {
        self.nodes.shrink();
    }
    /// Drops all nodes from index `len` on, none of which may be lent.
    pub fn truncate(&mut self, len: usize) {
        let start = self.nodes.start();
        self.nodes.own().truncate(len - start);
    }

    /// Lends all nodes: they are frozen, copies of the arena share them until dropped, and nodes
    /// pushed to a copy belong to it alone. [`take_back`](Self::take_back) ends this.
    pub fn lend(&mut self) {
        self.nodes.lend();
    }
    /// Returns this copy's own nodes: those after the lent ones.
    pub fn into_own(self) -> Vec<T> {
        self.nodes.into_own()
    }
    /// Ends [`lend`](Self::lend); all copies must have been dropped.
    pub fn take_back(&mut self) {
        self.nodes.take_back();
    }

    #[cold]
    #[inline(never)]
    fn none(&self, id: I) -> ! {
        let (len, index) = (self.len(), id.index());
        panic!("the arena has {len} nodes, and none {index}");
    }
}

impl<I: Id, T> Index<I> for Arena<I, T> {
    type Output = T;
    #[inline]
    fn index(&self, id: I) -> &T {
        match self.nodes.get(id.index()) {
            Some(node) => node,
            None => self.none(id),
        }
    }
}

impl<I: Id, T> IndexMut<I> for Arena<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        let i = id.index().checked_sub(self.nodes.start());
        &mut self.nodes.own()[i.expect("a node that is lent does not change")]
    }
}

/// A dense side table of facts about the nodes of an [`Arena`]. Ids without an entry read as the
/// default.
#[derive(Clone, Debug)]
pub struct SideTable<I, T> {
    facts: LendableVec<T>,
    default: T,
    id: PhantomData<fn() -> I>,
}

impl<I: Id, T: Clone + Default> Default for SideTable<I, T> {
    fn default() -> Self {
        Self::with_default(T::default())
    }
}

impl<I: Id, T: Clone> SideTable<I, T> {
    /// Creates an empty table in which every id reads as `default`.
    pub fn with_default(default: T) -> Self {
        Self::from_list(default, Vec::new())
    }
    /// Creates a table with the facts for the ids from 0 on; further ids read as `default`.
    pub fn from_list(default: T, facts: Vec<T>) -> Self {
        SideTable {
            facts: facts.into(),
            default,
            id: PhantomData,
        }
    }
    /// Sets the fact for `id`.
    pub fn set(&mut self, id: I, value: T) {
        *self.entry(id) = value;
    }
    /// Returns the fact for `id` mutably, growing the table if needed. Writing to a lent fact first
    /// copies the lent part.
    pub fn entry(&mut self, id: I) -> &mut T {
        if id.index() < self.facts.start() {
            self.facts.unshare();
        }
        self.facts.fill(id.index() + 1, &self.default);
        let i = id.index() - self.facts.start();
        &mut self.facts.own()[i]
    }
    /// Returns the facts of the first `n` ids.
    pub fn first(&self, n: usize) -> Vec<T> {
        self.facts.copied(n, &self.default)
    }
    /// Lets copies share all facts, until they write to one of them (copy-on-write).
    pub fn lend_all(&mut self) {
        self.facts.unshare();
        self.facts.lend();
    }
    /// Returns this copy's own facts: those after the lent ones.
    pub fn into_own(self) -> Vec<T> {
        self.facts.into_own()
    }
    /// Lends the facts of the first `n` ids, see [`Arena::lend`].
    pub fn lend(&mut self, n: usize) {
        self.facts.own().resize(n, self.default.clone());
        self.facts.lend();
    }
    /// Ends [`lend`](Self::lend); all copies must have been dropped.
    pub fn take_back(&mut self) {
        self.facts.take_back();
    }
    /// Releases excess capacity.
    pub fn shrink(&mut self) {
        self.facts.shrink();
    }
    /// Removes all facts that are not lent, keeping the capacity.
    pub fn clear(&mut self) {
        self.facts.own().clear();
    }
}

impl<I: Id, T> Index<I> for SideTable<I, T> {
    type Output = T;
    fn index(&self, id: I) -> &T {
        self.facts.get(id.index()).unwrap_or(&self.default)
    }
}
