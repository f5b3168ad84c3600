//! Calling compiled code from Rust: tensors and tuples in, values out.

use std::ffi::CStr;
use std::sync::{Arc, Mutex, PoisonError};

use relax_runtime::capi::context::{
    rx_context_create, rx_context_destroy, rx_heap_stats, rx_set_allocator, rx_set_threads,
};
use relax_runtime::capi::counts::{rx_release, rx_retain};
use relax_runtime::capi::errors::{rx_last_error, rx_last_status};
use relax_runtime::capi::fields::{rx_field, rx_field_count, rx_kind, rx_tag};
use relax_runtime::capi::profile::{rx_profile_clear, rx_profile_row};
use relax_runtime::capi::stack::rx_set_stack_size;
use relax_runtime::capi::tensors::{
    rx_tensor_borrow, rx_tensor_data, rx_tensor_dtype, rx_tensor_nbytes, rx_tensor_ndim,
    rx_tensor_shape,
};
use relax_runtime::capi::values::{rx_alloc_adt, rx_alloc_tuple};
use relax_runtime::context::RxContext;
use relax_runtime::heap::{RxAllocator, RxHeapStats};
use relax_runtime::object::{DLDataType, Kind, RxFields, RxObject, Storage};
pub use relax_runtime::profile::{Event as KernelEvent, RxProfileRow as KernelCost};
use relax_tensor::{DType, Tensor, TypeCode, Value};

use crate::{Entry, Error, Jit};

mod packed;
mod views;

pub use packed::{Packed, Place};
pub use views::{Given, View};

/// A context, shared with the tensors that borrow from its heap.
struct Context {
    ctx: *mut RxContext,
    /// Values without references from the host. The next user of the context releases them:
    /// reference counts are not atomic.
    over: Mutex<Vec<Object>>,
}

/// An owned value of a context.
struct Object(*mut RxObject);

// SAFETY: only whoever has the `Host` looks at its counts.
unsafe impl Send for Object {}

// SAFETY: a context belongs to one thread at a time, and is used through its `Host`, which is not
// `Sync`. What else keeps it touches `over` alone, or is the last to keep it.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// Releases values without references from the host.
    fn settle(&self) {
        let over = std::mem::take(&mut *self.over.lock().unwrap_or_else(PoisonError::into_inner));
        for object in over {
            // SAFETY: owned by the list, of this context, which the caller has for itself.
            unsafe { rx_release(self.ctx, object.0) };
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.settle();
        // SAFETY: made by `Host::new`, destroyed once, by the last that keeps it.
        unsafe { rx_context_destroy(self.ctx) };
    }
}

/// The elements of a result, in the context's heap.
struct Lent {
    context: Arc<Context>,
    object: *mut RxObject,
    data: *const u8,
    len: usize,
}

// SAFETY: a tensor that nobody else refers to is read only; its count is touched by whoever has the
// `Host`.
unsafe impl Send for Lent {}
// SAFETY: as above.
unsafe impl Sync for Lent {}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the block of a live tensor, which has so many bytes.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut over = self
            .context
            .over
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        over.push(Object(self.object));
    }
}

/// Results of fewer bytes are copied, which is cheaper than lending them.
const LENT: usize = 1 << 12;

/// A context of the runtime.
pub struct Host {
    context: Arc<Context>,
    ctx: *mut RxContext,
    /// The host functions that compiled code calls by name.
    packed: Vec<Arc<packed::Registered>>,
}

// SAFETY: a context belongs to one thread at a time, whichever that is.
unsafe impl Send for Host {}

impl Host {
    /// Creates a context that runs parallel loops on the given number of threads, 0 for one per
    /// processor.
    ///
    /// # Errors
    /// [`Error::Context`]: memory cannot be allocated, or the number of threads is not supported.
    pub fn new(threads: usize) -> Result<Host, Error> {
        let ctx = rx_context_create();
        if ctx.is_null() {
            let none = "out of memory: no context could be made";
            return Err(Error::Context(none.to_owned()));
        }
        let over = Mutex::new(Vec::new());
        let host = Host {
            context: Arc::new(Context { ctx, over }),
            ctx,
            packed: Vec::new(),
        };
        match rx_set_threads(ctx, i32::try_from(threads).unwrap_or(i32::MAX)) {
            0 => Ok(host),
            _ => Err(Error::Context(host.error())),
        }
    }

    /// Like [`Host::new`], with memory from the given functions.
    ///
    /// # Safety
    /// The functions keep the contract of `RxAllocator` for as long as values of the context live.
    ///
    /// # Errors
    /// As for [`Host::new`].
    pub unsafe fn with_allocator(threads: usize, hooks: &RxAllocator) -> Result<Host, Error> {
        let host = Host::new(threads)?;
        // SAFETY: the context has not allocated yet, and the hooks are an allocator's functions.
        match unsafe { rx_set_allocator(host.ctx, hooks) } {
            0 => Ok(host),
            _ => Err(Error::Context(host.error())),
        }
    }

    /// Calls an entry with tensors.
    ///
    /// # Errors
    /// There is no such entry, or [`Error::Call`]: the runtime's message.
    pub fn call(&self, jit: &Jit, entry: &str, inputs: &[Tensor]) -> Result<Value, Error> {
        let inputs: Vec<Value> = inputs.iter().cloned().map(Value::Tensor).collect();
        self.call_timed(jit, entry, &inputs).map(|v| v.0)
    }

    /// Calls an entry with tensors, tuples and data of them; also returns how long the call itself
    /// took.
    ///
    /// # Errors
    /// As for [`Host::call`].
    pub fn call_timed(
        &self,
        jit: &Jit,
        entry: &str,
        inputs: &[Value],
    ) -> Result<(Value, std::time::Duration), Error> {
        self.with(jit, entry, inputs, copy)
    }

    /// Like [`Host::call_timed`], without copying large results: they stay in the context's heap
    /// until they have no references and the context is used again, or dropped.
    ///
    /// # Errors
    /// As for [`Host::call`].
    pub fn call_lending(&self, jit: &Jit, entry: &str, inputs: &[Value]) -> Result<Value, Error> {
        let look = |object| self.lending(object);
        self.with(jit, entry, inputs, look).map(|v| v.0)
    }

    /// Returns the time that a call takes; its result is released unread.
    ///
    /// # Errors
    /// As for [`Host::call`].
    pub fn time(
        &self,
        jit: &Jit,
        entry: &str,
        inputs: &[Value],
    ) -> Result<std::time::Duration, Error> {
        self.with(jit, entry, inputs, |_| ()).map(|r| r.1)
    }

    /// Calls an entry by name, passes its result to a function, and releases it; also returns how
    /// long the call itself took.
    fn with<T>(
        &self,
        jit: &Jit,
        entry: &str,
        inputs: &[Value],
        look: impl FnOnce(*mut RxObject) -> T,
    ) -> Result<(T, std::time::Duration), Error> {
        let code = jit
            .entry(entry)
            .ok_or_else(|| Error::NoEntry(entry.to_owned()))?;
        // SAFETY: the code lives as long as `jit`.
        unsafe { self.run(code, inputs, look) }
    }

    /// Like `with`, for the entry's code.
    ///
    /// # Safety
    /// `code` is an entry that lives.
    unsafe fn run<T>(
        &self,
        code: Entry,
        inputs: &[Value],
        look: impl FnOnce(*mut RxObject) -> T,
    ) -> Result<(T, std::time::Duration), Error> {
        self.context.settle();
        let inputs = inputs.iter().map(|v| self.argument(v));
        let inputs = inputs.collect::<Result<Vec<Owned<'_>>, Error>>()?;
        let args: Vec<*mut RxObject> = inputs.iter().map(|o| o.object).collect();
        let start = std::time::Instant::now();
        // SAFETY: `code` is the entry of a function of this program; arguments are live objects of
        // this context.
        let out = unsafe { self.enter(code, &args) };
        let took = start.elapsed();
        out.map(|out| (look(out.object), took))
    }

    /// Converts an argument to an object. Its tensors borrow their elements and shapes from the
    /// value.
    fn argument<'h>(&'h self, value: &'h Value) -> Result<Owned<'h>, Error> {
        let own =
            |object: *mut RxObject| (!object.is_null()).then_some(Owned { host: self, object });
        let tensor = |t: &Tensor| {
            let shape = t.shape();
            // SAFETY: data and shape outlive the call; compiled code writes to no borrowed tensor.
            own(unsafe {
                rx_tensor_borrow(
                    self.ctx,
                    dl(t.dtype()),
                    shape.len() as i32,
                    shape.as_ptr(),
                    t.bytes().as_ptr().cast_mut().cast(),
                )
            })
        };
        let join = |tag: Option<u32>, fields: Vec<Owned<'h>>| {
            let count = fields.len() as u32;
            // SAFETY: the context lives.
            let whole = own(unsafe {
                match tag {
                    Some(tag) => rx_alloc_adt(self.ctx, tag, count),
                    None => rx_alloc_tuple(self.ctx, count),
                }
            })?;
            for (i, field) in fields.into_iter().enumerate() {
                // SAFETY: the object has so many fields, unset ones, and owns what they are set to.
                unsafe {
                    let at = (&raw mut (*whole.object.cast::<RxFields>()).fields)
                        .cast::<*mut RxObject>();
                    at.add(i).write(field.object);
                }
                std::mem::forget(field);
            }
            Some(whole)
        };
        value.fold(tensor, join).ok_or_else(|| match self.error() {
            text if text.is_empty() => Error::Call("an argument is not made of tensors".to_owned()),
            text => Error::Call(text),
        })
    }

    /// Converts a value to one outside, with its large tensors lent.
    fn lending(&self, object: *mut RxObject) -> Value {
        outside(object, &|object, kind| self.lend(object, kind))
    }

    /// Lends a large tensor with a block of its own that only its parent refers to, without a copy.
    fn lend(&self, object: *mut RxObject, kind: i32) -> Option<Value> {
        if kind != Kind::Tensor as i32 {
            return None;
        }
        // SAFETY: `object` is a live tensor.
        let (refs, tag) = unsafe { ((*object).refs, (*object).tag) };
        // SAFETY: as above; its elements stay as they are while it is looked at.
        let seen = unsafe { Seen::of(object) };
        if refs != 1 || tag != Storage::Own as u32 || seen.bytes.len() < LENT {
            return None;
        }
        // SAFETY: as above.
        unsafe { seen.lent(&self.context, object) }.map(Value::Tensor)
    }

    /// Sets how many bytes of stack compiled code may use.
    ///
    /// # Errors
    /// [`Error::Context`]: there is no memory for them.
    pub fn set_stack_size(&self, bytes: u64) -> Result<(), Error> {
        match rx_set_stack_size(self.ctx, bytes) {
            0 => Ok(()),
            _ => Err(Error::Context(self.error())),
        }
    }

    /// Returns the cost of each kernel since [`Host::clear_profile`], by number; zeros for code
    /// compiled without profiling.
    pub fn profile(&self, kernels: usize) -> Vec<KernelCost> {
        (0..kernels as i32)
            .map(|k| {
                let mut row = KernelCost::default();
                // SAFETY: the context lives, and `row` has room.
                unsafe { rx_profile_row(self.ctx, k, &mut row) };
                row
            })
            .collect()
    }

    /// Resets the profile.
    pub fn clear_profile(&self) {
        // SAFETY: the context lives.
        unsafe { rx_profile_clear(self.ctx) };
    }

    /// Records individual calls of kernels from now on, up to a maximum; code compiled without
    /// profiling records none.
    pub fn trace(&self, most: usize) {
        // SAFETY: the context lives, and belongs to this thread now.
        let profile = unsafe { &mut (*self.ctx).profile };
        profile.keep_events(most);
    }

    /// Returns the calls recorded since [`Host::trace`]; their times count from there.
    pub fn events(&self) -> Vec<KernelEvent> {
        // SAFETY: as for `trace`.
        let profile = unsafe { &mut (*self.ctx).profile };
        profile.take_events()
    }

    /// Returns the memory that the context's heap holds.
    pub fn heap(&self) -> RxHeapStats {
        let mut stats = RxHeapStats::default();
        // SAFETY: both pointers are valid.
        unsafe { rx_heap_stats(self.ctx, &mut stats) };
        stats
    }

    /// Returns the status of the last call that failed.
    pub fn status(&self) -> i32 {
        // SAFETY: the context lives.
        unsafe { rx_last_status(self.ctx) }
    }

    /// The context.
    pub(crate) fn ctx(&self) -> *mut RxContext {
        self.ctx
    }

    /// Releases values without references from the host.
    pub(crate) fn settle(&self) {
        self.context.settle();
    }

    /// Converts a tensor that a kernel created and the caller owns, and releases it: a large one is
    /// lent, a small one copied.
    pub(crate) fn result(&self, object: *mut RxObject) -> Option<Tensor> {
        if object.is_null() {
            return None;
        }
        // SAFETY: a live value of this context.
        let kind = unsafe { rx_kind(object) };
        match &self
            .lend(object, kind)
            .unwrap_or_else(|| leaf(object, kind))
        {
            Value::Tensor(t) => Some(t.clone()),
            _ => None,
        }
    }

    pub(crate) fn error(&self) -> String {
        // SAFETY: the text is valid until the next call.
        unsafe { CStr::from_ptr(rx_last_error(self.ctx)) }
            .to_string_lossy()
            .into_owned()
    }
}

/// An object that is released on drop.
struct Owned<'h> {
    host: &'h Host,
    object: *mut RxObject,
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        // SAFETY: the object is owned here and released once, before its context goes.
        unsafe { rx_release(self.host.ctx, self.object) };
    }
}

/// The runtime's code of an element type.
pub(crate) fn dl(dtype: DType) -> DLDataType {
    match dtype.code {
        TypeCode::UInt if dtype.bits == 1 => DLDataType {
            code: 6,
            bits: 8,
            lanes: 1,
        },
        code => DLDataType {
            code: code as u8,
            bits: dtype.bits,
            lanes: dtype.lanes,
        },
    }
}

fn from_dl(d: DLDataType) -> DType {
    let code = match d.code {
        0 => TypeCode::Int,
        1 => TypeCode::UInt,
        2 => TypeCode::Float,
        4 => TypeCode::BFloat,
        6 => return DType::BOOL,
        _ => TypeCode::Handle,
    };
    DType {
        code,
        bits: d.bits,
        lanes: d.lanes,
    }
}

/// A tensor of the runtime, in place.
#[derive(Clone, Copy)]
struct Seen<'o> {
    dtype: DType,
    shape: &'o [i64],
    bytes: &'o [u8],
}

impl<'o> Seen<'o> {
    /// # Safety
    /// `object` is a live tensor that is not written as long as the result is used.
    unsafe fn of(object: *const RxObject) -> Seen<'o> {
        // SAFETY: `object` is null or live; a tensor has as many extents and bytes as it says.
        unsafe {
            let rank = usize::try_from(rx_tensor_ndim(object)).unwrap_or(0);
            let len = usize::try_from(rx_tensor_nbytes(object)).unwrap_or(0);
            let shape = match rank {
                0 => &[][..],
                _ => std::slice::from_raw_parts(rx_tensor_shape(object), rank),
            };
            let bytes = match len {
                0 => &[][..],
                _ => std::slice::from_raw_parts(rx_tensor_data(object).cast(), len),
            };
            let dtype = from_dl(rx_tensor_dtype(object));
            Seen {
                dtype,
                shape,
                bytes,
            }
        }
    }

    /// Returns the tensor itself; the context keeps it as long as it is referenced.
    ///
    /// # Safety
    /// `object` is the live tensor of the context that this was created from.
    unsafe fn lent(self, context: &Arc<Context>, object: *mut RxObject) -> Option<Tensor> {
        // SAFETY: `object` is a live tensor of this context; `Lent` gives the reference back.
        unsafe { rx_retain(object) };
        let lent = Lent {
            context: Arc::clone(context),
            object,
            data: self.bytes.as_ptr(),
            len: self.bytes.len(),
        };
        Tensor::from_owner(self.dtype, self.shape, Arc::new(lent), 0)
    }
}

/// A copy of a value.
fn copy(object: *mut RxObject) -> Value {
    outside(object, &|_, _| None)
}

/// Converts a value to one outside of its context. `lend` may provide a part without fields, given
/// its kind; other parts are copied.
fn outside(object: *mut RxObject, lend: &dyn Fn(*mut RxObject, i32) -> Option<Value>) -> Value {
    Value::unfold(object, |object| {
        // SAFETY: `object` is a live value, a part of one that the caller owns.
        let kind = unsafe { rx_kind(object) };
        let adt = kind == Kind::Adt as i32;
        if !adt && kind != Kind::Tuple as i32 {
            return Err(lend(object, kind).unwrap_or_else(|| leaf(object, kind)));
        }
        // SAFETY: as above.
        let n = unsafe { rx_field_count(object) };
        // SAFETY: as above; it has `n` fields.
        let fields = (0..n).map(|i| unsafe { rx_field(object, i) });
        // SAFETY: it is an instance of a data type where this is asked.
        let tag = adt.then(|| unsafe { rx_tag(object) });
        Ok((tag, fields.collect()))
    })
}

/// A copy of a value without fields.
fn leaf(object: *mut RxObject, kind: i32) -> Value {
    match kind {
        k if k == Kind::Tensor as i32 => {
            // SAFETY: `kind` says that it is a tensor, a live one.
            let seen = unsafe { Seen::of(object) };
            let t = Tensor::from_bytes(seen.dtype, seen.shape, seen.bytes);
            t.map_or(Value::Opaque("a malformed tensor"), Value::Tensor)
        }
        k if k == Kind::Closure as i32 => Value::Opaque("a function"),
        k if k == Kind::Ref as i32 => Value::Opaque("a reference"),
        k if k == Kind::Shape as i32 => Value::Opaque("a shape"),
        k if k == Kind::String as i32 => Value::Opaque("a text"),
        _ => Value::Opaque("a foreign value"),
    }
}
