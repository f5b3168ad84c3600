//! Elementwise functions.

use super::build::{dtype, flag};
use crate::graph::Tr;
use crate::node::{Node, R, unsupported};
use crate::table::{Entry, op};
use crate::value::{Elem, Val, Value};

type Out = R<Vec<Value>>;

pub static OPS: &[Entry] = &[
    op("Abs", 1, |tr, n| plain(tr, n, "abs")),
    op("Acos", 7, |tr, n| plain(tr, n, "acos")),
    op("Acosh", 9, |tr, n| plain(tr, n, "acosh")),
    op("Asin", 7, |tr, n| plain(tr, n, "asin")),
    op("Asinh", 9, |tr, n| plain(tr, n, "asinh")),
    op("Atan", 7, |tr, n| plain(tr, n, "atan")),
    op("Atanh", 9, |tr, n| plain(tr, n, "atanh")),
    op("BitwiseNot", 18, |tr, n| plain(tr, n, "bitwise_not")),
    op("Ceil", 1, |tr, n| plain(tr, n, "ceil")),
    op("Cos", 7, |tr, n| plain(tr, n, "cos")),
    op("Cosh", 9, |tr, n| plain(tr, n, "cosh")),
    op("Erf", 9, |tr, n| plain(tr, n, "erf")),
    op("Exp", 1, |tr, n| plain(tr, n, "exp")),
    op("Floor", 1, |tr, n| plain(tr, n, "floor")),
    op("IsNaN", 9, |tr, n| plain(tr, n, "isnan")),
    op("Log", 1, |tr, n| plain(tr, n, "log")),
    op("Neg", 1, |tr, n| plain(tr, n, "negative")),
    op("Not", 1, |tr, n| plain(tr, n, "logical_not")),
    op("Relu", 1, |tr, n| plain(tr, n, "nn.relu")),
    op("Round", 11, |tr, n| plain(tr, n, "round_half_to_even")),
    op("Sigmoid", 1, |tr, n| plain(tr, n, "sigmoid")),
    op("Sign", 9, |tr, n| plain(tr, n, "sign")),
    op("Sin", 7, |tr, n| plain(tr, n, "sin")),
    op("Sinh", 9, |tr, n| plain(tr, n, "sinh")),
    op("Sqrt", 1, |tr, n| plain(tr, n, "sqrt")),
    op("Tan", 7, |tr, n| plain(tr, n, "tan")),
    op("Tanh", 1, |tr, n| plain(tr, n, "tanh")),
    op("Identity", 1, |_, n| {
        Ok(vec![n.inputs.first().cloned().unwrap_or(Value::Nothing)])
    }),
    op("Reciprocal", 1, |tr, n| {
        let x = n.t(0)?;
        Ok(vec![tr.number_with("divide", 1.0, &x)?.into()])
    }),
    op("IsInf", 10, is_inf),
    op("Cast", 1, cast),
    op("CastLike", 15, |tr, n| {
        let (x, to) = (n.t(0)?, n.elem_of(1)?);
        Ok(vec![convert(tr, n, &x, to)?.into()])
    }),
    op("BitCast", 26, |tr, n| {
        let x = n.t(0)?;
        let to = n.elem("to").ok_or("attribute `to` is missing")?;
        let target = to.storage().ok_or("attribute `to` names no element type")?;
        let integers = target.is_integral() && x.dtype().is_integral();
        let mut y = if target == x.dtype() {
            x.clone()
        } else if integers && target.bits == x.dtype().bits {
            // Conversions between integers of one width preserve the bits.
            let mut raw = x.clone();
            raw.elem = Elem::of(x.dtype());
            tr.op("cast", &[&raw], &[("dtype", dtype(target))])?
        } else {
            tr.op("reinterpret", &[&x], &[("dtype", dtype(target))])?
        };
        y.elem = to;
        Ok(vec![y.into()])
    }),
    op("Clip", 1, clip),
    op("Elu", 1, |tr, n| {
        let x = n.t(0)?;
        Ok(vec![
            exponential(tr, &x, n.float("alpha", 1.0), 1.0)?.into(),
        ])
    }),
    op("Selu", 1, |tr, n| {
        let x = n.t(0)?;
        let (a, g) = (
            n.float("alpha", 1.673_263_192_176_818_8),
            n.float("gamma", 1.050_701_022_148_132_3),
        );
        let y = exponential(tr, &x, a, 1.0)?;
        Ok(vec![tr.by("multiply", &y, g)?.into()])
    }),
    op("Celu", 12, |tr, n| {
        let x = n.t(0)?;
        let alpha = n.float("alpha", 1.0);
        Ok(vec![exponential(tr, &x, alpha, alpha)?.into()])
    }),
    op("LeakyRelu", 1, |tr, n| {
        let x = n.t(0)?;
        let alpha = n.float("alpha", 0.01);
        Ok(vec![
            tr.op(
                "nn.leaky_relu",
                &[&x],
                &[("alpha", super::build::float(alpha))],
            )?
            .into(),
        ])
    }),
    op("PRelu", 1, |tr, n| {
        let (x, slope) = (n.t(0)?, n.t(1)?);
        // Before broadcasting was introduced, a vector of slopes was per channel.
        let slope = match n.opset < 7 && slope.rank() == 1 && x.rank() > 2 {
            true => channelwise(tr, &slope, x.rank())?,
            false => slope,
        };
        let scaled = tr.mul(&x, &slope)?;
        let low = tr.by("less", &x, 0.0)?;
        Ok(vec![tr.select(&low, &scaled, &x)?.into()])
    }),
    op("ThresholdedRelu", 10, |tr, n| {
        let x = n.t(0)?;
        let above = tr.by("greater", &x, n.float("alpha", 1.0))?;
        let zero = tr.number(x.elem, 0.0);
        Ok(vec![tr.select(&above, &x, &zero)?.into()])
    }),
    op("HardSigmoid", 1, |tr, n| {
        let x = n.t(0)?;
        Ok(vec![
            hard_sigmoid(tr, &x, n.float("alpha", 0.2), n.float("beta", 0.5))?.into(),
        ])
    }),
    op("HardSwish", 14, |tr, n| {
        let x = n.t(0)?;
        let s = hard_sigmoid(tr, &x, 1.0 / 6.0, 0.5)?;
        Ok(vec![tr.mul(&x, &s)?.into()])
    }),
    op("Softplus", 1, |tr, n| {
        let x = n.t(0)?;
        Ok(vec![softplus(tr, &x)?.into()])
    }),
    op("Softsign", 1, |tr, n| {
        let x = n.t(0)?;
        let a = tr.unary("abs", &x)?;
        let a = tr.by("add", &a, 1.0)?;
        Ok(vec![tr.div(&x, &a)?.into()])
    }),
    op("Mish", 18, |tr, n| {
        let x = n.t(0)?;
        let s = softplus(tr, &x)?;
        let t = tr.unary("tanh", &s)?;
        Ok(vec![tr.mul(&x, &t)?.into()])
    }),
    op("Swish", 24, |tr, n| {
        let x = n.t(0)?;
        let scaled = tr.by("multiply", &x, n.float("alpha", 1.0))?;
        let s = tr.unary("sigmoid", &scaled)?;
        Ok(vec![tr.mul(&x, &s)?.into()])
    }),
    op("Gelu", 20, gelu),
    op("Shrink", 9, |tr, n| {
        let given = n.t(0)?;
        // The bounds may be fractional even if the elements are integers.
        let wide = match given.elem.is_float() {
            true => given.elem,
            false => Elem::F64,
        };
        let x = tr.cast(&given, wide)?;
        let (bias, lambd) = (n.float("bias", 0.0), n.float("lambd", 0.5));
        let (low, high) = (tr.by("less", &x, -lambd)?, tr.by("greater", &x, lambd)?);
        let (up, down) = (tr.by("add", &x, bias)?, tr.by("subtract", &x, bias)?);
        let zero = tr.number(x.elem, 0.0);
        let rest = tr.select(&high, &down, &zero)?;
        let y = tr.select(&low, &up, &rest)?;
        Ok(vec![tr.cast(&y, given.elem)?.into()])
    }),
];

fn plain(tr: &mut Tr<'_>, n: &Node<'_>, name: &str) -> Out {
    let x = n.t(0)?;
    Ok(vec![tr.unary(name, &x)?.into()])
}

/// Reshapes a vector for broadcasting along axis 1 of a tensor of this rank.
pub fn channelwise(tr: &mut Tr<'_>, v: &Val, rank: usize) -> R<Val> {
    let places: Vec<usize> = (0..rank).filter(|&a| a != 1).collect();
    if v.rank() != 1 || rank < 2 {
        return Ok(v.clone());
    }
    tr.expand_all(v, &places)
}

/// Emits `x` where it is positive, else `a * (exp(x / b) - 1)`.
pub fn exponential(tr: &mut Tr<'_>, x: &Val, a: f64, b: f64) -> R<Val> {
    let low = tr.by("minimum", x, 0.0)?;
    let low = if b == 1.0 {
        low
    } else {
        tr.by("divide", &low, b)?
    };
    let e = tr.unary("exp", &low)?;
    let e = tr.by("subtract", &e, 1.0)?;
    let e = tr.by("multiply", &e, a)?;
    let positive = tr.by("greater", x, 0.0)?;
    tr.select(&positive, x, &e)
}

pub fn hard_sigmoid(tr: &mut Tr<'_>, x: &Val, a: f64, b: f64) -> R<Val> {
    let y = tr.by("multiply", x, a)?;
    let y = tr.by("add", &y, b)?;
    let y = tr.by("minimum", &y, 1.0)?;
    tr.by("maximum", &y, 0.0)
}

/// Emits `log(1 + exp(x))` in the form that does not overflow.
pub fn softplus(tr: &mut Tr<'_>, x: &Val) -> R<Val> {
    let a = tr.unary("abs", x)?;
    let a = tr.unary("negative", &a)?;
    let e = tr.unary("exp", &a)?;
    let e = tr.by("add", &e, 1.0)?;
    let l = tr.unary("log", &e)?;
    let high = tr.by("maximum", x, 0.0)?;
    tr.add(&high, &l)
}

fn gelu(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let x = n.t(0)?;
    let y = gelu_of(tr, &x, &n.str("approximate", "none"))?;
    Ok(vec![y.into()])
}

/// Emits GELU.
pub fn gelu_of(tr: &mut Tr<'_>, x: &Val, approximate: &str) -> R<Val> {
    if x.elem == Elem::F32 {
        let name = if approximate == "tanh" {
            "gelu_tanh"
        } else {
            "gelu"
        };
        let text = tr.text(x);
        return Ok(tr.line(format!("{name}({text})"), x.elem, &x.dims.clone()));
    }
    let inner = if approximate == "tanh" {
        let x3 = tr.mul(x, x)?;
        let x3 = tr.mul(&x3, x)?;
        let x3 = tr.by("multiply", &x3, 0.044715)?;
        let sum = tr.add(x, &x3)?;
        let sum = tr.by("multiply", &sum, (2.0 / std::f64::consts::PI).sqrt())?;
        tr.unary("tanh", &sum)?
    } else {
        let scaled = tr.by("multiply", x, std::f64::consts::FRAC_1_SQRT_2)?;
        tr.unary("erf", &scaled)?
    };
    let one = tr.by("add", &inner, 1.0)?;
    let half = tr.by("multiply", x, 0.5)?;
    tr.mul(&half, &one)
}

fn is_inf(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let x = n.t(0)?;
    let inf = tr.unary("isinf", &x)?;
    let (up, down) = (
        n.int("detect_positive", 1) != 0,
        n.int("detect_negative", 1) != 0,
    );
    let sign = match (up, down) {
        (true, true) => return Ok(vec![inf.into()]),
        (true, false) => tr.by("greater", &x, 0.0)?,
        (false, true) => tr.by("less", &x, 0.0)?,
        (false, false) => tr
            .unary("isnan", &x)
            .and_then(|nan| tr.binary("logical_and", &nan, &inf))?,
    };
    Ok(vec![tr.binary("logical_and", &inf, &sign)?.into()])
}

fn cast(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let x = n.t(0)?;
    // The first version has the type's name.
    let to = match n.str("to", "").to_lowercase().as_str() {
        "" => n.elem("to").ok_or("attribute `to` is missing")?,
        "float" => Elem::F32,
        "double" => Elem::F64,
        name => match name.parse() {
            Ok(dtype) => Elem::of(dtype),
            Err(_) => return unsupported(format!("elements of type {name} are not supported")),
        },
    };
    Ok(vec![convert(tr, n, &x, to)?.into()])
}

/// Converts between any element types.
pub fn convert(tr: &mut Tr<'_>, n: &Node<'_>, x: &Val, to: Elem) -> R<Val> {
    if to.storage().is_none() {
        return unsupported(format!("elements of type {} are not supported", to.name()));
    }
    if x.elem == to {
        return Ok(x.clone());
    }
    let wide = match x.elem.narrow() {
        None => x.clone(),
        Some(name) => {
            let mut raw = x.clone();
            raw.elem = Elem::of(x.dtype());
            tr.op(
                "narrow.decode",
                &[&raw],
                &[("format", super::build::str(name))],
            )?
        }
    };
    let Some(name) = to.narrow() else {
        return tr.cast(&wide, to);
    };
    let wide = tr.cast(&wide, Elem::F32)?;
    let mut attrs = vec![
        ("format", super::build::str(name)),
        ("saturate", flag(n.int("saturate", 1) != 0)),
    ];
    let mode = n.str("round_mode", "up");
    if name == "float8_e8m0" {
        attrs.push(("rounding", super::build::str(&mode)));
    }
    let mut y = tr.op("narrow.encode", &[&wide], &attrs)?;
    y.elem = to;
    Ok(y)
}

fn clip(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let x = n.t(0)?;
    let bound = |tr: &mut Tr<'_>, i: usize, name: &str| -> R<Option<Val>> {
        if n.opset < 11 {
            let given = n.attr(name).is_some();
            return Ok(given.then(|| tr.number(x.elem, n.float(name, 0.0))));
        }
        n.opt(i)?.map(|v| tr.as_scalar(&v)).transpose()
    };
    let (low, high) = (bound(tr, 1, "min")?, bound(tr, 2, "max")?);
    let mut y = x;
    if let Some(low) = low {
        y = tr.binary("maximum", &low, &y)?;
    }
    if let Some(high) = high {
        y = tr.binary("minimum", &high, &y)?;
    }
    Ok(vec![y.into()])
}
