//! The last error of a context, and functions by which generated code and hosts record one.

use std::ffi::{CStr, c_char};

use crate::context::{RxContext, Status, guard};
use crate::extents::{Expected, first_other};
use crate::object::RxTensor;

use super::{slice, text};

/// Text of the last error.
///
/// # Safety
/// `ctx` is null or a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_last_error(ctx: *const RxContext) -> *const c_char {
    // SAFETY: null or a context.
    let context = unsafe { ctx.as_ref() };
    context
        .map_or(c"there is no context", RxContext::last_error)
        .as_ptr()
}

/// Status of the last error.
///
/// # Safety
/// `ctx` is null or a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_last_status(ctx: *const RxContext) -> i32 {
    // SAFETY: null or a context.
    unsafe { ctx.as_ref() }.map_or(Status::Argument as i32, |context| context.status)
}

/// Forgets the last error.
#[unsafe(no_mangle)]
pub extern "C" fn rx_clear_error(ctx: *mut RxContext) {
    guard(ctx, |context| {
        context.clear_error();
        0
    });
}

/// Records an error.
///
/// # Safety
/// `message` is null or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_set_error(
    ctx: *mut RxContext,
    status: i32,
    message: *const c_char,
) -> i32 {
    // SAFETY: null, or ends with a NUL.
    guard(ctx, |context| unsafe {
        context.set_error(status, &text(message))
    })
}

/// Records an error at a place.
///
/// # Safety
/// `place` is null or NUL-terminated.
unsafe fn fail_at(ctx: *mut RxContext, status: i32, place: *const c_char, what: &str) -> i32 {
    // SAFETY: null, or ends with a NUL.
    guard(ctx, |context| unsafe {
        context.fail_at(status, &text(place), what)
    })
}

/// A dimension differs from what was expected.
///
/// # Safety
/// `place` and `what` are null or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_fail_dim(
    ctx: *mut RxContext,
    place: *const c_char,
    what: *const c_char,
    expected: i64,
    found: i64,
) -> i32 {
    // SAFETY: null, or ends with a NUL.
    let what = match unsafe { text(what) } {
        what if what.is_empty() => "a dimension".into(),
        what => what,
    };
    let message = format!("{what} should be {expected}, but is {found}");
    // SAFETY: null, or ends with a NUL.
    unsafe { fail_at(ctx, Status::Shape as i32, place, &message) }
}

/// No clause of a match applied.
///
/// # Safety
/// `place` is null or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_fail_match(ctx: *mut RxContext, place: *const c_char) -> i32 {
    let message = "no clause of the match applies to the value";
    // SAFETY: null, or ends with a NUL.
    unsafe { fail_at(ctx, Status::Match as i32, place, message) }
}

/// Calls nested deeper than the stack allows.
///
/// # Safety
/// `place` is null or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_fail_stack(ctx: *mut RxContext, place: *const c_char) -> i32 {
    guard(ctx, |context| {
        let what = format!(
            "calls nest deeper than the stack of {} bytes allows (rx_set_stack_size)",
            context.stack.size()
        );
        // SAFETY: null, or ends with a NUL.
        let place = unsafe { text(place) };
        context.fail_at(Status::Stack as i32, &place, &what)
    })
}

/// Any other failure at a place.
///
/// # Safety
/// `place` and `what` are null or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_fail(
    ctx: *mut RxContext,
    status: i32,
    place: *const c_char,
    what: *const c_char,
) -> i32 {
    // SAFETY: each is null, or ends with a NUL.
    unsafe { fail_at(ctx, status, place, &text(what)) }
}

/// Like [`rx_fail`], with a number at the end.
///
/// # Safety
/// `place` and `what` are null or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_fail_int(
    ctx: *mut RxContext,
    status: i32,
    place: *const c_char,
    what: *const c_char,
    value: i64,
) -> i32 {
    // SAFETY: each is null, or ends with a NUL.
    unsafe {
        let what = text(what);
        fail_at(ctx, status, place, &format!("{what}: {value}"))
    }
}

/// Like [`rx_fail`]; each `{}` of the text is replaced by the next of `count` numbers.
///
/// # Safety
/// `place` and `what` are null or NUL-terminated, `values` points at `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_fail_values(
    ctx: *mut RxContext,
    status: i32,
    place: *const c_char,
    what: *const c_char,
    values: *const i64,
    count: i32,
) -> i32 {
    guard(ctx, |context| {
        // SAFETY: the texts are null or end with a NUL, and there are `count` numbers.
        let (place, what, values) = unsafe { (text(place), text(what), slice(values, count)) };
        context.fail_values(status, &place, &what, values)
    })
}

/// Adds the location of the call that the last error came from: in front of an error without a
/// location, and with `also` not 0 behind one that has one. Returns the error's status.
///
/// # Safety
/// `place` is null or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_fail_at(ctx: *mut RxContext, place: *const c_char, also: i32) -> i32 {
    // SAFETY: null, or ends with a NUL.
    guard(ctx, |context| unsafe {
        context.locate(&text(place), also != 0)
    })
}

/// Records that a tensor has an extent other than the one that a kernel was compiled for: the first
/// of those in `table` that differs. Returns the status.
///
/// The table holds three words for each of `count` extents: the tensor (the number of an input, or
/// -1 minus that of an output), the axis, and the expected extent; then the messages, each
/// NUL-terminated, in which the first `{}` is replaced by the actual extent and the second by the
/// expected one.
///
/// # Safety
/// `table` has that layout; its tensors are among `inputs` and `outputs`, and have those axes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_fail_extents(
    ctx: *mut RxContext,
    inputs: *const *const RxTensor,
    outputs: *const *const RxTensor,
    table: *const i64,
    count: i64,
) -> i32 {
    // SAFETY: the table begins with `count` times three words.
    let extents: &[Expected] = unsafe { slice(table.cast(), count) };
    let found = |tensor: i64, axis: i64| {
        // SAFETY: the table names inputs and outputs that there are, and axes that they have.
        unsafe {
            let tensor = match usize::try_from(tensor) {
                Ok(input) => *inputs.add(input),
                Err(_) => *outputs.add((-1 - tensor) as usize),
            };
            (*tensor).extents()[axis as usize]
        }
    };
    let (number, values) = first_other(extents, found).unwrap_or_default();
    let mut message = table.wrapping_add(3 * extents.len()).cast::<c_char>();
    for _ in 0..number {
        // SAFETY: a message follows the words for each extent, and each ends with a NUL.
        message = unsafe { message.add(CStr::from_ptr(message).count_bytes() + 1) };
    }
    let (status, place) = (Status::Extent as i32, std::ptr::null());
    // SAFETY: the message ends with a NUL, and there are two values.
    unsafe { rx_fail_values(ctx, status, place, message, values.as_ptr(), 2) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capi::context::{rx_context_create, rx_context_destroy};
    use crate::capi::counts::rx_release;
    use crate::capi::tensors::rx_alloc_tensor;

    #[test]
    fn the_first_extent_that_differs_is_named() {
        // SAFETY: the tensor lives through the call, the table speaks of its two axes.
        unsafe {
            let ctx = rx_context_create();
            let float32 = crate::object::DLDataType {
                code: 2,
                bits: 32,
                lanes: 1,
            };
            let tensor = rx_alloc_tensor(ctx, float32, 2, [3i64, 5].as_ptr());
            let mut table: Vec<i64> = vec![0, 0, 3, -1, 1, 4];
            let texts = b"one {} {}\0two: {}, not {}\0";
            for chunk in texts.chunks(8) {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                table.push(i64::from_ne_bytes(word));
            }
            let given = [tensor.cast_const().cast::<RxTensor>()];
            let (inputs, outputs) = (given.as_ptr(), given.as_ptr());
            let status = rx_fail_extents(ctx, inputs, outputs, table.as_ptr(), 2);
            assert_eq!(status, Status::Extent as i32);
            let text = CStr::from_ptr(rx_last_error(ctx))
                .to_string_lossy()
                .into_owned();
            assert_eq!(text, "two: 5, not 4");
            rx_release(ctx, tensor);
            rx_context_destroy(ctx);
        }
    }
}
