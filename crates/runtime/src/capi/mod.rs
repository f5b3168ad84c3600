//! The C face of the runtime: its `extern "C"` functions.
//!
//! Here alone are pointers from outside looked at. A function checks those that may be wrong, makes
//! slices and references of them, calls the core, which knows nothing of C, and stores the error.
//! What C's headers promise of a pointer (that a context lives, that so many elements are there) is
//! what the `SAFETY` comments of these files rest on; what the headers leave open is checked.
//!
//! Invariant: no panic leaves a function, and no other module of the crate but `symbols` names
//! these.

pub mod arrays;
pub mod checks;
pub mod context;
pub mod counts;
pub mod dlpack;
pub mod errors;
pub mod fields;
pub mod functions;
pub mod kernels;
pub mod launch;
pub mod numbers;
pub mod packing;
pub mod profile;
pub mod program;
pub mod scratch;
pub mod stack;
pub mod tensors;
pub mod threads;
pub mod values;
pub mod views;
pub mod weights;

use std::borrow::Cow;
use std::ffi::{CStr, c_char};
use std::ptr::{NonNull, null_mut};

use crate::context::{RxContext, Status};
use crate::object::RxObject;
use crate::release::release;
use crate::slices::{slice, slice_mut};
use crate::tensor::{Dims, extents};

/// Returns the text of a C string; empty for null, and invalid UTF-8 is replaced.
///
/// # Safety
/// `text` is null or NUL-terminated.
unsafe fn text<'a>(text: *const c_char) -> Cow<'a, str> {
    if text.is_null() {
        return "".into();
    }
    // SAFETY: not null, and ends with a NUL by the contract.
    unsafe { CStr::from_ptr(text) }.to_string_lossy()
}

/// Returns a number of elements; none for less.
fn count(n: impl TryInto<usize>) -> usize {
    n.try_into().unwrap_or(0)
}

/// Returns elements as a slice, as [`slice`] does, or records that there are none at the pointer,
/// which is null or not aligned to them. For no elements it may be anything.
///
/// # Safety
/// `ctx` is null or a context; `first` has `count` elements, unless it is null or not aligned.
unsafe fn given<'a, T>(
    ctx: *mut RxContext,
    what: &str,
    first: *const T,
    count: impl TryInto<usize>,
) -> Option<&'a [T]> {
    // A number that is no size of memory is too large, or negative, which is none.
    let count = count.try_into().unwrap_or(0);
    if count == 0 {
        return Some(&[]);
    }
    let aligned = first.is_aligned();
    if !first.is_null() && aligned {
        // SAFETY: not null and aligned, so that it has `count` elements by the contract.
        return Some(unsafe { std::slice::from_raw_parts(first, count) });
    }
    let how = if aligned { "null" } else { "not aligned" };
    // SAFETY: null or a context, which nobody else uses now.
    if let Some(context) = unsafe { ctx.as_mut() } {
        context.fail(Status::Argument, &format!("{what} is {how}"));
    }
    None
}

/// Returns the extents of a tensor to be made, with their rank.
///
/// # Safety
/// `shape` is null or has `rank` extents, which outlive the result.
#[inline]
unsafe fn dims<'a>(rank: i32, shape: *const i64) -> Dims<'a> {
    // SAFETY: the contract is the same.
    Dims::of(rank, unsafe { extents(rank, shape) })
}

/// Runs what makes a value in a context; null without a context, or after an error.
///
/// # Safety
/// `ctx` is null or a context.
#[inline]
unsafe fn make<T>(
    ctx: *mut RxContext,
    body: impl FnOnce(&mut RxContext) -> Result<NonNull<T>, Status>,
) -> *mut RxObject {
    // SAFETY: null or a context that lives, which nobody else uses until this returns.
    match unsafe { ctx.as_mut() } {
        Some(context) => pointer(body(context)),
        None => null_mut(),
    }
}

/// Returns a value that was made; null after an error.
#[inline]
fn pointer<T>(made: Result<NonNull<T>, Status>) -> *mut RxObject {
    made.map_or(null_mut(), |value| value.as_ptr().cast())
}

/// Returns 0, or the status of an error.
fn code(done: Result<(), Status>) -> i32 {
    done.map_or_else(|status| status as i32, |()| 0)
}

/// Gives up references to all of these values.
///
/// # Safety
/// Each is null or a live value of `ctx`, with a reference that is given up.
unsafe fn release_all(ctx: *mut RxContext, values: &[*mut RxObject]) {
    for &value in values {
        // SAFETY: one of the values, each once.
        unsafe { release(ctx, value) };
    }
}
