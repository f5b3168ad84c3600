//! Random numbers: the same ones in each run, keyed by the model's seed or the node's position.

use relax_sym::Dim;
use relax_tensor::Tensor;

use super::build::{dtype, ints};
use crate::graph::Tr;
use crate::node::{Node, R, unsupported};
use crate::table::{Entry, op};
use crate::value::{Elem, Val, Value};

type Out = R<Vec<Value>>;

pub static OPS: &[Entry] = &[
    op("RandomUniform", 1, |tr, n| {
        let dims = n.ints("shape").ok_or("attribute `shape` is missing")?;
        let elem = n.elem("dtype").unwrap_or(Elem::F32);
        spread(tr, n, &dims, elem, "uniform")
    }),
    op("RandomUniformLike", 1, |tr, n| {
        let (dims, elem) = like(n)?;
        spread(tr, n, &dims, elem, "uniform")
    }),
    op("RandomNormal", 1, |tr, n| {
        let dims = n.ints("shape").ok_or("attribute `shape` is missing")?;
        let elem = n.elem("dtype").unwrap_or(Elem::F32);
        spread(tr, n, &dims, elem, "normal")
    }),
    op("RandomNormalLike", 1, |tr, n| {
        let (dims, elem) = like(n)?;
        spread(tr, n, &dims, elem, "normal")
    }),
    op("Bernoulli", 15, |tr, n| {
        let x = n.t(0)?;
        let (dims, elem) = like(n)?;
        let u = drawn(tr, n, &dims, "uniform", 0.0, 1.0)?;
        let p = tr.cast(&x, Elem::F32)?;
        let yes = tr.binary("less", &u, &p)?;
        Ok(vec![tr.cast(&yes, elem)?.into()])
    }),
    op("Multinomial", 7, multinomial),
    op("Dropout", 1, dropout),
];

/// Returns the extents of the input, and the requested element type.
fn like(n: &Node<'_>) -> R<(Vec<i64>, Elem)> {
    let x = n.t(0)?;
    Ok((known(&x)?, n.elem("dtype").unwrap_or(x.elem)))
}

fn known(x: &Val) -> R<Vec<i64>> {
    match x.dims.iter().map(Dim::as_const).collect() {
        Some(dims) => Ok(dims),
        None => unsupported("random numbers need extents that are known"),
    }
}

/// Emits random float32 numbers.
fn drawn(tr: &mut Tr<'_>, n: &Node<'_>, dims: &[i64], kind: &str, a: f64, b: f64) -> R<Val> {
    let seed = match n.attr("seed") {
        Some(s) => u64::from(s.f.to_bits()),
        None => tr.parameters.len() as u64 + tr.variable() as u64 * 2 + 1,
    };
    let mut words = [0u64; 10];
    words[1] = seed;
    let key = Val::constant(Tensor::from_slice(&[10], &words), Elem::U64, "key");
    let (a, b) = (tr.number(Elem::F32, a), tr.number(Elem::F32, b));
    let attrs = [
        ("out_shape", ints(dims)),
        ("out_dtype", dtype(relax_tensor::DType::F32)),
    ];
    let both = tr.ops(&format!("random.{kind}"), &[&key, &a, &b], &attrs)?;
    both.get(1)
        .cloned()
        .ok_or_else(|| "there is no result".into())
}

fn spread(tr: &mut Tr<'_>, n: &Node<'_>, dims: &[i64], elem: Elem, kind: &str) -> Out {
    let (a, b) = match kind {
        "uniform" => (n.float("low", 0.0), n.float("high", 1.0)),
        _ => (n.float("mean", 0.0), n.float("scale", 1.0)),
    };
    let y = drawn(tr, n, dims, kind, a, b)?;
    Ok(vec![tr.cast(&y, elem)?.into()])
}

/// Draws classes from logits: the first one whose cumulative weight exceeds a random number.
fn multinomial(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let x = n.t(0)?;
    if x.rank() != 2 {
        return Err("it takes a batch of weights of classes".into());
    }
    let count = n.int("sample_size", 1);
    let batch = known(&x)?[0];
    let x = tr.cast(&x, Elem::F32)?;
    let p = tr.op("nn.softmax", &[&x], &[("axis", super::build::int(1))])?;
    let sums = tr.op("cumsum", &[&p], &[("axis", super::build::int(1))])?;
    let u = drawn(tr, n, &[batch, count], "uniform", 0.0, 1.0)?;
    let (sums, u) = (tr.expand(&sums, 1)?, tr.expand(&u, 2)?);
    let above = tr.binary("greater", &sums, &u)?;
    let above = tr.cast(&above, Elem::I32)?;
    let at = tr.op("argmax", &[&above], &[("axis", super::build::axes(&[2]))])?;
    Ok(vec![
        tr.cast(&at, n.elem("dtype").unwrap_or(Elem::I32))?.into(),
    ])
}

/// Outside of training, returns the input unchanged.
fn dropout(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let x = n.t(0)?;
    let training = match n.opset < 12 {
        true => None,
        false => n.opt(2)?,
    };
    let on = training.as_ref().and_then(|t| t.truth());
    let ratio = match n.opset < 12 {
        true => tr.number(Elem::F32, n.float("ratio", 0.5)),
        false => match n.opt(1)? {
            Some(r) => {
                let r = tr.cast(&r, Elem::F32)?;
                tr.as_scalar(&r)?
            }
            None => tr.number(Elem::F32, 0.5),
        },
    };
    let all = tr.number(if n.opset < 10 { x.elem } else { Elem::BOOL }, 1.0);
    if training.is_none() || on == Some(false) {
        let mut results = vec![Value::Tensor(x.clone())];
        if n.wants(1) {
            let x = tr.known(&x);
            results.push(tr.full(&all, &x.dims.clone())?.into());
        }
        return Ok(results);
    }
    let u = drawn(tr, n, &known(&x)?, "uniform", 0.0, 1.0)?;
    let mut mask = tr.binary("greater_equal", &u, &ratio)?;
    let left = tr.number_with("subtract", 1.0, &ratio)?;
    let left = tr.cast(&left, x.elem)?;
    let scaled = tr.div(&x, &left)?;
    let zero = tr.number(x.elem, 0.0);
    let mut y = tr.select(&mask, &scaled, &zero)?;
    if let (Some(t), None) = (&training, on) {
        let t = tr.as_scalar(t)?;
        y = tr.select(&t, &y, &x)?;
        let off = tr.unary("logical_not", &t)?;
        mask = tr.binary("logical_or", &mask, &off)?;
    }
    Ok(vec![y.into(), mask.into()])
}
