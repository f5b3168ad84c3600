//! Searching in sorted sequences, and finding distinct elements.

use crate::AttrTy::*;
use crate::{Default, OpDef, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new("searchsorted", "Where each value would be put into a sorted sequence.", searchsorted)
        .inputs(&[input("sorted_sequence", "the sequences, along the last axis"), input("values", "the values")])
        .attrs(&[
            attr("right", Bool, Default::Bool(false), "whether a value is put after equal elements"),
            attr("dtype", DType, Default::DType("int32"), "the element type of the output"),
        ])
        .compute(searchsorted_compute),
    OpDef::new("unique", "The distinct elements of a vector, where each occurs first, which one each element is, how many there are, and how often each occurs.", unique)
        .inputs(&[input("data", "the input, a vector")])
        .attrs(&[
            attr("sorted", Bool, Default::Bool(true), "whether they are in order of size rather than of occurrence"),
            attr("return_counts", Bool, Default::Bool(false), "whether to count"),
        ])
        .meta_attrs("relay.attrs.UniqueAttrs")
        .data_dependent()
        .compute(unique_compute),
];

fn searchsorted(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn unique(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn searchsorted_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn unique_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}
