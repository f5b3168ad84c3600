//! Tensors in blocks of memory that a program manages itself.

use std::ptr::null_mut;

use super::view::rx_tensor_view;
use crate::context::{RxContext, Status};
use crate::object::{DLDataType, RxObject, RxTensor};
use crate::release::rx_release;

/// The flag of a tensor in the list of its block.
pub(crate) const PLACED: u8 = 1;

/// Like [`rx_tensor_view`], for a block of memory that a program manages itself: the bytes must not
/// overlap those of an earlier tensor placed there that is still alive.
///
/// Invariant: the `scalar` of such a block, which has one axis and so no use for it, is the first
/// of the tensors that are placed in it, and the `scalar` of each (their `data` is in the block)
/// the next; `flags` marks them, and `unplace` unlinks them when they are freed.
///
/// # Safety
/// Like [`rx_tensor_view`]; `block` was created for this purpose only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_place_tensor(
    ctx: *mut RxContext,
    block: *mut RxObject,
    byte_offset: u64,
    dtype: DLDataType,
    ndim: i32,
    shape: *const i64,
) -> *mut RxObject {
    // SAFETY: `ctx` and `block` are live, and `shape` has `ndim` numbers.
    unsafe {
        let placed = rx_tensor_view(ctx, block, byte_offset, dtype, ndim, shape);
        if placed.is_null() {
            return null_mut();
        }
        let owner = (*placed.cast::<RxTensor>()).owner.cast::<RxTensor>();
        let bytes = |t: *mut RxTensor| {
            let from = (*t).data as usize;
            (from, from + (*t).nbytes as usize)
        };
        let (from, to) = bytes(placed.cast());
        let mut at = (*owner).scalar as *mut RxTensor;
        while !at.is_null() {
            let (low, high) = bytes(at);
            if low.max(from) < high.min(to) {
                let start = (*owner).data as usize;
                let message = format!(
                    "a tensor in bytes {} to {} of a block of memory is still used: bytes {} to {} cannot be given to another",
                    low - start,
                    high - start,
                    from - start,
                    to - start
                );
                (*ctx).fail(Status::Overlap, &message);
                rx_release(ctx, placed);
                return null_mut();
            }
            at = (*at).scalar as *mut RxTensor;
        }
        list(placed.cast());
        placed
    }
}

/// Links a view into the list of those placed in its owner, a block of memory.
pub(super) unsafe fn list(tensor: *mut RxTensor) {
    // SAFETY: the callers made the view.
    unsafe {
        let owner = (*tensor).owner.cast::<RxTensor>();
        (*tensor).header.flags = PLACED;
        (*tensor).scalar = (*owner).scalar;
        (*owner).scalar = tensor as u64;
    }
}

/// Unlinks a tensor that is freed from the list of those placed in its block.
///
/// # Safety
/// `tensor` is marked as placed, and its owner lives.
pub(crate) unsafe fn unplace(tensor: *mut RxTensor) {
    // SAFETY: `tensor` is live and placed in its owner, whose list ends with 0, by the invariant at
    // `rx_place_tensor`.
    unsafe {
        let mut at = &raw mut (*(*tensor).owner.cast::<RxTensor>()).scalar;
        while *at != 0 {
            let next = *at as *mut RxTensor;
            if next == tensor {
                *at = (*tensor).scalar;
                return;
            }
            at = &raw mut (*next).scalar;
        }
    }
}
