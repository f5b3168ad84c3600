//! Weights from files: `--params x.npz|x.safetensors`.

use std::path::Path;

use relax_tensor::{DType, Tensor};
use safetensors::{Dtype, SafeTensors};

/// The named tensors of a `.npz` or `.safetensors` file.
pub fn read(path: &Path) -> Result<Vec<(String, Tensor)>, String> {
    if path.extension().is_some_and(|e| e == "safetensors") {
        safe(path)
    } else {
        crate::npz::read(path)
    }
}

fn safe(path: &Path) -> Result<Vec<(String, Tensor)>, String> {
    let trouble = |e: &dyn std::fmt::Display| format!("cannot read {}: {e}", path.display());
    let bytes = std::fs::read(path).map_err(|e| trouble(&e))?;
    let file = SafeTensors::deserialize(&bytes).map_err(|e| trouble(&e))?;
    let mut out = Vec::new();
    for (name, view) in file.tensors() {
        let dtype = match view.dtype() {
            Dtype::BOOL => DType::BOOL,
            Dtype::U8 => DType::U8,
            Dtype::I8 => DType::I8,
            Dtype::U16 => DType::U16,
            Dtype::I16 => DType::I16,
            Dtype::U32 => DType::U32,
            Dtype::I32 => DType::I32,
            Dtype::U64 => DType::U64,
            Dtype::I64 => DType::I64,
            Dtype::F16 => DType::F16,
            Dtype::BF16 => DType::BF16,
            Dtype::F32 => DType::F32,
            Dtype::F64 => DType::F64,
            other => return Err(trouble(&format!("`{name}` has element type {other:?}"))),
        };
        let shape: Vec<i64> = view.shape().iter().map(|&d| d as i64).collect();
        let tensor = Tensor::from_bytes(dtype, &shape, view.data());
        out.push((
            name,
            tensor.ok_or_else(|| trouble(&"a tensor has the wrong size"))?,
        ));
    }
    out.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(out)
}
