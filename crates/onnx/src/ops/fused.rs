//! Operators of `com.microsoft` that combine several of `ai.onnx`: activations, normalisations,
//! products.

use super::attention::embedding_rows;
use super::elementwise::{exponential, gelu_of, hard_sigmoid};
use super::nn;
use super::norm::rms_norm;
use crate::graph::Tr;
use crate::node::{Node, R, unsupported};
use crate::table::{Entry, ms, op};
use crate::value::{Elem, Val, Value};

type Out = R<Vec<Value>>;

pub static OPS: &[Entry] = &[
    ms("Gelu", |tr, n| {
        let x = n.t(0)?;
        Ok(vec![gelu_of(tr, &x, "none")?.into()])
    }),
    ms("BiasGelu", |tr, n| {
        let x = with_bias(tr, n, 1)?;
        Ok(vec![gelu_of(tr, &x, "none")?.into()])
    }),
    ms("FastGelu", |tr, n| {
        let x = with_bias(tr, n, 1)?;
        Ok(vec![gelu_of(tr, &x, "tanh")?.into()])
    }),
    ms("QuickGelu", |tr, n| {
        let x = n.t(0)?;
        let scaled = tr.by("multiply", &x, n.float("alpha", 1.702))?;
        let s = tr.unary("sigmoid", &scaled)?;
        Ok(vec![tr.mul(&x, &s)?.into()])
    }),
    ms("LayerNormalization", super::norm::layer_norm),
    op("SimplifiedLayerNormalization", 1, simplified),
    ms("SimplifiedLayerNormalization", simplified),
    ms("SkipLayerNormalization", |tr, n| {
        let sum = skipped(tr, n, 4)?;
        normalized(tr, n, &sum, 2, Some(3), false)
    }),
    ms("SkipSimplifiedLayerNormalization", |tr, n| {
        let sum = skipped(tr, n, 3)?;
        normalized(tr, n, &sum, 2, None, true)
    }),
    ms("EmbedLayerNormalization", embedded),
    ms("FusedConv", |tr, n| {
        let (x, w) = (n.t(0)?, n.t(1)?);
        let mut y = nn::convolution(tr, n, &x, &w)?;
        if let Some(b) = n.opt(2)? {
            y = nn::biased(tr, &y, &b)?;
        }
        if let Some(z) = n.opt(3)? {
            y = tr.add(&y, &z)?;
        }
        let given = n.floats("activation_params").unwrap_or_default();
        Ok(vec![activated(tr, n, &y, &given)?.into()])
    }),
    ms("FusedGemm", |tr, n| {
        let y = super::matrix::gemm(tr, n)?;
        let Some(Value::Tensor(y)) = y.first() else {
            return Ok(y);
        };
        let names = ["activation_alpha", "activation_beta"];
        let given: Vec<f64> = (names.iter())
            .filter_map(|a| n.attr(a).map(|a| f64::from(a.f)))
            .collect();
        Ok(vec![activated(tr, n, y, &given)?.into()])
    }),
    ms("ExpandDims", |tr, n| {
        let (x, axis) = (n.t(0)?, n.t(1)?);
        let axis = axis.const_ints().and_then(|v| v.first().copied());
        let axis = axis.ok_or("the axis must be known")?;
        let at = crate::value::axis_of(axis, x.rank() + 1)?;
        Ok(vec![tr.expand(&x, at)?.into()])
    }),
];

fn with_bias(tr: &mut Tr<'_>, n: &Node<'_>, at: usize) -> R<Val> {
    let x = n.t(0)?;
    biased(tr, n, &x, at)
}

/// Adds an optional input.
pub fn biased(tr: &mut Tr<'_>, n: &Node<'_>, y: &Val, at: usize) -> R<Val> {
    match n.opt(at)? {
        Some(b) => tr.add(y, &b),
        None => Ok(y.clone()),
    }
}

/// Applies the activation that a fused operator names.
pub fn activated(tr: &mut Tr<'_>, n: &Node<'_>, y: &Val, given: &[f64]) -> R<Val> {
    let number = |i: usize, otherwise: f64| given.get(i).copied().unwrap_or(otherwise);
    match n.str("activation", "").as_str() {
        "" => Ok(y.clone()),
        "Relu" => tr.unary("nn.relu", y),
        "Tanh" => tr.unary("tanh", y),
        "Sigmoid" => tr.unary("sigmoid", y),
        "LeakyRelu" => {
            let alpha = super::build::float(number(0, 0.01));
            tr.op("nn.leaky_relu", &[y], &[("alpha", alpha)])
        }
        "Clip" => {
            let y = tr.by("maximum", y, number(0, f64::from(f32::MIN)))?;
            tr.by("minimum", &y, number(1, f64::from(f32::MAX)))
        }
        "HardSigmoid" => hard_sigmoid(tr, y, number(0, 0.2), number(1, 0.5)),
        "Elu" => exponential(tr, y, number(0, 1.0), 1.0),
        other => unsupported(format!("the activation {other} is not supported")),
    }
}

/// Returns the element type that a normalisation is computed in.
fn wide(x: &Val) -> Elem {
    match x.elem {
        Elem::F64 => Elem::F64,
        _ => Elem::F32,
    }
}

fn simplified(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (x, scale) = (n.t(0)?, n.t(1)?);
    let from = x.axis(n.int("axis", -1))?;
    let eps = n.float("epsilon", 1e-5);
    let y = rms_norm(tr, &x, from, eps)?;
    let y = tr.cast(&y, scale.elem)?;
    let mut out = vec![tr.mul(&y, &scale)?.into()];
    if n.wants(1) {
        let data = tr.cast(&x, wide(&x))?;
        out.push(inverse_root(tr, &data, from, eps)?.into());
    }
    Ok(out)
}

/// Emits the reciprocal root mean square over the axes from `from` on.
fn inverse_root(tr: &mut Tr<'_>, x: &Val, from: usize, eps: f64) -> R<Val> {
    let q = tr.mul(x, x)?;
    let over: Vec<usize> = (from..x.rank()).collect();
    let m = tr.reduce("mean", &q, &over, true)?;
    let m = tr.by("add", &m, eps)?;
    let s = tr.unary("sqrt", &m)?;
    tr.number_with("divide", 1.0, &s)
}

/// Returns the sum of the data, the skip connection, and the bias at an input position.
fn skipped(tr: &mut Tr<'_>, n: &Node<'_>, bias: usize) -> R<Val> {
    let (x, skip) = (n.t(0)?, n.t(1)?);
    let sum = tr.add(&x, &skip)?;
    match n.opt(bias)? {
        Some(b) => tr.add(&sum, &b),
        None => Ok(sum),
    }
}

/// Returns the normalised sum, its mean, the inverse of its standard deviation, and the sum itself.
fn normalized(
    tr: &mut Tr<'_>,
    n: &Node<'_>,
    sum: &Val,
    gamma: usize,
    beta: Option<usize>,
    simple: bool,
) -> Out {
    let (y, mean, inverse) = norm_of(
        tr,
        sum,
        &n.t(gamma)?,
        match beta {
            Some(b) => n.opt(b)?,
            None => None,
        },
        n.float("epsilon", 1e-12),
        simple,
    )?;
    Ok(vec![
        y.into(),
        mean.map_or(Value::Nothing, Value::Tensor),
        inverse.into(),
        sum.clone().into(),
    ])
}

/// Emits layer normalisation over the last axis; also returns the mean, unless it is the simplified
/// variant, and the inverse of the standard deviation.
fn norm_of(
    tr: &mut Tr<'_>,
    x: &Val,
    gamma: &Val,
    beta: Option<Val>,
    eps: f64,
    simple: bool,
) -> R<(Val, Option<Val>, Val)> {
    let last = x.axis(-1)?;
    let data = tr.cast(x, wide(x))?;
    let (centred, mean) = match simple {
        true => (data, None),
        false => {
            let mean = tr.reduce("mean", &data, &[last], true)?;
            (tr.sub(&data, &mean)?, Some(mean))
        }
    };
    let inverse = inverse_root(tr, &centred, last, eps)?;
    let y = tr.mul(&centred, &inverse)?;
    let y = tr.cast(&y, x.elem)?;
    let mut y = tr.mul(&y, gamma)?;
    if let Some(b) = beta {
        y = tr.add(&y, &b)?;
    }
    Ok((y, mean, inverse))
}

/// Emits the sum of word, position and segment embeddings, normalised.
pub fn embedded(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (ids, words, places) = (n.t(0)?, n.t(2)?, n.t(3)?);
    let mut sum = embedding_rows(tr, &words, &ids)?;
    let rows = match n.opt(8)? {
        Some(at) => embedding_rows(tr, &places, &at)?,
        None => {
            let at = tr.iota(&ids, 1)?;
            embedding_rows(tr, &places, &at)?
        }
    };
    sum = tr.add(&sum, &rows)?;
    if let (Some(which), Some(segments)) = (n.opt(1)?, n.opt(4)?) {
        let rows = embedding_rows(tr, &segments, &which)?;
        sum = tr.add(&sum, &rows)?;
    }
    let (gamma, beta) = (n.t(5)?, n.opt(6)?);
    let eps = n.float("epsilon", 1e-12);
    let (y, _, _) = norm_of(tr, &sum, &gamma, beta, eps, false)?;
    let lengths = match n.opt(7)? {
        Some(mask) => {
            let mask = tr.cast(&mask, Elem::I32)?;
            let ones = tr.by("equal", &mask, 1.0)?;
            let ones = tr.cast(&ones, Elem::I32)?;
            tr.reduce("sum", &ones, &[1], false)?
        }
        None => {
            let zero = tr.number(Elem::I32, 0.0);
            let ids = tr.known(&ids);
            tr.full(&zero, ids.part(..1)?)?
        }
    };
    Ok(vec![y.into(), lengths.into(), sum.into()])
}
