//! Relax's object detection operators where they differ from Relay's, and its median: their types.

use relax_loops::Ex;
use relax_sym::Dim;
use relax_tensor::DType as DT;

use super::relax_rules::one_type;
use super::util::{finish, finish_tuple, need_eq, shaped, tensor_type};
use super::util_te::Done;
use super::vision_nms::{all_class, all_class_boxes};
use crate::AttrTy::{Bool, Float, Floats, Int, Str};
use crate::{AttrDef, Default, Input, OpDef, RelCx, RelResult, Subject, Te, attr, input};

const WHY: &str = "it is typed only";
const ID: AttrDef = attr(
    "id_index",
    Int,
    Default::Int(0),
    "where the class stands in a box; -1 for none",
);
const SCORE: AttrDef = attr(
    "score_index",
    Int,
    Default::Int(1),
    "where the score stands in a box",
);

pub(super) const ALL_CLASS: &[Input] = &[
    input("boxes", "(batch, boxes, 4)"),
    input("scores", "(batch, classes, boxes)"),
    input(
        "max_output_boxes_per_class",
        "how many boxes of each class are kept; 0 for all",
    ),
    input("iou_threshold", "the overlap from which a box is dropped"),
    input("score_threshold", "scores must be above it"),
];

pub(super) const FORMAT: &str = "\"onnx\": rows of batch, class, box and their number; \"tensorflow\": classes and \
                                 boxes, scores, and their number, for each batch";

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new("relax.vision.non_max_suppression", "Boxes, best first, without those that overlap a better one too much.", nms)
        .inputs(&[
            input("data", "(batch, boxes, numbers of a box)"),
            input("valid_count", "(batch,), how many boxes count"),
            input("indices", "(batch, boxes), where the boxes come from"),
        ])
        .attrs(&[
            attr("max_output_size", Int, Default::Int(-1), "how many boxes are kept; negative for all"),
            attr("iou_threshold", Float, Default::Float(0.5), "the overlap from which a box is dropped"),
            attr("force_suppress", Bool, Default::Bool(false), "whether classes suppress each other"),
            attr("top_k", Int, Default::Int(-1), "how many boxes are looked at; negative for all"),
            attr("coord_start", Int, Default::Int(2), "where the coordinates start in a box"),
            SCORE,
            ID,
            attr("return_indices", Bool, Default::Bool(true), "whether the result is indices"),
            attr("invalid_to_bottom", Bool, Default::Bool(false), "whether what is dropped comes last"),
            attr("soft_nms_sigma", Float, Default::Float(0.0), "how scores fall with the overlap; 0 for not at all"),
            attr("score_threshold", Float, Default::Float(0.0), "scores must be above it"),
        ])
        .uncomputed(WHY)
        .not_computed(),
    OpDef::new(
        "relax.vision.all_class_non_max_suppression",
        "Non-maximum suppression for each class apart; ONNX's rows without those that no box fills.",
        |cx| {
            // TVM relies on the type with all rows, and computes fewer.
            let trimmed = !cx.host.as_written();
            all_class(cx, trimmed)
        },
    )
    .inputs(ALL_CLASS)
    .attrs(&[attr(
        "output_format",
        Str,
        Default::Str("onnx"),
        FORMAT,
    )])
    .data_dependent()
    .compute(all_class_compute),
    OpDef::new("relax.vision.get_valid_counts", "Boxes whose score is above a threshold moved to the front: their number, the boxes, where they come from.", valid_counts)
        .inputs(&[input("data", "(batch, boxes, numbers of a box)")])
        .attrs(&[
            attr("score_threshold", Float, Default::Float(0.0), "scores must be above it"),
            ID,
            SCORE,
        ])
        .uncomputed(WHY)
        .not_computed(),
    OpDef::new("relax.vision.multibox_transform_loc", "Boxes and scores of classes from what a network says of anchors.", multibox)
        .inputs(&[
            input("cls_pred", "(batch, classes, anchors)"),
            input("loc_pred", "(batch, 4 * anchors)"),
            input("anchor", "(1, anchors, 4)"),
        ])
        .attrs(&[
            attr("clip", Bool, Default::Bool(false), "whether boxes are cut to 0 … 1"),
            attr("threshold", Float, Default::Float(0.0), "scores below become 0"),
            attr("variances", Floats, Default::None, "the scales of the four numbers"),
            attr("keep_background", Bool, Default::Bool(true), "whether class 0 keeps its scores"),
            attr("apply_softmax", Bool, Default::Bool(true), "whether scores become probabilities"),
        ])
        .uncomputed(WHY)
        .not_computed(),
    OpDef::new("relax.median", "The middle one of elements in order, and, along an axis, where it stands.", median)
        .inputs(&[input("x", "the input")])
        .attrs(&[
            attr("axis", crate::AttrTy::Ints, Default::None, "the axis; all elements where none is given"),
            attr("keepdims", Bool, Default::Bool(false), "whether reduced axes stay, with extent 1"),
        ])
        .uncomputed(WHY)
        .not_computed(),
];

fn all_class_compute(te: &mut Te<'_>) -> Done {
    let (rows, values, counts) = all_class_boxes(te)?;
    match &values {
        None => {
            let extents = [counts.at(&[Ex::idx(0)]), rows.shape[1].clone()];
            let kept = te.compute("kept", &extents, |i| rows.at(i));
            te.output(&kept);
        }
        Some(values) => {
            te.output(&rows);
            te.output(values);
        }
    }
    te.output(&counts);
    Ok(())
}

/// Returns the extents of an argument of a fixed rank; `?` where they are not known.
fn of_rank(cx: &mut RelCx<'_>, i: usize, rank: usize) -> RelResult<Vec<Dim>> {
    match shaped(cx, i)?.0 {
        None => Ok(super::util::anys(rank)),
        Some(dims) if dims.len() == rank => Ok(dims),
        Some(dims) => {
            let n = dims.len();
            cx.refuse(
                Subject::Arg(i),
                format!("a tensor of rank {rank} is expected, not {n}"),
            )
        }
    }
}

fn within(cx: &RelCx<'_>, name: &'static str, least: i64, most: &Dim, room: i64) -> RelResult {
    let (v, Some(n)) = (cx.int(name)?, most.as_const()) else {
        return Ok(());
    };
    if v < least || v + room >= n {
        let message = format!("`{name}={v}` is no place among the {n} numbers of a box");
        return cx.refuse(Subject::Attr(name), message);
    }
    Ok(())
}

fn i32_arg(cx: &mut RelCx<'_>, i: usize) -> RelResult {
    match cx.tensor(i)?.dtype.known() {
        Some(d) if d != DT::I32 => cx.refuse(
            Subject::Arg(i),
            format!("numbers of int32 are expected, not {d}"),
        ),
        _ => Ok(()),
    }
}

fn nms(cx: &mut RelCx<'_>) -> RelResult {
    let data = of_rank(cx, 0, 3)?;
    let (count, indices) = (of_rank(cx, 1, 1)?, of_rank(cx, 2, 2)?);
    i32_arg(cx, 1)?;
    i32_arg(cx, 2)?;
    for (i, a, b) in [
        (1, &count[0], &data[0]),
        (2, &indices[0], &data[0]),
        (2, &indices[1], &data[1]),
    ] {
        need_eq(
            cx,
            a,
            b,
            Subject::Arg(i),
            "there is one for each batch and each box",
        )?;
    }
    within(cx, "score_index", 0, &data[2], 0)?;
    within(cx, "coord_start", 0, &data[2], 3)?;
    within(cx, "id_index", -1, &data[2], 0)?;
    let whole = cx.arg(0);
    if !cx.flag("return_indices") {
        return cx.set_out(whole);
    }
    let places = tensor_type(cx, data[..2].to_vec(), DT::I32)?;
    let counts = tensor_type(cx, vec![data[0].clone(), Dim::ONE], DT::I32)?;
    let soft = cx
        .attr("soft_nms_sigma")
        .as_float()
        .is_some_and(|x| x > 0.0);
    finish_tuple(
        cx,
        if soft {
            vec![whole, places, counts]
        } else {
            vec![places, counts]
        },
    )
}

fn valid_counts(cx: &mut RelCx<'_>) -> RelResult {
    let data = of_rank(cx, 0, 3)?;
    within(cx, "score_index", 0, &data[2], 0)?;
    within(cx, "id_index", -1, &data[2], 0)?;
    let counts = tensor_type(cx, data[..1].to_vec(), DT::I32)?;
    let places = tensor_type(cx, data[..2].to_vec(), DT::I32)?;
    let whole = cx.arg(0);
    finish_tuple(cx, vec![counts, whole, places])
}

fn multibox(cx: &mut RelCx<'_>) -> RelResult {
    let (classes, boxes) = (of_rank(cx, 0, 3)?, of_rank(cx, 1, 2)?);
    let anchors = of_rank(cx, 2, 3)?;
    let dtype = cx.tensor(0)?.dtype;
    one_type(cx)?;
    let four = &Dim::from(4);
    for (i, a, b, rule) in [
        (1, &boxes[0], &classes[0], "both predictions have one batch"),
        (
            1,
            &boxes[1],
            &(&classes[2] * four),
            "there are four numbers for each anchor",
        ),
        (2, &anchors[0], &Dim::ONE, "anchors have no batch"),
        (
            2,
            &anchors[1],
            &classes[2],
            "there is one anchor for each prediction",
        ),
        (2, &anchors[2], four, "an anchor has four numbers"),
    ] {
        need_eq(cx, a, b, Subject::Arg(i), rule)?;
    }
    let out = vec![classes[0].clone(), classes[2].clone(), four.clone()];
    let (out, scores) = (
        tensor_type(cx, out, dtype)?,
        tensor_type(cx, classes, dtype)?,
    );
    finish_tuple(cx, vec![out, scores])
}

fn median(cx: &mut RelCx<'_>) -> RelResult {
    let (dims, dtype) = shaped(cx, 0)?;
    let Some(mut dims) = dims else {
        return cx.finish_unranked(dtype);
    };
    let axis = match cx.ints("axis")?.as_deref() {
        None => None,
        Some([one]) => Some(cx.axis("axis", *one, dims.len())?),
        Some(_) => {
            for v in cx.ints("axis")?.unwrap_or_default() {
                cx.axis("axis", v, dims.len())?;
            }
            return cx.refuse(
                Subject::Attr("axis"),
                "the median is along one axis, or of all elements",
            );
        }
    };
    let keep = cx.flag("keepdims");
    match axis {
        None if keep => {
            dims.fill(Dim::ONE);
            finish(cx, dims, dtype)
        }
        None => finish(cx, Vec::new(), dtype),
        Some(a) => {
            if keep {
                dims[a] = Dim::ONE;
            } else {
                dims.remove(a);
            }
            let values = tensor_type(cx, dims.clone(), dtype)?;
            let places = tensor_type(cx, dims, DT::I64)?;
            finish_tuple(cx, vec![values, places])
        }
    }
}
