//! Long and deep texts: memory stays a small multiple of the text, and nothing overflows.
//!
//! The allocator counts, so that the numbers do not depend on the machine or its load. With
//! optimisation, as CI runs it, the texts have the sizes promised: 1,000,000 bindings, 100,000 nested
//! brackets, a constant of 100 MB. Without, bindings and constant are a tenth of that.

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
        // The pages of large blocks are moved, so the old and the new do not exist at once.
        NOW.fetch_sub(layout.size(), Relaxed);
        grew(size);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What the long texts are divided by.
const FRACTION: usize = if cfg!(debug_assertions) { 10 } else { 1 };
/// Nothing may recurse over the text: this is all the stack there is.
const STACK: usize = 1 << 20;

/// Whether a text comes back at about its length.
#[derive(PartialEq)]
enum Printed {
    Whole,
    /// A module has no parentheses.
    Less,
}

/// The most that reading, printing in both styles and dropping holds at once, in multiples of the
/// text (which counts itself), or of what is printed where that is longer: TVM's style gives every
/// tuple in a tuple a line and a number.
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

/// Promises that were not kept.
static BROKEN: std::sync::Mutex<Vec<String>> = std::sync::Mutex::new(Vec::new());

/// One test, since the counters are the process's.
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

/// A text of about `size` bytes that is one constant.
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

/// What is promised for bindings, constants and lists.
const FLAT: f64 = 20.0;
/// What is promised for nested constructs.
const NESTED: f64 = 40.0;
