//! TVM operators that hold code of other systems.

/// Returns whether an operator of that name is code of another system, of which only the result
/// type is known: a serialised PyTorch function, instructions of an accelerator.
pub fn is_foreign(name: &str) -> bool {
    name == "torch_op" || name.starts_with("contrib.ethosu.")
}
