//! Elements chosen by a condition: `where`, one-hot vectors, masks.

use crate::AttrTy::*;
use crate::{AttrDef, Default, Fusion, OpDef, attr, input};

const ONE_HOT: &[AttrDef] = &[
    attr("depth", Int, Default::Int(1), "the extent of the new axis"),
    attr(
        "axis",
        Int,
        Default::Int(-1),
        "where the new axis is put in",
    ),
    attr("dtype", DType, Default::DType(""), "the element type"),
];

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "where",
        "Elements of `x` where the condition holds, of `y` elsewhere, with broadcasting.",
        where_,
    )
    .inputs(&[
        input(
            "condition",
            "the condition; numbers hold where they are not 0",
        ),
        input("x", "where it holds"),
        input("y", "where it doesn't"),
    ])
    .fusion(Fusion::Broadcast)
    .compute(where_compute),
    OpDef::new(
        "one_hot",
        "A new axis with one value at the given index and another elsewhere.",
        one_hot,
    )
    .inputs(&[
        input("indices", "the indices"),
        input("on_value", "the value at the index, a scalar"),
        input("off_value", "the value elsewhere, a scalar"),
    ])
    .attrs(ONE_HOT)
    .fusion(Fusion::OutElementwise)
    .compute(one_hot_compute),
    OpDef::new(
        "dyn.one_hot",
        "`one_hot` whose depth a tensor holds.",
        dyn_one_hot,
    )
    .inputs(&[
        input("indices", "the indices"),
        input("on_value", "the value at the index, a scalar"),
        input("off_value", "the value elsewhere, a scalar"),
        input("depth", "the extent of the new axis, a scalar"),
    ])
    .attrs(ONE_HOT)
    .fusion(Fusion::OutElementwise)
    .data_dependent()
    .compute(dyn_one_hot_compute),
    OpDef::new(
        "sequence_mask",
        "The input with all elements beyond each sequence's length replaced.",
        sequence_mask,
    )
    .inputs(&[
        input("data", "the input"),
        input("valid_length", "the lengths, a vector"),
    ])
    .attrs(&[
        attr("mask_value", Float, Default::Float(0.0), "the value beyond"),
        attr(
            "axis",
            Int,
            Default::Int(0),
            "the axis of the length, 0 or 1; the other of the two is the batch",
        ),
    ])
    .fusion(Fusion::Injective)
    .compute(sequence_mask_compute),
    OpDef::new(
        "trilu",
        "The upper (or lower) triangle of matrices, zeros elsewhere.",
        trilu,
    )
    .inputs(&[
        input("data", "the input"),
        input("k", "the diagonal, a scalar"),
    ])
    .attrs(&[attr(
        "upper",
        Bool,
        Default::Bool(true),
        "whether the upper triangle is kept",
    )])
    .meta_attrs("relay.attrs.TriluAttrs")
    .fusion(Fusion::Elementwise)
    .compute(trilu_compute),
    OpDef::new(
        "matrix_set_diag",
        "Matrices with some of their diagonals replaced.",
        matrix_set_diag,
    )
    .inputs(&[
        input("input", "the matrices"),
        input("diagonal", "the diagonals"),
    ])
    .attrs(&[
        attr("k1", Int, Default::Int(0), "the lowest diagonal"),
        attr("k2", Int, Default::Int(0), "the highest diagonal"),
        attr(
            "super_diag_right_align",
            Bool,
            Default::Bool(true),
            "whether diagonals above the main one end at the right",
        ),
        attr(
            "sub_diag_right_align",
            Bool,
            Default::Bool(false),
            "whether diagonals below the main one end at the right",
        ),
    ])
    .fusion(Fusion::Injective)
    .compute(matrix_set_diag_compute),
];

fn dyn_one_hot(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn matrix_set_diag(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn one_hot(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn sequence_mask(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn trilu(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn where_(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn dyn_one_hot_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn matrix_set_diag_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn one_hot_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn sequence_mask_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn trilu_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn where_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}
