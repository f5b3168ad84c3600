//! Parallel loops.

use std::ffi::c_void;

use crate::context::RxContext;
use crate::threads::{Grain, RangeFn, Share};

/// Splits a range among the context's threads. `grain` indices are surely worth a thread; fewer
/// are shared when those that run first take long enough.
///
/// # Safety
/// `ctx` is a context; `function` may be called with `data` from any thread, for disjoint ranges
/// at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_parallel_for(
    ctx: *mut RxContext,
    n: i64,
    grain: i64,
    function: Option<RangeFn>,
    data: *mut c_void,
) {
    // SAFETY: null or a context.
    let (Some(function), Some(context)) = (function, unsafe { ctx.as_ref() }) else {
        return;
    };
    // SAFETY: the function takes the data from any thread, for disjoint ranges.
    let data = unsafe { Share::new(data) };
    let grain = Grain::estimated(grain);
    context
        .pool
        .each(n.max(0) as usize, grain, |begin, end, worker| {
            // SAFETY: the function is for this data, and the ranges are disjoint parts of `0..n`.
            unsafe { function(*data.get(), begin as i64, end as i64, worker as i32) };
        });
}
