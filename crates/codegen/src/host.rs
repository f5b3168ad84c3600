//! Calling compiled code from Rust: tensors in, values out.

use std::ffi::CStr;

use relax_runtime::context::{
    RxContext, rx_context_create, rx_context_destroy, rx_heap_stats, rx_last_error,
    rx_set_allocator, rx_set_threads,
};
use relax_runtime::heap::{RxAllocator, RxHeapStats};
use relax_runtime::object::{DLDataType, Kind, RxObject};
pub use relax_runtime::profile::RxProfileRow as KernelCost;
use relax_runtime::profile::{rx_profile_clear, rx_profile_row};
use relax_runtime::release::rx_release;
use relax_runtime::stack::rx_set_stack_size;
use relax_runtime::tensor::{
    rx_tensor_borrow, rx_tensor_data, rx_tensor_dtype, rx_tensor_nbytes, rx_tensor_ndim,
    rx_tensor_shape,
};
use relax_runtime::values::{rx_field, rx_field_count, rx_kind, rx_tag};
use relax_tensor::{DType, Tensor, TypeCode};

use crate::Jit;

/// A value that a program returned, copied out of its context.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A tensor.
    Tensor(Tensor),
    /// A tuple.
    Tuple(Vec<Value>),
    /// An ADT instance: the constructor's number and the fields as they are known.
    Adt(u32, Vec<Value>),
    /// Something without a form outside: a closure, a reference, or what lies too deep.
    Opaque(&'static str),
}

/// Fields nested deeper than this in a result are [`Value::Opaque`].
const DEPTH: usize = 64;

/// A context of the runtime.
pub struct Host {
    ctx: *mut RxContext,
}

impl Host {
    /// A context that runs parallel loops on so many threads; `None` without memory.
    pub fn new(threads: usize) -> Option<Host> {
        let ctx = rx_context_create();
        if ctx.is_null() {
            return None;
        }
        rx_set_threads(ctx, i32::try_from(threads).unwrap_or(1));
        Some(Host { ctx })
    }

    /// As [`Host::new`], with memory from the given functions; `None` where they give none.
    ///
    /// # Safety
    /// The functions keep the contract of `RxAllocator` for as long as values of the context live.
    pub unsafe fn with_allocator(threads: usize, hooks: &RxAllocator) -> Option<Host> {
        let host = Host::new(threads)?;
        // SAFETY: the context has not allocated yet; the rest is the caller's promise.
        match unsafe { rx_set_allocator(host.ctx, hooks) } {
            0 => Some(host),
            _ => None,
        }
    }

    /// Calls an entry with tensors. The error is the runtime's message.
    pub fn call(&self, jit: &Jit, entry: &str, inputs: &[Tensor]) -> Result<Value, String> {
        self.call_timed(jit, entry, inputs).map(|v| v.0)
    }

    /// As [`Host::call`], and the time that the call itself took.
    pub fn call_timed(
        &self,
        jit: &Jit,
        entry: &str,
        inputs: &[Tensor],
    ) -> Result<(Value, std::time::Duration), String> {
        self.with(jit, entry, inputs, |out| copy(out, DEPTH))
    }

    /// The time that a call takes; its result goes back to the context's heap unseen.
    pub fn time(
        &self,
        jit: &Jit,
        entry: &str,
        inputs: &[Tensor],
    ) -> Result<std::time::Duration, String> {
        self.with(jit, entry, inputs, |_| ()).map(|r| r.1)
    }

    /// Calls an entry, looks at its result, and releases it.
    fn with<T>(
        &self,
        jit: &Jit,
        entry: &str,
        inputs: &[Tensor],
        look: impl FnOnce(*mut RxObject) -> T,
    ) -> Result<(T, std::time::Duration), String> {
        let code = jit
            .entry(entry)
            .ok_or_else(|| format!("there is no entry @{entry}"))?;
        let shapes: Vec<&[i64]> = inputs.iter().map(Tensor::shape).collect();
        let mut args = Vec::with_capacity(inputs.len());
        for (t, shape) in inputs.iter().zip(&shapes) {
            // SAFETY: data and shape outlive the call; compiled code writes to no borrowed tensor.
            let object = unsafe {
                rx_tensor_borrow(
                    self.ctx,
                    dl(t.dtype()),
                    shape.len() as i32,
                    shape.as_ptr(),
                    t.bytes().as_ptr().cast_mut().cast(),
                )
            };
            if object.is_null() {
                return Err(self.error());
            }
            args.push(object);
        }
        let mut out: *mut RxObject = std::ptr::null_mut();
        let start = std::time::Instant::now();
        // SAFETY: entries have this signature; arguments are live objects of this context.
        let status = unsafe {
            code(
                self.ctx.cast(),
                args.as_ptr().cast(),
                args.len() as i32,
                std::ptr::from_mut(&mut out).cast(),
            )
        };
        let took = start.elapsed();
        let result = if status == 0 {
            Ok((look(out), took))
        } else {
            Err(self.error())
        };
        for object in args.into_iter().chain((!out.is_null()).then_some(out)) {
            // SAFETY: each is owned here and released once.
            unsafe { rx_release(self.ctx, object) };
        }
        result
    }

    /// Sets how many bytes of stack compiled code may use; the error is the runtime's message.
    pub fn set_stack_size(&self, bytes: u64) -> Result<(), String> {
        match rx_set_stack_size(self.ctx, bytes) {
            0 => Ok(()),
            _ => Err(self.error()),
        }
    }

    /// What each kernel has cost since [`Host::clear_profile`], by number; code compiled without profiling
    /// leaves zeros.
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

    /// Starts the profile anew.
    pub fn clear_profile(&self) {
        // SAFETY: the context lives.
        unsafe { rx_profile_clear(self.ctx) };
    }

    /// What the context's heap holds now.
    pub fn heap(&self) -> RxHeapStats {
        let mut stats = RxHeapStats::default();
        // SAFETY: both pointers are valid.
        unsafe { rx_heap_stats(self.ctx, &mut stats) };
        stats
    }

    fn error(&self) -> String {
        // SAFETY: the text is valid until the next call.
        unsafe { CStr::from_ptr(rx_last_error(self.ctx)) }
            .to_string_lossy()
            .into_owned()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once.
        unsafe { rx_context_destroy(self.ctx) };
    }
}

fn dl(dtype: DType) -> DLDataType {
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

/// A copy of a value. Recursion is bounded by `depth`.
fn copy(object: *mut RxObject, depth: usize) -> Value {
    // SAFETY (here and below): `object` is a live value that the caller owns.
    let kind = unsafe { rx_kind(object) };
    let fields = |depth: usize| {
        let n = unsafe { rx_field_count(object) };
        (0..n)
            .map(|i| copy(unsafe { rx_field(object, i) }, depth))
            .collect()
    };
    match kind {
        k if k == Kind::Tensor as i32 => {
            let (rank, bytes) = unsafe { (rx_tensor_ndim(object), rx_tensor_nbytes(object)) };
            let shape = if rank == 0 {
                &[][..]
            } else {
                unsafe { std::slice::from_raw_parts(rx_tensor_shape(object), rank as usize) }
            };
            let data = if bytes == 0 {
                &[][..]
            } else {
                unsafe { std::slice::from_raw_parts(rx_tensor_data(object).cast(), bytes as usize) }
            };
            let dtype = from_dl(unsafe { rx_tensor_dtype(object) });
            let t = Tensor::from_bytes(dtype, shape, data);
            t.map_or(Value::Opaque("a malformed tensor"), Value::Tensor)
        }
        _ if depth == 0 => Value::Opaque("…"),
        k if k == Kind::Tuple as i32 => Value::Tuple(fields(depth - 1)),
        k if k == Kind::Adt as i32 => Value::Adt(unsafe { rx_tag(object) }, fields(depth - 1)),
        k if k == Kind::Closure as i32 => Value::Opaque("a function"),
        k if k == Kind::Ref as i32 => Value::Opaque("a reference"),
        k if k == Kind::Shape as i32 => Value::Opaque("a shape"),
        _ => Value::Opaque("a foreign value"),
    }
}
