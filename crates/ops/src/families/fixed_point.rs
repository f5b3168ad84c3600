//! Integers multiplied by numbers of the form `multiplier * 2^shift`.

use super::elementwise::identity;
use crate::AttrTy::*;
use crate::{Default, Fusion, OpDef, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "fixed_point_multiply",
        "Each element times `multiplier / 2^31 * 2^shift`, rounded.",
        identity,
    )
    .inputs(&[input("data", "the input, int32")])
    .attrs(&[
        attr(
            "multiplier",
            Int,
            Default::Required,
            "the factor, with 31 fractional bits",
        ),
        attr("shift", Int, Default::Required, "the power of two"),
    ])
    .fusion(Fusion::Elementwise)
    .compute(fixed_point_multiply_compute),
    OpDef::new(
        "fixed_point_multiply_per_axis",
        "`fixed_point_multiply` with factors and shifts for each index of some axes.",
        per_axis,
    )
    .inputs(&[
        input("data", "the input, int32"),
        input("fp_multiplier", "the factors"),
        input("left_shift", "the shifts to the left"),
        input("right_shift", "the shifts to the right"),
    ])
    .attrs(&[
        attr(
            "is_lshift_required",
            Bool,
            Default::Bool(false),
            "whether any shift is to the left",
        ),
        attr(
            "is_rshift_required",
            Bool,
            Default::Bool(false),
            "whether any shift is to the right",
        ),
        attr(
            "axes",
            Ints,
            Default::Required,
            "the axes that the factors run along",
        ),
    ])
    .fusion(Fusion::Broadcast)
    .compute(per_axis_compute),
];

fn per_axis(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn fixed_point_multiply_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn per_axis_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}
