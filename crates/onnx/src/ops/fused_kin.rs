//! Operators of `com.microsoft` that are variants of others: with quantised inputs, another input
//! order, or an extra step.

use super::build::int;
use super::elementwise::{channelwise, gelu_of};
use super::matrix::matmul;
use super::quant::{self, Scaled};
use super::{fused, fused_attention, image, indexing, movement, recurrent, shapes};
use crate::graph::Tr;
use crate::node::{Node, R, unsupported};
use crate::table::{Entry, NEWEST, ms};
use crate::value::{Elem, Val, Value};

type Out = R<Vec<Value>>;

pub static OPS: &[Entry] = &[
    ms("QLinearConv", |tr, n| {
        if !n.flag("channels_last") {
            return quant::convolution(tr, n);
        }
        let mut inputs = n.inputs.clone();
        inputs[0] = moved(tr, &n.t(0)?, true)?.into();
        let y = one(quant::convolution(tr, &like(n, inputs))?)?;
        Ok(vec![moved(tr, &y, false)?.into()])
    }),
    ms("QAttention", |tr, n| {
        let (x, w) = (n.t(0)?, n.t(1)?);
        let (scale, own) = (n.t(3)?, n.t(4)?);
        let all = quant::product(tr, (&x, n.opt(6)?), (&w, n.opt(7)?), &scale, &own)?;
        let all = fused::biased(tr, n, &all, 2)?;
        let none = Value::Nothing;
        let given = |i: usize| n.inputs.get(i).cloned().unwrap_or(Value::Nothing);
        let inputs = vec![given(0), given(1), none.clone(), given(5), given(8), none];
        fused_attention::of_projections(tr, &like(n, inputs), &all)
    }),
    ms("QEmbedLayerNormalization", |tr, n| {
        let mut inputs: Vec<Value> = n.inputs.iter().take(8).cloned().collect();
        for (k, input) in inputs.iter_mut().enumerate().take(7).skip(2) {
            if let Some(table) = n.opt(k)? {
                *input = Scaled::read(n, k + 6, k + 11)?.numbers(tr, &table)?.into();
            }
        }
        fused::embedded(tr, &like(n, inputs))
    }),
    ms("DynamicQuantizeLSTM", |tr, n| {
        let bytes = |k: usize| -> R<recurrent::Bytes> {
            let at = 6 + 2 * k;
            Ok(recurrent::Bytes {
                weight: n.t(k)?,
                scale: n.t(at)?,
                zero: n.opt(at + 1)?,
            })
        };
        let weights = [bytes(1)?, bytes(2)?];
        let inputs = n.inputs.iter().take(8).cloned().collect();
        recurrent::quantised_lstm(tr, &like(n, inputs), &weights)
    }),
    ms("GatherBlockQuantized", gather_blocks),
    ms("TransposeMatMul", super::matrix::fused),
    ms("FusedMatMulActivation", |tr, n| {
        let y = one(super::matrix::fused(tr, n)?)?;
        let given = n.float("activation_alpha", 0.01);
        Ok(vec![fused::activated(tr, n, &y, &[given])?.into()])
    }),
    ms("MatMulInteger16", |tr, n| {
        let (a, b) = (tr.cast(&n.t(0)?, Elem::I32)?, tr.cast(&n.t(1)?, Elem::I32)?);
        Ok(vec![matmul(tr, &a, &b)?.into()])
    }),
    ms("GemmFastGelu", |tr, n| {
        let y = matmul(tr, &n.t(0)?, &n.t(1)?)?;
        let y = fused::biased(tr, n, &y, 2)?;
        Ok(vec![gelu_of(tr, &y, "tanh")?.into()])
    }),
    ms("BiasAdd", |tr, n| {
        let y = tr.add(&n.t(0)?, &n.t(1)?)?;
        Ok(vec![fused::biased(tr, n, &y, 2)?.into()])
    }),
    ms("BiasSplitGelu", |tr, n| {
        let y = tr.add(&n.t(0)?, &n.t(1)?)?;
        let last = y.axis(-1)?;
        let halves = movement::split_into(tr, &y, last, None, 2)?;
        let right = gelu_of(tr, &halves[1], "none")?;
        Ok(vec![tr.mul(&halves[0], &right)?.into()])
    }),
    ms("GroupNorm", |tr, n| group_norm(tr, n, &n.t(0)?)),
    ms("SkipGroupNorm", |tr, n| {
        let (x, mut skip) = (n.t(0)?, n.t(3)?);
        if skip.rank() == 2 {
            skip = tr.expand_all(&skip, &[1, 2])?;
        }
        let sum = tr.add(&x, &skip)?;
        let sum = fused::biased(tr, n, &sum, 4)?;
        let mut out = group_norm(tr, n, &sum)?;
        out.push(sum.into());
        Ok(out)
    }),
    ms("CDist", distances),
    ms("Trilu", movement::trilu),
    ms("Range", |tr, n| {
        let mut inputs = n.inputs.clone();
        if inputs.len() < 3 {
            let elem = n.t(0)?.elem;
            inputs.push(tr.number(elem, 1.0).into());
        }
        shapes::range(tr, &like(n, inputs))
    }),
    ms("GatherND", indexing::gather_nd),
    ms("Pad", |tr, n| movement::pad(tr, &like(n, n.inputs.clone()))),
    ms("GridSample", image::grid_sample),
    ms("Unique", |tr, n| {
        let parts = tr.ops(
            "unique_slices",
            &[&n.t(0)?],
            &[("axis", int(0)), ("sorted", super::build::flag(false))],
        )?;
        let [values, _, places, counts] = &parts[..] else {
            return Err("there are no four results".into());
        };
        let all = [values, places, counts];
        Ok(all.into_iter().cloned().map(Value::Tensor).collect())
    }),
];

/// Returns the node with other inputs, under the newest rules.
fn like<'a>(n: &Node<'a>, inputs: Vec<Value>) -> Node<'a> {
    Node {
        proto: n.proto,
        inputs,
        opset: NEWEST,
    }
}

/// Returns the only result.
fn one(results: Vec<Value>) -> R<Val> {
    match results.into_iter().next() {
        Some(Value::Tensor(v)) => Ok(v),
        _ => Err("there is no result".into()),
    }
}

/// Moves channels before the spatial axes, or back after them.
fn moved(tr: &mut Tr<'_>, x: &Val, before: bool) -> R<Val> {
    let rank = x.rank();
    if rank < 3 {
        return Err("it takes a batch, space and channels".into());
    }
    let order: Vec<usize> = match before {
        true => [0, rank - 1].into_iter().chain(1..rank - 1).collect(),
        false => [0].into_iter().chain(2..rank).chain([1]).collect(),
    };
    tr.transpose(x, &order)
}

/// Emits a gather from a table with block-quantised rows: rows are gathered first, so that only
/// they are dequantised.
fn gather_blocks(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (x, at, scales) = (n.t(0)?, n.t(1)?, n.t(2)?);
    let axis = x.axis(n.int("gather_axis", 0))?;
    let along = x.axis(n.int("quantize_axis", 1))?;
    if axis == along {
        return unsupported("blocks along the axis that is gathered are not supported");
    }
    let bits = n.int("bits", 4);
    let mut parts = Vec::new();
    let packed = x.elem == Elem::U8 && bits < 8;
    if packed && along + 1 != x.rank() {
        return unsupported("packed elements along another axis than the last are not supported");
    }
    let zero = n.opt(3)?;
    for v in [Some(&x), Some(&scales), zero.as_ref()]
        .into_iter()
        .flatten()
    {
        let elem = v.elem;
        let at = indexing::from_end(tr, &at, v, axis)?;
        let mut y = tr.take(v, &at, axis)?;
        y.elem = elem;
        parts.push(y);
    }
    // The gathered axis was replaced by the axes of the indices.
    let moved = if along > axis {
        along + at.but(1)?
    } else {
        along
    };
    let mut parts = parts.into_iter();
    let (Some(mut data), Some(scales)) = (parts.next(), parts.next()) else {
        return Err("there are no scales".into());
    };
    let mut zero = parts.next();
    if packed {
        data = super::fused_quant::unpacked(tr, &data, bits)?;
        zero = match zero {
            Some(z) => {
                let z = super::fused_quant::unpacked(tr, &z, bits)?;
                let blocks = scales
                    .dim(moved)?
                    .as_const()
                    .ok_or("the number of blocks must be known")?;
                Some(tr.slice(&z, moved, 0, blocks)?)
            }
            // Unsigned values have their zero point in the middle.
            None => Some(tr.number(Elem::U8, (1i64 << (bits - 1)) as f64)),
        };
    }
    let mut inputs: Vec<Value> = vec![data.into(), scales.into()];
    inputs.extend(zero.map(Value::Tensor));
    let node = like(n, inputs);
    let block = n.int("block_size", 128);
    Ok(vec![
        quant::dequantized(tr, &node, moved as i64, block)?.into(),
    ])
}

fn group_norm(tr: &mut Tr<'_>, n: &Node<'_>, x: &Val) -> Out {
    let last = n.int("channels_last", 1) != 0;
    let x = if last { moved(tr, x, true)? } else { x.clone() };
    let (g, b) = (n.t(1)?, n.t(2)?);
    let y = tr.cast(&x, Elem::F32)?;
    let groups = n.int("groups", 1);
    let y = super::norm::in_groups(tr, &y, groups, n.float("epsilon", 1e-5))?;
    let (g, b) = (
        channelwise(tr, &g, y.rank())?,
        channelwise(tr, &b, y.rank())?,
    );
    let y = tr.mul(&y, &g)?;
    let mut y = tr.add(&y, &b)?;
    if n.int("activation", 0) == 1 {
        let s = tr.unary("sigmoid", &y)?;
        y = tr.mul(&y, &s)?;
    }
    let y = tr.cast(&y, x.elem)?;
    Ok(vec![if last { moved(tr, &y, false)? } else { y }.into()])
}

/// Emits the pairwise distances of the rows of two matrices.
fn distances(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (a, b) = (n.t(0)?, n.t(1)?);
    let (a, b) = (tr.expand(&a, 1)?, tr.expand(&b, 0)?);
    let d = tr.sub(&a, &b)?;
    let q = tr.mul(&d, &d)?;
    let s = tr.reduce("sum", &q, &[2], false)?;
    match n.str("metric", "sqeuclidean").as_str() {
        "sqeuclidean" => Ok(vec![s.into()]),
        "euclidean" => Ok(vec![tr.unary("sqrt", &s)?.into()]),
        other => unsupported(format!("the metric {other} is not supported")),
    }
}
