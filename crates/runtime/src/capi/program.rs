//! The `main` of programs that `relaxc --emit exe` makes.

use std::ffi::{CStr, OsString, c_char};

use crate::context::RxContext;
use crate::object::RxObject;
use crate::program::{Parameter, Program, main};

use super::{slice, text};

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
    // SAFETY: a description in the data of this program, with `count` parameters, and `argc` texts.
    let (program, words) = unsafe { (&*program, slice(argv, argc)) };
    // SAFETY: the description has `count` parameters.
    let parameters = unsafe { slice(program.params, program.count) };
    // SAFETY: texts of the description, which end with a NUL.
    let own = |p: *const c_char| unsafe { text(p) }.into_owned();
    let made = Program {
        parameters: (parameters.iter())
            .map(|&[name, ty]| Parameter::new(own(name), own(ty)))
            .collect(),
        result: own(program.result),
    };
    // SAFETY: texts of the system, which end with a NUL.
    let word = |&word: &*const c_char| word_of(unsafe { CStr::from_ptr(word) });
    let words: Vec<OsString> = words.iter().map(word).collect();
    let entry = |ctx, args: &[*mut RxObject], out: &mut *mut RxObject| {
        // SAFETY: the program's own entry, which takes live values of the context, as many as it
        // has parameters, and writes one.
        unsafe { (program.entry)(ctx, args.as_ptr(), args.len() as i32, out) }
    };
    main(&made, &words, entry)
}

/// An argument, whatever its bytes are.
fn word_of(text: &CStr) -> OsString {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt as _;
        std::ffi::OsStr::from_bytes(text.to_bytes()).to_owned()
    }
    #[cfg(not(unix))]
    OsString::from(text.to_string_lossy().into_owned())
}
