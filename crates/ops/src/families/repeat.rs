//! Elements repeated and reversed along axes.

use crate::AttrTy::*;
use crate::{Default, Fusion, OpDef, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "repeat",
        "Each element several times along an axis.",
        repeat,
    )
    .inputs(&[input("data", "the input")])
    .attrs(&[
        attr(
            "repeats",
            Int,
            Default::Required,
            "how often, at least once",
        ),
        attr("axis", Int, Default::None, "the axis"),
    ])
    .fusion(Fusion::Broadcast)
    .compute(repeat_compute),
    OpDef::new(
        "tile",
        "The whole tensor several times along each axis.",
        tile,
    )
    .inputs(&[input("data", "the input")])
    .attrs(&[attr(
        "reps",
        Ints,
        Default::Required,
        "how often, for each of the last axes",
    )])
    .fusion(Fusion::Broadcast)
    .compute(tile_compute),
    OpDef::new("dyn.tile", "`tile` as often as a tensor says.", dyn_tile)
        .inputs(&[
            input("data", "the input"),
            input("reps", "how often, a vector"),
        ])
        .attrs(&[attr("reps", Ints, Default::Required, "not used")])
        .fusion(Fusion::Injective)
        .data_dependent()
        .compute(dyn_tile_compute),
    OpDef::new(
        "reverse",
        "The elements along an axis in opposite order.",
        reverse,
    )
    .inputs(&[input("data", "the input")])
    .attrs(&[attr("axis", Int, Default::None, "the axis; must be given")])
    .fusion(Fusion::Injective)
    .compute(reverse_compute),
    OpDef::new(
        "reverse_sequence",
        "The first elements of each sequence in opposite order, as many as its length.",
        reverse_sequence,
    )
    .inputs(&[
        input("data", "the input"),
        input("seq_lengths", "the lengths, a vector of integers"),
    ])
    .attrs(&[
        attr(
            "seq_axis",
            Int,
            Default::Int(1),
            "the axis along which to reverse",
        ),
        attr(
            "batch_axis",
            Int,
            Default::Int(0),
            "the axis over the sequences",
        ),
    ])
    .fusion(Fusion::Injective)
    .compute(reverse_sequence_compute),
];

fn dyn_tile(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn repeat(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn reverse(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn reverse_sequence(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn tile(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn dyn_tile_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn repeat_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn reverse_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn reverse_sequence_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn tile_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}
