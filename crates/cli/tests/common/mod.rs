//! An allocator that counts and records its allocations, for the runtime's hooks.

#![allow(dead_code)] // each test uses a part of it

use std::alloc::{Layout, alloc, dealloc};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Mutex;

use relax_runtime::heap::RxAllocator;

/// The record of an allocator.
#[derive(Default)]
pub struct Ledger(Mutex<Book>);

#[derive(Default)]
struct Book {
    live: HashMap<usize, Layout>,
    calls: u64,
    wrong: u64,
    /// The number of allocations that succeed; unlimited if `None`.
    most: Option<u64>,
}

impl Ledger {
    /// Returns the hooks; they refer to the ledger, which outlives every context that uses them.
    pub fn hooks(&'static self) -> RxAllocator {
        RxAllocator {
            user: std::ptr::from_ref(self).cast_mut().cast(),
            alloc: Some(get),
            free: Some(put),
        }
    }

    /// Makes allocations fail after this number.
    pub fn give_only(&self, calls: u64) {
        self.0.lock().expect("no panic inside").most = Some(calls);
    }

    /// Returns the number of live blocks.
    pub fn live(&self) -> usize {
        self.0.lock().expect("no panic inside").live.len()
    }

    /// Returns the number of allocations so far.
    pub fn calls(&self) -> u64 {
        self.0.lock().expect("no panic inside").calls
    }

    /// Returns the number of double or invalid frees.
    pub fn wrong(&self) -> u64 {
        self.0.lock().expect("no panic inside").wrong
    }
}

unsafe extern "C" fn get(user: *mut c_void, size: usize, align: usize) -> *mut c_void {
    // SAFETY: the hooks carry their ledger.
    let ledger = unsafe { &*user.cast::<Ledger>() };
    let layout = Layout::from_size_align(size.max(1), align).expect("a layout");
    let mut book = ledger.0.lock().expect("no panic inside");
    book.calls += 1;
    if book.most.is_some_and(|most| book.calls > most) {
        return std::ptr::null_mut();
    }
    // SAFETY: the size is not zero.
    let block = unsafe { alloc(layout) };
    book.live.insert(block as usize, layout);
    block.cast()
}

unsafe extern "C" fn put(user: *mut c_void, block: *mut c_void, _: usize, _: usize) {
    // SAFETY: the hooks carry their ledger.
    let ledger = unsafe { &*user.cast::<Ledger>() };
    let mut book = ledger.0.lock().expect("no panic inside");
    match book.live.remove(&(block as usize)) {
        // SAFETY: the block came from `get` with this layout and was not freed.
        Some(layout) => unsafe { dealloc(block.cast(), layout) },
        None => book.wrong += 1,
    }
}
