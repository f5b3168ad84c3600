//! Tensors over a part of another's memory, with other extents, or in a program's own blocks.

use std::ptr::null_mut;

use crate::context::RxContext;
use crate::object::{DLDataType, RxObject};
use crate::tensor::{place, view};

use super::{dims, pointer};

/// A tensor over a part of another's memory.
///
/// # Safety
/// `ctx` is a context, `base` null or a live value, `shape` has `ndim` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tensor_view(
    ctx: *mut RxContext,
    base: *mut RxObject,
    byte_offset: u64,
    dtype: DLDataType,
    ndim: i32,
    shape: *const i64,
) -> *mut RxObject {
    if ctx.is_null() {
        return null_mut();
    }
    // SAFETY: a context, null or a live value of it, and `ndim` extents.
    unsafe {
        let dims = dims(ndim, shape);
        pointer(view::view(ctx, base, byte_offset, dtype, dims))
    }
}

/// Like [`rx_tensor_view`], for a block of memory that a program manages itself: see
/// [`place::place`].
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
    if ctx.is_null() {
        return null_mut();
    }
    // SAFETY: a context, null or a live value of it that is such a block, and `ndim` extents.
    unsafe {
        let dims = dims(ndim, shape);
        pointer(place::place(ctx, block, byte_offset, dtype, dims))
    }
}

/// Returns the tensor with another shape of as many elements; consumes `tensor`.
///
/// # Safety
/// `ctx` is a context, `tensor` an owned value or null, `shape` has `ndim` elements and is not
/// the tensor's own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tensor_reshape(
    ctx: *mut RxContext,
    tensor: *mut RxObject,
    ndim: i32,
    shape: *const i64,
) -> *mut RxObject {
    if ctx.is_null() {
        return null_mut();
    }
    // SAFETY: a context, null or a live value of it whose reference is given up, and `ndim`
    // extents.
    unsafe {
        let dims = dims(ndim, shape);
        pointer(view::reshape(ctx, tensor, dims))
    }
}
