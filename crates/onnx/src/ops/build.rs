//! Common calls.

use relax_ir::AttrValue;
use relax_sym::Dim;
use relax_tensor::{DType, Tensor};

use crate::cx::Cx;
use crate::node::{R, unsupported};
use crate::value::{Elem, Val};

/// Creates a list of integers.
pub fn ints(v: &[i64]) -> AttrValue {
    AttrValue::ints(v)
}
/// Creates an integer.
pub fn int(v: i64) -> AttrValue {
    AttrValue::Int(v)
}
/// Creates a list of axes.
pub fn axes(v: &[usize]) -> AttrValue {
    AttrValue::array(v.iter().map(|&a| AttrValue::Int(a as i64)))
}
/// Creates a float.
pub fn float(v: f64) -> AttrValue {
    AttrValue::Float(v)
}
/// Creates a string.
pub fn str(v: &str) -> AttrValue {
    AttrValue::Str(v.into())
}
/// Creates a boolean.
pub fn flag(v: bool) -> AttrValue {
    AttrValue::Bool(v)
}
/// Creates an element type.
pub fn dtype(v: DType) -> AttrValue {
    AttrValue::DType(v)
}
/// Creates a list of extents.
pub fn dims(v: &[Dim]) -> AttrValue {
    AttrValue::array(v.iter().map(|d| AttrValue::dim(d.clone())))
}

impl Cx {
    /// Creates a scalar of an element type.
    pub fn number(&self, elem: Elem, v: f64) -> Val {
        let dtype = elem.storage().unwrap_or(DType::F32);
        let t = match dtype.is_float() {
            true => Tensor::scalar_f64(dtype, v),
            false => Tensor::scalar_i64(dtype, v as i64),
        };
        Val::constant(t, elem, "c")
    }
    /// Creates a vector of integers.
    pub fn vector(&self, v: &[i64]) -> Val {
        Val::constant(Tensor::from_slice(&[v.len() as i64], v), Elem::I64, "c")
    }
    /// Emits a binary operator with broadcasting.
    pub fn binary(&mut self, name: &str, a: &Val, b: &Val) -> R<Val> {
        self.op(name, &[a, b], &[])
    }
    pub fn add(&mut self, a: &Val, b: &Val) -> R<Val> {
        self.binary("add", a, b)
    }
    pub fn sub(&mut self, a: &Val, b: &Val) -> R<Val> {
        self.binary("subtract", a, b)
    }
    pub fn mul(&mut self, a: &Val, b: &Val) -> R<Val> {
        self.binary("multiply", a, b)
    }
    pub fn div(&mut self, a: &Val, b: &Val) -> R<Val> {
        self.binary("divide", a, b)
    }
    /// Emits a unary elementwise operator.
    pub fn unary(&mut self, name: &str, x: &Val) -> R<Val> {
        self.op(name, &[x], &[])
    }
    /// Emits a binary operator with a constant right operand.
    pub fn by(&mut self, name: &str, x: &Val, v: f64) -> R<Val> {
        let v = self.number(x.elem, v);
        self.binary(name, x, &v)
    }
    /// Emits a binary operator with a constant left operand.
    pub fn number_with(&mut self, name: &str, v: f64, x: &Val) -> R<Val> {
        let v = self.number(x.elem, v);
        self.binary(name, &v, x)
    }
    /// Casts to another element type, both with arithmetic.
    pub fn cast(&mut self, x: &Val, to: Elem) -> R<Val> {
        if x.elem == to {
            return Ok(x.clone());
        }
        let Some(to_dtype) = to
            .storage()
            .filter(|_| to.narrow().is_none() && x.elem.narrow().is_none())
        else {
            let (a, b) = (x.elem.name(), to.name());
            return unsupported(format!("a conversion of {a} to {b} is not supported here"));
        };
        self.op("cast", &[x], &[("dtype", dtype(to_dtype))])
    }
    /// Selects between two values by the condition `c`.
    pub fn select(&mut self, c: &Val, a: &Val, b: &Val) -> R<Val> {
        self.op("where", &[c, a, b], &[])
    }
    /// Reshapes a tensor. At most one extent may be unknown.
    pub fn reshape(&mut self, x: &Val, to: &[Dim]) -> R<Val> {
        if *x.dims == *to && to.iter().all(Dim::is_known) {
            return Ok(x.clone());
        }
        let open = to.iter().filter(|d| !d.is_known()).count();
        if open > 1 {
            return unsupported("a reshape to more than one unknown extent is not supported");
        }
        let shown: Vec<AttrValue> = to
            .iter()
            .map(|d| {
                if d.is_known() {
                    AttrValue::dim(d.clone())
                } else {
                    AttrValue::Int(-1)
                }
            })
            .collect();
        let zero = to.iter().any(|d| d.as_const() == Some(0));
        let mut attrs = vec![("newshape", AttrValue::array(shown))];
        if zero {
            attrs.push(("allowzero", flag(true)));
        }
        let mut out = self.op("reshape", &[x], &attrs)?;
        out.elem = x.elem;
        if out.tensor().is_none() {
            out.ints.clone_from(&x.ints);
        }
        Ok(out)
    }
    /// Permutes the axes.
    pub fn transpose(&mut self, x: &Val, order: &[usize]) -> R<Val> {
        if order.iter().enumerate().all(|(i, &a)| i == a) {
            return Ok(x.clone());
        }
        let mut out = self.op("transpose", &[x], &[("axes", axes(order))])?;
        out.elem = x.elem;
        Ok(out)
    }
    /// Inserts an axis of extent 1.
    pub fn expand(&mut self, x: &Val, axis: usize) -> R<Val> {
        x.part(..axis)?;
        let attrs = [("axis", int(axis as i64))];
        let mut out = self.op("expand_dims", &[x], &attrs)?;
        out.elem = x.elem;
        Ok(out)
    }
    /// Inserts several axes, given as positions in the result.
    pub fn expand_all(&mut self, x: &Val, places: &[usize]) -> R<Val> {
        let mut places = places.to_vec();
        places.sort_unstable();
        if places.len() > 64 {
            return Err("too many axes".into());
        }
        let mut out = x.clone();
        for at in places {
            out = self.expand(&out, at)?;
        }
        Ok(out)
    }
    /// Removes axes of extent 1.
    pub fn squeeze(&mut self, x: &Val, which: &[usize]) -> R<Val> {
        if which.is_empty() {
            return Ok(x.clone());
        }
        let mut out = self.op("squeeze", &[x], &[("axis", axes(which))])?;
        out.elem = x.elem;
        Ok(out)
    }
    /// Concatenates tensors.
    pub fn concat(&mut self, parts: &[Val], axis: usize) -> R<Val> {
        if let [one] = parts {
            return Ok(one.clone());
        }
        let all: Vec<&Val> = parts.iter().collect();
        let mut out = self.op_of_tuple("concatenate", &all, &[("axis", int(axis as i64))])?;
        out.elem = parts[0].elem;
        Ok(out)
    }
    /// Broadcasts a tensor to known extents.
    pub fn broadcast(&mut self, x: &Val, to: &[Dim]) -> R<Val> {
        if *x.dims == *to {
            return Ok(x.clone());
        }
        let mut out = self.op("broadcast_to", &[x], &[("shape", dims(to))])?;
        out.elem = x.elem;
        Ok(out)
    }
    /// Creates a tensor filled with one number.
    pub fn full(&mut self, v: &Val, to: &[Dim]) -> R<Val> {
        let mut out = self.op(
            "full",
            &[v],
            &[("shape", dims(to)), ("dtype", dtype(v.dtype()))],
        )?;
        out.elem = v.elem;
        Ok(out)
    }
    /// Slices an axis with constant bounds.
    pub fn slice(&mut self, x: &Val, axis: usize, begin: i64, end: i64) -> R<Val> {
        let attrs = [
            ("begin", ints(&[begin])),
            ("end", ints(&[end])),
            ("strides", ints(&[1])),
            ("axes", axes(&[axis])),
        ];
        let mut out = self.op("strided_slice", &[x], &attrs)?;
        out.elem = x.elem;
        Ok(out)
    }
    /// Gathers along an axis; negative indices must be normalised before.
    pub fn take(&mut self, x: &Val, at: &Val, axis: usize) -> R<Val> {
        let attrs = [("axis", int(axis as i64)), ("mode", str("clip"))];
        let mut out = self.op("take", &[x, at], &attrs)?;
        out.elem = x.elem;
        Ok(out)
    }
    /// Selects one index of an axis, which is removed.
    pub fn pick(&mut self, x: &Val, axis: usize, at: i64) -> R<Val> {
        let at = self.number(Elem::I64, at as f64);
        self.take(x, &at, axis)
    }
    /// Emits a reduction.
    pub fn reduce(&mut self, name: &str, x: &Val, over: &[usize], keep: bool) -> R<Val> {
        if over.is_empty() {
            return Ok(x.clone());
        }
        let mut attrs = vec![("axis", axes(over))];
        if keep {
            attrs.push(("keepdims", flag(true)));
        }
        self.op(name, &[x], &attrs)
    }
    /// Returns the extents as an `int64` vector, at run time.
    pub fn shape_of(&mut self, x: &Val) -> R<Val> {
        let mut v = self.op("shape_of", &[x], &[("dtype", dtype(DType::I64))])?;
        if x.dims.iter().all(Dim::is_known) {
            v.ints = Some(x.dims.clone());
        }
        Ok(v)
    }
    /// Converts to an `int64` vector.
    pub fn as_vector(&mut self, v: &Val) -> R<Val> {
        let v = self.cast(v, Elem::I64)?;
        match v.rank() {
            1 => Ok(v),
            _ => self.reshape(&v, &[v.size()]),
        }
    }
    /// Converts a one-element tensor to a scalar.
    pub fn as_scalar(&mut self, v: &Val) -> R<Val> {
        match v.rank() {
            0 => Ok(v.clone()),
            _ => self.reshape(v, &[]),
        }
    }
    /// Returns the indices along an axis, as an `int64` vector.
    pub fn iota(&mut self, x: &Val, axis: usize) -> R<Val> {
        let x = self.known(x);
        let (zero, one) = (self.number(Elem::I64, 0.0), self.number(Elem::I64, 1.0));
        let end = match x.dim(axis)?.as_const() {
            Some(n) => self.number(Elem::I64, n as f64),
            None => {
                let s = self.shape_of(&x)?;
                self.pick(&s, 0, axis as i64)?
            }
        };
        let stop = x
            .dim(axis)?
            .as_const()
            .map_or(AttrValue::None, AttrValue::Int);
        let attrs = [
            ("start", int(0)),
            ("stop", stop),
            ("step", int(1)),
            ("dtype", dtype(DType::I64)),
        ];
        let y = self.op("arange", &[&zero, &end, &one], &attrs)?;
        Ok(self.matched(&y, &[x.dim(axis)?.clone()]))
    }
}
