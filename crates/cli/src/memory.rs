//! How much memory a tool may take: `--max-memory`.
//!
//! A program or a text may ask for more than there is. Rust ends a process then with a crash
//! report, and Linux ends some other one; with a limit the tool says so and ends with its own exit
//! code. Memory is counted where it is taken from the system, so the limit holds in every part of a
//! tool. Files that are mapped and generated code are not counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write as _;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use crate::stop::Stop;

/// The system's allocator, with a limit.
struct Limited;

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// No limit, and nothing is counted.
const NONE: usize = usize::MAX;
static MOST: AtomicUsize = AtomicUsize::new(NONE);
/// Bytes since counting began; what was taken before may be given back afterwards.
static TAKEN: AtomicI64 = AtomicI64::new(0);

/// From here on the tool may take so many bytes more than it has.
pub fn limit(bytes: usize) {
    MOST.store(bytes, Ordering::Relaxed);
}

/// The same with what the machine has, unless there is a limit already or it cannot be told: for
/// work whose size nobody knows before, such as evaluating a program.
#[cfg(feature = "native")]
pub fn limit_to_machine() {
    if MOST.load(Ordering::Relaxed) == NONE
        && let Some(bytes) = installed()
    {
        limit(bytes);
    }
}

/// The machine's memory.
#[cfg(feature = "native")]
fn installed() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Bytes as people write them: `512M`, `2G`, `100000`.
///
/// # Errors
/// It is no number with such a letter behind it, or none that fits.
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

/// What a tool asks of the system for its memory at once.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const FIRST: usize = 32 << 20;

/// What stays small pages: a tool that needs no more does not wait until a large one is cleared.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const SMALL: usize = 4 << 20;

/// Keeps what the allocator got from the system, as a tool ends soon and asks again before, and
/// lets its first megabytes be large pages: asking for small ones, one by one, is a tenth of the
/// time that compiling a model takes.
pub fn keep() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: settings of the allocator, which are safe to change at any time; the advice names
    // whole pages of its own heap, between the end before and the end after it grew, and changes
    // nothing but how they are backed.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 64 << 20);
        libc::mallopt(libc::M_TOP_PAD, FIRST as i32);
        let before = libc::sbrk(0) as usize;
        // Larger than what is free below the end, so that the heap grows.
        drop(std::hint::black_box(Vec::<u8>::with_capacity(512 << 10)));
        let grown = (libc::sbrk(0) as usize).saturating_sub(before);
        if grown <= 2 * FIRST {
            let large = 2 << 20;
            let from = (before + SMALL).next_multiple_of(large);
            let len = (before + grown).saturating_sub(from) / large * large;
            libc::madvise(from as *mut libc::c_void, len, libc::MADV_HUGEPAGE);
        }
        libc::mallopt(libc::M_TOP_PAD, 1 << 20);
    }
}

/// Counts bytes; false where a single request is more than all that may be taken, which the one who
/// asks may treat.
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

/// Says why and ends the tool. Nothing here may take memory.
#[cold]
fn ended(most: usize) -> ! {
    // What follows may be counted too.
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

// SAFETY: every call goes to the system's allocator with the arguments as they are, or gives null.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match take(layout.size()) {
            // SAFETY: the caller's promise.
            true => unsafe { System.alloc(layout) },
            false => std::ptr::null_mut(),
        }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match take(layout.size()) {
            // SAFETY: the caller's promise.
            true => unsafe { System.alloc_zeroed(layout) },
            false => std::ptr::null_mut(),
        }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        give(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !take(size.saturating_sub(layout.size())) {
            return std::ptr::null_mut();
        }
        give(layout.size().saturating_sub(size));
        // SAFETY: the caller's promise.
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
