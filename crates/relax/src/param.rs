//! Parameters of entry functions, and how errors name them.

use relax_ir::TypeId;
use relax_tensor::DType;

/// A parameter of an entry function.
#[derive(Clone, Debug)]
pub struct Param {
    /// Its name, without sigil.
    pub name: String,
    /// Its type.
    pub ty: TypeId,
}

/// Formats a tensor type for errors.
pub fn shown(dtype: DType, shape: &[i64]) -> String {
    if shape.is_empty() {
        return dtype.to_string();
    }
    let dims: Vec<String> = shape.iter().map(i64::to_string).collect();
    let comma = if dims.len() == 1 { "," } else { "" };
    format!("Tensor[({}{comma}), {dtype}]", dims.join(", "))
}
