//! Memory limits: `--max-memory`.
//!
//! A program or a text may require more memory than available. Rust then aborts the process with a
//! crash report, and Linux may kill another process; with a limit the tool reports the problem and
//! exits with its own exit code. Memory is counted in the allocator, so that the limit applies to
//! every part of a tool. Mapped files and generated code are not counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write as _;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use relax_base::small;

use crate::stop::Stop;

/// The system's allocator behind lists of small blocks, with a limit.
struct Limited;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// The value for no limit and no counting.
const NONE: usize = usize::MAX;
static MOST: AtomicUsize = AtomicUsize::new(NONE);
/// The bytes allocated since counting began; may become negative, as earlier allocations are freed.
static TAKEN: AtomicI64 = AtomicI64::new(0);

/// From now on the tool may allocate this many additional bytes.
pub fn limit(bytes: usize) {
    MOST.store(bytes, Ordering::Relaxed);
}

/// Sets the limit to the machine's memory, unless there is a limit already or the size is unknown:
/// for work of unpredictable size, such as evaluating a program.
#[cfg(feature = "native")]
pub fn limit_to_machine() {
    if MOST.load(Ordering::Relaxed) == NONE
        && let Some(bytes) = installed()
    {
        limit(bytes);
    }
}

/// Returns the size of the machine's memory.
#[cfg(feature = "native")]
fn installed() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Parses a size: `512M`, `2G`, `100000`.
///
/// # Errors
/// It is not a number with an optional unit, or too large.
pub fn bytes(text: &str) -> Result<usize, Stop> {
    let (digits, shift) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        _ => (text, 0),
    };
    let number: Option<usize> = digits.parse().ok();
    let bytes = number.and_then(|n| n.checked_mul(1 << shift));
    bytes.ok_or_else(|| "bytes are a number with K, M or G behind it or nothing: `512M`".into())
}

/// The initial heap size of a tool.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const FIRST: usize = 32 << 20;

/// Lets the pages between two addresses of the heap be huge ones.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn huge(from: usize, to: usize) {
    let large = 2 << 20;
    let from = from.next_multiple_of(large);
    let len = to.saturating_sub(from) / large * large;
    // SAFETY: the advice names whole pages of the allocator's own heap, and changes nothing but how
    // they are backed.
    unsafe {
        libc::madvise(from as *mut libc::c_void, len, libc::MADV_HUGEPAGE);
    }
}

/// Makes the allocator keep memory instead of returning it to the system, as tools are short-lived,
/// and lets the first megabytes be huge pages: one takes as long to be faulted in as a hundred small
/// ones, which the smallest text needs, and a model needs tens of thousands.
pub fn keep() {
    small::keep();
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: settings of the allocator, which are safe to change at any time.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 64 << 20);
        libc::mallopt(libc::M_TOP_PAD, FIRST as i32);
        let before = libc::sbrk(0) as usize;
        // Larger than the free space at the end, so that the heap grows.
        drop(std::hint::black_box(Vec::<u8>::with_capacity(512 << 10)));
        let grown = (libc::sbrk(0) as usize).saturating_sub(before);
        if grown <= 2 * FIRST {
            huge(before, before + grown);
        }
        libc::mallopt(libc::M_TOP_PAD, 1 << 20);
    }
}

/// Counts bytes; returns false if a single request exceeds the limit, which the caller may handle.
fn take(size: usize) -> bool {
    let most = MOST.load(Ordering::Relaxed);
    if most == NONE {
        return true;
    }
    if size > most {
        return false;
    }
    let before = TAKEN.fetch_add(size as i64, Ordering::Relaxed);
    if before + size as i64 > most as i64 {
        ended(most);
    }
    true
}

fn give(size: usize) {
    if MOST.load(Ordering::Relaxed) != NONE {
        TAKEN.fetch_sub(size as i64, Ordering::Relaxed);
    }
}

/// Reports the limit and ends the tool. This must not allocate.
#[cold]
fn ended(most: usize) -> ! {
    // Later allocations may be counted too.
    MOST.store(NONE, Ordering::Relaxed);
    let mut line = [0u8; 128];
    let mut rest = &mut line[..];
    let _ = writeln!(
        rest,
        "error: more memory is needed than may be taken, {} MiB (--max-memory)",
        most >> 20
    );
    let left = rest.len();
    let text = &line[..line.len() - left];
    // SAFETY: the bytes of a text on our stack; a stream that is closed takes nothing. `_exit` runs
    // nothing that might take memory or wait for a lock that this thread holds.
    #[cfg(unix)]
    unsafe {
        libc::write(2, text.as_ptr().cast(), text.len());
        libc::_exit(i32::from(crate::exit::USAGE))
    }
    #[cfg(not(unix))]
    {
        let _ = text;
        std::process::abort()
    }
}

// SAFETY: blocks are those of the lists of small blocks, or of the system's allocator, or null; a
// block's layout says which.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !take(layout.size()) {
            return std::ptr::null_mut();
        }
        match small::class(layout) {
            Some(class) => small::take(class),
            // SAFETY: the layout is not of zero bytes.
            None => unsafe { System.alloc(layout) },
        }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !take(layout.size()) {
            return std::ptr::null_mut();
        }
        let Some(class) = small::class(layout) else {
            // SAFETY: the layout is not of zero bytes.
            return unsafe { System.alloc_zeroed(layout) };
        };
        let block = small::take(class);
        if !block.is_null() {
            // SAFETY: a block of the class has as many bytes.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        give(layout.size());
        match small::class(layout) {
            // SAFETY: `block` was handed out by `small` for this class.
            Some(class) => unsafe { small::give(class, block) },
            // SAFETY: `block` was handed out by `System` with this layout.
            None => unsafe { System.dealloc(block, layout) },
        }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's: with this alignment `size` does not overflow.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        let (from, to) = (small::class(layout), small::class(new));
        if from != to {
            // SAFETY: `size` is not zero.
            let moved = unsafe { self.alloc(new) };
            if !moved.is_null() {
                // SAFETY: both blocks have as many bytes and are apart; nothing refers to the old
                // one any more.
                unsafe {
                    std::ptr::copy_nonoverlapping(block, moved, layout.size().min(size));
                    self.dealloc(block, layout);
                }
            }
            return moved;
        }
        if !take(size.saturating_sub(layout.size())) {
            return std::ptr::null_mut();
        }
        give(layout.size().saturating_sub(size));
        if from.is_some() {
            return block;
        }
        // SAFETY: `block` was handed out by `System` with this layout, and `size` is not zero.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes_are_read() {
        assert_eq!(bytes("512M"), Ok(512 << 20));
        assert_eq!(bytes("3g"), Ok(3 << 30));
        assert_eq!(bytes("17"), Ok(17));
        assert!(bytes("M").is_err() && bytes("-1").is_err() && bytes("99999999999G").is_err());
    }
}
