//! Tensors over a part of another's memory, or with other extents.

use std::ptr::NonNull;

use super::place::{PLACED, list};
use super::{Dims, Made, aligned, bare, byte_size};
use crate::context::{RxContext, Status};
use crate::object::{DLDataType, RxObject, RxTensor, Storage};
use crate::release::{release, retain};
use crate::tensor::look::tensor;

/// Returns where a part of a tensor's memory begins, or why there is none.
fn part(from: &RxTensor, byte_offset: u64, part: &RxTensor) -> Result<*mut u8, (Status, String)> {
    let end = byte_offset.checked_add(part.nbytes);
    if end.is_none_or(|end| end > from.nbytes) {
        let message = format!(
            "rx_tensor_view: {} bytes at {byte_offset} do not lie within {} bytes",
            part.nbytes, from.nbytes
        );
        return Err((Status::Shape, message));
    }
    let data = from.data.cast::<u8>().wrapping_add(byte_offset as usize);
    if part.nbytes > 0 && !aligned(part.dtype, data.cast()) {
        let text = "rx_tensor_view: the view is not aligned to its elements";
        return Err((Status::Argument, text.into()));
    }
    Ok(data)
}

/// A tensor over a part of another's memory.
///
/// # Safety
/// `ctx` is a context, `base` null or a live value of it.
///
/// # Errors
/// [`Status::Argument`] and [`Status::Shape`] where `base` has no such part; as for
/// [`alloc`](super::alloc).
pub unsafe fn view(
    ctx: *mut RxContext,
    base: *mut RxObject,
    byte_offset: u64,
    dtype: DLDataType,
    dims: Dims<'_>,
) -> Made {
    // SAFETY: `ctx` is a context that nobody else uses now, `base` null or a live value.
    let (context, from) = unsafe { (&mut *ctx, tensor(base)) };
    let Some(from) = from else {
        let text = "rx_tensor_view: the base is no tensor";
        return Err(context.refuse(Status::Argument, text));
    };
    let new = bare(context, dtype, dims)?;
    // SAFETY: the tensor is new.
    let data = match part(from, byte_offset, unsafe { new.as_ref() }) {
        Ok(data) => data,
        Err((status, message)) => {
            let status = context.refuse(status, &message);
            // SAFETY: the tensor is new, and given up; the base keeps the context alive.
            unsafe { release(ctx, new.as_ptr().cast()) };
            return Err(status);
        }
    };
    let root = if from.header.tag == Storage::View as u32 {
        from.owner.cast::<RxObject>()
    } else {
        base
    };
    let placed = from.header.flags == PLACED;
    // SAFETY: `root` is the base, or what it keeps alive. The new tensor is nobody else's; where
    // the base lies in a block of memory, so does it.
    unsafe {
        retain(root);
        let t = new.as_ptr();
        (*t).header.tag = Storage::View as u32;
        (*t).owner = root.cast();
        (*t).data = data.cast();
        if placed {
            list(new);
        }
    }
    Ok(new)
}

/// Returns the tensor with another shape of as many elements; consumes `value`.
///
/// # Safety
/// `ctx` is a context, `value` null or a live value of it, a reference to which is given up; the
/// extents are not the tensor's own.
///
/// # Errors
/// [`Status::Argument`] where it is no tensor, [`Status::Shape`] for another number of elements;
/// as for [`alloc`](super::alloc).
pub unsafe fn reshape(ctx: *mut RxContext, value: *mut RxObject, dims: Dims<'_>) -> Made {
    // SAFETY: a live value, or null.
    let (dtype, wrong) = match unsafe { tensor(value) } {
        None => {
            let text = "rx_tensor_reshape: the argument is no tensor".to_owned();
            (DLDataType::U8, Some((Status::Argument, text)))
        }
        Some(t) if byte_size(t.dtype, dims).ok() != Some(t.nbytes) => {
            let (old, new) = (t.extents(), dims.extents);
            let text = format!("a tensor of shape {old:?} cannot take the shape {new:?}");
            (t.dtype, Some((Status::Shape, text)))
        }
        Some(t) => (t.dtype, None),
    };
    if let Some((status, text)) = wrong {
        // SAFETY: the context lives; the reference is given up behind the last use of it.
        unsafe {
            (*ctx).refuse(status, &text);
            release(ctx, value);
        }
        return Err(status);
    }
    let this = value.cast::<RxTensor>();
    // SAFETY: a live tensor.
    if let Some(own) = unsafe { own_extents(this, dims) } {
        // SAFETY: nobody else refers to the tensor, and there is room for the extents behind it.
        unsafe {
            own.copy_from_nonoverlapping(NonNull::from(dims.extents).cast(), dims.extents.len());
            (*this).ndim = dims.rank;
        }
        return NonNull::new(this).ok_or(Status::Internal);
    }
    // SAFETY: the context lives, and the value until its reference is given up.
    unsafe {
        let new = view(ctx, value, 0, dtype, dims);
        release(ctx, value);
        new
    }
}

/// Returns where a tensor's extents can be replaced by others: behind it, in a block of a heap that
/// nobody else refers to. The block has space for as many extents as it was created with, or up to
/// the next 64 bytes.
///
/// # Safety
/// `this` is a live tensor.
unsafe fn own_extents(this: *mut RxTensor, dims: Dims<'_>) -> Option<NonNull<i64>> {
    // SAFETY: a live tensor.
    let t = unsafe { &*this };
    let own = this.wrapping_add(1).cast::<i64>();
    let room = (t.ndim as usize).next_multiple_of(8);
    let fits = t.header.refs == 1
        && t.header.cls != 0
        && t.shape == own
        && dims.extents.len() <= room
        && !dims.extents.is_empty();
    NonNull::new(own).filter(|_| fits)
}
