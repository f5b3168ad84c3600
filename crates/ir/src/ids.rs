//! Sparse sets of and maps over the ids of an arena, for traversals of a part of a module.
//!
//! The ids that a traversal touches are dense in a few ranges: the old nodes of a function are
//! adjacent, and its new ones are at the end of the arena. Hence these are paged tables with pages
//! allocated on first write: a lookup takes two loads, and memory is proportional to the function
//! that is traversed, not to the module.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::Index;

use relax_base::Id;
use rustc_hash::FxHashMap;

use crate::ExprId;

/// A table of `T` in pages of `N` entries; unwritten entries read as the default.
#[derive(Clone, Debug)]
struct Pages<T, const N: usize> {
    /// The one-based index of each allocated page; 0 for none.
    pages: Vec<u32>,
    slots: Vec<T>,
    default: T,
}

impl<T: Copy, const N: usize> Pages<T, N> {
    fn new(default: T) -> Self {
        Pages {
            pages: Vec::new(),
            slots: Vec::new(),
            default,
        }
    }

    fn slot(&self, i: usize) -> Option<usize> {
        let page = *self.pages.get(i / N)? as usize;
        (page != 0).then(|| (page - 1) * N + i % N)
    }

    fn get(&self, i: usize) -> &T {
        match self.slot(i) {
            Some(slot) => &self.slots[slot],
            None => &self.default,
        }
    }

    fn entry(&mut self, i: usize) -> &mut T {
        let slot = match self.slot(i) {
            Some(slot) => slot,
            None => self.make(i),
        };
        &mut self.slots[slot]
    }

    #[cold]
    fn make(&mut self, i: usize) -> usize {
        let (page, first) = (i / N, self.slots.len());
        if page >= self.pages.len() {
            self.pages.resize(page + 1, 0);
        }
        self.slots.resize(first + N, self.default);
        self.pages[page] = (first / N + 1) as u32;
        first + i % N
    }
}

/// A set of ids of one arena, one bit each.
#[derive(Clone, Debug)]
pub struct IdSet(Pages<u64, 64>);

impl Default for IdSet {
    fn default() -> Self {
        IdSet(Pages::new(0))
    }
}

impl<K: Id> FromIterator<K> for IdSet {
    fn from_iter<T: IntoIterator<Item = K>>(ids: T) -> Self {
        let mut set = IdSet::new();
        for id in ids {
            set.insert(id);
        }
        set
    }
}

impl IdSet {
    /// Creates an empty set.
    pub fn new() -> IdSet {
        IdSet::default()
    }
    /// Adds an id; returns whether it was new.
    pub fn insert(&mut self, id: impl Id) -> bool {
        let (word, bit) = (self.0.entry(id.index() / 64), 1u64 << (id.index() % 64));
        let new = *word & bit == 0;
        *word |= bit;
        new
    }
    /// Removes an id.
    pub fn remove(&mut self, id: impl Id) {
        if self.contains(id) {
            *self.0.entry(id.index() / 64) &= !(1 << (id.index() % 64));
        }
    }
    /// Returns whether the id is in the set.
    pub fn contains(&self, id: impl Id) -> bool {
        self.0.get(id.index() / 64) & (1 << (id.index() % 64)) != 0
    }
}

/// The ids below which a walk marks nodes in its list.
const NEAR: usize = 1 << 20;

/// The ids that a walk came by: each has the number of the last walk that did, or of one before
/// the list was cleared. The list is used again by the thread's next walk, and cleared when numbers
/// run out, so that a walk takes time for the nodes that it comes by and not for others. Ids from a
/// million on are kept as bits, so that the list stays short.
#[derive(Debug)]
pub(crate) struct Seen<K> {
    marks: Vec<u8>,
    walk: u8,
    far: IdSet,
    of: PhantomData<fn() -> K>,
}

thread_local! {
    /// The lists of walks that have ended, with the number of the last walk: one for each walk that
    /// was under way within another.
    static ENDED: RefCell<Vec<(Vec<u8>, u8)>> = const { RefCell::new(Vec::new()) };
}

impl<K: Id> Seen<K> {
    /// Creates an empty set.
    pub fn new() -> Self {
        let ended = ENDED.with(|all| all.borrow_mut().pop());
        let (mut marks, last) = ended.unwrap_or_default();
        let walk = last.checked_add(1).unwrap_or_else(|| {
            marks.fill(0);
            1
        });
        Seen {
            marks,
            walk,
            far: IdSet::new(),
            of: PhantomData,
        }
    }
    /// Adds an id; returns whether it was new.
    #[inline]
    pub fn insert(&mut self, id: K) -> bool {
        match self.marks.get_mut(id.index()) {
            Some(mark) => std::mem::replace(mark, self.walk) != self.walk,
            None => self.insert_far(id),
        }
    }
    /// Returns whether the id is in the set.
    #[inline]
    pub fn contains(&self, id: K) -> bool {
        match self.marks.get(id.index()) {
            Some(mark) => *mark == self.walk,
            None => id.index() >= NEAR && self.far.contains(id),
        }
    }
    #[cold]
    fn insert_far(&mut self, id: K) -> bool {
        let at = id.index();
        if at >= NEAR {
            return self.far.insert(id);
        }
        self.marks.resize((at + 1).next_multiple_of(1 << 12), 0);
        self.marks[at] = self.walk;
        true
    }
}

impl<K> Drop for Seen<K> {
    fn drop(&mut self) {
        let own = (std::mem::take(&mut self.marks), self.walk);
        // A thread that ends may have given up its lists.
        let _ = ENDED.try_with(|all| all.borrow_mut().push(own));
    }
}

/// A map from the ids of one arena to facts; ids without an entry read as the default.
#[derive(Clone, Debug)]
pub struct IdTable<K, T>(Pages<T, 1024>, PhantomData<fn() -> K>);

impl<K, T: Copy + Default> Default for IdTable<K, T> {
    fn default() -> Self {
        IdTable(Pages::new(T::default()), PhantomData)
    }
}

impl<K: Id, T: Copy> IdTable<K, T> {
    /// Returns the fact for `id` mutably.
    pub fn entry(&mut self, id: K) -> &mut T {
        self.0.entry(id.index())
    }
    /// Sets the fact for `id`.
    pub fn set(&mut self, id: K, fact: T) {
        *self.entry(id) = fact;
    }
}

impl<K: Id, T: Copy> Index<K> for IdTable<K, T> {
    type Output = T;
    fn index(&self, id: K) -> &T {
        self.0.get(id.index())
    }
}

/// Maps up to this size are hash tables: many maps hold only a few nodes of a large module.
const FEW: usize = 64;

/// A map from ids of one arena to ids.
#[derive(Clone, Debug)]
pub struct IdMap<K, V> {
    few: FxHashMap<K, V>,
    /// All entries, once there are more than [`FEW`].
    many: Option<Pages<V, 1024>>,
}

/// The mapping from old to rewritten expressions of a rewriter.
pub type Memo = IdMap<ExprId, ExprId>;

impl<K, V> Default for IdMap<K, V> {
    fn default() -> Self {
        IdMap {
            few: FxHashMap::default(),
            many: None,
        }
    }
}

impl<K: Id, V: Id> IdMap<K, V> {
    /// Creates an empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the value that marks empty slots; arenas never reach this index.
    fn none() -> V {
        V::from_index(u32::MAX as usize)
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        match &self.many {
            None => self.few.get(key),
            Some(pages) => Some(pages.get(key.index())).filter(|v| **v != Self::none()),
        }
    }
    /// Returns whether the map contains the key.
    pub fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }
    /// Inserts a value; returns the previous one.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if self.many.is_none() && self.few.len() == FEW {
            let mut pages = Pages::new(Self::none());
            for (key, value) in std::mem::take(&mut self.few) {
                *pages.entry(key.index()) = value;
            }
            self.many = Some(pages);
        }
        match &mut self.many {
            None => self.few.insert(key, value),
            Some(pages) => {
                let old = std::mem::replace(pages.entry(key.index()), value);
                (old != Self::none()).then_some(old)
            }
        }
    }
}

impl<K: Id, V: Id> Index<&K> for IdMap<K, V> {
    type Output = V;
    fn index(&self, key: &K) -> &V {
        self.get(key).expect("the key has a value")
    }
}

impl<K: Id, V: Id> Extend<(K, V)> for IdMap<K, V> {
    fn extend<T: IntoIterator<Item = (K, V)>>(&mut self, entries: T) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K: Id, V: Id> FromIterator<(K, V)> for IdMap<K, V> {
    fn from_iter<T: IntoIterator<Item = (K, V)>>(entries: T) -> Self {
        let mut map = IdMap::default();
        map.extend(entries);
        map
    }
}
