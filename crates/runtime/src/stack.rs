//! The stack that generated code runs on.
//!
//! Its address space is reserved once per context and committed page by page as calls nest, so a
//! deep recursion needs no setting and a shallow one costs nothing. Below the limit that
//! `RxContext.stack_limit` names, a reserve is left for the runtime's own functions.

use crate::context::{RxContext, Status, guard};
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
    /// A free position on the stack of the caller that entered last.
    host: usize,
}

/// The number of bytes skipped below the frame of a function whose stack is entered again.
const SKIP: usize = 16 << 10;

/// Returns half of the machine's memory, in bytes.
fn half_of_memory() -> u64 {
    #[cfg(unix)]
    {
        // SAFETY: nothing but numbers.
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

type Body = unsafe extern "C" fn(*mut RxContext, *mut c_void) -> i32;

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

    /// Releases the memory, and keeps the addresses. Nothing runs on the stack.
    fn shed(&mut self) {
        #[cfg(target_os = "linux")]
        if self.mapped > 0 {
            // SAFETY: the range was mapped by `reserve`; what stood on it has returned.
            unsafe { libc::madvise(self.base.cast(), self.mapped, libc::MADV_DONTNEED) };
        }
    }

    fn unmap(&mut self) {
        #[cfg(unix)]
        if self.mapped > 0 {
            // SAFETY: the range was mapped by `reserve` and nothing runs on it.
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
            // SAFETY: a new anonymous mapping; its lowest page is then closed as a guard.
            unsafe {
                let base = libc::mmap(null_mut(), size, access, flags, -1, 0);
                if base != libc::MAP_FAILED {
                    libc::mprotect(base, 0x10000, libc::PROT_NONE);
                    #[cfg(target_os = "linux")]
                    libc::madvise(base, size.saturating_sub(SMALL_PAGES), libc::MADV_HUGEPAGE);
                    (self.base, self.mapped) = (base.cast(), size);
                }
            }
            if self.mapped == 0 {
                size = (size / 2) & !0xffff;
            }
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

/// Calls `body(ctx, data)` with the stack pointer at `top`.
#[cfg(all(unix, target_arch = "x86_64"))]
unsafe fn on_stack(top: *mut u8, ctx: *mut RxContext, data: *mut c_void, body: Body) -> i32 {
    let status: i32;
    // SAFETY: r12 is preserved by the callee and brings the old stack pointer back; `top` is
    // aligned to 16 and lies at the end of a mapping that nothing else uses.
    unsafe {
        std::arch::asm!(
            "mov r12, rsp",
            "mov rsp, {top}",
            "call {body}",
            "mov rsp, r12",
            out("r12") _,
            top = in(reg) top,
            body = in(reg) body,
            in("rdi") ctx,
            in("rsi") data,
            lateout("eax") status,
            clobber_abi("sysv64"),
        );
    }
    status
}

/// Calls `body(ctx, data)` with the stack pointer at `top`.
#[cfg(all(unix, target_arch = "aarch64"))]
unsafe fn on_stack(top: *mut u8, ctx: *mut RxContext, data: *mut c_void, body: Body) -> i32 {
    let status: u64;
    // SAFETY: x20 is preserved by the callee and brings the old stack pointer back; `top` is as
    // on x86-64.
    unsafe {
        std::arch::asm!(
            "mov x20, sp",
            "mov sp, {top}",
            "blr {body}",
            "mov sp, x20",
            top = in(reg) top,
            body = in(reg) body,
            inout("x0") ctx => status,
            in("x1") data,
            out("x20") _,
            clobber_abi("C"),
        );
    }
    status as i32
}

/// An address in the current frame.
#[inline(never)]
fn here() -> usize {
    let mark = 0u8;
    std::hint::black_box(&raw const mark) as usize
}

/// Sets the stack's size; 0 is the caller's own stack.
#[unsafe(no_mangle)]
pub extern "C" fn rx_set_stack_size(ctx: *mut RxContext, bytes: u64) -> i32 {
    guard(ctx, |context| {
        if context.stack.inside || context.stack.top.is_some() {
            return context.fail(
                Status::Argument,
                "rx_set_stack_size: generated code is running",
            );
        }
        context.stack.unmap();
        context.stack.wanted = bytes.min(1 << 44);
        0
    })
}

/// Runs a function on the context's stack.
///
/// # Safety
/// `ctx` is a context; `body` may be called with it and `data`, and does not unwind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_call_on_stack(
    ctx: *mut RxContext,
    body: Body,
    data: *mut c_void,
) -> i32 {
    // SAFETY: `ctx` is live, and `body` may be called with `data`; no reference into the context is
    // held across the call.
    unsafe {
        if (*ctx).stack.inside {
            return body(ctx, data);
        }
        if (*ctx).stack.mapped == 0 && (*ctx).stack.wanted > 0 {
            (*ctx).stack.reserve();
        }
        (*ctx).stack.inside = true;
        let status = run(ctx, body, data);
        (*ctx).stack.inside = false;
        (*ctx).stack_limit = 0;
        if status == Status::Stack as i32 && (*ctx).stack.top.is_none() {
            (*ctx).stack.shed();
        }
        status
    }
}

unsafe fn run(ctx: *mut RxContext, body: Body, data: *mut c_void) -> i32 {
    // SAFETY: as in `rx_call_on_stack`.
    unsafe {
        #[cfg(all(unix, any(target_arch = "x86_64", target_arch = "aarch64")))]
        if (*ctx).stack.mapped > 0 {
            let (base, mapped) = ((*ctx).stack.base, (*ctx).stack.mapped);
            (*ctx).stack_limit = base as usize + RESERVE;
            (*ctx).stack.host = (here() - SKIP) & !15;
            let top = (*ctx).stack.top.unwrap_or(base as usize + mapped);
            return on_stack(top as *mut u8, ctx, data, body);
        }
        (*ctx).stack_limit = here().saturating_sub(CALLERS);
        body(ctx, data)
    }
}

/// Runs a host's function on the host's own stack, whose depth it may measure (as Python does) and
/// which may be larger than the reserve of this one. Generated code that it calls continues below
/// the frames that are on this stack already.
///
/// # Safety
/// See [`rx_call_on_stack`].
pub(crate) unsafe fn on_host(ctx: *mut RxContext, body: Body, data: *mut c_void) -> i32 {
    // SAFETY: `ctx` is live, and `body` may be called with `data`; `host` lies below all that is in
    // use on the host's stack, since its frames wait for this call.
    unsafe {
        #[cfg(all(unix, any(target_arch = "x86_64", target_arch = "aarch64")))]
        if (*ctx).stack.inside && (*ctx).stack.mapped > 0 {
            let (limit, top, host) = ((*ctx).stack_limit, (*ctx).stack.top, (*ctx).stack.host);
            (*ctx).stack.top = Some((here() - SKIP) & !15);
            (*ctx).stack.inside = false;
            let status = on_stack(host as *mut u8, ctx, data, body);
            (*ctx).stack.inside = true;
            (*ctx).stack_limit = limit;
            (*ctx).stack.top = top;
            (*ctx).stack.host = host;
            return status;
        }
        body(ctx, data)
    }
}
