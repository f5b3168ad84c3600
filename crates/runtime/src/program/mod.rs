//! The program around a compiled entry: what `relaxc --emit exe` links its `main` to.
//!
//! Arguments are read from NumPy's files, which are untrusted: whatever they contain, the program
//! fails only with an error message.

mod arguments;
pub mod npy;
mod show;
mod unreadable;
pub mod zip;

use std::ffi::OsString;
use std::io::Write as _;
use std::ptr::null_mut;

use crate::context::RxContext;
use crate::object::RxObject;
use crate::release::release;

pub use arguments::Parameter;
use arguments::Wrong;
pub use unreadable::Unreadable;

/// A program: what is around its entry.
#[derive(Clone, Debug)]
pub struct Program {
    /// The parameters of the entry.
    pub parameters: Vec<Parameter>,
    /// The type of its result.
    pub result: String,
}

/// The exit status of success.
const WELL: i32 = 0;
/// It failed while it ran.
const FAILED: i32 = 1;
/// It was called incorrectly, or a file cannot be read.
const WRONG: i32 = 2;

/// Runs a program with the words that it was called with, the first of which is its own name; the
/// result is its exit code. The entry is called with a context, arguments that live, and a place
/// for its result, a value of the context; it returns 0, or the status of the error.
pub fn main(
    program: &Program,
    words: &[OsString],
    entry: impl FnOnce(*mut RxContext, &[*mut RxObject], &mut *mut RxObject) -> i32,
) -> i32 {
    let name = words
        .first()
        .map_or("program".into(), |w| w.to_string_lossy().into_owned());
    let words = words.get(1..).unwrap_or_default();
    if words.iter().any(|w| w == "--help" || w == "-h") {
        let usage = arguments::usage(&name, &program.parameters, &program.result);
        return match std::io::stdout().write_all(usage.as_bytes()) {
            Ok(()) => WELL,
            Err(_) => WRONG,
        };
    }
    let ctx = RxContext::create();
    if ctx.is_null() {
        return fail(&name, "out of memory", WRONG);
    }
    let code = run(ctx, entry, &name, &program.parameters, words);
    // SAFETY: `create` made the context, and none of its values is left.
    unsafe {
        (*ctx).close();
        RxContext::settle(ctx);
    }
    code
}

fn fail(what: &str, why: &str, code: i32) -> i32 {
    // The stream was closed, so the error cannot be reported.
    let _ = writeln!(std::io::stderr(), "{what}: {why}");
    code
}

/// Returns the context's last error.
fn said(context: &RxContext) -> String {
    context.last_error().to_string_lossy().into_owned()
}

/// Runs a program in a context that [`main`] made.
fn run(
    ctx: *mut RxContext,
    entry: impl FnOnce(*mut RxContext, &[*mut RxObject], &mut *mut RxObject) -> i32,
    name: &str,
    parameters: &[Parameter],
    words: &[OsString],
) -> i32 {
    // SAFETY: `main` made the context; the entry has not got it yet.
    let context = unsafe { &mut *ctx };
    if let Ok(threads) = std::env::var("RELAX_THREADS") {
        let known = threads.parse().unwrap_or(-1);
        if context.set_threads(known).is_err() {
            return fail("RELAX_THREADS", &said(context), WRONG);
        }
    }
    let mut objects: Vec<*mut RxObject> = Vec::new();
    let mut out: *mut RxObject = null_mut();
    let code = match arguments::read(context, parameters, words, &mut objects) {
        Err(Wrong::Called(why)) => {
            let usage = arguments::usage(name, parameters, "");
            let _ = std::io::stderr().write_all(format!("{name}: {why}\n{usage}").as_bytes());
            WRONG
        }
        Err(Wrong::File(path, why)) => fail(&path, &why, WRONG),
        Ok(()) => match entry(ctx, &objects, &mut out) {
            // SAFETY: the result is a live value.
            0 => unsafe { shown(name, out) },
            // SAFETY: the context lives, and the entry has returned.
            _ => fail(name, &said(unsafe { &*ctx }), FAILED),
        },
    };
    for object in objects.into_iter().chain([out]).filter(|o| !o.is_null()) {
        // SAFETY: a live value with a reference that is owned here, each once.
        unsafe { release(ctx, object) };
    }
    code
}

/// Prints a result. A closed pipe is not an error.
///
/// # Safety
/// `out` is a live value.
unsafe fn shown(name: &str, out: *mut RxObject) -> i32 {
    let mut to = std::io::BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    // SAFETY: a live value.
    match unsafe { show::value(out, &mut to) }.and_then(|()| to.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => fail(
            name,
            &format!("cannot write to standard output: {e}"),
            WRONG,
        ),
        _ => WELL,
    }
}
