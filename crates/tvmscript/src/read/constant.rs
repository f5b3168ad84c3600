//! `R.const(…)`: scalars and nested lists.

use relax_base::{Diagnostic, Span};
use relax_tensor::{DType, Tensor};

use super::Reader;
use super::value::Val;
use crate::codes;

/// A number of a constant.
#[derive(Clone, Copy)]
enum Number {
    Int(i64),
    Float(f64),
    Bool(bool),
}

fn number(v: &Val) -> Option<Number> {
    Some(match v {
        Val::Int(i) => Number::Int(*i),
        Val::Float(x) => Number::Float(*x),
        Val::Bool(b) => Number::Bool(*b),
        _ => return None,
    })
}

impl Reader<'_> {
    /// Evaluates `R.const(value, dtype)`.
    pub(super) fn constant(&mut self, value: &Val, dtype: Option<&Val>, span: Span) -> Val {
        let mut numbers = Vec::new();
        let mut shape = Vec::new();
        match flatten(value, 0, &mut shape, &mut numbers) {
            Ok(()) => {}
            Err("") => return Val::Bad,
            Err(why) => {
                let d = Diagnostic::error(codes::CONSTANT, span, why.to_owned());
                self.report(d);
                return Val::Bad;
            }
        }
        let dtype = match dtype {
            Some(Val::Str(name)) => match name.parse::<DType>() {
                Ok(d)
                    if d.lanes == 1
                        && !d.is_void()
                        && !matches!(d.code, relax_tensor::TypeCode::Handle) =>
                {
                    d
                }
                _ if name.starts_with("float8")
                    || name.starts_with("float6")
                    || name.starts_with("float4") =>
                {
                    return self.keep(
                        "a constant of an element type that has no values here",
                        span,
                    );
                }
                _ => {
                    return self.error(
                        codes::CONSTANT,
                        span,
                        format!("`{name}` is no element type"),
                    );
                }
            },
            Some(Val::None) | None => default_type(&numbers),
            Some(Val::Bad) => return Val::Bad,
            Some(other) => {
                let other = other.clone();
                self.wrong(&other, span, "an element type");
                return Val::Bad;
            }
        };
        let Some(mut tensor) = zeros(dtype, &shape) else {
            return self.error(codes::CONSTANT, span, "the constant is too large");
        };
        for (i, n) in numbers.into_iter().enumerate() {
            match n {
                Number::Bool(b) if dtype.is_float() => tensor.set_f64(i, f64::from(u8::from(b))),
                Number::Bool(b) => tensor.set_i64(i, i64::from(b)),
                Number::Int(v) if dtype.is_float() => tensor.set_f64(i, v as f64),
                Number::Int(v) if dtype.is_bool() => tensor.set_i64(i, i64::from(v != 0)),
                Number::Int(v) => {
                    if let Some((low, high)) = dtype.int_range()
                        && !(low..=high).contains(&i128::from(v))
                    {
                        let message = format!("{v} does not fit in `{dtype}`");
                        return self.error(codes::CONSTANT, span, message);
                    }
                    tensor.set_i64(i, v);
                }
                Number::Float(x) if dtype.is_float() => tensor.set_f64(i, x),
                Number::Float(x) => tensor.set_i64(i, x as i64),
            }
        }
        Val::Expr(self.m.constant(tensor, span))
    }
}

fn zeros(dtype: DType, shape: &[i64]) -> Option<Tensor> {
    Tensor::byte_len(dtype, shape).map(|_| Tensor::zeros(dtype, shape))
}

/// Returns numpy's default type for them, as TVM converts it.
fn default_type(numbers: &[Number]) -> DType {
    if numbers.iter().any(|n| matches!(n, Number::Float(_))) || numbers.is_empty() {
        DType::F32
    } else if numbers.iter().all(|n| matches!(n, Number::Bool(_))) {
        DType::BOOL
    } else {
        DType::I32
    }
}

/// Returns the numbers of nested lists, in order, and the lists' extents. The nesting depth is
/// bounded by that of brackets.
fn flatten(
    value: &Val,
    depth: usize,
    shape: &mut Vec<i64>,
    out: &mut Vec<Number>,
) -> Result<(), &'static str> {
    const RAGGED: &str = "the lists of a constant must be equally long at each depth";
    match value {
        Val::List(items) | Val::Tuple(items) => {
            let n = items.len() as i64;
            if shape.len() == depth {
                if !out.is_empty() {
                    return Err(RAGGED);
                }
                shape.push(n);
            } else if shape[depth] != n {
                return Err(RAGGED);
            }
            for item in items {
                flatten(item, depth + 1, shape, out)?;
            }
            Ok(())
        }
        Val::Bad => Err(""),
        other => match number(other) {
            Some(n) if shape.len() == depth => {
                out.push(n);
                Ok(())
            }
            Some(_) => Err(RAGGED),
            None => Err("a constant is a number or nested lists of numbers"),
        },
    }
}
