//! Memory that a kernel holds while it runs.

use std::ffi::c_void;

use crate::context::RxContext;
use crate::values::{scratch_alloc, scratch_free};

/// Scratch memory of a context that is freed on drop.
pub(crate) struct Scratch {
    context: *mut RxContext,
    /// The memory.
    pub memory: *mut c_void,
}

impl Scratch {
    /// Returns `None` when out of memory, which the context has recorded.
    pub fn new(context: &mut RxContext, bytes: usize) -> Option<Scratch> {
        // SAFETY: the context lives.
        let memory = unsafe { scratch_alloc(context, bytes.max(1) as u64) };
        (!memory.is_null()).then_some(Scratch { context, memory })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` from the same context.
        unsafe { scratch_free(self.context, self.memory) };
    }
}
