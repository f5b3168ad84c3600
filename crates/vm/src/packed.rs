//! Packed functions.

use relax_base::BoxError;
use relax_tensor::Tensor;
use std::rc::Rc;

use crate::Value;

/// A resolver of `call_packed` and `call_dps_packed` by name.
pub trait Packed {
    /// Calls a function.
    ///
    /// # Errors
    /// No function has this name, or it failed.
    fn call(&mut self, name: &str, args: &[Value]) -> Result<Value, BoxError>;
    /// Calls a function that writes its results into the given, zero-initialised tensors.
    ///
    /// # Errors
    /// As for [`Packed::call`].
    fn call_dps(
        &mut self,
        name: &str,
        args: &[Rc<Tensor>],
        outs: &mut [Tensor],
    ) -> Result<(), BoxError>;
}

/// A resolver without any function.
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
