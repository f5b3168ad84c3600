//! The view of an operator call that exporter entries work with.

use relax_ir::{AttrValue, Attrs, DTy, TensorType, TypeId};
use relax_sym::Dim;
use relax_tensor::{DType, Tensor};

use super::graph::{Attr, Graph, elem};
use super::walk::{R, Val};

/// A call to be exported.
pub(super) struct Call<'a, 'm> {
    pub(super) g: &'a mut Graph<'m>,
    args: Vec<Val>,
    types: Vec<Option<TypeId>>,
    attrs: &'a Attrs,
    ty: Option<TypeId>,
    /// The name of the result's variable.
    hint: &'a str,
}

/// Returns the reason why there is no ONNX form.
pub(super) fn why<T>(text: impl Into<String>) -> R<T> {
    Err(Some(text.into()))
}

impl<'a, 'm> Call<'a, 'm> {
    pub(super) fn new(
        g: &'a mut Graph<'m>,
        (args, types): (Vec<Val>, Vec<Option<TypeId>>),
        attrs: &'a Attrs,
        ty: Option<TypeId>,
        hint: &'a str,
    ) -> Call<'a, 'm> {
        Call {
            g,
            args,
            types,
            attrs,
            ty,
            hint,
        }
    }

    /// Returns the number of arguments.
    pub(super) fn count(&self) -> usize {
        self.args.len()
    }

    /// Returns an argument that is a tensor or a shape value.
    pub(super) fn arg(&mut self, i: usize) -> R<String> {
        match self.args.get(i) {
            Some(Val::Tensor(name)) => Ok(name.clone()),
            Some(Val::Shape(dims)) => {
                let dims = dims.clone();
                self.extents(&dims)
            }
            Some(Val::Tuple(_)) => why("an argument is a tuple"),
            Some(Val::Function(..)) => why("an argument is a function"),
            _ => Err(None),
        }
    }

    /// Returns the fields of an argument that is a tuple of tensors.
    pub(super) fn fields(&self, i: usize) -> R<Vec<String>> {
        let Some(Val::Tuple(fields)) = self.args.get(i) else {
            return why("an argument is no tuple");
        };
        let one = |v: &Val| match v {
            Val::Tensor(name) => Ok(name.clone()),
            _ => why("a field of an argument is no tensor"),
        };
        fields.iter().map(one).collect()
    }

    /// Returns the type of an argument.
    pub(super) fn arg_type(&self, i: usize) -> R<&TensorType> {
        let ty = self.types.get(i).copied().flatten();
        ty.and_then(|t| self.g.m.types.as_tensor(t))
            .ok_or_else(|| Some("the type of an argument is not known".into()))
    }

    /// Returns the element type of an argument.
    pub(super) fn dtype(&self, i: usize) -> R<DType> {
        known(self.arg_type(i)?.dtype)
    }

    /// Returns the extents of an argument.
    pub(super) fn dims(&self, i: usize) -> R<Vec<Dim>> {
        let dims = self.arg_type(i)?.shape.dims().map(<[Dim]>::to_vec);
        dims.ok_or_else(|| Some("the rank of an argument is not known".into()))
    }

    /// Returns the rank of an argument.
    pub(super) fn rank(&self, i: usize) -> R<i64> {
        Ok(self.dims(i)?.len() as i64)
    }

    /// Returns the type of the result.
    pub(super) fn out_type(&self) -> R<&TensorType> {
        self.ty
            .and_then(|t| self.g.m.types.as_tensor(t))
            .ok_or_else(|| Some("the type of the result is not known".into()))
    }

    /// Returns the types of the result's fields.
    pub(super) fn out_fields(&self) -> Vec<TensorType> {
        let types = &self.g.m.types;
        let leaves = self.ty.map(|t| types.leaves(t)).unwrap_or_default();
        let leaves = leaves.into_iter();
        leaves.filter_map(|t| types.as_tensor(t).cloned()).collect()
    }

    /// Returns the value of an argument that is a constant scalar.
    pub(super) fn number(&self, i: usize) -> Option<f64> {
        match self.args.get(i) {
            Some(Val::Tensor(name)) => self.g.number(name),
            _ => None,
        }
    }

    /// Returns the element type of the result.
    pub(super) fn out_dtype(&self) -> R<DType> {
        known(self.out_type()?.dtype)
    }

    /// Returns the extents of the result.
    pub(super) fn out_dims(&self) -> R<Vec<Dim>> {
        let dims = self.out_type()?.shape.dims().map(<[Dim]>::to_vec);
        dims.ok_or_else(|| Some("the rank of the result is not known".into()))
    }

    /// Returns an attribute.
    pub(super) fn attr(&self, name: &str) -> &AttrValue {
        self.attrs.get(name).unwrap_or(&AttrValue::None)
    }

    /// Returns an integer attribute.
    pub(super) fn int(&self, name: &str) -> R<i64> {
        let value = self.attr(name).as_int();
        value.ok_or_else(|| Some(format!("`{name}` is no number that is known")))
    }

    /// Returns a numeric attribute.
    pub(super) fn float(&self, name: &str) -> R<f64> {
        let value = self.attr(name).as_float();
        value.ok_or_else(|| Some(format!("`{name}` is no number that is known")))
    }

    /// Returns a boolean attribute.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.attr(name).as_bool() == Some(true)
    }

    /// Returns a string attribute; empty if absent.
    pub(super) fn text(&self, name: &str) -> String {
        self.attr(name).as_str().unwrap_or_default().to_owned()
    }

    /// Returns an attribute that is one integer or several.
    pub(super) fn ints(&self, name: &str) -> R<Vec<i64>> {
        let value = self.attr(name);
        let all = value.as_ints().or_else(|| value.as_int().map(|i| vec![i]));
        all.ok_or_else(|| Some(format!("`{name}` is no list of numbers that are known")))
    }

    /// Returns an axis attribute, normalised to be non-negative.
    pub(super) fn axis(&self, name: &str, rank: i64) -> R<i64> {
        let axis = self.int(name)?;
        Ok(if axis < 0 { axis + rank } else { axis })
    }

    /// Adds a node with one result, named after the call's variable if it is the `last` one.
    pub(super) fn node(&mut self, op: &str, inputs: &[&str], attrs: Vec<(&str, Attr)>) -> String {
        let out = self.g.fresh(self.hint);
        let inputs = inputs.iter().map(|&i| i.to_owned()).collect();
        self.g.node(op, inputs, attrs, vec![out.clone()]);
        out
    }

    /// Adds a node with several results.
    pub(super) fn nodes(
        &mut self,
        op: &str,
        inputs: &[&str],
        attrs: Vec<(&str, Attr)>,
        count: usize,
    ) -> Vec<String> {
        let out: Vec<String> = (0..count)
            .map(|i| self.g.fresh(&format!("{}.{i}", self.hint)))
            .collect();
        let inputs = inputs.iter().map(|&i| i.to_owned()).collect();
        self.g.node(op, inputs, attrs, out.clone());
        out
    }

    /// Adds a node with all arguments and no attributes.
    pub(super) fn plain(&mut self, op: &str) -> R<Val> {
        let args: R<Vec<String>> = (0..self.count()).map(|i| self.arg(i)).collect();
        let args = args?;
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        Ok(Val::Tensor(self.node(op, &args, Vec::new())))
    }

    /// Casts a value if its element type differs.
    pub(super) fn cast(&mut self, value: String, from: DType, to: DType) -> String {
        if from == to {
            return value;
        }
        let attrs = vec![("to", Attr::Int(elem(to).into()))];
        self.node("Cast", &[&value], attrs)
    }

    /// Returns an argument as 64-bit integers.
    pub(super) fn wide(&mut self, i: usize) -> R<String> {
        let value = self.arg(i)?;
        if matches!(self.args.get(i), Some(Val::Shape(_))) {
            return Ok(value);
        }
        let from = self.dtype(i)?;
        Ok(self.cast(value, from, DType::I64))
    }

    /// Like [`Self::wide`]; a scalar becomes a vector.
    pub(super) fn wide_vector(&mut self, i: usize) -> R<String> {
        let value = self.wide(i)?;
        if self.rank(i).unwrap_or(1) != 0 {
            return Ok(value);
        }
        let one = self.g.ints(&[1]);
        Ok(self.node("Reshape", &[&value, &one], Vec::new()))
    }

    /// Casts an integer result to the element type that this operator has.
    pub(super) fn narrowed(&mut self, value: String, from: DType) -> R<Val> {
        let to = self.out_dtype()?;
        Ok(Val::Tensor(self.cast(value, from, to)))
    }

    /// Adds a scalar constant of an element type.
    pub(super) fn scalar(&mut self, dtype: DType, value: f64) -> String {
        self.g.constant("number", &Tensor::scalar_f64(dtype, value))
    }

    /// Returns extents as a vector.
    pub(super) fn extents(&mut self, dims: &[Dim]) -> R<String> {
        let found = self.g.extents(dims);
        found.ok_or_else(|| Some("an extent is not known".into()))
    }

    /// Reshapes the value. At most one extent may be unknown; it is inferred.
    pub(super) fn reshaped(&mut self, value: &str, dims: &[Dim]) -> R<String> {
        let open = |d: &&Dim| d.as_const().is_none();
        let zero = dims.iter().any(|d| d.as_const() == Some(0));
        let shape = if !zero && dims.iter().filter(open).count() == 1 {
            let left: Vec<i64> = dims.iter().map(|d| d.as_const().unwrap_or(-1)).collect();
            self.g.ints(&left)
        } else {
            self.extents(dims)?
        };
        let attrs = if zero {
            vec![("allowzero", Attr::Int(1))]
        } else {
            Vec::new()
        };
        Ok(self.node("Reshape", &[value, &shape], attrs))
    }

    /// Transposes the value, unless the order is the identity.
    pub(super) fn transposed(&mut self, value: String, order: &[i64]) -> String {
        if order.iter().zip(0..).all(|(&a, b)| a == b) {
            return value;
        }
        let attrs = vec![("perm", Attr::Ints(order.to_vec()))];
        self.node("Transpose", &[&value], attrs)
    }

    /// Inserts axes of extent 1.
    pub(super) fn unsqueezed(&mut self, value: &str, axes: &[i64]) -> String {
        let axes = self.g.ints(axes);
        self.node("Unsqueeze", &[value, &axes], Vec::new())
    }
}

/// Returns the element type, which must be known.
pub(super) fn known(dtype: DTy) -> R<DType> {
    match dtype {
        DTy::Known(dtype) => Ok(dtype),
        _ => why("an element type is not known"),
    }
}
