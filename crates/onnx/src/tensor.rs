//! Conversion of a model's constants to tensors.

use bytes::Bytes;
use relax_base::BoxError;
use relax_tensor::{DType, Tensor};

use crate::node::{Fault, R, unsupported};
use crate::proto::{SparseTensorProto, TensorProto};
use crate::value::Elem;

/// A reader of external data files, by the names in the model.
pub type Files<'a> = &'a dyn Fn(&str) -> Result<Bytes, BoxError>;

/// Converts a constant whose elements are in the message itself.
pub fn inline(t: &TensorProto) -> R<(Tensor, Elem)> {
    read(t, &|_| {
        Err("external data is read for initialisers only".into())
    })
}

/// Converts a constant.
///
/// # Errors
/// It has too few or too many elements, an unsupported element type, or refers to an unreadable
/// file.
pub fn read(t: &TensorProto, files: Files<'_>) -> R<(Tensor, Elem)> {
    let elem = Elem(t.data_type);
    let Some(dtype) = elem.storage() else {
        return unsupported(format!(
            "elements of type {} are not supported",
            elem.name()
        ));
    };
    let count = count(&t.dims).ok_or_else(|| format!("the tensor has extents {:?}", t.dims))?;
    let packed = packed_bits(elem);
    let need = match packed {
        Some(bits) => count.div_ceil(8 / bits),
        None => Tensor::byte_len(dtype, &t.dims).ok_or("the tensor is too large")?,
    };
    let raw = match t.data_location {
        1 => external(t, need, files)?,
        _ => t.raw_data.clone(),
    };
    let raw = match raw.is_empty() && need > 0 {
        true => from_fields(t, elem, dtype, need)?,
        false => raw,
    };
    if raw.len() != need {
        let (have, dims) = (raw.len(), &t.dims);
        return Err(Fault::Invalid(format!(
            "{} elements of extents {dims:?} take {need} bytes, but there are {have}",
            elem.name()
        )));
    }
    let tensor = match packed {
        Some(bits) => {
            let bytes = unpack(&raw, bits, count, dtype == DType::I8);
            Tensor::from_bytes(dtype, &t.dims, &bytes)
        }
        None => {
            let owner: std::sync::Arc<dyn AsRef<[u8]> + Send + Sync> =
                std::sync::Arc::new(raw.clone());
            Tensor::from_owner(dtype, &t.dims, owner, 0)
                .or_else(|| Tensor::from_bytes(dtype, &t.dims, &raw))
        }
    };
    Ok((
        tensor.ok_or("the tensor's bytes do not fit its extents")?,
        elem,
    ))
}

fn count(dims: &[i64]) -> Option<usize> {
    if dims.len() > 64 || dims.iter().any(|&d| d > MOST_EXTENT) {
        return None;
    }
    dims.iter()
        .try_fold(1usize, |n, &d| n.checked_mul(usize::try_from(d).ok()?))
}

/// An upper bound on extents, such that arithmetic on them does not overflow.
pub const MOST_EXTENT: i64 = 1 << 40;

/// Returns the bits per element if several share a byte.
fn packed_bits(elem: Elem) -> Option<usize> {
    match elem.0 {
        21..=23 => Some(4),
        25 | 26 => Some(2),
        _ => None,
    }
}

/// Unpacks to one element per byte, sign-extending signed ones.
fn unpack(raw: &[u8], bits: usize, count: usize, signed: bool) -> Vec<u8> {
    let (per, mask) = (8 / bits, (1u8 << bits) - 1);
    let sign = 1u8 << (bits - 1);
    let one = |i: usize| {
        let v = (raw[i / per] >> (i % per * bits)) & mask;
        if signed && v & sign != 0 {
            v | !mask
        } else {
            v
        }
    };
    (0..count).map(one).collect()
}

/// Returns the elements from the field for their type, as bytes.
fn from_fields(t: &TensorProto, elem: Elem, dtype: DType, need: usize) -> R<Bytes> {
    let out = match elem.0 {
        1 => in_bytes(&t.float_data, |v| v.to_le_bytes()),
        7 => in_bytes(&t.int64_data, |v| v.to_le_bytes()),
        11 => in_bytes(&t.double_data, |v| v.to_le_bytes()),
        12 => in_bytes(&t.uint64_data, |v| (v as u32).to_le_bytes()),
        13 => in_bytes(&t.uint64_data, |v| v.to_le_bytes()),
        // In the others each number is an element, or a byte that several elements share.
        _ => {
            let size = match packed_bits(elem) {
                Some(_) => 1,
                None => dtype.size().min(4),
            };
            let mut out: Vec<u8> = Vec::with_capacity(need.min(1 << 24));
            for v in &t.int32_data {
                out.extend(&v.to_le_bytes()[..size]);
            }
            out
        }
    };
    Ok(out.into())
}

/// Numbers as consecutive bytes.
fn in_bytes<T: Copy, const N: usize>(numbers: &[T], bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    let mut out = vec![0; N * numbers.len()];
    for (to, &v) in out.chunks_exact_mut(N).zip(numbers) {
        to.copy_from_slice(&bytes(v));
    }
    out
}

fn external(t: &TensorProto, need: usize, files: Files<'_>) -> R<Bytes> {
    let field = |key: &str| {
        t.external_data
            .iter()
            .find(|e| e.key == key)
            .map(|e| e.value.as_str())
    };
    let number = |key: &str| -> R<Option<usize>> {
        let parse = |v: &str| {
            v.parse()
                .map_err(|_| Fault::Invalid(format!("`{key}` is no number: {v}")))
        };
        field(key).map(parse).transpose()
    };
    let location = field("location").ok_or("external data without a location")?;
    if !within(location) {
        return Err(Fault::Invalid(format!(
            "external data lies outside of the model's folder: {location}"
        )));
    }
    let (offset, length) = (
        number("offset")?.unwrap_or(0),
        number("length")?.unwrap_or(need),
    );
    let bytes = files(location).map_err(|e| e.to_string())?;
    let end = offset.checked_add(length).filter(|&e| e <= bytes.len());
    let Some(end) = end else {
        let have = bytes.len();
        return Err(Fault::Invalid(format!(
            "external data ends behind its file: {length} bytes from {offset} on of {have} in {location}"
        )));
    };
    Ok(bytes.slice(offset..end))
}

/// Returns whether a relative path stays within its folder.
fn within(path: &str) -> bool {
    let parts = path.split(['/', '\\']);
    let plain = !path.starts_with(['/', '\\']) && !path.contains(':') && !path.is_empty();
    plain && parts.into_iter().all(|p| p != "..")
}

/// Converts a sparse constant to a dense one.
pub fn dense(t: &SparseTensorProto) -> R<(Tensor, Elem)> {
    let (values, indices) = (
        t.values.as_ref().ok_or("a sparse tensor without values")?,
        t.indices.as_ref(),
    );
    let (values, elem) = inline(values)?;
    let (places, _) = inline(indices.ok_or("a sparse tensor without indices")?)?;
    let dtype = values.dtype();
    let total = count(&t.dims)
        .filter(|&n| n <= 1 << 24)
        .ok_or("a sparse tensor is too large")?;
    let mut out = Tensor::zeros(dtype, &t.dims);
    let (size, rank) = (dtype.size(), t.dims.len());
    let linear = places.shape().len() == 1;
    let want = if linear {
        values.len()
    } else {
        values.len() * rank
    };
    if places.dtype() != DType::I64 || places.len() != want {
        return Err("the indices of a sparse tensor do not fit its values".into());
    }
    for k in 0..values.len() {
        let at = match linear {
            true => places.get_i64(k),
            false => (0..rank).fold(0i64, |at, a| {
                at.saturating_mul(t.dims[a])
                    .saturating_add(places.get_i64(k * rank + a))
            }),
        };
        let at = usize::try_from(at).ok().filter(|&at| at < total);
        let at = at.ok_or("an index of a sparse tensor is out of range")?;
        out.bytes_mut()[at * size..][..size].copy_from_slice(&values.bytes()[k * size..][..size]);
    }
    Ok((out, elem))
}
