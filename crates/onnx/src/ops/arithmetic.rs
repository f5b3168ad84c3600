//! Elementwise functions of two or more operands with broadcasting.

use crate::graph::Tr;
use crate::kind::Kind;
use crate::node::{Node, R};
use crate::table::{Entry, op};
use crate::value::{Elem, Val, Value};

type Out = R<Vec<Value>>;

pub static OPS: &[Entry] = &[
    op("Add", 1, |tr, n| two(tr, n, "add")),
    op("Sub", 1, |tr, n| two(tr, n, "subtract")),
    op("Mul", 1, |tr, n| two(tr, n, "multiply")),
    op("Div", 1, |tr, n| two(tr, n, "divide")),
    op("And", 1, |tr, n| two(tr, n, "logical_and")),
    op("Or", 1, |tr, n| two(tr, n, "logical_or")),
    op("Xor", 1, |tr, n| two(tr, n, "logical_xor")),
    op("BitwiseAnd", 18, |tr, n| two(tr, n, "bitwise_and")),
    op("BitwiseOr", 18, |tr, n| two(tr, n, "bitwise_or")),
    op("BitwiseXor", 18, |tr, n| two(tr, n, "bitwise_xor")),
    op("Equal", 1, |tr, n| two(tr, n, "equal")),
    op("Greater", 1, |tr, n| two(tr, n, "greater")),
    op("GreaterOrEqual", 12, |tr, n| two(tr, n, "greater_equal")),
    op("Less", 1, |tr, n| two(tr, n, "less")),
    op("LessOrEqual", 12, |tr, n| two(tr, n, "less_equal")),
    op("BitShift", 11, |tr, n| {
        match n.str("direction", "").as_str() {
            "LEFT" => two(tr, n, "left_shift"),
            "RIGHT" => two(tr, n, "right_shift"),
            _ => Err("attribute `direction` must be LEFT or RIGHT".into()),
        }
    }),
    op("Mod", 10, |tr, n| {
        if n.flag("fmod") {
            return two(tr, n, "trunc_mod");
        }
        match n.t(0)?.elem.is_float() {
            true => float_mod(tr, n),
            false => two(tr, n, "floor_mod"),
        }
    }),
    op("Pow", 1, pow),
    op("Max", 1, |tr, n| extreme(tr, n, "maximum")),
    op("Min", 1, |tr, n| extreme(tr, n, "minimum")),
    op("Sum", 1, |tr, n| fold(tr, n, "add")),
    op("Mean", 1, |tr, n| {
        let sum = fold(tr, n, "add")?;
        let Some(Value::Tensor(sum)) = sum.first() else {
            return Err("there is nothing to take the mean of".into());
        };
        let mean = tr.by("divide", sum, n.inputs.len() as f64)?;
        Ok(vec![mean.into()])
    }),
    op("Where", 9, |tr, n| {
        let (c, a, b) = (n.t(0)?, n.t(1)?, n.t(2)?);
        let mut y = tr.select(&c, &a, &b)?;
        y.elem = a.elem;
        Ok(vec![y.into()])
    }),
];

/// Returns the two operands. Before version 7, the right one was broadcast starting at an axis.
fn operands(tr: &mut Tr<'_>, n: &Node<'_>) -> R<(Val, Val)> {
    let (a, mut b) = match (n.value(0)?, n.value(1)?) {
        (Value::Tensor(a), b) => (a.clone(), broadcast_with(tr, n, b, &a)?),
        (a, Value::Tensor(b)) => (broadcast_with(tr, n, a, &b)?, b),
        _ => (n.t(0)?, n.t(1)?),
    };
    if n.opset < 7 && n.flag("broadcast") && n.attr("axis").is_some() {
        let axis = a.axis(n.int("axis", 0))?;
        for _ in axis + b.rank()..a.rank() {
            b = tr.expand(&b, b.rank())?;
        }
    }
    Ok((a, b))
}

/// Returns an operand to be broadcast with another. One that may lack leading axes is used with
/// them if the other has as many.
fn broadcast_with(tr: &Tr<'_>, n: &Node<'_>, v: Value, other: &Val) -> R<Val> {
    match v {
        Value::Tensor(v) => Ok(v),
        Value::Other(text, kind) => match &*kind {
            Kind::Fewer(elem, dims) if dims.len() <= other.rank() => Ok(tr.val(text, *elem, dims)),
            _ => n.t(0).and(n.t(1)),
        },
        _ => n.t(0).and(n.t(1)),
    }
}

fn two(tr: &mut Tr<'_>, n: &Node<'_>, name: &str) -> Out {
    let (a, b) = operands(tr, n)?;
    Ok(vec![tr.binary(name, &a, &b)?.into()])
}

fn pow(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (a, b) = operands(tr, n)?;
    if a.elem == b.elem {
        return Ok(vec![tr.binary("power", &a, &b)?.into()]);
    }
    // The result has the base's type, and powers of floats are computed in it.
    let wide = match (a.elem.is_float(), b.elem.is_float()) {
        (true, _) => a.elem,
        (false, true) => Elem::F64,
        (false, false) => Elem::I64,
    };
    let (x, y) = (tr.cast(&a, wide)?, tr.cast(&b, wide)?);
    let p = tr.binary("power", &x, &y)?;
    Ok(vec![tr.cast(&p, a.elem)?.into()])
}

fn fold(tr: &mut Tr<'_>, n: &Node<'_>, name: &str) -> Out {
    let mut sum = n.t(0)?;
    for i in 1..n.inputs.len() {
        let x = n.t(i)?;
        sum = tr.binary(name, &sum, &x)?;
    }
    Ok(vec![sum.into()])
}

/// Emits the maximum or minimum of all operands, propagating NaN. The native operator returns the
/// right operand if one is NaN.
fn extreme(tr: &mut Tr<'_>, n: &Node<'_>, name: &str) -> Out {
    let number = |v: &Val| {
        v.tensor()
            .is_some_and(|t| (0..t.len()).all(|i| !t.get_f64(i).is_nan()))
    };
    let mut best = n.t(0)?;
    for i in 1..n.inputs.len() {
        let x = n.t(i)?;
        best = if !x.elem.is_float() || number(&best) {
            tr.binary(name, &best, &x)?
        } else if number(&x) {
            tr.binary(name, &x, &best)?
        } else {
            let y = tr.binary(name, &best, &x)?;
            let none = tr.unary("isnan", &best)?;
            tr.select(&none, &best, &y)?
        };
    }
    Ok(vec![best.into()])
}

/// Emits the remainder with the divisor's sign, including zeros and infinities.
fn float_mod(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (a, b) = operands(tr, n)?;
    let rest = tr.binary("trunc_mod", &a, &b)?;
    let (low, below) = (tr.by("less", &rest, 0.0)?, tr.by("less", &b, 0.0)?);
    let other = tr.binary("not_equal", &low, &below)?;
    let up = tr.add(&rest, &b)?;
    let y = tr.select(&other, &up, &rest)?;
    let none = tr.by("equal", &rest, 0.0)?;
    let sign = tr.unary("sign", &b)?;
    let zero = tr.by("multiply", &sign, 0.0)?;
    Ok(vec![tr.select(&none, &zero, &y)?.into()])
}
