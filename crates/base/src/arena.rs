//! Arenas addressed by small integer ids, and tables beside them.
//!
//! Invariant: nodes refer to each other by id only, so dropping an arena drops a flat vector
//! and never recurses, however deep the structure it holds.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// A newtype over `u32` that indexes an [`Arena`]. Implemented by [`define_id!`](crate::define_id).
pub trait Id: Copy + Eq + std::hash::Hash + Ord {
    /// The id of the `index`-th node.
    fn from_index(index: usize) -> Self;
    /// The position of the node in its arena.
    fn index(self) -> usize;
}

/// Defines id types: `define_id! { /// doc pub struct ExprId("e"); }`.
/// `Debug` shows the prefix and the number (`e12`).
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

/// A growing vector of nodes, addressed by `I`.
#[derive(Clone, Debug, PartialEq)]
pub struct Arena<I, T> {
    items: Vec<T>,
    id: PhantomData<fn() -> I>,
}

impl<I: Id, T> Default for Arena<I, T> {
    fn default() -> Self {
        Arena {
            items: Vec::new(),
            id: PhantomData,
        }
    }
}

impl<I: Id, T> Arena<I, T> {
    /// An empty arena.
    pub fn new() -> Self {
        Self::default()
    }
    /// An empty arena with room for `n` nodes.
    pub fn with_capacity(n: usize) -> Self {
        Arena {
            items: Vec::with_capacity(n),
            id: PhantomData,
        }
    }
    /// Adds a node and returns its id.
    pub fn push(&mut self, item: T) -> I {
        let id = I::from_index(self.items.len());
        make_room(&mut self.items);
        self.items.push(item);
        id
    }
    /// The id that the next [`push`](Self::push) will return.
    pub fn next_id(&self) -> I {
        I::from_index(self.items.len())
    }
    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.items.len()
    }
    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    /// The node, if the id belongs to this arena.
    pub fn get(&self, id: I) -> Option<&T> {
        self.items.get(id.index())
    }
    /// All ids, in order of creation.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + use<I, T> {
        (0..self.items.len()).map(I::from_index)
    }
    /// All ids with their nodes, in order of creation.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (I, &T)> + ExactSizeIterator {
        self.items
            .iter()
            .enumerate()
            .map(|(i, t)| (I::from_index(i), t))
    }
    /// All nodes, in order of creation.
    pub fn values(&self) -> std::slice::Iter<'_, T> {
        self.items.iter()
    }
    /// All nodes, mutably.
    pub fn values_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.items.iter_mut()
    }
    /// Gives back the room that is reserved for more nodes.
    pub fn shrink(&mut self) {
        self.items.shrink_to_fit();
    }
    /// Drops all nodes from `len` on.
    pub fn truncate(&mut self, len: usize) {
        self.items.truncate(len);
    }
}

impl<I: Id, T> Index<I> for Arena<I, T> {
    type Output = T;
    fn index(&self, id: I) -> &T {
        &self.items[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for Arena<I, T> {
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.index()]
    }
}

/// A dense table of facts about the nodes of an [`Arena`] that another owner made.
/// Ids never written read as the default value.
#[derive(Clone, Debug)]
pub struct SideTable<I, T> {
    items: Vec<T>,
    default: T,
    id: PhantomData<fn() -> I>,
}

impl<I: Id, T: Clone + Default> Default for SideTable<I, T> {
    fn default() -> Self {
        SideTable {
            items: Vec::new(),
            default: T::default(),
            id: PhantomData,
        }
    }
}

impl<I: Id, T: Clone> SideTable<I, T> {
    /// An empty table in which every id reads as `default`.
    pub fn with_default(default: T) -> Self {
        SideTable {
            items: Vec::new(),
            default,
            id: PhantomData,
        }
    }
    /// A table of the facts for the ids from 0 on; further ids read as `default`.
    pub fn from_list(default: T, items: Vec<T>) -> Self {
        SideTable {
            items,
            default,
            id: PhantomData,
        }
    }
    /// Writes the fact for `id`.
    pub fn set(&mut self, id: I, value: T) {
        *self.entry(id) = value;
    }
    /// The fact for `id`, for writing; grows the table.
    pub fn entry(&mut self, id: I) -> &mut T {
        if id.index() >= self.items.len() {
            make_room(&mut self.items);
            self.items.resize(id.index() + 1, self.default.clone());
        }
        &mut self.items[id.index()]
    }
    /// Gives back the room that is reserved for more facts.
    pub fn shrink(&mut self) {
        self.items.shrink_to_fit();
    }
    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        self.items.clear();
    }
}

impl<I: Id, T> Index<I> for SideTable<I, T> {
    type Output = T;
    fn index(&self, id: I) -> &T {
        self.items.get(id.index()).unwrap_or(&self.default)
    }
}
