//! Scratch memory of generated code.

use std::ffi::c_void;

use crate::context::RxContext;
use crate::values::{scratch_alloc, scratch_free};

use super::slice;

/// Scratch memory; null after an error.
///
/// # Safety
/// `ctx` is a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_scratch_alloc(ctx: *mut RxContext, bytes: u64) -> *mut c_void {
    // SAFETY: null or a context.
    unsafe { scratch_alloc(ctx, bytes) }
}

/// Frees scratch memory.
///
/// # Safety
/// `pointer` is null or from [`rx_scratch_alloc`] of the same context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_scratch_free(ctx: *mut RxContext, pointer: *mut c_void) {
    // SAFETY: null, or from `scratch_alloc` of this context, and not used any more.
    unsafe { scratch_free(ctx, pointer) }
}

/// Like [`rx_scratch_free`] for all of `count` pointers.
///
/// # Safety
/// `pointers` points at `count` pointers, each null or from [`rx_scratch_alloc`] of the same
/// context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_scratch_free_all(
    ctx: *mut RxContext,
    pointers: *const *mut c_void,
    count: i64,
) {
    // SAFETY: there are `count` pointers.
    for &pointer in unsafe { slice(pointers, count) } {
        // SAFETY: null, or from `scratch_alloc` of this context, and not used any more.
        unsafe { scratch_free(ctx, pointer) };
    }
}
