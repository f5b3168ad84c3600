//! Numbers about shapes and indices.

use super::elementwise::identity;
use crate::AttrTy::*;
use crate::{AttrDef, Default, Fusion, OpDef, attr, input};

const DTYPE: &[AttrDef] = &[attr("dtype", DType, Default::DType(""), "the element type")];

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new("shape_of", "The extents, a vector.", shape_of)
        .inputs(&[input("data", "the input")])
        .attrs(DTYPE)
        .compute(shape_of_compute),
    OpDef::new("vm.shape_of", "The extents, a vector.", shape_of)
        .inputs(&[input("tensor", "the input")])
        .attrs(DTYPE)
        .compute(shape_of_compute),
    OpDef::new("ndarray_size", "The number of elements.", ndarray_size)
        .inputs(&[input("data", "the input")])
        .attrs(DTYPE)
        .fusion(Fusion::Injective)
        .compute(ndarray_size_compute),
    OpDef::new(
        "unravel_index",
        "Flat indices as tuples of indices into a shape; the first axis runs over the tuple.",
        unravel_index,
    )
    .inputs(&[
        input("data", "the flat indices"),
        input("shape", "the extents, a vector"),
    ])
    .fusion(Fusion::Injective)
    .compute(unravel_index_compute),
    OpDef::new(
        "invert_permutation",
        "The permutation that undoes the given one.",
        identity,
    )
    .inputs(&[input("data", "a permutation, a vector")])
    .fusion(Fusion::Injective)
    .compute(invert_permutation_compute),
    OpDef::new(
        "argwhere",
        "The indices of all elements that are not 0, one row each, in order.",
        argwhere,
    )
    .inputs(&[input("condition", "the input")])
    .data_dependent()
    .compute(argwhere_compute),
    OpDef::new(
        "meshgrid",
        "Coordinate grids, one for each vector; a tuple.",
        meshgrid,
    )
    .inputs(&[input(
        "data",
        "the coordinates of each axis, a tuple of vectors",
    )])
    .attrs(&[attr(
        "indexing",
        Str,
        Default::Str("ij"),
        "`ij`, or `xy`: the first two axes swapped",
    )])
    .fusion(Fusion::Injective)
    .compute(meshgrid_compute),
];

fn argwhere(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn meshgrid(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn ndarray_size(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn shape_of(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn unravel_index(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn argwhere_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn invert_permutation_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn meshgrid_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn ndarray_size_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn shape_of_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn unravel_index_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}
