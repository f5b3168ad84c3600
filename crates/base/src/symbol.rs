//! Interned names: equal strings have equal [`Symbol`]s.

use std::cell::RefCell;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::{Mutex, OnceLock};

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

/// An interned string, as cheap to copy and compare as a `u32`.
///
/// The text is never freed: names are few and short compared with the programs they occur in.
/// Ordering is by text, so that sorted output does not depend on interning order.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Symbol(u32);

/// The interned strings, and a hash table of their indices. The table holds only indices, as a
/// large file has as many names as bindings.
struct Interner {
    ids: HashTable<u32>,
    texts: Vec<&'static str>,
    /// The bytes of the texts.
    bytes: usize,
}

fn hash(text: &str) -> u64 {
    FxBuildHasher.hash_one(text)
}

fn interner() -> &'static Mutex<Interner> {
    static INTERNER: OnceLock<Mutex<Interner>> = OnceLock::new();
    INTERNER.get_or_init(|| {
        Mutex::new(Interner {
            ids: HashTable::new(),
            texts: Vec::new(),
            bytes: 0,
        })
    })
}

/// A per-thread cache of lookups, which keeps the lock off the parser's hot path.
struct Seen {
    ids: HashTable<u32>,
    /// Strings by index; empty where this thread has not looked one up.
    texts: Vec<&'static str>,
}

impl Seen {
    fn remember(&mut self, id: u32, text: &'static str) {
        let i = id as usize;
        if self.texts.len() <= i {
            self.texts.resize(i + 1, "");
        }
        self.texts[i] = text;
    }
}

thread_local! {
    static SEEN: RefCell<Seen> = const {
        RefCell::new(Seen {
            ids: HashTable::new(),
            texts: Vec::new(),
        })
    };
}

impl Symbol {
    /// Interns `text`.
    pub fn new(text: &str) -> Symbol {
        let own = hash(text);
        SEEN.with_borrow_mut(|seen| {
            if let Some(&id) = seen.ids.find(own, |&id| seen.texts[id as usize] == text) {
                return Symbol(id);
            }
            let mut all = interner()
                .lock()
                .expect("the interner never panics while locked");
            let all = &mut *all;
            let known = all.ids.find(own, |&id| all.texts[id as usize] == text);
            let id = match known {
                Some(&id) => id,
                None => {
                    let id = u32::try_from(all.texts.len()).expect("fewer than 2^32 names");
                    all.texts.push(Box::leak(text.into()));
                    all.bytes += text.len();
                    let texts = &all.texts;
                    all.ids
                        .insert_unique(own, id, |&id| hash(texts[id as usize]));
                    id
                }
            };
            seen.remember(id, all.texts[id as usize]);
            let texts = &seen.texts;
            seen.ids
                .insert_unique(own, id, |&id| hash(texts[id as usize]));
            Symbol(id)
        })
    }

    /// Returns the symbol of a text that was interned before; `None` if nothing has that name.
    pub fn find(text: &str) -> Option<Symbol> {
        let own = hash(text);
        let seen = SEEN.with_borrow(|seen| {
            let id = seen.ids.find(own, |&id| seen.texts[id as usize] == text);
            id.copied()
        });
        let known = seen.or_else(|| {
            let all = interner()
                .lock()
                .expect("the interner never panics while locked");
            let id = all.ids.find(own, |&id| all.texts[id as usize] == text);
            id.copied()
        });
        known.map(Symbol)
    }

    /// Returns the bytes of the texts interned so far and of the list of them, which is never
    /// shorter: what a process that runs for long ends for.
    pub fn interned() -> usize {
        let all = interner()
            .lock()
            .expect("the interner never panics while locked");
        all.bytes + all.texts.len() * size_of::<&str>()
    }

    /// Returns the text.
    pub fn as_str(self) -> &'static str {
        SEEN.with_borrow_mut(|seen| {
            match seen.texts.get(self.0 as usize) {
                Some(text) if !text.is_empty() => return *text,
                _ => {}
            }
            let text = interner()
                .lock()
                .expect("the interner never panics while locked")
                .texts[self.0 as usize];
            seen.remember(self.0, text);
            text
        })
    }
}

impl From<&str> for Symbol {
    fn from(text: &str) -> Self {
        Symbol::new(text)
    }
}

impl PartialEq<str> for Symbol {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Symbol {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialOrd for Symbol {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Symbol {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        if self.0 == other.0 {
            return std::cmp::Ordering::Equal;
        }
        self.as_str().cmp(other.as_str())
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_counted_once() {
        let name = "a name that no other test interns";
        let before = Symbol::interned();
        let first = Symbol::new(name);
        let after = Symbol::interned();
        assert!(after >= before + name.len());
        // Other tests intern names meanwhile, but none of a megabyte.
        for _ in 0..100_000 {
            assert_eq!(Symbol::new(name), first);
        }
        assert!(Symbol::interned() < after + (1 << 20));
    }
}
