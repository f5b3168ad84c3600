//! Axes permuted, added and removed.

use crate::AttrTy::*;
use crate::{Default, Fusion, OpDef, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new("transpose", "The axes in another order.", transpose)
        .inputs(&[input("data", "the input")])
        .attrs(&[attr(
            "axes",
            Ints,
            Default::Required,
            "the input's axes in the output's order; `None` reverses them",
        )])
        .fusion(Fusion::Injective)
        .compute(transpose_compute),
    OpDef::new("expand_dims", "New axes of extent 1.", expand_dims)
        .inputs(&[input("data", "the input")])
        .attrs(&[
            attr(
                "axis",
                Int,
                Default::Required,
                "where they are put in, -rank-1 to rank",
            ),
            attr("num_newaxis", Int, Default::Int(1), "how many"),
        ])
        .fusion(Fusion::Broadcast)
        .compute(expand_dims_compute),
    OpDef::new("squeeze", "Axes of extent 1 removed.", squeeze)
        .inputs(&[input("data", "the input")])
        .attrs(&[attr(
            "axis",
            Ints,
            Default::None,
            "which; `None` for all of extent 1",
        )])
        .fusion(Fusion::Injective)
        .compute(squeeze_compute),
    OpDef::new(
        "dyn.expand_dims",
        "New axes of extent 1 where a tensor says.",
        dyn_expand_dims,
    )
    .inputs(&[
        input("data", "the input"),
        input("axis", "where they are put in, a scalar"),
    ])
    .attrs(&[attr("num_newaxis", Int, Default::Int(1), "how many")])
    .meta_attrs("relay.attrs.DynExpandDimsAttrs")
    .fusion(Fusion::Injective)
    .data_dependent()
    .compute(dyn_expand_dims_compute),
    OpDef::new(
        "dyn.squeeze",
        "The axes of extent 1 removed that a tensor names.",
        dyn_squeeze,
    )
    .inputs(&[input("data", "the input"), input("axes", "which, a vector")])
    .attrs(&[attr("axis", Ints, Default::None, "not used")])
    .fusion(Fusion::Injective)
    .data_dependent()
    .compute(dyn_squeeze_compute),
];

fn dyn_expand_dims(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn dyn_squeeze(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn expand_dims(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn squeeze(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn transpose(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn dyn_expand_dims_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn dyn_squeeze_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn expand_dims_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn squeeze_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn transpose_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}
