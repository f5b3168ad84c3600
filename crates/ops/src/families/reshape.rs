//! The same elements, in row-major order, under another shape.

use crate::AttrTy::*;
use crate::{AttrDef, Default, Fusion, OpDef, attr, input};

const NEWSHAPE: &[AttrDef] = &[
    attr(
        "newshape",
        Dims,
        Default::Required,
        "the new extents; 0 copies an extent, -1 is what is left, -2 copies all that remain, -3 merges two, -4 splits one by the two numbers that follow",
    ),
    attr(
        "allowzero",
        Bool,
        Default::Bool(false),
        "whether 0 is the extent 0",
    ),
];

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "reshape",
        "The same elements in the same order under another shape.",
        reshape,
    )
    .inputs(&[input("data", "the input")])
    .attrs(NEWSHAPE)
    .fusion(Fusion::Injective)
    .compute(reshape_compute),
    OpDef::new(
        "contrib_reverse_reshape",
        "`reshape` whose special numbers are read from right to left.",
        reverse_reshape,
    )
    .inputs(&[input("data", "the input")])
    .attrs(NEWSHAPE)
    .fusion(Fusion::Injective)
    .compute(reverse_reshape_compute),
    OpDef::new(
        "dyn.reshape",
        "`reshape` to the extents that a tensor holds.",
        dyn_reshape,
    )
    .inputs(&[
        input("data", "the input"),
        input("newshape", "the new extents, a vector"),
    ])
    .attrs(NEWSHAPE)
    .fusion(Fusion::Injective)
    .data_dependent()
    .compute(dyn_reshape_compute),
    OpDef::new(
        "reshape_like",
        "The elements under the shape of another tensor, or of some of its axes.",
        reshape_like,
    )
    .inputs(&[
        input("data", "the input"),
        input("shape_like", "the tensor whose extents to take"),
    ])
    .attrs(&[
        attr(
            "lhs_begin",
            Int,
            Default::Int(0),
            "the first axis of the input to replace",
        ),
        attr(
            "lhs_end",
            Int,
            Default::None,
            "the axis before which replacing ends",
        ),
        attr(
            "rhs_begin",
            Int,
            Default::Int(0),
            "the first axis of the other tensor to take",
        ),
        attr(
            "rhs_end",
            Int,
            Default::None,
            "the axis before which taking ends",
        ),
    ])
    .fusion(Fusion::Injective)
    .compute(reshape_like_compute),
];

fn dyn_reshape(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn reshape(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn reshape_like(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn reverse_reshape(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn dyn_reshape_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn reshape_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn reshape_like_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn reverse_reshape_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}
