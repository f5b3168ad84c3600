//! What values hold: kinds, fields, texts; and the writing of cells.

use std::ffi::{c_char, c_void};
use std::ptr::{null, null_mut};

use crate::context::{RxContext, Status, guard};
use crate::object::{Kind, RxForeign, RxObject, RxRef, RxShape, RxString, children};
use crate::release::release;
use crate::values::is;

/// The kind; 0 for null.
///
/// # Safety
/// `object` is null or a live value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_kind(object: *const RxObject) -> i32 {
    // SAFETY: null or a live value.
    unsafe { object.as_ref() }.map_or(0, |o| i32::from(o.kind))
}

/// The header's tag; 0 for null.
///
/// # Safety
/// `object` is null or a live value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tag(object: *const RxObject) -> u32 {
    // SAFETY: null or a live value.
    unsafe { object.as_ref() }.map_or(0, |o| o.tag)
}

/// Fields, captures, dimensions or bytes; 0 for null.
///
/// # Safety
/// `object` is null or a live value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_field_count(object: *const RxObject) -> u32 {
    // SAFETY: null or a live value.
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
    // SAFETY: a live value, with as many children as its header says.
    let children = unsafe { children(object) };
    children.get(index as usize).copied().unwrap_or(null_mut())
}

/// The dimensions of a shape value.
///
/// # Safety
/// `object` is null or a live value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_shape_dims(object: *const RxObject) -> *const i64 {
    // SAFETY: null or a live value; a shape's dimensions follow its header.
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
    // SAFETY: null or a live value; a string's bytes follow its header.
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
    // SAFETY: null or a live value; a foreign one is an `RxForeign`.
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
    // SAFETY: null or a live value.
    let given_up = if unsafe { is(cell, Kind::Ref) } {
        // The new value is in place before the old one goes, whose destructor may look at the cell.
        // SAFETY: a live cell, which nobody else uses now.
        unsafe { (&raw mut (*cell.cast::<RxRef>()).value).replace(value) }
    } else {
        guard(ctx, |context| {
            context.fail(Status::Argument, "rx_ref_set: the value is no cell")
        });
        value
    };
    // SAFETY: a reference of this function, or one that the cell had.
    unsafe { release(ctx, given_up) };
}
