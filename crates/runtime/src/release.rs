//! Reference counts, and freeing without recursion.
//!
//! Invariant: freeing a value of any depth takes constant stack and no memory.

use crate::context::RxContext;
use crate::object::{IMMORTAL, Kind, RxForeign, RxObject, RxTensor, Storage, children};
use std::ptr::null_mut;

/// Adds a reference.
///
/// # Safety
/// `object` is null or a live value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_retain(object: *mut RxObject) {
    // SAFETY: `object` is null or a live object.
    unsafe {
        if !object.is_null() && (*object).refs < IMMORTAL {
            (*object).refs += 1;
        }
    }
}

/// Drops a reference, and the object with the last one.
///
/// # Safety
/// `object` is null or a live value of `ctx`, and the caller owns a reference.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_release(ctx: *mut RxContext, object: *mut RxObject) {
    // SAFETY: `ctx` is live, and `object` null or an owned reference.
    unsafe {
        if object.is_null() {
            return;
        }
        let refs = (*object).refs;
        if refs == 1 {
            rx_drop(ctx, object);
        } else if refs < IMMORTAL {
            (*object).refs = refs - 1;
        }
    }
}

/// Links the list of dead objects through the two words that a dead object no longer needs.
unsafe fn set_next(object: *mut RxObject, next: *mut RxObject) {
    // SAFETY: the caller owns the dead object.
    unsafe {
        (*object).refs = next as u64 as u32;
        (*object).tag = (next as u64 >> 32) as u32;
    }
}

unsafe fn next(object: *mut RxObject) -> *mut RxObject {
    // SAFETY: `set_next` wrote the words.
    unsafe { (u64::from((*object).tag) << 32 | u64::from((*object).refs)) as *mut RxObject }
}

/// Frees an object whose last reference is released, and everything that only it kept alive.
///
/// # Safety
/// `object` is a live value of `ctx` with `refs == 1`, and the caller owns that reference.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_drop(ctx: *mut RxContext, object: *mut RxObject) {
    // SAFETY: `object` was the last reference to a live object, so that everything reachable is
    // live, and what is put on the list has lost its last reference.
    unsafe {
        if (*object).kind == Kind::Tensor as u8 && (*object).tag == Storage::Own as u32 {
            // The most frequent case keeps nothing else alive.
            (*ctx).heap.release(object.cast(), (*object).cls);
            return RxContext::settle(ctx);
        }
        let mut dead = null_mut();
        bury(ctx, object, &mut dead);
        while !dead.is_null() {
            let object = dead;
            dead = next(object);
            for &child in children(object) {
                if child.is_null() {
                    continue;
                }
                let refs = (*child).refs;
                if refs == 1 {
                    bury(ctx, child, &mut dead);
                } else if refs < IMMORTAL {
                    (*child).refs = refs - 1;
                }
            }
            (*ctx).heap.release(object.cast(), (*object).cls);
        }
        RxContext::settle(ctx);
    }
}

/// Frees an object without children immediately, and puts others on the list.
unsafe fn bury(ctx: *mut RxContext, object: *mut RxObject, dead: &mut *mut RxObject) {
    // SAFETY: as in `rx_drop`.
    unsafe {
        let kind = (*object).kind;
        if kind == Kind::Tensor as u8 {
            let tensor = object.cast::<RxTensor>();
            let (storage, owner) = ((*object).tag, (*tensor).owner);
            if storage == Storage::DLPack as u32 {
                // While the object still counts as live, so that the deleter may use the context.
                crate::dlpack::delete(owner.cast());
            }
            if (*object).flags == crate::tensor::place::PLACED {
                crate::tensor::place::unplace(tensor);
            }
            (*ctx).heap.release(object.cast(), (*object).cls);
            if storage == Storage::View as u32 {
                // The owner is not a view itself, so this goes one level deep.
                let owner = owner.cast::<RxObject>();
                let refs = (*owner).refs;
                if refs == 1 {
                    bury(ctx, owner, dead);
                } else if refs < IMMORTAL {
                    (*owner).refs = refs - 1;
                }
            }
            return;
        }
        if kind == Kind::Foreign as u8 {
            let foreign = object.cast::<RxForeign>();
            if let Some(destroy) = (*foreign).destroy {
                destroy((*foreign).pointer);
            }
        }
        if children(object).is_empty() {
            (*ctx).heap.release(object.cast(), (*object).cls);
        } else {
            set_next(object, *dead);
            *dead = object;
        }
    }
}

/// 1 when the object may be changed in place.
///
/// # Safety
/// `object` is null or a live value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_is_unique(object: *const RxObject) -> i32 {
    // SAFETY: `object` is null or a live object.
    unsafe {
        if object.is_null() || (*object).refs != 1 {
            return 0;
        }
        if (*object).kind != Kind::Tensor as u8 {
            return 1;
        }
        let storage = (*object).tag;
        if storage == Storage::View as u32 {
            let owner = (*object.cast::<RxTensor>()).owner.cast::<RxObject>();
            return i32::from((*owner).refs == 1 && (*owner).tag == Storage::Own as u32);
        }
        i32::from(storage == Storage::Own as u32)
    }
}
