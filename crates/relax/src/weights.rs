//! Reading and writing of weight files: `--params x.npz|x.safetensors|x.params`.
//!
//! Tensors borrow from files that are mapped into memory ([`Mapped`]). What a file stores
//! compressed or misaligned is copied.

use std::io::Read;
use std::path::Path;

use relax_ir::{GlobalId, Module};
use relax_tensor::{DType, Tensor};
use safetensors::{Dtype, SafeTensors};

use crate::Error;
use crate::fit::Taking;
use crate::inputs;
use crate::mapped::unreadable;
pub use crate::mapped::{Mapped, copy_all, resident};
use crate::param::{Param, shown};

/// Binds constants whose metadata section is missing to the arrays `meta[relay.Constant][k]`, which
/// are removed from `arrays`. Returns those that do not match, and those without an array unless
/// zeros are acceptable (`stubs`).
pub(crate) fn constants(
    module: &mut Module,
    arrays: &mut Vec<(String, Tensor)>,
    stubs: bool,
) -> Vec<String> {
    let mut problems = Vec::new();
    let mut taken = Vec::new();
    let mut missing = Vec::new();
    let mut kept = Vec::new();
    for (index, id) in std::mem::take(&mut module.metadata.stubs) {
        let name = format!("meta[relay.Constant][{index}]");
        let want = &module.consts[id];
        let shown = |t: &Tensor| shown(t.dtype(), t.shape());
        match arrays.iter().find(|a| a.0 == name) {
            Some((_, t)) if t.dtype() != want.dtype() || t.shape() != want.shape() => {
                problems.push(format!(
                    "{name} must be {}, but the array is {}",
                    shown(want),
                    shown(t)
                ));
            }
            Some((_, t)) => module.consts[id] = t.clone(),
            None if stubs => kept.push((index, id)),
            None => missing.push(format!(
                "{name} is missing: the text has no metadata section (it must be {})",
                shown(want)
            )),
        }
        taken.push(name);
    }
    arrays.retain(|a| !taken.contains(&a.0));
    module.metadata.stubs = kept;
    problems.append(&mut missing);
    problems.dedup();
    problems
}

/// Binds parameters of a function, and constants whose metadata section is missing, to the values
/// in a file; with `all` every parameter must get one, without `stubs` every such constant;
/// `taking` are the options for accepting arrays.
///
/// # Errors
/// Arrays that do not match, one line each; the module is then unchanged.
pub fn bind(
    module: &mut Module,
    entry: GlobalId,
    params: &[Param],
    mut arrays: Vec<(String, Tensor)>,
    (all, stubs, taking): (bool, bool, Taking),
) -> Result<(), Vec<String>> {
    let mut problems = constants(module, &mut arrays, stubs);
    let (values, more) = inputs::weights(module, entry, params, arrays, (all, taking));
    problems.extend(more);
    if !problems.is_empty() {
        return Err(problems);
    }
    relax_passes::bind_params(module, entry, values);
    Ok(())
}

/// The format of a weight file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// NumPy: named arrays, or a single one.
    Npz,
    /// Safetensors: named tensors.
    Safetensors,
    /// TVM's parameter file: named tensors.
    Params,
}

/// Detects the format of a weight file from its first bytes, and from its name where these are
/// ambiguous; `None` for other files.
fn told(path: &Path, bytes: &[u8]) -> Option<Kind> {
    if bytes.starts_with(&relax_tvm::params::MAGIC) {
        return Some(Kind::Params);
    }
    if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"\x93NUMPY") {
        return Some(Kind::Npz);
    }
    // The length of a header, which is JSON.
    if bytes.get(6..9) == Some(b"\0\0{") {
        return Some(Kind::Safetensors);
    }
    match &*path.extension()?.to_str()?.to_ascii_lowercase() {
        "params" => Some(Kind::Params),
        "npz" | "npy" => Some(Kind::Npz),
        "safetensors" => Some(Kind::Safetensors),
        _ => None,
    }
}

/// Returns the format of a weight file; `None` for other files.
pub fn kind(path: &Path) -> Option<Kind> {
    let mut head = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(16).read_to_end(&mut head).ok()?;
    told(path, &head)
}

const SAFE_DTYPES: &[(Dtype, DType)] = &[
    (Dtype::BOOL, DType::BOOL),
    (Dtype::U8, DType::U8),
    (Dtype::I8, DType::I8),
    (Dtype::U16, DType::U16),
    (Dtype::I16, DType::I16),
    (Dtype::U32, DType::U32),
    (Dtype::I32, DType::I32),
    (Dtype::U64, DType::U64),
    (Dtype::I64, DType::I64),
    (Dtype::F16, DType::F16),
    (Dtype::BF16, DType::BF16),
    (Dtype::F32, DType::F32),
    (Dtype::F64, DType::F64),
];

/// Reads the tensors of a parameter file, borrowed from it; duplicate names take the last one.
fn params(path: &Path, map: &Mapped) -> Result<Vec<(String, Tensor)>, Error> {
    let trouble = |e: &dyn std::fmt::Display| unreadable(path, e);
    let mut out: Vec<(String, Tensor)> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for p in relax_tvm::params::read(map.bytes()).map_err(|m| trouble(&m.message))? {
        let tensor = map.tensor(p.dtype, &p.shape, p.offset);
        let tensor = tensor.ok_or_else(|| trouble(&format!("`{}` has the wrong size", p.name)))?;
        let at = *places.entry(p.name.clone()).or_insert(out.len());
        match out.get_mut(at) {
            Some(old) => old.1 = tensor,
            None => out.push((p.name, tensor)),
        }
    }
    Ok(out)
}

/// Reads the named tensors of a mapped `.npz`, `.safetensors` or `.params` file.
///
/// # Errors
/// [`Error::File`]: the file is in another format, or damaged.
pub fn arrays(path: &Path, file: &Mapped) -> Result<Vec<(String, Tensor)>, Error> {
    match told(path, file.bytes()) {
        Some(Kind::Safetensors) => safe(path, file),
        Some(Kind::Params) => params(path, file),
        _ => crate::npz::arrays(path, file),
    }
}

fn safe(path: &Path, map: &Mapped) -> Result<Vec<(String, Tensor)>, Error> {
    let trouble = |e: &dyn std::fmt::Display| unreadable(path, e);
    let file = SafeTensors::deserialize(map.bytes()).map_err(|e| trouble(&e))?;
    let mut out = Vec::new();
    for (name, view) in file.tensors() {
        let dtype = SAFE_DTYPES
            .iter()
            .find(|d| d.0 == view.dtype())
            .map(|d| d.1);
        let dtype = dtype
            .ok_or_else(|| trouble(&format!("`{name}` has element type {:?}", view.dtype())))?;
        let shape: Option<Vec<i64>> = (view.shape().iter())
            .map(|&d| i64::try_from(d).ok())
            .collect();
        let offset = view.data().as_ptr() as usize - map.bytes().as_ptr() as usize;
        let tensor = shape.and_then(|shape| {
            let len = Tensor::byte_len(dtype, &shape);
            let there = len == Some(view.data().len());
            there.then(|| map.tensor(dtype, &shape, offset)).flatten()
        });
        out.push((
            name,
            tensor.ok_or_else(|| trouble(&"a tensor has the wrong size"))?,
        ));
    }
    out.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(out)
}
