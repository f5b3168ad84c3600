//! Elements put where a tensor of indices says.

use crate::AttrTy::*;
use crate::{Default, OpDef, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new("scatter_elements", "The input with elements along an axis replaced, or combined with updates.", scatter_elements)
        .inputs(&[input("data", "the input"), input("indices", "where along the axis, for each update"), input("updates", "the updates")])
        .attrs(&[
            attr("axis", Int, Default::Int(0), "the axis"),
            attr("reduction", Str, Default::Str("update"), "`update`, `add`, `mul`, `mean`, `min` or `max`"),
        ])
        .meta_attrs("relay.attrs.ScatterElementsAttrs")
        .compute(scatter_elements_compute),
    OpDef::new("scatter", "`scatter_elements` that replaces (releases before 0.12).", scatter_elements)
        .inputs(&[input("data", "the input"), input("indices", "where along the axis, for each update"), input("updates", "the updates")])
        .attrs(&[attr("axis", Int, Default::Int(0), "the axis")])
        .compute(scatter_elements_compute),
    OpDef::new("scatter_add", "`scatter_elements` that adds (releases before 0.12).", scatter_elements)
        .inputs(&[input("data", "the input"), input("indices", "where along the axis, for each update"), input("updates", "the updates")])
        .attrs(&[attr("axis", Int, Default::Int(0), "the axis")])
        .compute(scatter_add_compute),
    OpDef::new("scatter_nd", "The input with elements (or slices) at tuples of indices replaced, or combined with updates.", scatter_nd)
        .inputs(&[input("data", "the input"), input("indices", "the tuples of indices, along the first axis"), input("updates", "the updates")])
        .attrs(&[attr("mode", Str, Default::Str("update"), "`update`, `add`, `mul`, `min` or `max`")])
        .meta_attrs("relay.attrs.ScatterNDAttrs")
        .compute(scatter_nd_compute),
];

fn scatter_elements(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn scatter_nd(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn scatter_add_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn scatter_elements_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn scatter_nd_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}
