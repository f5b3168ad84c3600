//! Python functions that programs call by name. They are registered in `relax_ir/_packed.py`.

use std::cell::RefCell;

use numpy::PyUntypedArray;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyList, PyTuple};
use relax::{BoxError, Packed, PackedPlace, Tensor, Types, Value};

use crate::arguments::data;
use crate::arrays::{array, borrowed, dtype, is_plain};
use crate::errors::argument;
use crate::of_package;
use crate::results::{Owner, python};

thread_local! {
    /// The exception that ended the last call on this thread.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Takes the exception raised by a Python function during the last call on this thread.
pub fn raised() -> Option<PyErr> {
    RAISED.with_borrow_mut(Option::take)
}

/// Returns the exception for a failed call, caused by that of the function that failed. Exceptions
/// that end a program (`KeyboardInterrupt`) are returned themselves.
pub fn caused(py: Python<'_>, failure: PyErr, cause: Option<PyErr>) -> PyErr {
    match cause {
        None => failure,
        Some(cause) if !cause.is_instance_of::<PyException>(py) => cause,
        Some(cause) => {
            failure.set_cause(py, Some(cause));
            failure
        }
    }
}

/// The registered functions.
pub struct Registered;

impl Packed for Registered {
    fn call(&self, name: &str, args: &[Value]) -> Result<Value, BoxError> {
        attached(|py| {
            let args = args
                .iter()
                .map(|a| python(py, a, &Types::default(), None, Owner::Lent));
            let args = PyTuple::new(py, args.collect::<PyResult<Vec<_>>>()?)?;
            value(&of_package(py, "_packed", "called")?.call1((name, args))?)
        })
    }

    fn call_dps(&self, name: &str, args: &[PackedPlace]) -> Result<(), BoxError> {
        attached(|py| {
            let args = args.iter().map(|place| array(py, &place.tensor, place.own));
            let args = PyTuple::new(py, args.collect::<PyResult<Vec<_>>>()?)?;
            let called = of_package(py, "_packed", "called")?;
            called.call1((name, args)).map(drop)
        })
    }
}

/// Runs work with the interpreter attached; an exception is stored, and reported as the error.
fn attached<T>(work: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T, BoxError> {
    Python::attach(|py| {
        work(py).map_err(|e| {
            let text = e.to_string();
            RAISED.with_borrow_mut(|slot| *slot = Some(e));
            text.into()
        })
    })
}

/// A step of the traversal of a returned value.
enum Step<'py> {
    See(Bound<'py, PyAny>),
    Join(Option<u32>, usize),
}

/// Converts a returned value, with an explicit stack.
fn value(given: &Bound<'_, PyAny>) -> PyResult<Value> {
    let py = given.py();
    let mut work = vec![Step::See(given.clone())];
    let mut done: Vec<Value> = Vec::new();
    while let Some(step) = work.pop() {
        let given = match step {
            Step::See(given) => given,
            Step::Join(tag, n) => {
                let fields = done.split_off(done.len() - n);
                done.push(match tag {
                    Some(tag) => Value::Adt(tag, fields),
                    None => Value::Tuple(fields),
                });
                continue;
            }
        };
        let (tag, fields) = if let Some((_, tag, fields)) = data(&given)? {
            (Some(tag), fields)
        } else if given.is_none() {
            (None, Vec::new())
        } else if let Ok(tuple) = given.cast::<PyTuple>() {
            (None, tuple.iter().collect())
        } else if let Ok(list) = given.cast::<PyList>() {
            (None, list.iter().collect())
        } else {
            done.push(Value::Tensor(own(&given)?));
            continue;
        };
        work.push(Step::Join(tag, fields.len()));
        work.extend(fields.into_iter().rev().map(Step::See));
    }
    let none = || argument(py, "the function returned nothing");
    done.pop().ok_or_else(none)
}

/// Converts an array or a number to a tensor that owns its elements.
fn own(given: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let py = given.py();
    if given.is_instance_of::<PyBool>() {
        let truth: bool = given.extract()?;
        return Ok(Tensor::scalar_i64(relax::DType::BOOL, truth.into()));
    }
    if given.is_instance_of::<PyInt>() {
        return Ok(Tensor::scalar_i64(
            relax::DType::I32,
            given.extract::<i32>()?.into(),
        ));
    }
    if given.is_exact_instance_of::<pyo3::types::PyFloat>() {
        return Ok(Tensor::scalar_f64(relax::DType::F32, given.extract()?));
    }
    let plain = of_package(py, "_arrays", "plain")?.call1((given,))?;
    let plain = plain.cast::<PyUntypedArray>()?;
    let descr = numpy::PyUntypedArrayMethods::dtype(plain);
    let dtype = dtype(&descr).filter(|_| is_plain(plain, &descr));
    let none = || argument(py, "an array has elements that no tensor holds");
    borrowed(plain, dtype.ok_or_else(none)?)
}
