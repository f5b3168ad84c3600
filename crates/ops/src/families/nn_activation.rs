//! Activations, and dropout, which is the identity at inference.

use relax_loops::Ex;
use relax_sym::Dim;

use super::elementwise::identity;
use crate::{AttrTy, ComputeError, Default, Fusion, OpDef, RelCx, RelResult, Te, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new("nn.relu", "`max(x, 0)`.", identity)
        .scale(crate::ScaleRole::Positive)
        .affine_ordered(super::affine_rules::relu)
        .inputs(&[input("data", "the input")])
        .fusion(Fusion::Elementwise)
        .compute(|te| te.elementwise(|x| x.max(0i64))),
    OpDef::new(
        "nn.leaky_relu",
        "`x` where positive, else `alpha * x`.",
        identity,
    )
    .in_relax(super::relax_rules::floats)
    .scale(crate::ScaleRole::Positive)
    .inputs(&[input("data", "the input")])
    .attrs(&[attr(
        "alpha",
        AttrTy::Float,
        Default::Float(0.25),
        "the slope below 0",
    )])
    .fusion(Fusion::Elementwise)
    .compute(|te| {
        let alpha = te.float("alpha")?;
        te.elementwise(|x| Ex::where_(&x.gt(0i64), x, &(x * x.same(alpha))))
    }),
    OpDef::new(
        "nn.prelu",
        "`x` where positive, else `alpha * x`, a slope per channel.",
        prelu_rel,
    )
    .layout(super::layout_rules::along_axis)
    .inputs(&[
        input("data", "the input"),
        input("alpha", "the slopes, one per index of the axis"),
    ])
    .attrs(&[attr(
        "axis",
        AttrTy::Int,
        Default::Int(1),
        "the channel axis",
    )])
    .fusion(Fusion::Broadcast)
    .compute(prelu),
    OpDef::new(
        "nn.dropout",
        "The input itself and a mask of ones: dropout drops nothing at inference.",
        dropout_rel,
    )
    .inference(super::inference_forms::dropout)
    .layout(super::layout_rules::same)
    .inputs(&[input("data", "the input")])
    .attrs(&[attr(
        "rate",
        AttrTy::Float,
        Default::Float(0.5),
        "the share that training would drop",
    )])
    .compute(|te| {
        let x = te.arg(0);
        let mask = te.compute("mask", &x.shape, |_| Ex::int(x.dtype, 1));
        te.output(&x);
        te.output(&mask);
        Ok(())
    }),
    OpDef::new(
        "nn.batch_flatten",
        "Makes one axis of all but the first.",
        batch_flatten_rel,
    )
    .reshape()
    .affine_ordered(super::affine_rules::selection)
    .inputs(&[input("data", "the input")])
    .fusion(Fusion::Injective)
    .compute(batch_flatten),
];

fn prelu_rel(cx: &mut RelCx<'_>) -> RelResult {
    let (dims, dtype) = cx.ranked(0)?;
    let axis = cx.axis("axis", cx.int("axis")?, dims.len())?;
    cx.require_per_index(
        1,
        &dims[axis],
        dtype,
        "there is one slope per index of the axis",
    )?;
    let ty = cx.arg(0);
    cx.set_out(ty)
}

fn prelu(te: &mut Te<'_>) -> Result<(), ComputeError> {
    let (x, alpha) = (te.arg(0), te.arg(1));
    let axis = te.axis("axis", x.rank())?;
    let y = te.compute("prelu", &x.shape, |i| {
        let v = x.at(i);
        Ex::where_(&v.gt(0i64), &v, &(&v * alpha.at_broadcast(&i[axis..=axis])))
    });
    te.output(&y);
    Ok(())
}

fn dropout_rel(cx: &mut RelCx<'_>) -> RelResult {
    cx.tensor(0)?;
    let ty = cx.arg(0);
    let pair = cx.host.types_mut().tuple([ty, ty]);
    cx.set_out(pair)
}

fn batch_flatten_rel(cx: &mut RelCx<'_>) -> RelResult {
    let (dims, dtype) = cx.ranked(0)?;
    let Some((batch, rest)) = dims.split_first() else {
        return cx.refuse(crate::Subject::Arg(0), "a scalar has no batch axis to keep");
    };
    let flat = rest.iter().fold(Dim::ONE, |n, d| &n * d);
    cx.set_tensor(vec![batch.clone(), flat], dtype)
}

fn batch_flatten(te: &mut Te<'_>) -> Result<(), ComputeError> {
    let x = te.arg(0);
    let size = x.shape[1..].iter().fold(Ex::idx(1), |n, d| n * d);
    let y = te.compute("flatten", &[x.shape[0].clone(), size], |i| {
        let mut at = vec![Ex::idx(0); x.rank()];
        let mut rest = i[1].clone();
        for k in (1..x.rank()).rev() {
            at[k] = if k == 1 {
                rest.clone()
            } else {
                rest.floor_mod(&x.shape[k])
            };
            rest = rest.floor_div(&x.shape[k]);
        }
        at[0] = i[0].clone();
        x.at(&at)
    });
    te.output(&y);
    Ok(())
}
