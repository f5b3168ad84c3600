//! Tensors made from nothing or from one value: `full`, `zeros`, `ones`, their `_like` and `dyn.`
//! forms, and `arange`.

use super::elementwise::identity;
use crate::AttrTy::*;
use crate::{AttrDef, Default, Fusion, OpDef, attr, input};

const INIT: &[AttrDef] = &[
    attr("shape", Dims, Default::Required, "the extents"),
    attr(
        "dtype",
        DType,
        Default::DType(""),
        "the element type; the value's where not given",
    ),
];

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "full",
        "A tensor of the given shape filled with one value.",
        full,
    )
    .inputs(&[input("fill_value", "the value, a scalar")])
    .attrs(INIT)
    .fusion(Fusion::Elementwise)
    .compute(full_compute),
    OpDef::new("zeros", "A tensor of zeros.", init)
        .attrs(INIT)
        .fusion(Fusion::Elementwise)
        .compute(zeros_compute),
    OpDef::new("ones", "A tensor of ones.", init)
        .attrs(INIT)
        .fusion(Fusion::Elementwise)
        .compute(ones_compute),
    OpDef::new(
        "full_like",
        "A tensor of another's shape and element type filled with one value.",
        full_like,
    )
    .inputs(&[
        input("data", "the tensor to be like"),
        input("fill_value", "the value, a scalar"),
    ])
    .fusion(Fusion::Elementwise)
    .compute(full_like_compute),
    OpDef::new(
        "zeros_like",
        "Zeros of another tensor's shape and element type.",
        identity,
    )
    .inputs(&[input("data", "the tensor to be like")])
    .fusion(Fusion::Elementwise)
    .compute(zeros_like_compute),
    OpDef::new(
        "ones_like",
        "Ones of another tensor's shape and element type.",
        identity,
    )
    .inputs(&[input("data", "the tensor to be like")])
    .fusion(Fusion::Elementwise)
    .compute(ones_like_compute),
    OpDef::new(
        "dyn.full",
        "A tensor filled with one value, its extents given by a tensor.",
        dyn_full,
    )
    .inputs(&[
        input("fill_value", "the value, a scalar"),
        input("shape", "the extents, a vector"),
    ])
    .attrs(INIT)
    .fusion(Fusion::Elementwise)
    .data_dependent()
    .compute(dyn_full_compute),
    OpDef::new(
        "dyn.zeros",
        "Zeros, the extents given by a tensor.",
        dyn_init,
    )
    .inputs(&[input("shape", "the extents, a vector")])
    .attrs(INIT)
    .fusion(Fusion::Elementwise)
    .data_dependent()
    .compute(dyn_zeros_compute),
    OpDef::new("dyn.ones", "Ones, the extents given by a tensor.", dyn_init)
        .inputs(&[input("shape", "the extents, a vector")])
        .attrs(INIT)
        .fusion(Fusion::Elementwise)
        .data_dependent()
        .compute(dyn_ones_compute),
    OpDef::new(
        "arange",
        "The numbers from `start` to `end`, exclusive, by `step`.",
        arange,
    )
    .inputs(&[
        input("start", "the first number, a scalar"),
        input("end", "where to stop, exclusive"),
        input("step", "the distance between numbers"),
    ])
    .attrs(&[
        attr(
            "start",
            Any,
            Default::Required,
            "the first number, as a constant where it is one",
        ),
        attr(
            "stop",
            Any,
            Default::Required,
            "where to stop, as a constant where it is one",
        ),
        attr(
            "step",
            Any,
            Default::Required,
            "the distance, as a constant where it is one",
        ),
        attr("dtype", DType, Default::Required, "the element type"),
    ])
    .data_dependent()
    .compute(arange_compute),
];

fn arange(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn dyn_full(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn dyn_init(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn full(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn full_like(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn init(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn arange_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn dyn_full_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn dyn_ones_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn dyn_zeros_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn full_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn full_like_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn ones_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn ones_like_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn zeros_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn zeros_like_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}
