//! Results as lines.

use std::io::{Result, Write};

use half::{bf16, f16};

use crate::object::{DL_BFLOAT, DL_FLOAT, DL_INT, Kind, RxObject, RxTensor, children};
use crate::tensor::look::tensor as tensor_of;

/// Writes each tensor of a value as a line with its shape and a line for each element, and a line
/// for each constructor before its fields.
///
/// # Safety
/// `value` is a live value.
pub unsafe fn value(value: *mut RxObject, out: &mut dyn Write) -> Result<()> {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        // SAFETY: parts of a live value live.
        let found = unsafe { (tensor_of(value), value.as_ref(), children(value)) };
        if let (Some(found), ..) = found {
            tensor(found, out)?;
            continue;
        }
        let (_, header, children) = found;
        if let Some(header) = header.filter(|h| h.kind == Kind::Adt as u8) {
            writeln!(out, "constructor {}", header.tag)?;
        }
        open.extend(children.iter().rev());
    }
    Ok(())
}

fn tensor(t: &RxTensor, out: &mut dyn Write) -> Result<()> {
    let (shape, bytes, dtype) = (t.extents(), t.bytes(), t.dtype);
    let extents: Vec<String> = shape.iter().map(i64::to_string).collect();
    let comma = if shape.len() == 1 { "," } else { "" };
    writeln!(out, "({}{comma})", extents.join(", "))?;
    let size = usize::from(dtype.bits / 8).max(1);
    for element in bytes.chunks_exact(size) {
        let mut word = [0; 8];
        word[..size.min(8)].copy_from_slice(&element[..size.min(8)]);
        let raw = u64::from_le_bytes(word);
        match (dtype.code, dtype.bits) {
            (DL_FLOAT, 64) => float(&format!("{:?}", f64::from_bits(raw)), out)?,
            (DL_FLOAT, 32) => float(&format!("{:?}", f32::from_bits(raw as u32)), out)?,
            (DL_FLOAT, _) => float(&format!("{:?}", f16::from_bits(raw as u16).to_f32()), out)?,
            (DL_BFLOAT, _) => float(&format!("{:?}", bf16::from_bits(raw as u16).to_f32()), out)?,
            (DL_INT, bits) => {
                let spare = 64 - u32::from(bits.min(64));
                writeln!(out, "{}", ((raw << spare) as i64) >> spare)?;
            }
            _ => writeln!(out, "{raw}")?,
        }
    }
    Ok(())
}

/// A float with the digits that it takes to read it back.
fn float(shown: &str, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "{}", shown.strip_suffix(".0").unwrap_or(shown))
}
