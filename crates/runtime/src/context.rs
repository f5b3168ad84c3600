//! The context: heap, threads, stack, packed functions and the last error of one caller.

use crate::heap::{Heap, RxAllocator, RxHeapStats};
use crate::object::RxObject;
use crate::packed::Registry;
use crate::stack::Stack;
use crate::threads::Pool;
use std::ffi::{CStr, c_char};
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
    pub(crate) profile: crate::profile::Profile,
    /// Text of the last error, NUL-terminated; empty when there was none.
    message: Vec<u8>,
    /// Whether it begins with a location.
    placed: bool,
    closed: bool,
}

impl RxContext {
    /// Records an error and returns its status.
    #[cold]
    pub fn fail(&mut self, status: Status, text: &str) -> i32 {
        self.fail_code(status as i32, text.as_bytes())
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

    /// Records that memory ran out; `null` for functions that return pointers.
    #[cold]
    pub fn out_of_memory<T>(&mut self, bytes: u64) -> *mut T {
        self.fail(
            Status::Memory,
            &format!("out of memory: {bytes} bytes could not be allocated"),
        );
        null_mut()
    }

    /// Frees the context when it was destroyed and its heap has no live values.
    ///
    /// # Safety
    /// `ctx` is a context; it may be gone afterwards.
    #[inline]
    pub(crate) unsafe fn settle(ctx: *mut Self) {
        // SAFETY: `ctx` is live; the box was made by `rx_context_create`.
        unsafe {
            if (*ctx).closed && (*ctx).heap.stats.live_objects == 0 {
                drop(Box::from_raw(ctx));
            }
        }
    }
}

/// Runs `body`, and converts a panic to an error of the context.
pub(crate) fn guard(ctx: *mut RxContext, body: impl FnOnce(&mut RxContext) -> i32) -> i32 {
    // SAFETY: every caller across the C interface passes a live context or null.
    let Some(context) = (unsafe { ctx.as_mut() }) else {
        return Status::Argument as i32;
    };
    match catch_unwind(AssertUnwindSafe(|| body(context))) {
        Ok(status) => status,
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("unknown reason");
            // SAFETY: as above; the panic ended the other borrow.
            unsafe { (*ctx).fail(Status::Internal, &format!("the runtime failed: {text}")) }
        }
    }
}

/// Returns the text of a C string; empty for null, and invalid UTF-8 is replaced.
///
/// # Safety
/// `text` is null or NUL-terminated.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> std::borrow::Cow<'a, str> {
    if text.is_null() {
        return "".into();
    }
    // SAFETY: `text` ends with a zero: it is not null here.
    unsafe { CStr::from_ptr(text) }.to_string_lossy()
}

/// Version of layouts and functions.
#[unsafe(no_mangle)]
pub extern "C" fn rx_abi_version() -> i32 {
    1
}

/// Creates a context with one thread.
#[unsafe(no_mangle)]
pub extern "C" fn rx_context_create() -> *mut RxContext {
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
            profile: crate::profile::Profile::default(),
            message: Vec::new(),
            placed: false,
            closed: false,
        })
    });
    made.map_or(null_mut(), Box::into_raw)
}

/// Stops the threads; the memory is freed with the last value.
///
/// # Safety
/// `ctx` is null or a context that was not destroyed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_context_destroy(ctx: *mut RxContext) {
    if ctx.is_null() {
        return;
    }
    // SAFETY: `ctx` is null or live, and not used any more.
    unsafe {
        guard(ctx, |context| {
            context.pool.resize(1);
            context.threads = 1;
            context.closed = true;
            0
        });
        RxContext::settle(ctx);
    }
}

/// Replaces the allocator before the first allocation.
///
/// # Safety
/// `allocator` points to a structure whose functions keep their contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_set_allocator(
    ctx: *mut RxContext,
    allocator: *const RxAllocator,
) -> i32 {
    guard(ctx, |context| {
        // SAFETY: `allocator` is null or has an allocator's functions.
        let replaced =
            unsafe { allocator.as_ref() }.is_some_and(|a| context.heap.set_allocator(*a));
        if replaced {
            return 0;
        }
        context.fail(
            Status::Argument,
            "rx_set_allocator: both functions are needed, before the context's first allocation",
        )
    })
}

/// Sets the number of threads; 0 is one per processor.
#[unsafe(no_mangle)]
pub extern "C" fn rx_set_threads(ctx: *mut RxContext, threads: i32) -> i32 {
    guard(ctx, |context| {
        let wanted = match threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            1..=1024 => threads as usize,
            _ => {
                let text = format!("rx_set_threads: {threads} is not between 0 and 1024");
                return context.fail(Status::Argument, &text);
            }
        };
        let got = context.pool.resize(wanted);
        context.threads = got as i32;
        if got == wanted {
            return 0;
        }
        let text = format!("rx_set_threads: {got} of {wanted} threads could be started");
        context.fail(Status::Memory, &text)
    })
}

/// Copies the heap's counters.
///
/// # Safety
/// `ctx` is a context and `out` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_heap_stats(ctx: *const RxContext, out: *mut RxHeapStats) {
    // SAFETY: `ctx` and `out` are null or live.
    if let (Some(ctx), Some(out)) = unsafe { (ctx.as_ref(), out.as_mut()) } {
        *out = ctx.heap.stats;
    }
}

/// Returns cached blocks to the allocator.
#[unsafe(no_mangle)]
pub extern "C" fn rx_trim(ctx: *mut RxContext) {
    guard(ctx, |context| {
        context.heap.trim();
        0
    });
}

/// Text of the last error.
///
/// # Safety
/// `ctx` is null or a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_last_error(ctx: *const RxContext) -> *const c_char {
    // SAFETY: `ctx` is null or live.
    match unsafe { ctx.as_ref() } {
        None => c"there is no context".as_ptr(),
        Some(context) if context.message.is_empty() => {
            if context.status == 0 {
                c"".as_ptr()
            } else {
                c"out of memory".as_ptr()
            }
        }
        Some(context) => context.message.as_ptr().cast(),
    }
}

/// Status of the last error.
///
/// # Safety
/// `ctx` is null or a context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_last_status(ctx: *const RxContext) -> i32 {
    // SAFETY: `ctx` is null or live.
    unsafe { ctx.as_ref() }.map_or(Status::Argument as i32, |context| context.status)
}

/// Forgets the last error.
#[unsafe(no_mangle)]
pub extern "C" fn rx_clear_error(ctx: *mut RxContext) {
    guard(ctx, |context| {
        context.status = 0;
        context.message.clear();
        0
    });
}

/// Records an error.
///
/// # Safety
/// `message` is null or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_set_error(
    ctx: *mut RxContext,
    status: i32,
    message: *const c_char,
) -> i32 {
    guard(ctx, |context| {
        // SAFETY: `message` is null or ends with a zero.
        let message = unsafe { text(message) };
        context.fail_code(
            if status == 0 {
                Status::Internal as i32
            } else {
                status
            },
            message.as_bytes(),
        )
    })
}

/// A dimension differs from what was expected.
///
/// # Safety
/// `place` and `what` are null or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_fail_dim(
    ctx: *mut RxContext,
    place: *const c_char,
    what: *const c_char,
    expected: i64,
    found: i64,
) -> i32 {
    guard(ctx, |context| {
        // SAFETY: `what` is null or ends with a zero.
        let what = unsafe { text(what) };
        let what = if what.is_empty() {
            "a dimension".into()
        } else {
            what
        };
        let message = format!("{what} should be {expected}, but is {found}");
        // SAFETY: as above.
        context.fail_at(Status::Shape as i32, &unsafe { text(place) }, &message)
    })
}

/// No clause of a match applied.
///
/// # Safety
/// `place` is null or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_fail_match(ctx: *mut RxContext, place: *const c_char) -> i32 {
    guard(ctx, |context| {
        let message = "no clause of the match applies to the value";
        // SAFETY: `place` is null or ends with a zero.
        context.fail_at(Status::Match as i32, &unsafe { text(place) }, message)
    })
}

/// Calls nested deeper than the stack allows.
///
/// # Safety
/// `place` is null or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_fail_stack(ctx: *mut RxContext, place: *const c_char) -> i32 {
    guard(ctx, |context| {
        let what = format!(
            "calls nest deeper than the stack of {} bytes allows (rx_set_stack_size)",
            context.stack.size()
        );
        // SAFETY: `place` is null or ends with a zero.
        context.fail_at(Status::Stack as i32, &unsafe { text(place) }, &what)
    })
}

/// Any other failure at a place.
///
/// # Safety
/// `place` and `what` are null or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_fail(
    ctx: *mut RxContext,
    status: i32,
    place: *const c_char,
    what: *const c_char,
) -> i32 {
    guard(ctx, |context| {
        // SAFETY: `place` and `what` are null or end with a zero.
        let (place, what) = unsafe { (text(place), text(what)) };
        context.fail_at(status, &place, &what)
    })
}

/// Like [`rx_fail`], with a number at the end.
///
/// # Safety
/// `place` and `what` are null or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_fail_int(
    ctx: *mut RxContext,
    status: i32,
    place: *const c_char,
    what: *const c_char,
    value: i64,
) -> i32 {
    guard(ctx, |context| {
        // SAFETY: `place` and `what` are null or end with a zero.
        let (place, what) = unsafe { (text(place), text(what)) };
        context.fail_at(status, &place, &format!("{what}: {value}"))
    })
}

/// Checks that a call of an entry from C can be made: `nargs` arguments where `wanted` are
/// expected, none of them null, and a non-null result pointer.
///
/// # Safety
/// `ctx` is null or a context, `place` null or NUL-terminated; `args` is null or has `nargs`
/// values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_check_call(
    ctx: *mut RxContext,
    place: *const c_char,
    args: *const *mut RxObject,
    nargs: i32,
    wanted: i32,
    out: *mut *mut RxObject,
) -> i32 {
    // SAFETY: `args` has `nargs` references, and `i` is below `nargs`, which is checked before.
    let null = |i: i32| args.is_null() || unsafe { (*args.add(i as usize)).is_null() };
    let what = if nargs != wanted {
        format!("takes {wanted} arguments; given: {nargs}")
    } else if let Some(i) = (0..nargs).find(|&i| null(i)) {
        format!("argument {i} is NULL")
    } else if out.is_null() {
        "there is no place for the result: `out` is NULL".to_owned()
    } else if ctx.is_null() {
        return Status::Argument as i32;
    } else {
        return 0;
    };
    guard(ctx, |context| {
        // SAFETY: `place` is null or ends with a zero.
        let place = unsafe { text(place) };
        context.fail_at(Status::Argument as i32, &place, &what)
    })
}

/// Like [`rx_fail`]; each `{}` of the text is replaced by the next of `count` numbers.
///
/// # Safety
/// `place` and `what` are null or NUL-terminated, `values` points at `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_fail_values(
    ctx: *mut RxContext,
    status: i32,
    place: *const c_char,
    what: *const c_char,
    values: *const i64,
    count: i32,
) -> i32 {
    guard(ctx, |context| {
        // SAFETY: `place` and `what` are null or end with a zero.
        let (place, what) = unsafe { (text(place), text(what)) };
        let mut message = String::new();
        for (i, part) in what.split("{}").enumerate() {
            if i > 0 {
                match i <= usize::try_from(count).unwrap_or(0) {
                    // SAFETY: there are `count` of them.
                    true => message.push_str(&unsafe { *values.add(i - 1) }.to_string()),
                    false => message.push_str("{}"),
                }
            }
            message.push_str(part);
        }
        context.fail_at(status, &place, &message)
    })
}

/// Adds the location of the call that the last error came from: in front of an error without a
/// location, and with `also` not 0 behind one that has one. Returns the error's status.
///
/// # Safety
/// `place` is null or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_fail_at(ctx: *mut RxContext, place: *const c_char, also: i32) -> i32 {
    guard(ctx, |context| {
        let had_place = context.placed;
        if had_place && also == 0 {
            return context.status;
        }
        // SAFETY: `place` is null or ends with a zero.
        let place = unsafe { text(place) };
        if place.is_empty() {
            return context.status;
        }
        let told = match context.message.split_last() {
            Some((_, told)) => String::from_utf8_lossy(told).into_owned(),
            None => String::from("out of memory"),
        };
        let status = context.status;
        if had_place {
            let status =
                context.fail_code(status, format!("{told} (called at {place})").as_bytes());
            context.placed = true;
            return status;
        }
        context.fail_at(status, &place, &told)
    })
}
