//! Operators that TVM got after 0.12: read, typed and printed.

use relax_sym::Dim;
use relax_tensor::DType;

use super::nn_pool::{POOL2D, window_rel};
use super::util::finish_tuple;
use crate::AttrTy::*;
use crate::{Default, Fusion, OpDef, RelCx, RelResult, Subject, attr, input};

/// Why quantised forms have no computation.
const INTEGERS: &str =
    "TVM computes it by arithmetic of integers that differs from one target to the next";
/// Why the suppression has none.
const CHOICE: &str = "TVM has a computation for TFLite's models only, whose choice among equal boxes is not specified";

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new("qnn.softmax", "`nn.softmax` of quantised numbers.", softmax)
        .uncomputed(INTEGERS)
        .not_computed()
        .inputs(&[
            input("data", "the quantised input, int8"),
            input("scale", "the input's scale"),
            input("zero_point", "the input's zero point"),
            input("output_scale", "the result's scale"),
            input("output_zero_point", "the result's zero point"),
        ])
        .attrs(&[attr("axis", Int, Default::Int(-1), "the axis of classes")]),
    OpDef::new(
        "qnn.avg_pool2d",
        "`nn.avg_pool2d` of quantised numbers.",
        avg_pool2d,
    )
    .uncomputed(INTEGERS)
    .not_computed()
    .inputs(&[
        input("data", "(n, c, h, w) in its layout, int8 or uint8"),
        input("input_scale", "the input's scale"),
        input("input_zero_point", "the input's zero point"),
        input("output_scale", "the result's scale"),
        input("output_zero_point", "the result's zero point"),
    ])
    .attrs(POOL2D)
    .fusion(Fusion::OutElementwise),
    OpDef::new(
        "vision.regular_non_max_suppression",
        "Boxes of each class that overlap no better one, the best of all classes: boxes, classes, \
         scores, and how many there are.",
        suppression,
    )
    .uncomputed(CHOICE)
    .not_computed()
    .inputs(&[
        input("boxes", "(batch, boxes, 4): the corners"),
        input("scores", "(batch, boxes, classes)"),
    ])
    .attrs(&[
        attr(
            "max_detections_per_class",
            Int,
            Default::Required,
            "how many boxes of a class are kept",
        ),
        attr(
            "max_detections",
            Int,
            Default::Required,
            "how many are kept",
        ),
        attr(
            "num_classes",
            Int,
            Default::Required,
            "classes without the background",
        ),
        attr(
            "iou_threshold",
            Float,
            Default::Required,
            "boxes that overlap more are one",
        ),
        attr(
            "score_threshold",
            Float,
            Default::Required,
            "the least score of a box",
        ),
    ]),
];

/// Scale and zero point of input and result are scalars.
fn parameters(cx: &mut RelCx<'_>) -> RelResult {
    for (i, what) in ["scale", "zero point", "scale", "zero point"]
        .iter()
        .enumerate()
    {
        let dtype = if i % 2 == 0 { DType::F32 } else { DType::I32 };
        let scalar = cx.host.types_mut().scalar(dtype);
        cx.require_arg(i + 1, scalar, &format!("the {what} is a scalar of {dtype}"))?;
    }
    Ok(())
}

/// The element type of the data is among some.
fn quantised(cx: &mut RelCx<'_>, known: &[DType]) -> RelResult {
    let (_, dtype) = cx.ranked(0)?;
    match dtype.known() {
        Some(d) if !known.contains(&d) => {
            let names: Vec<String> = known.iter().map(DType::to_string).collect();
            let why = format!("the data must be {}, not {d}", names.join(" or "));
            cx.refuse(Subject::Arg(0), why)
        }
        _ => Ok(()),
    }
}

fn softmax(cx: &mut RelCx<'_>) -> RelResult {
    quantised(cx, &[DType::I8])?;
    parameters(cx)?;
    let (dims, dtype) = cx.ranked(0)?;
    let axis = cx.int("axis")?;
    cx.axis("axis", axis, dims.len())?;
    cx.set_tensor(dims, dtype)
}

fn avg_pool2d(cx: &mut RelCx<'_>) -> RelResult {
    quantised(cx, &[DType::I8, DType::U8])?;
    parameters(cx)?;
    window_rel(cx, 2)
}

fn suppression(cx: &mut RelCx<'_>) -> RelResult {
    let (boxes, _) = cx.ranked(0)?;
    let (scores, _) = cx.ranked(1)?;
    if boxes.len() != 3 {
        return cx.refuse(Subject::Arg(0), "boxes are (batch, boxes, 4)");
    }
    if scores.len() != 3 {
        return cx.refuse(Subject::Arg(1), "scores are (batch, boxes, classes)");
    }
    let most = Dim::from(cx.int("max_detections")?);
    let batch = boxes[0].clone();
    let types = cx.host.types_mut();
    let fields = [
        types.tensor(vec![batch.clone(), most.clone(), Dim::from(4)], DType::F32),
        types.tensor(vec![batch.clone(), most.clone()], DType::F32),
        types.tensor(vec![batch.clone(), most], DType::F32),
        types.tensor(vec![batch], DType::I32),
    ];
    finish_tuple(cx, fields.to_vec())
}
