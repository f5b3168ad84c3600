//! Tensors over a part of another's memory, or with other extents.

use std::ptr::{copy_nonoverlapping, null_mut};

use super::place::{PLACED, list};
use super::{aligned, block, byte_size, extents};
use crate::context::{RxContext, Status};
use crate::object::{DLDataType, Kind, RxObject, RxTensor, Storage};
use crate::release::{rx_release, rx_retain};
use crate::values::is;

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
    // SAFETY: `ctx` is null or live, the tensor is live, and `shape` has `ndim` numbers.
    unsafe {
        if ctx.is_null() {
            return null_mut();
        }
        if !is(base, Kind::Tensor) {
            (*ctx).fail(Status::Argument, "rx_tensor_view: the base is no tensor");
            return null_mut();
        }
        let tensor = block(ctx, dtype, ndim, shape, None);
        if tensor.is_null() {
            return null_mut();
        }
        let from = base.cast::<RxTensor>();
        let end = byte_offset.checked_add((*tensor).nbytes);
        if end.is_none_or(|end| end > (*from).nbytes) {
            let message = format!(
                "rx_tensor_view: {} bytes at {byte_offset} do not lie within {} bytes",
                (*tensor).nbytes,
                (*from).nbytes
            );
            (*ctx).fail(Status::Shape, &message);
            rx_release(ctx, tensor.cast());
            return null_mut();
        }
        let data = (*from).data.cast::<u8>().wrapping_add(byte_offset as usize);
        if (*tensor).nbytes > 0 && !aligned((*tensor).dtype, data.cast()) {
            let text = "rx_tensor_view: the view is not aligned to its elements";
            (*ctx).fail(Status::Argument, text);
            rx_release(ctx, tensor.cast());
            return null_mut();
        }
        let root = if (*from).header.tag == Storage::View as u32 {
            (*from).owner.cast::<RxObject>()
        } else {
            base
        };
        rx_retain(root);
        (*tensor).header.tag = Storage::View as u32;
        (*tensor).owner = root.cast();
        (*tensor).data = data.cast();
        if (*from).header.flags == PLACED {
            list(tensor);
        }
        tensor.cast()
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
    // SAFETY: `ctx` is null or live, the tensor is live, and `shape` has `ndim` numbers.
    unsafe {
        if ctx.is_null() {
            return null_mut();
        }
        if !is(tensor, Kind::Tensor) {
            rx_release(ctx, tensor);
            (*ctx).fail(
                Status::Argument,
                "rx_tensor_reshape: the argument is no tensor",
            );
            return null_mut();
        }
        let t = tensor.cast::<RxTensor>();
        let dims = extents(ndim, shape);
        let fits = byte_size((*t).dtype, ndim, dims);
        if fits.as_ref().ok() != Some(&(*t).nbytes) {
            let old = extents((*t).ndim, (*t).shape);
            let message = format!("a tensor of shape {old:?} cannot take the shape {dims:?}");
            rx_release(ctx, tensor);
            (*ctx).fail(Status::Shape, &message);
            return null_mut();
        }
        // The block has space for as many extents as it was created with, or up to the next 64
        // bytes.
        let own_shape = t.cast::<u8>().add(64).cast::<i64>();
        let room = ((*t).ndim as usize).next_multiple_of(8);
        let inplace = (*t).header.refs == 1
            && (*t).header.cls != 0
            && (*t).shape == own_shape
            && dims.len() <= room
            && !dims.is_empty();
        if inplace {
            copy_nonoverlapping(dims.as_ptr(), own_shape, dims.len());
            (*t).ndim = ndim;
            return tensor;
        }
        let view = rx_tensor_view(ctx, tensor, 0, (*t).dtype, ndim, shape);
        rx_release(ctx, tensor);
        view
    }
}
