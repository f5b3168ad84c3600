//! Sorting along an axis. All sorts are stable.

use crate::AttrTy::*;
use crate::{AttrDef, Default, OpDef, attr, input};

const SORT: &[AttrDef] = &[
    attr("axis", Int, Default::Int(-1), "the axis"),
    attr(
        "is_ascend",
        Bool,
        Default::Bool(true),
        "whether small elements come first",
    ),
    attr(
        "dtype",
        DType,
        Default::DType(""),
        "the element type of indices",
    ),
];
const TOPK: &[AttrDef] = &[
    attr("k", Int, Default::Required, "how many; less than 1 for all"),
    attr("axis", Int, Default::Int(-1), "the axis"),
    attr(
        "ret_type",
        Str,
        Default::Str("both"),
        "`both`, `values` or `indices`",
    ),
    attr(
        "is_ascend",
        Bool,
        Default::Bool(false),
        "whether the least are taken",
    ),
    attr(
        "dtype",
        DType,
        Default::DType(""),
        "the element type of indices",
    ),
];

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new("sort", "The elements along an axis in order.", sort)
        .inputs(&[input("data", "the input")])
        .attrs(SORT)
        .compute(sort_compute),
    OpDef::new(
        "argsort",
        "The indices that put the elements along an axis in order.",
        argsort,
    )
    .inputs(&[input("data", "the input")])
    .attrs(SORT)
    .compute(argsort_compute),
    OpDef::new(
        "topk",
        "The greatest (or least) elements along an axis, in order, and their indices.",
        topk,
    )
    .inputs(&[input("data", "the input")])
    .attrs(TOPK)
    .compute(topk_compute),
    OpDef::new("dyn.topk", "`topk` for as many as a tensor says.", dyn_topk)
        .inputs(&[input("data", "the input"), input("k", "how many, a scalar")])
        .attrs(TOPK)
        .data_dependent()
        .compute(dyn_topk_compute),
];

fn argsort(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn dyn_topk(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn sort(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn topk(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn argsort_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn dyn_topk_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn sort_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn topk_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}
