//! Blocks between guard fences, each an allocation of its own (`RELAX_HEAP=debug`).
//!
//! Blocks of one slab are adjacent, and a freed block serves the next tensor: an overrun or a use
//! after free hits memory that is in use, which neither valgrind nor a sanitizer reports. Here each
//! block is returned to the system when it is released, new blocks are filled with a byte pattern,
//! and an overwritten fence aborts the program with a message.

use std::sync::OnceLock;

use super::{Heap, LARGEST};

/// The bytes of a fence on either side; the first one begins with the block's size.
const FENCE: usize = 64;
/// The byte patterns of fences, of uninitialised memory, and of freed memory.
const POST: u8 = 0xFB;
const NEW: u8 = 0xA5;
const OLD: u8 = 0xDD;

/// Returns whether the environment enables it.
pub(super) fn wanted() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    *WANTED.get_or_init(|| std::env::var_os("RELAX_HEAP").is_some_and(|v| v == "debug"))
}

/// The bytes of a block.
pub(super) fn size(block: *const u8) -> u64 {
    // SAFETY: a block of this kind has its size before it.
    unsafe { block.sub(FENCE).cast::<u64>().read() }
}

/// Returns where a fence was overwritten: before the block, or this far from its start.
fn broken(block: *const u8) -> Option<String> {
    let size = size(block) as usize;
    // SAFETY: the fences are part of the allocation.
    let (before, after) = unsafe {
        let first = block.sub(FENCE - 8);
        (
            std::slice::from_raw_parts(first, FENCE - 8),
            std::slice::from_raw_parts(block.add(size), FENCE),
        )
    };
    if before.iter().any(|&b| b != POST) {
        return Some(format!(
            "something was written before a block of {size} bytes"
        ));
    }
    let at = after.iter().position(|&b| b != POST)?;
    Some(format!(
        "byte {} of a block of {size} bytes was written",
        size + at
    ))
}

impl Heap {
    pub(super) fn alloc_fenced(&mut self, size: u64) -> *mut u8 {
        if size > LARGEST {
            return std::ptr::null_mut();
        }
        let bytes = size as usize;
        let start = self.system(bytes + 2 * FENCE, FENCE);
        if start.is_null() {
            return start;
        }
        self.stats.live_objects += 1;
        self.stats.live_bytes += size;
        // SAFETY: the allocation has room for the block and both fences.
        unsafe {
            start.write_bytes(POST, bytes + 2 * FENCE);
            start.cast::<u64>().write(size);
            let block = start.add(FENCE);
            block.write_bytes(NEW, bytes);
            block
        }
    }

    /// Frees a block.
    ///
    /// # Safety
    /// The block came from [`Heap::alloc_fenced`], and is no longer used.
    pub(super) unsafe fn release_fenced(&mut self, block: *mut u8) {
        if let Some(what) = broken(block) {
            eprintln!("RELAX_HEAP=debug: {what}");
            std::process::abort();
        }
        let size = size(block);
        self.stats.live_objects -= 1;
        self.stats.live_bytes -= size;
        let bytes = size as usize;
        // SAFETY: `block` was handed out with fences of `FENCE` bytes around its `bytes`.
        unsafe {
            block.write_bytes(OLD, bytes);
            self.give_back(block.sub(FENCE), bytes + 2 * FENCE, FENCE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_tell_what_was_written_beside_a_block() {
        let mut heap = Heap::new();
        heap.fenced = true;
        let (block, class) = heap.alloc(100);
        assert!((block as usize).is_multiple_of(64) && heap.room(block, class) == 100);
        // SAFETY: the fences are ours too.
        unsafe {
            assert_eq!(*block.add(99), NEW);
            assert_eq!(broken(block), None);
            block.add(102).write(1);
            let said = "byte 102 of a block of 100 bytes was written";
            assert_eq!(broken(block).as_deref(), Some(said));
            block.add(102).write(POST);
            block.sub(1).write(1);
            assert!(broken(block).is_some_and(|t| t.contains("before")));
            block.sub(1).write(POST);
            heap.release(block, class);
        }
        assert_eq!((heap.stats.live_objects, heap.stats.held_bytes), (0, 0));
    }
}
