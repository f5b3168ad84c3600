//! Tensors of rank 0 with a number.

use super::{Dims, Made, alloc, byte_size};
use crate::context::{RxContext, Status};
use crate::object::{DL_BFLOAT, DL_BOOL, DL_FLOAT, DL_INT, DL_UINT, DLDataType};

/// Returns the bytes of a number as an element; `None` for element types that are not numbers.
fn bytes_of(dtype: DLDataType, int: i64, float: f64) -> Option<[u8; 8]> {
    let word = match (dtype.code, dtype.bits) {
        (DL_INT | DL_UINT, 8 | 16 | 32 | 64) => int as u64,
        (DL_BOOL, 8) => u64::from(int != 0),
        (DL_FLOAT, 16) => half::f16::from_f64(float).to_bits().into(),
        (DL_BFLOAT, 16) => half::bf16::from_f64(float).to_bits().into(),
        (DL_FLOAT, 32) => (float as f32).to_bits().into(),
        (DL_FLOAT, 64) => float.to_bits(),
        _ => return None,
    };
    Some(word.to_le_bytes())
}

/// A tensor of rank 0 with a number: `int` for integers and booleans, `float` for others.
///
/// # Errors
/// [`Status::Dtype`] for an element type that is none of numbers; as for [`alloc`].
pub fn number(context: &mut RxContext, dtype: DLDataType, int: i64, float: f64) -> Made {
    let dims = Dims::of(0, &[]);
    let bytes = bytes_of(dtype.canonical(), int, float);
    let Some(bytes) = bytes.filter(|_| dtype.size() > 0) else {
        if let Err((status, message)) = byte_size(dtype, dims) {
            return Err(context.refuse(status, &message));
        }
        let text = format!("no number of element type {dtype:?}");
        return Err(context.refuse(Status::Dtype, &text));
    };
    let tensor = alloc(context, dtype, dims)?;
    // SAFETY: a new tensor with an element of `bits` bits, 64 at most: a type of `bytes_of`.
    unsafe {
        let t = tensor.as_ref();
        let size = usize::from(t.dtype.bits / 8);
        t.data
            .cast::<u8>()
            .copy_from_nonoverlapping(bytes.as_ptr(), size);
    }
    Ok(tensor)
}
