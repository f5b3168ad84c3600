//! The cost of kernels, for programs compiled with profiling.

use crate::context::RxContext;
use crate::object::RxObject;
use crate::profile::RxProfileRow;
use crate::tensor::look::tensor;

use super::slice;

/// The number of a kernel as an index.
fn index(kernel: i32) -> usize {
    kernel.max(0) as usize
}

/// The time, to be given to [`rx_profile_end`].
///
/// # Safety
/// `ctx` is a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_profile_begin(ctx: *mut RxContext) -> u64 {
    // SAFETY: a context, which nobody else uses now.
    unsafe { &(*ctx).profile }.begin()
}

/// Adds a call of a kernel.
///
/// # Safety
/// `ctx` is a context; `inputs` and `outputs` point to `n_inputs` and `n_outputs` live values or
/// nulls.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)] // called by generated code only
pub unsafe extern "C" fn rx_profile_end(
    ctx: *mut RxContext,
    kernel: i32,
    start: u64,
    inputs: *const *mut RxObject,
    n_inputs: i32,
    outputs: *const *mut RxObject,
    n_outputs: i32,
    flops: i64,
) {
    // SAFETY: there are `n_inputs` and `n_outputs` values.
    let lists = unsafe { [slice(inputs, n_inputs), slice(outputs, n_outputs)] };
    // SAFETY: each is null or a live value.
    let tensors = lists.into_iter().flatten().map(|&v| unsafe { tensor(v) });
    let bytes = tensors.flatten().map(|t| t.nbytes).sum();
    // SAFETY: a context, which nobody else uses now.
    let profile = unsafe { &mut (*ctx).profile };
    profile.end(index(kernel), start, bytes, flops.max(0) as u64);
}

/// Returns the accumulated cost of a kernel; zeros when it has not run.
///
/// # Safety
/// `ctx` is a context, `out` has room for a row.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_profile_row(
    ctx: *const RxContext,
    kernel: i32,
    out: *mut RxProfileRow,
) {
    // SAFETY: a context, and room for one row.
    unsafe {
        let profile = &(*ctx).profile;
        out.write(profile.row(index(kernel)));
    }
}

/// Forgets all rows.
///
/// # Safety
/// `ctx` is a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_profile_clear(ctx: *mut RxContext) {
    // SAFETY: a context, which nobody else uses now.
    unsafe { &mut (*ctx).profile }.clear();
}
