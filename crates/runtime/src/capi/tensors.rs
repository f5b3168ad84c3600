//! Making tensors, and looking at them.

use std::ffi::c_void;
use std::ptr::{NonNull, null, null_mut};

use crate::context::{RxContext, Status};
use crate::object::{DLDataType, RxObject, RxTensor, Storage};
use crate::release::{is_unique, release};
use crate::tensor::look::tensor;
use crate::tensor::{self, Dims, aligned, grow, odd_booleans, scalar};

use super::{dims, given, make};

/// A tensor with unset elements.
///
/// # Safety
/// `ctx` is a context; `shape` has `ndim` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_alloc_tensor(
    ctx: *mut RxContext,
    dtype: DLDataType,
    ndim: i32,
    shape: *const i64,
) -> *mut RxObject {
    // SAFETY: null or a context, and `ndim` extents.
    unsafe {
        let dims = dims(ndim, shape);
        make(ctx, |context| tensor::alloc(context, dtype, dims))
    }
}

/// A tensor with a copy of `data`.
///
/// # Safety
/// `ctx` is a context; `shape` has `ndim` elements and `data` as many bytes as the tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tensor_copy(
    ctx: *mut RxContext,
    dtype: DLDataType,
    ndim: i32,
    shape: *const i64,
    data: *const c_void,
) -> *mut RxObject {
    // SAFETY: null or a context, and `ndim` extents.
    let new = unsafe { rx_alloc_tensor(ctx, dtype, ndim, shape) };
    let Some(tensor) = NonNull::new(new.cast::<RxTensor>()) else {
        return null_mut();
    };
    // SAFETY: the tensor is new; there are as many bytes, unless `given` refuses the pointer.
    unsafe {
        let bytes = tensor.as_ref().nbytes;
        let Some(data) = given(ctx, "rx_tensor_copy: `data`", data.cast::<u8>(), bytes) else {
            release(ctx, new);
            return null_mut();
        };
        tensor::set_elements(tensor, data);
    }
    new
}

/// Creates a tensor over memory that the caller keeps alive; a copy, where its booleans have bytes
/// other than 0 and 1; null with an error, where the memory is not aligned to the elements.
///
/// # Safety
/// `ctx` is a context; `shape` has `ndim` elements; `data` outlives the tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tensor_borrow(
    ctx: *mut RxContext,
    dtype: DLDataType,
    ndim: i32,
    shape: *const i64,
    data: *mut c_void,
) -> *mut RxObject {
    // SAFETY: null or a context, and `ndim` extents.
    let new = unsafe {
        make(ctx, |context| {
            tensor::bare(context, dtype, dims(ndim, shape))
        })
    };
    let Some(tensor) = NonNull::new(new.cast::<RxTensor>()) else {
        return null_mut();
    };
    // SAFETY: the tensor is new; there are as many bytes, unless `given` refuses the pointer.
    let (bytes, own) = unsafe {
        let (count, first) = (tensor.as_ref().nbytes, data.cast::<u8>());
        let bytes = given(ctx, "rx_tensor_borrow: `data`", first, count);
        (bytes, tensor.as_ref().dtype)
    };
    let fits = bytes.is_some_and(|b| b.is_empty() || aligned(own, data));
    let odd = bytes.is_some_and(|b| odd_booleans(own, b));
    if fits && !odd {
        // SAFETY: the tensor is new, and is to have these elements, which outlive it.
        unsafe {
            let t = tensor.as_ptr();
            (*t).header.tag = Storage::Borrowed as u32;
            (*t).data = data;
        }
        return new;
    }
    // SAFETY: the context lives, and the tensor is given up.
    unsafe {
        if bytes.is_some() && !fits {
            let text = "rx_tensor_borrow: `data` is not aligned to its elements: copy it";
            (*ctx).fail(Status::Argument, text);
        }
        release(ctx, new);
    }
    match fits {
        // SAFETY: a context, `ndim` extents, and as many bytes as the tensor has.
        true => unsafe { rx_tensor_copy(ctx, dtype, ndim, shape, data) },
        false => null_mut(),
    }
}

/// Returns the tensor itself when it may be written, otherwise an owned copy; consumes `tensor`.
///
/// # Safety
/// `ctx` is a context, `tensor` an owned tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tensor_unique(
    ctx: *mut RxContext,
    tensor: *mut RxObject,
) -> *mut RxObject {
    // SAFETY: null or a live value.
    let (found, unique) = unsafe { (self::tensor(tensor), is_unique(tensor)) };
    let Some(from) = found.filter(|_| !unique) else {
        return tensor;
    };
    let dims = Dims::of(from.ndim, from.extents());
    // SAFETY: null or a context; the reference is given up behind the last use of the tensor.
    unsafe {
        let copy = make(ctx, |cx| tensor::copy(cx, from.dtype, dims, from.bytes()));
        release(ctx, tensor);
        copy
    }
}

/// Returns a tensor with uninitialised elements for a result that is computed element by element:
/// see [`grow::reuse`].
///
/// # Safety
/// `ctx` is a context; `dead` is a live value; `shape` has `ndim` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_reuse_tensor(
    ctx: *mut RxContext,
    dead: *mut RxObject,
    dtype: DLDataType,
    ndim: i32,
    shape: *const i64,
) -> *mut RxObject {
    // SAFETY: null or a context, null or a live value, and `ndim` extents.
    unsafe {
        let dims = dims(ndim, shape);
        make(ctx, |context| grow::reuse(context, dead, dtype, dims))
    }
}

/// Returns a tensor with uninitialised elements for a result that begins with the elements of
/// `dead` and extends it along the first axis: see [`grow::grow`]. [`rx_tensor_grown`] follows.
///
/// # Safety
/// `ctx` is a context; `dead` is a live value; `shape` has `ndim` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_grow_tensor(
    ctx: *mut RxContext,
    dead: *mut RxObject,
    dtype: DLDataType,
    ndim: i32,
    shape: *const i64,
) -> *mut RxObject {
    // SAFETY: null or a context, null or a live value of it, and `ndim` extents.
    unsafe {
        let dims = dims(ndim, shape);
        make(ctx, |context| grow::grow(context, dead, dtype, dims))
    }
}

/// Gives a tensor the extents that it has grown to.
///
/// # Safety
/// `object` is a tensor that [`rx_grow_tensor`] returned for these extents.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tensor_grown(object: *mut RxObject, shape: *const i64) {
    let Some(tensor) = NonNull::new(object.cast::<RxTensor>()) else {
        return;
    };
    // SAFETY: a live tensor, which `rx_grow_tensor` returned for as many extents as its rank.
    unsafe {
        let dims = dims(tensor.as_ref().ndim, shape);
        grow::grown(tensor, dims.extents());
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
    let make_it = |cx: &mut RxContext| scalar::number(cx, dtype, value, value as f64);
    // SAFETY: null or a context.
    unsafe { make(ctx, make_it) }
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
    let make_it = |cx: &mut RxContext| scalar::number(cx, dtype, value as i64, value);
    // SAFETY: null or a context.
    unsafe { make(ctx, make_it) }
}

/// Returns the rank; 0 for a value that is not a tensor.
///
/// # Safety
/// `object` is null or a live value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tensor_ndim(object: *const RxObject) -> i32 {
    // SAFETY: null or a live value.
    unsafe { tensor(object) }.map_or(0, |t| t.ndim)
}

/// The extents.
///
/// # Safety
/// `object` is null or a live value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tensor_shape(object: *const RxObject) -> *const i64 {
    // SAFETY: null or a live value.
    unsafe { tensor(object) }.map_or(null(), |t| t.shape.cast_const())
}

/// Returns the element type; zeros for a value that is not a tensor.
///
/// # Safety
/// `object` is null or a live value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tensor_dtype(object: *const RxObject) -> DLDataType {
    let none = DLDataType {
        code: 0,
        bits: 0,
        lanes: 0,
    };
    // SAFETY: null or a live value.
    unsafe { tensor(object) }.map_or(none, |t| t.dtype)
}

/// The elements.
///
/// # Safety
/// `object` is null or a live value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tensor_data(object: *const RxObject) -> *mut c_void {
    // SAFETY: null or a live value.
    unsafe { tensor(object) }.map_or(null_mut(), |t| t.data)
}

/// The size of the elements in bytes.
///
/// # Safety
/// `object` is null or a live value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tensor_nbytes(object: *const RxObject) -> u64 {
    // SAFETY: null or a live value.
    unsafe { tensor(object) }.map_or(0, |t| t.nbytes)
}

/// The number of elements.
///
/// # Safety
/// `object` is null or a live value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tensor_elements(object: *const RxObject) -> i64 {
    // SAFETY: null or a live value.
    unsafe { tensor(object) }.map_or(0, |t| (t.nbytes / t.dtype.size()) as i64)
}
