//! Writing tensors to NumPy's `.npz` and `.npy` files.

use std::cell::RefCell;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::rc::Rc;

use relax_tensor::{DType, Tensor};
use zip::write::{FileOptions, ZipWriter};

use crate::output::{self, Output};
use crate::stop::Stop;
use crate::weights::Mapped;

/// Reads the arrays of a NumPy file. Uncompressed and aligned arrays are borrowed from it.
///
/// # Errors
/// The file cannot be read, or has another format.
pub fn mapped(path: &Path) -> Result<Vec<(String, Tensor)>, Stop> {
    crate::places::input(path)?;
    Ok(relax::npz::arrays(path, &Mapped::open(path)?)?)
}

/// Writes arrays to a `.npz` file, uncompressed.
///
/// # Errors
/// It cannot be written.
pub fn write(path: &Path, arrays: &[(String, Tensor)]) -> Result<(), Stop> {
    let trouble = |e: std::io::Error| output::trouble(path, &e);
    let failed = Rc::new(RefCell::new(None));
    let file = Patient {
        file: Output::create(path)?,
        position: 0,
        failed: Rc::clone(&failed),
    };
    let mut archive = ZipWriter::new(file);
    for (name, t) in arrays {
        array(&mut archive, name, t).map_err(trouble)?;
    }
    let ended = archive.finish().map_err(std::io::Error::from);
    let patient = ended.map_err(trouble)?;
    match failed.take() {
        Some(e) => Err(trouble(e)),
        None => patient.file.finish(),
    }
}

/// A writer that records its first error and ignores all further output: otherwise the archiver
/// would report a second one when dropped.
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
///
/// # Errors
/// As for [`write()`].
pub fn write_one(path: &Path, t: &Tensor) -> Result<(), Stop> {
    let mut output = Output::create(path)?;
    npy(&mut output, t).map_err(|e| output::trouble(path, &e))?;
    output.finish()
}

/// Writes one array of an archive.
fn array<W: Write + Seek>(zip: &mut ZipWriter<W>, name: &str, t: &Tensor) -> std::io::Result<()> {
    // Like `np.savez`: floats hardly compress, and uncompressed arrays can be mapped.
    let stored = FileOptions::default()
        .compression_method(zip::CompressionMethod::Stored)
        .large_file(t.bytes().len() as u64 >= u64::from(u32::MAX) - 4096);
    zip.start_file(format!("{name}.npy"), stored)?;
    npy(zip, t)
}

/// Writes an array in NumPy's format 1.0: a single-line header, padded so that the elements are
/// aligned, and the raw elements.
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
        // NumPy has no bfloat16: the bits are stored, the representation TVM exports.
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
