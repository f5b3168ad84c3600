//! Packed functions, registered at run time.

use relax_base::BoxError;
use relax_tensor::Tensor;

use crate::Value;

/// A resolver of `call_packed` and `call_dps_packed` by name.
pub trait Packed {
    /// Calls a function. It may update its arguments in place (by replacing tensors): the caller's
    /// variables that hold an argument see the update.
    ///
    /// # Errors
    /// No function has this name, or it failed.
    fn call(&mut self, name: &str, args: &mut [Value]) -> Result<Value, BoxError>;
    /// Calls a function that writes its results to the given, zero-initialised tensors.
    ///
    /// # Errors
    /// As for [`Packed::call`].
    fn call_dps(
        &mut self,
        name: &str,
        args: &[Tensor],
        outs: &mut [Tensor],
    ) -> Result<(), BoxError>;
}

/// A resolver without any function.
pub struct NoPacked;

impl Packed for NoPacked {
    fn call(&mut self, name: &str, _: &mut [Value]) -> Result<Value, BoxError> {
        Err(format!("no function is registered as \"{name}\"").into())
    }
    fn call_dps(&mut self, name: &str, _: &[Tensor], _: &mut [Tensor]) -> Result<(), BoxError> {
        Err(format!("no function is registered as \"{name}\"").into())
    }
}
