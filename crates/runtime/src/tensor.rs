//! Making tensors, and looking into them.

use crate::context::{RxContext, Status, guard, text};
use crate::object::{
    DL_BFLOAT, DL_BOOL, DL_FLOAT, DL_INT, DL_UINT, DLDataType, Kind, RxObject, RxTensor, Storage,
};
use crate::release::{rx_is_unique, rx_release, rx_retain};
use crate::values::{alloc, is};
use std::ffi::{c_char, c_void};
use std::ptr::{copy_nonoverlapping, null, null_mut};

/// Extents as a slice.
///
/// # Safety
/// `shape` has `ndim` elements; it may be null when there are none.
pub(crate) unsafe fn extents<'a>(ndim: i32, shape: *const i64) -> &'a [i64] {
    if ndim <= 0 || shape.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(shape, ndim as usize) }
}

/// Bytes of a compact tensor, or why there can be none.
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
        let Ok(extent) = u64::try_from(extent) else {
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

/// A tensor of rank 0, which programs make for every number: nothing is computed that its rank says.
#[inline]
unsafe fn rank0(ctx: *mut RxContext, dtype: DLDataType) -> *mut RxTensor {
    // SAFETY: the callers' promise.
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

/// A tensor's block. With `room`, its data lies in the same block, and so many bytes are left behind it.
unsafe fn block(
    ctx: *mut RxContext,
    dtype: DLDataType,
    ndim: i32,
    shape: *const i64,
    room: Option<u64>,
) -> *mut RxTensor {
    let dtype = dtype.canonical();
    // SAFETY: the callers' promise.
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
    // SAFETY: the caller's promise.
    unsafe { block(ctx, dtype, ndim, shape, Some(0)).cast() }
}

/// A tensor with unset elements for a result that is computed element by element: `dead` itself, with one
/// reference more, when nobody else holds it and it has the element type and extents wanted; a new one
/// otherwise.
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
    // SAFETY: the caller's promise.
    unsafe {
        if is(dead, Kind::Tensor) && rx_is_unique(dead) == 1 {
            let t = dead.cast::<RxTensor>();
            if (*t).dtype == dtype
                && (*t).ndim == ndim
                && (ndim == 0 || extents(ndim, (*t).shape) == extents(ndim, shape))
            {
                rx_retain(dead);
                return dead;
            }
        }
        rx_alloc_tensor(ctx, dtype, ndim, shape)
    }
}

/// A tensor with unset elements for a result that begins with the elements of `dead` and goes on along the first
/// axis: `dead` itself, with one reference more, when nobody else holds it and its block has room, and a new one
/// otherwise. Its extents are still the old ones then, so that what computes the result can read them;
/// [`rx_tensor_grown`] follows.
///
/// What grows by little will grow again: a new block has half as much room again, so that a sequence of appended
/// rows copies each row a bounded number of times.
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
    // SAFETY: the caller's promise.
    unsafe {
        let t = dead.cast::<RxTensor>();
        let grows = is(dead, Kind::Tensor)
            && (*dead).refs == 1
            && (*dead).tag == Storage::Own as u32
            && (*dead).cls != 0
            && (*t).dtype == dtype
            && (*t).ndim == ndim
            && ndim > 0;
        let (new, old) = (
            extents(ndim, shape),
            if grows {
                extents(ndim, (*t).shape)
            } else {
                &[]
            },
        );
        if !grows || new[1..] != old[1..] || new[0] < old[0] {
            return rx_alloc_tensor(ctx, dtype, ndim, shape);
        }
        let Ok(bytes) = byte_size(dtype, ndim, new) else {
            return rx_alloc_tensor(ctx, dtype, ndim, shape);
        };
        let head = (*t).data as u64 - dead as u64;
        if head + bytes <= (*ctx).heap.room(dead.cast(), (*dead).cls) {
            rx_retain(dead);
            return dead;
        }
        let spare = if bytes - (*t).nbytes <= (*t).nbytes / 2 {
            bytes / 2
        } else {
            0
        };
        block(ctx, dtype, ndim, shape, Some(spare)).cast()
    }
}

/// Gives a tensor the extents that it has grown to.
///
/// # Safety
/// `object` is a tensor that [`rx_grow_tensor`] returned for these extents.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tensor_grown(object: *mut RxObject, shape: *const i64) {
    // SAFETY: the caller's promise; the block has room for the elements.
    unsafe {
        let t = object.cast::<RxTensor>();
        let dims = extents((*t).ndim, shape);
        (*t).nbytes = dims.iter().fold((*t).dtype.size(), |n, &d| n * d as u64);
        copy_nonoverlapping(dims.as_ptr(), (*t).shape, dims.len());
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
    // SAFETY: the caller's promise.
    unsafe {
        let tensor = block(ctx, dtype, ndim, shape, Some(0));
        if !tensor.is_null() && (*tensor).nbytes > 0 {
            copy_nonoverlapping(
                data.cast::<u8>(),
                (*tensor).data.cast(),
                (*tensor).nbytes as usize,
            );
        }
        tensor.cast()
    }
}

/// A tensor over memory that the caller keeps.
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
    // SAFETY: the caller's promise.
    unsafe {
        let tensor = block(ctx, dtype, ndim, shape, None);
        if !tensor.is_null() {
            (*tensor).header.tag = Storage::Borrowed as u32;
            (*tensor).data = data;
        }
        tensor.cast()
    }
}

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
    // SAFETY: the caller's promise.
    unsafe {
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
        let root = if (*from).header.tag == Storage::View as u32 {
            (*from).owner.cast::<RxObject>()
        } else {
            base
        };
        rx_retain(root);
        (*tensor).header.tag = Storage::View as u32;
        (*tensor).owner = root.cast();
        (*tensor).data = (*from).data.cast::<u8>().add(byte_offset as usize).cast();
        if (*from).header.flags == PLACED {
            list(tensor);
        }
        tensor.cast()
    }
}

/// As [`rx_tensor_view`], for a block of memory that a program manages itself: the bytes are not those of a tensor that
/// was placed there before and is still alive.
///
/// Invariant: the `scalar` of such a block, which has one axis and so no use for it, is the first of the tensors that are
/// placed in it, and the `scalar` of each (their `data` lies in the block) the next; `flags` marks them, and
/// [`unplace`] takes them out when they go.
///
/// # Safety
/// As [`rx_tensor_view`]; `block` was made for nothing else.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_place_tensor(
    ctx: *mut RxContext,
    block: *mut RxObject,
    byte_offset: u64,
    dtype: DLDataType,
    ndim: i32,
    shape: *const i64,
) -> *mut RxObject {
    // SAFETY: the caller's promise.
    unsafe {
        let placed = rx_tensor_view(ctx, block, byte_offset, dtype, ndim, shape);
        if placed.is_null() {
            return null_mut();
        }
        let owner = (*placed.cast::<RxTensor>()).owner.cast::<RxTensor>();
        let bytes = |t: *mut RxTensor| {
            let from = (*t).data as usize;
            (from, from + (*t).nbytes as usize)
        };
        let (from, to) = bytes(placed.cast());
        let mut at = (*owner).scalar as *mut RxTensor;
        while !at.is_null() {
            let (low, high) = bytes(at);
            if low.max(from) < high.min(to) {
                let start = (*owner).data as usize;
                let message = format!(
                    "a tensor in bytes {} to {} of a block of memory is still used: bytes {} to {} cannot be given to another",
                    low - start,
                    high - start,
                    from - start,
                    to - start
                );
                (*ctx).fail(Status::Overlap, &message);
                rx_release(ctx, placed);
                return null_mut();
            }
            at = (*at).scalar as *mut RxTensor;
        }
        list(placed.cast());
        placed
    }
}

/// Puts a view into the list of those placed in its owner, a block of memory.
unsafe fn list(tensor: *mut RxTensor) {
    // SAFETY: the callers made the view.
    unsafe {
        let owner = (*tensor).owner.cast::<RxTensor>();
        (*tensor).header.flags = PLACED;
        (*tensor).scalar = (*owner).scalar;
        (*owner).scalar = tensor as u64;
    }
}

/// Takes a tensor that goes out of the list of those placed in its block.
///
/// # Safety
/// `tensor` is marked as placed, and its owner lives.
pub(crate) unsafe fn unplace(tensor: *mut RxTensor) {
    // SAFETY: the caller's promise, and the invariant at `rx_place_tensor`.
    unsafe {
        let mut at = &raw mut (*(*tensor).owner.cast::<RxTensor>()).scalar;
        while *at != 0 {
            let next = *at as *mut RxTensor;
            if next == tensor {
                *at = (*tensor).scalar;
                return;
            }
            at = &raw mut (*next).scalar;
        }
    }
}

/// The flag of a tensor in the list of its block.
pub(crate) const PLACED: u8 = 1;

/// The tensor with another shape of as many elements; consumes `tensor`.
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
    // SAFETY: the caller's promise.
    unsafe {
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
        // The block has room for as many extents as it was made with, or up to the next 64 bytes.
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

/// The tensor itself when it may be written, else an owned copy; consumes `tensor`.
///
/// # Safety
/// `ctx` is a context, `tensor` an owned tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tensor_unique(
    ctx: *mut RxContext,
    tensor: *mut RxObject,
) -> *mut RxObject {
    // SAFETY: the caller's promise.
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

/// Writes a number as an element; false for element types that hold no numbers.
///
/// # Safety
/// `to` has room for an element.
unsafe fn write_number(dtype: DLDataType, to: *mut c_void, int: i64, float: f64) -> bool {
    // SAFETY: the caller's promise.
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
    // SAFETY: the callers' promise.
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
    // SAFETY: the caller's promise.
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
    // SAFETY: the caller's promise.
    unsafe { scalar(ctx, dtype, value as i64, value) }
}

/// The tensor behind a value, if it is one.
unsafe fn tensor<'a>(object: *const RxObject) -> Option<&'a RxTensor> {
    // SAFETY: the callers' promise: null or live.
    unsafe {
        if is(object, Kind::Tensor) {
            object.cast::<RxTensor>().as_ref()
        } else {
            None
        }
    }
}

/// Rank; 0 for what is no tensor.
///
/// # Safety
/// `object` is null or a live value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tensor_ndim(object: *const RxObject) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { tensor(object) }.map_or(0, |t| t.ndim)
}

/// Extents.
///
/// # Safety
/// `object` is null or a live value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tensor_shape(object: *const RxObject) -> *const i64 {
    // SAFETY: the caller's promise.
    unsafe { tensor(object) }.map_or(null(), |t| t.shape.cast_const())
}

/// Element type; zeros for what is no tensor.
///
/// # Safety
/// `object` is null or a live value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tensor_dtype(object: *const RxObject) -> DLDataType {
    // SAFETY: the caller's promise.
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
    // SAFETY: the caller's promise.
    unsafe { tensor(object) }.map_or(null_mut(), |t| t.data)
}

/// Bytes of the elements.
///
/// # Safety
/// `object` is null or a live value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tensor_nbytes(object: *const RxObject) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { tensor(object) }.map_or(0, |t| t.nbytes)
}

/// Number of elements.
///
/// # Safety
/// `object` is null or a live value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tensor_elements(object: *const RxObject) -> i64 {
    // SAFETY: the caller's promise.
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
        // SAFETY: the caller's promise.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{rx_context_create, rx_context_destroy};

    /// Appends a row to `tensor`, as generated code does; the elements of a row are its number.
    unsafe fn append(ctx: *mut RxContext, tensor: *mut RxObject, row: i64) -> *mut RxObject {
        // SAFETY: the tests hand over tensors of rank 2 with 16 columns of float32.
        unsafe {
            let shape = [row + 1, 16];
            let grown = rx_grow_tensor(ctx, tensor, DLDataType::F32, 2, shape.as_ptr());
            let (from, to) = (tensor.cast::<RxTensor>(), grown.cast::<RxTensor>());
            if grown != tensor {
                let bytes = (*from).nbytes as usize;
                copy_nonoverlapping((*from).data.cast::<u8>(), (*to).data.cast(), bytes);
            }
            let at = (*to).data.cast::<f32>().add(row as usize * 16);
            (0..16).for_each(|k| *at.add(k) = row as f32);
            rx_tensor_grown(grown, shape.as_ptr());
            rx_release(ctx, tensor);
            grown
        }
    }

    #[test]
    fn rows_are_appended_in_place() {
        let ctx = rx_context_create();
        // SAFETY: every reference is given back before the context.
        unsafe {
            let mut tensor = rx_alloc_tensor(ctx, DLDataType::F32, 2, [0, 16].as_ptr());
            let (mut moves, mut kept) = (0, null_mut());
            // From one cache line to well beyond what one class of blocks holds.
            for row in 0..5000 {
                let before = tensor;
                tensor = append(ctx, tensor, row);
                moves += i32::from(before != tensor);
                if row == 3000 {
                    kept = tensor;
                    rx_retain(kept);
                }
            }
            assert!(moves < 40, "{moves} copies for 5000 rows");
            for (t, rows) in [(tensor, 5000), (kept, 3001)] {
                let t = t.cast::<RxTensor>();
                assert_eq!(extents(2, (*t).shape), [rows, 16]);
                assert_eq!((*t).nbytes, rows as u64 * 64);
                let data = std::slice::from_raw_parts((*t).data.cast::<f32>(), rows as usize * 16);
                let right = |(k, x): (usize, &f32)| *x == (k / 16) as f32;
                assert!(data.iter().enumerate().all(right), "{rows} rows");
            }
            rx_release(ctx, tensor);
            rx_release(ctx, kept);
            assert_eq!((*ctx).heap.stats.live_objects, 0);
            rx_context_destroy(ctx);
        }
    }
}
