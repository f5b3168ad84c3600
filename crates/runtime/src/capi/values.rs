//! Making values other than tensors.

use std::ffi::{c_char, c_void};
use std::ptr::{NonNull, null_mut};

use crate::context::RxContext;
use crate::object::{RxObject, unit};
use crate::release::release;
use crate::values;

use super::{given, make, release_all};

/// The immortal unit value.
#[unsafe(no_mangle)]
pub extern "C" fn rx_unit() -> *mut RxObject {
    unit().as_ptr()
}

/// A tuple with unset fields.
///
/// # Safety
/// `ctx` is a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_alloc_tuple(ctx: *mut RxContext, fields: u32) -> *mut RxObject {
    if fields == 0 {
        return unit().as_ptr();
    }
    // SAFETY: null or a context.
    unsafe { make(ctx, |context| values::tuple(context, fields)) }
}

/// A constructor's value with unset fields.
///
/// # Safety
/// `ctx` is a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_alloc_adt(ctx: *mut RxContext, tag: u32, fields: u32) -> *mut RxObject {
    // SAFETY: null or a context.
    unsafe { make(ctx, |context| values::adt(context, tag, fields)) }
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
    // SAFETY: null or a context.
    unsafe { make(ctx, |context| values::closure(context, arity, captures)) }
}

/// A cell that owns `value`; on failure `value` is released.
///
/// # Safety
/// `ctx` is a context, `value` an owned value or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_alloc_ref(ctx: *mut RxContext, value: *mut RxObject) -> *mut RxObject {
    // SAFETY: null or a context; the value goes into the cell, or its reference is given up.
    unsafe {
        let cell = make(ctx, |context| values::cell(context, value));
        if cell.is_null() {
            release(ctx, value);
        }
        cell
    }
}

/// A shape with unset dimensions.
///
/// # Safety
/// `ctx` is a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_alloc_shape(ctx: *mut RxContext, ndim: u32) -> *mut RxObject {
    // SAFETY: null or a context.
    unsafe { make(ctx, |context| values::unset_shape(context, ndim)) }
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
    // SAFETY: null or a context, and `ndim` numbers unless `given` refuses the pointer.
    unsafe {
        match given(ctx, "rx_make_shape: `dims`", dims, ndim) {
            Some(dims) => make(ctx, |context| values::shape(context, dims)),
            None => null_mut(),
        }
    }
}

/// Sets the fields of a new object, or releases them when it is null.
///
/// # Safety
/// `object` is null or new, with as many fields as there are values, which are owned.
unsafe fn fill(
    ctx: *mut RxContext,
    object: *mut RxObject,
    values: &[*mut RxObject],
) -> *mut RxObject {
    match NonNull::new(object) {
        // SAFETY: the object is new, and its fields take the references.
        Some(object) => unsafe { values::set_fields(object, values) },
        // SAFETY: owned values, whose references are given up.
        None => unsafe { release_all(ctx, values) },
    }
    object
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
    // SAFETY: `fields` owned values, unless `given` refuses the pointer; the tuple has as many.
    unsafe {
        match given(ctx, "rx_make_tuple: `values`", values, fields) {
            Some(values) => fill(ctx, rx_alloc_tuple(ctx, fields), values),
            None => null_mut(),
        }
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
    // SAFETY: `fields` owned values, unless `given` refuses the pointer; the instance has as many.
    unsafe {
        match given(ctx, "rx_make_adt: `values`", values, fields) {
            Some(values) => fill(ctx, rx_alloc_adt(ctx, tag, fields), values),
            None => null_mut(),
        }
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
    let fits = u32::try_from(length).is_ok();
    // Of more than a string can have, one is enough to look at.
    let count = if fits { length } else { 1 };
    // SAFETY: null or a context, and `length` bytes unless `given` refuses the pointer.
    unsafe {
        match given(ctx, "rx_make_string: `bytes`", bytes.cast::<u8>(), count) {
            Some(text) if fits => make(ctx, |context| values::string(context, text)),
            Some(_) => make::<RxObject>(ctx, |context| Err(context.out_of_memory(length))),
            None => null_mut(),
        }
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
    // SAFETY: null or a context; the destructor is for the pointer.
    unsafe { make(ctx, |context| values::foreign(context, pointer, destroy)) }
}
