//! Creation of tensors; the submodules reuse the memory of dead tensors, create views of others'
//! memory and scalars, and inspect tensors.

pub mod grow;
pub mod look;
pub mod place;
pub mod scalar;
pub mod view;

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

use crate::context::{RxContext, Status};
use crate::object::{DLDataType, Kind, RxTensor, Storage};
use crate::slices::slice;
use crate::values;

/// A tensor that was made, with one reference; or the status of the error that the context has.
pub type Made = values::Made<RxTensor>;

/// Extents as a slice.
///
/// # Safety
/// `shape` has `ndim` elements; it may be null when there are none.
#[inline]
pub(crate) unsafe fn extents<'a>(ndim: i32, shape: *const i64) -> &'a [i64] {
    // SAFETY: `shape` is null or has `ndim` numbers by the contract.
    unsafe { slice(shape, ndim) }
}

/// The extents of a tensor that is to be made.
#[derive(Clone, Copy, Debug)]
pub struct Dims<'a> {
    /// The rank. That there are not as many extents is an error when the tensor is made.
    rank: i32,
    extents: &'a [i64],
}

impl<'a> Dims<'a> {
    /// Extents as they were given, with their rank.
    #[inline]
    pub(crate) fn of(rank: i32, extents: &'a [i64]) -> Dims<'a> {
        Dims { rank, extents }
    }

    /// The extents.
    #[inline]
    pub fn extents(self) -> &'a [i64] {
        self.extents
    }
}

impl<'a> From<&'a [i64]> for Dims<'a> {
    fn from(extents: &'a [i64]) -> Dims<'a> {
        let rank = i32::try_from(extents.len()).unwrap_or(-1);
        Dims { rank, extents }
    }
}

/// The maximum length of an axis.
const MOST_EXTENT: u64 = 1 << 48;

/// Returns the bytes of a compact tensor, or why there can be none.
fn byte_size(dtype: DLDataType, dims: Dims<'_>) -> Result<u64, (Status, String)> {
    let Dims {
        rank,
        extents: shape,
    } = dims;
    if rank < 0 || rank as usize != shape.len() {
        return Err((
            Status::Argument,
            format!("a tensor of rank {rank} needs as many extents"),
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
fn rank0(context: &mut RxContext, dtype: DLDataType) -> Made {
    let bytes = size_of::<RxTensor>() as u64;
    let tensor = values::alloc(context, Kind::Tensor, Storage::Own as u32, 0, bytes)?.cast();
    // SAFETY: the new block has the size of a tensor.
    unsafe {
        let t: *mut RxTensor = tensor.as_ptr();
        (&raw mut (*t).dtype).write(dtype);
        (&raw mut (*t).ndim).write(0);
        (&raw mut (*t).data).write((&raw mut (*t).scalar).cast());
        (&raw mut (*t).shape).write(null_mut());
        (&raw mut (*t).nbytes).write(dtype.size());
        (&raw mut (*t).owner).write(null_mut());
        (&raw mut (*t).scalar).write(0);
    }
    Ok(tensor)
}

/// Creates a tensor's block. With `room`, its data is in the same block, followed by that many
/// spare bytes; without, whoever makes the tensor sets its data.
///
/// # Errors
/// [`Status::Memory`], or another one for what is no type or shape of a tensor.
#[inline]
fn block(context: &mut RxContext, dtype: DLDataType, dims: Dims<'_>, room: Option<u64>) -> Made {
    let dtype = dtype.canonical();
    if dims.rank == 0 && (1..=8).contains(&dtype.size()) {
        return rank0(context, dtype);
    }
    let nbytes = match byte_size(dtype, dims) {
        Ok(nbytes) => nbytes,
        Err((status, message)) => return Err(context.refuse(status, &message)),
    };
    let extents = dims.extents;
    let head = (size_of::<RxTensor>() as u64 + 8 * extents.len() as u64).next_multiple_of(64);
    let bytes = match room {
        // Such a block is followed by a fence.
        Some(room) if context.heap.is_fenced() => head + nbytes + room,
        Some(room) => head + (nbytes + room).next_multiple_of(64),
        None => head,
    };
    let tensor = values::alloc(context, Kind::Tensor, Storage::Own as u32, 0, bytes)?.cast();
    // SAFETY: the new block has `head` bytes or more: a tensor, and its extents behind it.
    unsafe {
        let t: *mut RxTensor = tensor.as_ptr();
        let own_shape = t.add(1).cast::<i64>();
        let shape = match extents {
            [] => null_mut(),
            _ => own_shape,
        };
        (&raw mut (*t).dtype).write(dtype);
        (&raw mut (*t).ndim).write(dims.rank);
        (&raw mut (*t).data).write(t.byte_add(head as usize).cast());
        (&raw mut (*t).shape).write(shape);
        (&raw mut (*t).nbytes).write(nbytes);
        (&raw mut (*t).owner).write(null_mut());
        (&raw mut (*t).scalar).write(0);
        own_shape.copy_from_nonoverlapping(extents.as_ptr(), extents.len());
    }
    Ok(tensor)
}

/// A tensor with unset elements.
///
/// # Errors
/// [`Status::Memory`], or another one for what is no type or shape of a tensor.
#[inline]
pub fn alloc(context: &mut RxContext, dtype: DLDataType, dims: Dims<'_>) -> Made {
    block(context, dtype, dims, Some(0))
}

/// A tensor without elements, over memory that whoever makes it sets.
///
/// # Errors
/// As for [`alloc`].
pub(crate) fn bare(context: &mut RxContext, dtype: DLDataType, dims: Dims<'_>) -> Made {
    block(context, dtype, dims, None)
}

/// Sets the elements of a new tensor; its booleans become 0 or 1.
///
/// # Safety
/// `tensor` is live, of `data.len()` bytes of its own, and nobody else refers to it.
pub(crate) unsafe fn set_elements(tensor: NonNull<RxTensor>, data: &[u8]) {
    // SAFETY: the tensor has as many bytes as `data`, which are not part of it: it is new.
    unsafe {
        let to = (*tensor.as_ptr()).data.cast::<u8>();
        if !data.is_empty() {
            to.copy_from_nonoverlapping(data.as_ptr(), data.len());
        }
        settle_booleans(tensor);
    }
}

/// A tensor with a copy of the elements, which are as many bytes as it has.
///
/// # Errors
/// As for [`alloc`], and [`Status::Argument`] for another number of bytes.
pub fn copy(context: &mut RxContext, dtype: DLDataType, dims: Dims<'_>, data: &[u8]) -> Made {
    let bytes = match byte_size(dtype.canonical(), dims) {
        Ok(bytes) => bytes,
        Err((status, message)) => return Err(context.refuse(status, &message)),
    };
    if bytes != data.len() as u64 {
        let text = format!("a tensor of {bytes} bytes cannot have {}", data.len());
        return Err(context.refuse(Status::Argument, &text));
    }
    let tensor = alloc(context, dtype, dims)?;
    // SAFETY: the tensor is new, with as many bytes as `data`.
    unsafe { set_elements(tensor, data) };
    Ok(tensor)
}

/// Returns whether there are bytes other than 0 and 1, of elements that are booleans.
pub(crate) fn odd_booleans(dtype: DLDataType, bytes: &[u8]) -> bool {
    dtype.canonical() == DLDataType::BOOL && bytes.iter().fold(0, |all, b| all | b) > 1
}

/// Normalises the booleans of a tensor with its own data to bytes of 0 and 1.
///
/// # Safety
/// `tensor` is live, with set elements that nobody else uses.
pub(crate) unsafe fn settle_booleans(tensor: NonNull<RxTensor>) {
    // SAFETY: a live tensor.
    let t = unsafe { tensor.as_ref() };
    if !odd_booleans(t.dtype, t.bytes()) {
        return;
    }
    let (data, bytes) = (t.data.cast::<u8>(), t.nbytes as usize);
    // SAFETY: the tensor has `nbytes` bytes, which nobody else uses.
    for b in unsafe { std::slice::from_raw_parts_mut(data, bytes) } {
        *b = u8::from(*b != 0);
    }
}

/// Returns whether elements may be read and written in place.
pub(crate) fn aligned(dtype: DLDataType, data: *const c_void) -> bool {
    let size = u64::from(dtype.bits).div_ceil(8).next_power_of_two();
    (data as u64).is_multiple_of(size)
}
