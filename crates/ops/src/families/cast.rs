//! Conversions between element types.

use crate::AttrTy::*;
use crate::{AttrDef, Default, Fusion, OpDef, attr, input};

const TO: &[AttrDef] = &[attr(
    "dtype",
    DType,
    Default::Required,
    "the element type to convert to",
)];

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "cast",
        "Each element converted to another element type.",
        cast,
    )
    .inputs(&[input("data", "the input")])
    .attrs(TO)
    .fusion(Fusion::Elementwise)
    .compute(cast_compute),
    OpDef::new(
        "cast_like",
        "Each element converted to another tensor's element type.",
        cast_like,
    )
    .inputs(&[
        input("data", "the input"),
        input("dtype_like", "the tensor whose element type to take"),
    ])
    .fusion(Fusion::Elementwise)
    .compute(cast_compute),
    OpDef::new(
        "reinterpret",
        "The same bits read as another element type of the same width.",
        reinterpret,
    )
    .inputs(&[input("data", "the input")])
    .attrs(TO)
    .fusion(Fusion::Elementwise)
    .compute(reinterpret_compute),
];

fn cast(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn cast_like(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn reinterpret(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn cast_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn reinterpret_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}
