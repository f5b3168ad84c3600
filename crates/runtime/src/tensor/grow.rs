//! Tensors that reuse the memory of a dead one, and those that grow in place.

use std::ptr::copy_nonoverlapping;

use super::{block, byte_size, extents, rx_alloc_tensor};
use crate::context::RxContext;
use crate::object::{DLDataType, Kind, RxObject, RxTensor, Storage};
use crate::release::{rx_is_unique, rx_retain};
use crate::values::is;

/// Returns a tensor with uninitialised elements for a result that is computed element by element:
/// `dead` itself, with one more reference, when it has no other references and has the required
/// element type and extents; a new one otherwise.
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
    // SAFETY: `ctx` is live, `dead` null or an owned reference, and `shape` has `ndim` numbers.
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

/// Returns a tensor with uninitialised elements for a result that begins with the elements of
/// `dead` and extends it along the first axis: `dead` itself, with one more reference, when it has
/// no other references and its block is large enough, and a new one otherwise. Its extents are
/// still the old ones then, so that the computation of the result can read them;
/// [`rx_tensor_grown`] follows.
///
/// A tensor that grows by little will grow again: a new block has half as much spare capacity, so
/// that a sequence of appended rows copies each row a bounded number of times.
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
    // SAFETY: `ctx` and `dead` are live, and `shape` has `ndim` numbers.
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
    // SAFETY: `object` is a live tensor, and `shape` has a number for each of its axes; the block
    // has room for the elements.
    unsafe {
        let t = object.cast::<RxTensor>();
        let dims = extents((*t).ndim, shape);
        (*t).nbytes = dims.iter().fold((*t).dtype.size(), |n, &d| n * d as u64);
        copy_nonoverlapping(dims.as_ptr(), (*t).shape, dims.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{rx_context_create, rx_context_destroy};
    use crate::release::rx_release;
    use std::ptr::null_mut;

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
            // From one cache line to well beyond one size class of blocks.
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
