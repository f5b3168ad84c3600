//! Reference counts of values.

use crate::context::RxContext;
use crate::object::RxObject;
use crate::release::{drop_last, is_unique, release, retain};

/// Adds a reference.
///
/// # Safety
/// `object` is null or a live value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_retain(object: *mut RxObject) {
    // SAFETY: null or a live value.
    unsafe { retain(object) }
}

/// Drops a reference, and the object with the last one.
///
/// # Safety
/// `object` is null or a live value of `ctx`, a reference to which is given up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_release(ctx: *mut RxContext, object: *mut RxObject) {
    // SAFETY: null or a live value of this context, with a reference that is given up.
    unsafe { release(ctx, object) }
}

/// Frees an object whose last reference is released, and everything that only it kept alive.
///
/// # Safety
/// `object` is a live value of `ctx` with `refs == 1`, and that reference is given up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_drop(ctx: *mut RxContext, object: *mut RxObject) {
    // SAFETY: a live value of this context, whose only reference is given up.
    unsafe { drop_last(ctx, object) }
}

/// 1 when the object may be changed in place.
///
/// # Safety
/// `object` is null or a live value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_is_unique(object: *const RxObject) -> i32 {
    // SAFETY: null or a live value.
    unsafe { is_unique(object) }.into()
}
