//! Encoding of numbers, strings and lists in the file format.

use relax_tensor::{DType, TypeCode};

use super::FileError;
use crate::code::computes;

pub(super) type Read<T> = Result<T, FileError>;

fn u64_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    if let Some(to) = word.get_mut(..bytes.len()) {
        to.copy_from_slice(bytes);
    }
    u64::from_le_bytes(word)
}

#[derive(Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn byte(&mut self, b: u8) {
        self.0.push(b);
    }
    pub(super) fn word(&mut self, v: u32) {
        self.0.extend(v.to_le_bytes());
    }
    pub(super) fn long(&mut self, v: u64) {
        self.0.extend(v.to_le_bytes());
    }
    pub(super) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u32);
        self.0.extend(bytes);
    }
    /// Writes an element type: code, bits, lanes.
    pub(super) fn dtype(&mut self, t: DType) {
        self.0.extend([t.code as u8, t.bits]);
        self.0.extend(t.lanes.to_le_bytes());
    }
    pub(super) fn list<T>(&mut self, items: &[T], mut one: impl FnMut(&mut Writer, &T)) {
        self.word(items.len() as u32);
        items.iter().for_each(|i| one(self, i));
    }
}

pub(super) struct Reader<'b> {
    pub(super) bytes: &'b [u8],
    pub(super) at: usize,
}

impl<'b> Reader<'b> {
    pub(super) fn take(&mut self, n: usize) -> Read<&'b [u8]> {
        let end = self.at.checked_add(n);
        let found = end.and_then(|end| self.bytes.get(self.at..end));
        let found = found.ok_or_else(|| FileError::Damaged(self.at, "it ends there".to_owned()))?;
        self.at += n;
        Ok(found)
    }
    pub(super) fn byte(&mut self) -> Read<u8> {
        Ok(self.take(1)?[0])
    }
    pub(super) fn word(&mut self) -> Read<u32> {
        let b = self.take(4)?;
        Ok(u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }
    pub(super) fn long(&mut self) -> Read<u64> {
        Ok(u64_of(self.take(8)?))
    }
    /// Reads an element type that programs support.
    pub(super) fn dtype(&mut self) -> Read<DType> {
        let at = self.at;
        let b = self.take(4)?;
        let code = match b[0] {
            0 => TypeCode::Int,
            1 => TypeCode::UInt,
            2 => TypeCode::Float,
            4 => TypeCode::BFloat,
            _ => return Err(FileError::damaged(at, "no element type")),
        };
        let dtype = DType {
            code,
            bits: b[1],
            lanes: u16::from_le_bytes([b[2], b[3]]),
        };
        match computes(dtype) {
            true => Ok(dtype),
            false => Err(FileError::damaged(at, "no element type")),
        }
    }
    pub(super) fn text(&mut self) -> Read<String> {
        let n = self.word()? as usize;
        let at = self.at;
        let bytes = self.take(n)?;
        let text = std::str::from_utf8(bytes);
        Ok(text
            .map_err(|_| FileError::Damaged(at, "a text is not UTF-8".to_owned()))?
            .to_owned())
    }
    /// Reads an item count. Each item takes at least a byte, so a count beyond the rest of the file
    /// is rejected.
    pub(super) fn count(&mut self) -> Read<usize> {
        let n = self.word()? as usize;
        if n > self.bytes.len() - self.at {
            let what = "a list is longer than the file";
            return Err(FileError::damaged(self.at, what));
        }
        Ok(n)
    }
    /// Reads a list.
    pub(super) fn list<T>(
        &mut self,
        mut one: impl FnMut(&mut Reader<'b>) -> Read<T>,
    ) -> Read<Vec<T>> {
        let n = self.count()?;
        let mut items = Vec::new();
        for _ in 0..n {
            items.push(one(self)?);
        }
        Ok(items)
    }
}
