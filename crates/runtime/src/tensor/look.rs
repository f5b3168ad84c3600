//! Inspecting tensors, and checking them against what an entry expects.

use std::ffi::{c_char, c_void};
use std::ptr::{null, null_mut};

use super::extents;
use crate::context::{RxContext, Status, guard, text};
use crate::object::{
    DL_BFLOAT, DL_BOOL, DL_FLOAT, DL_INT, DL_UINT, DLDataType, Kind, RxObject, RxTensor,
};
use crate::values::is;

/// Returns the tensor of a value, if it is one.
unsafe fn tensor<'a>(object: *const RxObject) -> Option<&'a RxTensor> {
    // SAFETY: `object` is null or a live object.
    unsafe {
        if is(object, Kind::Tensor) {
            object.cast::<RxTensor>().as_ref()
        } else {
            None
        }
    }
}

/// Returns the rank; 0 for a value that is not a tensor.
///
/// # Safety
/// `object` is null or a live value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tensor_ndim(object: *const RxObject) -> i32 {
    // SAFETY: `object` is null or a live object.
    unsafe { tensor(object) }.map_or(0, |t| t.ndim)
}

/// The extents.
///
/// # Safety
/// `object` is null or a live value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tensor_shape(object: *const RxObject) -> *const i64 {
    // SAFETY: `object` is null or a live object.
    unsafe { tensor(object) }.map_or(null(), |t| t.shape.cast_const())
}

/// Returns the element type; zeros for a value that is not a tensor.
///
/// # Safety
/// `object` is null or a live value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tensor_dtype(object: *const RxObject) -> DLDataType {
    // SAFETY: `object` is null or a live object.
    unsafe { tensor(object) }.map_or(
        DLDataType {
            code: 0,
            bits: 0,
            lanes: 0,
        },
        |t| t.dtype,
    )
}

/// The elements.
///
/// # Safety
/// `object` is null or a live value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tensor_data(object: *const RxObject) -> *mut c_void {
    // SAFETY: `object` is null or a live object.
    unsafe { tensor(object) }.map_or(null_mut(), |t| t.data)
}

/// The size of the elements in bytes.
///
/// # Safety
/// `object` is null or a live value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tensor_nbytes(object: *const RxObject) -> u64 {
    // SAFETY: `object` is null or a live object.
    unsafe { tensor(object) }.map_or(0, |t| t.nbytes)
}

/// The number of elements.
///
/// # Safety
/// `object` is null or a live value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tensor_elements(object: *const RxObject) -> i64 {
    // SAFETY: `object` is null or a live object.
    unsafe { tensor(object) }.map_or(0, |t| (t.nbytes / t.dtype.size()) as i64)
}

/// `int32`, `float16`, `bool` and so on.
fn dtype_name(dtype: DLDataType) -> String {
    let name = match dtype.code {
        DL_INT => "int",
        DL_UINT => "uint",
        DL_FLOAT => "float",
        DL_BFLOAT => "bfloat",
        DL_BOOL => return "bool".into(),
        _ => "type",
    };
    format!("{name}{}", dtype.bits)
}

/// `(2, ?, 4)`; -1 is any extent.
fn shape_text(shape: &[i64]) -> String {
    let dims: Vec<String> = shape
        .iter()
        .map(|&d| if d < 0 { "?".into() } else { d.to_string() })
        .collect();
    format!("({})", dims.join(", "))
}

/// Checks a value against what an entry expects.
///
/// # Safety
/// `ctx` is a context, `object` null or a live value, `what` null or NUL-terminated, `shape` has
/// `ndim` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_check_tensor(
    ctx: *mut RxContext,
    object: *const RxObject,
    what: *const c_char,
    dtype: DLDataType,
    ndim: i32,
    shape: *const i64,
) -> i32 {
    guard(ctx, |context| {
        // SAFETY: `object` is null or live, `what` ends with a zero, and `shape` has `ndim`
        // numbers.
        let (found, what, wanted) = unsafe { (tensor(object), text(what), extents(ndim, shape)) };
        let Some(found) = found else {
            return context.fail(Status::Argument, &format!("{what} should be a tensor"));
        };
        let dtype = dtype.canonical();
        if found.dtype != dtype {
            let message = format!(
                "{what} should have elements of type {}, but has {}",
                dtype_name(dtype),
                dtype_name(found.dtype)
            );
            return context.fail(Status::Dtype, &message);
        }
        // SAFETY: a live tensor's shape has `ndim` extents.
        let dims = unsafe { extents(found.ndim, found.shape) };
        let same = ndim < 0
            || dims.len() == wanted.len() && dims.iter().zip(wanted).all(|(d, w)| *w < 0 || d == w);
        if same {
            return 0;
        }
        let message = format!(
            "{what} should have shape {}, but has {}",
            shape_text(wanted),
            shape_text(dims)
        );
        context.fail(Status::Shape, &message)
    })
}
