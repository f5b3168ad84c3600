//! Tensors in NumPy's `.npz` and `.npy` files.

use std::cell::RefCell;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::rc::Rc;

use half::f16;
use npyz::npz::NpzWriter;
use npyz::zip::ZipArchive;
use npyz::{Deserialize, NpyFile, Order, TypeChar};
use relax_tensor::{DType, Tensor};

use crate::output::{self, Output};
use crate::weights::Mapped;

/// The arrays of a `.npz` file, in the order of the file.
pub fn read(path: &Path) -> Result<Vec<(String, Tensor)>, String> {
    let trouble = |e: &dyn std::fmt::Display| format!("cannot read {}: {e}", path.display());
    let file = File::open(path).map_err(|e| trouble(&e))?;
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(|e| trouble(&e))?;
    let mut out = Vec::with_capacity(archive.len());
    for i in 0..archive.len() {
        let mut member = archive.by_index(i).map_err(|e| trouble(&e))?;
        let Some(name) = member.name().strip_suffix(".npy").map(str::to_owned) else {
            continue;
        };
        let unfit = |e: String| trouble(&format!("array `{name}`: {e}"));
        // What it says of its size is not believed: memory is taken as bytes come.
        let mut bytes = Vec::new();
        let most = member.size();
        let read = member.by_ref().take(most).read_to_end(&mut bytes);
        read.map_err(|e| unfit(e.to_string()))?;
        let tensor = open(&bytes).and_then(tensor).map_err(unfit)?;
        out.push((name, tensor));
    }
    Ok(out)
}

/// The largest header of an array's file. Those of arrays of numbers are a line.
const HEADER: usize = 1 << 16;

/// The file of an array. Its header is looked at before a library takes it for true that there is so much data, or
/// follows brackets as deep as they nest.
fn open(bytes: &[u8]) -> Result<NpyFile<&[u8]>, String> {
    let (header, _) = parts(bytes).ok_or("it is no .npy file")?;
    if header.matches(['(', '[', '{']).count() > 3 || header.matches("'shape'").count() > 1 {
        return Err("its elements are no numbers that a tensor can hold".into());
    }
    let shape = header
        .split_once("'shape':")
        .and_then(|s| s.1.split_once('('));
    let (shape, _) = shape
        .and_then(|s| s.1.split_once(')'))
        .ok_or("it has no shape")?;
    let mut count = 1usize;
    for extent in shape.split(',').map(str::trim).filter(|e| !e.is_empty()) {
        let extent = extent.trim_end_matches('L').parse().ok();
        let more = extent.and_then(|n| count.checked_mul(n));
        count = more.ok_or_else(|| format!("its shape is too large: ({shape})"))?;
    }
    // An element has a byte or more.
    if count > bytes.len() {
        return Err("it ends before its array does".into());
    }
    NpyFile::new(bytes).map_err(|e| e.to_string())
}

/// The line that says what is in the file of an array, and the elements.
fn parts(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let rest = bytes.strip_prefix(b"\x93NUMPY")?;
    let (version, rest) = rest.split_at_checked(2)?;
    let (length, rest) = match version[0] {
        1 => rest.split_at_checked(2)?,
        _ => rest.split_at_checked(4)?,
    };
    let length = length.iter().rev().fold(0, |n, b| n << 8 | usize::from(*b));
    let (header, data) = rest.split_at_checked(length)?;
    let header = std::str::from_utf8(header).ok()?;
    (length <= HEADER).then_some((header, data))
}

/// As [`read`], with the arrays that the file stores uncompressed and aligned borrowed from it.
pub fn mapped(path: &Path) -> Result<Vec<(String, Tensor)>, String> {
    mapped_in(path, &Mapped::open(path)?)
}

/// As [`mapped`], of a file that is mapped already.
pub fn mapped_in(path: &Path, file: &Mapped) -> Result<Vec<(String, Tensor)>, String> {
    let map = file.bytes();
    let unreadable = |why: &str| format!("cannot read {}: {why}", path.display());
    if map.starts_with(b"\x93NUMPY") {
        // A file of one array: the first argument.
        let one = open(map).and_then(tensor).map_err(|e| unreadable(&e))?;
        return Ok(vec![("in0".to_owned(), one)]);
    }
    if !map.starts_with(b"PK") {
        return Err(unreadable(
            "it is no .npz archive (np.savez) and no .npy file",
        ));
    }
    let Some(members) = stored(map) else {
        return read(path);
    };
    let mut out = Vec::with_capacity(members.len());
    for (name, range) in members {
        let trouble = |e: String| format!("cannot read {}: array `{name}`: {e}", path.display());
        let bytes = map.get(range.clone()).unwrap_or_default();
        let npy = open(bytes).map_err(trouble)?;
        let shape: Vec<i64> = npy.shape().iter().map(|&d| d as i64).collect();
        let plain = match npy.dtype() {
            npyz::DType::Plain(ty) if npy.order() == Order::C => {
                little_endian(&ty).and_then(|dtype| {
                    // Not one byte of another member's.
                    let data = parts(bytes)?.1.len();
                    let fits = Tensor::byte_len(dtype, &shape)? <= data;
                    let offset = range.end - data;
                    file.tensor(dtype, &shape, offset).filter(|_| fits)
                })
            }
            _ => None,
        };
        let t = match plain {
            Some(t) => t,
            None => tensor(npy).map_err(trouble)?,
        };
        out.push((name, t));
    }
    Ok(out)
}

/// The element type, where its bytes are those of a tensor.
fn little_endian(ty: &npyz::TypeStr) -> Option<DType> {
    if ty.endianness() == npyz::Endianness::Big {
        return None;
    }
    Some(match (ty.type_char(), ty.size_field()) {
        (TypeChar::Float, 2) => DType::F16,
        (TypeChar::Float, 4) => DType::F32,
        (TypeChar::Float, 8) => DType::F64,
        (TypeChar::Int, 1) => DType::I8,
        (TypeChar::Int, 2) => DType::I16,
        (TypeChar::Int, 4) => DType::I32,
        (TypeChar::Int, 8) => DType::I64,
        (TypeChar::Uint, 1) => DType::U8,
        (TypeChar::Uint, 2) => DType::U16,
        (TypeChar::Uint, 4) => DType::U32,
        (TypeChar::Uint, 8) => DType::U64,
        _ => return None,
    })
}

/// Where the members of a zip archive lie that are stored as they are (PKWARE's APPNOTE 4.3). `None`
/// when one is compressed, or the archive is of a form that only the full reader knows.
fn stored(zip: &[u8]) -> Option<Vec<(String, std::ops::Range<usize>)>> {
    let u16_at =
        |at: usize| Some(u16::from_le_bytes(zip.get(at..at + 2)?.try_into().ok()?) as usize);
    let u32_at =
        |at: usize| Some(u32::from_le_bytes(zip.get(at..at + 4)?.try_into().ok()?) as usize);
    let tail = zip.len().saturating_sub(22 + 0xffff);
    let end = (tail..zip.len().checked_sub(21)?)
        .rev()
        .find(|&at| zip[at..].starts_with(b"PK\x05\x06"))?;
    let (count, mut at) = (u16_at(end + 10)?, u32_at(end + 16)?);
    if count == 0xffff || at == 0xffff_ffff {
        return None;
    }
    let mut out = Vec::with_capacity(count);
    for _ in 0..count {
        if !zip.get(at..)?.starts_with(b"PK\x01\x02") || u16_at(at + 10)? != 0 {
            return None;
        }
        let (size, local) = (u32_at(at + 24)?, u32_at(at + 42)?);
        if size == 0xffff_ffff || local == 0xffff_ffff {
            return None;
        }
        let names = u16_at(at + 28)?;
        let name = std::str::from_utf8(zip.get(at + 46..at + 46 + names)?).ok()?;
        let begin = local + 30 + u16_at(local + 26)? + u16_at(local + 28)?;
        if begin + size > zip.len() {
            return None;
        }
        out.push((name.strip_suffix(".npy")?.to_owned(), begin..begin + size));
        at += 46 + names + u16_at(at + 30)? + u16_at(at + 32)?;
    }
    Some(out)
}

fn tensor<R: Read>(npy: NpyFile<R>) -> Result<Tensor, String> {
    let npyz::DType::Plain(ty) = npy.dtype() else {
        return Err("records are not supported".into());
    };
    let shape: Vec<i64> = npy.shape().iter().map(|&d| d as i64).collect();
    if npy.order() == Order::Fortran && shape.iter().filter(|&&d| d > 1).count() > 1 {
        // Column by column: the elements of the array with its axes the other way round.
        let turned: Vec<i64> = shape.iter().rev().copied().collect();
        return Ok(transposed(&elements_of(npy, &ty, &turned)?, &shape));
    }
    elements_of(npy, &ty, &shape)
}

/// An array of `shape` from the same elements with the axes the other way round.
fn transposed(turned: &Tensor, shape: &[i64]) -> Tensor {
    let size = turned.dtype().size();
    let mut out = Tensor::zeros(turned.dtype(), shape);
    let mut steps = vec![1usize; shape.len()];
    for axis in 1..shape.len() {
        steps[axis] = steps[axis - 1] * shape[axis - 1] as usize;
    }
    let (from, to) = (turned.bytes(), out.bytes_mut());
    let mut index = vec![0i64; shape.len()];
    let mut at = 0;
    for element in to.chunks_exact_mut(size) {
        element.copy_from_slice(&from[at * size..][..size]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            at += steps[axis];
            if index[axis] < shape[axis] {
                break;
            }
            at -= steps[axis] * index[axis] as usize;
            index[axis] = 0;
        }
    }
    out
}

fn elements_of<R: Read>(
    npy: NpyFile<R>,
    ty: &npyz::TypeStr,
    shape: &[i64],
) -> Result<Tensor, String> {
    match (ty.type_char(), ty.size_field()) {
        (TypeChar::Float, 2) => elements::<f16, R>(npy, shape),
        (TypeChar::Float, 4) => elements::<f32, R>(npy, shape),
        (TypeChar::Float, 8) => elements::<f64, R>(npy, shape),
        (TypeChar::Int, 1) => elements::<i8, R>(npy, shape),
        (TypeChar::Int, 2) => elements::<i16, R>(npy, shape),
        (TypeChar::Int, 4) => elements::<i32, R>(npy, shape),
        (TypeChar::Int, 8) => elements::<i64, R>(npy, shape),
        (TypeChar::Uint, 1) => elements::<u8, R>(npy, shape),
        (TypeChar::Uint, 2) => elements::<u16, R>(npy, shape),
        (TypeChar::Uint, 4) => elements::<u32, R>(npy, shape),
        (TypeChar::Uint, 8) => elements::<u64, R>(npy, shape),
        (TypeChar::Bool, _) => {
            let values: Vec<bool> = npy.into_vec().map_err(|e| e.to_string())?;
            let bytes: Vec<u8> = values.into_iter().map(u8::from).collect();
            Tensor::from_bytes(DType::BOOL, shape, &bytes).ok_or_else(|| "wrong size".into())
        }
        // What the package ml_dtypes calls bfloat16 is stored as two bytes without a meaning.
        (TypeChar::RawData, 2) => {
            let pairs: Vec<npyz::FixedSizeBytes<2>> = npy.into_vec().map_err(|e| e.to_string())?;
            let bytes: Vec<u8> = pairs.into_iter().flat_map(|p| p.0).collect();
            Tensor::from_bytes(DType::U16, shape, &bytes).ok_or_else(|| "wrong size".into())
        }
        _ => Err(format!(
            "elements of type {ty} are no numbers that a tensor can hold (bool, int8 to int64, uint8 to uint64, \
             float16 to float64)"
        )),
    }
}

fn elements<T: relax_tensor::Element + Deserialize, R: Read>(
    npy: NpyFile<R>,
    shape: &[i64],
) -> Result<Tensor, String> {
    let values: Vec<T> = npy.into_vec().map_err(|e| e.to_string())?;
    Ok(Tensor::from_slice(shape, &values))
}

/// Writes arrays to a `.npz` file, uncompressed.
pub fn write(path: &Path, arrays: &[(String, Tensor)]) -> Result<(), String> {
    let trouble = |e: std::io::Error| output::trouble(path, &e);
    let failed = Rc::new(RefCell::new(None));
    let file = Patient {
        file: Output::create(path)?,
        position: 0,
        failed: Rc::clone(&failed),
    };
    let mut npz = NpzWriter::new(file);
    for (name, t) in arrays {
        array(&mut npz, name, t).map_err(trouble)?;
    }
    let ended = npz.zip_writer().finish().map_err(std::io::Error::from);
    let patient = ended.map_err(trouble)?;
    match failed.take() {
        Some(e) => Err(trouble(e)),
        None => patient.file.finish(),
    }
}

/// A file that keeps its first error to itself and takes all that follows: the archiver would print a second
/// one when it is dropped.
struct Patient {
    file: Output,
    position: u64,
    failed: Rc<RefCell<Option<std::io::Error>>>,
}

impl Patient {
    fn attempt(&mut self, work: impl FnOnce(&mut Output) -> std::io::Result<()>) {
        let mut failed = self.failed.borrow_mut();
        if failed.is_none() {
            *failed = work(&mut self.file).err();
        }
    }
}

impl Write for Patient {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.attempt(|file| file.write_all(bytes));
        self.position += bytes.len() as u64;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.attempt(Output::flush);
        Ok(())
    }
}

impl Seek for Patient {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        let target = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(_) => None,
        };
        let target = target.ok_or(std::io::ErrorKind::InvalidInput)?;
        if target != self.position {
            self.attempt(|file| file.seek(SeekFrom::Start(target)).map(drop));
            self.position = target;
        }
        Ok(target)
    }
}

/// Writes one array to a `.npy` file.
pub fn write_one(path: &Path, t: &Tensor) -> Result<(), String> {
    let mut output = Output::create(path)?;
    npy(&mut output, t).map_err(|e| output::trouble(path, &e))?;
    output.finish()
}

/// One array of an archive.
fn array<W: Write + Seek>(npz: &mut NpzWriter<W>, name: &str, t: &Tensor) -> std::io::Result<()> {
    // As `np.savez`: floats hardly compress, and what is stored as it is can be mapped.
    let stored = npyz::zip::write::FileOptions::default()
        .compression_method(npyz::zip::CompressionMethod::Stored)
        .large_file(t.bytes().len() as u64 >= u64::from(u32::MAX) - 4096);
    let zip = npz.zip_writer();
    zip.start_file(format!("{name}.npy"), stored)?;
    npy(zip, t)
}

/// An array in NumPy's format 1.0: a header of one line, padded so that the elements are aligned in it, and
/// the elements as they are.
fn npy(out: &mut impl Write, t: &Tensor) -> std::io::Result<()> {
    let kind = match t.dtype() {
        DType::F16 => "<f2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::I8 => "|i1",
        DType::I16 => "<i2",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        DType::U8 => "|u1",
        DType::U32 => "<u4",
        DType::U64 => "<u8",
        DType::BOOL => "|b1",
        // NumPy has no bfloat16: the bits, as TVM hands them out.
        DType::U16 | DType::BF16 => "<u2",
        _ => "<i8",
    };
    let shape: Vec<String> = t.shape().iter().map(|d| format!("{d}, ")).collect();
    let shape = match shape.concat().trim_end() {
        "" => "()".to_owned(),
        one if shape.len() == 1 => format!("({one})"),
        many => format!("({})", many.trim_end_matches(',')),
    };
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
    while !(header.len() + 11).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let length = u16::try_from(header.len())
        .map_err(|_| std::io::Error::other("the shape is too long for a header"))?;
    out.write_all(b"\x93NUMPY\x01\x00")?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(header.as_bytes())?;
    let known = kind != "<i8" || t.dtype() == DType::I64;
    if known {
        return out.write_all(t.bytes());
    }
    (0..t.len()).try_for_each(|i| out.write_all(&t.get_i64(i).to_le_bytes()))
}
