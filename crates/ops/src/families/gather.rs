//! Elements taken at indices that a tensor holds.

use crate::AttrTy::*;
use crate::{Default, Fusion, OpDef, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new("take", "The elements (or slices along an axis) at the given indices.", take)
        .inputs(&[input("data", "the input"), input("indices", "the indices, integers")])
        .attrs(&[
            attr("batch_dims", Int, Default::Int(0), "how many leading axes the two have in common"),
            attr("axis", Int, Default::None, "the axis; `None` takes from the flattened input"),
            attr("mode", Str, Default::Str("clip"), "indices outside: `clip` to the range, `wrap` around, `fast` trusts that there are none"),
        ])
        .fusion(Fusion::Injective)
        .compute(take_compute),
    OpDef::new("gather", "Elements along an axis, an index for each element of the output.", gather)
        .inputs(&[input("data", "the input"), input("indices", "the indices, of the output's shape")])
        .attrs(&[attr("axis", Int, Default::None, "the axis; must be given")])
        .fusion(Fusion::Injective)
        .compute(gather_compute),
    OpDef::new("gather_nd", "Elements (or slices) at tuples of indices; the first axis of `indices` runs over the tuple.", gather_nd)
        .inputs(&[input("data", "the input"), input("indices", "the tuples of indices, along the first axis")])
        .attrs(&[
            attr("batch_dims", Int, Default::Int(0), "how many leading axes the two have in common"),
            attr("index_rank", Int, Default::None, "the length of the tuples, where it is known only here"),
        ])
        .fusion(Fusion::Injective)
        .compute(gather_nd_compute),
    OpDef::new("adv_index", "numpy's advanced indexing: the first tensor at the indices that the others give.", adv_index)
        .inputs(&[input("inputs", "the tensor and the indices of its leading axes, a tuple")])
        .fusion(Fusion::Injective)
        .compute(adv_index_compute),
];

fn adv_index(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn gather(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn gather_nd(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn take(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn adv_index_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn gather_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn gather_nd_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn take_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}
