//! Blocks of few bytes, which the thread that frees them hands out again.
//!
//! Nearly everything that a tool allocates are lists and nodes of a few dozen bytes that live for
//! the length of one step. The system's allocator takes several times as long for them as a list
//! of free blocks for each size. Freed blocks are never returned to the system, which suits tools:
//! they are short-lived.
//!
//! The tools' allocator is made of it (`cli/src/memory.rs`); it stands here since hot code does.
//!
//! Each thread has free blocks of its own, of which it keeps two lists of a bounded length: further
//! ones go to a shelf that all threads share, from which a thread takes before it asks the system.
//! What a thread has when it ends is lost, at most 8 KiB in each list.
//!
//! Invariant: once blocks are kept they are kept until the process ends. A block of a class has
//! the size of the class whoever allocated it, so one from before that moment can be kept as well.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, UnsafeCell};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

/// Sizes are rounded up to multiples of this, which is also the alignment of all blocks.
const GRAIN: usize = 16;
/// The number of sizes: blocks of up to 512 bytes.
const CLASSES: usize = 32;
/// The bytes of a list of free blocks.
const LIST: usize = 8 << 10;
/// The bytes that are taken from the system at once.
const CHUNK: usize = 64 << 10;

/// Whether freed blocks are kept.
static KEPT: AtomicBool = AtomicBool::new(false);

/// A free block.
struct Free {
    /// The next one of its list.
    next: *mut Free,
    /// For the first of a list on a shelf, the first of the next list.
    list: *mut Free,
}

/// The free blocks of one class that a thread has.
struct Own {
    first: Cell<*mut Free>,
    /// How many more the list takes.
    room: Cell<usize>,
    /// A full list, or null.
    full: Cell<*mut Free>,
}

/// What a thread has.
struct Thread {
    own: [Own; CLASSES],
    /// The rest of a chunk: its address and length.
    rest: Cell<(*mut u8, usize)>,
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            own: [const {
                Own { first: Cell::new(null_mut()), room: Cell::new(0), full: Cell::new(null_mut()) }
            }; CLASSES],
            rest: Cell::new((null_mut(), 0)),
        }
    };
}

/// Full lists of one class, for any thread.
struct Shelf {
    locked: AtomicBool,
    lists: UnsafeCell<*mut Free>,
}

// SAFETY: `lists` is only accessed by whoever set `locked`.
unsafe impl Sync for Shelf {}

static SHELVES: [Shelf; CLASSES] = [const {
    Shelf {
        locked: AtomicBool::new(false),
        lists: UnsafeCell::new(null_mut()),
    }
}; CLASSES];

impl Shelf {
    fn with<T>(&self, work: impl FnOnce(&mut *mut Free) -> T) -> T {
        while self.locked.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
        }
        // SAFETY: no other thread is here until `locked` is cleared, and `work` (two functions
        // below) does not come here again.
        let out = work(unsafe { &mut *self.lists.get() });
        self.locked.store(false, Ordering::Release);
        out
    }
}

/// From now on freed blocks are kept.
pub fn keep() {
    KEPT.store(true, Ordering::Relaxed);
}

/// Returns the class of a block, if it is a small one.
#[inline]
pub fn class(layout: Layout) -> Option<usize> {
    let small = layout.size().wrapping_sub(1) < CLASSES * GRAIN && layout.align() <= GRAIN;
    small.then(|| (layout.size() - 1) / GRAIN)
}

/// Returns the layout of the blocks of a class.
fn layout(class: usize) -> Layout {
    let size = (class + 1) * GRAIN;
    Layout::from_size_align(size, GRAIN).expect("a small power of two")
}

/// Allocates a block of a class; null if there is no memory.
pub fn take(class: usize) -> *mut u8 {
    THREAD.with(|thread| {
        let own = &thread.own[class];
        let block = own.first.get();
        if block.is_null() {
            return refill(thread, class);
        }
        // SAFETY: a block of a list is free, has room for a `Free`, and holds one.
        own.first.set(unsafe { (*block).next });
        own.room.set(own.room.get() + 1);
        block.cast()
    })
}

#[cold]
#[inline(never)]
fn refill(thread: &Thread, class: usize) -> *mut u8 {
    if !KEPT.load(Ordering::Relaxed) {
        // SAFETY: the layout is not of zero bytes.
        return unsafe { System.alloc(layout(class)) };
    }
    let own = &thread.own[class];
    let mut list = own.full.replace(null_mut());
    if list.is_null() {
        list = SHELVES[class].with(|lists| {
            let list = *lists;
            if !list.is_null() {
                // SAFETY: the first of a list on a shelf is free, and `list` says what follows.
                *lists = unsafe { (*list).list };
            }
            list
        });
    }
    if !list.is_null() {
        // SAFETY: as in `take`.
        own.first.set(unsafe { (*list).next });
        own.room.set(1);
        return list.cast();
    }
    let size = layout(class).size();
    let (mut at, mut len) = thread.rest.get();
    if len < size {
        let chunk = Layout::from_size_align(CHUNK, GRAIN).expect("a small power of two");
        // SAFETY: the layout is not of zero bytes.
        (at, len) = (unsafe { System.alloc(chunk) }, CHUNK);
        if at.is_null() {
            return at;
        }
    }
    // SAFETY: `len` bytes from `at` on are the thread's, and `size` is not more.
    thread.rest.set((unsafe { at.add(size) }, len - size));
    at
}

/// Frees a block of a class.
///
/// # Safety
/// `block` was allocated by [`take`] for this class, and nothing refers to it any more.
pub unsafe fn give(class: usize, block: *mut u8) {
    if !KEPT.load(Ordering::Relaxed) {
        // SAFETY: nothing was kept, so the block is one of the system's, of this layout.
        unsafe { System.dealloc(block, layout(class)) };
        return;
    }
    THREAD.with(|thread| {
        let own = &thread.own[class];
        if own.room.get() == 0 {
            put_aside(own, class);
        }
        let free: *mut Free = block.cast();
        // SAFETY: the block is free, aligned to `GRAIN` and of at least as many bytes, which are
        // those of a `Free`.
        unsafe { (*free).next = own.first.get() };
        own.first.set(free);
        own.room.set(own.room.get() - 1);
    });
}

/// Begins a new list, since this one is full.
#[cold]
#[inline(never)]
fn put_aside(own: &Own, class: usize) {
    own.room.set(LIST / layout(class).size());
    let list = own.first.replace(null_mut());
    let before = own.full.replace(list);
    if !before.is_null() {
        SHELVES[class].with(|lists| {
            // SAFETY: the first of a list is free and has room for a `Free`.
            unsafe { (*before).list = *lists };
            *lists = before;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks go from thread to thread and stay apart.
    #[test]
    fn blocks_do_not_overlap() {
        keep();
        let mut all: Vec<(usize, usize)> = Vec::new();
        for round in 0..3 {
            let blocks: Vec<(usize, usize)> = std::thread::spawn(move || {
                let sizes = (0..20_000usize).map(|i| (i * 7 + round) % CLASSES);
                sizes.map(|class| (class, take(class) as usize)).collect()
            })
            .join()
            .expect("it ends");
            all.extend(blocks);
            let mut sorted = all.clone();
            sorted.sort_by_key(|b| b.1);
            let end = |b: &(usize, usize)| b.1 + layout(b.0).size();
            assert!(sorted.iter().all(|b| b.1 != 0 && b.1 % GRAIN == 0));
            assert!(sorted.windows(2).all(|w| end(&w[0]) <= w[1].1));
            // Every second one is freed here, and handed out again in the next round.
            let mut index = 0;
            all.retain(|&(class, block)| {
                index += 1;
                if index % 2 == 0 {
                    // SAFETY: it was just allocated for this class, and is dropped here.
                    unsafe { give(class, block as *mut u8) };
                }
                index % 2 != 0
            });
        }
    }

    #[test]
    fn only_small_blocks_have_a_class() {
        let class = |size, align| class(Layout::from_size_align(size, align).expect("valid"));
        assert_eq!(class(1, 1), Some(0));
        assert_eq!(class(16, 8), Some(0));
        assert_eq!(class(17, 16), Some(1));
        assert_eq!(class(512, 8), Some(31));
        assert_eq!(class(513, 8), None);
        assert_eq!(class(32, 32), None);
    }
}
