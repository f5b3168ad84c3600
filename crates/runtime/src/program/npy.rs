//! NumPy's files of one array, formats 1.0 to 3.0: a header of one line,
//! `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`, and the elements.

use crate::object::{DL_BFLOAT, DL_BOOL, DL_FLOAT, DL_INT, DL_UINT, DLDataType};

use super::Unreadable;

/// An array in C order, little-endian.
#[derive(Clone, Debug)]
pub struct Array {
    /// The element type.
    pub dtype: DLDataType,
    /// The extents.
    pub shape: Vec<i64>,
    /// The elements: as many bytes as shape and element type say.
    pub bytes: Vec<u8>,
}

/// The maximum number of axes of a NumPy array.
const AXES: usize = 64;

/// Reads a file. `ty` is the type of its parameter: NumPy has no bfloat16, so two-byte unsigned
/// integers are interpreted as its bits.
///
/// # Errors
/// It is no such file, or holds something else than numbers.
pub fn read(file: &[u8], ty: &str) -> Result<Array, Unreadable> {
    let (header, data) = parts(file).ok_or("is no .npy file")?;
    let unreadable = || format!("has a header that cannot be read: {}", shortened(header));
    let descr = value(header, "'descr':")
        .and_then(quoted)
        .ok_or_else(unreadable)?;
    let fortran = match value(header, "'fortran_order':").ok_or_else(unreadable)? {
        v if v.starts_with("True") => true,
        v if v.starts_with("False") => false,
        _ => return Err(unreadable().into()),
    };
    let shape = value(header, "'shape':")
        .and_then(extents)
        .ok_or_else(unreadable)?;
    let (dtype, big) = element(descr, ty).ok_or_else(|| {
        format!("has elements of type {descr}, which are no numbers that a tensor can hold")
    })?;
    let size = usize::from(dtype.bits / 8);
    let bytes = shape
        .iter()
        .try_fold(size, |n, &d| n.checked_mul(usize::try_from(d).ok()?));
    let bytes = bytes.ok_or_else(|| format!("has a shape that is too large: {shape:?}"))?;
    if data.len() != bytes {
        return Err(format!(
            "has {} bytes of elements, and its shape {shape:?} needs {bytes}",
            data.len()
        )
        .into());
    }
    let mut bytes = data.to_vec();
    if big && size > 1 {
        bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    if fortran {
        bytes = turned(&bytes, &shape, size);
    }
    Ok(Array {
        dtype,
        shape,
        bytes,
    })
}

/// Header and elements.
fn parts(file: &[u8]) -> Option<(&str, &[u8])> {
    let rest = file.strip_prefix(b"\x93NUMPY")?;
    let (version, rest) = rest.split_at_checked(2)?;
    let (length, rest) = match version[0] {
        1 => {
            let (n, rest) = rest.split_at_checked(2)?;
            (usize::from(u16::from_le_bytes(n.try_into().ok()?)), rest)
        }
        2 | 3 => {
            let (n, rest) = rest.split_at_checked(4)?;
            (u32::from_le_bytes(n.try_into().ok()?) as usize, rest)
        }
        _ => return None,
    };
    let (header, data) = rest.split_at_checked(length)?;
    Some((std::str::from_utf8(header).ok()?, data))
}

fn shortened(header: &str) -> String {
    header.trim().chars().take(100).collect()
}

/// Returns the text after a key of the header.
fn value<'h>(header: &'h str, key: &str) -> Option<&'h str> {
    header.split_once(key).map(|v| v.1.trim_start())
}

fn quoted(text: &str) -> Option<&str> {
    text.strip_prefix('\'')?.split_once('\'').map(|v| v.0)
}

/// `(2, 3)`, `(2,)`, `()`.
fn extents(text: &str) -> Option<Vec<i64>> {
    let (inside, _) = text.strip_prefix('(')?.split_once(')')?;
    let mut out = Vec::new();
    for part in inside.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let extent: i64 = part.trim_end_matches('L').parse().ok()?;
        if extent < 0 || out.len() == AXES {
            return None;
        }
        out.push(extent);
    }
    Some(out)
}

/// Returns the element type of a description such as `<f4`, and whether its bytes must be swapped.
fn element(descr: &str, ty: &str) -> Option<(DLDataType, bool)> {
    let (order, rest) = descr.split_at_checked(1)?;
    let (big, rest) = match order {
        "<" | "|" | "=" => (false, rest),
        ">" => (true, rest),
        _ => (false, descr),
    };
    let (kind, size) = rest.split_at_checked(1)?;
    let code = match (kind, size) {
        ("f", "2" | "4" | "8") => DL_FLOAT,
        ("i", "1" | "2" | "4" | "8") => DL_INT,
        ("u" | "V", "2") if ty.contains("bfloat16") => DL_BFLOAT,
        ("u", "1" | "2" | "4" | "8") => DL_UINT,
        ("b", "1") => DL_BOOL,
        _ => return None,
    };
    let bits = 8 * size.parse::<u8>().ok()?;
    let lanes = 1;
    Some((DLDataType { code, bits, lanes }, big))
}

/// Converts elements from column-major to row-major order. `from` has the elements of `shape`.
fn turned(from: &[u8], shape: &[i64], size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(from.len());
    let mut steps = Vec::with_capacity(shape.len());
    let mut step = size;
    for &d in shape {
        steps.push(step);
        step *= d as usize;
    }
    let mut index = vec![0; shape.len()];
    let mut at = 0;
    for _ in 0..from.len() / size {
        out.extend_from_slice(&from[at..at + size]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            at += steps[axis];
            if index[axis] < shape[axis] {
                break;
            }
            at -= steps[axis] * shape[axis] as usize;
            index[axis] = 0;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut out = b"\x93NUMPY\x01\x00".to_vec();
        out.extend((header.len() as u16).to_le_bytes());
        out.extend(header.as_bytes());
        out.extend(data);
        out
    }

    fn header(descr: &str, fortran: &str, shape: &str) -> String {
        format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n")
    }

    #[test]
    fn arrays_come_in_c_order_and_little_endian() {
        let columns = file(
            &header(">i2", "True", "(2, 3)"),
            &[0, 0, 0, 3, 0, 1, 0, 4, 0, 2, 0, 5],
        );
        let array = read(&columns, "").expect("an array");
        assert_eq!(array.shape, [2, 3]);
        assert_eq!(array.bytes, [0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0]);
        let scalar = read(&file(&header("|b1", "False", "()"), &[1]), "bool").expect("an array");
        assert_eq!((scalar.shape.len(), scalar.dtype.code), (0, DL_BOOL));
        let bits = file(&header("<u2", "False", "(1,)"), &[0xc0, 0x3f]);
        let code = |ty: &str| read(&bits, ty).expect("an array").dtype.code;
        assert_eq!((code("bfloat16"), code("uint16")), (DL_BFLOAT, DL_UINT));
    }

    #[test]
    fn hostile_files_are_errors() {
        let huge = header("<f8", "False", "(4294967296, 4294967296)");
        let negative = header("<f8", "False", "(-1, 2)");
        for (what, bytes) in [
            ("nothing", Vec::new()),
            ("a short magic", b"\x93NUM".to_vec()),
            (
                "a header beyond the end",
                b"\x93NUMPY\x01\x00\xff\xffx".to_vec(),
            ),
            (
                "a long header beyond the end",
                b"\x93NUMPY\x02\x00\xff\xff\xff\xffx".to_vec(),
            ),
            ("a shape that overflows", file(&huge, &[0; 8])),
            ("a negative extent", file(&negative, &[0; 8])),
            (
                "too few elements",
                file(&header("<f8", "False", "(2,)"), &[0; 15]),
            ),
            (
                "too many elements",
                file(&header("<f8", "False", "(2,)"), &[0; 17]),
            ),
            ("objects", file(&header("|O", "False", "(1,)"), &[0; 8])),
            (
                "elements of no size",
                file(&header("<f0", "False", "(1,)"), &[]),
            ),
            ("no descriptor", file("{'shape': (1,), }", &[0; 8])),
            (
                "no shape",
                file("{'descr': '<f4', 'fortran_order': False}", &[0; 4]),
            ),
            ("a quote without end", file("{'descr': '<f4", &[0; 4])),
            ("bytes that are no text", file("\u{0}", &[0; 4])),
        ] {
            read(&bytes, "").expect_err(what);
        }
    }

    #[test]
    fn no_bytes_of_a_file_do_harm() {
        let good = file(&header("<i2", "True", "(2, 3)"), &[0; 12]);
        for at in 0..good.len() {
            for byte in [0, 0x27, 0x28, 0x39, 0x7f, 0xff] {
                let mut bad = good.clone();
                bad[at] = byte;
                let _ = read(&bad, "");
            }
            let _ = read(&good[..at], "");
        }
    }
}
