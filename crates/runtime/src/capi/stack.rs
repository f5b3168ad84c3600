//! Calls on the context's stack, and from there on the host's own.

use std::ffi::c_void;

use crate::context::{RxContext, Status, guard};
use crate::stack::call_at;

use super::code;

/// What is called: with the context and data of its own. It does not unwind.
pub(super) type Body = unsafe extern "C" fn(*mut RxContext, *mut c_void) -> i32;

/// Sets the stack's size; 0 is the caller's own stack.
#[unsafe(no_mangle)]
pub extern "C" fn rx_set_stack_size(ctx: *mut RxContext, bytes: u64) -> i32 {
    guard(ctx, |context| code(context.set_stack_size(bytes)))
}

/// Runs a function on the context's stack.
///
/// # Safety
/// `ctx` is a context; `body` may be called with it and `data`, and does not unwind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_call_on_stack(
    ctx: *mut RxContext,
    body: Body,
    data: *mut c_void,
) -> i32 {
    // SAFETY: the function is for this data.
    let run = move || unsafe { body(ctx, data) };
    // SAFETY: a context. Here and below, no reference into it is held across the call.
    let Some(entry) = unsafe { &mut (*ctx).stack }.enter() else {
        return run();
    };
    // SAFETY: a context.
    unsafe { (*ctx).stack_limit = entry.limit };
    let status = match entry.top {
        // SAFETY: `enter` returned the position for this call.
        Some(top) => unsafe { call_at(top, run) },
        None => run(),
    };
    // SAFETY: a context: the call that it waited for does not end it.
    unsafe {
        (*ctx).stack_limit = 0;
        (*ctx).stack.leave(status == Status::Stack as i32);
    }
    status
}

/// Runs a host's function on the host's own stack: see [`Stack::step_out`].
///
/// [`Stack::step_out`]: crate::stack::Stack::step_out
///
/// # Safety
/// `ctx` is a context; `body` does not unwind.
pub(super) unsafe fn on_host(ctx: *mut RxContext, body: impl FnOnce() -> i32) -> i32 {
    // SAFETY: a context. Here and below, no reference into it is held across the call.
    let (limit, outside) = unsafe { ((*ctx).stack_limit, (*ctx).stack.step_out()) };
    let Some(outside) = outside else {
        return body();
    };
    // SAFETY: `step_out` returned the position for this call.
    let status = unsafe { call_at(outside.host(), body) };
    // SAFETY: a context: the call that it waited for does not end it.
    unsafe {
        (*ctx).stack.step_back(outside);
        (*ctx).stack_limit = limit;
    }
    status
}
