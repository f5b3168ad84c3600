//! Creation and inspection of values.
//!
//! What is made here has unset fields: whoever makes a value sets them before anybody looks.

use crate::context::{RxContext, Status};
use crate::heap::Block;
use crate::object::{
    Kind, RxClosure, RxForeign, RxObject, RxRef, RxShape, RxString, fields as first_field, unit,
};
use std::ffi::c_void;
use std::ptr::{NonNull, null, null_mut};

/// A value that was made, with one reference; or the status of the error that the context has.
pub type Made<T = RxObject> = Result<NonNull<T>, Status>;

/// Allocates a block with an initialised header.
///
/// # Errors
/// [`Status::Memory`].
#[inline]
pub(crate) fn alloc(context: &mut RxContext, kind: Kind, tag: u32, count: u32, bytes: u64) -> Made {
    let Some(block) = context.heap.alloc(bytes) else {
        return Err(context.out_of_memory(bytes));
    };
    let object = block.at().cast::<RxObject>();
    let header = RxObject {
        refs: 1,
        kind: kind as u8,
        flags: 0,
        cls: block.class(),
        tag,
        count,
    };
    // SAFETY: the block is new, aligned to 16, and has 16 bytes or more, as `class_of` says and
    // fenced ones by the sizes below.
    unsafe { object.write(header) };
    Ok(object)
}

/// A tuple with unset fields.
///
/// # Errors
/// [`Status::Memory`], as of all functions here that make values.
pub fn tuple(context: &mut RxContext, fields: u32) -> Made {
    match fields {
        0 => Ok(unit()),
        _ => alloc(context, Kind::Tuple, 0, fields, 16 + 8 * u64::from(fields)),
    }
}

/// A constructor's value with unset fields.
///
/// # Errors
/// [`Status::Memory`].
pub fn adt(context: &mut RxContext, tag: u32, fields: u32) -> Made {
    alloc(context, Kind::Adt, tag, fields, 16 + 8 * u64::from(fields))
}

/// Sets the fields of a new tuple or constructor's value, which owns them from now on.
///
/// # Safety
/// `object` is such a value, live, with as many fields as `values`.
#[inline]
pub(crate) unsafe fn set_fields(object: NonNull<RxObject>, values: &[*mut RxObject]) {
    if values.is_empty() {
        return;
    }
    // SAFETY: the block has as many fields as `values` behind its header.
    unsafe {
        let to = first_field(object.as_ptr());
        to.copy_from_nonoverlapping(values.as_ptr(), values.len());
    }
}

/// A closure without code, with unset captures.
///
/// # Errors
/// [`Status::Memory`].
pub fn closure(context: &mut RxContext, arity: u32, captures: u32) -> Made {
    let bytes = 32 + 8 * u64::from(captures);
    let object = alloc(context, Kind::Closure, arity, captures, bytes)?;
    let closure = object.cast::<RxClosure>().as_ptr();
    // SAFETY: the new block has 32 bytes before the captures, with room for both addresses.
    unsafe {
        (&raw mut (*closure).code).write(null());
        (&raw mut (*closure).entry).write(None);
    }
    Ok(object)
}

/// A cell that owns `value`, once it is made.
///
/// # Safety
/// `value` is null or a live value, with a reference that the cell takes over.
///
/// # Errors
/// [`Status::Memory`].
pub unsafe fn cell(context: &mut RxContext, value: *mut RxObject) -> Made {
    let object = alloc(context, Kind::Ref, 0, 1, size_of::<RxRef>() as u64)?;
    // SAFETY: the new block has the size of a cell.
    unsafe { (&raw mut (*object.cast::<RxRef>().as_ptr()).value).write(value) };
    Ok(object)
}

/// A shape with unset dimensions.
///
/// # Errors
/// [`Status::Memory`].
pub fn unset_shape(context: &mut RxContext, ndim: u32) -> Made {
    alloc(context, Kind::Shape, 0, ndim, 16 + 8 * u64::from(ndim))
}

/// A shape of these dimensions, of which there are less than 2³².
///
/// # Errors
/// [`Status::Memory`].
pub fn shape(context: &mut RxContext, dims: &[i64]) -> Made {
    let object = unset_shape(context, dims.len() as u32)?;
    // SAFETY: the new block has as many dimensions as `dims` behind its header.
    unsafe {
        let to = (&raw mut (*object.cast::<RxShape>().as_ptr()).dims).cast::<i64>();
        to.copy_from_nonoverlapping(dims.as_ptr(), dims.len());
    }
    Ok(object)
}

/// A copy of text, which ends with a NUL there.
///
/// # Errors
/// [`Status::Memory`], also for 4 GiB or more.
pub fn string(context: &mut RxContext, text: &[u8]) -> Made {
    let length = text.len() as u64;
    let Ok(count) = u32::try_from(length) else {
        return Err(context.out_of_memory(length));
    };
    let object = alloc(context, Kind::String, 0, count, 17 + length)?;
    // SAFETY: the new block has the bytes of `text` and one more behind its header.
    unsafe {
        let to = (&raw mut (*object.cast::<RxString>().as_ptr()).bytes).cast::<u8>();
        to.copy_from_nonoverlapping(text.as_ptr(), text.len());
        to.add(text.len()).write(0);
    }
    Ok(object)
}

/// A host pointer with its destructor.
///
/// # Safety
/// `destroy` may be called with `pointer` once.
///
/// # Errors
/// [`Status::Memory`].
pub unsafe fn foreign(
    context: &mut RxContext,
    pointer: *mut c_void,
    destroy: Option<unsafe extern "C" fn(*mut c_void)>,
) -> Made {
    let object = alloc(context, Kind::Foreign, 0, 0, size_of::<RxForeign>() as u64)?;
    let foreign = object.cast::<RxForeign>().as_ptr();
    // SAFETY: the new block has the size of the structure.
    unsafe {
        (&raw mut (*foreign).pointer).write(pointer);
        (&raw mut (*foreign).destroy).write(destroy);
    }
    Ok(object)
}

/// Bytes before scratch memory: its header, which is kept apart by a cache line.
const SCRATCH_HEAD: usize = 64;

/// Scratch memory, aligned to 64; null after an error.
///
/// # Safety
/// `ctx` is null or a context that lives, to which no reference is used until this returns.
pub(crate) unsafe fn scratch_alloc(ctx: *mut RxContext, bytes: u64) -> *mut c_void {
    // SAFETY: null or a context that nobody else uses now.
    let Some(context) = (unsafe { ctx.as_mut() }) else {
        return null_mut();
    };
    let size = bytes.saturating_add(SCRATCH_HEAD as u64 + 63) & !63;
    match alloc(context, Kind::Raw, 0, 0, size) {
        // SAFETY: the block has `SCRATCH_HEAD` bytes more than are asked for.
        Ok(object) => unsafe { object.byte_add(SCRATCH_HEAD) }.as_ptr().cast(),
        Err(_) => null_mut(),
    }
}

/// Frees scratch memory.
///
/// # Safety
/// `pointer` is null or from [`scratch_alloc`] of the same context, and not used any more.
pub(crate) unsafe fn scratch_free(ctx: *mut RxContext, pointer: *mut c_void) {
    let Some(memory) = NonNull::new(pointer.cast::<u8>()) else {
        return;
    };
    // SAFETY: `scratch_alloc` put the header `SCRATCH_HEAD` bytes before, in a block of this
    // context's heap. Nobody uses the context behind `settle`.
    unsafe {
        let object = memory.sub(SCRATCH_HEAD);
        let class = object.cast::<RxObject>().as_ref().cls;
        (*ctx).heap.release(Block::of(object, class));
        RxContext::settle(ctx);
    }
}

/// Returns true for a live value of this kind.
///
/// # Safety
/// `object` is null or a live value.
#[inline]
pub(crate) unsafe fn is(object: *const RxObject, kind: Kind) -> bool {
    // SAFETY: null or a live value.
    unsafe { object.as_ref() }.is_some_and(|o| o.kind == kind as u8)
}
