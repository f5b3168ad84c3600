//! Tensors of other libraries, by DLPack.

use crate::object::{DLDataType, RxTensor};
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

/// The device type of the processor's own memory.
pub(crate) const CPU: i32 = 1;

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
/// `managed` is null or a structure that its exporter has not ended, and is not used any more.
pub(crate) unsafe fn delete(managed: *mut DLManagedTensor) {
    // SAFETY: null or a live structure.
    if let Some(deleter) = unsafe { managed.as_ref() }.and_then(|m| m.deleter) {
        // SAFETY: the exporter's deleter, called once, for nobody uses the structure behind it.
        unsafe { deleter(managed) };
    }
}

/// Returns true if the strides are those of a compact row-major tensor.
pub(crate) fn compact(shape: &[i64], strides: &[i64]) -> bool {
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

/// Returns the strides of a compact row-major tensor.
pub(crate) fn compact_strides(shape: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = i64::wrapping_mul(strides[i], shape[i]);
    }
    strides
}

impl From<&RxTensor> for DLTensor {
    fn from(tensor: &RxTensor) -> DLTensor {
        DLTensor {
            data: tensor.data,
            device: DLDevice {
                device_type: CPU,
                device_id: 0,
            },
            ndim: tensor.ndim,
            dtype: tensor.dtype,
            shape: tensor.shape,
            strides: null_mut(),
            byte_offset: 0,
        }
    }
}
