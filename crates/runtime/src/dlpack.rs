//! Import and export of tensors of other libraries, by DLPack.

use crate::context::{RxContext, Status};
use crate::object::{DLDataType, Kind, RxObject, RxTensor, Storage};
use crate::release::rx_release;
use crate::tensor::{
    aligned, extents, rx_alloc_tensor, rx_tensor_borrow, rx_tensor_copy, settle_booleans,
};
use crate::values::{is, rx_scratch_alloc, rx_scratch_free};
use std::ffi::c_void;
use std::ptr::null_mut;

/// DLPack's device.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DLDevice {
    /// 1 is the CPU; nothing else is accepted.
    pub device_type: i32,
    /// 0.
    pub device_id: i32,
}

/// DLPack's tensor.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DLTensor {
    /// Start of the memory.
    pub data: *mut c_void,
    /// Its device.
    pub device: DLDevice,
    /// Rank.
    pub ndim: i32,
    /// Element type.
    pub dtype: DLDataType,
    /// Extents.
    pub shape: *mut i64,
    /// Strides in elements; null is compact and row-major.
    pub strides: *mut i64,
    /// Offset of the first element from `data`.
    pub byte_offset: u64,
}

/// DLPack's tensor with its destructor.
#[repr(C)]
pub struct DLManagedTensor {
    /// The tensor.
    pub dl_tensor: DLTensor,
    /// The exporter's.
    pub manager_ctx: *mut c_void,
    /// Ends the importer's use.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

/// Runs the deleter.
///
/// # Safety
/// `managed` is null or live, and not used any more.
pub(crate) unsafe fn delete(managed: *mut DLManagedTensor) {
    // SAFETY: `managed` is null or live, and not used any more.
    unsafe {
        if let Some(deleter) = managed.as_ref().and_then(|m| m.deleter) {
            deleter(managed);
        }
    }
}

/// Returns whether the strides are those of a compact row-major tensor.
fn compact(shape: &[i64], strides: &[i64]) -> bool {
    let mut expected = 1;
    let empty = shape.contains(&0);
    for (&extent, &stride) in shape.iter().zip(strides).rev() {
        if extent != 1 && stride != expected && !empty {
            return false;
        }
        expected = i64::wrapping_mul(expected, extent);
    }
    true
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
    // SAFETY: `ctx` is null or live, and `managed` null or a live tensor with as many extents as it
    // says.
    unsafe {
        if ctx.is_null() {
            return null_mut();
        }
        let Some(from) = managed.as_ref().map(|m| m.dl_tensor) else {
            (*ctx).fail(Status::Argument, "rx_from_dlpack: no tensor");
            return null_mut();
        };
        if from.device.device_type != 1 {
            let device = from.device.device_type;
            let text = format!("rx_from_dlpack: device type {device} is not the processor (1)");
            (*ctx).fail(Status::Argument, &text);
            return null_mut();
        }
        let data = from
            .data
            .cast::<u8>()
            .wrapping_add(from.byte_offset as usize);
        let shape = extents(from.ndim, from.shape);
        let dtype = from.dtype.canonical();
        let near = aligned(dtype, data.cast());
        if from.data.is_null() && !shape.contains(&0) {
            (*ctx).fail(Status::Argument, "rx_from_dlpack: the tensor has no data");
            return null_mut();
        }
        let dense = from.strides.is_null() || compact(shape, extents(from.ndim, from.strides));
        if dense && !near {
            // Misaligned elements are copied to aligned memory.
            let tensor = rx_tensor_copy(ctx, dtype, from.ndim, from.shape, data.cast());
            if !tensor.is_null() {
                delete(managed);
            }
            return tensor;
        }
        if !dense {
            if !near {
                let text = "rx_from_dlpack: a tensor with gaps is not aligned to its elements";
                (*ctx).fail(Status::Argument, text);
                return null_mut();
            }
            let tensor = rx_alloc_tensor(ctx, from.dtype, from.ndim, from.shape);
            if tensor.is_null() {
                return null_mut();
            }
            let mut dense: Vec<i64> = vec![1; shape.len()];
            for i in (1..shape.len()).rev() {
                dense[i - 1] = i64::wrapping_mul(dense[i], shape[i]);
            }
            let size = from.dtype.canonical().size() as usize;
            let to = (*tensor.cast::<RxTensor>()).data;
            let strides = extents(from.ndim, from.strides);
            crate::kernels::strided::copy(size, shape, data, strides, to.cast(), &dense);
            settle_booleans(tensor.cast());
            delete(managed);
            return tensor;
        }
        let tensor = rx_tensor_borrow(ctx, from.dtype, from.ndim, from.shape, data.cast());
        if !tensor.is_null() && (*tensor).tag != Storage::Borrowed as u32 {
            // A copy.
            delete(managed);
            return tensor;
        }
        if !tensor.is_null() {
            (*tensor).tag = Storage::DLPack as u32;
            (*tensor.cast::<RxTensor>()).owner = managed.cast();
        }
        tensor
    }
}

/// The owner of an exported tensor's data: its context and the value, after the DLPack structure.
#[repr(C)]
struct Export {
    managed: DLManagedTensor,
    ctx: *mut RxContext,
    tensor: *mut RxObject,
}

unsafe extern "C" fn end_export(managed: *mut DLManagedTensor) {
    // SAFETY: `rx_to_dlpack` made it; the context outlives it, since the block is in its heap.
    unsafe {
        let export = managed.cast::<Export>();
        let (ctx, tensor) = ((*export).ctx, (*export).tensor);
        rx_release(ctx, tensor);
        rx_scratch_free(ctx, managed.cast());
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
    // SAFETY: `ctx` is null or live, and the tensor is live.
    unsafe {
        if ctx.is_null() {
            return null_mut();
        }
        if !is(tensor, Kind::Tensor) {
            (*ctx).fail(Status::Argument, "rx_to_dlpack: the argument is no tensor");
            rx_release(ctx, tensor);
            return null_mut();
        }
        let export = rx_scratch_alloc(ctx, size_of::<Export>() as u64).cast::<Export>();
        if export.is_null() {
            rx_release(ctx, tensor);
            return null_mut();
        }
        let t = &*tensor.cast::<RxTensor>();
        let dl_tensor = DLTensor {
            data: t.data,
            device: DLDevice {
                device_type: 1,
                device_id: 0,
            },
            ndim: t.ndim,
            dtype: t.dtype,
            shape: t.shape,
            strides: null_mut(),
            byte_offset: 0,
        };
        let managed = DLManagedTensor {
            dl_tensor,
            manager_ctx: ctx.cast(),
            deleter: Some(end_export),
        };
        export.write(Export {
            managed,
            ctx,
            tensor,
        });
        export.cast()
    }
}
