//! Long and deep texts: memory is a small multiple of the text, and nothing overflows.
//!
//! The allocator counts, so that the numbers are independent of the machine and its load. In
//! optimised builds, as in CI, the texts have the promised sizes: 1,000,000 bindings, 100,000
//! nested brackets, a constant of 100 MB. In debug builds, bindings and constant are a tenth of
//! that.

#![allow(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use relax::{ReadOptions, Session, Style, print};

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
        // The pages of large blocks are remapped, so the old and the new block do not exist at
        // once.
        NOW.fetch_sub(layout.size(), Relaxed);
        grew(size);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The divisor of the texts' sizes.
const FRACTION: usize = if cfg!(debug_assertions) { 10 } else { 1 };
/// The stack size: nothing may recurse over the text.
const STACK: usize = 1 << 20;

/// Whether a text prints at about its original length.
#[derive(PartialEq)]
enum Printed {
    Whole,
    /// A module has no parentheses.
    Less,
}

/// Checks the peak memory of reading, printing in both styles and dropping, as a multiple of the
/// text (including the text), or of the printed text if that is longer: TVM's style gives every
/// nested tuple a line and a number.
fn check(what: &str, text: String, most: f64, back: Printed) {
    let size = text.len();
    let mut longest = size;
    let base = NOW.load(Relaxed) - size;
    PEAK.store(NOW.load(Relaxed), Relaxed);
    let times = |size: usize| (PEAK.load(Relaxed) - base) as f64 / size as f64;
    let mut session = Session::new(ReadOptions::default());
    let (module, diagnostics) = session.read("test.relay", text.into_bytes());
    assert!(!diagnostics.has_errors(), "{what} is read");
    let mut report = format!("{what}: {:.1} after reading", times(size));
    for style in [Style::Tvm, Style::Pretty] {
        let printed = print(&module, style, None);
        longest = longest.max(printed.len());
        report += &format!(", {:.1} after printing as {style:?}", times(longest));
        assert!(
            printed.len() * 2 > size || back == Printed::Less,
            "{report}"
        );
    }
    drop((module, session));
    eprintln!("{report}");
    if times(longest) > most {
        BROKEN
            .lock()
            .expect("no panic")
            .push(format!("{report}; promised are {most} times the text"));
    }
}

/// Violated promises.
static BROKEN: std::sync::Mutex<Vec<String>> = std::sync::Mutex::new(Vec::new());

/// A single test, as the counters are global.
#[test]
fn memory_is_a_small_multiple_of_the_text() {
    let thread = std::thread::Builder::new().stack_size(STACK);
    thread
        .spawn(texts)
        .expect("a thread")
        .join()
        .expect("all promises are kept");
}

fn texts() {
    // Allocations that are made once, independent of the text.
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

    let lets: String = (1_000_000..1_000_000 + 1_000_000 / FRACTION)
        .map(|i| format!("  let %v{i} = add(%x, %x);\n"))
        .collect();
    check(
        "bindings",
        format!("def @main(%x: int32) {{\n{lets}  %x\n}}\n"),
        FLAT,
        Printed::Whole,
    );
    let constant = constant(100_000_000 / FRACTION);
    check("a constant", constant, FLAT, Printed::Whole);

    let arguments = vec!["%x"; 200_000].join(", ");
    check(
        "one statement of 200,000 arguments",
        format!("def @main(%x: int32) {{\n  let %y = @main({arguments});\n  %y\n}}\n"),
        FLAT,
        Printed::Whole,
    );

    let deep = 100_000;
    let nest = |open: &str, leaf: &str, close: &str| {
        format!("{}{leaf}{}", open.repeat(deep), close.repeat(deep))
    };
    let in_main = |body: String| format!("def @main(%x: int32) {{ {body} }}");
    check(
        "parentheses",
        in_main(nest("(", "%x", ")")),
        NESTED,
        Printed::Less,
    );
    let types = nest("(", "int32", ",)");
    check(
        "tuple types",
        format!("def @main(%x: {types}) {{ %x }}"),
        NESTED,
        Printed::Whole,
    );
    check(
        "tuples",
        in_main(nest("(", "%x", ",)")),
        NESTED,
        Printed::Whole,
    );
    check(
        "calls",
        in_main(nest("nn.relu(", "%x", ")")),
        NESTED,
        Printed::Whole,
    );
    let broken = BROKEN.lock().expect("no panic");
    assert!(broken.is_empty(), "{broken:#?}");
}

/// Returns a text of about `size` bytes with a single constant.
fn constant(size: usize) -> String {
    let mut session = Session::new(ReadOptions::default());
    let small = b"#[version = \"0.0.5\"]\ndef @main() { 1f }".to_vec();
    let (mut module, _) = session.read("constant.relay", small);
    let shape = [(size / 16 * 3) as i64];
    let value = relax_tensor::Tensor::zeros(relax_tensor::DType::F32, &shape);
    for c in module.consts.values_mut() {
        *c = value.clone();
    }
    print(&module, Style::Tvm, None)
}

/// The promise for bindings, constants and lists.
const FLAT: f64 = 20.0;
/// The promise for nested constructs.
const NESTED: f64 = 40.0;
