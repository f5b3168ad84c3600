//! Calls with tensors in external memory, which allocate nothing but the result.

use relax_runtime::capi::fields::rx_kind;
use relax_runtime::capi::tensors::rx_tensor_borrow;
use relax_runtime::object::{Kind, RxObject};
use relax_tensor::{DType, Value};
use std::ptr::null_mut;

use super::{Host, LENT, Owned, Seen, dl};
use crate::{Entry, Error};

/// A compact tensor in external memory.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The element type.
    pub dtype: DType,
    /// The extents.
    pub shape: &'a [i64],
    /// The elements, aligned for their type.
    pub bytes: &'a [u8],
}

/// The result of a call.
#[derive(Debug)]
pub enum Given<'a> {
    /// A small tensor, which is valid while the result is read.
    Small(View<'a>),
    /// Anything else.
    Value(Value),
}

/// The number of arguments that need no heap allocation.
const FEW: usize = 8;

/// Arguments as objects, which are released on drop.
struct Arguments<'h, 'a> {
    host: &'h Host,
    objects: &'a mut [*mut RxObject],
}

impl Drop for Arguments<'_, '_> {
    fn drop(&mut self) {
        for &object in self.objects.iter().filter(|o| !o.is_null()) {
            drop(Owned {
                host: self.host,
                object,
            });
        }
    }
}

impl Host {
    /// Calls an entry and passes its result to a function.
    ///
    /// # Safety
    /// `code` is an entry of a [`Jit`](crate::Jit) that lives, or of a library over this runtime.
    ///
    /// # Errors
    /// [`Error::Call`]: the runtime's message.
    pub unsafe fn call_views<T>(
        &self,
        code: Entry,
        inputs: &[View<'_>],
        look: impl FnOnce(Given<'_>) -> T,
    ) -> Result<T, Error> {
        self.context.settle();
        let (mut few, mut many) = ([null_mut(); FEW], Vec::new());
        let objects = match few.get_mut(..inputs.len()) {
            Some(few) => few,
            None => {
                many.resize(inputs.len(), null_mut());
                &mut many[..]
            }
        };
        let arguments = Arguments {
            host: self,
            objects,
        };
        for (slot, view) in arguments.objects.iter_mut().zip(inputs) {
            // SAFETY: data and shape outlive the call; compiled code writes to no borrowed tensor.
            *slot = unsafe {
                rx_tensor_borrow(
                    self.ctx,
                    dl(view.dtype),
                    view.shape.len() as i32,
                    view.shape.as_ptr(),
                    view.bytes.as_ptr().cast_mut().cast(),
                )
            };
            if slot.is_null() {
                return Err(Error::Call(self.error()));
            }
        }
        // SAFETY: `code` is the entry of a function of this program; the arguments are live objects
        // of this context.
        let out = unsafe { self.enter(code, arguments.objects) }?;
        Ok(look(self.given(&out)))
    }

    /// Calls an entry as [`Host::call_lending`] does.
    ///
    /// # Safety
    /// See [`Host::call_views`].
    ///
    /// # Errors
    /// [`Error::Call`]: the runtime's message.
    pub unsafe fn call_code(&self, code: Entry, inputs: &[Value]) -> Result<Value, Error> {
        // SAFETY: `code` is the entry of a function of this program.
        let called = unsafe { self.run(code, inputs, |object| self.lending(object)) };
        called.map(|r| r.0)
    }

    /// The call itself.
    ///
    /// # Safety
    /// `code` is an entry that lives, `arguments` are live objects of this context.
    pub(super) unsafe fn enter(
        &self,
        code: Entry,
        arguments: &[*mut RxObject],
    ) -> Result<Owned<'_>, Error> {
        let mut out: *mut RxObject = null_mut();
        // SAFETY: entries have this signature; arguments are live objects of this context.
        let status = unsafe {
            code(
                self.ctx.cast(),
                arguments.as_ptr().cast(),
                arguments.len() as i32,
                std::ptr::from_mut(&mut out).cast(),
            )
        };
        let out = (!out.is_null()).then_some(Owned {
            host: self,
            object: out,
        });
        out.filter(|_| status == 0)
            .ok_or_else(|| Error::Call(self.error()))
    }

    fn given<'o>(&self, out: &'o Owned<'_>) -> Given<'o> {
        let object = out.object;
        // SAFETY: a live value, which `out` owns as long as the view is there.
        let tensor = unsafe { rx_kind(object) } == Kind::Tensor as i32;
        let small = tensor
            // SAFETY: as above, and a tensor.
            .then(|| unsafe { Seen::of(object) })
            .filter(|seen| seen.bytes.len() < LENT);
        match small {
            Some(Seen {
                dtype,
                shape,
                bytes,
            }) => Given::Small(View {
                dtype,
                shape,
                bytes,
            }),
            None => Given::Value(self.lending(object)),
        }
    }
}
