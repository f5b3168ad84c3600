//! Checks of what hosts call entries with, and of what checked code calls kernels with.

use std::ffi::c_char;

use crate::context::{RxContext, Status, guard};
use crate::given::{self, Description};
use crate::object::{DLDataType, RxObject};
use crate::reach::{self, RxArray};
use crate::tensor::{extents, look};

use super::{slice, text};

/// Checks that a call of an entry from C can be made: `nargs` arguments where `wanted` are
/// expected, none of them null, and a non-null result pointer.
///
/// # Safety
/// `ctx` is null or a context, `place` null or NUL-terminated; `args` is null or has `nargs`
/// values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_check_call(
    ctx: *mut RxContext,
    place: *const c_char,
    args: *const *mut RxObject,
    nargs: i32,
    wanted: i32,
    out: *mut *mut RxObject,
) -> i32 {
    // SAFETY: null, or `nargs` values.
    let values = unsafe { slice(args, nargs) };
    let null = match args.is_null() {
        true => (nargs > 0).then_some(0),
        false => values.iter().position(|v| v.is_null()),
    };
    let what = if nargs != wanted {
        format!("takes {wanted} arguments; given: {nargs}")
    } else if let Some(i) = null {
        format!("argument {i} is NULL")
    } else if out.is_null() {
        "there is no place for the result: `out` is NULL".to_owned()
    } else if ctx.is_null() {
        return Status::Argument as i32;
    } else {
        return 0;
    };
    guard(ctx, |context| {
        // SAFETY: null, or ends with a NUL.
        let place = unsafe { text(place) };
        context.fail_at(Status::Argument as i32, &place, &what)
    })
}

/// Checks a value against what an entry expects.
///
/// # Safety
/// `ctx` is a context, `object` null or a live value, `what` null or NUL-terminated, `shape` has
/// `ndim` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_check_tensor(
    ctx: *mut RxContext,
    object: *const RxObject,
    what: *const c_char,
    dtype: DLDataType,
    ndim: i32,
    shape: *const i64,
) -> i32 {
    guard(ctx, |context| {
        // SAFETY: `object` is null or live, `what` null or ends with a NUL, and `shape` has `ndim`
        // numbers.
        let (found, what, wanted) =
            unsafe { (look::tensor(object), text(what), extents(ndim, shape)) };
        let wanted = (ndim >= 0).then_some(wanted);
        match look::check(found, &what, dtype, wanted) {
            Ok(()) => 0,
            Err((status, message)) => context.fail(status, &message),
        }
    })
}

/// Fails unless a value matches a description, part by part.
///
/// # Safety
/// `ctx` is a context, `value` null or a live value, `words` a description, `place` null or
/// NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_check_value(
    ctx: *mut RxContext,
    value: *const RxObject,
    words: *const i64,
    place: *const c_char,
) -> i32 {
    guard(ctx, |context| {
        // SAFETY: the compiler's words, and null or a live value.
        let found = unsafe { given::check(value, Description::at(words)) };
        let Err((status, what)) = found else {
            return 0;
        };
        // SAFETY: null, or ends with a NUL.
        let place = unsafe { text(place) };
        context.fail_at(status as i32, &place, &what)
    })
}

/// Fails unless each range that a call of a kernel may access is within one of the arrays.
///
/// # Safety
/// `ctx` is a context, `kernel` a C string, `args` has the `nargs` words of a call of the kernel
/// behind the context, and `arrays` has `n` arrays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_check_reach(
    ctx: *mut RxContext,
    kernel: *const c_char,
    args: *const i64,
    nargs: i32,
    arrays: *const RxArray,
    n: i32,
) -> i32 {
    guard(ctx, |context| {
        // SAFETY: `kernel` ends with a NUL, and there are `nargs` words and `n` arrays.
        let (kernel, args, arrays) =
            unsafe { (text(kernel), slice(args, nargs), slice(arrays, n)) };
        // SAFETY: the words are those of a call of the kernel, whose descriptors live.
        match unsafe { reach::check(&kernel, args, arrays) } {
            Ok(()) => 0,
            Err((status, message)) => context.fail(status, &message),
        }
    })
}
