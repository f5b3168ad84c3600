//! Calls of kernels by generated code: results, the call, what follows a failure, arguments that
//! die, in one function. Code that only calls kernels is a third of the size with it.

use std::ffi::c_char;
use std::ptr::null_mut;

use crate::context::{RxContext, rx_fail_at};
use crate::object::{DLDataType, RxObject};
use crate::release::rx_release;
use crate::tensor::grow::rx_reuse_tensor;
use crate::tensor::rx_alloc_tensor;

/// The code of a kernel.
pub type Kernel =
    unsafe extern "C" fn(*mut RxContext, *const *mut RxObject, *mut *mut RxObject) -> i32;

/// A call, in read-only data.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RxLaunch {
    /// The kernel's code.
    pub kernel: Option<Kernel>,
    /// Where the call stands.
    pub place: *const c_char,
    /// Whether an error with a place of its own gets this one, too.
    pub also: i32,
    /// Number of results.
    pub results: i32,
    /// The inputs that are released after the call: a bit for each, the lowest for the first.
    pub released: u64,
}

/// The word of a result that the kernel allocates.
pub const BY_KERNEL: i64 = -1;
/// The bit of a result that takes the memory of a dead tensor.
const REUSES: i64 = 1 << 62;

/// Returns the word of a result: its element type and rank, and whether it takes the memory of a
/// dead tensor.
pub fn word_of(dtype: u32, rank: u16, reuses: bool) -> i64 {
    i64::from(dtype) | i64::from(rank) << 32 | if reuses { REUSES } else { 0 }
}

fn dtype_of(word: u32) -> DLDataType {
    let [code, bits, low, high] = word.to_le_bytes();
    DLDataType {
        code,
        bits,
        lanes: u16::from_le_bytes([low, high]),
    }
}

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
    // SAFETY: `ctx` and `launch` are live, `outputs` has `results` values of which the first ones
    // are written, `given` as many words with their extents, and `inputs` a value for each bit of
    // `released`.
    unsafe {
        let RxLaunch {
            kernel,
            place,
            also,
            results,
            mut released,
        } = *launch;
        let mut given = given;
        for i in 0..results as usize {
            let (output, word) = (outputs.add(i), *given);
            given = given.add(1);
            if word == BY_KERNEL {
                *output = null_mut();
                continue;
            }
            let (dtype, rank) = (dtype_of(word as u32), (word >> 32) as u16);
            let tensor = match word & REUSES {
                0 => rx_alloc_tensor(ctx, dtype, rank.into(), given),
                _ => rx_reuse_tensor(ctx, *output, dtype, rank.into(), given),
            };
            given = given.add(rank.into());
            *output = tensor;
            if tensor.is_null() {
                rx_fail_at(ctx, place, 0);
                (0..i).for_each(|i| rx_release(ctx, *outputs.add(i)));
                return 1;
            }
        }
        let status = kernel.map_or(1, |kernel| kernel(ctx, inputs, outputs));
        if status != 0 {
            rx_fail_at(ctx, place, also);
            // What was allocated here, or by the kernel before it failed; else null.
            (0..results as usize).for_each(|i| rx_release(ctx, *outputs.add(i)));
            return status;
        }
        while released != 0 {
            rx_release(ctx, *inputs.add(released.trailing_zeros() as usize));
            released &= released - 1;
        }
        0
    }
}
