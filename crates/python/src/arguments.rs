//! Conversion of Python arguments to values.

use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyFloat, PyInt, PyList, PyTuple, PyType};
use relax::layout::Sort;
use relax::{DType, Param, Tensor, TensorType, Ty, Types, Value, Walk};

use crate::arrays::{borrowed, dtype, is_plain};
use crate::errors::argument;
use crate::of_package;

/// The arguments of one call.
pub struct Arguments<'t> {
    /// The types of the parameters.
    pub types: &'t Types,
    /// Whether element types are converted.
    pub cast: bool,
}

/// The destination of an argument, for errors.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// The name: `x`, `x.0`.
    name: &'a str,
    /// The type as text, computed on demand.
    ty: &'a dyn Fn() -> String,
}

/// A step of the traversal of an argument.
enum Step<'py> {
    See(Bound<'py, PyAny>, Ty, String),
    Join(Option<u32>, usize),
}

impl Arguments<'_> {
    /// Converts an argument for a parameter of this type.
    pub fn value(
        &self,
        given: &Bound<'_, PyAny>,
        param: &Param,
        ty: Option<Ty>,
    ) -> PyResult<Value> {
        let place = Place {
            name: &param.name,
            ty: &|| param.ty.clone(),
        };
        match (&param.tensor, ty) {
            (Some(want), _) => self.tensor(given, place, want).map(Value::Tensor),
            (None, Some(ty)) => self.compound(given, param, ty),
            (None, None) => Err(refused(given, place)),
        }
    }

    /// Converts tuples, lists, options and data type instances, with an explicit stack.
    fn compound(&self, given: &Bound<'_, PyAny>, param: &Param, ty: Ty) -> PyResult<Value> {
        let mut walk = self.types.walk();
        let mut done: Vec<Value> = Vec::new();
        let mut work = vec![Step::See(given.clone(), ty, param.name.clone())];
        // The last type and its tensor type: most composite values have few types.
        let mut seen: Option<(Ty, Option<TensorType>)> = None;
        while let Some(step) = work.pop() {
            let (given, ty, name) = match step {
                Step::See(given, ty, name) => (given, ty, name),
                Step::Join(tag, n) => {
                    let fields = done.split_off(done.len() - n);
                    done.push(match tag {
                        Some(tag) => Value::Adt(tag, fields),
                        None => Value::Tuple(fields),
                    });
                    continue;
                }
            };
            if seen.as_ref().is_none_or(|s| s.0 != ty) {
                seen = Some((ty, walk.tensor(ty)));
            }
            if let Some((_, Some(want))) = &seen {
                let place = Place {
                    name: &name,
                    ty: &|| walk.show(ty),
                };
                done.push(Value::Tensor(self.tensor(&given, place, want)?));
                continue;
            }
            if !open(&mut walk, &mut work, &given, ty, &name)? {
                let place = Place {
                    name: &name,
                    ty: &|| walk.show(ty),
                };
                return Err(refused(&given, place));
            }
        }
        let whole = done.pop();
        whole.ok_or_else(|| argument(given.py(), "an argument is missing"))
    }

    fn tensor(
        &self,
        given: &Bound<'_, PyAny>,
        place: Place<'_>,
        want: &TensorType,
    ) -> PyResult<Tensor> {
        if let Ok(array) = given.cast::<PyUntypedArray>() {
            return self.array(array, place, want);
        }
        if let Some(tensor) = scalar(given, want) {
            return Ok(tensor);
        }
        let as_array = of_package(given.py(), "_arrays", "as_array")?;
        let array = as_array.call1((given, place.name, (place.ty)()))?;
        self.array(array.cast::<PyUntypedArray>()?, place, want)
    }

    /// Converts an array to a tensor, which borrows from it if it has a tensor's layout.
    fn array(
        &self,
        array: &Bound<'_, PyUntypedArray>,
        place: Place<'_>,
        want: &TensorType,
    ) -> PyResult<Tensor> {
        let py = array.py();
        let descr = array.dtype();
        let have = dtype(&descr);
        // Subclasses such as masked arrays are left to the Python part.
        let exact = array.as_any().is_exact_instance_of::<PyUntypedArray>();
        if let Some(have) = have
            && want.dtype.is_none_or(|want| want == have)
            && exact
            && is_plain(array, &descr)
        {
            return borrowed(array, have);
        }
        let (to, from) = (
            want.dtype.map(|d| d.to_string()),
            have.map(|d| d.to_string()),
        );
        let fitted = of_package(py, "_arrays", "fitted")?;
        let fitted = fitted.call1((array, place.name, (place.ty)(), to, from, self.cast))?;
        let fitted = fitted.cast::<PyUntypedArray>()?;
        match dtype(&fitted.dtype()) {
            // The bits of a type that NumPy lacks.
            Some(DType::U16) if want.dtype == Some(DType::BF16) => borrowed(fitted, DType::BF16),
            Some(have) => borrowed(fitted, have),
            None => Err(refused(array.as_any(), place)),
        }
    }
}

/// Pushes the steps for the components of a value; returns whether the value has the right type.
fn open<'py>(
    walk: &mut Walk<'_>,
    work: &mut Vec<Step<'py>>,
    given: &Bound<'py, PyAny>,
    ty: Ty,
    name: &str,
) -> PyResult<bool> {
    let part = |i: usize| format!("{name}.{i}");
    let items = match (given.cast::<PyTuple>(), given.cast::<PyList>()) {
        (Ok(tuple), _) => Some(tuple.iter().collect::<Vec<_>>()),
        (_, Ok(list)) => Some(list.iter().collect()),
        _ => None,
    };
    let (tag, fields) = if let Some((data, tag, fields)) = data(given)? {
        if walk.data(ty) != Some(&data) {
            return Ok(false);
        }
        (Some(tag), fields)
    } else if let Some(several) = walk.several(ty) {
        match (several.sort, items) {
            (Sort::Option, _) if given.is_none() => work.push(Step::Join(Some(several.none), 0)),
            (Sort::Option, _) => {
                work.push(Step::Join(Some(several.some), 1));
                work.push(Step::See(given.clone(), several.of, name.to_owned()));
            }
            (Sort::List, Some(items)) => {
                work.extend(items.iter().map(|_| Step::Join(Some(several.some), 2)));
                work.push(Step::Join(Some(several.none), 0));
                let see = |(i, item)| Step::See(item, several.of, part(i));
                work.extend(items.into_iter().enumerate().rev().map(see));
            }
            (Sort::List, None) => return Ok(false),
        }
        return Ok(true);
    } else if let Some(items) = items {
        (None, items)
    } else {
        return Ok(false);
    };
    let Some(types) = walk.fields(ty, tag).filter(|t| t.len() == fields.len()) else {
        return Ok(false);
    };
    work.push(Step::Join(tag, fields.len()));
    let parts = fields.into_iter().zip(types).enumerate().rev();
    work.extend(parts.map(|(i, (field, ty))| Step::See(field, ty, part(i))));
    Ok(true)
}

/// The parts of a `relax_ir.Adt`: its type's name, its constructor's tag, its fields.
pub type Data<'py> = (String, u32, Vec<Bound<'py, PyAny>>);

pub fn data<'py>(given: &Bound<'py, PyAny>) -> PyResult<Option<Data<'py>>> {
    static ADT: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    if !given.is_instance(ADT.import(given.py(), "relax_ir._values", "Adt")?)? {
        return Ok(None);
    }
    let fields = given.getattr("fields")?.cast_into::<PyTuple>()?;
    let (data, tag) = (given.getattr("data")?, given.getattr("tag")?);
    Ok(Some((
        data.extract()?,
        tag.extract()?,
        fields.iter().collect(),
    )))
}

/// Returns the exception for an argument of the wrong kind.
fn refused(given: &Bound<'_, PyAny>, place: Place<'_>) -> PyErr {
    let py = given.py();
    let shown = of_package(py, "_arrays", "shown").and_then(|f| f.call1((given,))?.extract());
    let shown: String = shown.unwrap_or_else(|_| "something else".to_owned());
    let (name, ty) = (place.name, (place.ty)());
    argument(py, &format!("%{name} must be {ty}, and {shown} is given"))
}

/// Converts a number to a tensor of rank 0, if the parameter's type accepts it.
fn scalar(given: &Bound<'_, PyAny>, want: &TensorType) -> Option<Tensor> {
    if want.shape.as_ref().is_some_and(|s| !s.is_empty()) {
        return None;
    }
    let dtype = want.dtype?;
    if given.is_instance_of::<PyBool>() {
        let truth: bool = given.extract().ok()?;
        return dtype
            .is_bool()
            .then(|| Tensor::scalar_i64(dtype, i64::from(truth)));
    }
    let int = given.is_instance_of::<PyInt>();
    if dtype.is_float() && (int || given.is_instance_of::<PyFloat>()) {
        return Some(Tensor::scalar_f64(dtype, given.extract().ok()?));
    }
    let (least, most) = dtype.int_range().filter(|_| int)?;
    let n: i128 = given.extract().ok()?;
    (least..=most)
        .contains(&n)
        .then(|| Tensor::scalar_i64(dtype, n as i64))
}
