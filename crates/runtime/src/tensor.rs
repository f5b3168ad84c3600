//! Creation of tensors; the submodules reuse the memory of dead tensors, create views of others'
//! memory and scalars, and inspect tensors.

pub mod grow;
pub mod look;
pub mod place;
pub mod scalar;
pub mod view;

use std::ffi::c_void;
use std::ptr::{copy_nonoverlapping, null_mut};

use crate::context::{RxContext, Status};
use crate::object::{DLDataType, Kind, RxObject, RxTensor, Storage};
use crate::release::{rx_is_unique, rx_release};
use crate::values::{alloc, given, is};

/// Extents as a slice.
///
/// # Safety
/// `shape` has `ndim` elements; it may be null when there are none.
pub(crate) unsafe fn extents<'a>(ndim: i32, shape: *const i64) -> &'a [i64] {
    if ndim <= 0 || shape.is_null() {
        return &[];
    }
    // SAFETY: `shape` has `ndim` numbers.
    unsafe { std::slice::from_raw_parts(shape, ndim as usize) }
}

/// The maximum length of an axis.
const MOST_EXTENT: u64 = 1 << 48;

/// Returns the bytes of a compact tensor, or why there can be none.
fn byte_size(dtype: DLDataType, ndim: i32, shape: &[i64]) -> Result<u64, (Status, String)> {
    if ndim < 0 || ndim as usize != shape.len() {
        return Err((
            Status::Argument,
            format!("a tensor of rank {ndim} needs as many extents"),
        ));
    }
    if dtype.size() == 0 {
        return Err((Status::Dtype, "an element type of 0 bits".into()));
    }
    let mut bytes = dtype.size();
    let mut empty = false;
    for &extent in shape {
        // This holds beside an extent of 0 too: code relies on arithmetic on a few extents not
        // overflowing.
        let Some(extent) = u64::try_from(extent).ok().filter(|&n| n <= MOST_EXTENT) else {
            return Err((
                Status::Shape,
                format!("a dimension of {extent} in {shape:?}"),
            ));
        };
        empty |= extent == 0;
        bytes = bytes.saturating_mul(extent.max(1));
    }
    if empty {
        bytes = 0;
    }
    if bytes > 1 << 46 {
        return Err((
            Status::Memory,
            format!("out of memory: a tensor of shape {shape:?}"),
        ));
    }
    Ok(bytes)
}

/// Creates a tensor of rank 0, which programs do for every number: a fast path without shape
/// computations.
#[inline]
unsafe fn rank0(ctx: *mut RxContext, dtype: DLDataType) -> *mut RxTensor {
    // SAFETY: `ctx` is live; the block of 64 bytes holds a tensor of rank 0.
    unsafe {
        let tensor = alloc(ctx, Kind::Tensor, Storage::Own as u32, 0, 64).cast::<RxTensor>();
        if tensor.is_null() {
            return tensor;
        }
        (*tensor).dtype = dtype;
        (*tensor).ndim = 0;
        (*tensor).data = (&raw mut (*tensor).scalar).cast();
        (*tensor).shape = null_mut();
        (*tensor).nbytes = dtype.size();
        (*tensor).owner = null_mut();
        (*tensor).scalar = 0;
        tensor
    }
}

/// Creates a tensor's block. With `room`, its data is in the same block, followed by that many
/// spare bytes.
unsafe fn block(
    ctx: *mut RxContext,
    dtype: DLDataType,
    ndim: i32,
    shape: *const i64,
    room: Option<u64>,
) -> *mut RxTensor {
    let dtype = dtype.canonical();
    if ctx.is_null() {
        return null_mut();
    }
    // SAFETY: `ctx` is live, and `shape` has `ndim` numbers.
    unsafe {
        if ndim == 0 && (1..=8).contains(&dtype.size()) {
            return rank0(ctx, dtype);
        }
        let dims = extents(ndim, shape);
        let nbytes = match byte_size(dtype, ndim, dims) {
            Ok(nbytes) => nbytes,
            Err((status, message)) => {
                (*ctx).fail(status, &message);
                return null_mut();
            }
        };
        let head = (64 + 8 * dims.len() as u64).next_multiple_of(64);
        let bytes = match room {
            // Such a block is followed by a fence.
            Some(room) if (*ctx).heap.is_fenced() => head + nbytes + room,
            Some(room) => head + (nbytes + room).next_multiple_of(64),
            None => head,
        };
        let object = alloc(ctx, Kind::Tensor, Storage::Own as u32, 0, bytes);
        if object.is_null() {
            return null_mut();
        }
        let tensor = object.cast::<RxTensor>();
        let own_shape = tensor.cast::<u8>().add(64).cast::<i64>();
        (*tensor).dtype = dtype;
        (*tensor).ndim = ndim;
        (*tensor).data = tensor.cast::<u8>().add(head as usize).cast();
        (*tensor).shape = if dims.is_empty() {
            null_mut()
        } else {
            own_shape
        };
        (*tensor).nbytes = nbytes;
        (*tensor).owner = null_mut();
        (*tensor).scalar = 0;
        copy_nonoverlapping(dims.as_ptr(), own_shape, dims.len());
        tensor
    }
}

/// Returns whether elements of a type are booleans with bytes other than 0 and 1 among them.
///
/// # Safety
/// `data` has `nbytes` bytes.
pub(crate) unsafe fn odd_booleans(dtype: DLDataType, data: *const c_void, nbytes: u64) -> bool {
    if dtype.canonical() != DLDataType::BOOL || data.is_null() {
        return false;
    }
    // SAFETY: `data` has `nbytes` bytes.
    let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), nbytes as usize) };
    bytes.iter().fold(0, |all, b| all | b) > 1
}

/// Normalises the booleans of a tensor with its own data to bytes of 0 and 1.
///
/// # Safety
/// `tensor` is null or a live tensor whose elements are not accessed concurrently.
pub(crate) unsafe fn settle_booleans(tensor: *mut RxTensor) {
    // SAFETY: `tensor` is null or live, with `nbytes` bytes that nobody else uses.
    unsafe {
        if !tensor.is_null() && odd_booleans((*tensor).dtype, (*tensor).data, (*tensor).nbytes) {
            let data = (*tensor).data.cast::<u8>();
            for b in std::slice::from_raw_parts_mut(data, (*tensor).nbytes as usize) {
                *b = u8::from(*b != 0);
            }
        }
    }
}

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
    // SAFETY: `ctx` is live, and `shape` has `ndim` numbers.
    unsafe { block(ctx, dtype, ndim, shape, Some(0)).cast() }
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
    // SAFETY: `ctx` is live, `shape` has `ndim` numbers, and `data` as many bytes as the new
    // tensor.
    unsafe {
        let tensor = block(ctx, dtype, ndim, shape, Some(0));
        if tensor.is_null() {
            return null_mut();
        }
        let data = data.cast::<u8>();
        if !given(ctx, "rx_tensor_copy: `data`", data, (*tensor).nbytes) {
            rx_release(ctx, tensor.cast());
            return null_mut();
        }
        if (*tensor).nbytes > 0 {
            copy_nonoverlapping(data, (*tensor).data.cast(), (*tensor).nbytes as usize);
        }
        settle_booleans(tensor);
        tensor.cast()
    }
}

/// Returns whether elements may be read and written in place.
pub(crate) fn aligned(dtype: DLDataType, data: *const c_void) -> bool {
    let size = u64::from(dtype.bits).div_ceil(8).next_power_of_two();
    (data as u64).is_multiple_of(size)
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
    // SAFETY: `ctx` is live, `shape` has `ndim` numbers, and `data` as many elements until it is
    // deleted.
    unsafe {
        let tensor = block(ctx, dtype, ndim, shape, None);
        if tensor.is_null() {
            return null_mut();
        }
        let fits = given(
            ctx,
            "rx_tensor_borrow: `data`",
            data.cast::<u8>(),
            (*tensor).nbytes,
        );
        if !fits || (*tensor).nbytes > 0 && !aligned((*tensor).dtype, data) {
            if fits {
                let text = "rx_tensor_borrow: `data` is not aligned to its elements: copy it";
                (*ctx).fail(Status::Argument, text);
            }
            rx_release(ctx, tensor.cast());
            return null_mut();
        }
        if odd_booleans(dtype, data, (*tensor).nbytes) {
            rx_release(ctx, tensor.cast());
            return rx_tensor_copy(ctx, dtype, ndim, shape, data);
        }
        (*tensor).header.tag = Storage::Borrowed as u32;
        (*tensor).data = data;
        tensor.cast()
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
    // SAFETY: `ctx` and `tensor` are live, and the reference is the caller's own.
    unsafe {
        if rx_is_unique(tensor) == 1 || !is(tensor, Kind::Tensor) {
            return tensor;
        }
        let t = tensor.cast::<RxTensor>();
        let copy = rx_tensor_copy(ctx, (*t).dtype, (*t).ndim, (*t).shape, (*t).data);
        rx_release(ctx, tensor);
        copy
    }
}
