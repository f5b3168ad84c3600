//! Operators of TVM that hold what only other systems understand.

/// Returns whether an operator of that name is code of another system, of which only the type of
/// the result is known: a function of PyTorch in bytes, instructions of an accelerator.
pub fn is_foreign(name: &str) -> bool {
    name == "torch_op" || name.starts_with("contrib.ethosu.")
}
