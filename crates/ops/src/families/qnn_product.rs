//! Products of quantised tensors: convolutions, dense layers, batched matrix products.
//!
//! Each subtracts the zero points first and multiplies integers; data is padded with its zero
//! point, which is 0 by then.

use relax_loops::{Combiner, Ex, TensorRef};
use relax_sym::Dim;
use relax_tensor::DType;

use super::nn_conv::{CONV1D_ATTRS, CONV2D_ATTRS, Layouts, conv_result, conv_stage};
use super::nn_conv_transpose::{CONV2D_TRANSPOSE_ATTRS, transpose_result, transpose_stage};
use super::nn_dense::{
    OUT_DTYPE, TRANSPOSE_A, TRANSPOSE_B, UNITS, batch_matmul_rel, batch_matmul_stage, dense_rel,
    product_stage,
};
use super::qnn_util::{data_one_of, one_of, per_axis, scalar, scalar_or_vector};
use super::util::{dtype_given, shaped};
use super::util_te::Done;
use crate::{
    AttrTy, Default, Former, Fusion, Input, OpDef, RelCx, RelResult, Subject, Te, attr, former,
    input,
};

const INPUTS: &[Input] = &[
    input("data", "the quantised data"),
    input("weight", "the quantised weight"),
    input("input_zero_point", "the data's zero point"),
    input(
        "weight_zero_point",
        "the weight's zero point, or one per output channel",
    ),
    input("input_scale", "the data's scale"),
    input(
        "weight_scale",
        "the weight's scale, or one per output channel",
    ),
];

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "qnn.conv1d",
        "1-D convolution of quantised tensors; the result's scale is the product of both scales.",
        |cx| conv_rel(cx, 1),
    )
    .layout(super::layout_rules::convolution)
    .inputs(INPUTS)
    .attrs(CONV1D_ATTRS)
    .fusion(Fusion::OutElementwise)
    .compute(|te| conv(te, 1)),
    OpDef::new(
        "qnn.conv2d",
        "2-D convolution of quantised tensors; the result's scale is the product of both scales.",
        |cx| conv_rel(cx, 2),
    )
    .layout(super::layout_rules::convolution)
    .cost(super::costs::conv2d)
    .former(&[Former::form("qnn.conv2d", 6, former::kernel_parameters)])
    .inputs(INPUTS)
    .attrs(CONV2D_ATTRS)
    .fusion(Fusion::OutElementwise)
    .compute(|te| conv(te, 2)),
    OpDef::new(
        "qnn.conv2d_transpose",
        "Transposed 2-D convolution of quantised tensors.",
        conv2d_transpose,
    )
    .for_kernels(super::nn_conv_spread::of_call)
    .layout(super::layout_rules::transposed_convolution)
    .inputs(INPUTS)
    .attrs(CONV2D_TRANSPOSE_ATTRS)
    .compute(|te| {
        let l = Layouts::of_te(te, 2, "IO")?;
        let (x, w) = conv_operands(te, &l)?;
        let y = transpose_stage(te, 2, &l, &x, &w)?;
        te.output(&y);
        Ok(())
    }),
    OpDef::new("qnn.dense", "`y = x · wᵀ` of quantised tensors.", dense)
        .former(&[Former::form("qnn.dense", 6, former::kernel_parameters)])
        .inputs(INPUTS)
        .attrs(&[UNITS, OUT_DTYPE])
        .fusion(Fusion::OutElementwise)
        .compute(|te| {
            let (x, w) = operands(te, Some(0))?;
            let y = product_stage(te, &x, &w, false, true);
            te.output(&y);
            Ok(())
        }),
    OpDef::new(
        "qnn.contrib_dense_pack",
        "`qnn.dense` with a weight packed in tiles.",
        dense_pack,
    )
    .inputs(INPUTS)
    .attrs(&[
        UNITS,
        OUT_DTYPE,
        attr(
            "weight_layout",
            AttrTy::Str,
            Default::Str("NC"),
            "how the weight is packed",
        ),
    ])
    .fusion(Fusion::OutElementwise)
    .compute(dense_pack_compute),
    OpDef::new(
        "qnn.batch_matmul",
        "A matrix product of quantised tensors for each batch.",
        batch_matmul,
    )
    .inputs(&[
        input("x", "the left operand, (batch, m, k)"),
        input("y", "the right operand, (batch, k, n)"),
        input("x_zero_point", "the left operand's zero point"),
        input("y_zero_point", "the right operand's zero point"),
        input("x_scale", "the left operand's scale"),
        input("y_scale", "the right operand's scale"),
    ])
    .attrs(&[OUT_DTYPE, TRANSPOSE_A, TRANSPOSE_B])
    .fusion(Fusion::OutElementwise)
    .compute(|te| {
        let (x, y) = operands(te, None)?;
        let z = batch_matmul_stage(te, &x, &y);
        te.output(&z);
        Ok(())
    }),
];

/// Requires `out_dtype` to be one of a few types.
fn out_one_of(cx: &RelCx<'_>, allowed: &[DType]) -> RelResult {
    let found = dtype_given(cx, "out_dtype")?;
    one_of(
        cx,
        Subject::Attr("out_dtype"),
        found,
        allowed,
        "`out_dtype`",
    )
}

/// Requires the weight's scale to be a scalar or to have one number for each output channel.
fn weight_scale(cx: &mut RelCx<'_>, transposed: bool) -> RelResult {
    let (data, _) = shaped(cx, 0)?;
    let (dims, _) = shaped(cx, 1)?;
    let place = |cx: &RelCx<'_>, attr: &str, letter| cx.attr(attr).as_str()?.find(letter);
    let at = |letter| place(cx, "kernel_layout", letter);
    let Some(dims) = dims else {
        return Ok(());
    };
    let groups = cx.int("groups")?;
    let (o, i) = (
        at('O').and_then(|a| dims.get(a)),
        at('I').and_then(|a| dims.get(a)),
    );
    // Of a depthwise weight, the inputs are the outputs of each channel, as in the relation.
    let channels = place(cx, "data_layout", 'C').and_then(|a| data.as_ref()?.get(a));
    let group = Dim::from(groups);
    let depthwise = channels.is_none_or(|c| *c == group) && o == Some(&group);
    let extent = match (o, i) {
        (Some(o), _) if groups == 1 || !(depthwise || transposed) => o.clone(),
        (Some(o), Some(i)) => o * i,
        _ => {
            let layout = cx.attr("kernel_layout").as_str().unwrap_or("").to_owned();
            return cx.refuse(
                Subject::Attr("kernel_layout"),
                format!("`kernel_layout=\"{layout}\"` does not fit the weight"),
            );
        }
    };
    scalar_or_vector(cx, 5, DType::F32, &extent, "weight's scale")
}

/// The relation of a convolution over `n` axes.
fn conv_rel(cx: &mut RelCx<'_>, n: usize) -> RelResult {
    let quantised = [DType::I8, DType::U8, DType::I16];
    data_one_of(cx, 0, &quantised)?;
    data_one_of(cx, 1, &quantised)?;
    out_one_of(cx, &[DType::I16, DType::I32, DType::I64])?;
    scalar(cx, 2, DType::I32, "data's zero point")?;
    cx.tensor(3)?;
    scalar(cx, 4, DType::F32, "data's scale")?;
    weight_scale(cx, false)?;
    let (out, dtype) = conv_result(cx, n, None)?;
    cx.set_tensor(out, dtype)
}

fn conv2d_transpose(cx: &mut RelCx<'_>) -> RelResult {
    data_one_of(cx, 0, &[DType::I8, DType::U8, DType::I16, DType::U16])?;
    data_one_of(cx, 1, &[DType::I8, DType::U8])?;
    out_one_of(cx, &[DType::I16, DType::I32])?;
    scalar_or_vector(cx, 2, DType::I32, &Dim::ONE, "data's zero point")?;
    let weight_zero = cx.tensor(3)?;
    let found = cx.known(weight_zero.dtype)?;
    one_of(
        cx,
        Subject::Arg(3),
        found,
        &[DType::I32],
        "the weight's zero point",
    )?;
    scalar_or_vector(cx, 4, DType::F32, &Dim::ONE, "data's scale")?;
    weight_scale(cx, true)?;
    let (out, dtype) = transpose_result(cx, 2)?;
    cx.set_tensor(out, dtype)
}

fn dense(cx: &mut RelCx<'_>) -> RelResult {
    data_one_of(cx, 0, &[DType::I8, DType::U8, DType::I16, DType::U16])?;
    data_one_of(cx, 1, &[DType::I8, DType::U8])?;
    out_one_of(cx, &[DType::I32, DType::I64])?;
    scalar(cx, 2, DType::I32, "data's zero point")?;
    cx.tensor(3)?;
    scalar(cx, 4, DType::F32, "data's scale")?;
    let units = match cx.attr("units").as_int() {
        Some(n) => Dim::from(n),
        None => match shaped(cx, 1)?.0.as_deref() {
            Some([n, _]) => n.clone(),
            _ => Dim::ANY,
        },
    };
    scalar_or_vector(cx, 5, DType::F32, &units, "weight's scale")?;
    dense_rel(cx)
}

fn batch_matmul(cx: &mut RelCx<'_>) -> RelResult {
    data_one_of(cx, 0, &[DType::I8, DType::U8])?;
    data_one_of(cx, 1, &[DType::I8, DType::U8])?;
    out_one_of(cx, &[DType::I32])?;
    scalar(cx, 2, DType::I32, "left operand's zero point")?;
    scalar(cx, 3, DType::I32, "right operand's zero point")?;
    scalar(cx, 4, DType::F32, "left operand's scale")?;
    scalar(cx, 5, DType::F32, "right operand's scale")?;
    batch_matmul_rel(cx)
}

fn dense_pack(cx: &mut RelCx<'_>) -> RelResult {
    let (data, _) = cx.ranked(0)?;
    let (weight, _) = cx.ranked(1)?;
    if data.len() != 2 || weight.len() != 4 {
        let text = format!("`{}` takes a matrix and a packed weight of rank 4", cx.name);
        return cx.refuse(Subject::Call, text);
    }
    data_one_of(cx, 0, &[DType::I8, DType::U8, DType::I16, DType::U16])?;
    data_one_of(cx, 1, &[DType::I8, DType::U8])?;
    let out = dtype_given(cx, "out_dtype")?;
    cx.set_tensor(vec![data[0].clone(), &weight[0] * &weight[2]], out)
}

/// Returns the type that products are computed in: that of the result, 32 bits at least.
fn wide(te: &Te<'_>) -> DType {
    if te.out(0).dtype == DType::I64 {
        DType::I64
    } else {
        DType::I32
    }
}

/// Subtracts a tensor's zero points, which run along an axis where there are several.
fn without_zero(
    te: &mut Te<'_>,
    x: &TensorRef,
    zero: &TensorRef,
    axis: Option<usize>,
) -> TensorRef {
    let dtype = wide(te);
    te.compute("shifted", &x.shape, |i| {
        x.at(i).cast(dtype) - per_axis(zero, i, axis).cast(dtype)
    })
}

/// Returns both operands without their zero points; the second one's run along an axis.
fn operands(
    te: &mut Te<'_>,
    axis: Option<usize>,
) -> Result<(TensorRef, TensorRef), crate::ComputeError> {
    let (x, w) = (te.arg(0), te.arg(1));
    let (x_zero, w_zero) = (te.arg(2), te.arg(3));
    let x = without_zero(te, &x, &x_zero, None);
    Ok((x, without_zero(te, &w, &w_zero, axis)))
}

/// Like `operands`, for convolutions: the weight's zero points run along its output channels.
fn conv_operands(
    te: &mut Te<'_>,
    l: &Layouts,
) -> Result<(TensorRef, TensorRef), crate::ComputeError> {
    operands(te, l.kernel.position('O'))
}

/// The computation of a convolution over `n` axes.
fn conv(te: &mut Te<'_>, n: usize) -> Done {
    let l = Layouts::of_te(te, n, "OI")?;
    let (x, w) = conv_operands(te, &l)?;
    let y = conv_stage(te, n, &l, &x, &w)?;
    te.output(&y);
    Ok(())
}

fn dense_pack_compute(te: &mut Te<'_>) -> Done {
    // The weight is (units / t, k / s, t, s), tiles of t output columns and s inputs: `NC16n4c`.
    let (x, w) = operands(te, None)?;
    let dtype = te.out(0).dtype;
    let shape = [x.shape[0].clone(), &w.shape[0] * &w.shape[2]];
    let over = [w.shape[1].clone(), w.shape[3].clone()];
    let y = te.reduce("dense_pack", &shape, &over, Combiner::Sum, |i, r| {
        let tile = &w.shape[2];
        let at = [
            i[1].floor_div(tile),
            r[0].clone(),
            i[1].floor_mod(tile),
            r[1].clone(),
        ];
        let column: Ex = &r[0] * &w.shape[3] + &r[1];
        x.at(&[i[0].clone(), column]).cast(dtype) * w.at(&at).cast(dtype)
    });
    te.output(&y);
    Ok(())
}
