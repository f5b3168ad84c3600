//! Tensors of rank 0 with a number.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use super::block;
use crate::context::{RxContext, Status};
use crate::object::{DL_BFLOAT, DL_BOOL, DL_FLOAT, DL_INT, DL_UINT, DLDataType, RxObject};
use crate::release::rx_release;

/// Writes a number as an element; returns false for element types that are not numbers.
///
/// # Safety
/// `to` has room for an element.
unsafe fn write_number(dtype: DLDataType, to: *mut c_void, int: i64, float: f64) -> bool {
    // SAFETY: `to` has room for one element of the type.
    unsafe {
        match (dtype.code, dtype.bits) {
            (DL_INT | DL_UINT, 8) => to.cast::<u8>().write_unaligned(int as u8),
            (DL_INT | DL_UINT, 16) => to.cast::<u16>().write_unaligned(int as u16),
            (DL_INT | DL_UINT, 32) => to.cast::<u32>().write_unaligned(int as u32),
            (DL_INT | DL_UINT, 64) => to.cast::<i64>().write_unaligned(int),
            (DL_BOOL, 8) => to.cast::<u8>().write_unaligned(u8::from(int != 0)),
            (DL_FLOAT, 16) => {
                to.cast::<u16>()
                    .write_unaligned(half::f16::from_f64(float).to_bits());
            }
            (DL_BFLOAT, 16) => {
                to.cast::<u16>()
                    .write_unaligned(half::bf16::from_f64(float).to_bits());
            }
            (DL_FLOAT, 32) => to.cast::<f32>().write_unaligned(float as f32),
            (DL_FLOAT, 64) => to.cast::<f64>().write_unaligned(float),
            _ => return false,
        }
    }
    true
}

unsafe fn scalar(ctx: *mut RxContext, dtype: DLDataType, int: i64, float: f64) -> *mut RxObject {
    // SAFETY: `ctx` is live; a tensor of rank 0 has one element.
    unsafe {
        let tensor = block(ctx, dtype, 0, null(), Some(0));
        if !tensor.is_null() && !write_number((*tensor).dtype, (*tensor).data, int, float) {
            rx_release(ctx, tensor.cast());
            (*ctx).fail(
                Status::Dtype,
                &format!("no number of element type {dtype:?}"),
            );
            return null_mut();
        }
        tensor.cast()
    }
}

/// A tensor of rank 0.
///
/// # Safety
/// `ctx` is a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_scalar_i64(
    ctx: *mut RxContext,
    dtype: DLDataType,
    value: i64,
) -> *mut RxObject {
    // SAFETY: `ctx` is live.
    unsafe { scalar(ctx, dtype, value, value as f64) }
}

/// A tensor of rank 0.
///
/// # Safety
/// `ctx` is a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_scalar_f64(
    ctx: *mut RxContext,
    dtype: DLDataType,
    value: f64,
) -> *mut RxObject {
    // SAFETY: `ctx` is live.
    unsafe { scalar(ctx, dtype, value as i64, value) }
}
