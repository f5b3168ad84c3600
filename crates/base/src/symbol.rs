//! Interned names: equal text, equal [`Symbol`].

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, OnceLock};

use rustc_hash::{FxBuildHasher, FxHashMap};

/// An interned string. Copying and comparing cost as much as for a `u32`.
///
/// The text lives as long as the process: names are few and short next to the programs they
/// stand in. Ordering is by text, so that sorted output does not depend on interning order.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Symbol(u32);

struct Interner {
    ids: HashMap<&'static str, u32, FxBuildHasher>,
    texts: Vec<&'static str>,
}

fn interner() -> &'static Mutex<Interner> {
    static INTERNER: OnceLock<Mutex<Interner>> = OnceLock::new();
    INTERNER.get_or_init(|| {
        Mutex::new(Interner {
            ids: HashMap::with_hasher(FxBuildHasher),
            texts: Vec::new(),
        })
    })
}

thread_local! {
    /// What this thread has already asked for, so that the lock is off the parser's hot path.
    static SEEN: RefCell<FxHashMap<&'static str, u32>> = RefCell::new(FxHashMap::default());
    static TEXTS: RefCell<Vec<Option<&'static str>>> = const { RefCell::new(Vec::new()) };
}

impl Symbol {
    /// The symbol for `text`.
    pub fn new(text: &str) -> Symbol {
        SEEN.with(|seen| {
            if let Some(&id) = seen.borrow().get(text) {
                return Symbol(id);
            }
            let mut all = interner()
                .lock()
                .expect("the interner never panics while locked");
            let (id, text) = match all.ids.get_key_value(text) {
                Some((t, id)) => (*id, *t),
                None => {
                    let text: &'static str = Box::leak(text.into());
                    let id = u32::try_from(all.texts.len()).expect("fewer than 2^32 names");
                    all.texts.push(text);
                    all.ids.insert(text, id);
                    (id, text)
                }
            };
            seen.borrow_mut().insert(text, id);
            Symbol(id)
        })
    }

    /// The text.
    pub fn as_str(self) -> &'static str {
        TEXTS.with(|texts| {
            let i = self.0 as usize;
            if let Some(Some(t)) = texts.borrow().get(i) {
                return *t;
            }
            let text = interner()
                .lock()
                .expect("the interner never panics while locked")
                .texts[i];
            let mut texts = texts.borrow_mut();
            if texts.len() <= i {
                texts.resize(i + 1, None);
            }
            texts[i] = Some(text);
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
