//! Tensors and NumPy arrays over each other's memory.

use std::ffi::c_void;
use std::sync::Arc;

use numpy::npyffi::{NPY_ARRAY_WRITEABLE, NpyTypes, PyArrayObject, get_type_object};
use numpy::{
    PY_ARRAY_API, PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use relax::{DType, Tensor};

use crate::errors::argument;
use crate::of_package;

/// The array that a tensor borrows from.
struct Borrowed {
    _array: Py<PyUntypedArray>,
    data: *const u8,
    len: usize,
}

// SAFETY: the bytes are read only while the array is kept alive; the array object itself is only
// touched with the interpreter attached.
unsafe impl Send for Borrowed {}
// SAFETY: as above.
unsafe impl Sync for Borrowed {}

impl AsRef<[u8]> for Borrowed {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: a contiguous array has this many bytes, and is kept alive by this.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }
}

/// The tensor that an array borrows from.
#[pyclass(frozen, module = "relax_ir._native")]
pub struct Elements {
    tensor: Tensor,
}

/// Returns the element type of an array; `None` for objects, records and other unsupported types.
pub fn dtype(descr: &Bound<'_, PyArrayDescr>) -> Option<DType> {
    Some(match (descr.kind(), descr.itemsize()) {
        (b'f', 2) => DType::F16,
        (b'f', 4) => DType::F32,
        (b'f', 8) => DType::F64,
        (b'i', 1) => DType::I8,
        (b'i', 2) => DType::I16,
        (b'i', 4) => DType::I32,
        (b'i', 8) => DType::I64,
        (b'u', 1) => DType::U8,
        (b'u', 2) => DType::U16,
        (b'u', 4) => DType::U32,
        (b'u', 8) => DType::U64,
        (b'b', 1) => DType::BOOL,
        (b'V', 2) if descr.str().is_ok_and(|s| s == "bfloat16") => DType::BF16,
        _ => return None,
    })
}

/// Returns whether an array has the layout of a tensor: contiguous, row-major, aligned, in native
/// byte order.
pub fn is_plain(array: &Bound<'_, PyUntypedArray>, descr: &Bound<'_, PyArrayDescr>) -> bool {
    array.is_c_contiguous() && array.is_aligned() && descr.is_native_byteorder() != Some(false)
}

/// Creates a tensor over a plain array.
pub fn borrowed(array: &Bound<'_, PyUntypedArray>, dtype: DType) -> PyResult<Tensor> {
    let py = array.py();
    let refused = || argument(py, "an array has elements that no tensor holds");
    let shape: Vec<i64> = array.shape().iter().map(|&d| d as i64).collect();
    let len = Tensor::byte_len(dtype, &shape).ok_or_else(refused)?;
    if len == 0 {
        return Ok(Tensor::zeros(dtype, &shape));
    }
    // SAFETY: a live array.
    let data = unsafe { (*array.as_array_ptr()).fields.data };
    let owner = Borrowed {
        _array: array.clone().unbind(),
        data: data.cast::<u8>().cast_const(),
        len,
    };
    Tensor::from_owner(dtype, &shape, Arc::new(owner), 0).ok_or_else(refused)
}

/// The element types with a NumPy descriptor.
const KNOWN: [DType; 13] = [
    DType::F32,
    DType::F64,
    DType::I32,
    DType::I64,
    DType::BOOL,
    DType::U8,
    DType::I8,
    DType::F16,
    DType::BF16,
    DType::I16,
    DType::U16,
    DType::U32,
    DType::U64,
];

/// Returns NumPy's descriptor of an element type: the shared object for the native byte order.
pub fn descr<'py>(py: Python<'py>, dtype: DType) -> PyResult<Bound<'py, PyArrayDescr>> {
    static DESCRIPTIONS: [PyOnceLock<Py<PyArrayDescr>>; KNOWN.len()] =
        [const { PyOnceLock::new() }; KNOWN.len()];
    let make = || {
        if dtype == DType::BF16 {
            let found = of_package(py, "_arrays", "bfloat16")?.call0()?;
            return Ok(found.cast_into::<PyArrayDescr>()?);
        }
        PyArrayDescr::new(py, dtype.to_string().as_str())
    };
    match KNOWN.iter().position(|&k| k == dtype) {
        Some(at) => {
            let found = DESCRIPTIONS[at].get_or_try_init(py, || make().map(Bound::unbind));
            Ok(found?.bind(py).clone())
        }
        None => make(),
    }
}

/// Creates an array of an element type with a copy of these bytes.
pub fn copied<'py>(
    py: Python<'py>,
    dtype: DType,
    shape: &[i64],
    bytes: &[u8],
) -> PyResult<Bound<'py, PyAny>> {
    let descr = descr(py, dtype)?;
    // SAFETY: NumPy creates an array of this type and these extents, which have the width of its
    // own; it has as many bytes as the tensor, and is not shared yet. The call consumes the
    // descriptor's reference.
    unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            get_type_object(py, NpyTypes::PyArray_Type),
            descr.into_ptr().cast(),
            shape.len() as i32,
            shape.as_ptr().cast_mut().cast(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            0,
            std::ptr::null_mut(),
        );
        let made = Bound::from_owned_ptr_or_err(py, array)?;
        let data = (*array.cast::<PyArrayObject>()).fields.data;
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), data.cast(), bytes.len());
        Ok(made)
    }
}

// Tensors and arrays have the same representation of extents.
const _: () = assert!(size_of::<isize>() == size_of::<i64>());

/// Creates an array over a tensor's elements. It may only be writable if nothing else holds the
/// elements.
pub fn array<'py>(py: Python<'py>, tensor: &Tensor, writable: bool) -> PyResult<Bound<'py, PyAny>> {
    let descr = descr(py, tensor.dtype())?;
    let mut shape: Vec<isize> = tensor.shape().iter().map(|&d| d as isize).collect();
    let elements = Elements {
        tensor: tensor.clone(),
    };
    let owner = Bound::new(py, elements)?;
    let data = owner.get().tensor.bytes().as_ptr().cast_mut();
    let flags = if writable { NPY_ARRAY_WRITEABLE } else { 0 };
    // SAFETY: the array has the tensor's type, extents and elements, and keeps their owner alive.
    // The call consumes the descriptor's reference, and the second one the owner's.
    unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            get_type_object(py, NpyTypes::PyArray_Type),
            descr.into_ptr().cast(),
            shape.len() as i32,
            shape.as_mut_ptr(),
            std::ptr::null_mut(),
            data.cast::<c_void>(),
            flags,
            std::ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, array)?;
        let base = owner.into_ptr();
        match PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), base) {
            0 => Ok(array),
            _ => Err(PyErr::fetch(py)),
        }
    }
}

/// A tensor with elements of its own, of what has that name in errors.
pub fn owned(given: &Bound<'_, PyAny>, name: &str) -> PyResult<Tensor> {
    let py = given.py();
    let refused = || {
        let text = format!("%{name}: an array is needed, of numbers that a tensor can hold");
        argument(py, &text)
    };
    let given = of_package(py, "_arrays", "plain")?.call1((given, name))?;
    let given = given.cast::<PyUntypedArray>()?;
    let descr = PyUntypedArrayMethods::dtype(given);
    let dtype = dtype(&descr).filter(|_| is_plain(given, &descr));
    let tensor = borrowed(given, dtype.ok_or_else(refused)?)?;
    let own = Tensor::from_bytes(tensor.dtype(), tensor.shape(), tensor.bytes());
    own.ok_or_else(refused)
}
