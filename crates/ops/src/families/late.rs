//! Operators that TVM added after 0.12: quantised forms, and the non-maximum suppression of
//! TFLite's models.

use relax_sym::Dim;
use relax_tensor::DType;

use super::nn_pool::{POOL2D, window_rel};
use super::util::{finish_tuple, need_eq};
use crate::AttrTy::*;
use crate::{Default, Fusion, OpDef, RelCx, RelResult, Subject, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new("qnn.softmax", "`nn.softmax` of quantised numbers.", softmax)
        .inputs(&[
            input("data", "the quantised input, int8"),
            input("scale", "the input's scale, at most 1"),
            input("zero_point", "the input's zero point"),
            input("output_scale", "the result's scale"),
            input("output_zero_point", "the result's zero point"),
        ])
        .attrs(&[attr("axis", Int, Default::Int(-1), "the axis of classes")])
        .compute(super::late_compute::softmax),
    OpDef::new(
        "qnn.avg_pool2d",
        "`nn.avg_pool2d` of quantised numbers.",
        avg_pool2d,
    )
    .inputs(&[
        input("data", "(n, c, h, w) in its layout, int8 or uint8"),
        input("input_scale", "the input's scale"),
        input("input_zero_point", "the input's zero point"),
        input("output_scale", "the result's scale"),
        input("output_zero_point", "the result's zero point"),
    ])
    .attrs(POOL2D)
    .fusion(Fusion::OutElementwise)
    .compute(super::late_compute::avg_pool2d),
    OpDef::new(
        "vision.regular_non_max_suppression",
        "Boxes of each class that overlap no better one, the best of all classes: boxes, classes, \
         scores, and how many there are.",
        suppression,
    )
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
    ])
    .compute(super::late_compute::suppression),
];

/// Requires scale and zero point of input and result to be scalars.
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

/// Requires the element type of the data to be one of a few.
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
    for (k, own, wanted, rule) in [
        (0, &boxes[2], &Dim::from(4), "each box has four coordinates"),
        (1, &scores[0], &boxes[0], "boxes and scores have one batch"),
        (
            1,
            &scores[1],
            &boxes[1],
            "there is a list of scores for each box",
        ),
    ] {
        need_eq(cx, own, wanted, Subject::Arg(k), rule)?;
    }
    for (k, what) in [(0, "coordinates"), (1, "scores")] {
        let (_, dtype) = cx.ranked(k)?;
        if dtype.known().is_some_and(|d| d != DType::F32) {
            return cx.refuse(Subject::Arg(k), format!("{what} are float32"));
        }
    }
    for name in ["max_detections_per_class", "max_detections", "num_classes"] {
        if cx.int(name)? < 0 {
            return cx.refuse(Subject::Attr(name), format!("`{name}` is a count"));
        }
    }
    let classes = Dim::from(cx.int("num_classes")?);
    cx.require_at_least(
        &scores[2],
        &classes,
        Subject::Attr("num_classes"),
        "there is a score for each class",
        |found, wanted| format!("there are scores of {found} classes, and not of {wanted}"),
    )?;
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
