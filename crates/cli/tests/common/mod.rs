//! An allocator that counts and remembers what it gave out, for the hooks of the runtime.

#![allow(dead_code)] // each test uses a part

use std::alloc::{Layout, alloc, dealloc};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Mutex;

use relax_runtime::heap::RxAllocator;

/// What an allocator has seen.
#[derive(Default)]
pub struct Ledger(Mutex<Book>);

#[derive(Default)]
struct Book {
    live: HashMap<usize, Layout>,
    calls: u64,
    wrong: u64,
    /// How many calls are answered; all, where nothing is said.
    most: Option<u64>,
}

impl Ledger {
    /// The hooks; they refer to the ledger, which outlives every context that uses them.
    pub fn hooks(&'static self) -> RxAllocator {
        RxAllocator {
            user: std::ptr::from_ref(self).cast_mut().cast(),
            alloc: Some(get),
            free: Some(put),
        }
    }

    /// Gives nothing after so many calls.
    pub fn give_only(&self, calls: u64) {
        self.0.lock().expect("no panic inside").most = Some(calls);
    }

    /// Blocks that are out.
    pub fn live(&self) -> usize {
        self.0.lock().expect("no panic inside").live.len()
    }

    /// Calls for memory so far.
    pub fn calls(&self) -> u64 {
        self.0.lock().expect("no panic inside").calls
    }

    /// Blocks that came back twice, or never were out.
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
