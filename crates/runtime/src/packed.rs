//! Functions that a host registers by name and a program calls.

use crate::context::{RxContext, Status, guard, text};
use crate::object::{RxObject, rx_unit};
use crate::release::rx_release;
use crate::stack::on_host;
use crate::values::given;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};
use std::ptr::null_mut;

/// A host function; see `RxPackedFn` in the C header.
pub type PackedFn = unsafe extern "C" fn(
    *mut RxContext,
    *mut c_void,
    *const *mut RxObject,
    i32,
    *mut *mut RxObject,
) -> i32;

/// The functions of a context by name.
pub(crate) type Registry = BTreeMap<String, (PackedFn, *mut c_void)>;

/// Registers or replaces a function.
///
/// # Safety
/// `name` is null or NUL-terminated; `function` and `userdata` stay valid for the context's life.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_register_packed(
    ctx: *mut RxContext,
    name: *const c_char,
    function: Option<PackedFn>,
    userdata: *mut c_void,
) -> i32 {
    guard(ctx, |context| {
        // SAFETY: `name` ends with a zero.
        let name = unsafe { text(name) };
        let Some(function) = function.filter(|_| !name.is_empty()) else {
            let message = "rx_register_packed: a name and a function are needed";
            return context.fail(Status::Argument, message);
        };
        context
            .packed
            .insert(name.into_owned(), (function, userdata));
        0
    })
}

/// 1 when the name is registered.
///
/// # Safety
/// `ctx` is a context; `name` is null or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_has_packed(ctx: *const RxContext, name: *const c_char) -> i32 {
    // SAFETY: `ctx` is null or live, and `name` ends with a zero.
    unsafe {
        ctx.as_ref()
            .is_some_and(|c| c.packed.contains_key(text(name).as_ref()))
            .into()
    }
}

/// A pending call on the host's stack.
struct HostCall {
    function: PackedFn,
    userdata: *mut c_void,
    args: *const *mut RxObject,
    nargs: i32,
    ret: *mut *mut RxObject,
}

unsafe extern "C" fn call_host(ctx: *mut RxContext, data: *mut c_void) -> i32 {
    // SAFETY: `call` passes a `HostCall` that outlives this.
    unsafe {
        let call = &*data.cast::<HostCall>();
        (call.function)(ctx, call.userdata, call.args, call.nargs, call.ret)
    }
}

/// Calls a function, and prefixes its error with its name.
unsafe fn call(
    ctx: *mut RxContext,
    name: *const c_char,
    args: *const *mut RxObject,
    nargs: i32,
    ret: *mut *mut RxObject,
) -> i32 {
    let mut found = None;
    let status = guard(ctx, |context| {
        // SAFETY: `name` ends with a zero.
        let name = unsafe { text(name) };
        found = context.packed.get(name.as_ref()).copied();
        if found.is_some() {
            context.status = 0;
            return 0;
        }
        let message = format!("no packed function \"{name}\" is registered");
        context.fail(Status::Packed, &message)
    });
    let Some((function, userdata)) = found else {
        return status;
    };
    let mut host = HostCall {
        function,
        userdata,
        args,
        nargs,
        ret,
    };
    // SAFETY: the host's function keeps its contract; no borrow of the context is alive.
    let status = unsafe { on_host(ctx, call_host, (&raw mut host).cast()) };
    if status == 0 {
        return 0;
    }
    guard(ctx, |context| {
        // SAFETY: `name` ends with a zero.
        let name = unsafe { text(name) };
        let reason = if context.status == 0 {
            format!("status {status}")
        } else {
            // SAFETY: `rx_last_error` returns a live text.
            unsafe { text(crate::context::rx_last_error(context)) }.into_owned()
        };
        context.fail(
            Status::Packed,
            &format!("packed function \"{name}\" failed: {reason}"),
        )
    })
}

/// Returns the error of a call without a destination for its result.
pub(crate) fn no_place(ctx: *mut RxContext, message: &str) -> i32 {
    guard(ctx, |context| context.fail(Status::Argument, message))
}

/// Calls a function that returns a value.
///
/// # Safety
/// `name` is NUL-terminated, `args` has `nargs` live values, `ret` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_call_packed(
    ctx: *mut RxContext,
    name: *const c_char,
    args: *const *mut RxObject,
    nargs: i32,
    ret: *mut *mut RxObject,
) -> i32 {
    // SAFETY: `ctx` is live, `args` has `nargs` live values, and `ret` is null or has room for one.
    unsafe {
        if !given(ctx, "rx_call_packed: `args`", args, nargs.max(0) as u64) {
            return Status::Argument as i32;
        }
        if ret.is_null() {
            return no_place(ctx, "rx_call_packed: `ret` is NULL");
        }
        let mut result = null_mut();
        let status = call(ctx, name, args, nargs, &mut result);
        if status != 0 {
            rx_release(ctx, result);
            result = null_mut();
        } else if result.is_null() {
            result = rx_unit();
        }
        *ret = result;
        status
    }
}

/// Calls a function that writes its last arguments.
///
/// # Safety
/// `name` is NUL-terminated, `args` has `nargs` live values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_call_dps_packed(
    ctx: *mut RxContext,
    name: *const c_char,
    args: *const *mut RxObject,
    nargs: i32,
) -> i32 {
    // SAFETY: `ctx` is live, and `args` has `nargs` live tensors.
    unsafe {
        if !given(ctx, "rx_call_dps_packed: `args`", args, nargs.max(0) as u64) {
            return Status::Argument as i32;
        }
        call(ctx, name, args, nargs, null_mut())
    }
}
