//! Saving results and arrays, in the format of the file extension.

use std::path::Path;

use relax_tensor::{DType, Tensor};
use safetensors::Dtype;
use safetensors::tensor::{TensorView, serialize_to_file};

use crate::formats::Format;
use crate::npz;
use crate::output::{Output, trouble};
use crate::stop::Stop;

/// The formats of arrays.
pub const ARRAYS: &[Format] = &[Format::Npz, Format::Npy, Format::Safetensors];

/// Writes named arrays.
///
/// # Errors
/// The file cannot be written, or the format cannot represent them.
pub fn arrays(path: &Path, format: Format, arrays: &[(String, Tensor)]) -> Result<(), Stop> {
    match (format, arrays) {
        (Format::Npz, _) => npz::write(path, arrays),
        (Format::Safetensors, _) => safetensors(path, arrays),
        (Format::Params, _) => params(path, arrays),
        (Format::Npy, [(_, one)]) => npz::write_one(path, one),
        (Format::Npy, _) => Err(format!(
            "{} would hold one array, and there are {}: .npz holds any number",
            path.display(),
            arrays.len()
        )
        .into()),
        _ => Err(format!("{} does not hold arrays", path.display()).into()),
    }
}

fn params(path: &Path, arrays: &[(String, Tensor)]) -> Result<(), Stop> {
    let mut output = Output::create(path)?;
    relax_tvm::params::write(&mut output, arrays).map_err(|e| trouble(path, &e))?;
    output.finish()
}

fn safetensors(path: &Path, arrays: &[(String, Tensor)]) -> Result<(), Stop> {
    let refused = |why: &dyn std::fmt::Display| format!("cannot write {}: {why}", path.display());
    let mut views = Vec::new();
    for (name, t) in arrays {
        let shape = t.shape().iter().map(|&d| d as usize).collect();
        let view = match element(t.dtype()) {
            Some(dtype) => TensorView::new(dtype, shape, t.bytes()).map_err(|e| refused(&e))?,
            None => {
                let why = format!("`{name}` is of {}, which the format lacks", t.dtype());
                return Err(refused(&why).into());
            }
        };
        views.push((name, view));
    }
    let output = Output::create(path)?;
    serialize_to_file(views, None, output.path()).map_err(|e| refused(&e))?;
    output.finish()
}

/// Returns the element type's name in the format.
fn element(dtype: DType) -> Option<Dtype> {
    Some(match dtype {
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
        _ => return None,
    })
}
