//! Blocks between guard fences, each an allocation of its own (`RELAX_HEAP=debug`).
//!
//! Blocks of one slab are adjacent, and a freed block serves the next tensor: an overrun or a use
//! after free hits memory that is in use, which neither valgrind nor a sanitizer reports. Here each
//! block is returned to the system when it is released, new blocks are filled with a byte pattern,
//! and an overwritten fence aborts the program with a message.

use std::ptr::NonNull;
use std::sync::OnceLock;

use super::{Block, FENCED, Heap, LARGEST};

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

/// The first byte of the fence before a fenced block.
fn start(block: &Block) -> NonNull<u8> {
    // SAFETY: `alloc_fenced` put the block `FENCE` bytes behind the start of its allocation.
    unsafe { block.at.sub(FENCE) }
}

/// The bytes of a fenced block.
pub(super) fn size(block: &Block) -> u64 {
    // SAFETY: `alloc_fenced` wrote the size at the start of the first fence, which is aligned to
    // 64.
    unsafe { start(block).cast::<u64>().read() }
}

/// Returns where a fence was overwritten: before the block, or this far from its start.
fn broken(block: &Block) -> Option<String> {
    let size = size(block) as usize;
    let first = start(block);
    // SAFETY: the allocation has `FENCE` bytes before the block, the first 8 of which hold the
    // size, and as many behind its `size` bytes.
    let (before, after) = unsafe {
        (
            NonNull::slice_from_raw_parts(first.add(8), FENCE - 8).as_ref(),
            NonNull::slice_from_raw_parts(first.add(FENCE + size), FENCE).as_ref(),
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
    pub(super) fn alloc_fenced(&mut self, size: u64) -> Option<Block> {
        if size > LARGEST {
            return None;
        }
        let bytes = size as usize;
        let start = self.system(bytes + 2 * FENCE, FENCE)?;
        self.stats.live_objects += 1;
        self.stats.live_bytes += size;
        // SAFETY: the allocation has `bytes` bytes and two fences, and is aligned to 64.
        unsafe {
            start.write_bytes(POST, bytes + 2 * FENCE);
            start.cast::<u64>().write(size);
            let at = start.add(FENCE);
            at.write_bytes(NEW, bytes);
            Some(Block { at, class: FENCED })
        }
    }

    /// Frees a block of [`Heap::alloc_fenced`].
    pub(super) fn release_fenced(&mut self, block: Block) {
        if let Some(what) = broken(&block) {
            eprintln!("RELAX_HEAP=debug: {what}");
            std::process::abort();
        }
        let size = size(&block);
        self.stats.live_objects -= 1;
        self.stats.live_bytes -= size;
        let bytes = size as usize;
        let start = start(&block);
        // SAFETY: the block has `bytes` bytes, which are not used any more: it was given up.
        unsafe { block.at.write_bytes(OLD, bytes) };
        self.give_back(start, bytes + 2 * FENCE, FENCE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_tell_what_was_written_beside_a_block() {
        let mut heap = Heap::new();
        heap.fenced = true;
        let block = heap.alloc(100).expect("there is memory");
        assert!(block.at().addr().get().is_multiple_of(64) && heap.room(&block) == 100);
        let at = block.at();
        // SAFETY: the block has 100 bytes, and a fence of 64 on either side.
        unsafe {
            assert_eq!(at.add(99).read(), NEW);
            assert_eq!(broken(&block), None);
            at.add(102).write(1);
            let said = "byte 102 of a block of 100 bytes was written";
            assert_eq!(broken(&block).as_deref(), Some(said));
            at.add(102).write(POST);
            at.sub(1).write(1);
            assert!(broken(&block).is_some_and(|t| t.contains("before")));
            at.sub(1).write(POST);
            heap.release(block);
        }
        assert_eq!((heap.stats.live_objects, heap.stats.held_bytes), (0, 0));
    }
}
