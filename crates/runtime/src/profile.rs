//! The cost of kernels: calls, time, work and memory traffic of each, for programs compiled with
//! profiling.

use std::time::Instant;

use crate::context::RxContext;
use crate::object::{Kind, RxObject, RxTensor};
use crate::values::is;

/// The accumulated cost of one kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxProfileRow {
    /// Number of calls.
    pub calls: u64,
    /// Total time, in nanoseconds.
    pub nanos: u64,
    /// Arithmetic operations.
    pub flops: u64,
    /// Bytes of arguments and results.
    pub bytes: u64,
    /// Time of the shortest call, in nanoseconds.
    pub least: u64,
}

/// One call of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The kernel's number.
    pub kernel: u32,
    /// Its start time, in nanoseconds since [`keep_events`].
    pub start: u64,
    /// Its duration, in nanoseconds.
    pub nanos: u64,
    /// Arithmetic operations.
    pub flops: u64,
    /// Bytes of arguments and results.
    pub bytes: u64,
}

/// The rows of a context, by kernel number.
#[derive(Debug)]
pub struct Profile {
    start: Instant,
    rows: Vec<RxProfileRow>,
    /// Individual calls, where requested: at most `most` since a point in time.
    events: Vec<Event>,
    most: usize,
    since: u64,
}

impl Default for Profile {
    fn default() -> Profile {
        Profile {
            start: Instant::now(),
            rows: Vec::new(),
            events: Vec::new(),
            most: 0,
            since: 0,
        }
    }
}

impl Profile {
    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}

/// The time, to be given to [`rx_profile_end`].
///
/// # Safety
/// `ctx` is a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_profile_begin(ctx: *mut RxContext) -> u64 {
    // SAFETY: `ctx` is live.
    unsafe { (*ctx).profile.now() }
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
    // SAFETY: `ctx` is live, and the lists have so many live tensors, or null.
    unsafe {
        let now = (*ctx).profile.now();
        let mut bytes = 0;
        for (list, n) in [(inputs, n_inputs), (outputs, n_outputs)] {
            for k in 0..n.max(0) as usize {
                let object = *list.add(k);
                if is(object, Kind::Tensor) {
                    bytes += (*object.cast::<RxTensor>()).nbytes;
                }
            }
        }
        let rows = &mut (*ctx).profile.rows;
        let at = kernel.max(0) as usize;
        if rows.len() <= at {
            rows.resize(at + 1, RxProfileRow::default());
        }
        let row = &mut rows[at];
        let took = now.saturating_sub(start);
        row.least = if row.calls == 0 {
            took
        } else {
            row.least.min(took)
        };
        row.calls += 1;
        row.nanos += took;
        row.flops += flops.max(0) as u64;
        row.bytes += bytes;
        let profile = &mut (*ctx).profile;
        if profile.events.len() < profile.most {
            profile.events.push(Event {
                kernel: at as u32,
                start: start.saturating_sub(profile.since),
                nanos: took,
                flops: flops.max(0) as u64,
                bytes,
            });
        }
    }
}

/// Records individual calls of kernels from now on, up to a maximum.
///
/// # Safety
/// `ctx` is a context that is not used concurrently.
pub unsafe fn keep_events(ctx: *mut RxContext, most: usize) {
    // SAFETY: `ctx` is live, and nobody else uses its profile.
    let profile = unsafe { &mut (*ctx).profile };
    (profile.events, profile.most) = (Vec::new(), most);
    profile.since = profile.now();
}

/// Returns the calls recorded since [`keep_events`], in the order in which they ended.
///
/// # Safety
/// As for [`keep_events`].
pub unsafe fn take_events(ctx: *mut RxContext) -> Vec<Event> {
    // SAFETY: `ctx` is live, and nobody else uses its profile.
    unsafe { std::mem::take(&mut (*ctx).profile.events) }
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
    // SAFETY: `ctx` is live, and `out` has room for a row.
    unsafe {
        let rows = &(*ctx).profile.rows;
        *out = rows
            .get(kernel.max(0) as usize)
            .copied()
            .unwrap_or_default();
    }
}

/// Forgets all rows.
///
/// # Safety
/// `ctx` is a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_profile_clear(ctx: *mut RxContext) {
    // SAFETY: `ctx` is live.
    unsafe { (*ctx).profile.rows.clear() }
}
