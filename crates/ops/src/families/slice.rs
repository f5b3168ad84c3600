//! Parts of tensors taken by ranges of indices.

use crate::AttrTy::*;
use crate::{AttrDef, Default, Fusion, OpDef, attr, input};

const SLICE: &[AttrDef] = &[
    attr(
        "begin",
        Dims,
        Default::Required,
        "the first index of each axis",
    ),
    attr(
        "end",
        Dims,
        Default::Required,
        "the index before which each axis ends",
    ),
    attr(
        "strides",
        Ints,
        Default::Required,
        "the step of each axis; negative steps go back",
    ),
    attr(
        "slice_mode",
        Str,
        Default::Str("end"),
        "`end`, or `size`: `end` holds sizes, -1 for all that is left",
    ),
    attr(
        "axes",
        Ints,
        Default::Required,
        "the axes that the numbers are for; `None` for the first ones",
    ),
];

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "strided_slice",
        "The elements in ranges of indices, by steps.",
        strided_slice,
    )
    .inputs(&[input("data", "the input")])
    .attrs(SLICE)
    .fusion(Fusion::Injective)
    .compute(strided_slice_compute),
    OpDef::new(
        "dyn.strided_slice",
        "`strided_slice` by ranges that tensors hold.",
        dyn_strided_slice,
    )
    .inputs(&[
        input("data", "the input"),
        input("begin", "the first indices"),
        input("end", "the indices to end before"),
        input("strides", "the steps"),
    ])
    .attrs(SLICE)
    .fusion(Fusion::Injective)
    .data_dependent()
    .compute(dyn_strided_slice_compute),
    OpDef::new(
        "slice_like",
        "The leading part of the extents of another tensor.",
        slice_like,
    )
    .inputs(&[
        input("data", "the input"),
        input("shape_like", "the tensor whose extents to take"),
    ])
    .attrs(&[attr(
        "axes",
        Ints,
        Default::Required,
        "the axes to cut; `None` for all that both have",
    )])
    .fusion(Fusion::Injective)
    .compute(slice_like_compute),
    OpDef::new(
        "strided_set",
        "The input with the elements in ranges of indices replaced.",
        strided_set,
    )
    .inputs(&[
        input("data", "the input"),
        input("v", "the new elements"),
        input("begin", "the first indices"),
        input("end", "the indices to end before"),
        input("strides", "the steps"),
    ])
    .fusion(Fusion::Injective)
    .compute(strided_set_compute),
];

fn dyn_strided_slice(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn slice_like(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn strided_set(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn strided_slice(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn dyn_strided_slice_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn slice_like_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn strided_set_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn strided_slice_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}
