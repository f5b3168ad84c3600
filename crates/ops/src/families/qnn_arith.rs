//! Arithmetic of quantised tensors, functions of their elements, and concatenation.

use relax_loops::{Ex, TensorRef, UnOp};
use relax_tensor::DType;

use super::binary::broadcast;
use super::elementwise::{hardswish, identity};
use super::join::{concatenate, join_parts};
use super::qnn::{dequantise, quantise};
use super::qnn_util::{
    Rescale, Rounding, axis_extent, data_one_of, fixed_point_of, multiply_shift, per_axis,
    quantised_out, saturate, scalar, scalar_or_vector, scale_axis, shifted,
};
use super::util::shaped;
use super::util_te::Done;
use crate::AttrTy::{Float, Int};
use crate::{AttrDef, Default, Fusion, Input, OpDef, RelCx, RelResult, Subject, Te, attr, input};

const OPERANDS: &[Input] = &[
    input("lhs", "the left operand"),
    input("rhs", "the right operand"),
    input("lhs_scale", "the left operand's scale, or scales"),
    input(
        "lhs_zero_point",
        "the left operand's zero point, or zero points",
    ),
    input("rhs_scale", "the right operand's scale, or scales"),
    input(
        "rhs_zero_point",
        "the right operand's zero point, or zero points",
    ),
    input("output_scale", "the result's scale"),
    input("output_zero_point", "the result's zero point"),
];
const AXES: &[AttrDef] = &[
    attr(
        "lhs_axis",
        Int,
        Default::Int(-1),
        "the axis that the left operand's scales run along",
    ),
    attr(
        "rhs_axis",
        Int,
        Default::Int(-1),
        "the axis that the right operand's scales run along",
    ),
];
const ONE: &[Input] = &[
    input("data", "the quantised input"),
    input("scale", "the input's scale"),
    input("zero_point", "the input's zero point"),
    input("output_scale", "the result's scale"),
    input("output_zero_point", "the result's zero point"),
];

macro_rules! unary {
    ($name:literal, $doc:literal, $f:expr) => {
        OpDef::new($name, $doc, unary)
            .inputs(ONE)
            .compute(|te| unary_compute(te, $f))
    };
}

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new("qnn.add", "The sum of quantised tensors.", binary)
        .layout(super::layout_rules::quantised_broadcast)
        .inputs(OPERANDS)
        .attrs(AXES)
        .fusion(Fusion::Broadcast)
        .compute(|te| sum_compute(te, false)),
    OpDef::new(
        "qnn.subtract",
        "The difference of quantised tensors.",
        binary,
    )
    .layout(super::layout_rules::quantised_broadcast)
    .inputs(OPERANDS)
    .attrs(AXES)
    .fusion(Fusion::Broadcast)
    .compute(|te| sum_compute(te, true)),
    OpDef::new("qnn.mul", "The product of quantised tensors.", binary)
        .layout(super::layout_rules::quantised_broadcast)
        .inputs(OPERANDS)
        .attrs(AXES)
        .fusion(Fusion::Broadcast)
        .compute(mul_compute),
    OpDef::new(
        "qnn.concatenate",
        "Quantised tensors one after the other along an axis.",
        concatenate_rel,
    )
    .layout(super::layout_rules::quantised_joined)
    .inputs(&[
        input("data", "the tensors, a tuple"),
        input("input_scales", "the scale of each, a tuple"),
        input("input_zero_points", "the zero point of each, a tuple"),
        input("output_scale", "the result's scale"),
        input("output_zero_point", "the result's zero point"),
    ])
    .attrs(&[attr("axis", Int, Default::Int(0), "the axis")])
    .fusion(Fusion::Injective)
    .compute(concatenate_compute),
    OpDef::new(
        "qnn.leaky_relu",
        "Negative numbers are multiplied by `alpha`.",
        unary,
    )
    .inputs(&[
        input("data", "the quantised input"),
        input("input_scale", "the input's scale"),
        input("input_zero_point", "the input's zero point"),
        input("output_scale", "the result's scale"),
        input("output_zero_point", "the result's zero point"),
    ])
    .attrs(&[attr(
        "alpha",
        Float,
        Default::Float(0.25),
        "the slope of the negative half",
    )])
    .compute(leaky_relu_compute),
    unary!("qnn.tanh", "The hyperbolic tangent of each element.", |x| x
        .unary(UnOp::Tanh))
    .fusion(Fusion::Elementwise),
    unary!("qnn.exp", "e to the power of each element.", |x| x
        .unary(UnOp::Exp)),
    unary!("qnn.sqrt", "The square root of each element.", |x| x
        .unary(UnOp::Sqrt)),
    unary!(
        "qnn.rsqrt",
        "One over the square root of each element.",
        |x| x.unary(UnOp::Rsqrt)
    ),
    unary!("qnn.erf", "The error function of each element.", |x| x
        .unary(UnOp::Erf)),
    unary!(
        "qnn.sigmoid",
        "The logistic function of each element.",
        |x| x.unary(UnOp::Sigmoid)
    ),
    unary!(
        "qnn.hardswish",
        "`x * clip(x + 3, 0, 6) / 6` of each element.",
        hardswish
    ),
    unary!("qnn.log", "The natural logarithm of each element.", |x| x
        .unary(UnOp::Log)),
    unary!("qnn.abs", "The absolute value of each element.", |x| x
        .unary(UnOp::Abs)),
];

fn binary(cx: &mut RelCx<'_>) -> RelResult {
    let sides = [
        ("lhs_axis", 2, "left operand's"),
        ("rhs_axis", 4, "right operand's"),
    ];
    for (k, (name, first, whose)) in sides.into_iter().enumerate() {
        let (dims, _) = shaped(cx, k)?;
        let scalars = shaped(cx, first)?.0.is_none_or(|d| d.is_empty())
            & shaped(cx, first + 1)?.0.is_none_or(|d| d.is_empty());
        let Some(dims) = dims else {
            continue;
        };
        // TVM uses the only axis of a vector, regardless of the attribute.
        let extent = match dims.as_slice() {
            [n] => n.clone(),
            dims => axis_extent(cx, name, dims, !scalars)?,
        };
        scalar_or_vector(cx, first, DType::F32, &extent, &format!("{whose} scale"))?;
        scalar_or_vector(
            cx,
            first + 1,
            DType::I32,
            &extent,
            &format!("{whose} zero point"),
        )?;
    }
    for i in 0..2 {
        let dtype = cx.tensor(i)?.dtype;
        if let Some(d) = dtype.known().filter(|d| !d.is_integral()) {
            let text = format!("a quantised operand must hold integers, not {d}");
            return cx.refuse(Subject::Arg(i), text);
        }
    }
    scalar(cx, 6, DType::F32, "output's scale")?;
    scalar(cx, 7, DType::I32, "output's zero point")?;
    broadcast(cx)
}

/// Returns the axis of an operand's scales; a vector has only one.
fn operand_axis(te: &Te<'_>, name: &str, x: &TensorRef) -> Option<usize> {
    match x.rank() {
        1 => Some(0),
        rank => scale_axis(te, name, rank),
    }
}

/// Returns the part of `index` that indexes an operand of a broadcast, by its rank.
fn own_index<'i>(x: &TensorRef, index: &'i [Ex]) -> &'i [Ex] {
    &index[index.len() - x.rank()..]
}

fn sum_compute(te: &mut Te<'_>, subtract: bool) -> Done {
    let (a, b, to, zero) = (te.arg(0), te.arg(1), te.arg(6), te.arg(7));
    let dtype = quantised_out(te)?;
    let axes = [
        operand_axis(te, "lhs_axis", &a),
        operand_axis(te, "rhs_axis", &b),
    ];
    let zeros = [te.arg(3), te.arg(5)];
    let scales = [te.arg(2), te.arg(4)].map(|s| (s.clone(), s));
    let rescale = [0, 1].map(|k| Rescale::new(te, &scales[k].0, &to, axes[k]));
    let shape = Te::broadcast_shape(&a.shape, &b.shape);
    let y = te.compute("sum", &shape, |i| {
        let side = |k: usize, x: &TensorRef| {
            let own = own_index(x, i);
            let value = shifted(&x.at_broadcast(i), &zeros[k], own, axes[k]);
            rescale[k].apply(&value, own, &zero)
        };
        let (p, q) = (side(0, &a), side(1, &b));
        let zero = zero.scalar();
        saturate(&if subtract { p - q + zero } else { p + q - zero }, dtype)
    });
    te.output(&y);
    Ok(())
}

fn mul_compute(te: &mut Te<'_>) -> Done {
    let (a, b, to, zero) = (te.arg(0), te.arg(1), te.arg(6), te.arg(7));
    let (a_scale, a_zero, b_scale, b_zero) = (te.arg(2), te.arg(3), te.arg(4), te.arg(5));
    let dtype = quantised_out(te)?;
    let (a_axis, b_axis) = (
        operand_axis(te, "lhs_axis", &a),
        operand_axis(te, "rhs_axis", &b),
    );
    let shape = Te::broadcast_shape(&a.shape, &b.shape);
    // The product's scale runs along an axis of the result, counted from the end as those of both
    // operands.
    let from_end = |t: &TensorRef, scale: &TensorRef, axis: Option<usize>| {
        axis.filter(|_| scale.rank() == 1).map(|x| t.rank() - x)
    };
    let ends = (
        from_end(&a, &a_scale, a_axis),
        from_end(&b, &b_scale, b_axis),
    );
    let end = match ends {
        (Some(x), Some(y)) if x != y => {
            return Err("`qnn.mul` needs scales along the same axis of both operands".into());
        }
        (x, y) => x.or(y),
    };
    let scale_shape = Te::broadcast_shape(&a_scale.shape, &b_scale.shape);
    let from = te.compute("scale", &scale_shape, |i| {
        a_scale.at_broadcast(i) * b_scale.at_broadcast(i)
    });
    let axis = end.map(|e| shape.len() - e);
    let rescale = Rescale::new(te, &from, &to, axis);
    let y = te.compute("product", &shape, |i| {
        let p = shifted(&a.at_broadcast(i), &a_zero, own_index(&a, i), a_axis);
        let q = shifted(&b.at_broadcast(i), &b_zero, own_index(&b, i), b_axis);
        saturate(&rescale.apply(&(p * q), i, &zero), dtype)
    });
    te.output(&y);
    Ok(())
}

fn concatenate_rel(cx: &mut RelCx<'_>) -> RelResult {
    let count = cx.tuple(0)?.len();
    for (i, dtype, what) in [(1, DType::F32, "scale"), (2, DType::I32, "zero point")] {
        let fields = cx.tuple(i)?;
        if fields.len() != count {
            let n = fields.len();
            return cx.refuse(
                Subject::Arg(i),
                format!("each of the {count} tensors needs a {what}, but {n} are given"),
            );
        }
        for (k, ty) in fields.into_iter().enumerate() {
            let t = cx.expect_tensor(ty, Subject::Arg(i))?;
            let found = cx.known(t.dtype)?;
            let vector = matches!(&t.shape, relax_ir::Shape::Dims(d) if !d.is_empty());
            if vector || found != dtype {
                let have = cx.host.show(ty);
                return cx.refuse(
                    Subject::Arg(i),
                    format!("each {what} must be a {dtype} scalar, but number {k} is {have}"),
                );
            }
        }
    }
    scalar(cx, 3, DType::F32, "output's scale")?;
    scalar(cx, 4, DType::I32, "output's zero point")?;
    concatenate(cx)
}

fn concatenate_compute(te: &mut Te<'_>) -> Done {
    let (parts, scales, zeros) = (te.tuple(0), te.tuple(1), te.tuple(2));
    let (to, zero, dtype) = (te.arg(3), te.arg(4), quantised_out(te)?);
    if scales.len() != parts.len() || zeros.len() != parts.len() {
        return Err("each tensor needs a scale and a zero point".into());
    }
    let mut rescaled = Vec::with_capacity(parts.len());
    for ((x, scale), from) in parts.iter().zip(&scales).zip(&zeros) {
        let rescale = Rescale::new(te, scale, &to, None);
        rescaled.push(te.compute("part", &x.shape, |i| {
            let value = shifted(&x.at(i), from, i, None);
            saturate(&rescale.apply(&value, i, &zero), dtype)
        }));
    }
    let rank = parts.first().map_or(0, TensorRef::rank);
    let axis = te.axis("axis", rank)?;
    let y = join_parts(te, &rescaled, axis);
    te.output(&y);
    Ok(())
}

fn unary(cx: &mut RelCx<'_>) -> RelResult {
    data_one_of(cx, 0, &[DType::I8, DType::U8])?;
    let what = [
        "input's scale",
        "input's zero point",
        "output's scale",
        "output's zero point",
    ];
    for (k, what) in what.into_iter().enumerate() {
        let dtype = if k % 2 == 0 { DType::F32 } else { DType::I32 };
        scalar(cx, k + 1, dtype, what)?;
    }
    match cx.attr("alpha").as_float() {
        Some(a) if a < 0.0 => cx.refuse(
            Subject::Attr("alpha"),
            format!("`alpha={a}` must not be negative"),
        ),
        _ => identity(cx),
    }
}

fn unary_compute(te: &mut Te<'_>, f: impl Fn(&Ex) -> Ex) -> Done {
    let (scale, zero, to, zero_out) = (te.arg(1), te.arg(2), te.arg(3), te.arg(4));
    let dtype = quantised_out(te)?;
    te.elementwise(|x| {
        let value = f(&dequantise(x, &scale.scalar(), &zero.scalar()));
        quantise(&value, &to.scalar(), &zero_out.scalar(), dtype)
    })
}

fn leaky_relu_compute(te: &mut Te<'_>) -> Done {
    let (x, zero, to, zero_out) = (te.arg(0), te.arg(2), te.arg(3), te.arg(4));
    let (alpha, dtype) = (te.float("alpha")?, quantised_out(te)?);
    let from = te.arg(1);
    let rescale = Rescale::new(te, &from, &to, None);
    let y = te.compute("leaky_relu", &x.shape, |i| {
        let value = x.at(i).cast(DType::I32);
        let scaled = rescale.apply(&shifted(&value, &zero, i, None), i, &zero_out);
        let by = |v: &Ex, m: f64| {
            let (factor, shift) = fixed_point_of(m);
            multiply_shift(v, &factor, &shift, Rounding::Upward)
        };
        let low = by(&scaled, alpha) + by(&per_axis(&zero_out, i, None), 1.0 - alpha);
        saturate(&Ex::where_(&value.lt(zero.scalar()), &low, &scaled), dtype)
    });
    te.output(&y);
    Ok(())
}
