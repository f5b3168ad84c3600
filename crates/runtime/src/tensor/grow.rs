//! Tensors that reuse the memory of a dead one, and those that grow in place.

use super::{Dims, Made, alloc, block, byte_size};
use crate::context::RxContext;
use crate::heap::Block;
use crate::object::{DLDataType, RxObject, RxTensor, Storage};
use crate::release::{is_unique, retain};
use crate::tensor::look::tensor;
use std::ptr::NonNull;

/// Returns a tensor with uninitialised elements for a result that is computed element by element:
/// `dead` itself, with one more reference, when it has no other references and has the required
/// element type and extents; a new one otherwise.
///
/// # Safety
/// `dead` is null or a live value.
///
/// # Errors
/// As for [`alloc`].
#[inline]
pub unsafe fn reuse(
    context: &mut RxContext,
    dead: *mut RxObject,
    dtype: DLDataType,
    dims: Dims<'_>,
) -> Made {
    // SAFETY: null or a live value.
    if let Some(t) = unsafe { tensor(dead) }
        && t.dtype == dtype
        && t.ndim == dims.rank
        && t.extents() == dims.extents
        // SAFETY: a live tensor.
        && unsafe { is_unique(dead) }
        && let Some(again) = NonNull::new(dead)
    {
        // SAFETY: a live tensor.
        unsafe { retain(dead) };
        return Ok(again.cast());
    }
    alloc(context, dtype, dims)
}

/// Returns true for a tensor with its own data, without other references, in a block of a heap.
fn may_grow(t: &RxTensor) -> bool {
    let header = &t.header;
    header.refs == 1 && header.tag == Storage::Own as u32 && header.cls != 0
}

/// Returns a tensor with uninitialised elements for a result that begins with the elements of
/// `dead` and extends it along the first axis: `dead` itself, with one more reference, when it has
/// no other references and its block is large enough, and a new one otherwise. Its extents are
/// still the old ones then, so that the computation of the result can read them; [`grown`] follows.
///
/// A tensor that grows by little will grow again: a new block has half as much spare capacity, so
/// that a sequence of appended rows copies each row a bounded number of times.
///
/// # Safety
/// `dead` is null or a live value of the context.
///
/// # Errors
/// As for [`alloc`].
pub unsafe fn grow(
    context: &mut RxContext,
    dead: *mut RxObject,
    dtype: DLDataType,
    dims: Dims<'_>,
) -> Made {
    // SAFETY: null or a live value.
    let t = unsafe { tensor(dead) };
    let same = |t: &&RxTensor| may_grow(t) && t.dtype == dtype && t.ndim == dims.rank;
    let Some(t) = t.filter(same) else {
        return alloc(context, dtype, dims);
    };
    let larger = match (t.extents(), dims.extents) {
        ([old, inner @ ..], [new, rest @ ..]) => inner == rest && new >= old,
        _ => false,
    };
    let (true, Ok(bytes)) = (larger, byte_size(dtype, dims)) else {
        return alloc(context, dtype, dims);
    };
    let this = NonNull::from(t);
    // SAFETY: a live value of this context's heap, with the class of its block in its header. The
    // block stays in use: it is not released here.
    let own = unsafe { Block::of(this.cast(), t.header.cls) };
    let head = t.data.addr() as u64 - this.addr().get() as u64;
    if head + bytes <= context.heap.room(&own) {
        // SAFETY: a live tensor.
        unsafe { retain(dead) };
        return Ok(this);
    }
    let spare = if bytes - t.nbytes <= t.nbytes / 2 {
        bytes / 2
    } else {
        0
    };
    block(context, dtype, dims, Some(spare))
}

/// Gives a tensor the extents that it has grown to.
///
/// # Safety
/// [`grow`] returned `tensor` for these extents, and nobody else uses it.
pub unsafe fn grown(tensor: NonNull<RxTensor>, extents: &[i64]) {
    // SAFETY: the tensor's block has room for as many extents as its rank says, behind the header
    // and apart from `extents`, and for the elements.
    unsafe {
        let t = tensor.as_ptr();
        (*t).nbytes = (extents.iter()).fold((*t).dtype.size(), |n, &d| n * d as u64);
        (*t).shape
            .copy_from_nonoverlapping(extents.as_ptr(), extents.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::RxContext;
    use crate::release::release;
    use std::ptr::null_mut;

    /// Appends a row to `tensor`, as generated code does; the elements of a row are its number.
    unsafe fn append(ctx: *mut RxContext, tensor: *mut RxObject, row: i64) -> *mut RxObject {
        // SAFETY: the tests hand over tensors of rank 2 with 16 columns of float32.
        unsafe {
            let shape = [row + 1, 16];
            let grown = grow(&mut *ctx, tensor, DLDataType::F32, shape[..].into());
            let to = grown.expect("there is memory");
            let from = tensor.cast::<RxTensor>();
            if to.as_ptr() != from {
                set_rows(to, (*from).bytes());
            }
            let at = (*to.as_ptr()).data.cast::<f32>().add(row as usize * 16);
            (0..16).for_each(|k| *at.add(k) = row as f32);
            super::grown(to, &shape);
            release(ctx, tensor);
            to.as_ptr().cast()
        }
    }

    unsafe fn set_rows(to: NonNull<RxTensor>, rows: &[u8]) {
        // SAFETY: the tensor has a row more than there are.
        unsafe {
            let data = (*to.as_ptr()).data.cast::<u8>();
            data.copy_from_nonoverlapping(rows.as_ptr(), rows.len());
        }
    }

    #[test]
    fn rows_are_appended_in_place() {
        let ctx = RxContext::create();
        // SAFETY: every reference is given back before the context.
        unsafe {
            let first = alloc(&mut *ctx, DLDataType::F32, [0, 16][..].into());
            let mut tensor = first.expect("there is memory").as_ptr().cast::<RxObject>();
            let (mut moves, mut kept) = (0, null_mut());
            // From one cache line to well beyond one size class of blocks.
            for row in 0..5000 {
                let before = tensor;
                tensor = append(ctx, tensor, row);
                moves += i32::from(before != tensor);
                if row == 3000 {
                    kept = tensor;
                    retain(kept);
                }
            }
            assert!(moves < 40, "{moves} copies for 5000 rows");
            for (t, rows) in [(tensor, 5000), (kept, 3001)] {
                let t = &*t.cast::<RxTensor>();
                assert_eq!(t.extents(), [rows, 16]);
                assert_eq!(t.nbytes, rows as u64 * 64);
                let data = std::slice::from_raw_parts(t.data.cast::<f32>(), rows as usize * 16);
                let right = |(k, x): (usize, &f32)| *x == (k / 16) as f32;
                assert!(data.iter().enumerate().all(right), "{rows} rows");
            }
            release(ctx, tensor);
            release(ctx, kept);
            assert_eq!((*ctx).heap.stats.live_objects, 0);
            (*ctx).close();
            RxContext::settle(ctx);
        }
    }
}
