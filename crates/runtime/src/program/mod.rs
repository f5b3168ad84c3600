//! The program around a compiled entry: what `relaxc --emit exe` links its `main` to.
//!
//! Arguments are read from NumPy's files, which are untrusted: whatever they contain, the program
//! fails only with an error message.

mod arguments;
pub mod npy;
mod show;
mod unreadable;
pub mod zip;

use std::ffi::{CStr, OsString, c_char};
use std::io::Write as _;
use std::ptr::null_mut;

use crate::context::{
    RxContext, rx_context_create, rx_context_destroy, rx_last_error, rx_set_threads,
};
use crate::object::RxObject;
use crate::release::rx_release;

use arguments::{Parameter, Wrong};
pub use unreadable::Unreadable;

/// The description of a program.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RxProgram {
    /// The entry.
    pub entry:
        unsafe extern "C" fn(*mut RxContext, *const *mut RxObject, i32, *mut *mut RxObject) -> i32,
    /// The number of parameters.
    pub count: i32,
    /// The name and the type of each.
    pub params: *const [*const c_char; 2],
    /// The type of its result.
    pub result: *const c_char,
}

/// The exit status of success.
const WELL: i32 = 0;
/// It failed while it ran.
const FAILED: i32 = 1;
/// It was called incorrectly, or a file cannot be read.
const WRONG: i32 = 2;

/// Runs a program; the result is its exit code.
///
/// # Safety
/// `argv` has `argc` texts; `program` points to a valid description.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rxprogram_main(
    argc: i32,
    argv: *const *const c_char,
    program: *const RxProgram,
) -> i32 {
    // SAFETY: `program` is a live description.
    let program = unsafe { &*program };
    let words: Vec<OsString> = (0..argc.max(0) as usize)
        // SAFETY: `argv` has `argc` texts, each of which ends with a zero.
        .map(|i| word(unsafe { CStr::from_ptr(*argv.add(i)) }))
        .collect();
    // SAFETY: the description's texts end with a zero.
    let text = |p: *const c_char| unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned();
    let parameters: Vec<Parameter> = (0..program.count.max(0) as usize)
        .map(|i| {
            // SAFETY: the description has `count` parameters.
            let [name, ty] = unsafe { *program.params.add(i) };
            Parameter::new(text(name), text(ty))
        })
        .collect();
    let name = words
        .first()
        .map_or("program".into(), |w| w.to_string_lossy().into_owned());
    let words = words.get(1..).unwrap_or_default();
    if words.iter().any(|w| w == "--help" || w == "-h") {
        let usage = arguments::usage(&name, &parameters, &text(program.result));
        return match std::io::stdout().write_all(usage.as_bytes()) {
            Ok(()) => WELL,
            Err(_) => WRONG,
        };
    }
    let ctx = rx_context_create();
    if ctx.is_null() {
        return fail(&name, "out of memory", WRONG);
    }
    let code = run(ctx, program, &name, &parameters, words);
    // SAFETY: it was made above, and nothing of it is left.
    unsafe { rx_context_destroy(ctx) };
    code
}

/// An argument, whatever its bytes are.
fn word(text: &CStr) -> OsString {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt as _;
        std::ffi::OsStr::from_bytes(text.to_bytes()).to_owned()
    }
    #[cfg(not(unix))]
    OsString::from(text.to_string_lossy().into_owned())
}

fn fail(what: &str, why: &str, code: i32) -> i32 {
    // The stream was closed, so the error cannot be reported.
    let _ = writeln!(std::io::stderr(), "{what}: {why}");
    code
}

/// Returns the context's last error.
fn said(ctx: *mut RxContext) -> String {
    // SAFETY: the context lives, and its text until the next call.
    let text = unsafe { CStr::from_ptr(rx_last_error(ctx)) };
    text.to_string_lossy().into_owned()
}

fn run(
    ctx: *mut RxContext,
    program: &RxProgram,
    name: &str,
    parameters: &[Parameter],
    words: &[OsString],
) -> i32 {
    if let Ok(threads) = std::env::var("RELAX_THREADS") {
        let known = threads.parse().unwrap_or(-1);
        if rx_set_threads(ctx, known) != 0 {
            return fail("RELAX_THREADS", &said(ctx), WRONG);
        }
    }
    let mut objects: Vec<*mut RxObject> = Vec::new();
    let read = arguments::read(ctx, parameters, words, &mut objects);
    let mut out: *mut RxObject = null_mut();
    let code = match read {
        Err(Wrong::Called(why)) => {
            let usage = arguments::usage(name, parameters, "");
            let _ = std::io::stderr().write_all(format!("{name}: {why}\n{usage}").as_bytes());
            WRONG
        }
        Err(Wrong::File(path, why)) => fail(&path, &why, WRONG),
        Ok(()) => {
            // SAFETY: the entry has this signature; the objects are live, and its context's.
            let status = unsafe {
                (program.entry)(ctx, objects.as_ptr(), objects.len() as i32, &raw mut out)
            };
            match status {
                0 => shown(name, out),
                _ => fail(name, &said(ctx), FAILED),
            }
        }
    };
    for object in objects.into_iter().chain([out]).filter(|o| !o.is_null()) {
        // SAFETY: each is owned here and released once.
        unsafe { rx_release(ctx, object) };
    }
    code
}

/// Prints a result. A closed pipe is not an error.
fn shown(name: &str, out: *mut RxObject) -> i32 {
    let mut to = std::io::BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    // SAFETY: the result is a live value.
    match unsafe { show::value(out, &mut to) }.and_then(|()| to.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => fail(
            name,
            &format!("cannot write to standard output: {e}"),
            WRONG,
        ),
        _ => WELL,
    }
}
