//! Functions of the host.

use relax_base::BoxError;
use relax_tensor::Tensor;
use std::rc::Rc;

use crate::Value;

/// What `call_packed` and `call_dps_packed` reach, by name.
pub trait Packed {
    /// Calls a function.
    ///
    /// # Errors
    /// There is none of that name, or it failed.
    fn call(&mut self, name: &str, args: &[Value]) -> Result<Value, BoxError>;
    /// Calls a function that writes its results into the tensors given, which come zeroed.
    ///
    /// # Errors
    /// As [`Packed::call`].
    fn call_dps(
        &mut self,
        name: &str,
        args: &[Rc<Tensor>],
        outs: &mut [Tensor],
    ) -> Result<(), BoxError>;
}

/// No function at all.
#[derive(Clone, Copy, Debug)]
pub struct NoPacked;

impl Packed for NoPacked {
    fn call(&mut self, name: &str, _: &[Value]) -> Result<Value, BoxError> {
        Err(format!("no function is registered as \"{name}\"").into())
    }
    fn call_dps(&mut self, name: &str, _: &[Rc<Tensor>], _: &mut [Tensor]) -> Result<(), BoxError> {
        Err(format!("no function is registered as \"{name}\"").into())
    }
}
