//! Long and deep texts: memory stays a small multiple of the text, and nothing overflows.
//!
//! The allocator counts, so that the numbers do not depend on the machine or its load. The texts
//! are a fraction of those promised (1,000,000 bindings, 100,000 nested brackets, a constant of
//! 100 MB); memory grows in proportion.

#![allow(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use relax_driver::{ReadOptions, Session, Style, print};

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn grew(by: usize) {
    let now = NOW.fetch_add(by, Relaxed) + by;
    PEAK.fetch_max(now, Relaxed);
}

// SAFETY: every call goes to the system's allocator with the same arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grew(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grew(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // The pages of large blocks are moved, so the old and the new do not exist at once.
        NOW.fetch_sub(layout.size(), Relaxed);
        grew(size);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most that reading, printing in both styles and dropping holds at once, in multiples of the
/// text (which counts itself).
fn check(what: &str, text: String, most: f64) {
    let size = text.len();
    let base = NOW.load(Relaxed) - size;
    PEAK.store(NOW.load(Relaxed), Relaxed);
    let times = || (PEAK.load(Relaxed) - base) as f64 / size as f64;
    let mut session = Session::new(ReadOptions::default());
    let (module, diagnostics) = session.read("test.relay", text.into_bytes());
    assert!(!diagnostics.has_errors(), "{what} is read");
    let mut report = format!("{what}: {:.1} after reading", times());
    for style in [Style::Tvm, Style::Pretty] {
        let printed = print(&module, style, None);
        report += &format!(", {:.1} after printing as {style:?}", times());
        assert!(printed.len() * 2 > size, "{report}");
    }
    eprintln!("{report}");
    assert!(
        times() <= most,
        "{report}; promised are {most} times the text"
    );
}

/// One test, since the counters are the process's.
#[test]
fn memory_is_a_small_multiple_of_the_text() {
    // What is made once, whatever the text.
    let warm = format!(
        "def @main(%x: int32) {{ nn.relu(%x) {} }}",
        " ".repeat(1 << 10)
    );
    let mut session = Session::new(ReadOptions::default());
    print(
        &session.read("warm.relay", warm.into_bytes()).0,
        Style::Pretty,
        None,
    );

    let lets: String = (1_000_000..1_060_000)
        .map(|i| format!("  let %v{i} = add(%x, %x);\n"))
        .collect();
    check(
        "bindings",
        format!("def @main(%x: int32) {{\n{lets}  %x\n}}\n"),
        LETS,
    );
    let nest = |open: &str, leaf: &str, close: &str| {
        format!("{}{leaf}{}", open.repeat(20_000), close.repeat(20_000))
    };
    // A module has no parentheses, so what is printed is another text: only reading is at stake.
    let types = nest("(", "int32", ",)");
    check(
        "tuple types",
        format!("def @main(%x: {types}) {{ %x }}"),
        NESTS,
    );
    let tuples = nest("(", "%x", ",)");
    check(
        "tuples",
        format!("def @main(%x: int32) {{ {tuples} }}"),
        NESTS,
    );
    let calls = nest("nn.relu(", "%x", ")");
    check(
        "calls",
        format!("def @main(%x: int32) {{ {calls} }}"),
        CALLS,
    );
}

/// What is promised for bindings.
const LETS: f64 = 20.0;
/// What is promised for nested constructs; calls inside calls keep it.
const CALLS: f64 = 40.0;
/// What brackets around nothing else take: every two characters are a node of the tree, a node of the
/// module, and work in progress of the parser and the printer.
const NESTS: f64 = 220.0;
