//! Functions registered at run time.

use relax_base::BoxError;
use relax_tensor::Tensor;

use crate::Value;

/// What `call_packed` and `call_dps_packed` reach, by name.
pub trait Packed {
    /// Calls a function. It may change its arguments in place (put another tensor in their place):
    /// the variables of the calling function that hold an argument see the change.
    ///
    /// # Errors
    /// There is none of that name, or it failed.
    fn call(&mut self, name: &str, args: &mut [Value]) -> Result<Value, BoxError>;
    /// Calls a function that writes its results to the tensors given, which come zeroed.
    ///
    /// # Errors
    /// As [`Packed::call`].
    fn call_dps(
        &mut self,
        name: &str,
        args: &[Tensor],
        outs: &mut [Tensor],
    ) -> Result<(), BoxError>;
}

/// No function at all.
pub struct NoPacked;

impl Packed for NoPacked {
    fn call(&mut self, name: &str, _: &mut [Value]) -> Result<Value, BoxError> {
        Err(format!("no function is registered as \"{name}\"").into())
    }
    fn call_dps(&mut self, name: &str, _: &[Tensor], _: &mut [Tensor]) -> Result<(), BoxError> {
        Err(format!("no function is registered as \"{name}\"").into())
    }
}
