//! Tensors given by the indices and values of their elements.

use crate::AttrTy::*;
use crate::{Default, Fusion, OpDef, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new("sparse_to_dense", "A dense tensor from indices and values.", sparse_to_dense)
        .inputs(&[input("sparse_indices", "the indices: a scalar, a vector, or a row for each"), input("sparse_values", "the values: a scalar for all, or one each"), input("default_value", "the value elsewhere, a scalar")])
        .attrs(&[attr("output_shape", Dims, Default::Required, "the extents of the output")])
        .compute(sparse_to_dense_compute),
    OpDef::new("dyn.sparse_to_dense", "`sparse_to_dense` to the extents that a tensor holds.", dyn_sparse_to_dense)
        .inputs(&[input("sparse_indices", "the indices"), input("sparse_values", "the values"), input("default_value", "the value elsewhere, a scalar"), input("output_shape", "the extents of the output, a vector")])
        .data_dependent()
        .compute(dyn_sparse_to_dense_compute),
    OpDef::new("sparse_fill_empty_rows", "A sparse matrix with one element put into each empty row: indices, values, and which rows were empty.", sparse_fill_empty_rows)
        .inputs(&[input("sparse_indices", "the indices, a row for each"), input("sparse_values", "the values"), input("dense_shape", "the extents"), input("default_value", "the value to put in, a scalar")])
        .data_dependent()
        .compute(sparse_fill_empty_rows_compute),
    OpDef::new("sparse_reshape", "The indices of a sparse tensor under another shape, and that shape.", sparse_reshape)
        .inputs(&[input("sparse_indices", "the indices, a row for each"), input("prev_shape", "the extents"), input("new_shape", "the new extents, one of which may be -1")])
        .fusion(Fusion::Injective)
        .compute(sparse_reshape_compute),
];

fn dyn_sparse_to_dense(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn sparse_fill_empty_rows(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn sparse_reshape(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn sparse_to_dense(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn dyn_sparse_to_dense_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn sparse_fill_empty_rows_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn sparse_reshape_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn sparse_to_dense_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}
