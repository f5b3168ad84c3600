//! Normalisations, and losses.

use relax_sym::Dim;

use super::build::{float, int};
use super::elementwise::channelwise;
use crate::graph::Tr;
use crate::node::{Node, R, unsupported};
use crate::table::{Entry, op};
use crate::value::{Elem, Val, Value};

type Out = R<Vec<Value>>;

pub static OPS: &[Entry] = &[
    op("Softmax", 1, |tr, n| {
        along(tr, n, |tr, x, axis| {
            tr.op("nn.softmax", &[x], &[("axis", int(axis))])
        })
    }),
    op("LogSoftmax", 1, |tr, n| {
        along(tr, n, |tr, x, axis| {
            tr.op("nn.log_softmax", &[x], &[("axis", int(axis))])
        })
    }),
    op("Hardmax", 1, |tr, n| along(tr, n, hardmax)),
    op("BatchNormalization", 1, batch_norm),
    op("InstanceNormalization", 1, |tr, n| {
        let (x, g, b) = (n.t(0)?, n.t(1)?, n.t(2)?);
        let attrs = [("epsilon", float(n.float("epsilon", 1e-5)))];
        Ok(vec![
            tr.op("nn.instance_norm", &[&x, &g, &b], &attrs)?.into(),
        ])
    }),
    op("LayerNormalization", 17, layer_norm),
    op("RMSNormalization", 23, |tr, n| {
        let (x, scale) = (n.t(0)?, n.t(1)?);
        let from = x.axis(n.int("axis", -1))?;
        let y = rms_norm(tr, &x, from, n.float("epsilon", 1e-5))?;
        let y = tr.cast(&y, scale.elem)?;
        Ok(vec![tr.mul(&y, &scale)?.into()])
    }),
    op("GroupNormalization", 18, group_norm),
    op("MeanVarianceNormalization", 9, |tr, n| {
        let x = n.t(0)?;
        let axes = n.ints("axes").unwrap_or(vec![0, 2, 3]);
        let over = axes
            .iter()
            .map(|&a| x.axis(a))
            .collect::<Result<Vec<_>, _>>()?;
        let (d, v) = centred(tr, &x, &over)?;
        let s = tr.unary("sqrt", &v)?;
        let s = tr.by("add", &s, 1e-9)?;
        Ok(vec![tr.div(&d, &s)?.into()])
    }),
    op("LpNormalization", 1, |tr, n| {
        let x = n.t(0)?;
        let axis = x.axis(n.int("axis", -1))?;
        let size = if n.int("p", 2) == 1 {
            let a = tr.unary("abs", &x)?;
            tr.reduce("sum", &a, &[axis], true)?
        } else {
            let q = tr.mul(&x, &x)?;
            let s = tr.reduce("sum", &q, &[axis], true)?;
            tr.unary("sqrt", &s)?
        };
        // Zero stays zero.
        let none = tr.by("equal", &size, 0.0)?;
        let one = tr.number(x.elem, 1.0);
        let size = tr.select(&none, &one, &size)?;
        Ok(vec![tr.div(&x, &size)?.into()])
    }),
    op("LRN", 1, lrn),
    op("NegativeLogLikelihoodLoss", 12, |tr, n| {
        let (x, t) = (n.t(0)?, n.t(1)?);
        let w = n.opt(2)?;
        Ok(vec![likelihood_loss(tr, n, &x, &t, w.as_ref())?.into()])
    }),
    op("SoftmaxCrossEntropyLoss", 12, |tr, n| {
        let (x, t) = (n.t(0)?, n.t(1)?);
        let w = n.opt(2)?;
        let p = tr.op("nn.log_softmax", &[&x], &[("axis", int(1))])?;
        let loss = likelihood_loss(tr, n, &p, &t, w.as_ref())?;
        Ok(vec![loss.into(), p.into()])
    }),
];

/// Applies a function along an axis; before version 13, along all axes from that one on, flattened.
fn along(tr: &mut Tr<'_>, n: &Node<'_>, f: impl Fn(&mut Tr<'_>, &Val, i64) -> R<Val>) -> Out {
    let x = n.t(0)?;
    let axis = n.int("axis", if n.opset < 13 { 1 } else { -1 });
    if x.rank() == 0 {
        let one = tr.expand(&x, 0)?;
        let y = f(tr, &one, 0)?;
        return Ok(vec![tr.squeeze(&y, &[0])?.into()]);
    }
    let at = match n.opset < 13 && axis == x.rank() as i64 {
        true => x.rank(),
        false => x.axis(axis)?,
    };
    if n.opset >= 13 || at + 1 == x.rank() {
        return Ok(vec![f(tr, &x, at as i64)?.into()]);
    }
    let x = tr.known(&x);
    let product = |d: &[Dim]| d.iter().fold(Dim::ONE, |n, d| n * d);
    let flat = tr.reshape(&x, &[product(x.part(..at)?), product(x.part(at..)?)])?;
    let y = f(tr, &flat, 1)?;
    Ok(vec![tr.reshape(&y, &x.dims.clone())?.into()])
}

fn hardmax(tr: &mut Tr<'_>, x: &Val, axis: i64) -> R<Val> {
    let axis = axis as usize;
    let best = tr.reduce("argmax", x, &[axis], true)?;
    let best = tr.cast(&best, Elem::I64)?;
    // The index of each element along the axis: the number of elements before it.
    let one = tr.number(Elem::I64, 1.0);
    let x = tr.known(x);
    let ones = tr.full(&one, &x.dims.clone())?;
    let at = tr.op(
        "cumsum",
        &[&ones],
        &[
            ("axis", int(axis as i64)),
            ("exclusive", super::build::flag(true)),
        ],
    )?;
    let same = tr.binary("equal", &at, &best)?;
    tr.cast(&same, x.elem)
}

/// Returns the difference from the mean over some axes, and the variance.
fn centred(tr: &mut Tr<'_>, x: &Val, over: &[usize]) -> R<(Val, Val)> {
    let mean = tr.reduce("mean", x, over, true)?;
    let d = tr.sub(x, &mean)?;
    let q = tr.mul(&d, &d)?;
    let v = tr.reduce("mean", &q, over, true)?;
    Ok((d, v))
}

fn batch_norm(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let x = n.t(0)?;
    let [g, b, mean, var] = [1, 2, 3, 4].map(|i| n.t(i));
    let (g, b, mean, var) = (g?, b?, mean?, var?);
    let eps = n.float("epsilon", 1e-5);
    let alike = [&g, &b, &mean, &var].iter().all(|v| v.elem == x.elem);
    if g.rank() > 1 {
        // Before version 9, statistics could be per element of the batch.
        let d = tr.sub(&x, &mean)?;
        let s = tr.by("add", &var, eps)?;
        let s = tr.unary("sqrt", &s)?;
        let y = tr.div(&d, &s)?;
        let y = tr.mul(&y, &g)?;
        return Ok(vec![tr.add(&y, &b)?.into()]);
    }
    if n.opset < 7 || !n.flag("training_mode") && alike {
        let mut attrs = vec![("epsilon", float(eps))];
        if x.rank() == 1 {
            attrs.push(("axis", int(0)));
        }
        let y = tr.ops("nn.batch_norm", &[&x, &g, &b, &mean, &var], &attrs)?;
        return Ok(vec![y[0].clone().into()]);
    }
    let training = n.flag("training_mode");
    let over: Vec<usize> = (0..x.rank()).filter(|&a| a != 1).collect();
    let wide = mean.elem;
    let data = tr.cast(&x, wide)?;
    let (now, spread) = if training {
        let m = tr.reduce("mean", &data, &over, true)?;
        let (_, v) = centred(tr, &data, &over)?;
        (m, v)
    } else {
        (
            channelwise(tr, &mean, x.rank())?,
            channelwise(tr, &var, x.rank())?,
        )
    };
    let d = tr.sub(&data, &now)?;
    let s = tr.by("add", &spread, eps)?;
    let s = tr.unary("sqrt", &s)?;
    let y = tr.div(&d, &s)?;
    let (g, b) = (tr.cast(&g, wide)?, tr.cast(&b, wide)?);
    let (g, b) = (
        channelwise(tr, &g, x.rank())?,
        channelwise(tr, &b, x.rank())?,
    );
    let y = tr.mul(&y, &g)?;
    let y = tr.add(&y, &b)?;
    let mut results = vec![tr.cast(&y, x.elem)?.into()];
    if training {
        let keep = n.float("momentum", 0.9);
        for (old, new) in [(&mean, &now), (&var, &spread)] {
            let new = tr.squeeze(new, &over)?;
            let (a, b) = (
                tr.by("multiply", old, keep)?,
                tr.by("multiply", &new, 1.0 - keep)?,
            );
            results.push(tr.add(&a, &b)?.into());
        }
    }
    Ok(results)
}

pub fn layer_norm(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (x, g) = (n.t(0)?, n.t(1)?);
    let b = n.opt(2)?;
    let from = x.axis(n.int("axis", -1))?;
    let eps = n.float("epsilon", 1e-5);
    if let (Some(b), true) = (
        &b,
        from + 1 == x.rank() && !n.wants(1) && !n.wants(2) && g.rank() == 1,
    ) {
        let attrs = [("axis", int(-1)), ("epsilon", float(eps))];
        return Ok(vec![tr.op("nn.layer_norm", &[&x, &g, b], &attrs)?.into()]);
    }
    let over: Vec<usize> = (from..x.rank()).collect();
    let wide = if n.int("stash_type", 1) == 1 && x.elem != Elem::F64 {
        Elem::F32
    } else {
        x.elem
    };
    let data = tr.cast(&x, wide)?;
    let mean = tr.reduce("mean", &data, &over, true)?;
    let (d, v) = centred(tr, &data, &over)?;
    let s = tr.by("add", &v, eps)?;
    let s = tr.unary("sqrt", &s)?;
    let inverse = tr.number_with("divide", 1.0, &s)?;
    let y = tr.mul(&d, &inverse)?;
    let y = tr.cast(&y, x.elem)?;
    let mut y = tr.mul(&y, &g)?;
    if let Some(b) = &b {
        y = tr.add(&y, b)?;
    }
    Ok(vec![y.into(), mean.into(), inverse.into()])
}

/// Emits RMS normalisation over the axes from `from` on, in at least float32.
pub fn rms_norm(tr: &mut Tr<'_>, x: &Val, from: usize, eps: f64) -> R<Val> {
    let wide = if x.elem == Elem::F64 {
        Elem::F64
    } else {
        Elem::F32
    };
    let data = tr.cast(x, wide)?;
    let q = tr.mul(&data, &data)?;
    let m = tr.reduce("mean", &q, &(from..x.rank()).collect::<Vec<_>>(), true)?;
    let m = tr.by("add", &m, eps)?;
    let s = tr.unary("sqrt", &m)?;
    let y = tr.div(&data, &s)?;
    tr.cast(&y, x.elem)
}

/// Returns the extents with channels split into groups.
fn split_channels(x: &Val, groups: i64) -> Vec<Dim> {
    let each = x.dims[1].floordiv(&Dim::from(groups));
    let mut split = vec![x.dims[0].clone(), Dim::from(groups), each];
    split.extend_from_slice(&x.dims[2..]);
    split
}

/// Normalises each group of channels to mean 0 and variance 1.
pub fn in_groups(tr: &mut Tr<'_>, x: &Val, groups: i64, eps: f64) -> R<Val> {
    let x = tr.known(x);
    if x.rank() < 2 || groups < 1 {
        return Err("it takes a batch, channels in groups, and space".into());
    }
    let split = split_channels(&x, groups);
    let y = tr.reshape(&x, &split)?;
    let (d, v) = centred(tr, &y, &(2..split.len()).collect::<Vec<_>>())?;
    let s = tr.by("add", &v, eps)?;
    let s = tr.unary("sqrt", &s)?;
    let y = tr.div(&d, &s)?;
    tr.reshape(&y, &x.dims.clone())
}

fn group_norm(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (x, g, b) = (n.t(0)?, n.t(1)?, n.t(2)?);
    let groups = n.int("num_groups", 1);
    let x = tr.known(&x);
    if x.rank() < 2 || groups < 1 {
        return Err("it takes a batch, channels in groups, and space".into());
    }
    let split = split_channels(&x, groups);
    let wide = if n.int("stash_type", 1) == 1 && x.elem != Elem::F64 {
        Elem::F32
    } else {
        x.elem
    };
    let y = tr.cast(&x, wide)?;
    let y = tr.reshape(&y, &split)?;
    let (d, v) = centred(tr, &y, &(2..split.len()).collect::<Vec<_>>())?;
    let s = tr.by("add", &v, n.float("epsilon", 1e-5))?;
    let s = tr.unary("sqrt", &s)?;
    let mut y = tr.div(&d, &s)?;
    y = tr.cast(&y, x.elem)?;
    // Scale and bias were per group at first, then per channel.
    let per_group = n.opset < 21;
    if !per_group {
        y = tr.reshape(&y, &x.dims.clone())?;
    }
    let (g, b) = (
        channelwise(tr, &g, y.rank())?,
        channelwise(tr, &b, y.rank())?,
    );
    let y = tr.mul(&y, &g)?;
    let y = tr.add(&y, &b)?;
    Ok(vec![tr.reshape(&y, &x.dims.clone())?.into()])
}

fn lrn(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let x = n.t(0)?;
    let attrs = [
        ("size", int(n.int("size", 1))),
        ("bias", float(n.float("bias", 1.0))),
        ("alpha", float(n.float("alpha", 0.0001))),
        ("beta", float(n.float("beta", 0.75))),
    ];
    Ok(vec![tr.op("nn.lrn", &[&x], &attrs)?.into()])
}

/// Emits the negative log likelihood loss.
fn likelihood_loss(tr: &mut Tr<'_>, n: &Node<'_>, x: &Val, t: &Val, w: Option<&Val>) -> R<Val> {
    let ignored = n.attr("ignore_index").map(|a| a.i);
    let reduction = n.str("reduction", "mean");
    let t = tr.cast(t, Elem::I64)?;
    let skip = match ignored {
        Some(i) => Some(tr.by("equal", &t, i as f64)?),
        None => None,
    };
    let zero = tr.number(Elem::I64, 0.0);
    let at = match &skip {
        Some(skip) => tr.select(skip, &zero, &t)?,
        None => t.clone(),
    };
    let places = tr.expand(&at, 1)?;
    let picked = tr.op("gather", &[x, &places], &[("axis", int(1))])?;
    let picked = tr.squeeze(&picked, &[1])?;
    let mut loss = tr.unary("negative", &picked)?;
    let mut weight = match w {
        Some(w) => Some(tr.take(w, &at, 0)?),
        None => None,
    };
    if let Some(skip) = &skip {
        let nothing = tr.number(x.elem, 0.0);
        let own = match &weight {
            Some(w) => w.clone(),
            None => tr.number(x.elem, 1.0),
        };
        weight = Some(tr.select(skip, &nothing, &own)?);
    }
    if let Some(w) = &weight {
        loss = tr.mul(&loss, w)?;
    }
    let all: Vec<usize> = (0..loss.rank()).collect();
    match (reduction.as_str(), &weight) {
        ("none", _) => Ok(loss),
        ("sum", _) => tr.reduce("sum", &loss, &all, false),
        ("mean", None) => tr.reduce("mean", &loss, &all, false),
        ("mean", Some(w)) => {
            let (a, b) = (
                tr.reduce("sum", &loss, &all, false)?,
                tr.reduce("sum", w, &all, false)?,
            );
            tr.div(&a, &b)
        }
        (other, _) => unsupported(format!("the reduction {other} is not supported")),
    }
}
