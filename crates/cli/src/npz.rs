//! Tensors in NumPy's `.npz` and `.npy` files.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek};
use std::path::Path;

use half::f16;
use npyz::npz::{NpzArchive, NpzWriter};
use npyz::{Deserialize, NpyFile, Order, TypeChar, WriterBuilder};
use relax_tensor::{DType, Tensor};

/// The arrays of a `.npz` file, in the order of the file.
pub fn read(path: &Path) -> Result<Vec<(String, Tensor)>, String> {
    let trouble = |e: &dyn std::fmt::Display| format!("cannot read {}: {e}", path.display());
    let file = File::open(path).map_err(|e| trouble(&e))?;
    let mut archive = NpzArchive::new(BufReader::new(file)).map_err(|e| trouble(&e))?;
    let names: Vec<String> = archive.array_names().map(str::to_owned).collect();
    let mut out = Vec::with_capacity(names.len());
    for name in names {
        let array = archive.by_name(&name).map_err(|e| trouble(&e))?;
        let array = array.ok_or_else(|| trouble(&format!("no array `{name}`")))?;
        let tensor = tensor(array).map_err(|e| trouble(&format!("array `{name}`: {e}")))?;
        out.push((name, tensor));
    }
    Ok(out)
}

fn tensor<R: Read>(npy: NpyFile<R>) -> Result<Tensor, String> {
    let npyz::DType::Plain(ty) = npy.dtype() else {
        return Err("records are not supported".into());
    };
    let shape: Vec<i64> = npy.shape().iter().map(|&d| d as i64).collect();
    if npy.order() == Order::Fortran && shape.iter().filter(|&&d| d > 1).count() > 1 {
        return Err(
            "column-major (Fortran) order is not supported; use numpy.ascontiguousarray".into(),
        );
    }
    match (ty.type_char(), ty.size_field()) {
        (TypeChar::Float, 2) => elements::<f16, R>(npy, &shape),
        (TypeChar::Float, 4) => elements::<f32, R>(npy, &shape),
        (TypeChar::Float, 8) => elements::<f64, R>(npy, &shape),
        (TypeChar::Int, 1) => elements::<i8, R>(npy, &shape),
        (TypeChar::Int, 2) => elements::<i16, R>(npy, &shape),
        (TypeChar::Int, 4) => elements::<i32, R>(npy, &shape),
        (TypeChar::Int, 8) => elements::<i64, R>(npy, &shape),
        (TypeChar::Uint, 1) => elements::<u8, R>(npy, &shape),
        (TypeChar::Uint, 2) => elements::<u16, R>(npy, &shape),
        (TypeChar::Uint, 4) => elements::<u32, R>(npy, &shape),
        (TypeChar::Uint, 8) => elements::<u64, R>(npy, &shape),
        (TypeChar::Bool, _) => {
            let values: Vec<bool> = npy.into_vec().map_err(|e| e.to_string())?;
            let bytes: Vec<u8> = values.into_iter().map(u8::from).collect();
            Tensor::from_bytes(DType::BOOL, &shape, &bytes).ok_or_else(|| "wrong size".into())
        }
        _ => Err(format!("element type {ty} is not supported")),
    }
}

fn elements<T: relax_tensor::Element + Deserialize, R: Read>(
    npy: NpyFile<R>,
    shape: &[i64],
) -> Result<Tensor, String> {
    let values: Vec<T> = npy.into_vec().map_err(|e| e.to_string())?;
    Ok(Tensor::from_slice(shape, &values))
}

/// Writes arrays to a `.npz` file.
pub fn write(path: &Path, arrays: &[(String, Tensor)]) -> Result<(), String> {
    let trouble = |e: &dyn std::fmt::Display| format!("cannot write {}: {e}", path.display());
    let file = File::create(path).map_err(|e| trouble(&e))?;
    let mut npz = NpzWriter::new(BufWriter::new(file));
    for (name, t) in arrays {
        array(&mut npz, name, t).map_err(|e| trouble(&e))?;
    }
    Ok(())
}

fn array<W: std::io::Write + Seek>(
    npz: &mut NpzWriter<W>,
    name: &str,
    t: &Tensor,
) -> std::io::Result<()> {
    let shape: Vec<u64> = t.shape().iter().map(|&d| d as u64).collect();
    macro_rules! put {
        ($values:expr) => {{
            let entry = npz.array(name, Default::default())?;
            let mut writer = entry.default_dtype().shape(&shape).begin_nd()?;
            writer.extend($values)?;
            writer.finish()
        }};
    }
    macro_rules! plain {
        ($($dtype:ident => $ty:ty),*) => {
            match t.dtype() {
                $(DType::$dtype => put!(t.slice::<$ty>().iter()),)*
                DType::BOOL => put!(t.bytes().iter().map(|&b| b != 0)),
                // NumPy has no bfloat16: the bits, as TVM hands them out.
                DType::BF16 => put!((0..t.len()).map(|i| {
                    u16::from_le_bytes([t.bytes()[2 * i], t.bytes()[2 * i + 1]])
                })),
                _ => put!((0..t.len()).map(|i| t.get_i64(i))),
            }
        };
    }
    plain!(F16 => f16, F32 => f32, F64 => f64, I8 => i8, I16 => i16, I32 => i32, I64 => i64,
           U8 => u8, U16 => u16, U32 => u32, U64 => u64)
}
