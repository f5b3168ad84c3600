//! Functions of the host.

use relax_tensor::Tensor;
use std::rc::Rc;

use crate::Value;

/// What `call_packed` and `call_dps_packed` reach, by name.
pub trait Packed {
    /// Calls a function.
    ///
    /// # Errors
    /// There is none of that name, or it failed.
    fn call(&mut self, name: &str, args: &[Value]) -> Result<Value, String>;
    /// Calls a function that writes its results into the tensors given, which come zeroed.
    ///
    /// # Errors
    /// As [`Packed::call`].
    fn call_dps(
        &mut self,
        name: &str,
        args: &[Rc<Tensor>],
        outs: &mut [Tensor],
    ) -> Result<(), String>;
}

/// No function at all.
#[derive(Clone, Copy, Debug)]
pub struct NoPacked;

impl Packed for NoPacked {
    fn call(&mut self, name: &str, _: &[Value]) -> Result<Value, String> {
        Err(format!("no function is registered as \"{name}\""))
    }
    fn call_dps(&mut self, name: &str, _: &[Rc<Tensor>], _: &mut [Tensor]) -> Result<(), String> {
        Err(format!("no function is registered as \"{name}\""))
    }
}
