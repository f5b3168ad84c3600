//! The context: heap, threads, stack, packed functions and the last error of one caller.

use crate::heap::{Heap, RxAllocator};
use crate::packed::Registry;
use crate::profile::Profile;
use crate::stack::Stack;
use crate::threads::Pool;
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

/// Result of a call across the C interface.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Success.
    Ok = 0,
    /// An allocation failed.
    Memory = 1,
    /// A dimension or shape was not the expected one.
    Shape = 2,
    /// An element type was not the expected one.
    Dtype = 3,
    /// Calls nested too deep.
    Stack = 4,
    /// A packed function is unknown or failed.
    Packed = 5,
    /// No clause of a match applied.
    Match = 6,
    /// A wrong argument.
    Argument = 7,
    /// Integer division by zero and the like.
    Arithmetic = 8,
    /// A defect of the runtime.
    Internal = 9,
    /// A tensor program accessed a buffer out of bounds.
    Bounds = 10,
    /// An assertion of a tensor program does not hold.
    Assertion = 11,
    /// A tensor was placed over one that is still in use.
    Overlap = 12,
    /// An extent is not the one that a tensor program requires.
    Extent = 13,
}

/// See the module's documentation. Generated code reads the first three fields.
#[repr(C)]
pub struct RxContext {
    /// Stack pointers below this make code fail.
    pub stack_limit: usize,
    /// [`Status`] of the last error.
    pub status: i32,
    /// Threads of parallel loops.
    pub threads: i32,
    /// The heap of values.
    pub heap: Heap,
    pub(crate) pool: Pool,
    pub(crate) stack: Stack,
    pub(crate) packed: Registry,
    /// Whether the last product of one row traversed its weight backwards.
    pub(crate) backwards: bool,
    /// The cost of kernels, where the program was compiled with profiling.
    pub profile: Profile,
    /// Text of the last error, NUL-terminated; empty when there was none.
    message: Vec<u8>,
    /// Whether it begins with a location.
    placed: bool,
    closed: bool,
}

impl RxContext {
    /// A context with one thread, in memory that `RxContext::settle` frees. Null when there is
    /// no memory for it.
    pub fn create() -> *mut RxContext {
        let made = catch_unwind(|| {
            Box::new(RxContext {
                stack_limit: 0,
                status: 0,
                threads: 1,
                heap: Heap::new(),
                pool: Pool::new(),
                stack: Stack::new(),
                packed: Registry::default(),
                backwards: false,
                profile: Profile::default(),
                message: Vec::new(),
                placed: false,
                closed: false,
            })
        });
        made.map_or(null_mut(), Box::into_raw)
    }

    /// Stops the threads. The memory goes with the last value: see `RxContext::settle`.
    pub fn close(&mut self) {
        self.pool.resize(1);
        self.threads = 1;
        self.closed = true;
    }

    /// Replaces the allocator before the first allocation.
    ///
    /// # Safety
    /// As for [`Heap::set_allocator`].
    ///
    /// # Errors
    /// [`Status::Argument`]: a function is missing, or memory was allocated before.
    pub unsafe fn set_allocator(&mut self, allocator: Option<RxAllocator>) -> Result<(), Status> {
        // SAFETY: the contract is the same.
        let set = |a| unsafe { self.heap.set_allocator(a) };
        if allocator.is_some_and(set) {
            return Ok(());
        }
        let text =
            "rx_set_allocator: both functions are needed, before the context's first allocation";
        Err(self.refuse(Status::Argument, text))
    }

    /// Sets the number of threads, and returns it; 0 is one per processor.
    ///
    /// # Errors
    /// [`Status::Argument`] for a number that is none of threads, [`Status::Memory`] where fewer
    /// could be started.
    pub fn set_threads(&mut self, threads: i32) -> Result<usize, Status> {
        let wanted = match threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            1..=1024 => threads as usize,
            _ => {
                let text = format!("rx_set_threads: {threads} is not between 0 and 1024");
                return Err(self.refuse(Status::Argument, &text));
            }
        };
        let got = self.pool.resize(wanted);
        self.threads = got as i32;
        if got == wanted {
            return Ok(got);
        }
        let text = format!("rx_set_threads: {got} of {wanted} threads could be started");
        Err(self.refuse(Status::Memory, &text))
    }

    /// Sets the stack's size in bytes; 0 is the host's own stack.
    ///
    /// # Errors
    /// [`Status::Argument`] while generated code runs.
    pub fn set_stack_size(&mut self, bytes: u64) -> Result<(), Status> {
        if self.stack.resize(bytes) {
            return Ok(());
        }
        let text = "rx_set_stack_size: generated code is running";
        Err(self.refuse(Status::Argument, text))
    }

    /// Text of the last error; empty when there was none.
    pub fn last_error(&self) -> &CStr {
        match CStr::from_bytes_until_nul(&self.message) {
            Ok(text) => text,
            // There was no memory for the message, or there is none.
            Err(_) if self.status == 0 => c"",
            Err(_) => c"out of memory",
        }
    }

    /// Forgets the last error.
    pub fn clear_error(&mut self) {
        self.status = 0;
        self.message.clear();
    }

    /// Records an error and returns its status.
    #[cold]
    pub fn fail(&mut self, status: Status, text: &str) -> i32 {
        self.fail_code(status as i32, text.as_bytes())
    }

    /// Like [`RxContext::fail`], for what returns a [`Status`].
    #[cold]
    pub fn refuse(&mut self, status: Status, text: &str) -> Status {
        self.fail(status, text);
        status
    }

    /// Records an error of any status but 0, which becomes [`Status::Internal`].
    #[cold]
    pub(crate) fn set_error(&mut self, status: i32, text: &str) -> i32 {
        let status = match status {
            0 => Status::Internal as i32,
            other => other,
        };
        self.fail_code(status, text.as_bytes())
    }

    #[cold]
    fn fail_code(&mut self, status: i32, text: &[u8]) -> i32 {
        self.status = status;
        self.placed = false;
        self.message.clear();
        if self.message.try_reserve(text.len() + 1).is_ok() {
            self.message
                .extend(text.iter().copied().filter(|&b| b != 0));
            self.message.push(0);
        }
        status
    }

    /// Records an error at a location, which may be empty: `where: what`.
    #[cold]
    pub(crate) fn fail_at(&mut self, status: i32, place: &str, what: &str) -> i32 {
        if place.is_empty() {
            return self.fail_code(status, what.as_bytes());
        }
        let status = self.fail_code(status, format!("{place}: {what}").as_bytes());
        self.placed = true;
        status
    }

    /// Adds the location of the call that the last error came from: in front of an error without a
    /// location, and with `also` behind one that has one. Returns the error's status.
    #[cold]
    pub(crate) fn locate(&mut self, place: &str, also: bool) -> i32 {
        let had_place = self.placed;
        if had_place && !also || place.is_empty() {
            return self.status;
        }
        let told = match self.message.split_last() {
            Some((_, told)) => String::from_utf8_lossy(told).into_owned(),
            None => String::from("out of memory"),
        };
        if !had_place {
            return self.fail_at(self.status, place, &told);
        }
        let text = format!("{told} (called at {place})");
        let status = self.fail_code(self.status, text.as_bytes());
        self.placed = true;
        status
    }

    /// Like [`RxContext::fail_at`]; each `{}` of the text is replaced by the next of the numbers,
    /// as far as there are some.
    #[cold]
    pub(crate) fn fail_values(
        &mut self,
        status: i32,
        place: &str,
        what: &str,
        values: &[i64],
    ) -> i32 {
        let mut message = String::new();
        for (i, part) in what.split("{}").enumerate() {
            if let Some(before) = i.checked_sub(1) {
                match values.get(before) {
                    Some(value) => message.push_str(&value.to_string()),
                    None => message.push_str("{}"),
                }
            }
            message.push_str(part);
        }
        self.fail_at(status, place, &message)
    }

    /// Records that memory ran out.
    #[cold]
    pub(crate) fn out_of_memory(&mut self, bytes: u64) -> Status {
        let text = format!("out of memory: {bytes} bytes could not be allocated");
        self.refuse(Status::Memory, &text)
    }

    /// Frees the context when it was closed and its heap has no live values.
    ///
    /// # Safety
    /// `ctx` came from [`RxContext::create`] and was not freed; it may be gone afterwards.
    #[inline]
    pub(crate) unsafe fn settle(ctx: *mut Self) {
        // SAFETY: the context lives, and no reference to it is held here.
        let over = unsafe { (*ctx).closed && (*ctx).heap.stats.live_objects == 0 };
        if over {
            // SAFETY: `create` made the box; no value is left that would need the context.
            drop(unsafe { Box::from_raw(ctx) });
        }
    }
}

/// Runs `body`, and converts a panic to an error of the context; null is an error without a text.
/// Every function of the C interface that could panic runs in it.
pub(crate) fn guard(ctx: *mut RxContext, body: impl FnOnce(&mut RxContext) -> i32) -> i32 {
    // SAFETY: the C interface takes null or a context that lives, which belongs to the thread that
    // calls: nobody else uses it until the function returns.
    let Some(context) = (unsafe { ctx.as_mut() }) else {
        return Status::Argument as i32;
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| body(&mut *context)));
    outcome.unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("unknown reason");
        context.fail(Status::Internal, &format!("the runtime failed: {text}"))
    })
}
