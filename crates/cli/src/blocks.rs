//! Small blocks of memory, by size, of one thread each.
//!
//! A tool that reads a program, compiles it and ends asks for memory some hundred thousand times, for a few hundred
//! bytes each, and gives back what it may soon ask for again. Blocks of a size class that were given back wait in a
//! list; others are cut from chunks, which lie on large pages where the system has them. A block may be given back by
//! any thread. Chunks stay until the process ends, and what a thread had goes to the next one.
//!
//! Invariant: a block's class follows from its size alone, so that who gives it back finds the list.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};

/// The largest block that is cut from a chunk.
const LARGEST: usize = 32 << 10;
/// Blocks are aligned to this; what needs more is none of ours.
const ALIGNMENT: usize = 16;
const SMALL: usize = 1024;
const SMALL_CLASSES: usize = SMALL / ALIGNMENT;
/// Four steps for each doubling beyond the small ones.
const CLASSES: usize = SMALL_CLASSES + 5 * 4;
/// The first chunk of a thread: not every tool has much to do.
const FIRST: usize = 256 << 10;
const CHUNK: usize = 4 << 20;
const LARGE_PAGE: usize = 2 << 20;
/// Larger blocks come from the system, on large pages.
const LARGE: usize = 1 << 20;

struct Free {
    next: *mut Free,
}

/// What one thread cuts blocks from.
struct Arena {
    free: [*mut Free; CLASSES],
    /// The rest of the chunk.
    rest: *mut u8,
    left: usize,
    chunks: usize,
    /// The next one that nobody uses.
    next: *mut Arena,
}

/// Arenas of threads that ended.
struct Unused(*mut Arena);

// SAFETY: who takes an arena from the list has it alone.
unsafe impl Send for Unused {}

static UNUSED: Mutex<Unused> = Mutex::new(Unused(null_mut()));

/// Gives the thread's arena to others when the thread ends.
struct Leaving;

impl Drop for Leaving {
    fn drop(&mut self) {
        let arena = OWN.replace(null_mut());
        give(arena);
    }
}

thread_local! {
    static OWN: Cell<*mut Arena> = const { Cell::new(null_mut()) };
    static LEAVING: Leaving = const { Leaving };
}

fn give(arena: *mut Arena) {
    if arena.is_null() {
        return;
    }
    let mut unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: whoever gives an arena had it alone.
    unsafe { (*arena).next = unused.0 };
    unused.0 = arena;
}

/// An arena that nobody uses; null where there is no memory for one.
fn take() -> *mut Arena {
    let mut unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner);
    let arena = unused.0;
    if !arena.is_null() {
        // SAFETY: arenas in the list are whole, and live as long as the process.
        unused.0 = unsafe { (*arena).next };
        return arena;
    }
    drop(unused);
    // SAFETY: an arena's size is not zero, and all zeros are an empty arena.
    unsafe { System.alloc_zeroed(Layout::new::<Arena>()).cast() }
}

/// Does something with an arena that this thread alone has; null where there is no memory for one.
fn with(work: impl FnOnce(&mut Arena) -> *mut u8) -> *mut u8 {
    let own = OWN.get();
    if !own.is_null() {
        // SAFETY: only this thread has its arena, and nothing that `work` does comes back here.
        return work(unsafe { &mut *own });
    }
    let arena = take();
    if arena.is_null() {
        return null_mut();
    }
    // A thread that is ending already has one for a moment only.
    OWN.set(arena);
    let stays = LEAVING.try_with(|_| ()).is_ok();
    // SAFETY: it was taken from the list, or is new.
    let result = work(unsafe { &mut *arena });
    if !stays {
        OWN.set(null_mut());
        give(arena);
    }
    result
}

fn class_of(size: usize) -> usize {
    if size <= SMALL {
        return size.saturating_sub(1) / ALIGNMENT;
    }
    // 2^e <= size - 1 < 2^(e+1), cut in four.
    let below = size - 1;
    let e = below.ilog2() as usize;
    SMALL_CLASSES + (e - 10) * 4 + ((below >> (e - 2)) & 3)
}

fn class_size(class: usize) -> usize {
    match class.checked_sub(SMALL_CLASSES) {
        None => (class + 1) * ALIGNMENT,
        Some(step) => (5 + step % 4) << (step / 4 + 8),
    }
}

impl Arena {
    fn block(&mut self, class: usize) -> *mut u8 {
        let head = self.free[class];
        if !head.is_null() {
            // SAFETY: blocks in a list are free, and begin with the next one's address.
            self.free[class] = unsafe { (*head).next };
            return head.cast();
        }
        let size = class_size(class);
        if self.left < size && !self.chunk() {
            return null_mut();
        }
        let block = self.rest;
        // SAFETY: so much is left.
        self.rest = unsafe { block.add(size) };
        self.left -= size;
        block
    }

    /// Another chunk; what is left of the last one is lost.
    fn chunk(&mut self) -> bool {
        let (size, align) = match self.chunks {
            0 => (FIRST, 4096),
            _ => (CHUNK, LARGE_PAGE),
        };
        let Ok(layout) = Layout::from_size_align(size, align) else {
            return false;
        };
        // SAFETY: its size is not zero.
        let chunk = unsafe { System.alloc(layout) };
        if chunk.is_null() {
            return false;
        }
        if align == LARGE_PAGE {
            on_large_pages(chunk, size);
        }
        (self.rest, self.left) = (chunk, size);
        self.chunks += 1;
        true
    }
}

/// Asks for large pages under whole pages that nobody else has.
fn on_large_pages(block: *mut u8, size: usize) {
    #[cfg(target_os = "linux")]
    {
        const PAGE: usize = 4096;
        let begin = (block as usize).next_multiple_of(PAGE);
        let end = (block as usize + size) / PAGE * PAGE;
        if begin < end {
            // SAFETY: the range belongs to a block of ours; the advice changes no contents, and its failure nothing.
            unsafe { libc::madvise(begin as *mut _, end - begin, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (block, size);
}

fn is_ours(layout: Layout) -> bool {
    layout.size() <= LARGEST && layout.align() <= ALIGNMENT
}

/// As [`GlobalAlloc::alloc`].
///
/// # Safety
/// As there.
pub unsafe fn alloc(layout: Layout) -> *mut u8 {
    if is_ours(layout) {
        return with(|arena| arena.block(class_of(layout.size())));
    }
    // SAFETY: the caller's promise.
    let block = unsafe { System.alloc(layout) };
    if layout.size() >= LARGE && !block.is_null() {
        on_large_pages(block, layout.size());
    }
    block
}

/// As [`GlobalAlloc::alloc_zeroed`].
///
/// # Safety
/// As there.
pub unsafe fn alloc_zeroed(layout: Layout) -> *mut u8 {
    if is_ours(layout) {
        // SAFETY: the caller's promise.
        let block = unsafe { alloc(layout) };
        if !block.is_null() {
            // SAFETY: the block has that size.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        return block;
    }
    // SAFETY: the caller's promise.
    let block = unsafe { System.alloc_zeroed(layout) };
    if layout.size() >= LARGE && !block.is_null() {
        on_large_pages(block, layout.size());
    }
    block
}

/// As [`GlobalAlloc::dealloc`].
///
/// # Safety
/// As there.
pub unsafe fn dealloc(block: *mut u8, layout: Layout) {
    if !is_ours(layout) {
        // SAFETY: the caller's promise.
        return unsafe { System.dealloc(block, layout) };
    }
    with(|arena| {
        let class = class_of(layout.size());
        let block: *mut Free = block.cast();
        // SAFETY: the block is at least 16 bytes large and aligned, and nobody uses it any more.
        unsafe { (*block).next = arena.free[class] };
        arena.free[class] = block;
        null_mut()
    });
}

/// As [`GlobalAlloc::realloc`].
///
/// # Safety
/// As there.
pub unsafe fn realloc(block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
    // SAFETY: the caller's promise.
    let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
    match (is_ours(layout), is_ours(new)) {
        (true, true) if class_of(layout.size()) == class_of(size) => block,
        (false, false) => {
            // SAFETY: the caller's promise.
            let moved = unsafe { System.realloc(block, layout, size) };
            if size >= LARGE && !moved.is_null() {
                on_large_pages(moved, size);
            }
            moved
        }
        _ => {
            // SAFETY: the caller's promise; the new block is another one, and both have what is copied.
            unsafe {
                let moved = alloc(new);
                if !moved.is_null() {
                    moved.copy_from_nonoverlapping(block, layout.size().min(size));
                    dealloc(block, layout);
                }
                moved
            }
        }
    }
}

/// Keeps what the system's allocator got from the system: a tool ends soon and asks again before.
pub fn keep() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: settings of the allocator, which are safe to change at any time.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE as i32);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 64 << 20);
        libc::mallopt(libc::M_TOP_PAD, 1 << 20);
    }
}

#[cfg(test)]
mod tests {
    use super::{CLASSES, LARGEST, class_of, class_size};

    #[test]
    fn each_size_fits_its_class_and_no_smaller_one() {
        for size in 1..=LARGEST {
            let class = class_of(size);
            assert!(class < CLASSES, "{size}");
            assert!(class_size(class) >= size, "{size}");
            assert!(class == 0 || class_size(class - 1) < size, "{size}");
            assert!(class_size(class).is_multiple_of(16));
        }
    }

    #[test]
    fn blocks_go_from_thread_to_thread() {
        let made: Vec<Vec<u8>> = std::thread::scope(|scope| {
            let make = |k: usize| move || vec![k as u8; 100 * k + 1];
            let all: Vec<_> = (0..50).map(|k| scope.spawn(make(k))).collect();
            all.into_iter()
                .map(|t| t.join().expect("it ends"))
                .collect()
        });
        for (k, bytes) in made.into_iter().enumerate() {
            assert!(bytes.iter().all(|&b| b == k as u8));
            std::thread::spawn(move || drop(bytes))
                .join()
                .expect("it ends");
        }
    }
}
