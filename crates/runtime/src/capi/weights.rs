//! Constants in a file of their own.

use crate::context::{RxContext, Status, guard};
use crate::weights::{RxWeight, RxWeights, TABLE_HEAD};

use super::{slice, text};

/// Maps the weights' file (reads it where it is small, or `RELAX_WEIGHTS_COPY` is 1) and sets the
/// data of the tensors in the table, once for the process: see [`RxWeights::load`].
///
/// # Safety
/// `weights` is a table that `relaxc` made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_weights_map(ctx: *mut RxContext, weights: *const RxWeights) -> i32 {
    // SAFETY: a table in the data of a program that lives.
    let table = unsafe { &*weights };
    if table.is_ready() {
        return 0;
    }
    guard(ctx, |context| {
        // SAFETY: the table's name of the file ends with a NUL, and `count` tensors follow behind
        // its head.
        let (name, tensors) = unsafe {
            let first = weights.cast::<u8>().add(TABLE_HEAD).cast::<RxWeight>();
            (text(table.file), slice(first, table.count))
        };
        let set = |bytes: &'static [u8]| {
            for &RxWeight { tensor, offset } in tensors {
                let data = bytes.as_ptr().wrapping_add(offset as usize);
                // SAFETY: the tensor's elements lie in the file at that offset, whose hash is
                // right, and nobody reads the tensor before the table is ready.
                unsafe { (*tensor).data = data.cast_mut().cast() };
            }
        };
        match table.load(&name, set) {
            Ok(()) => 0,
            Err(message) => context.fail(Status::Argument, &message),
        }
    })
}
