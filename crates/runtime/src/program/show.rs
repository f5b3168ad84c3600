//! Results as lines.

use std::io::{Result, Write};

use half::{bf16, f16};

use crate::object::{DL_BFLOAT, DL_FLOAT, DL_INT, Kind, RxObject};
use crate::tensor::look::{
    rx_tensor_data, rx_tensor_dtype, rx_tensor_nbytes, rx_tensor_ndim, rx_tensor_shape,
};
use crate::values::{rx_field, rx_field_count, rx_kind, rx_tag};

/// Writes each tensor of a value as a line with its shape and a line for each element, and a line
/// for each constructor before its fields.
///
/// # Safety
/// `value` is a live value.
pub unsafe fn value(value: *mut RxObject, out: &mut dyn Write) -> Result<()> {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        // SAFETY: parts of a live value live.
        let kind = unsafe { rx_kind(value) };
        if kind == Kind::Tensor as i32 {
            // SAFETY: it is a live tensor.
            unsafe { tensor(value, out) }?;
            continue;
        }
        if kind == Kind::Adt as i32 {
            // SAFETY: it is a live instance of a data type.
            let tag = unsafe { rx_tag(value) };
            writeln!(out, "constructor {tag}")?;
        }
        // SAFETY: it lives.
        let count = unsafe { rx_field_count(value) };
        // SAFETY: it has so many fields.
        let field = |i| unsafe { rx_field(value, i) };
        open.extend((0..count).rev().map(field));
    }
    Ok(())
}

/// # Safety
/// `t` is a live tensor.
unsafe fn tensor(t: *mut RxObject, out: &mut dyn Write) -> Result<()> {
    // SAFETY: `t` is a live tensor, which has as many extents and bytes as it says.
    let (shape, bytes, dtype) = unsafe {
        let (rank, len) = (rx_tensor_ndim(t), rx_tensor_nbytes(t));
        let shape = match rank {
            0 => &[][..],
            n => std::slice::from_raw_parts(rx_tensor_shape(t), n as usize),
        };
        let bytes = match len {
            0 => &[][..],
            n => std::slice::from_raw_parts(rx_tensor_data(t).cast::<u8>(), n as usize),
        };
        (shape, bytes, rx_tensor_dtype(t))
    };
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
