//! Running sums and products.

use crate::AttrTy::*;
use crate::{AttrDef, Default, OpDef, attr, input};

const SCAN: &[AttrDef] = &[
    attr(
        "axis",
        Int,
        Default::None,
        "the axis; `None` for the flattened input",
    ),
    attr(
        "dtype",
        DType,
        Default::DType(""),
        "the element type; the input's where not given",
    ),
    attr(
        "exclusive",
        Bool,
        Default::Bool(false),
        "whether an element itself is left out",
    ),
];

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "cumsum",
        "The sum of all elements up to each one along an axis.",
        scan,
    )
    .inputs(&[input("data", "the input")])
    .attrs(SCAN)
    .meta_attrs("relay.attrs.ScanopAttrs")
    .compute(cumsum_compute),
    OpDef::new(
        "cumprod",
        "The product of all elements up to each one along an axis.",
        scan,
    )
    .inputs(&[input("data", "the input")])
    .attrs(SCAN)
    .meta_attrs("relay.attrs.ScanopAttrs")
    .compute(cumprod_compute),
];

fn scan(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn cumprod_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn cumsum_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}
