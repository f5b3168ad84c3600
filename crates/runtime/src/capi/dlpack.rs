//! Import and export of tensors of other libraries.

use std::ffi::c_void;
use std::ptr::null_mut;

use crate::context::{RxContext, Status};
use crate::dlpack::{CPU, DLManagedTensor, DLTensor, compact, compact_strides, delete};
use crate::kernels::strided;
use crate::object::{RxObject, RxTensor, Storage};
use crate::release::release;
use crate::tensor::look::tensor;
use crate::tensor::{self, Dims, aligned, extents, settle_booleans};
use crate::values::{scratch_alloc, scratch_free};

use super::make;
use super::tensors::{rx_tensor_borrow, rx_tensor_copy};

/// How a tensor is taken over.
enum Way {
    /// Its memory is used, and its owner is told when that ends.
    Use,
    /// Misaligned elements are copied to aligned memory.
    Copy,
    /// Elements with gaps between them are copied together.
    Gather,
}

/// Takes over a DLPack tensor.
///
/// # Safety
/// `ctx` is a context, `managed` a valid DLPack tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_from_dlpack(
    ctx: *mut RxContext,
    managed: *mut DLManagedTensor,
) -> *mut RxObject {
    // SAFETY: null or a context, and null or a structure.
    let (context, managed_tensor) = unsafe { (ctx.as_mut(), managed.as_ref()) };
    let Some(context) = context else {
        return null_mut();
    };
    // SAFETY: the structure is a valid one.
    let way = unsafe { way_of(managed_tensor.map(|m| &m.dl_tensor)) };
    let (from, way) = match way {
        Ok(found) => found,
        Err(text) => {
            context.fail(Status::Argument, &text);
            return null_mut();
        }
    };
    let data = first(&from).cast::<c_void>();
    // SAFETY: a context; the tensor has `ndim` extents, and its elements where `way_of` looked.
    let new = unsafe {
        match way {
            Way::Use => rx_tensor_borrow(ctx, from.dtype, from.ndim, from.shape, data),
            Way::Copy => rx_tensor_copy(ctx, from.dtype.canonical(), from.ndim, from.shape, data),
            Way::Gather => gather(ctx, &from),
        }
    };
    // SAFETY: null, or a new tensor.
    let Some(header) = (unsafe { new.as_mut() }) else {
        return null_mut();
    };
    if header.tag != Storage::Borrowed as u32 {
        // SAFETY: a copy was made: the exporter's memory is not used any more.
        unsafe { delete(managed) };
        return new;
    }
    header.tag = Storage::DLPack as u32;
    // SAFETY: a new tensor, which keeps what it borrows from.
    unsafe { (*new.cast::<RxTensor>()).owner = managed.cast() };
    new
}

/// The first element of a tensor.
fn first(from: &DLTensor) -> *mut u8 {
    from.data
        .cast::<u8>()
        .wrapping_add(from.byte_offset as usize)
}

/// Returns a tensor with the way to take it over, or why there is none.
///
/// # Safety
/// The tensor has as many extents and strides as its rank says.
unsafe fn way_of(from: Option<&DLTensor>) -> Result<(DLTensor, Way), String> {
    let from = from.ok_or("rx_from_dlpack: no tensor")?;
    let device = from.device.device_type;
    if device != CPU {
        return Err(format!(
            "rx_from_dlpack: device type {device} is not the processor (1)"
        ));
    }
    // SAFETY: `ndim` extents, and as many strides unless they are null.
    let (shape, strides) = unsafe {
        (
            extents(from.ndim, from.shape),
            extents(from.ndim, from.strides),
        )
    };
    if from.data.is_null() && !shape.contains(&0) {
        return Err("rx_from_dlpack: the tensor has no data".into());
    }
    let near = aligned(from.dtype.canonical(), first(from).cast());
    let dense = from.strides.is_null() || compact(shape, strides);
    let way = match (dense, near) {
        (true, true) => Way::Use,
        (true, false) => Way::Copy,
        (false, true) => Way::Gather,
        (false, false) => {
            let text = "rx_from_dlpack: a tensor with gaps is not aligned to its elements";
            return Err(text.into());
        }
    };
    Ok((*from, way))
}

/// A compact copy of a tensor with gaps; null after an error.
///
/// # Safety
/// `ctx` is a context; the tensor has as many extents and strides as its rank says, its elements,
/// and they are aligned.
unsafe fn gather(ctx: *mut RxContext, from: &DLTensor) -> *mut RxObject {
    // SAFETY: `ndim` extents and strides.
    let (shape, strides) = unsafe {
        (
            extents(from.ndim, from.shape),
            extents(from.ndim, from.strides),
        )
    };
    let copied = |context: &mut RxContext| {
        let new = tensor::alloc(context, from.dtype, Dims::of(from.ndim, shape))?;
        let size = from.dtype.canonical().size() as usize;
        let to = compact_strides(shape);
        // SAFETY: the strides lead to elements that both tensors have, of `size` bytes; the new one
        // is nobody else's.
        unsafe {
            let data = new.as_ref().data.cast();
            strided::copy(size, shape, first(from), strides, data, &to);
            settle_booleans(new);
        }
        Ok(new)
    };
    // SAFETY: a context.
    unsafe { make(ctx, copied) }
}

/// The owner of an exported tensor's data: its context and the value, after the DLPack structure.
#[repr(C)]
struct Export {
    managed: DLManagedTensor,
    ctx: *mut RxContext,
    tensor: *mut RxObject,
}

/// Ends another library's use of a tensor.
///
/// # Safety
/// `managed` came from [`rx_to_dlpack`], and is not used any more.
unsafe extern "C" fn end_export(managed: *mut DLManagedTensor) {
    // SAFETY: `rx_to_dlpack` made an `Export`. Its context outlives it, since it is scratch memory
    // of that context's heap, which counts until it is freed: last.
    unsafe {
        let export = managed.cast::<Export>();
        let (ctx, tensor) = ((*export).ctx, (*export).tensor);
        release(ctx, tensor);
        scratch_free(ctx, managed.cast());
    }
}

/// Gives a tensor to another library; consumes it.
///
/// # Safety
/// `ctx` is a context, `tensor` an owned value of it or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_to_dlpack(
    ctx: *mut RxContext,
    tensor: *mut RxObject,
) -> *mut DLManagedTensor {
    // SAFETY: null or a context, and null or a live value.
    let (context, found) = unsafe { (ctx.as_mut(), self::tensor(tensor)) };
    let Some(context) = context else {
        return null_mut();
    };
    let Some(t) = found else {
        context.fail(Status::Argument, "rx_to_dlpack: the argument is no tensor");
        // SAFETY: null or a value of the context, whose reference is given up.
        unsafe { release(ctx, tensor) };
        return null_mut();
    };
    let dl_tensor = DLTensor::from(t);
    // SAFETY: a context, which nobody else uses now.
    let export = unsafe { scratch_alloc(ctx, size_of::<Export>() as u64) }.cast::<Export>();
    if export.is_null() {
        // SAFETY: a value of the context, whose reference is given up.
        unsafe { release(ctx, tensor) };
        return null_mut();
    }
    let managed = DLManagedTensor {
        dl_tensor,
        manager_ctx: ctx.cast(),
        deleter: Some(end_export),
    };
    let made = Export {
        managed,
        ctx,
        tensor,
    };
    // SAFETY: new scratch memory of the structure's size, aligned to 64.
    unsafe { export.write(made) };
    export.cast()
}
