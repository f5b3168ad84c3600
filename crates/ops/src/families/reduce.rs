//! Reductions over axes: sums, extremes, means.

use crate::AttrTy::*;
use crate::{AttrDef, Default, Fusion, OpDef, attr, input};

const REDUCE: &[AttrDef] = &[
    attr("axis", Ints, Default::None, "the axes; none given is all"),
    attr(
        "keepdims",
        Bool,
        Default::Bool(false),
        "whether reduced axes stay, with extent 1",
    ),
    attr(
        "exclude",
        Bool,
        Default::Bool(false),
        "whether the axes are those to keep",
    ),
];
const VARIANCE: &[AttrDef] = &[
    REDUCE[0],
    REDUCE[1],
    REDUCE[2],
    attr(
        "unbiased",
        Bool,
        Default::Bool(false),
        "whether to divide by one less than the count",
    ),
];
const ARG_REDUCE: &[AttrDef] = &[
    attr("axis", Ints, Default::None, "the axes; none given is all"),
    attr(
        "keepdims",
        Bool,
        Default::Bool(false),
        "whether reduced axes stay, with extent 1",
    ),
    attr(
        "select_last_index",
        Bool,
        Default::Bool(false),
        "whether the last of equal elements counts",
    ),
    attr(
        "exclude",
        Bool,
        Default::Bool(false),
        "whether the axes are those to keep",
    ),
];

macro_rules! reductions {
    ($($name:literal $compute:ident $doc:literal;)*) => {
        /// The family.
        pub static OPS: &[OpDef] = &[
            $(OpDef::new($name, $doc, reduce)
                .inputs(&[input("data", "the input")])
                .attrs(REDUCE)
                .fusion(Fusion::Reduction)
                .compute($compute),)*
            OpDef::new("variance", "The mean of the squared distances from the given mean.", variance)
                .inputs(&[input("data", "the input"), input("mean", "the mean over the same axes, kept with extent 1")])
                .attrs(VARIANCE)
                .fusion(Fusion::Reduction)
                .compute(variance_compute),
            OpDef::new("argmax", "The index of the greatest element.", arg_reduce)
                .inputs(&[input("data", "the input")])
                .attrs(ARG_REDUCE)
                .fusion(Fusion::Reduction)
                .compute(argmax_compute),
            OpDef::new("argmin", "The index of the least element.", arg_reduce)
                .inputs(&[input("data", "the input")])
                .attrs(ARG_REDUCE)
                .fusion(Fusion::Reduction)
                .compute(argmin_compute),
        ];
    };
}

reductions! {
    "sum" sum_compute "The sum of the elements.";
    "prod" prod_compute "The product of the elements.";
    "max" max_compute "The greatest element.";
    "min" min_compute "The least element.";
    "all" all_compute "Whether all elements hold.";
    "any" any_compute "Whether any element holds.";
    "mean" mean_compute "The mean of the elements; of integers, truncated.";
}

fn arg_reduce(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn reduce(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn variance(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn all_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn any_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn argmax_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn argmin_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn max_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn mean_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn min_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn prod_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn sum_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn variance_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}
