//! Data layouts changed: `NCHW` to `NCHW8c` and the like.

use crate::AttrTy::*;
use crate::{Default, Fusion, OpDef, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "layout_transform",
        "The same tensor in another data layout.",
        layout_transform,
    )
    .inputs(&[input("data", "the input")])
    .attrs(&[
        attr(
            "src_layout",
            Str,
            Default::Required,
            "the input's layout, `NCHW`",
        ),
        attr(
            "dst_layout",
            Str,
            Default::Required,
            "the output's layout, `NCHW16c`",
        ),
    ])
    .fusion(Fusion::Injective)
    .compute(layout_transform_compute),
    OpDef::new(
        "auto_scheduler_layout_transform",
        "The same tensor in another layout whose extents are written out.",
        auto_scheduler,
    )
    .inputs(&[input("data", "the input")])
    .attrs(&[
        attr(
            "src_layout",
            Str,
            Default::Required,
            "the input's layout, `1N32C112H112W`",
        ),
        attr(
            "dst_layout",
            Str,
            Default::Required,
            "the output's layout, `1N2C112H112W16c`",
        ),
    ])
    .fusion(Fusion::Injective)
    .compute(auto_scheduler_compute),
    OpDef::new(
        "meta_schedule_layout_transform",
        "The same tensor under an index map.",
        meta_schedule,
    )
    .inputs(&[input("data", "the input")])
    .attrs(&[attr("index_map", Any, Default::Required, "the index map")])
    .fusion(Fusion::Injective),
];

fn auto_scheduler(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn layout_transform(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn meta_schedule(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn auto_scheduler_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn layout_transform_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}
