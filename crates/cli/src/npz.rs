//! Tensors in NumPy's `.npz` and `.npy` files.

use std::cell::RefCell;
use std::io::{Cursor, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use npyz::npz::NpzWriter;
use npyz::zip::ZipArchive;
use relax_tensor::{DType, Tensor};
use rustc_hash::FxHashSet;

use crate::npy;
use crate::output::{self, Output};
use crate::weights::Mapped;

/// The arrays of a `.npz` archive, in the order of the file; its members may be compressed.
fn unpacked(path: &Path, bytes: &[u8]) -> Result<Vec<(String, Tensor)>, String> {
    let trouble = |e: &dyn std::fmt::Display| format!("cannot read {}: {e}", path.display());
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|e| trouble(&e))?;
    let mut out = Vec::new();
    for i in 0..archive.len() {
        let mut member = archive.by_index(i).map_err(|e| trouble(&e))?;
        let name = member.name().to_owned();
        let Some(name) = name.strip_suffix(".npy") else {
            continue;
        };
        let trouble = |e: &dyn std::fmt::Display| trouble(&format!("array `{name}`: {e}"));
        let mut array = Vec::new();
        let size = usize::try_from(member.size()).unwrap_or(usize::MAX);
        array.try_reserve_exact(size).map_err(|e| trouble(&e))?;
        // What an archive says of a size is a bound, not a promise.
        let mut limited = (&mut member).take(size as u64);
        limited.read_to_end(&mut array).map_err(|e| trouble(&e))?;
        let tensor = npy::read(&array, true).map_err(|e| trouble(&e))?;
        out.push((name.to_owned(), tensor));
    }
    Ok(out)
}

/// The arrays of a file of NumPy's. Those that it stores as they are and aligned are borrowed from it.
pub fn mapped(path: &Path) -> Result<Vec<(String, Tensor)>, String> {
    mapped_in(path, &Mapped::open(path)?)
}

/// As [`mapped`], of a file that is mapped already.
pub fn mapped_in(path: &Path, file: &Mapped) -> Result<Vec<(String, Tensor)>, String> {
    let map = file.bytes();
    let unreadable = |why: &str| format!("cannot read {}: {why}", path.display());
    if map.starts_with(npy::MAGIC) {
        // A file of one array: the first argument.
        let array = npy::read(map, false).map_err(|e| unreadable(&e))?;
        return Ok(vec![("in0".to_owned(), array)]);
    }
    if !map.starts_with(b"PK") {
        return Err(unreadable(
            "it is no .npz archive (np.savez) and no .npy file",
        ));
    }
    let out = match stored(map) {
        Some(members) => members
            .into_iter()
            .map(|(name, range)| match member(file, range) {
                Ok(tensor) => Ok((name, tensor)),
                Err(e) => Err(unreadable(&format!("array `{name}`: {e}"))),
            })
            .collect::<Result<_, _>>()?,
        None => unpacked(path, map)?,
    };
    let mut names = FxHashSet::default();
    match (out.iter()).find(|(name, _): &&(String, Tensor)| !names.insert(name)) {
        Some((twice, _)) => Err(unreadable(&format!("it has two arrays `{twice}`"))),
        None => Ok(out),
    }
}

/// An array that a part of a file holds.
fn member(file: &Mapped, range: Range<usize>) -> Result<Tensor, String> {
    let bytes = file.bytes().get(range.clone()).ok_or("it is cut off")?;
    let header = npy::header(bytes, true)?;
    if header.plain() {
        let offset = range.start + header.data;
        if let Some(tensor) = file.tensor(header.dtype, &header.shape, offset) {
            return Ok(tensor);
        }
    }
    npy::read(bytes, true)
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
    let list = at;
    let mut out = Vec::new();
    for _ in 0..count {
        if !zip.get(at..)?.starts_with(b"PK\x01\x02") || u16_at(at + 10)? != 0 {
            return None;
        }
        let (size, local) = (u32_at(at + 24)?, u32_at(at + 42)?);
        if size == 0xffff_ffff || local == 0xffff_ffff || u32_at(at + 20)? != size {
            return None;
        }
        if !zip.get(local..)?.starts_with(b"PK\x03\x04") {
            return None;
        }
        let names = u16_at(at + 28)?;
        let name = std::str::from_utf8(zip.get(at + 46..at + 46 + names)?).ok()?;
        let begin = local + 30 + u16_at(local + 26)? + u16_at(local + 28)?;
        // The list of the members stands behind them.
        if begin + size > list {
            return None;
        }
        out.push((name.strip_suffix(".npy")?.to_owned(), begin..begin + size));
        at += 46 + names + u16_at(at + 30)? + u16_at(at + 32)?;
    }
    Some(out)
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
