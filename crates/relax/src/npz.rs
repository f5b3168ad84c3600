//! Reads tensors from NumPy's `.npz` and `.npy` files.

use std::io::{Cursor, Read};
use std::ops::Range;
use std::path::Path;

use relax_tensor::Tensor;
use rustc_hash::FxHashSet;
use zip::ZipArchive;

use crate::mapped::{Mapped, unreadable};
use crate::{Error, npy};

/// Reads the arrays of a `.npz` archive in file order; members may be compressed.
fn unpacked(path: &Path, bytes: &[u8]) -> Result<Vec<(String, Tensor)>, Error> {
    let trouble = |e: &dyn std::fmt::Display| unreadable(path, e);
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
        // The size that an archive declares is used as a limit, not trusted.
        let mut limited = (&mut member).take(size as u64);
        limited.read_to_end(&mut array).map_err(|e| trouble(&e))?;
        let tensor = npy::read(&array, true).map_err(|e| trouble(&e))?;
        out.push((name.to_owned(), tensor));
    }
    Ok(out)
}

/// Reads the arrays of a NumPy file. Uncompressed and aligned arrays are borrowed from it.
///
/// # Errors
/// [`Error::File`]: the file is in another format, or damaged.
pub fn arrays(path: &Path, file: &Mapped) -> Result<Vec<(String, Tensor)>, Error> {
    let map = file.bytes();
    let unreadable = |why: &str| unreadable(path, &why);
    if map.starts_with(npy::MAGIC) {
        // A file with a single array binds the first argument.
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

/// Reads the array in a range of the file.
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

/// Returns the byte ranges of the members of a zip archive if all are stored uncompressed (PKWARE's
/// APPNOTE 4.3). Returns `None` if one is compressed, or if the archive uses features that only the
/// full reader supports.
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
        // The central directory follows the members.
        if begin + size > list {
            return None;
        }
        out.push((name.strip_suffix(".npy")?.to_owned(), begin..begin + size));
        at += 46 + names + u16_at(at + 30)? + u16_at(at + 32)?;
    }
    Some(out)
}
