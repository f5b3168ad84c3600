//! The stack that generated code runs on.
//!
//! Its address space is reserved once per context and committed page by page as calls nest, so a
//! deep recursion needs no setting and a shallow one costs nothing. Below the limit that
//! `RxContext.stack_limit` names, a reserve is left for the runtime's own functions.
//!
//! [`Stack`] keeps the books: where a call begins, and what has to be restored behind it.
//! [`call_at`] alone moves the stack pointer.

use std::ffi::c_void;
use std::ptr::null_mut;

/// The default reservation: two hundred bytes for each of ten million nested calls. A machine with
/// less than twice as much memory reserves half of what it has, so that infinite recursion is an
/// error there too.
const DEFAULT: u64 = 2 << 30;
/// The part that shallow calls use, in small pages. Below it large pages are requested: a deep
/// recursion touches each page once, and half a million faults per gigabyte would dominate its
/// time.
const SMALL_PAGES: usize = 2 << 20;
/// Left below the limit for runtime functions, which do not check.
const RESERVE: usize = 256 << 10;
/// The assumed free space on the caller's own stack, where no stack can be reserved.
const CALLERS: usize = 512 << 10;

/// See the module's text.
pub struct Stack {
    base: *mut u8,
    mapped: usize,
    wanted: u64,
    inside: bool,
    /// The start of the next call onto this stack; `None` means its end.
    top: Option<usize>,
    /// A free position on the stack of the host that entered last.
    host: usize,
}

/// Where a call runs that [`Stack::enter`] began.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Stack pointers below this are too deep.
    pub limit: usize,
    /// The stack pointer to begin with; `None` is the present one.
    pub top: Option<usize>,
}

/// What a call of a host's function is to leave as it was: see [`Stack::step_out`].
#[derive(Debug)]
pub struct Outside {
    top: Option<usize>,
    host: usize,
}

impl Outside {
    /// A free position on the host's own stack.
    pub fn host(&self) -> usize {
        self.host
    }
}

/// The number of bytes skipped below the frame of a function whose stack is entered again.
const SKIP: usize = 16 << 10;

/// Returns half of the machine's memory, in bytes.
fn half_of_memory() -> u64 {
    #[cfg(unix)]
    {
        // SAFETY: the names are the system's; the calls take and return numbers alone.
        let (pages, size) = unsafe {
            (
                libc::sysconf(libc::_SC_PHYS_PAGES),
                libc::sysconf(libc::_SC_PAGESIZE),
            )
        };
        if pages > 0 && size > 0 {
            return (pages as u64).saturating_mul(size as u64) / 2;
        }
    }
    u64::MAX
}

impl Stack {
    /// Nothing reserved yet.
    pub fn new() -> Self {
        Self {
            base: null_mut(),
            mapped: 0,
            wanted: DEFAULT.min(half_of_memory()),
            inside: false,
            top: None,
            host: 0,
        }
    }

    /// Returns the number of bytes that calls may use.
    pub fn size(&self) -> u64 {
        if self.mapped > 0 {
            self.mapped as u64
        } else {
            CALLERS as u64
        }
    }

    /// Sets the number of bytes to reserve; 0 is the host's own stack. Returns false, and changes
    /// nothing, while something runs on the stack.
    #[must_use]
    pub fn resize(&mut self, bytes: u64) -> bool {
        if self.inside || self.top.is_some() {
            return false;
        }
        self.unmap();
        self.wanted = bytes.min(1 << 44);
        true
    }

    /// Begins a call; [`Stack::leave`] ends it. Returns `None`, and begins nothing, where the
    /// stack is the present one already.
    pub fn enter(&mut self) -> Option<Entry> {
        if self.inside {
            return None;
        }
        if self.mapped == 0 && self.wanted > 0 {
            self.reserve();
        }
        self.inside = true;
        if self.mapped == 0 {
            let limit = here().saturating_sub(CALLERS);
            return Some(Entry { limit, top: None });
        }
        self.host = (here() - SKIP) & !15;
        let base = self.base as usize;
        Some(Entry {
            limit: base + RESERVE,
            top: Some(self.top.unwrap_or(base + self.mapped)),
        })
    }

    /// Ends a call. The memory is released where it was `too_deep` and nothing else is on it.
    pub fn leave(&mut self, too_deep: bool) {
        self.inside = false;
        if too_deep && self.top.is_none() {
            self.shed();
        }
    }

    /// Begins a call of a host's function from code on this stack, at a free position of the
    /// host's own: the host may measure its depth (as Python does), which may be larger than the
    /// reserve of this one. Generated code that it calls continues below the frames that are on
    /// this stack already. Returns `None`, and begins nothing, where the host's own stack is the
    /// present one.
    pub fn step_out(&mut self) -> Option<Outside> {
        if !self.inside || self.mapped == 0 {
            return None;
        }
        self.inside = false;
        let top = self.top.replace((here() - SKIP) & !15);
        let host = self.host;
        Some(Outside { top, host })
    }

    /// Ends a call of a host's function.
    pub fn step_back(&mut self, outside: Outside) {
        self.inside = true;
        (self.top, self.host) = (outside.top, outside.host);
    }

    /// Releases the memory, and keeps the addresses. Nothing runs on the stack.
    fn shed(&mut self) {
        #[cfg(target_os = "linux")]
        if self.mapped > 0 {
            // SAFETY: `reserve` mapped `mapped` bytes at `base`; what stood on them has returned:
            // nothing is inside, and no call waits for one (`leave`).
            unsafe { libc::madvise(self.base.cast(), self.mapped, libc::MADV_DONTNEED) };
        }
    }

    fn unmap(&mut self) {
        #[cfg(unix)]
        if self.mapped > 0 {
            // SAFETY: `reserve` mapped `mapped` bytes at `base`, and nothing runs on them: `resize`
            // has checked it, or the stack's owner goes.
            unsafe { libc::munmap(self.base.cast(), self.mapped) };
        }
        (self.base, self.mapped) = (null_mut(), 0);
    }

    /// Reserves the stack, or a smaller one when the system refuses.
    #[cfg(all(unix, any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn reserve(&mut self) {
        let mut size = self.wanted as usize & !0xffff;
        while self.mapped == 0 && size >= 4 * RESERVE {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let access = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: a new mapping, anonymous, wherever the system puts it.
            let base = unsafe { libc::mmap(null_mut(), size, access, flags, -1, 0) };
            if base == libc::MAP_FAILED {
                size = (size / 2) & !0xffff;
                continue;
            }
            // SAFETY: the mapping has `size` bytes, a megabyte or more; the lowest 64 KiB of them
            // become a guard.
            unsafe { libc::mprotect(base, 0x10000, libc::PROT_NONE) };
            #[cfg(target_os = "linux")]
            // SAFETY: less than the mapping's `size` bytes; the advice changes no contents.
            unsafe {
                libc::madvise(base, size.saturating_sub(SMALL_PAGES), libc::MADV_HUGEPAGE)
            };
            (self.base, self.mapped) = (base.cast(), size);
        }
    }

    #[cfg(not(all(unix, any(target_arch = "x86_64", target_arch = "aarch64"))))]
    fn reserve(&mut self) {}
}

impl Default for Stack {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        self.unmap();
    }
}

/// Calls `body(data)` with the stack pointer at `top`.
///
/// # Safety
/// As for [`call_at`]; `body` may be called with `data`.
#[cfg(all(unix, target_arch = "x86_64"))]
unsafe fn switch(top: usize, data: *mut c_void, body: unsafe extern "C" fn(*mut c_void)) {
    // SAFETY: r12 is preserved by the callee and brings the old stack pointer back; `top` is
    // aligned to 16, and nothing that is in use lies below it on its stack.
    unsafe {
        std::arch::asm!(
            "mov r12, rsp",
            "mov rsp, {top}",
            "call {body}",
            "mov rsp, r12",
            out("r12") _,
            top = in(reg) top,
            body = in(reg) body,
            in("rdi") data,
            clobber_abi("sysv64"),
        );
    }
}

/// Calls `body(data)` with the stack pointer at `top`.
///
/// # Safety
/// As for [`call_at`]; `body` may be called with `data`.
#[cfg(all(unix, target_arch = "aarch64"))]
unsafe fn switch(top: usize, data: *mut c_void, body: unsafe extern "C" fn(*mut c_void)) {
    // SAFETY: x20 is preserved by the callee and brings the old stack pointer back; `top` is
    // aligned to 16, and nothing that is in use lies below it on its stack.
    unsafe {
        std::arch::asm!(
            "mov x20, sp",
            "mov sp, {top}",
            "blr {body}",
            "mov sp, x20",
            top = in(reg) top,
            body = in(reg) body,
            in("x0") data,
            out("x20") _,
            clobber_abi("C"),
        );
    }
}

/// Calls `body(data)` on the present stack: no other is reserved here.
///
/// # Safety
/// `body` may be called with `data`.
#[cfg(not(all(unix, any(target_arch = "x86_64", target_arch = "aarch64"))))]
unsafe fn switch(_: usize, data: *mut c_void, body: unsafe extern "C" fn(*mut c_void)) {
    // SAFETY: `body` is the function for `data`.
    unsafe { body(data) }
}

/// Calls a function with the stack pointer at `top`. A panic in it ends the process.
///
/// # Safety
/// `top` came from [`Stack::enter`] or [`Stack::step_out`] for this call, and is used once.
pub unsafe fn call_at<T>(top: usize, body: impl FnOnce() -> T) -> T {
    struct Call<F, T> {
        body: Option<F>,
        result: Option<T>,
    }
    unsafe extern "C" fn run<F: FnOnce() -> T, T>(data: *mut c_void) {
        // SAFETY: `data` is the `Call` below, of these types, which waits and is used by nobody
        // else.
        let call = unsafe { &mut *data.cast::<Call<F, T>>() };
        call.result = call.body.take().map(|body| body());
    }
    fn of<F: FnOnce() -> T, T>(_: &Call<F, T>) -> unsafe extern "C" fn(*mut c_void) {
        run::<F, T>
    }
    let mut call = Call {
        body: Some(body),
        result: None,
    };
    let run = of(&call);
    // SAFETY: `top` is free and aligned to 16, by `enter` and `step_out`; `run` takes this `Call`.
    unsafe { switch(top, (&raw mut call).cast(), run) };
    match call.result {
        Some(result) => result,
        None => unreachable!("`run` sets it, or does not return"),
    }
}

/// An address in the current frame.
#[inline(never)]
fn here() -> usize {
    let mark = 0u8;
    std::hint::black_box(&raw const mark) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_runs_where_it_was_begun() {
        let mut stack = Stack::new();
        assert!(stack.resize(16 << 20));
        let outer = here();
        let entry = stack.enter().expect("nothing runs on it");
        assert!(stack.enter().is_none() && !stack.resize(0), "it is in use");
        let Some(top) = entry.top else {
            // No stack can be reserved here.
            return stack.leave(false);
        };
        // SAFETY: `top` is this call's.
        let (inner, host) = unsafe {
            call_at(top, || {
                let outside = stack.step_out().expect("it runs on the stack");
                let host = call_at(outside.host(), here);
                stack.step_back(outside);
                (here(), host)
            })
        };
        stack.leave(true);
        assert!((entry.limit..top).contains(&inner));
        assert!(outer.abs_diff(host) < 4 * SKIP, "not on the host's own");
        assert!(stack.resize(0), "nothing runs on it any more");
    }
}
