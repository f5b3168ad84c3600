//! Reference counts, and freeing without recursion.
//!
//! The context is a pointer here, not a reference: freeing a value calls what a host gave with it,
//! which may call back into the context, and the last value of a closed context takes the context
//! along.
//!
//! Invariant: freeing a value of any depth takes constant stack and no memory.

use crate::context::RxContext;
use crate::dlpack;
use crate::heap::Block;
use crate::object::{IMMORTAL, Kind, RxForeign, RxObject, RxTensor, Storage, children};
use crate::tensor::place;
use std::ptr::{NonNull, null_mut};

/// Adds a reference.
///
/// # Safety
/// `object` is null or a live value.
#[inline]
pub unsafe fn retain(object: *mut RxObject) {
    // SAFETY: not null, so a live value, whose count no other thread writes.
    unsafe {
        if !object.is_null() && (*object).refs < IMMORTAL {
            (*object).refs += 1;
        }
    }
}

/// Drops a reference, and the object with the last one.
///
/// # Safety
/// `object` is null or a live value of `ctx`, and a reference to it is given up.
#[inline]
pub unsafe fn release(ctx: *mut RxContext, object: *mut RxObject) {
    if object.is_null() {
        return;
    }
    // SAFETY: a live value of `ctx`, one of whose references goes; with `refs == 1` it is the last.
    unsafe {
        let refs = (*object).refs;
        if refs == 1 {
            drop_last(ctx, object);
        } else if refs < IMMORTAL {
            (*object).refs = refs - 1;
        }
    }
}

/// Links the list of dead objects through the two words that a dead object no longer needs.
///
/// # Safety
/// Nobody else refers to `object`, which has children: its `refs` and `tag` are not read again.
unsafe fn set_next(object: *mut RxObject, next: *mut RxObject) {
    let word = next.expose_provenance() as u64;
    // SAFETY: the header of an object that nobody else refers to.
    unsafe {
        (*object).refs = word as u32;
        (*object).tag = (word >> 32) as u32;
    }
}

/// The object behind this one in the list of dead objects; null for the last.
///
/// # Safety
/// `object` is on the list: [`set_next`] wrote its words.
unsafe fn next(object: *mut RxObject) -> *mut RxObject {
    // SAFETY: the header of an object on the list.
    let word = unsafe { u64::from((*object).tag) << 32 | u64::from((*object).refs) };
    std::ptr::with_exposed_provenance_mut(word as usize)
}

/// Returns the block of an object to the heap.
///
/// # Safety
/// `object` is of `ctx`, and nobody refers to it any more.
#[inline]
unsafe fn give_back(ctx: *mut RxContext, object: *mut RxObject) {
    // SAFETY: `values::alloc` noted the class of the block in its header; the heap is this
    // context's, and no reference into it is held.
    unsafe {
        let block = Block::of(NonNull::new_unchecked(object.cast()), (*object).cls);
        (*ctx).heap.release(block);
    }
}

/// Frees an object whose last reference is released, and everything that only it kept alive.
///
/// # Safety
/// `object` is a live value of `ctx` with `refs == 1`, and that reference is given up.
#[inline]
pub unsafe fn drop_last(ctx: *mut RxContext, object: *mut RxObject) {
    // SAFETY: a live value, which nobody else refers to.
    let own =
        unsafe { (*object).kind == Kind::Tensor as u8 && (*object).tag == Storage::Own as u32 };
    // SAFETY: the only reference goes. A tensor with its own data, the most frequent case, keeps
    // nothing else alive. Nobody uses the context behind `settle`.
    unsafe {
        match own {
            true => give_back(ctx, object),
            false => drop_tree(ctx, object),
        }
        RxContext::settle(ctx);
    }
}

/// Like [`drop_last`], for an object that may keep others alive; the context stays.
///
/// # Safety
/// As for [`drop_last`].
unsafe fn drop_tree(ctx: *mut RxContext, object: *mut RxObject) {
    let mut dead = null_mut();
    // SAFETY: the only reference to `object` goes.
    unsafe { bury(ctx, object, &mut dead) };
    while !dead.is_null() {
        let object = dead;
        // SAFETY: `bury` put the object on the list. Its fields are live values or null, and the
        // references that they are go with it.
        unsafe {
            dead = next(object);
            for &child in children(object) {
                let_go(ctx, child, &mut dead);
            }
            give_back(ctx, object);
        }
    }
}

/// Drops a reference of a dead object, and buries what it kept alive.
///
/// # Safety
/// `object` is null or a live value of `ctx`, and a reference to it is given up.
#[inline]
unsafe fn let_go(ctx: *mut RxContext, object: *mut RxObject, dead: &mut *mut RxObject) {
    if object.is_null() {
        return;
    }
    // SAFETY: a live value, one of whose references goes; with `refs == 1` it is the last.
    unsafe {
        let refs = (*object).refs;
        if refs == 1 {
            bury(ctx, object, dead);
        } else if refs < IMMORTAL {
            (*object).refs = refs - 1;
        }
    }
}

/// Frees an object without children immediately, and puts others on the list.
///
/// # Safety
/// As for [`drop_last`].
unsafe fn bury(ctx: *mut RxContext, object: *mut RxObject, dead: &mut *mut RxObject) {
    // SAFETY: a live value, which nobody else refers to.
    let kind = unsafe { (*object).kind };
    if kind == Kind::Tensor as u8 {
        // SAFETY: it is a tensor.
        return unsafe { bury_tensor(ctx, object.cast(), dead) };
    }
    if kind == Kind::Foreign as u8 {
        // SAFETY: it is a host's pointer, whose destructor is called with it once: here.
        unsafe {
            let foreign = object.cast::<RxForeign>();
            if let Some(destroy) = (*foreign).destroy {
                destroy((*foreign).pointer);
            }
        }
    }
    // SAFETY: nobody else refers to it; only what has children goes on the list.
    unsafe {
        if children(object).is_empty() {
            give_back(ctx, object);
        } else {
            set_next(object, *dead);
            *dead = object;
        }
    }
}

/// [`bury`] for a tensor.
///
/// # Safety
/// As for [`drop_last`].
unsafe fn bury_tensor(ctx: *mut RxContext, tensor: *mut RxTensor, dead: &mut *mut RxObject) {
    // SAFETY: a live tensor, which nobody else refers to.
    let (storage, flags, owner) = unsafe {
        (
            (*tensor).header.tag,
            (*tensor).header.flags,
            (*tensor).owner,
        )
    };
    if storage == Storage::DLPack as u32 {
        // SAFETY: the owner is the exporter's structure, which the tensor was the one to use. It
        // still counts as live, so that the deleter may use the context.
        unsafe { dlpack::delete(owner.cast()) };
    }
    if flags == place::PLACED {
        // SAFETY: it is in the list of its owner, a block of memory that it keeps alive.
        unsafe { place::unplace(tensor) };
    }
    // SAFETY: nobody refers to it.
    unsafe { give_back(ctx, tensor.cast()) };
    if storage == Storage::View as u32 {
        // SAFETY: a view has a reference to its owner, which is no view itself, so this goes one
        // level deep.
        unsafe { let_go(ctx, owner.cast(), dead) };
    }
}

/// Returns true when the object may be changed in place.
///
/// # Safety
/// `object` is null or a live value.
#[inline]
pub unsafe fn is_unique(object: *const RxObject) -> bool {
    // SAFETY: null or a live value.
    let Some(header) = (unsafe { object.as_ref() }) else {
        return false;
    };
    if header.refs != 1 || header.kind != Kind::Tensor as u8 {
        return header.refs == 1;
    }
    if header.tag != Storage::View as u32 {
        return header.tag == Storage::Own as u32;
    }
    // SAFETY: a tensor; a view keeps its owner alive.
    let owner = unsafe { &*(*object.cast::<RxTensor>()).owner.cast::<RxObject>() };
    owner.refs == 1 && owner.tag == Storage::Own as u32
}
