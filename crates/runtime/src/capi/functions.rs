//! Calls of closures, and of functions that a host registers by name.

use std::ffi::{c_char, c_void};
use std::ptr::null_mut;

use crate::context::{RxContext, Status, guard};
use crate::object::{Kind, RxClosure, RxObject, unit};
use crate::packed::PackedFn;
use crate::release::release;
use crate::values::is;

use super::stack::on_host;
use super::{given, release_all, text};

/// Calls a closure through its C entry.
///
/// # Safety
/// `closure` is null or a live value; `args` has `nargs` owned values; `out` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_call_closure(
    ctx: *mut RxContext,
    closure: *mut RxObject,
    args: *const *mut RxObject,
    nargs: i32,
    out: *mut *mut RxObject,
) -> i32 {
    // SAFETY: `nargs` values, unless `given` refuses the pointer.
    let Some(values) = (unsafe { given(ctx, "rx_call_closure: `args`", args, nargs) }) else {
        return Status::Argument as i32;
    };
    // SAFETY: null or a live value.
    let entry = unsafe { entry_of(closure, nargs) };
    if let Some(entry) = entry.filter(|_| !out.is_null()) {
        // SAFETY: the closure's own entry, which takes the `nargs` values that are owned here, and
        // writes one. The place may be that of an argument.
        unsafe {
            let status = entry(ctx, closure.cast(), args, nargs, out);
            if status != 0 {
                out.write(null_mut());
            }
            return status;
        }
    }
    let message = match out.is_null() {
        true => "rx_call_closure: `out` is NULL".to_owned(),
        false => format!("rx_call_closure: no function that takes {nargs} arguments"),
    };
    let status = guard(ctx, |context| context.fail(Status::Argument, &message));
    // SAFETY: `nargs` owned values, which are given up and not looked at again; null, or room for a
    // value, perhaps in the place of an argument.
    unsafe {
        release_all(ctx, values);
        if !out.is_null() {
            out.write(null_mut());
        }
    }
    status
}

/// Returns the C entry of a closure that takes so many arguments.
///
/// # Safety
/// `closure` is null or a live value.
unsafe fn entry_of(closure: *const RxObject, nargs: i32) -> Option<crate::object::ClosureEntry> {
    // SAFETY: null or a live value; what is a closure has an entry, or none.
    unsafe {
        if !is(closure, Kind::Closure) || (*closure).tag as i32 != nargs {
            return None;
        }
        (*closure.cast::<RxClosure>()).entry
    }
}

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
        // SAFETY: null, or ends with a NUL.
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
    // SAFETY: null or a context, and null or a text that ends with a NUL.
    let (context, name) = unsafe { (ctx.as_ref(), text(name)) };
    context
        .is_some_and(|c| c.packed.contains_key(name.as_ref()))
        .into()
}

/// Calls a function, and prefixes its error with its name.
///
/// # Safety
/// `name` is null or NUL-terminated; the function may be called with `args` and `ret`.
unsafe fn call(
    ctx: *mut RxContext,
    name: *const c_char,
    args: &[*mut RxObject],
    ret: *mut *mut RxObject,
) -> i32 {
    // SAFETY: null, or ends with a NUL, and stays as it is while the call runs.
    let name = unsafe { text(name) };
    let mut found = None;
    let status = guard(ctx, |context| {
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
    let (first, count) = (args.as_ptr(), args.len() as i32);
    // SAFETY: the function was registered with its data, and gets `count` values; no borrow of the
    // context is alive.
    let status = unsafe { on_host(ctx, || function(ctx, userdata, first, count, ret)) };
    if status == 0 {
        return 0;
    }
    guard(ctx, |context| {
        let reason = match context.status {
            0 => format!("status {status}").into(),
            _ => context.last_error().to_string_lossy(),
        };
        let message = format!("packed function \"{name}\" failed: {reason}");
        context.fail(Status::Packed, &message)
    })
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
    // SAFETY: `nargs` values, unless `given` refuses the pointer.
    let Some(args) = (unsafe { given(ctx, "rx_call_packed: `args`", args, nargs) }) else {
        return Status::Argument as i32;
    };
    if ret.is_null() {
        let message = "rx_call_packed: `ret` is NULL";
        return guard(ctx, |context| context.fail(Status::Argument, message));
    }
    let mut result = null_mut();
    // SAFETY: live values, and room for one.
    let status = unsafe { call(ctx, name, args, &mut result) };
    if status != 0 {
        // SAFETY: null, or a value that the function wrote and nobody gets.
        unsafe { release(ctx, result) };
        result = null_mut();
    } else if result.is_null() {
        result = unit().as_ptr();
    }
    // SAFETY: not null, so room for a value; perhaps in the place of an argument, which are not
    // looked at again.
    unsafe { ret.write(result) };
    status
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
    // SAFETY: `nargs` values, unless `given` refuses the pointer.
    match unsafe { given(ctx, "rx_call_dps_packed: `args`", args, nargs) } {
        // SAFETY: live values; the function returns none.
        Some(args) => unsafe { call(ctx, name, args, null_mut()) },
        None => Status::Argument as i32,
    }
}
