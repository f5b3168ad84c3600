//! Tensors in blocks of memory that a program manages itself.

use std::ptr::NonNull;

use super::view::view;
use super::{Dims, Made};
use crate::context::{RxContext, Status};
use crate::object::{DLDataType, RxObject, RxTensor};
use crate::release::release;

/// The flag of a tensor in the list of its block.
pub(crate) const PLACED: u8 = 1;

/// The tensors placed in a block, from a word of the list on.
///
/// # Safety
/// `word` is the `scalar` of a live block that [`place`] was given, or of a tensor in its list,
/// and the list does not change meanwhile.
unsafe fn placed<'a>(word: u64) -> impl Iterator<Item = &'a RxTensor> {
    // SAFETY: the words of the list are 0 or addresses of live tensors: `list` and `unplace`.
    let at = |word: u64| unsafe { pointer(word).as_ref() };
    std::iter::successors(at(word), move |t| at(t.scalar))
}

/// A word of a list as a pointer.
fn pointer(word: u64) -> *mut RxTensor {
    std::ptr::with_exposed_provenance_mut(word as usize)
}

/// Like [`view()`], for a block of memory that a program manages itself: the bytes must not overlap
/// those of an earlier tensor placed there that is still alive.
///
/// Invariant: the `scalar` of such a block, which has one axis and so no use for it, is the first
/// of the tensors that are placed in it, and the `scalar` of each (their `data` is in the block)
/// the next; `flags` marks them, and `unplace` unlinks them when they are freed.
///
/// # Safety
/// As for [`view()`]; `block` was created for this purpose only.
///
/// # Errors
/// As for [`view()`], and [`Status::Overlap`].
pub unsafe fn place(
    ctx: *mut RxContext,
    block: *mut RxObject,
    byte_offset: u64,
    dtype: DLDataType,
    dims: Dims<'_>,
) -> Made {
    // SAFETY: the contract is the same.
    let new = unsafe { view(ctx, block, byte_offset, dtype, dims)? };
    // SAFETY: the new view is live, and keeps its owner, the block, alive.
    let (t, owner) = unsafe { (new.as_ref(), &*new.as_ref().owner.cast::<RxTensor>()) };
    let bytes = |t: &RxTensor| {
        let from = t.data.addr();
        (from, from + t.nbytes as usize)
    };
    let (from, to) = bytes(t);
    let over = |t: &&RxTensor| {
        let (low, high) = bytes(t);
        low.max(from) < high.min(to)
    };
    // SAFETY: the list of a live block.
    let Some(used) = unsafe { placed(owner.scalar) }.find(over) else {
        // SAFETY: a live view that is in no list, and its owner.
        unsafe { list(new) };
        return Ok(new);
    };
    let ((low, high), start) = (bytes(used), owner.data.addr());
    let message = format!(
        "a tensor in bytes {} to {} of a block of memory is still used: bytes {} to {} cannot be given to another",
        low - start,
        high - start,
        from - start,
        to - start
    );
    // SAFETY: the context lives; the view is given up, which is not in the list.
    unsafe {
        let status = (*ctx).refuse(Status::Overlap, &message);
        release(ctx, new.as_ptr().cast());
        Err(status)
    }
}

/// Links a view into the list of those placed in its owner, a block of memory.
///
/// # Safety
/// `tensor` is a live view of such a block, and in no list.
pub(super) unsafe fn list(tensor: NonNull<RxTensor>) {
    let t = tensor.as_ptr();
    // SAFETY: the view is live and keeps its owner alive; nobody else uses them now.
    unsafe {
        let owner = (*t).owner.cast::<RxTensor>();
        (*t).header.flags = PLACED;
        (*t).scalar = (*owner).scalar;
        (*owner).scalar = t.expose_provenance() as u64;
    }
}

/// Unlinks a tensor that is freed from the list of those placed in its block.
///
/// # Safety
/// `tensor` is marked as placed, and its owner lives.
pub(crate) unsafe fn unplace(tensor: *mut RxTensor) {
    // SAFETY: `tensor` is live and placed in its owner, whose list consists of live tensors and
    // ends with 0, by the invariant at `place`.
    unsafe {
        let mut at = &raw mut (*(*tensor).owner.cast::<RxTensor>()).scalar;
        while *at != 0 {
            let next = pointer(*at);
            if next == tensor {
                *at = (*tensor).scalar;
                return;
            }
            at = &raw mut (*next).scalar;
        }
    }
}
