//! The fast path of calls with plain arrays, which allocates nothing but the result.

use numpy::npyffi::{
    NPY_ARRAY_ALIGNED, NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_WRITEABLE, NpyTypes, PyArray_Descr,
    PyArrayObject, get_type_object,
};
use numpy::{PyArrayDescr, PyArrayDescrMethods};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use relax::{DType, Error, Given, Program, Signature, Tensor, View};

use crate::arrays::{copied, descr};
use crate::of_package;
use crate::results::{Owner, python};

/// An entry whose parameters are all tensors of known element types.
pub struct Quick {
    params: Vec<Param>,
    /// Whether a parameter is named `out`.
    has_out: bool,
    /// Whether the cost of calls is about constant.
    steady: bool,
}

struct Param {
    name: Py<PyString>,
    dtype: DType,
    descr: Py<PyArrayDescr>,
}

/// Up to this many parameters need no heap allocation.
const FEW: usize = 8;
const PLAIN: i32 = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED;

/// The outcome of a call while the interpreter was detached.
enum Kept {
    Small(DType, Vec<i64>, Vec<u8>),
    Value(relax::Value),
}

/// Arguments as views, and the value of `out=`.
type Looked<'a, 'py> = (&'a [View<'a>], Option<Bound<'py, PyAny>>);

impl Quick {
    /// Returns the fast path of an entry; `None` if its arguments need conversion.
    pub fn new(
        py: Python<'_>,
        program: &Program,
        at: usize,
        entry: &Signature,
    ) -> PyResult<Option<Quick>> {
        let mut params = Vec::with_capacity(entry.params.len());
        for param in &entry.params {
            let dtype = param.tensor.as_ref().and_then(|t| t.dtype);
            // Types without a NumPy descriptor are passed as bits.
            let Some(dtype) = dtype.filter(|&d| d != DType::BF16) else {
                return Ok(None);
            };
            params.push(Param {
                name: PyString::intern(py, &param.name).unbind(),
                dtype,
                descr: descr(py, dtype)?.unbind(),
            });
        }
        Ok(Some(Quick {
            has_out: entry.params.iter().any(|p| p.name == "out"),
            steady: program.is_steady(at),
            params,
        }))
    }

    /// Returns whether the cost of calls of this entry is about constant.
    pub fn steady(&self) -> bool {
        self.steady
    }

    /// Returns the arguments as views of arrays, and the value of `out=`; `None` if the general
    /// path must be taken. The views live as long as the arrays, which `args` and `kwargs` hold.
    pub fn views<'a, 'py>(
        &self,
        args: &'a Bound<'py, PyTuple>,
        kwargs: Option<&'a Bound<'py, PyDict>>,
        views: &'a mut Views<'a>,
    ) -> PyResult<Option<Looked<'a, 'py>>> {
        let py = args.py();
        let (given, named) = (args.len(), kwargs.map_or(0, |k| k.len()));
        let out = match kwargs {
            Some(kwargs) if !self.has_out && given + named == self.params.len() + 1 => {
                kwargs.get_item(pyo3::intern!(py, "out"))?
            }
            _ => None,
        };
        if given + named - usize::from(out.is_some()) != self.params.len()
            || given > self.params.len()
        {
            return Ok(None);
        }
        // SAFETY: the array type is a static object of NumPy.
        let class = unsafe { get_type_object(py, NpyTypes::PyArray_Type) };
        let space = views.space(self.params.len());
        for (i, param) in self.params.iter().enumerate() {
            let argument = match i < given {
                true => args.get_borrowed_item(i)?.to_owned(),
                false => match kwargs
                    .map(|k| k.get_item(&param.name))
                    .transpose()?
                    .flatten()
                {
                    Some(argument) => argument,
                    None => return Ok(None),
                },
            };
            let descr = param.descr.as_ptr().cast::<PyArray_Descr>();
            // SAFETY: the holder of the arguments outlives the views.
            match unsafe { view(&argument, class, descr, param.dtype) } {
                Some(view) => space[i] = view,
                None => return Ok(None),
            }
        }
        Ok(Some((&*space, out)))
    }
}

/// Storage for the arguments of a call.
pub struct Views<'a> {
    few: [View<'a>; FEW],
    many: Vec<View<'a>>,
}

impl<'a> Views<'a> {
    /// Creates empty storage.
    pub fn new() -> Views<'a> {
        Views {
            few: [NOTHING; FEW],
            many: Vec::new(),
        }
    }

    fn space(&mut self, count: usize) -> &mut [View<'a>] {
        if count <= FEW {
            return &mut self.few[..count];
        }
        self.many.resize(count, NOTHING);
        &mut self.many
    }
}

const NOTHING: View<'static> = View {
    dtype: DType::F32,
    shape: &[],
    bytes: &[],
};

/// Returns a view of an array, if it has exactly this descriptor and is plain.
///
/// # Safety
/// The array must be kept alive as long as the view.
unsafe fn view<'a>(
    argument: &Bound<'_, PyAny>,
    class: *mut pyo3::ffi::PyTypeObject,
    descr: *mut PyArray_Descr,
    dtype: DType,
) -> Option<View<'a>> {
    // SAFETY: the type is checked first; then the fields are those of an array.
    unsafe {
        if argument.get_type_ptr() != class {
            return None;
        }
        let fields = &(*argument.as_ptr().cast::<PyArrayObject>()).fields;
        if fields.descr != descr || fields.flags & PLAIN != PLAIN {
            return None;
        }
        let shape: &[i64] = match fields.nd {
            0 => &[],
            n => std::slice::from_raw_parts(fields.dimensions.cast(), n as usize),
        };
        let len = Tensor::byte_len(dtype, shape)?;
        let bytes: &[u8] = match len {
            0 => &[],
            len => std::slice::from_raw_parts(fields.data.cast(), len),
        };
        Some(View {
            dtype,
            shape,
            bytes,
        })
    }
}

/// Calls an entry with the interpreter attached.
pub fn held<'py>(
    py: Python<'py>,
    (program, at): (&Program, usize),
    views: &[View<'_>],
    out: Option<&Bound<'py, PyAny>>,
) -> Result<PyResult<Bound<'py, PyAny>>, Error> {
    program.call_views(at, views, |given| match given {
        Given::Small(view) => small(py, view.dtype, view.shape, view.bytes, out),
        Given::Value(value) => whole(py, (program, at), &value, out),
    })
}

/// Calls an entry with the interpreter detached. Arrays are created afterwards.
pub fn free<'py>(
    py: Python<'py>,
    (program, at): (&Program, usize),
    views: &[View<'_>],
    out: Option<&Bound<'py, PyAny>>,
) -> Result<PyResult<Bound<'py, PyAny>>, Error> {
    let kept = py.detach(|| {
        program.call_views(at, views, |given| match given {
            Given::Small(v) => Kept::Small(v.dtype, v.shape.to_vec(), v.bytes.to_vec()),
            Given::Value(value) => Kept::Value(value),
        })
    })?;
    Ok(match kept {
        Kept::Small(dtype, shape, bytes) => small(py, dtype, &shape, &bytes, out),
        Kept::Value(value) => whole(py, (program, at), &value, out),
    })
}

fn whole<'py>(
    py: Python<'py>,
    (program, at): (&Program, usize),
    value: &relax::Value,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let types = program.types();
    let result = python(py, value, types, types.result(at), Owner::Value)?;
    deliver(py, result, out)
}

/// Returns the result, or the arrays that it was written to.
pub fn deliver<'py>(
    py: Python<'py>,
    result: Bound<'py, PyAny>,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    match out.filter(|out| !out.is_none()) {
        Some(out) => of_package(py, "_arrays", "copy_into")?.call1((out, result)),
        None => Ok(result),
    }
}

/// Returns a small result as a new array, or in the caller's.
fn small<'py>(
    py: Python<'py>,
    dtype: DType,
    shape: &[i64],
    bytes: &[u8],
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(out) = out.filter(|out| !out.is_none()) else {
        return copied(py, dtype, shape, bytes);
    };
    // SAFETY: the type is checked first; a plain array of these extents has this many bytes, which
    // may be written.
    unsafe {
        if out.get_type_ptr() == get_type_object(py, NpyTypes::PyArray_Type) {
            let fields = &(*out.as_ptr().cast::<PyArrayObject>()).fields;
            let wanted = PLAIN | NPY_ARRAY_WRITEABLE;
            let same = fields.descr == descr(py, dtype)?.as_dtype_ptr()
                && fields.flags & wanted == wanted
                && fields.nd as usize == shape.len()
                && (shape.is_empty()
                    || std::slice::from_raw_parts(fields.dimensions.cast::<i64>(), shape.len())
                        == shape);
            if same {
                std::ptr::copy(bytes.as_ptr(), fields.data.cast(), bytes.len());
                return Ok(out.clone());
            }
        }
    }
    deliver(py, copied(py, dtype, shape, bytes)?, Some(out))
}
