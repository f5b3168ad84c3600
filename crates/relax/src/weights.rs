//! Reading and writing of weight files: `--params x.npz|x.safetensors|x.params`.
//!
//! Files are memory-mapped and tensors borrow from the mapping, so that weights are neither read
//! before they are used nor held twice. Compressed or misaligned data is copied.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use memmap2::Mmap;
use relax_ir::{GlobalId, Module};
use relax_tensor::{DType, Tensor};
use safetensors::{Dtype, SafeTensors};

use crate::Error;
use crate::fit::Taking;
use crate::inputs::{self, Param};

/// Files up to this size are read, not mapped.
const SMALL: u64 = 16 << 20;

/// A file in memory: read if it is small or the variable `RELAX_WEIGHTS_COPY` is set to 1,
/// otherwise mapped. A mapping reflects later changes of the file, and is lost if the file is
/// truncated.
#[derive(Clone, Debug)]
pub struct Mapped(Arc<Memory>);

#[derive(Debug)]
enum Memory {
    Read(Vec<u8>),
    Map(Mmap),
}

impl std::ops::Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Memory::Read(bytes) => bytes,
            Memory::Map(map) => map,
        }
    }
}

impl AsRef<[u8]> for Memory {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// Whether all files are read, whatever their size.
static COPY: AtomicBool = AtomicBool::new(false);

/// Makes all files opened from now on be read instead of mapped, so that later changes to them do
/// not matter. The variable `RELAX_WEIGHTS_COPY` does the same.
pub fn copy_all() {
    COPY.store(true, Ordering::Relaxed);
}

fn copies() -> bool {
    COPY.load(Ordering::Relaxed) || std::env::var_os("RELAX_WEIGHTS_COPY").is_some_and(|v| v == "1")
}

/// Returns the error for an unreadable file.
pub(crate) fn unreadable(path: &Path, why: &dyn std::fmt::Display) -> Error {
    Error::File(format!("cannot read {}: {why}", path.display()))
}

impl Mapped {
    /// Maps or reads a file.
    ///
    /// # Errors
    /// [`Error::File`]: the file cannot be read.
    pub fn open(path: &Path) -> Result<Mapped, Error> {
        let trouble = |e: &dyn std::fmt::Display| unreadable(path, e);
        let mut file = std::fs::File::open(path).map_err(|e| trouble(&e))?;
        let length = file.metadata().map_err(|e| trouble(&e))?.len();
        if length <= SMALL || copies() {
            let mut bytes = Vec::new();
            let room = bytes.try_reserve_exact(usize::try_from(length).unwrap_or(usize::MAX));
            room.map_err(|e| trouble(&e))?;
            file.read_to_end(&mut bytes).map_err(|e| trouble(&e))?;
            return Ok(Mapped(Arc::new(Memory::Read(bytes))));
        }
        // SAFETY: the mapping is private; a file that others change while it is read gives other
        // numbers, as reading it would.
        let map = unsafe { Mmap::map(&file) }.map_err(|e| trouble(&e))?;
        Ok(Mapped(Arc::new(Memory::Map(map))))
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Releases the pages of some of its bytes; a later access reads the file again.
    pub fn unneeded(&self, bytes: &[u8]) {
        #[cfg(unix)]
        if let Memory::Map(map) = &*self.0
            && let Some(offset) = (bytes.as_ptr() as usize).checked_sub(map.as_ptr() as usize)
            && offset + bytes.len() <= map.len()
        {
            use memmap2::UncheckedAdvice::DontNeed;
            // SAFETY: pages of a read-only mapping of a file have the file's contents again when
            // they are read next. Failing changes nothing.
            let _ = unsafe { map.unchecked_advise_range(DontNeed, offset, bytes.len()) };
        }
        #[cfg(not(unix))]
        let _ = bytes;
    }

    /// Returns a tensor over mapped bytes, or over a copy if they are misaligned; `None` if there
    /// are too few.
    pub(crate) fn tensor(&self, dtype: DType, shape: &[i64], offset: usize) -> Option<Tensor> {
        if dtype == DType::BOOL {
            // Booleans are normalised to 0 or 1, whatever the file holds.
            let len = Tensor::byte_len(dtype, shape)?;
            let bytes = self.0.get(offset..offset.checked_add(len)?)?;
            let truth: Vec<u8> = bytes.iter().map(|&b| u8::from(b != 0)).collect();
            return Tensor::from_bytes(dtype, shape, &truth);
        }
        let owner: Arc<dyn AsRef<[u8]> + Send + Sync> = Arc::clone(&self.0) as _;
        if let Some(tensor) = Tensor::from_owner(dtype, shape, owner, offset) {
            return Some(tensor);
        }
        let len = Tensor::byte_len(dtype, shape)?;
        let bytes = self.0.get(offset..offset.checked_add(len)?)?;
        let copy = Tensor::from_bytes(dtype, shape, bytes);
        self.unneeded(bytes);
        copy
    }
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl crate::Held for Mapped {
    fn unneeded(&self, part: std::ops::Range<usize>) {
        Mapped::unneeded(self, self.0.get(part).unwrap_or_default());
    }
}

/// Copies tensors the way a host would hand them over: large ones in anonymous memory, with huge
/// pages where available, not in pages of a file.
pub fn resident(tensors: Vec<Tensor>) -> Vec<Tensor> {
    const LARGE: usize = 4 << 20;
    let moved = |t: &Tensor| {
        let mut map = memmap2::MmapMut::map_anon(t.bytes().len()).ok()?;
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        map.copy_from_slice(t.bytes());
        Mapped(Arc::new(Memory::Map(map.make_read_only().ok()?))).tensor(t.dtype(), t.shape(), 0)
    };
    let large = |t: &Tensor| t.bytes().len() >= LARGE;
    (tensors.into_iter())
        .map(|t| large(&t).then(|| moved(&t)).flatten().unwrap_or(t))
        .collect()
}

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
        let shown = |t: &Tensor| inputs::shown(t.dtype(), t.shape());
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
