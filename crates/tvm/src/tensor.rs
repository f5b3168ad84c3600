//! TVM's tensor format: a header, then the elements, all little-endian.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use base64_simd::Out;
use relax_tensor::{DType, Tensor, TypeCode};

/// The magic number of a tensor.
pub const MAGIC: u64 = 0xDD5E_40F0_96B4_A13F;
/// The size of the header before the extents.
const HEAD: usize = 32;
/// The largest rank that is accepted.
const HIGHEST_RANK: usize = 1000;
/// The number of base64 characters decoded at a time; a multiple of four.
const CHUNK: usize = 4 << 20;

/// The parsed header of a tensor.
pub(crate) struct Header {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<i64>,
    /// The offset of the elements.
    pub(crate) data: usize,
    /// The size of the elements in bytes.
    pub(crate) len: usize,
}

fn word(bytes: &[u8], at: usize) -> Result<u64, String> {
    let word = bytes.get(at..at + 8).ok_or("the tensor is cut off")?;
    Ok(u64::from_le_bytes(
        word.try_into().map_err(|_| "the tensor is cut off")?,
    ))
}

/// Returns the size of a header, given its first 32 bytes.
fn header_len(bytes: &[u8]) -> Result<usize, String> {
    if word(bytes, 0)? != MAGIC {
        return Err("the tensor does not begin with TVM's magic number".into());
    }
    let rank = word(bytes, 24)? as u32 as i32;
    match usize::try_from(rank) {
        Ok(rank) if rank <= HIGHEST_RANK => Ok(HEAD + 8 * rank + 8),
        _ => Err(format!("the tensor claims {rank} axes")),
    }
}

/// Parses a header.
///
/// # Errors
/// The bytes are not a TVM tensor.
pub(crate) fn header(bytes: &[u8]) -> Result<Header, String> {
    let data = header_len(bytes)?;
    let device = word(bytes, 16)? as u32;
    if device != 1 {
        return Err(format!(
            "the tensor is on device {device}, but files hold tensors of the CPU, device 1"
        ));
    }
    let dtype = element((word(bytes, 24)? >> 32) as u32).map_err(|e| e.to_string())?;
    let extent = |i: usize| word(bytes, HEAD + 8 * i).map(|w| w as i64);
    let shape = (0..(data - HEAD - 8) / 8)
        .map(extent)
        .collect::<Result<Vec<_>, _>>()?;
    if let Some(negative) = shape.iter().find(|&&d| d < 0) {
        return Err(format!("the tensor has the extent {negative}"));
    }
    let stated = word(bytes, data - 8)?;
    let len = Tensor::byte_len(dtype, &shape);
    if len.and_then(|l| u64::try_from(l).ok()) != Some(stated) {
        let shape: Vec<_> = shape.iter().map(i64::to_string).collect();
        return Err(format!(
            "the tensor claims {stated} bytes for ({}) elements of {dtype}",
            shape.join(", ")
        ));
    }
    let len = stated as usize;
    Ok(Header {
        dtype,
        shape,
        data,
        len,
    })
}

/// Decodes an element type from four bytes of a header: code, bits, and two bytes of lanes.
///
/// # Errors
/// There is no such type.
pub fn element(kind: u32) -> Result<DType, UnknownElement> {
    let (code, bits, lanes) = (kind as u8, (kind >> 8) as u8, (kind >> 16) as u16);
    let code = match code {
        0 => TypeCode::Int,
        1 => TypeCode::UInt,
        2 => TypeCode::Float,
        4 => TypeCode::BFloat,
        _ => return Err(UnknownElement::Code(code)),
    };
    // Those that a text can name: a constant of each may be in a module.
    let known = match code {
        TypeCode::Float => matches!(bits, 16 | 32 | 64),
        TypeCode::BFloat => bits == 16,
        _ => matches!(bits, 1 | 2 | 4 | 8 | 16 | 32 | 64),
    };
    match known && lanes != 0 {
        true => Ok(DType { code, bits, lanes }),
        false => Err(UnknownElement::Size(bits, lanes)),
    }
}

/// The error for an invalid element type in a tensor's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnknownElement {
    /// The type code.
    Code(u8),
    /// The bits per lane, and the lanes.
    Size(u8, u16),
}

impl fmt::Display for UnknownElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnknownElement::Code(code) => {
                write!(f, "the tensor's element type has the unknown code {code}")
            }
            UnknownElement::Size(bits, lanes) => {
                write!(f, "the tensor's elements have {bits} bits, {lanes} lanes")
            }
        }
    }
}

impl std::error::Error for UnknownElement {}

/// Returns the header of a tensor of a type and shape whose elements take `len` bytes.
pub fn write_header(dtype: DType, shape: &[i64], len: usize) -> Vec<u8> {
    let code: u8 = match dtype.code {
        TypeCode::Int => 0,
        TypeCode::UInt => 1,
        TypeCode::Float => 2,
        TypeCode::Handle | TypeCode::Param => 3,
        TypeCode::BFloat => 4,
    };
    let mut bytes = Vec::with_capacity(HEAD + 8 * shape.len() + 8);
    bytes.extend(MAGIC.to_le_bytes());
    bytes.extend(0u64.to_le_bytes());
    // The device: CPU, number 0.
    bytes.extend(1u32.to_le_bytes());
    bytes.extend(0u32.to_le_bytes());
    bytes.extend((shape.len() as u32).to_le_bytes());
    bytes.extend([code, dtype.bits]);
    bytes.extend(dtype.lanes.to_le_bytes());
    shape.iter().for_each(|d| bytes.extend(d.to_le_bytes()));
    bytes.extend((len as u64).to_le_bytes());
    bytes
}

/// Decodes a base64 tensor in chunks; `unneeded` is called with the ranges of the text that have
/// been read.
///
/// # Errors
/// The text is not a tensor; with the offset of the offending character, if known.
pub(crate) fn decode(
    text: &[u8],
    unneeded: &dyn Fn(Range<usize>),
) -> Result<Tensor, (usize, String)> {
    let at_start = |why: String| (0, why);
    if !text.len().is_multiple_of(4) || text.is_empty() {
        return Err((text.len(), "the tensor's base64 text is cut off".into()));
    }
    // The header first: its claims are checked against the input size before memory is allocated.
    let characters = |bytes: usize| (bytes.div_ceil(3) * 4).min(text.len());
    let start = |bytes: usize| {
        let head = &text[..characters(bytes)];
        base64_simd::STANDARD
            .decode_to_vec(head)
            .map_err(|_| (bad_character(head), NO_BASE64.to_owned()))
    };
    let head = start(header_len(&start(HEAD)?).map_err(at_start)?)?;
    let header = header(&head).map_err(at_start)?;
    let most = text.len() / 4 * 3;
    let cut = |found: usize| {
        let found = found.saturating_sub(header.data);
        let why = format!(
            "the tensor's base64 text has {found} bytes of its {}",
            header.len
        );
        (text.len(), why)
    };
    if most < header.data + header.len {
        return Err(cut(most));
    }
    let bytes = decode_all(text, most, unneeded)?;
    if bytes.len() < header.data + header.len {
        return Err(cut(bytes.len()));
    }
    // Large tensors keep the decoded buffer; the header's size is a multiple of eight.
    if header.len > 64 {
        let owner = Arc::new(bytes);
        let whole = Tensor::from_owner(header.dtype, &header.shape, owner.clone(), header.data);
        if let Some(tensor) = whole {
            return Ok(tensor);
        }
        return copied(&header, &owner);
    }
    copied(&header, &bytes)
}

const NO_BASE64: &str = "the tensor is no valid base64";

fn copied(header: &Header, bytes: &[u8]) -> Result<Tensor, (usize, String)> {
    let data = bytes
        .get(header.data..header.data + header.len)
        .unwrap_or_default();
    let tensor = Tensor::from_bytes(header.dtype, &header.shape, data);
    tensor.ok_or_else(|| (0, "the tensor has the wrong size".to_owned()))
}

fn bad_character(text: &[u8]) -> usize {
    let good = |b: &u8| b.is_ascii_alphanumeric() || b"+/".contains(b);
    text.iter().position(|b| !good(b)).unwrap_or(text.len())
}

/// Decodes a base64 text to at most `most` bytes.
fn decode_all(
    text: &[u8],
    most: usize,
    unneeded: &dyn Fn(Range<usize>),
) -> Result<Vec<u8>, (usize, String)> {
    let mut bytes: Vec<u8> = Vec::new();
    let room = bytes.try_reserve_exact(most);
    room.map_err(|_| {
        (
            0,
            format!("there is no memory for the tensor's {most} bytes"),
        )
    })?;
    let mut read = 0;
    while read < text.len() {
        let end = (read + CHUNK).min(text.len());
        let chunk = &text[read..end];
        let spare = Out::from_uninit_slice(bytes.spare_capacity_mut());
        let decoded = base64_simd::STANDARD.decode(chunk, spare);
        let len = match decoded {
            Ok(decoded) => decoded.len(),
            Err(_) => return Err((read + bad_character(chunk), NO_BASE64.to_owned())),
        };
        let filled = bytes.len() + len;
        if filled > bytes.capacity() {
            return Err((read, NO_BASE64.to_owned()));
        }
        // SAFETY: the decoder has initialised `len` bytes at the start of the spare capacity.
        unsafe { bytes.set_len(filled) };
        unneeded(read..end);
        read = end;
    }
    Ok(bytes)
}

/// Encodes a tensor in base64.
#[cfg(test)]
pub(crate) fn encode(tensor: &Tensor) -> String {
    let data = tensor.bytes();
    let mut bytes = write_header(tensor.dtype(), tensor.shape(), data.len());
    bytes.extend_from_slice(data);
    base64_simd::STANDARD.encode_to_string(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_come_back() {
        for n in [0, 1, 2, 3, 100, 4_000_003] {
            let elements: Vec<u8> = (0..n).map(|i| (i * 7) as u8).collect();
            let tensor = Tensor::from_slice(&[n as i64], &elements);
            let again = decode(encode(&tensor).as_bytes(), &|_| {}).expect("a tensor");
            assert_eq!(again.bytes(), tensor.bytes());
        }
        // Taken from a text printed by TVM 0.12.
        let t = Tensor::from_slice(&[3], &[1f32, 2.0, 3.0]);
        assert_eq!(
            encode(&t),
            "P6G0lvBAXt0AAAAAAAAAAAEAAAAAAAAAAQAAAAIgAQADAAAAAAAAAAwAAAAAAAAAAACAPwAAAEAAAEBA"
        );
    }

    #[test]
    fn damaged_tensors_are_refused() {
        let good = encode(&Tensor::from_slice(&[3], &[1f32, 2.0, 3.0]));
        for (from, to) in [
            ("P6G0", "Q6G0"),
            ("AAACAPw", "AAA*APw"),
            ("DAAAAAAAAAAw", "DAAAAAAAgAAw"),
        ] {
            let bad = good.replacen(from, to, 1);
            assert_ne!(bad, good, "{from}");
            assert!(decode(bad.as_bytes(), &|_| {}).is_err(), "{from}");
        }
        for cut in 0..good.len() {
            assert!(decode(&good.as_bytes()[..cut], &|_| {}).is_err(), "{cut}");
        }
    }
}
