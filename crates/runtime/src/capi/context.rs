//! Contexts: making, setting up, and ending them.

use crate::context::{RxContext, guard};
use crate::heap::{RxAllocator, RxHeapStats};

use super::code;

/// Version of layouts and functions.
#[unsafe(no_mangle)]
pub extern "C" fn rx_abi_version() -> i32 {
    1
}

/// Creates a context with one thread.
#[unsafe(no_mangle)]
pub extern "C" fn rx_context_create() -> *mut RxContext {
    RxContext::create()
}

/// Stops the threads; the memory is freed with the last value.
///
/// # Safety
/// `ctx` is null or a context that was not destroyed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_context_destroy(ctx: *mut RxContext) {
    if ctx.is_null() {
        return;
    }
    guard(ctx, |context| {
        context.close();
        0
    });
    // SAFETY: a context that `rx_context_create` made, which is not used behind this but by values
    // that live.
    unsafe { RxContext::settle(ctx) };
}

/// Replaces the allocator before the first allocation.
///
/// # Safety
/// `allocator` points to a structure whose functions keep their contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_set_allocator(
    ctx: *mut RxContext,
    allocator: *const RxAllocator,
) -> i32 {
    guard(ctx, |context| {
        // SAFETY: null or one structure.
        let allocator = unsafe { allocator.as_ref() }.copied();
        // SAFETY: its functions are an allocator's for as long as values of the context live: C's
        // header asks for that.
        code(unsafe { context.set_allocator(allocator) })
    })
}

/// Sets the number of threads; 0 is one per processor.
#[unsafe(no_mangle)]
pub extern "C" fn rx_set_threads(ctx: *mut RxContext, threads: i32) -> i32 {
    guard(ctx, |context| {
        code(context.set_threads(threads).map(|_| ()))
    })
}

/// Copies the heap's counters.
///
/// # Safety
/// `ctx` is a context and `out` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_heap_stats(ctx: *const RxContext, out: *mut RxHeapStats) {
    // SAFETY: each is null, or a context and room for the counters.
    if let (Some(context), Some(out)) = unsafe { (ctx.as_ref(), out.as_mut()) } {
        *out = context.heap.stats;
    }
}

/// Returns cached blocks to the allocator.
#[unsafe(no_mangle)]
pub extern "C" fn rx_trim(ctx: *mut RxContext) {
    guard(ctx, |context| {
        context.heap.trim();
        0
    });
}
