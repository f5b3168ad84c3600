//! Calls of kernels by generated code: results, the call, what follows a failure, arguments that
//! die, in one function. Code that only calls kernels is a third of the size with it.

use std::ptr::null_mut;

use crate::context::RxContext;
use crate::launch::{RxLaunch, output_of};
use crate::object::RxObject;
use crate::release::release;

use super::errors::rx_fail_at;
use super::release_all;
use super::tensors::{rx_alloc_tensor, rx_reuse_tensor};

/// Allocates results, calls a kernel, and releases the inputs that it was the last to use. Returns
/// 0, or another number after an error was recorded; then there are no results, and the inputs
/// are not released.
///
/// # Safety
/// `ctx` is a context, and `launch` is valid. `inputs` are live values, as many as the kernel
/// takes, those in `released` owned; `outputs` has room for the results, and holds a live value
/// where one takes the memory of a dead tensor. `given` has a word for each result, followed by its
/// extents unless the kernel allocates it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_launch(
    ctx: *mut RxContext,
    launch: *const RxLaunch,
    inputs: *const *mut RxObject,
    outputs: *mut *mut RxObject,
    given: *const i64,
) -> i32 {
    // SAFETY: a description in read-only data of a program that lives.
    let launch = unsafe { &*launch };
    let results = launch.results as usize;
    let mut given = given;
    for made in 0..results {
        // SAFETY: one of `results` places; `given` stands at the result's word.
        let result = unsafe { allocate(ctx, outputs.add(made), &mut given) };
        if !result {
            // SAFETY: the place's text ends with a NUL; the first `made` results are set.
            unsafe {
                rx_fail_at(ctx, launch.place, 0);
                release_all(ctx, std::slice::from_raw_parts(outputs, made));
            }
            return 1;
        }
    }
    let status = launch.kernel.map_or(1, |kernel| {
        // SAFETY: the kernel's own inputs, and room for its results.
        unsafe { kernel(ctx, inputs, outputs) }
    });
    if status != 0 {
        // SAFETY: the place's text ends with a NUL. Results are what was allocated here, or by the
        // kernel before it failed, or null.
        unsafe {
            rx_fail_at(ctx, launch.place, launch.also);
            release_all(ctx, std::slice::from_raw_parts(outputs, results));
        }
        return status;
    }
    let mut released = launch.released;
    while released != 0 {
        // SAFETY: each bit stands for an input that is owned, whose reference is given up.
        unsafe { release(ctx, *inputs.add(released.trailing_zeros() as usize)) };
        released &= released - 1;
    }
    0
}

/// Sets a result to a tensor, or to null where the kernel allocates it, and moves `given` behind
/// the result's words. Returns false where no tensor could be allocated: the result is null then.
///
/// # Safety
/// `ctx` is a context. `output` is a place for a result, with a live value where that takes the
/// memory of a dead tensor; `given` has its word, followed by as many extents as that says.
#[inline]
unsafe fn allocate(
    ctx: *mut RxContext,
    output: *mut *mut RxObject,
    given: &mut *const i64,
) -> bool {
    // SAFETY: the result's word is there, and something may stand behind it.
    let (word, extents) = unsafe { (given.read(), given.add(1)) };
    let Some(result) = output_of(word) else {
        *given = extents;
        // SAFETY: a place for a result.
        unsafe { output.write(null_mut()) };
        return true;
    };
    let (dtype, rank) = (result.dtype, i32::from(result.rank));
    // SAFETY: a context, `rank` extents, and a live value where one is reused.
    unsafe {
        *given = extents.add(result.rank.into());
        let tensor = match result.reuses {
            false => rx_alloc_tensor(ctx, dtype, rank, extents),
            true => rx_reuse_tensor(ctx, *output, dtype, rank, extents),
        };
        output.write(tensor);
        !tensor.is_null()
    }
}
