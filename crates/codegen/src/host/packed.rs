//! Host functions, which compiled code calls by name.

use std::ffi::{CString, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use relax_base::BoxError;
use relax_runtime::capi::counts::rx_release;
use relax_runtime::capi::errors::{rx_last_error, rx_set_error};
use relax_runtime::capi::fields::rx_kind;
use relax_runtime::capi::functions::rx_register_packed;
use relax_runtime::capi::tensors::rx_tensor_copy;
use relax_runtime::capi::values::{rx_alloc_adt, rx_alloc_tuple};
use relax_runtime::context::{RxContext, Status};
use relax_runtime::object::{IMMORTAL, Kind, RxFields, RxObject, Storage};
use relax_tensor::{Tensor, Value};

use crate::Error;

use super::{Context, Host, Seen, dl, outside};

/// The functions called by `call_packed` and `call_dps_packed`, by name. They run on the thread
/// that called the program.
pub trait Packed: Send + Sync {
    /// Calls a function.
    ///
    /// # Errors
    /// There is no function of that name, or it failed.
    fn call(&self, name: &str, args: &[Value]) -> Result<Value, BoxError>;

    /// Calls a function that writes its last arguments.
    ///
    /// # Errors
    /// Like [`Packed::call`].
    fn call_dps(&self, name: &str, args: &[Place]) -> Result<(), BoxError>;
}

/// A tensor that a function may write, if the program owns it.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its type and elements, which are not accessed elsewhere while the function runs.
    pub tensor: Tensor,
    /// Whether its elements may be written in place.
    pub own: bool,
}

/// A function registered with a context.
pub(super) struct Registered {
    name: String,
    functions: Arc<dyn Packed>,
    context: Weak<Context>,
}

impl Host {
    /// Registers functions of these names for compiled code to call.
    ///
    /// # Errors
    /// [`Error::Context`]: memory cannot be allocated, or a name is invalid.
    pub fn register(&mut self, names: &[String], functions: &Arc<dyn Packed>) -> Result<(), Error> {
        for name in names {
            let symbol = CString::new(name.as_str());
            let symbol = symbol.map_err(|e| Error::Context(format!("{name:?}: {e}")))?;
            let registered = Arc::new(Registered {
                name: name.clone(),
                functions: Arc::clone(functions),
                context: Arc::downgrade(&self.context),
            });
            let userdata = std::ptr::from_ref(&*registered).cast_mut().cast::<c_void>();
            // SAFETY: the context lives; nobody calls through it once this host is gone, which
            // keeps what it points to.
            let status =
                unsafe { rx_register_packed(self.ctx, symbol.as_ptr(), Some(called), userdata) };
            if status != 0 {
                return Err(Error::Context(self.error()));
            }
            self.packed.push(registered);
        }
        Ok(())
    }
}

/// The function that the runtime calls.
unsafe extern "C" fn called(
    ctx: *mut RxContext,
    userdata: *mut c_void,
    args: *const *mut RxObject,
    nargs: i32,
    ret: *mut *mut RxObject,
) -> i32 {
    let call = || {
        // SAFETY: `Host::register` gave a `Registered` that lives as long as calls are made;
        // arguments are live values.
        unsafe {
            let registered = &*userdata.cast::<Registered>();
            let args = match usize::try_from(nargs) {
                Ok(n) if n > 0 => std::slice::from_raw_parts(args, n),
                _ => &[],
            };
            registered.call(ctx, args, ret)
        }
    };
    let outcome = catch_unwind(AssertUnwindSafe(call));
    let message = match outcome {
        Ok(Ok(())) => return 0,
        Ok(Err(error)) => error.to_string(),
        Err(_) => "it panicked".to_owned(),
    };
    let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
    // SAFETY: the runtime's own context, and a text that ends.
    unsafe { rx_set_error(ctx, Status::Packed as i32, message.as_ptr()) }
}

impl Registered {
    /// # Safety
    /// `ctx` is the context, `args` are its live values; `ret` is null, or writable.
    unsafe fn call(
        &self,
        ctx: *mut RxContext,
        args: &[*mut RxObject],
        ret: *mut *mut RxObject,
    ) -> Result<(), BoxError> {
        let context = self.context.upgrade().ok_or("its context is gone")?;
        if ret.is_null() {
            let place = |&object: &*mut RxObject| {
                // SAFETY: arguments are live objects of this context.
                unsafe { place(&context, object) }.ok_or("an argument is no tensor")
            };
            let places = args.iter().map(place).collect::<Result<Vec<Place>, _>>()?;
            return self.functions.call_dps(&self.name, &places);
        }
        let value = |&object: &*mut RxObject| {
            outside(object, &|object, _| {
                // SAFETY: as above.
                unsafe { place(&context, object) }.map(|p| Value::Tensor(p.tensor))
            })
        };
        let values: Vec<Value> = args.iter().map(value).collect();
        let result = self.functions.call(&self.name, &values)?;
        // SAFETY: as above.
        unsafe { *ret = object(ctx, &result)? };
        Ok(())
    }
}

/// Converts a tensor for a function: in place, if the program owns it; copied, if the program
/// borrows it, since the function may keep it.
///
/// # Safety
/// `object` is a live value of the context.
unsafe fn place(context: &Arc<Context>, object: *mut RxObject) -> Option<Place> {
    // SAFETY: `object` is null or live.
    if unsafe { rx_kind(object) } != Kind::Tensor as i32 {
        return None;
    }
    // SAFETY: it is a live tensor.
    let (refs, tag) = unsafe { ((*object).refs, (*object).tag) };
    // SAFETY: as above.
    let seen = unsafe { Seen::of(object) };
    if seen.bytes.is_empty() {
        let tensor = Tensor::zeros(seen.dtype, seen.shape);
        return Some(Place { tensor, own: true });
    }
    if refs >= IMMORTAL || tag != Storage::Own as u32 {
        let tensor = Tensor::from_bytes(seen.dtype, seen.shape, seen.bytes)?;
        return Some(Place { tensor, own: false });
    }
    // SAFETY: it is a tensor of that context, with elements of its own.
    let tensor = unsafe { seen.lent(context, object) }?;
    Some(Place { tensor, own: true })
}

/// A value under construction.
struct Made(*mut RxContext, *mut RxObject);

impl Drop for Made {
    fn drop(&mut self) {
        // SAFETY: owned here, of this context, which the caller has for itself.
        unsafe { rx_release(self.0, self.1) };
    }
}

impl Made {
    fn whole(self) -> *mut RxObject {
        let object = self.1;
        std::mem::forget(self);
        object
    }
}

/// A copy of a value in the context.
///
/// # Safety
/// `ctx` is a context that the caller has for itself.
unsafe fn object(ctx: *mut RxContext, value: &Value) -> Result<*mut RxObject, String> {
    let own = |object: *mut RxObject| (!object.is_null()).then_some(Made(ctx, object));
    let tensor = |t: &Tensor| {
        let (shape, data) = (t.shape(), t.bytes().as_ptr());
        let (rank, shape) = (shape.len() as i32, shape.as_ptr());
        // SAFETY: `ctx` is live; shape and data have as many numbers and bytes as the tensor.
        let made = unsafe { rx_tensor_copy(ctx, dl(t.dtype()), rank, shape, data.cast()) };
        own(made)
    };
    let join = |tag: Option<u32>, fields: Vec<Made>| {
        let count = fields.len() as u32;
        let whole = own(match tag {
            // SAFETY: the context lives as long as the call.
            Some(tag) => unsafe { rx_alloc_adt(ctx, tag, count) },
            // SAFETY: as above.
            None => unsafe { rx_alloc_tuple(ctx, count) },
        })?;
        for (i, field) in fields.into_iter().enumerate() {
            // SAFETY: the object has so many fields, unset ones, and owns what they are set to.
            unsafe {
                let at = &raw mut (*whole.1.cast::<RxFields>()).fields;
                at.cast::<*mut RxObject>().add(i).write(field.whole());
            }
        }
        Some(whole)
    };
    let made = value.fold(tensor, join);
    made.map(Made::whole).ok_or_else(|| {
        // SAFETY: the runtime's text is valid until the next call.
        let said = unsafe { std::ffi::CStr::from_ptr(rx_last_error(ctx)) }.to_string_lossy();
        match said.is_empty() {
            true => "it returned what is no value of a program".to_owned(),
            false => said.into_owned(),
        }
    })
}
