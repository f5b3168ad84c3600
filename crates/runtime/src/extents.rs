//! Reporting of the extent that a kernel was not compiled for.

use std::ffi::{CStr, c_char};
use std::ptr::null;

use crate::context::{RxContext, Status, rx_fail_values};
use crate::object::RxTensor;

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
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the words come first, three for each.
    let words = unsafe { std::slice::from_raw_parts(table, 3 * count) };
    // SAFETY: the messages follow.
    let mut message = unsafe { table.add(3 * count) }.cast::<c_char>();
    let mut values = [0; 2];
    for w in words.chunks_exact(3) {
        let &[from, axis, needed] = w else { break };
        // SAFETY: the tensor is one of those that were given, and has the axis.
        let found = unsafe {
            let tensor = match usize::try_from(from) {
                Ok(input) => *inputs.add(input),
                Err(_) => *outputs.add((-1 - from) as usize),
            };
            *(*tensor).shape.add(axis as usize)
        };
        values = [found, needed];
        if found != needed {
            break;
        }
        // SAFETY: each message ends with a NUL, and one follows for each extent.
        message = unsafe { message.add(CStr::from_ptr(message).count_bytes() + 1) };
    }
    let status = Status::Extent as i32;
    // SAFETY: the message is a text, there are two values.
    unsafe { rx_fail_values(ctx, status, null(), message, values.as_ptr(), 2) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{rx_context_create, rx_context_destroy, rx_last_error};
    use crate::release::rx_release;
    use crate::tensor::rx_alloc_tensor;

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
