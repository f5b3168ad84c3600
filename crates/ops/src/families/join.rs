//! Several tensors into one, and one into several.

use crate::AttrTy::*;
use crate::{Default, Fusion, OpDef, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "concatenate",
        "Tensors one after the other along an axis.",
        concatenate,
    )
    .inputs(&[input("data", "the tensors, a tuple")])
    .attrs(&[attr("axis", Int, Default::Int(0), "the axis")])
    .fusion(Fusion::Injective)
    .compute(concatenate_compute),
    OpDef::new(
        "stack",
        "Tensors of one shape side by side along a new axis.",
        stack,
    )
    .inputs(&[input("data", "the tensors, a tuple")])
    .attrs(&[attr(
        "axis",
        Int,
        Default::Int(0),
        "where the new axis is put in",
    )])
    .fusion(Fusion::Injective)
    .compute(stack_compute),
    OpDef::new(
        "split",
        "A tensor cut into parts along an axis; a tuple.",
        split,
    )
    .inputs(&[input("data", "the input")])
    .attrs(&[
        attr(
            "indices_or_sections",
            IntOrInts,
            Default::Required,
            "how many equal parts, or where to cut",
        ),
        attr("axis", Int, Default::Int(0), "the axis"),
    ])
    .fusion(Fusion::Injective)
    .compute(split_compute),
];

fn concatenate(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn split(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn stack(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn concatenate_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn split_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn stack_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}
