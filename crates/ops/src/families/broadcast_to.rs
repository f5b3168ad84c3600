//! Broadcasting to a shape, and its opposite: sums over what was broadcast.

use crate::AttrTy::*;
use crate::{AttrDef, Default, Fusion, OpDef, attr, input};

const INIT: &[AttrDef] = &[
    attr("shape", Dims, Default::Required, "the extents"),
    attr("dtype", DType, Default::DType(""), "not used"),
];

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "broadcast_to",
        "The input broadcast to a shape.",
        broadcast_to,
    )
    .inputs(&[input("data", "the input")])
    .attrs(INIT)
    .fusion(Fusion::Broadcast)
    .compute(broadcast_to_compute),
    OpDef::new(
        "broadcast_to_like",
        "The input broadcast to the shape of another tensor.",
        broadcast_to_like,
    )
    .inputs(&[
        input("data", "the input"),
        input("broadcast_type", "the tensor whose shape to take"),
    ])
    .fusion(Fusion::Broadcast)
    .compute(broadcast_to_like_compute),
    OpDef::new(
        "dyn.broadcast_to",
        "The input broadcast to the extents that a tensor holds.",
        dyn_broadcast_to,
    )
    .inputs(&[
        input("data", "the input"),
        input("shape", "the extents, a vector"),
    ])
    .attrs(INIT)
    .fusion(Fusion::Broadcast)
    .data_dependent()
    .compute(dyn_broadcast_to_compute),
    OpDef::new(
        "collapse_sum_like",
        "The sum over all axes along which another tensor's shape is broadcast to the input's.",
        collapse_sum_like,
    )
    .inputs(&[
        input("data", "the input"),
        input("collapse_type", "the tensor whose shape to take"),
    ])
    .fusion(Fusion::Reduction)
    .compute(collapse_sum_like_compute),
    OpDef::new(
        "collapse_sum_to",
        "The sum over all axes along which the given shape is broadcast to the input's.",
        collapse_sum_to,
    )
    .inputs(&[
        input("data", "the input"),
        input("shape", "the extents, a vector"),
    ])
    .attrs(INIT)
    .meta_attrs("relay.attrs.InitOpAttrs")
    .fusion(Fusion::Reduction)
    .compute(collapse_sum_to_compute),
];

fn broadcast_to(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn broadcast_to_like(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn collapse_sum_like(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn collapse_sum_to(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn dyn_broadcast_to(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn broadcast_to_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn broadcast_to_like_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn collapse_sum_like_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn collapse_sum_to_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn dyn_broadcast_to_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}
