//! Inspecting tensors, and checking them against what an entry expects.

use crate::context::Status;
use crate::object::{
    DL_BFLOAT, DL_BOOL, DL_FLOAT, DL_INT, DL_UINT, DLDataType, Kind, RxObject, RxTensor,
};
use crate::values::is;

/// Returns the tensor of a value, if it is one.
///
/// # Safety
/// `object` is null or a live value, which outlives the result and is not changed meanwhile.
#[inline]
pub unsafe fn tensor<'a>(object: *const RxObject) -> Option<&'a RxTensor> {
    // SAFETY: null or a live value.
    if !unsafe { is(object, Kind::Tensor) } {
        return None;
    }
    // SAFETY: a live tensor.
    Some(unsafe { &*object.cast::<RxTensor>() })
}

/// `int32`, `float16`, `bool` and so on.
fn dtype_name(dtype: DLDataType) -> String {
    let name = match dtype.code {
        DL_INT => "int",
        DL_UINT => "uint",
        DL_FLOAT => "float",
        DL_BFLOAT => "bfloat",
        DL_BOOL => return "bool".into(),
        _ => "type",
    };
    format!("{name}{}", dtype.bits)
}

/// `(2, ?, 4)`; -1 is any extent.
fn shape_text(shape: &[i64]) -> String {
    let dims: Vec<String> = shape
        .iter()
        .map(|&d| if d < 0 { "?".into() } else { d.to_string() })
        .collect();
    format!("({})", dims.join(", "))
}

/// Checks a value against what an entry expects of `what`: its element type and, unless `wanted`
/// is `None`, its extents, of which a negative one stands for any.
///
/// # Errors
/// The status and text of what is not as expected.
pub fn check(
    found: Option<&RxTensor>,
    what: &str,
    dtype: DLDataType,
    wanted: Option<&[i64]>,
) -> Result<(), (Status, String)> {
    let Some(found) = found else {
        return Err((Status::Argument, format!("{what} should be a tensor")));
    };
    let dtype = dtype.canonical();
    if found.dtype != dtype {
        let message = format!(
            "{what} should have elements of type {}, but has {}",
            dtype_name(dtype),
            dtype_name(found.dtype)
        );
        return Err((Status::Dtype, message));
    }
    let Some(wanted) = wanted else {
        return Ok(());
    };
    let dims = found.extents();
    if dims.len() == wanted.len() && dims.iter().zip(wanted).all(|(d, w)| *w < 0 || d == w) {
        return Ok(());
    }
    let message = format!(
        "{what} should have shape {}, but has {}",
        shape_text(wanted),
        shape_text(dims)
    );
    Err((Status::Shape, message))
}
