//! Parameter files: a sequence of named tensors.

use std::io::{self, Write};

use relax_tensor::{DType, Tensor};

use crate::error::{Found, Mistake, codes};
use crate::tensor;

/// The magic number of a parameter file.
pub const MAGIC: [u8; 8] = 0xF7E5_8D4F_0504_9CB7_u64.to_le_bytes();

/// A tensor in a parameter file, whose elements are at `offset`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Param {
    /// The name.
    pub name: String,
    /// The element type.
    pub dtype: DType,
    /// The extents.
    pub shape: Vec<i64>,
    /// The offset of its elements.
    pub offset: usize,
    /// The size of its elements in bytes.
    pub len: usize,
}

/// A cursor over a file of 64-bit words.
struct Words<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Words<'_> {
    fn mistake(&self, message: impl std::fmt::Display) -> Mistake {
        let at = self.at as u64;
        Mistake::new(codes::BAD_PARAMS, at, format!("{message} (byte {at})"))
    }

    fn word(&mut self, what: &str) -> Found<u64> {
        let word = self.bytes.get(self.at..).and_then(|b| b.first_chunk());
        let word = word.ok_or_else(|| self.mistake(format!("the file ends in {what}")))?;
        self.at += 8;
        Ok(u64::from_le_bytes(*word))
    }

    /// Reads a count of items that take at least eight bytes each.
    fn count(&mut self, what: &str) -> Found<usize> {
        let at = self.at;
        let count = self.word(what)?;
        let most = (self.bytes.len() - self.at) / 8;
        match usize::try_from(count) {
            Ok(count) if count <= most => Ok(count),
            _ => {
                self.at = at;
                Err(self.mistake(format!(
                    "the file claims {count} in {what}, which do not fit in it"
                )))
            }
        }
    }
}

/// Reads the tensors of a parameter file, in file order. Trailing bytes are ignored, as in TVM.
///
/// # Errors
/// The bytes are not a parameter file, or a truncated or corrupted one.
pub fn read(bytes: &[u8]) -> Result<Vec<Param>, Mistake> {
    let mut words = Words { bytes, at: 0 };
    if !bytes.starts_with(&MAGIC) {
        return Err(words
            .mistake("this is no parameter file of TVM: it does not begin with the magic number"));
    }
    words.at = 16;
    let count = words.count("the number of names")?;
    let mut names = Vec::with_capacity(count);
    for _ in 0..count {
        let at = words.at;
        let len = words.word("the names")?;
        let name = usize::try_from(len).ok().and_then(|len| {
            let name = bytes.get(words.at..words.at.checked_add(len)?)?;
            words.at += len;
            Some(name)
        });
        let Some(name) = name else {
            words.at = at;
            return Err(words.mistake(format!("a name claims {len} bytes, more than the file has")));
        };
        let name = std::str::from_utf8(name);
        names.push(
            name.map_err(|_| words.mistake("a name is not UTF-8"))?
                .to_owned(),
        );
    }
    let at = words.at;
    let tensors = words.word("the number of tensors")?;
    if tensors != count as u64 {
        words.at = at;
        return Err(words.mistake(format!("the file has {count} names and {tensors} tensors")));
    }
    let mut params: Vec<Param> = Vec::with_capacity(count);
    for name in names {
        let rest = bytes.get(words.at..).unwrap_or_default();
        let named = |why: String| format!("`{name}`: {why}");
        let header = tensor::header(rest).map_err(|why| words.mistake(named(why)))?;
        let offset = words.at + header.data;
        if rest.len() - header.data < header.len {
            let why = format!("the file ends in the tensor's {} bytes", header.len);
            return Err(words.mistake(named(why)));
        }
        words.at = offset + header.len;
        params.push(Param {
            name,
            dtype: header.dtype,
            shape: header.shape,
            offset,
            len: header.len,
        });
    }
    Ok(params)
}

/// Writes a parameter file.
///
/// # Errors
/// The writer's errors.
pub fn write(out: &mut dyn Write, params: &[(String, Tensor)]) -> io::Result<()> {
    let count = (params.len() as u64).to_le_bytes();
    out.write_all(&MAGIC)?;
    out.write_all(&[0; 8])?;
    out.write_all(&count)?;
    for (name, _) in params {
        out.write_all(&(name.len() as u64).to_le_bytes())?;
        out.write_all(name.as_bytes())?;
    }
    out.write_all(&count)?;
    for (_, tensor) in params {
        let data = tensor.bytes();
        out.write_all(&tensor::write_header(
            tensor.dtype(),
            tensor.shape(),
            data.len(),
        ))?;
        out.write_all(data)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let params = [
            ("a".to_owned(), Tensor::from_slice(&[2, 1], &[1f32, 2.0])),
            ("größe".to_owned(), Tensor::from_slice(&[], &[7i64])),
        ];
        let mut file = Vec::new();
        write(&mut file, &params).expect("memory takes everything");
        file
    }

    #[test]
    fn what_is_written_is_read() {
        let file = sample();
        let params = read(&file).expect("a parameter file");
        assert_eq!(params.len(), 2);
        assert_eq!(
            (params[0].name.as_str(), &params[0].shape[..]),
            ("a", &[2, 1][..])
        );
        let data = &file[params[1].offset..][..params[1].len];
        assert_eq!(
            (params[1].name.as_str(), data),
            ("größe", &7i64.to_le_bytes()[..])
        );
    }

    #[test]
    fn files_that_are_cut_off_are_refused_wherever_that_is() {
        let file = sample();
        for end in 0..file.len() {
            assert!(read(&file[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn a_byte_that_changed_never_takes_memory_or_panics() {
        let file = sample();
        for at in 0..file.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bad = file.clone();
                bad[at] = value;
                let _ = read(&bad);
            }
        }
    }
}
