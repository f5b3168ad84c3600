//! Quantisation, dequantisation and requantisation.

use relax_loops::{Ex, UnOp};
use relax_tensor::DType;

use super::qnn_util::{
    Rescale, Rounding, axis_extent, data_one_of, one_of, per_axis, quantised_out, saturate, scalar,
    scalar_or_vector, scale_axis, shifted,
};
use super::util::{dtype_given, finish_like, word};
use super::util_te::Done;
use crate::AttrTy::{Int, Str};
use crate::{
    AffineRole, AttrDef, AttrTy, Default, Fusion, OpDef, RelCx, RelResult, Stop, Subject, Te, attr,
    input,
};

const AXIS: AttrDef = attr(
    "axis",
    Int,
    Default::Int(-1),
    "the axis that scales and zero points run along",
);
const ROUNDING: AttrDef = attr(
    "rounding",
    Str,
    Default::Str("None"),
    "how halves are rounded: \"TONEAREST\" (away from zero, which \"None\" means too) or \"TOEVEN\"",
);

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "qnn.quantize",
        "`round(data / scale) + zero point`, brought into the range of the result's type.",
        quantize,
    )
    .layout(super::layout_rules::along_axis)
    .affine(AffineRole::Enter)
    .inputs(&[
        input("data", "the input, float32"),
        input("output_scale", "the scale, or one per index of the axis"),
        input("output_zero_point", "the zero point, or one per index"),
    ])
    .attrs(&[
        attr(
            "out_dtype",
            AttrTy::DType,
            Default::Required,
            "element type of the result",
        ),
        AXIS,
        ROUNDING,
    ])
    .fusion(Fusion::Elementwise)
    .compute(quantize_compute),
    OpDef::new(
        "qnn.dequantize",
        "`scale * (data - zero point)`, as float32.",
        dequantize,
    )
    .layout(super::layout_rules::along_axis)
    .affine(AffineRole::Leave)
    .inputs(&[
        input("data", "the quantised input"),
        input("input_scale", "the scale, or one per index of the axis"),
        input("input_zero_point", "the zero point, or one per index"),
    ])
    .attrs(&[
        attr(
            "out_dtype",
            AttrTy::DType,
            Default::DType("float32"),
            "element type of the result",
        ),
        AXIS,
    ])
    .fusion(Fusion::Elementwise)
    .compute(dequantize_compute),
    OpDef::new(
        "qnn.requantize",
        "From one scale and zero point to another.",
        requantize,
    )
    .layout(super::layout_rules::along_axis)
    .inputs(&[
        input("data", "the quantised input"),
        input(
            "input_scale",
            "the input's scale, or one per index of the axis",
        ),
        input("input_zero_point", "the input's zero point, or one per index"),
        input("output_scale", "the result's scale"),
        input("output_zero_point", "the result's zero point"),
    ])
    .attrs(&[
        AXIS,
        attr(
            "rounding",
            Str,
            Default::Str("None"),
            "how halves are rounded: \"UPWARD\" (which \"None\" means too), \"TONEAREST\" (away from zero) or \"TOEVEN\" (which \"int64\" cannot)",
        ),
        attr(
            "compute_dtype",
            Str,
            Default::Str("None"),
            "\"int64\" (fixed point, which \"None\" means too), \"float32\" or \"float64\"",
        ),
        attr(
            "out_dtype",
            AttrTy::DType,
            Default::DType(""),
            "element type of the result",
        ),
    ])
    .fusion(Fusion::Elementwise)
    .compute(requantize_compute),
    OpDef::new(
        "qnn.simulated_quantize",
        "`qnn.quantize` to a type chosen at run time; the result keeps the type of the data.",
        simulated,
    )
    .inputs(&[
        input("data", "the input"),
        input(
            "out_dtype",
            "a code: 0 none, 1 int8, 2 uint8, 3 int32",
        ),
        input("output_scale", "the scale, or one per index of the axis"),
        input("output_zero_point", "the zero point, or one per index"),
    ])
    .attrs(&[AXIS])
    .fusion(Fusion::Elementwise)
    .compute(|te| simulated_compute(te, true)),
    OpDef::new(
        "qnn.simulated_dequantize",
        "`qnn.dequantize` of a type chosen at run time; the result keeps the type of the data.",
        simulated,
    )
    .inputs(&[
        input("data", "the input"),
        input("in_dtype", "a code: 0 none, 1 int8, 2 uint8, 3 int32"),
        input("input_scale", "the scale, or one per index of the axis"),
        input("input_zero_point", "the zero point, or one per index"),
    ])
    .attrs(&[
        attr(
            "out_dtype",
            AttrTy::DType,
            Default::DType(""),
            "written since 0.13, and without meaning: the result keeps the type of the data",
        ),
        AXIS,
    ])
    .fusion(Fusion::Elementwise)
    .compute(|te| simulated_compute(te, false)),
];

const QUANTISED: &[DType] = &[DType::I8, DType::U8, DType::I16, DType::I32];

/// Returns the dimensions of a tensor type, where its rank is known. Waits while it may become
/// known.
fn dims(t: &relax_ir::TensorType) -> RelResult<Option<Vec<relax_sym::Dim>>> {
    match &t.shape {
        relax_ir::Shape::Dims(d) => Ok(Some(d.to_vec())),
        relax_ir::Shape::Infer(_) => Err(Stop::Wait),
        _ => Ok(None),
    }
}

/// Returns whether argument `i` is a scalar, or (with `one`) has one element.
fn is_scalar(cx: &mut RelCx<'_>, i: usize, one: bool) -> RelResult<bool> {
    let t = cx.tensor(i)?;
    let d = dims(&t)?;
    Ok(d.is_none_or(|d| d.is_empty() || (one && d.iter().all(|n| n.as_const() == Some(1)))))
}

fn quantize(cx: &mut RelCx<'_>) -> RelResult {
    let t = cx.tensor(0)?;
    data_one_of(cx, 0, &[DType::F32])?;
    let strict = !(is_scalar(cx, 1, false)? & is_scalar(cx, 2, false)?);
    if let Some(d) = dims(&t)? {
        let extent = axis_extent(cx, "axis", &d, strict)?;
        scalar_or_vector(cx, 1, DType::F32, &extent, "scale")?;
        scalar_or_vector(cx, 2, DType::I32, &extent, "zero point")?;
    }
    let out = dtype_given(cx, "out_dtype")?;
    one_of(
        cx,
        Subject::Attr("out_dtype"),
        out,
        QUANTISED,
        "`out_dtype`",
    )?;
    word(cx, "rounding", &["None", "TONEAREST", "TOEVEN"])?;
    finish_like(cx, t, out)
}

fn quantize_compute(te: &mut Te<'_>) -> Done {
    let (x, scale, zero) = (te.arg(0), te.arg(1), te.arg(2));
    let (axis, dtype) = (scale_axis(te, "axis", x.rank()), quantised_out(te)?);
    let round = match te.str("rounding") {
        "TOEVEN" => UnOp::RoundEven,
        _ => UnOp::Round,
    };
    let y = te.compute("quantize", &x.shape, |i| {
        let steps = x.at(i) / per_axis(&scale, i, axis);
        placed(&steps.unary(round), &per_axis(&zero, i, axis), dtype)
    });
    te.output(&y);
    Ok(())
}

/// `round(x / scale) + zero point` within the range of `dtype`.
pub(super) fn quantise(x: &Ex, scale: &Ex, zero: &Ex, dtype: DType) -> Ex {
    placed(&(x / scale).unary(UnOp::Round), zero, dtype)
}

/// A whole number of steps from a zero point, brought into the range of `dtype`.
pub(super) fn placed(steps: &Ex, zero: &Ex, dtype: DType) -> Ex {
    let (low, high) = dtype.int_range().unwrap_or((0, 0));
    let y = steps + zero.cast(steps.dtype());
    y.min(high as f64).max(low as f64).cast(dtype)
}

/// `scale * (x - zero point)` as float32.
pub(super) fn dequantise(x: &Ex, scale: &Ex, zero: &Ex) -> Ex {
    (x.cast(DType::I32) - zero).cast(DType::F32) * scale
}

fn dequantize(cx: &mut RelCx<'_>) -> RelResult {
    let t = cx.tensor(0)?;
    data_one_of(cx, 0, QUANTISED)?;
    let scalars = is_scalar(cx, 1, true)? & is_scalar(cx, 2, true)?;
    if let Some(d) = dims(&t)? {
        let extent = if scalars {
            relax_sym::Dim::ONE
        } else {
            axis_extent(cx, "axis", &d, true)?
        };
        scalar_or_vector(cx, 1, DType::F32, &extent, "scale")?;
        scalar_or_vector(cx, 2, DType::I32, &extent, "zero point")?;
    }
    let dtype = dtype_given(cx, "out_dtype")?;
    if !dtype.is_float() {
        let why = format!("the result is of floats, not {dtype}");
        return cx.refuse(Subject::Attr("out_dtype"), why);
    }
    finish_like(cx, t, dtype)
}

fn dequantize_compute(te: &mut Te<'_>) -> Done {
    let (x, scale, zero) = (te.arg(0), te.arg(1), te.arg(2));
    let (axis, dtype) = (scale_axis(te, "axis", x.rank()), te.out(0).dtype);
    let y = te.compute("dequantize", &x.shape, |i| {
        let value = x.at(i);
        dequantise(
            &value,
            &per_axis(&scale, i, axis),
            &per_axis(&zero, i, axis),
        )
        .cast(dtype)
    });
    te.output(&y);
    Ok(())
}

fn requantize(cx: &mut RelCx<'_>) -> RelResult {
    let t = cx.tensor(0)?;
    let allowed = [DType::I8, DType::U8, DType::I16, DType::I32, DType::I64];
    data_one_of(cx, 0, &allowed)?;
    if let Some(d) = dims(&t)? {
        let extent = axis_extent(cx, "axis", &d, true)?;
        scalar_or_vector(cx, 1, DType::F32, &extent, "input's scale")?;
        scalar_or_vector(cx, 2, DType::I32, &extent, "input's zero point")?;
    }
    scalar(cx, 3, DType::F32, "output's scale")?;
    scalar(cx, 4, DType::I32, "output's zero point")?;
    let out = dtype_given(cx, "out_dtype")?;
    one_of(
        cx,
        Subject::Attr("out_dtype"),
        out,
        QUANTISED,
        "`out_dtype`",
    )?;
    word(cx, "rounding", &["None", "UPWARD", "TONEAREST", "TOEVEN"])?;
    word(
        cx,
        "compute_dtype",
        &["None", "int64", "float32", "float64"],
    )?;
    let fixed = !matches!(
        cx.attr("compute_dtype").as_str(),
        Some("float32" | "float64")
    );
    if fixed && cx.attr("rounding").as_str() == Some("TOEVEN") {
        let why = "halves are rounded to even in floats: `compute_dtype` is \"float32\" or \"float64\" then";
        return cx.refuse(Subject::Attr("rounding"), why);
    }
    finish_like(cx, t, out)
}

fn requantize_compute(te: &mut Te<'_>) -> Done {
    let (x, zero, zero_out) = (te.arg(0), te.arg(2), te.arg(4));
    let (axis, dtype) = (scale_axis(te, "axis", x.rank()), quantised_out(te)?);
    let rounding = match te.str("rounding") {
        "TONEAREST" => Rounding::ToNearest,
        "TOEVEN" => Rounding::ToEven,
        _ => Rounding::Upward,
    };
    let compute = match te.str("compute_dtype") {
        "float32" => DType::F32,
        "float64" => DType::F64,
        _ => DType::I64,
    };
    let (from, to) = (te.arg(1), te.arg(3));
    let rescale = Rescale::with(te, &from, &to, axis, rounding, compute);
    let y = te.compute("requantize", &x.shape, |i| {
        let value = shifted(&x.at(i), &zero, i, axis);
        match rounding {
            Rounding::ToEven => placed(&rescale.steps(&value, i), &zero_out.scalar(), dtype),
            _ => saturate(&rescale.apply(&value, i, &zero_out), dtype),
        }
    });
    te.output(&y);
    Ok(())
}

fn simulated(cx: &mut RelCx<'_>) -> RelResult {
    let t = cx.tensor(0)?;
    super::util::need_scalar(cx, 1, "the code of the type")?;
    let dtype = t.dtype;
    finish_like(cx, t, dtype)
}

fn simulated_compute(te: &mut Te<'_>, quantize: bool) -> Done {
    let (x, code, scale, zero) = (te.arg(0), te.arg(1), te.arg(2), te.arg(3));
    let axis = scale_axis(te, "axis", x.rank());
    let y = te.compute("simulated", &x.shape, |i| {
        let value = x.at(i);
        let t = value.dtype();
        // A single number applies to all, and shorter lists repeat.
        let pick = |p: &relax_loops::TensorRef| match (p.rank(), axis) {
            (1, Some(a)) => p.at(&[i[a].floor_mod(&p.shape[0])]).cast(t),
            _ => p.scalar().cast(t),
        };
        let code = code.scalar().cast(DType::I32);
        if !quantize {
            let known = code.eq(1i64) | code.eq(2i64) | code.eq(3i64);
            return Ex::where_(&known, &((&value - &pick(&zero)) * pick(&scale)), &value);
        }
        let rounded = (&value / &pick(&scale)).unary(UnOp::Round) + pick(&zero);
        let types = [(1i64, DType::I8), (2, DType::U8), (3, DType::I32)];
        types.into_iter().fold(value, |rest, (k, dtype)| {
            let (low, high) = dtype.int_range().unwrap_or((0, 0));
            let within = rounded.min(high as f64).max(low as f64);
            Ex::where_(&code.eq(k), &within, &rest)
        })
    });
    te.output(&y);
    Ok(())
}
