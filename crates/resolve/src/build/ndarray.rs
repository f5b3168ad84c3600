//! Tensors in the metadata section, in TVM's serialisation format.

use std::borrow::Cow;
use std::sync::Arc;

use relax_tensor::{DType, Tensor};
use relax_tvm::tensor;

/// The maximum rank, above that of any operator.
const MOST_AXES: usize = 256;

/// Decodes a tensor: magic, a reserved word, device (two `int32`), rank (`int32`), element type
/// (code, bits, lanes), extents (`int64`), byte count, data; in base64.
pub(crate) fn decode_tensor(text: &str) -> Result<Tensor, String> {
    let clean: Cow<'_, [u8]> = if text.bytes().any(|b| b.is_ascii_whitespace()) {
        text.bytes().filter(|b| !b.is_ascii_whitespace()).collect()
    } else {
        text.as_bytes().into()
    };
    let bytes = base64_simd::STANDARD
        .decode_to_vec(&clean[..])
        .map_err(|_| "the tensor is no valid base64")?;
    drop(clean);
    let cut = || "the tensor is cut off".to_string();
    let word = |at: usize| -> Result<u64, String> {
        let bytes = bytes.get(at..at + 8).ok_or_else(cut)?;
        Ok(u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
    };
    if word(0)? != tensor::MAGIC {
        return Err("the tensor does not begin as TVM's tensors do".into());
    }
    let rank = word(24)? as u32 as usize;
    if rank > MOST_AXES {
        return Err(format!("the tensor claims {rank} axes"));
    }
    let dtype = tensor::element((word(24)? >> 32) as u32).map_err(|e| e.to_string())?;
    let shape: Vec<i64> = (0..rank)
        .map(|i| word(32 + 8 * i).map(|w| w as i64))
        .collect::<Result<_, _>>()?;
    let data = 40 + 8 * rank;
    let stated = word(data - 8)?;
    let len = Tensor::byte_len(dtype, &shape);
    if len.map(|l| l as u64) != Some(stated) {
        return Err(format!("the tensor's shape does not take {stated} bytes"));
    }
    let end = data.checked_add(stated as usize).ok_or_else(cut)?;
    if end > bytes.len() {
        return Err(cut());
    }
    if end < bytes.len() {
        let more = bytes.len() - end;
        return Err(format!("{more} bytes follow the tensor"));
    }
    if dtype == DType::BOOL {
        // Booleans are normalised to 0 or 1, whatever the text holds.
        let truth: Vec<u8> = bytes[data..].iter().map(|&b| u8::from(b != 0)).collect();
        return Tensor::from_bytes(dtype, &shape, &truth).ok_or_else(cut);
    }
    // Large tensors keep the decoded buffer; the header's size is a multiple of eight.
    if stated > 64 {
        let owner = Arc::new(bytes);
        if let Some(t) = Tensor::from_owner(dtype, &shape, owner.clone(), data) {
            return Ok(t);
        }
        return Tensor::from_bytes(dtype, &shape, &owner[data..end]).ok_or_else(cut);
    }
    Tensor::from_bytes(dtype, &shape, &bytes[data..end]).ok_or_else(cut)
}

#[cfg(test)]
mod tests {
    use relax_tensor::{DType, Tensor};

    use relax_tvm::tensor::MAGIC;

    use super::decode_tensor;

    /// Encodes a vector of a type and extent, with the given bytes.
    fn vector(code: u8, bits: u8, extent: i64, stated: u64, data: &[u8]) -> String {
        let mut bytes = Vec::from(MAGIC.to_le_bytes());
        bytes.extend(0u64.to_le_bytes());
        bytes.extend([1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, code, bits, 1, 0]);
        bytes.extend(extent.to_le_bytes());
        bytes.extend(stated.to_le_bytes());
        bytes.extend(data);
        base64_simd::STANDARD.encode_to_string(&bytes)
    }

    #[test]
    fn damaged_tensors_are_errors() {
        let read = |t: String| decode_tensor(&t);
        let good = read(vector(2, 32, 2, 8, &[0; 8]));
        assert_eq!(good, Ok(Tensor::zeros(DType::F32, &[2])));
        for (text, why) in [
            (vector(2, 32, 2, 8, &[0; 7]), "cut off"),
            (vector(2, 32, 2, 8, &[0; 9]), "1 bytes follow"),
            (vector(2, 32, -2, 8, &[0; 8]), "does not take 8 bytes"),
            (vector(2, 32, i64::MAX, 8, &[0; 8]), "does not take 8 bytes"),
            (vector(2, 32, 2, u64::MAX, &[0; 8]), "does not take"),
            (vector(2, 8, 2, 2, &[0; 2]), "8 bits"),
            (vector(9, 32, 2, 8, &[0; 8]), "unknown code 9"),
            ("P6G0".into(), "cut off"),
            ("!".into(), "base64"),
        ] {
            let found = read(text).expect_err(why);
            assert!(found.contains(why), "{found}");
        }
    }

    #[test]
    fn truth_values_are_0_or_1() {
        let t = decode_tensor(&vector(1, 1, 3, 3, &[0, 2, 255])).expect("a vector");
        assert_eq!(t.bytes(), [0, 1, 1]);
    }
}
