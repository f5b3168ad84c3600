//! The heap of a context: size classes over the allocator's blocks.
//!
//! Small blocks (up to 1024 bytes, steps of 16) are cut from slabs, those up to 64 KiB are
//! allocated one by one in eight steps per doubling; freed blocks are kept in their class's free
//! list. Larger ones are pieces of regions (`large`). A program that repeats its sizes requests
//! nothing from the allocator. Under `RELAX_HEAP=debug` each block is an allocation of its own
//! between fences (`fenced`).
//!
//! Invariant: blocks of a size divisible by 64 start at a multiple of 64, all others at one of 16.

mod fenced;
mod large;

use large::Large;
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

/// Allocation hooks, as in the C header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RxAllocator {
    /// Returns aligned memory or null.
    pub alloc: Option<unsafe extern "C" fn(*mut c_void, usize, usize) -> *mut c_void>,
    /// Frees it.
    pub free: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, usize, usize)>,
    /// First argument of both.
    pub user: *mut c_void,
}

/// Counters of a heap, as in the C header.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct RxHeapStats {
    /// Blocks in use.
    pub live_objects: u64,
    /// Their bytes, rounded to classes.
    pub live_bytes: u64,
    /// Bytes allocated from the allocator and not freed.
    pub held_bytes: u64,
    /// The highest `held_bytes` so far.
    pub peak_bytes: u64,
    /// Calls of the allocator.
    pub system_allocs: u64,
}

const SMALL_MAX: u64 = 1024;
const SMALL_CLASSES: usize = 65;
/// The largest block of a class.
const CLASSED: u64 = 64 << 10;
const CLASSES: usize = SMALL_CLASSES + 6 * 8;
/// The class number of larger blocks.
const LARGE: u16 = u16::MAX;
/// The class number of fenced blocks.
const FENCED: u16 = u16::MAX - 1;
const LARGEST: u64 = 1 << 46;
const SLAB_MIN: usize = 16 << 10;
const SLAB_MAX: usize = 1 << 20;
/// Blocks from this size on are aligned to huge pages, where the system has them.
const HUGE: u64 = 4 << 20;
const HUGE_ALIGN: usize = 2 << 20;

struct FreeBlock {
    next: Option<NonNull<FreeBlock>>,
}

/// A block in use. Whoever has it may use its memory, and gives it back by [`Heap::release`].
#[derive(PartialEq, Eq, Debug)]
pub struct Block {
    at: NonNull<u8>,
    class: u16,
}

impl Block {
    /// The block whose two parts were kept apart.
    ///
    /// # Safety
    /// Both are those of one block of [`Heap::alloc`] that was not released since.
    #[inline]
    pub unsafe fn of(at: NonNull<u8>, class: u16) -> Block {
        Block { at, class }
    }

    /// Its first byte.
    #[inline]
    pub fn at(&self) -> NonNull<u8> {
        self.at
    }

    /// The number of its class, which only the heap understands.
    #[inline]
    pub fn class(&self) -> u16 {
        self.class
    }
}

/// See the module's text.
pub struct Heap {
    allocator: RxAllocator,
    free: [Option<NonNull<FreeBlock>>; CLASSES],
    slab: *mut u8,
    slab_left: usize,
    next_slab: usize,
    slabs: Vec<(NonNull<u8>, usize)>,
    large: Large,
    /// Whether blocks are fenced.
    fenced: bool,
    /// Counters.
    pub stats: RxHeapStats,
}

unsafe extern "C" fn system_alloc(_: *mut c_void, size: usize, align: usize) -> *mut c_void {
    let Ok(layout) = std::alloc::Layout::from_size_align(size.max(1), align) else {
        return null_mut();
    };
    // SAFETY: the layout's size is not zero.
    let block = unsafe { std::alloc::alloc(layout) };
    #[cfg(target_os = "linux")]
    if align >= HUGE_ALIGN && !block.is_null() {
        // SAFETY: the range was just allocated; the advice changes no contents, and its failure
        // changes nothing.
        unsafe { libc::madvise(block.cast(), size, libc::MADV_HUGEPAGE) };
    }
    block.cast()
}

unsafe extern "C" fn system_free(_: *mut c_void, block: *mut c_void, size: usize, align: usize) {
    // SAFETY: the same size and alignment were given to `system_alloc`.
    unsafe {
        std::alloc::dealloc(
            block.cast(),
            std::alloc::Layout::from_size_align_unchecked(size.max(1), align),
        );
    }
}

/// Returns the class of a size, or `None` when it is larger than those of classes.
fn class_of(size: u64) -> Option<usize> {
    if size <= SMALL_MAX {
        return Some((size.div_ceil(16) as usize).max(1));
    }
    if size > CLASSED {
        return None;
    }
    // 2^e <= size - 1 < 2^(e+1), cut in eight.
    let below = size - 1;
    let e = 63 - below.leading_zeros();
    let step = (below >> (e - 3)) & 7;
    Some(SMALL_CLASSES + (e as usize - 10) * 8 + step as usize)
}

fn class_size(class: usize) -> u64 {
    if class < SMALL_CLASSES {
        return class as u64 * 16;
    }
    let e = (class - SMALL_CLASSES) / 8 + 10;
    let step = ((class - SMALL_CLASSES) % 8) as u64;
    (9 + step) << (e - 3)
}

/// The alignment of a region of large blocks.
fn region_align(size: usize) -> usize {
    if size as u64 >= HUGE { HUGE_ALIGN } else { 64 }
}

impl Heap {
    /// An empty heap over the system's allocator.
    pub fn new() -> Self {
        let allocator = RxAllocator {
            alloc: Some(system_alloc),
            free: Some(system_free),
            user: null_mut(),
        };
        Self {
            allocator,
            free: [None; CLASSES],
            slab: null_mut(),
            slab_left: 0,
            next_slab: SLAB_MIN,
            slabs: Vec::new(),
            large: Large::default(),
            fenced: fenced::wanted(),
            stats: RxHeapStats::default(),
        }
    }

    /// Replaces the allocator; returns false when memory was already allocated from the old one, or
    /// the new one lacks a function.
    ///
    /// # Safety
    /// The functions keep the contract of C's header as long as the heap lives: blocks have the
    /// size and alignment that are asked for, and are nobody else's.
    pub unsafe fn set_allocator(&mut self, allocator: RxAllocator) -> bool {
        if self.stats.held_bytes != 0 || allocator.alloc.is_none() || allocator.free.is_none() {
            return false;
        }
        self.allocator = allocator;
        true
    }

    /// Returns whether blocks are fenced, and no larger than requested.
    pub fn is_fenced(&self) -> bool {
        self.fenced
    }

    fn system(&mut self, size: usize, align: usize) -> Option<NonNull<u8>> {
        let alloc = self.allocator.alloc?;
        self.stats.system_allocs += 1;
        // SAFETY: `set_allocator`'s contract (or `system_alloc`, for any size and alignment).
        let block = NonNull::new(unsafe { alloc(self.allocator.user, size, align) })?;
        self.stats.held_bytes += size as u64;
        self.stats.peak_bytes = self.stats.peak_bytes.max(self.stats.held_bytes);
        Some(block.cast())
    }

    /// Returns memory to the allocator: a block that came from `system` with this size and
    /// alignment, and that nothing in the heap refers to any more.
    fn give_back(&mut self, block: NonNull<u8>, size: usize, align: usize) {
        self.stats.held_bytes -= size as u64;
        if let Some(free) = self.allocator.free {
            // SAFETY: `block` came from `system` with this size and alignment.
            unsafe { free(self.allocator.user, block.as_ptr().cast(), size, align) };
        }
    }

    /// Returns a block of at least `size` bytes, unless memory runs out.
    #[inline]
    pub fn alloc(&mut self, size: u64) -> Option<Block> {
        if self.fenced {
            return self.alloc_fenced(size);
        }
        let Some(class) = class_of(size) else {
            return self.alloc_large(size);
        };
        match self.pop(class) {
            Some(block) => Some(self.hand_out(block, class)),
            None => self.alloc_slow(class),
        }
    }

    /// Takes the first block off the list of a class.
    #[inline]
    fn pop(&mut self, class: usize) -> Option<NonNull<u8>> {
        let head = self.free[class]?;
        // SAFETY: `push` wrote a `FreeBlock` at the start of each block in a list, and nobody else
        // has the block since.
        self.free[class] = unsafe { head.read() }.next;
        Some(head.cast())
    }

    /// Puts a block that is not used any more into the list of its class.
    #[inline]
    fn push(&mut self, block: NonNull<u8>, class: usize) {
        let block = block.cast::<FreeBlock>();
        let next = self.free[class];
        // SAFETY: blocks of every class have 16 bytes or more, aligned to 16: one of class 0 is
        // never made.
        unsafe { block.write(FreeBlock { next }) };
        self.free[class] = Some(block);
    }

    /// Counts a block of a class as used.
    #[inline]
    fn hand_out(&mut self, at: NonNull<u8>, class: usize) -> Block {
        self.stats.live_objects += 1;
        self.stats.live_bytes += class_size(class);
        Block {
            at,
            class: class as u16,
        }
    }

    #[cold]
    fn alloc_slow(&mut self, class: usize) -> Option<Block> {
        let (block, class) = if class < SMALL_CLASSES {
            (self.cut(class)?, class)
        } else if let Some(larger) = self.larger(class) {
            (self.pop(larger)?, larger)
        } else {
            (self.system_or_trim(class_size(class) as usize, 64)?, class)
        };
        Some(self.hand_out(block, class))
    }

    /// Allocates memory from the allocator; on failure, frees cached blocks of other sizes and
    /// retries.
    fn system_or_trim(&mut self, size: usize, align: usize) -> Option<NonNull<u8>> {
        if let Some(block) = self.system(size, align) {
            return Some(block);
        }
        self.trim();
        self.system(size, align)
    }

    #[cold]
    fn alloc_large(&mut self, size: u64) -> Option<Block> {
        if size > LARGEST || !self.large.reserve() {
            return None;
        }
        let size = large::rounded(size as usize);
        let at = match self.large.take(size) {
            Some(block) => block,
            None => self.new_region(size)?,
        };
        self.stats.live_objects += 1;
        self.stats.live_bytes += size as u64;
        Some(Block { at, class: LARGE })
    }

    /// Returns a block from a new region. Unused regions that are too small for it are merged into
    /// the new one, so that a program holds its peak of live memory rather than the sum of what
    /// each of its parts once took.
    fn new_region(&mut self, size: usize) -> Option<NonNull<u8>> {
        let mut joined = 0;
        while joined < size
            && let Some((region, bytes)) = self.large.unused(size)
        {
            self.give_back(region, bytes, region_align(bytes));
            joined += bytes;
        }
        let whole = size.max(joined);
        let region = self.system_or_trim(whole, region_align(whole))?;
        self.large.add(region, whole);
        if whole == size {
            return Some(region);
        }
        self.large.release(region);
        self.large.take(size)
    }

    /// A class up to half as large again with a free block.
    fn larger(&self, class: usize) -> Option<usize> {
        (class + 1..(class + 5).min(CLASSES)).find(|&c| self.free[c].is_some())
    }

    /// Cuts a small block from the current slab, or starts the next slab with several blocks.
    fn cut(&mut self, class: usize) -> Option<NonNull<u8>> {
        let size = class_size(class) as usize;
        let align = if size.is_multiple_of(64) { 64 } else { 16 };
        let mut skip = self.slab.align_offset(align);
        if self.slab.is_null() || self.slab_left < size + skip {
            if self.slabs.try_reserve(1).is_err() {
                return None;
            }
            let bytes = self.next_slab;
            let slab = self.system(bytes, 64)?;
            self.next_slab = (bytes * 2).min(SLAB_MAX);
            self.slabs.push((slab, bytes));
            (self.slab, self.slab_left, skip) = (slab.as_ptr(), bytes, 0);
        }
        // SAFETY: the slab has `slab_left` bytes from `slab` on, which are at least `skip + size`:
        // checked above, or a new slab of 16 KiB or more, and a small block has 1 KiB at most.
        let (block, rest) = unsafe { (self.slab.add(skip), self.slab.add(skip + size)) };
        self.slab = rest;
        self.slab_left -= skip + size;
        NonNull::new(block)
    }

    /// Returns the capacity of a block in bytes.
    pub fn room(&self, block: &Block) -> u64 {
        if block.class == FENCED {
            fenced::size(block)
        } else if block.class == LARGE {
            self.large.size(block.at) as u64
        } else {
            class_size(block.class.into())
        }
    }

    /// Frees a block.
    ///
    /// # Safety
    /// The block is of this heap, and its memory is no longer used.
    #[inline]
    pub unsafe fn release(&mut self, block: Block) {
        if block.class == FENCED {
            return self.release_fenced(block);
        }
        self.stats.live_objects -= 1;
        if block.class == LARGE {
            self.stats.live_bytes -= self.large.release(block.at) as u64;
            return;
        }
        let class = usize::from(block.class);
        self.push(block.at, class);
        self.stats.live_bytes -= class_size(class);
    }

    /// Returns cached large blocks to the allocator.
    pub fn trim(&mut self) {
        for class in SMALL_CLASSES..CLASSES {
            while let Some(block) = self.pop(class) {
                self.give_back(block, class_size(class) as usize, 64);
            }
        }
        while let Some((region, size)) = self.large.unused(usize::MAX) {
            self.give_back(region, size, region_align(size));
        }
    }
}

impl Default for Heap {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        self.trim();
        for (slab, bytes) in std::mem::take(&mut self.slabs) {
            self.give_back(slab, bytes, 64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_cover_sizes_closely() {
        for size in (1..5000).chain([CLASSED - 1, CLASSED]) {
            let class = class_of(size).unwrap();
            assert!(class < CLASSES && class_size(class) >= size, "{size}");
            assert!(class_size(class) <= size + (size / 8).max(15), "{size}");
            assert!(class == 1 || class_size(class - 1) < size, "{size}");
        }
        assert_eq!(class_of(CLASSED + 1), None);
        assert!(Heap::new().alloc(LARGEST + 1).is_none());
    }

    /// A block, which there is memory for.
    fn block(heap: &mut Heap, size: u64) -> Block {
        heap.alloc(size).expect("there is memory")
    }

    /// Frees blocks that came from `block`, and whose memory no test looks at.
    fn free(heap: &mut Heap, blocks: impl IntoIterator<Item = Block>) {
        for block in blocks {
            // SAFETY: each test has one heap, which made all its blocks.
            unsafe { heap.release(block) };
        }
    }

    #[test]
    fn a_repeated_size_asks_the_system_once() {
        let mut heap = Heap::new();
        for size in [16, 64, 1024, 1025, 100_000, 9 << 20] {
            let first = block(&mut heap, size);
            let (at, class) = (first.at(), first.class());
            let align = if class == LARGE || class_size(class.into()).is_multiple_of(64) {
                64
            } else {
                16
            };
            assert!(at.addr().get().is_multiple_of(align), "{size}");
            free(&mut heap, [first]);
            let calls = heap.stats.system_allocs;
            let second = block(&mut heap, size);
            assert_eq!((at, calls), (second.at(), heap.stats.system_allocs));
            free(&mut heap, [second]);
        }
        assert_eq!((heap.stats.live_objects, heap.stats.live_bytes), (0, 0));
    }

    #[test]
    fn unused_regions_become_part_of_a_larger_one() {
        let mut heap = Heap::new();
        let size = 100 * 4096;
        let [a, b, c] = [(); 3].map(|()| block(&mut heap, size));
        free(&mut heap, [a, b]);
        // `c` lives: its region stays.
        let d = block(&mut heap, size + 4096);
        assert_eq!(heap.stats.held_bytes, 3 * size);
        free(&mut heap, [d]);
        let calls = heap.stats.system_allocs;
        let [a, b] = [(); 2].map(|()| block(&mut heap, size));
        assert_eq!(
            (calls, 3 * size),
            (heap.stats.system_allocs, heap.stats.held_bytes)
        );
        free(&mut heap, [a, b, c]);
        heap.trim();
        assert_eq!(heap.stats.held_bytes, 0);
    }
}
