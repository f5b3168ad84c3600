//! Models from files: ONNX with the files beside it.

use std::path::Path;

use bytes::Bytes;
use relax_base::Diagnostics;
use relax_onnx::Import;
use relax_tensor::{DType, Tensor};
use safetensors::Dtype;
use safetensors::tensor::TensorView;

use crate::weights::Mapped;

/// A mapped file that bytes borrow from.
struct Owner(Mapped);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

fn mapped(path: &Path) -> Result<Bytes, String> {
    let empty = std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() == 0);
    if empty {
        return Ok(Bytes::new());
    }
    Ok(Bytes::from_owner(Owner(Mapped::open(path)?)))
}

/// Translates the model in a file; its text is laid out.
///
/// # Errors
/// The file cannot be read. The inner error is the model's.
pub fn import(path: &Path) -> Result<Result<Import, Diagnostics>, String> {
    let bytes = mapped(path)?;
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let external = |name: &str| mapped(&folder.join(name));
    Ok(relax_onnx::import(bytes, &external).map(|mut imported| {
        if let Some(text) = laid_out(&imported.text) {
            imported.text = text;
        }
        imported
    }))
}

/// The text as the formatter lays it out.
fn laid_out(text: &str) -> Option<String> {
    let mut sources = relax_base::SourceMap::new();
    let file = sources.add("model.relay", text.to_owned())?;
    let options = relax_syntax::FmtOptions::default();
    relax_syntax::format_source(&file, &options).ok()
}

/// Writes tensors to a `.safetensors` file.
///
/// # Errors
/// The file cannot be written.
pub fn write_safetensors(path: &Path, tensors: &[(String, Tensor)]) -> Result<(), String> {
    let view = |t: &'_ Tensor| -> Result<(Dtype, Vec<usize>), String> {
        let dtype = match t.dtype() {
            DType::BOOL => Dtype::BOOL,
            DType::U8 => Dtype::U8,
            DType::I8 => Dtype::I8,
            DType::U16 => Dtype::U16,
            DType::I16 => Dtype::I16,
            DType::U32 => Dtype::U32,
            DType::I32 => Dtype::I32,
            DType::U64 => Dtype::U64,
            DType::I64 => Dtype::I64,
            DType::F16 => Dtype::F16,
            DType::BF16 => Dtype::BF16,
            DType::F32 => Dtype::F32,
            DType::F64 => Dtype::F64,
            other => return Err(format!("{other} has no place in a .safetensors file")),
        };
        Ok((dtype, t.shape().iter().map(|&d| d as usize).collect()))
    };
    let mut views = Vec::with_capacity(tensors.len());
    for (name, t) in tensors {
        let (dtype, shape) = view(t)?;
        let view = TensorView::new(dtype, shape, t.bytes()).map_err(|e| format!("`{name}`: {e}"))?;
        views.push((name.clone(), view));
    }
    safetensors::serialize_to_file(views, None, path)
        .map_err(|e| format!("cannot write {}: {e}", path.display()))
}
