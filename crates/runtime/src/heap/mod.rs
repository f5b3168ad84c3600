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
use std::ptr::null_mut;

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
    next: *mut FreeBlock,
}

/// See the module's text.
pub struct Heap {
    allocator: RxAllocator,
    free: [*mut FreeBlock; CLASSES],
    slab: *mut u8,
    slab_left: usize,
    next_slab: usize,
    slabs: Vec<(*mut u8, usize)>,
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
            free: [null_mut(); CLASSES],
            slab: null_mut(),
            slab_left: 0,
            next_slab: SLAB_MIN,
            slabs: Vec::new(),
            large: Large::default(),
            fenced: fenced::wanted(),
            stats: RxHeapStats::default(),
        }
    }

    /// Replaces the allocator; returns false when memory was already allocated from the old one.
    pub fn set_allocator(&mut self, allocator: RxAllocator) -> bool {
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

    fn system(&mut self, size: usize, align: usize) -> *mut u8 {
        let Some(alloc) = self.allocator.alloc else {
            return null_mut();
        };
        self.stats.system_allocs += 1;
        // SAFETY: the hook keeps its contract.
        let block = unsafe { alloc(self.allocator.user, size, align) };
        if !block.is_null() {
            self.stats.held_bytes += size as u64;
            self.stats.peak_bytes = self.stats.peak_bytes.max(self.stats.held_bytes);
        }
        block.cast()
    }

    fn give_back(&mut self, block: *mut u8, size: usize, align: usize) {
        self.stats.held_bytes -= size as u64;
        if let Some(free) = self.allocator.free {
            // SAFETY: `block` came from `system` with this size and alignment.
            unsafe { free(self.allocator.user, block.cast(), size, align) };
        }
    }

    /// Returns a block of at least `size` bytes and its class, or null.
    #[inline]
    pub fn alloc(&mut self, size: u64) -> (*mut u8, u16) {
        if self.fenced {
            return (self.alloc_fenced(size), FENCED);
        }
        let Some(class) = class_of(size) else {
            return (self.alloc_large(size), LARGE);
        };
        let head = self.free[class];
        if !head.is_null() {
            // SAFETY: a block in a list holds a `FreeBlock`.
            self.free[class] = unsafe { (*head).next };
            self.stats.live_objects += 1;
            self.stats.live_bytes += class_size(class);
            return (head.cast(), class as u16);
        }
        self.alloc_slow(class)
    }

    #[cold]
    fn alloc_slow(&mut self, class: usize) -> (*mut u8, u16) {
        let (block, class) = if class < SMALL_CLASSES {
            (self.cut(class), class)
        } else if let Some(larger) = self.larger(class) {
            let head = self.free[larger];
            // SAFETY: as in `alloc`.
            self.free[larger] = unsafe { (*head).next };
            (head.cast(), larger)
        } else {
            (self.system_or_trim(class_size(class) as usize, 64), class)
        };
        if !block.is_null() {
            self.stats.live_objects += 1;
            self.stats.live_bytes += class_size(class);
        }
        (block, class as u16)
    }

    /// Allocates memory from the allocator; on failure, frees cached blocks of other sizes and
    /// retries.
    fn system_or_trim(&mut self, size: usize, align: usize) -> *mut u8 {
        let block = self.system(size, align);
        if !block.is_null() {
            return block;
        }
        self.trim();
        self.system(size, align)
    }

    #[cold]
    fn alloc_large(&mut self, size: u64) -> *mut u8 {
        if size > LARGEST || !self.large.reserve() {
            return null_mut();
        }
        let size = large::rounded(size as usize);
        let block = match self.large.take(size) {
            Some(block) => block,
            None => self.new_region(size),
        };
        if !block.is_null() {
            self.stats.live_objects += 1;
            self.stats.live_bytes += size as u64;
        }
        block
    }

    /// Returns a block from a new region. Unused regions that are too small for it are merged into
    /// the new one, so that a program holds its peak of live memory rather than the sum of what
    /// each of its parts once took.
    fn new_region(&mut self, size: usize) -> *mut u8 {
        let mut joined = 0;
        while joined < size
            && let Some((region, bytes)) = self.large.unused(size)
        {
            self.give_back(region, bytes, region_align(bytes));
            joined += bytes;
        }
        let whole = size.max(joined);
        let region = self.system_or_trim(whole, region_align(whole));
        if region.is_null() {
            return region;
        }
        self.large.add(region, whole);
        if whole == size {
            return region;
        }
        self.large.release(region);
        self.large.take(size).unwrap_or(null_mut())
    }

    /// A class up to half as large again with a free block.
    fn larger(&self, class: usize) -> Option<usize> {
        (class + 1..(class + 5).min(CLASSES)).find(|&c| !self.free[c].is_null())
    }

    /// Cuts a small block from the current slab, or starts the next slab with several blocks.
    fn cut(&mut self, class: usize) -> *mut u8 {
        let size = class_size(class) as usize;
        let align = if size.is_multiple_of(64) { 64 } else { 16 };
        let mut skip = self.slab.align_offset(align);
        if self.slab.is_null() || self.slab_left < size + skip {
            if self.slabs.try_reserve(1).is_err() {
                return null_mut();
            }
            let bytes = self.next_slab;
            let slab = self.system(bytes, 64);
            if slab.is_null() {
                return null_mut();
            }
            self.next_slab = (bytes * 2).min(SLAB_MAX);
            self.slabs.push((slab, bytes));
            (self.slab, self.slab_left, skip) = (slab, bytes, 0);
        }
        // SAFETY: `skip + size` bytes are left.
        unsafe {
            let block = self.slab.add(skip);
            self.slab = block.add(size);
            self.slab_left -= skip + size;
            block
        }
    }

    /// Returns the capacity in bytes of a block in use; `block` and `class` came from one call of
    /// [`Heap::alloc`].
    pub fn room(&self, block: *const u8, class: u16) -> u64 {
        if class == FENCED {
            fenced::size(block)
        } else if class == LARGE {
            self.large.size(block) as u64
        } else {
            class_size(class.into())
        }
    }

    /// Frees a block.
    ///
    /// # Safety
    /// `block` and `class` came from one call of [`Heap::alloc`], and the block is no longer used.
    #[inline]
    pub unsafe fn release(&mut self, block: *mut u8, class: u16) {
        if class == FENCED {
            // SAFETY: `block` was handed out by this heap and is not used any more.
            return unsafe { self.release_fenced(block) };
        }
        if class == LARGE {
            self.stats.live_objects -= 1;
            self.stats.live_bytes -= self.large.release(block) as u64;
            return;
        }
        let class = usize::from(class);
        let block = block.cast::<FreeBlock>();
        // SAFETY: the block is ours and large enough for a pointer.
        unsafe { (*block).next = self.free[class] };
        self.free[class] = block;
        self.stats.live_objects -= 1;
        self.stats.live_bytes -= class_size(class);
    }

    /// Returns cached large blocks to the allocator.
    pub fn trim(&mut self) {
        for class in SMALL_CLASSES..CLASSES {
            let mut head = std::mem::replace(&mut self.free[class], null_mut());
            while !head.is_null() {
                // SAFETY: as in `alloc`.
                let next = unsafe { (*head).next };
                self.give_back(head.cast(), class_size(class) as usize, 64);
                head = next;
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
        assert!(Heap::new().alloc(LARGEST + 1).0.is_null());
    }

    #[test]
    fn a_repeated_size_asks_the_system_once() {
        let mut heap = Heap::new();
        for size in [16, 64, 1024, 1025, 100_000, 9 << 20] {
            let (first, class) = heap.alloc(size);
            let align = if class == LARGE || class_size(class.into()).is_multiple_of(64) {
                64
            } else {
                16
            };
            assert!(
                !first.is_null() && (first as usize).is_multiple_of(align),
                "{size}"
            );
            // SAFETY: the block is of that class, and not used any more.
            unsafe { heap.release(first, class) };
            let calls = heap.stats.system_allocs;
            let (second, class) = heap.alloc(size);
            assert_eq!((first, calls), (second, heap.stats.system_allocs));
            // SAFETY: as above.
            unsafe { heap.release(second, class) };
        }
        assert_eq!((heap.stats.live_objects, heap.stats.live_bytes), (0, 0));
    }

    #[test]
    fn unused_regions_become_part_of_a_larger_one() {
        let mut heap = Heap::new();
        let size = 100 * 4096;
        let [a, b, c] = [(); 3].map(|()| heap.alloc(size).0);
        // SAFETY: blocks of large size that are not used any more.
        unsafe {
            heap.release(a, LARGE);
            heap.release(b, LARGE);
            // `c` lives: its region stays.
            let (d, _) = heap.alloc(size + 4096);
            assert_eq!(heap.stats.held_bytes, 3 * size);
            heap.release(d, LARGE);
            let calls = heap.stats.system_allocs;
            let [a, b] = [(); 2].map(|()| heap.alloc(size).0);
            assert_eq!(
                (calls, 3 * size),
                (heap.stats.system_allocs, heap.stats.held_bytes)
            );
            for block in [a, b, c] {
                heap.release(block, LARGE);
            }
        }
        heap.trim();
        assert_eq!(heap.stats.held_bytes, 0);
    }
}
