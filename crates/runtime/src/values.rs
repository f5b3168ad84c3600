//! Creation and inspection of values.

use crate::context::{RxContext, Status, guard};
use crate::object::{
    Kind, RxClosure, RxFields, RxForeign, RxObject, RxRef, RxShape, RxString, children, rx_unit,
};
use crate::release::rx_release;
use std::ffi::{c_char, c_void};
use std::ptr::{copy_nonoverlapping, null, null_mut};

/// Checks that a caller's pointer to `count` elements is valid; for zero elements, it may be null.
/// Records the error otherwise.
///
/// # Safety
/// `ctx` is null or a context.
pub(crate) unsafe fn given<T>(
    ctx: *mut RxContext,
    what: &str,
    pointer: *const T,
    count: u64,
) -> bool {
    let aligned = (pointer as usize).is_multiple_of(align_of::<T>());
    if count == 0 || !pointer.is_null() && aligned {
        return true;
    }
    let how = if aligned { "null" } else { "not aligned" };
    // SAFETY: `ctx` is null or a live context.
    if let Some(context) = unsafe { ctx.as_mut() } {
        context.fail(Status::Argument, &format!("{what} is {how}"));
    }
    false
}

/// Allocates a block with an initialised header; returns null after recording the error.
///
/// # Safety
/// `ctx` is a context.
#[inline]
pub(crate) unsafe fn alloc(
    ctx: *mut RxContext,
    kind: Kind,
    tag: u32,
    count: u32,
    bytes: u64,
) -> *mut RxObject {
    if ctx.is_null() {
        return null_mut();
    }
    // SAFETY: `ctx` is live; the block is at least as large as a header.
    unsafe {
        let (block, cls) = (*ctx).heap.alloc(bytes);
        if block.is_null() {
            return (*ctx).out_of_memory(bytes);
        }
        let object = block.cast::<RxObject>();
        object.write(RxObject {
            refs: 1,
            kind: kind as u8,
            flags: 0,
            cls,
            tag,
            count,
        });
        object
    }
}

/// A tuple with unset fields.
///
/// # Safety
/// `ctx` is a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_alloc_tuple(ctx: *mut RxContext, fields: u32) -> *mut RxObject {
    if fields == 0 {
        return rx_unit();
    }
    // SAFETY: `ctx` is live; the block holds the header and 8 bytes a field.
    unsafe { alloc(ctx, Kind::Tuple, 0, fields, 16 + 8 * u64::from(fields)) }
}

/// A constructor's value with unset fields.
///
/// # Safety
/// `ctx` is a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_alloc_adt(ctx: *mut RxContext, tag: u32, fields: u32) -> *mut RxObject {
    // SAFETY: `ctx` is live; the block holds the header and 8 bytes a field.
    unsafe { alloc(ctx, Kind::Adt, tag, fields, 16 + 8 * u64::from(fields)) }
}

/// A closure without code, with unset captures.
///
/// # Safety
/// `ctx` is a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_alloc_closure(
    ctx: *mut RxContext,
    arity: u32,
    captures: u32,
) -> *mut RxObject {
    // SAFETY: `ctx` is live; the block holds the header, the code's addresses and 8 bytes a
    // capture.
    unsafe {
        let object = alloc(
            ctx,
            Kind::Closure,
            arity,
            captures,
            32 + 8 * u64::from(captures),
        );
        if let Some(closure) = object.cast::<RxClosure>().as_mut() {
            closure.code = null();
            closure.entry = None;
        }
        object
    }
}

/// A cell that owns `value`; on failure `value` is released.
///
/// # Safety
/// `ctx` is a context, `value` an owned value or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_alloc_ref(ctx: *mut RxContext, value: *mut RxObject) -> *mut RxObject {
    // SAFETY: `ctx` is live, `value` an owned reference, and the block holds the header and one
    // value.
    unsafe {
        let object = alloc(ctx, Kind::Ref, 0, 1, 24);
        if object.is_null() {
            rx_release(ctx, value);
        } else {
            (*object.cast::<RxRef>()).value = value;
        }
        object
    }
}

/// A shape with unset dimensions.
///
/// # Safety
/// `ctx` is a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_alloc_shape(ctx: *mut RxContext, ndim: u32) -> *mut RxObject {
    // SAFETY: `ctx` is live; the block holds the header and 8 bytes a dimension.
    unsafe { alloc(ctx, Kind::Shape, 0, ndim, 16 + 8 * u64::from(ndim)) }
}

/// A shape of these dimensions.
///
/// # Safety
/// `ctx` is a context; `dims` has `ndim` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_make_shape(
    ctx: *mut RxContext,
    ndim: u32,
    dims: *const i64,
) -> *mut RxObject {
    // SAFETY: `ctx` is live, and `dims` has `ndim` numbers.
    unsafe {
        if !given(ctx, "rx_make_shape: `dims`", dims, ndim.into()) {
            return null_mut();
        }
        let object = rx_alloc_shape(ctx, ndim);
        if !object.is_null() && ndim > 0 {
            let to = (&raw mut (*object.cast::<RxShape>()).dims).cast();
            copy_nonoverlapping(dims, to, ndim as usize);
        }
        object
    }
}

/// Sets the fields of a new object, or releases them when it is null.
unsafe fn fill(
    ctx: *mut RxContext,
    object: *mut RxObject,
    fields: u32,
    values: *const *mut RxObject,
) -> *mut RxObject {
    // SAFETY: `object` is null or has `fields` fields, and `values` as many owned references.
    unsafe {
        if object.is_null() {
            for i in 0..fields as usize {
                rx_release(ctx, *values.add(i));
            }
        } else if fields > 0 {
            let to = (&raw mut (*object.cast::<RxFields>()).fields).cast();
            copy_nonoverlapping(values, to, fields as usize);
        }
        object
    }
}

/// A tuple of owned values; on failure they are released.
///
/// # Safety
/// `ctx` is a context; `values` has `fields` owned values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_make_tuple(
    ctx: *mut RxContext,
    fields: u32,
    values: *const *mut RxObject,
) -> *mut RxObject {
    // SAFETY: `ctx` is live, and `values` has `fields` owned references.
    unsafe {
        if !given(ctx, "rx_make_tuple: `values`", values, fields.into()) {
            return null_mut();
        }
        fill(ctx, rx_alloc_tuple(ctx, fields), fields, values)
    }
}

/// Creates an ADT instance from owned values; on failure they are released.
///
/// # Safety
/// `ctx` is a context; `values` has `fields` owned values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_make_adt(
    ctx: *mut RxContext,
    tag: u32,
    fields: u32,
    values: *const *mut RxObject,
) -> *mut RxObject {
    // SAFETY: `ctx` is live, and `values` has `fields` owned references.
    unsafe {
        if !given(ctx, "rx_make_adt: `values`", values, fields.into()) {
            return null_mut();
        }
        fill(ctx, rx_alloc_adt(ctx, tag, fields), fields, values)
    }
}

/// A copy of text.
///
/// # Safety
/// `ctx` is a context; `bytes` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_make_string(
    ctx: *mut RxContext,
    bytes: *const c_char,
    length: u64,
) -> *mut RxObject {
    // SAFETY: `ctx` is null or live, and `bytes` has `length` bytes.
    unsafe {
        if ctx.is_null() || !given(ctx, "rx_make_string: `bytes`", bytes, length) {
            return null_mut();
        }
        let Ok(count) = u32::try_from(length) else {
            return (*ctx).out_of_memory(length);
        };
        let object = alloc(ctx, Kind::String, 0, count, 17 + length);
        if !object.is_null() {
            let to: *mut u8 = (&raw mut (*object.cast::<RxString>()).bytes).cast();
            if length > 0 {
                copy_nonoverlapping(bytes.cast(), to, count as usize);
            }
            *to.add(count as usize) = 0;
        }
        object
    }
}

/// A host pointer.
///
/// # Safety
/// `ctx` is a context; `destroy` may be called with `pointer` once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_make_foreign(
    ctx: *mut RxContext,
    pointer: *mut c_void,
    destroy: Option<unsafe extern "C" fn(*mut c_void)>,
) -> *mut RxObject {
    // SAFETY: `ctx` is live; the block of 32 bytes holds an `RxForeign`.
    unsafe {
        let object = alloc(ctx, Kind::Foreign, 0, 0, 32);
        if let Some(foreign) = object.cast::<RxForeign>().as_mut() {
            foreign.pointer = pointer;
            foreign.destroy = destroy;
        }
        object
    }
}

/// Scratch memory; null after an error.
///
/// # Safety
/// `ctx` is a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_scratch_alloc(ctx: *mut RxContext, bytes: u64) -> *mut c_void {
    // SAFETY: `ctx` is live; the block holds 64 bytes more than what is handed out.
    unsafe {
        let size = bytes.saturating_add(127) & !63;
        let object = alloc(ctx, Kind::Raw, 0, 0, size);
        if object.is_null() {
            null_mut()
        } else {
            object.cast::<u8>().add(64).cast()
        }
    }
}

/// Frees scratch memory.
///
/// # Safety
/// `pointer` is null or from [`rx_scratch_alloc`] of the same context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_scratch_free(ctx: *mut RxContext, pointer: *mut c_void) {
    if pointer.is_null() {
        return;
    }
    // SAFETY: the header stands 64 bytes before.
    unsafe {
        let object = pointer.cast::<u8>().sub(64).cast::<RxObject>();
        (*ctx).heap.release(object.cast(), (*object).cls);
        RxContext::settle(ctx);
    }
}

/// Like [`rx_scratch_free`] for all of `count` pointers.
///
/// # Safety
/// `pointers` points at `count` pointers, each null or from [`rx_scratch_alloc`] of the same
/// context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_scratch_free_all(
    ctx: *mut RxContext,
    pointers: *const *mut c_void,
    count: i64,
) {
    for i in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: there are `count` of them.
        unsafe { rx_scratch_free(ctx, *pointers.add(i)) };
    }
}

/// The kind; 0 for null.
///
/// # Safety
/// `object` is null or a live value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_kind(object: *const RxObject) -> i32 {
    // SAFETY: `object` is null or a live object.
    unsafe { object.as_ref() }.map_or(0, |o| i32::from(o.kind))
}

/// The header's tag; 0 for null.
///
/// # Safety
/// `object` is null or a live value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tag(object: *const RxObject) -> u32 {
    // SAFETY: `object` is null or a live object.
    unsafe { object.as_ref() }.map_or(0, |o| o.tag)
}

/// Fields, captures, dimensions or bytes; 0 for null.
///
/// # Safety
/// `object` is null or a live value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_field_count(object: *const RxObject) -> u32 {
    // SAFETY: `object` is null or a live object.
    unsafe { object.as_ref() }.map_or(0, |o| o.count)
}

/// Returns a field, capture or the cell's value, borrowed; null when there is none.
///
/// # Safety
/// `object` is null or a live value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_field(object: *const RxObject, index: u32) -> *mut RxObject {
    if object.is_null() {
        return null_mut();
    }
    // SAFETY: `object` is null or a live object, with as many children as its header says.
    unsafe { children(object) }
        .get(index as usize)
        .copied()
        .unwrap_or(null_mut())
}

/// Returns true for a live value of this kind.
pub(crate) unsafe fn is(object: *const RxObject, kind: Kind) -> bool {
    // SAFETY: `object` is null or a live object.
    unsafe { object.as_ref() }.is_some_and(|o| o.kind == kind as u8)
}

/// The dimensions of a shape value.
///
/// # Safety
/// `object` is null or a live value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_shape_dims(object: *const RxObject) -> *const i64 {
    // SAFETY: `object` is null or a live object; a shape's dimensions follow its header.
    unsafe {
        if !is(object, Kind::Shape) {
            return null();
        }
        (&raw const (*object.cast::<RxShape>()).dims).cast()
    }
}

/// The text of a string.
///
/// # Safety
/// `object` is null or a live value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_string_bytes(object: *const RxObject) -> *const c_char {
    // SAFETY: `object` is null or a live object; a string's bytes follow its header.
    unsafe {
        if !is(object, Kind::String) {
            return null();
        }
        (&raw const (*object.cast::<RxString>()).bytes).cast()
    }
}

/// The host's pointer.
///
/// # Safety
/// `object` is null or a live value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_foreign_pointer(object: *const RxObject) -> *mut c_void {
    // SAFETY: `object` is null or a live object; a foreign one is an `RxForeign`.
    unsafe {
        if !is(object, Kind::Foreign) {
            return null_mut();
        }
        (*object.cast::<RxForeign>()).pointer
    }
}

/// Writes a cell.
///
/// # Safety
/// `cell` is a live cell of `ctx`; `value` is owned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_ref_set(
    ctx: *mut RxContext,
    cell: *mut RxObject,
    value: *mut RxObject,
) {
    // SAFETY: `ctx` and `cell` are live, `value` is an owned reference. The new value is in place
    // before the old one goes, whose destructor may look at the cell.
    unsafe {
        if !is(cell, Kind::Ref) {
            rx_release(ctx, value);
            guard(ctx, |context| {
                context.fail(Status::Argument, "rx_ref_set: the value is no cell")
            });
            return;
        }
        let old = std::mem::replace(&mut (*cell.cast::<RxRef>()).value, value);
        rx_release(ctx, old);
    }
}

/// Calls a closure through its C entry.
///
/// # Safety
/// `closure` is null or a live value; `args` has `nargs` owned values; `out` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_call_closure(
    ctx: *mut RxContext,
    closure: *mut RxObject,
    args: *const *mut RxObject,
    nargs: i32,
    out: *mut *mut RxObject,
) -> i32 {
    // SAFETY: `ctx` is live, `closure` null or live, `args` has `nargs` owned values, and `out`
    // room for one.
    unsafe {
        if !given(ctx, "rx_call_closure: `args`", args, nargs.max(0) as u64) {
            return Status::Argument as i32;
        }
        if out.is_null() {
            for i in 0..nargs.max(0) as usize {
                rx_release(ctx, *args.add(i));
            }
            return crate::packed::no_place(ctx, "rx_call_closure: `out` is NULL");
        }
        let entry = if is(closure, Kind::Closure) && (*closure).tag as i32 == nargs {
            (*closure.cast::<RxClosure>()).entry
        } else {
            None
        };
        if let Some(entry) = entry {
            let status = entry(ctx, closure.cast(), args, nargs, out);
            if status != 0 {
                *out = null_mut();
            }
            return status;
        }
        for i in 0..nargs.max(0) as usize {
            rx_release(ctx, *args.add(i));
        }
        *out = null_mut();
        guard(ctx, |context| {
            context.fail(
                Status::Argument,
                &format!("rx_call_closure: no function that takes {nargs} arguments"),
            )
        })
    }
}
