//! Selection of boxes: by score, and by overlap.

use relax_loops::{Ex, Nest, TensorRef};
use relax_sym::Dim;
use relax_tensor::DType;

use super::relax_vision::{ALL_CLASS, FORMAT};
use super::sorting::stable_order;
use super::util::{finish, finish_tuple, tensor_type, word};
use super::util_te::Done;
use crate::AttrTy::{Bool, Float, Int, Str};
use crate::{ComputeError, Default, OpDef, RelCx, RelResult, Subject, Te, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "vision.get_valid_counts",
        "Boxes whose score is above a threshold moved to the front: their number, the boxes, and \
         where they come from; -1 fills the rest.",
        valid_counts,
    )
    .inputs(&[
        input(
            "data",
            "(batch, boxes, 5 or 6): perhaps a class, a score, coordinates",
        ),
        input("score_threshold", "scores must be above it"),
    ])
    .attrs(&[
        attr(
            "score_threshold",
            Float,
            Default::None,
            "unused: the threshold is an argument",
        ),
        attr(
            "id_index",
            Int,
            Default::Int(0),
            "where the class stands in a box; negative for none",
        ),
        attr(
            "score_index",
            Int,
            Default::Int(1),
            "where the score stands in a box",
        ),
    ])
    .meta_attrs("relay.attrs.GetValidCountsAttrs")
    .compute(valid_counts_compute),
    OpDef::new(
        "vision.non_max_suppression",
        "Boxes, best first, without those that overlap a better one too much.",
        nms,
    )
    .inputs(&[
        input("data", "(batch, boxes, 5 or 6)"),
        input("valid_count", "(batch,): how many boxes count"),
        input("indices", "(batch, boxes): where the boxes come from"),
        input(
            "max_output_size",
            "how many boxes are kept; negative for all",
        ),
        input(
            "iou_threshold",
            "the overlap, relative to the union, from which a box is dropped",
        ),
    ])
    .attrs(&[
        attr(
            "force_suppress",
            Bool,
            Default::Bool(false),
            "whether boxes of different classes suppress each other",
        ),
        attr(
            "top_k",
            Int,
            Default::Int(-1),
            "how many boxes are looked at; negative for all",
        ),
        attr(
            "coord_start",
            Int,
            Default::Int(2),
            "where the coordinates start in a box",
        ),
        attr(
            "score_index",
            Int,
            Default::Int(1),
            "where the score stands in a box",
        ),
        attr(
            "id_index",
            Int,
            Default::Int(0),
            "where the class stands in a box; negative for none",
        ),
        attr(
            "return_indices",
            Bool,
            Default::Bool(true),
            "whether indices are given, and their number; else boxes",
        ),
        attr(
            "invalid_to_bottom",
            Bool,
            Default::Bool(false),
            "whether dropped boxes are moved to the end",
        ),
    ])
    .meta_attrs("relay.attrs.NonMaximumSuppressionAttrs")
    .compute(nms_compute),
    OpDef::new(
        "vision.all_class_non_max_suppression",
        "Non-maximum suppression for each class apart, as ONNX and TensorFlow define it.",
        |cx| all_class(cx, false),
    )
    .inputs(ALL_CLASS)
    .attrs(&[attr("output_format", Str, Default::Str("onnx"), FORMAT)])
    .meta_attrs("relay.attrs.AllClassNonMaximumSuppressionAttrs")
    .compute(all_class_compute),
];

type Boxes = Result<(TensorRef, Option<TensorRef>, TensorRef), ComputeError>;

/// Returns the dimensions of an argument of a given rank.
pub(super) fn of_rank(cx: &mut RelCx<'_>, i: usize, rank: usize) -> RelResult<Vec<Dim>> {
    let (dims, _) = cx.ranked(i)?;
    if dims.len() != rank {
        let text = format!(
            "`{}` takes a tensor of rank {rank} here, not {}",
            cx.name,
            dims.len()
        );
        return cx.refuse(Subject::Arg(i), text);
    }
    Ok(dims)
}

fn valid_counts(cx: &mut RelCx<'_>) -> RelResult {
    let d = of_rank(cx, 0, 3)?;
    super::util::need_scalar(cx, 1, "the threshold")?;
    let dtype = cx.tensor(0)?.dtype;
    let fields = vec![
        tensor_type(cx, vec![d[0].clone()], DType::I32)?,
        tensor_type(cx, d.clone(), dtype)?,
        tensor_type(cx, d[..2].to_vec(), DType::I32)?,
    ];
    finish_tuple(cx, fields)
}

/// Fails where an index into a box is out of bounds. Negative ones are accepted with `optional`.
fn check_field(n: &mut Nest<'_>, x: &TensorRef, name: &str, at: i64, optional: bool) {
    if !(optional && at < 0) {
        let inside = Ex::idx(at).lt(&x.shape[2]) & Ex::idx(at).ge(0i64);
        n.assert(inside, format!("`{name}={at}` is outside the boxes"));
    }
}

fn valid_counts_compute(te: &mut Te<'_>) -> Done {
    let (x, threshold) = (te.arg(0), te.arg(1));
    let (id, score) = (te.int("id_index")?, te.int("score_index")?);
    let count = te.temp("count", DType::I32, &x.shape[..1]);
    let out = te.temp("boxes", x.dtype, &x.shape);
    let from = te.temp("from", DType::I32, &x.shape[..2]);
    te.nest(|n| {
        check_field(n, &x, "score_index", score, false);
        check_field(n, &x, "id_index", id, true);
        n.for_(x.shape[0].clone(), |n, b| {
            let found = n.cell(Ex::idx(0));
            n.for_(x.shape[1].clone(), |n, j| {
                let field = |k: i64| x.at(&[b.clone(), j.clone(), Ex::idx(k)]);
                let mut good = field(score).gt(threshold.scalar().cast(x.dtype));
                if id >= 0 {
                    good = good & field(id).ge(0i64);
                }
                n.if_(good, |n| {
                    let at = n.let_(found.scalar());
                    n.for_(x.shape[2].clone(), |n, k| {
                        let value = x.at(&[b.clone(), j.clone(), k.clone()]);
                        n.store(&out, &[b.clone(), at.clone(), k.clone()], value);
                    });
                    n.store(&from, &[b.clone(), at.clone()], j.cast(DType::I32));
                    n.set(&found, at + 1);
                });
                n.if_(j.ge(found.scalar()), |n| {
                    n.for_(x.shape[2].clone(), |n, k| {
                        n.store(&out, &[b.clone(), j.clone(), k.clone()], -1i64);
                    });
                    n.store(&from, &[b.clone(), j.clone()], -1i64);
                });
            });
            n.store(
                &count,
                std::slice::from_ref(b),
                found.scalar().cast(DType::I32),
            );
        });
    });
    for t in [&count, &out, &from] {
        te.output(t);
    }
    Ok(())
}

fn nms(cx: &mut RelCx<'_>) -> RelResult {
    let d = of_rank(cx, 0, 3)?;
    of_rank(cx, 1, 1)?;
    let dtype = cx.tensor(0)?.dtype;
    if !cx.flag("return_indices") {
        return finish(cx, d, dtype);
    }
    let fields = vec![
        tensor_type(cx, d[..2].to_vec(), DType::I32)?,
        tensor_type(cx, vec![d[0].clone(), Dim::ONE], DType::I32)?,
    ];
    finish_tuple(cx, fields)
}

/// Returns the corners of a box, whose coordinates may be in either order: left, top, right,
/// bottom.
fn corners(n: &mut Nest<'_>, at: impl Fn(i64) -> Ex) -> [Ex; 4] {
    [
        at(0).min(at(2)),
        at(1).min(at(3)),
        at(0).max(at(2)),
        at(1).max(at(3)),
    ]
    .map(|e| n.let_(e))
}

/// Returns the intersection of two boxes over their union; 0 where the union is empty.
fn overlap(n: &mut Nest<'_>, a: &[Ex; 4], b: &[Ex; 4]) -> Ex {
    let zero = a[0].same(0.0);
    let w = zero.max(a[2].min(&b[2]) - a[0].max(&b[0]));
    let h = zero.max(a[3].min(&b[3]) - a[1].max(&b[1]));
    let area = n.let_(h * w);
    let whole = |c: &[Ex; 4]| (&c[2] - &c[0]) * (&c[3] - &c[1]);
    let union = n.let_(whole(a) + whole(b) - &area);
    n.let_(Ex::where_(&union.le(0i64), &zero, &(area / &union)))
}

fn nms_compute(te: &mut Te<'_>) -> Done {
    let (x, valid, indices, most, threshold) =
        (te.arg(0), te.arg(1), te.arg(2), te.arg(3), te.arg(4));
    let (top_k, start) = (te.int("top_k")?, te.int("coord_start")?);
    let (score, id) = (te.int("score_index")?, te.int("id_index")?);
    let (force, give_indices) = (te.flag("force_suppress"), te.flag("return_indices"));
    let boxes = te.temp("boxes", x.dtype, &x.shape);
    let chosen = te.temp("chosen", DType::I32, &x.shape[..2]);
    let (all, width) = (x.shape[1].clone(), x.shape[2].clone());
    te.nest(|n| {
        check_field(n, &x, "score_index", score, false);
        check_field(n, &x, "id_index", id, true);
        check_field(n, &x, "coord_start", start, false);
        check_field(n, &x, "coord_start + 3", start.saturating_add(3), false);
        n.for_(x.shape[0].clone(), |n, b| {
            let count = n.let_(
                valid
                    .at(std::slice::from_ref(b))
                    .cast(DType::I64)
                    .max(0i64)
                    .min(&all),
            );
            let drop = |n: &mut Nest<'_>, j: &Ex| {
                n.for_(width.clone(), |n, k| {
                    n.store(&boxes, &[b.clone(), j.clone(), k.clone()], -1i64);
                });
                n.store(&chosen, &[b.clone(), j.clone()], -1i64);
            };
            let take = |n: &mut Nest<'_>, j: &Ex, from: &Ex| {
                n.for_(width.clone(), |n, k| {
                    let value = x.at(&[b.clone(), from.clone(), k.clone()]);
                    n.store(&boxes, &[b.clone(), j.clone(), k.clone()], value);
                });
                n.store(&chosen, &[b.clone(), j.clone()], from.cast(DType::I32));
            };
            let limit = n.let_(threshold.scalar().cast(x.dtype));
            n.if_else(
                limit.gt(0i64),
                |n| {
                    let key = |k: &Ex| x.at(&[b.clone(), k.clone(), Ex::idx(score)]);
                    let order = stable_order(n, &count, &all, |p, q| key(p).gt(key(q)));
                    let keep = if top_k > 0 {
                        n.let_(count.min(top_k))
                    } else {
                        count.clone()
                    };
                    n.for_(count.clone(), |n, j| {
                        n.if_else(
                            j.lt(&keep),
                            |n| {
                                let from = n.let_(order.at(std::slice::from_ref(j)));
                                take(n, j, &from);
                            },
                            |n| drop(n, j),
                        );
                    });
                    let kept = n.cell(Ex::idx(0));
                    let good = n.cell(Ex::bool(true));
                    let field = |j: &Ex, k: i64| boxes.at(&[b.clone(), j.clone(), Ex::idx(k)]);
                    n.for_(count.clone(), |n, j| {
                        let full = kept.scalar().eq(most.scalar().cast(DType::I64));
                        n.if_else(
                            full,
                            |n| drop(n, j),
                            |n| {
                                n.if_(field(j, score).gt(0i64), |n| {
                                    n.set(&good, Ex::bool(true));
                                    let mine = corners(n, |k| field(j, start + k));
                                    n.for_(j.clone(), |n, k| {
                                        let mut check = good.scalar() & field(k, score).gt(0i64);
                                        if id >= 0 {
                                            check = check & field(k, id).ge(0i64);
                                            if !force {
                                                check = check & field(j, id).eq(field(k, id));
                                            }
                                        }
                                        n.if_(check, |n| {
                                            let other = corners(n, |c| field(k, start + c));
                                            let iou = overlap(n, &mine, &other);
                                            n.if_(iou.ge(&limit), |n| {
                                                n.set(&good, Ex::bool(false))
                                            });
                                        });
                                    });
                                    n.if_else(
                                        good.scalar(),
                                        |n| n.set(&kept, kept.scalar() + 1),
                                        |n| drop(n, j),
                                    );
                                });
                            },
                        );
                    });
                },
                |n| n.for_(count.clone(), |n, j| take(n, j, j)),
            );
            n.for_(&all - &count, |n, j| drop(n, &(j + &count)));
            if give_indices {
                n.for_(count.clone(), |n, j| {
                    let at = [b.clone(), j.clone()];
                    let from = n.let_(chosen.at(&at).cast(DType::I64));
                    n.if_(from.ge(0i64), |n| {
                        let origin = indices.at(&[b.clone(), from.clone()]).cast(DType::I32);
                        n.store(&chosen, &at, origin);
                    });
                });
            }
        });
    });
    if give_indices {
        return packed_indices(te, &x, &chosen);
    }
    let out = if te.flag("invalid_to_bottom") {
        packed_boxes(te, &boxes)
    } else {
        boxes
    };
    te.output(&out);
    Ok(())
}

/// Moves the indices other than -1 to the front, and counts them. As in TVM, an index beyond the
/// number of boxes leaves a 0 behind.
fn packed_indices(te: &mut Te<'_>, x: &TensorRef, chosen: &TensorRef) -> Done {
    let out = te.temp("indices", DType::I32, &x.shape[..2]);
    let count = te.temp("count", DType::I32, &[x.shape[0].clone(), Ex::idx(1)]);
    let all = x.shape[1].clone();
    te.nest(|n| {
        n.for_(x.shape[0].clone(), |n, b| {
            let found = n.cell(Ex::idx(0));
            let put = |n: &mut Nest<'_>, value: Ex| {
                let at = n.let_(found.scalar());
                n.if_(at.lt(&all), |n| {
                    n.store(&out, &[b.clone(), at.clone()], value)
                });
                n.set(&found, at + 1);
            };
            n.for_(all.clone(), |n, j| {
                let value = n.let_(chosen.at(&[b.clone(), j.clone()]));
                let wide = n.let_(value.cast(DType::I64));
                n.if_(wide.ge(0i64), |n| put(n, value.clone()));
                let beyond = wide.gt(&all) | wide.lt(Ex::idx(0) - &all);
                n.if_(beyond, |n| put(n, Ex::int(DType::I32, 0)));
                n.if_(j.ge(found.scalar()), |n| {
                    n.store(&out, &[b.clone(), j.clone()], -1i64)
                });
            });
            n.store(
                &count,
                &[b.clone(), Ex::idx(0)],
                found.scalar().cast(DType::I32),
            );
        });
    });
    te.output(&out);
    te.output(&count);
    Ok(())
}

/// Moves the boxes whose first number is not negative to the front; -1 fills the rest.
fn packed_boxes(te: &mut Te<'_>, boxes: &TensorRef) -> TensorRef {
    let out = te.temp("packed", boxes.dtype, &boxes.shape);
    te.nest(|n| {
        n.for_(boxes.shape[0].clone(), |n, b| {
            let found = n.cell(Ex::idx(0));
            n.for_(boxes.shape[1].clone(), |n, j| {
                let first = boxes.at(&[b.clone(), j.clone(), Ex::idx(0)]);
                n.if_(first.ge(0i64), |n| {
                    n.for_(boxes.shape[2].clone(), |n, k| {
                        let value = boxes.at(&[b.clone(), j.clone(), k.clone()]);
                        n.store(&out, &[b.clone(), found.scalar(), k.clone()], value);
                    });
                    n.set(&found, found.scalar() + 1);
                });
                n.if_(j.ge(found.scalar()), |n| {
                    n.for_(boxes.shape[2].clone(), |n, k| {
                        n.store(&out, &[b.clone(), j.clone(), k.clone()], -1i64);
                    });
                });
            });
        });
    });
    out
}

/// With `trimmed`, rows without a box are omitted.
pub(super) fn all_class(cx: &mut RelCx<'_>, trimmed: bool) -> RelResult {
    let (boxes, scores) = (of_rank(cx, 0, 3)?, of_rank(cx, 1, 3)?);
    for (k, own, wanted, rule) in [
        (0, &boxes[2], &Dim::from(4), "each box has four coordinates"),
        (1, &scores[0], &boxes[0], "boxes and scores have one batch"),
        (1, &scores[2], &boxes[1], "there is one score for each box"),
    ] {
        super::util::need_eq(cx, own, wanted, Subject::Arg(k), rule)?;
    }
    let format = word(cx, "output_format", &["onnx", "tensorflow"])?;
    let (batch, classes, each) = (&boxes[0], &scores[1], &boxes[1]);
    let fields = if format == "onnx" {
        let total = if trimmed || batch.is_any() || each.is_any() {
            Dim::ANY
        } else {
            batch * classes * each
        };
        vec![
            tensor_type(cx, vec![total, Dim::from(3)], DType::I64)?,
            tensor_type(cx, vec![Dim::ONE], DType::I64)?,
        ]
    } else {
        let total = if each.is_any() {
            Dim::ANY
        } else {
            classes * each
        };
        let first = vec![batch.clone(), total.clone(), Dim::from(2)];
        vec![
            tensor_type(cx, first, DType::I64)?,
            tensor_type(cx, vec![batch.clone(), total], DType::F32)?,
            tensor_type(cx, vec![batch.clone()], DType::I64)?,
        ]
    };
    finish_tuple(cx, fields)
}

fn all_class_compute(te: &mut Te<'_>) -> Done {
    let (rows, values, counts) = all_class_boxes(te)?;
    te.output(&rows);
    if let Some(values) = &values {
        te.output(values);
    }
    te.output(&counts);
    Ok(())
}

/// Returns the kept boxes, their scores where these are requested, and their number.
pub(super) fn all_class_boxes(te: &mut Te<'_>) -> Boxes {
    let (boxes, scores, most) = (te.arg(0), te.arg(1), te.arg(2));
    let (iou_limit, score_limit) = (te.arg(3), te.arg(4));
    let onnx = te.str("output_format") != "tensorflow";
    // In terms of the same extents as the type of the result.
    let (batch, each) = (boxes.shape[0].clone(), boxes.shape[1].clone());
    let classes = scores.shape[1].clone();
    let per_batch = &classes * &each;
    let (rows, values, counts) = if onnx {
        let rows = [&batch * &per_batch, Ex::idx(3)];
        (
            te.temp("rows", DType::I64, &rows),
            None,
            te.temp("count", DType::I64, &[Ex::idx(1)]),
        )
    } else {
        let rows = [batch.clone(), per_batch.clone(), Ex::idx(2)];
        let values = te.temp("values", DType::F32, &rows[..2]);
        let rows = te.temp("rows", DType::I64, &rows);
        (
            rows,
            Some(values),
            te.temp("count", DType::I64, &boxes.shape[..1]),
        )
    };
    te.nest(|n| {
        // Rows without a box are 0.
        n.grid(&rows.shape.clone(), |n, i| n.store(&rows, i, 0i64));
        if let Some(values) = &values {
            n.grid(&values.shape.clone(), |n, i| n.store(values, i, 0i64));
        }
        let found = n.cell(Ex::idx(0));
        n.for_(batch.clone(), |n, b| {
            if !onnx {
                n.set(&found, 0i64);
            }
            n.for_(classes.clone(), |n, c| {
                let score = |k: &Ex| scores.at(&[b.clone(), c.clone(), k.clone()]);
                let order = stable_order(n, &each, &each, |p, q| score(p).gt(score(q)));
                let ranked = |k: &Ex| score(&order.at(std::slice::from_ref(k)));
                // The corners of the boxes that are kept.
                let held = [each.clone(), Ex::idx(4)];
                let held = n.local("held", boxes.dtype, &held);
                let limit = n.let_(score_limit.scalar().cast(scores.dtype));
                let valid = n.cell(Ex::idx(0));
                let more = Ex::where_(
                    &valid.scalar().lt(&each),
                    &ranked(&valid.scalar()).gt(&limit),
                    &Ex::bool(false),
                );
                n.while_(more, |n| n.set(&valid, valid.scalar() + 1));
                let valid = n.let_(valid.scalar());
                let cap = most.scalar().cast(DType::I64);
                let cap = n.let_(Ex::where_(&cap.gt(0i64), &cap, &valid));
                let iou_limit = n.let_(iou_limit.scalar().cast(boxes.dtype));
                let (next, kept) = (n.cell(Ex::idx(0)), n.cell(Ex::idx(0)));
                let go = next.scalar().lt(&valid) & kept.scalar().lt(&cap) & iou_limit.gt(0i64);
                n.while_(go, |n| {
                    let j = n.let_(next.scalar());
                    let from = n.let_(order.at(std::slice::from_ref(&j)));
                    let own = n.let_(score(&from));
                    let mine = corners(n, |f| boxes.at(&[b.clone(), from.clone(), Ex::idx(f)]));
                    // Only boxes of positive scores give way to others: a box is compared with those
                    // that are kept, until it has to.
                    let free = n.cell(own.gt(-1i64));
                    let other = n.cell(Ex::idx(0));
                    let rest = free.scalar() & other.scalar().lt(kept.scalar());
                    n.if_(own.gt(0i64), |n| {
                        n.while_(rest, |n| {
                            let at = |f: i64| held.at(&[other.scalar(), Ex::idx(f)]);
                            let theirs = [0, 1, 2, 3].map(|f| n.let_(at(f)));
                            let iou = overlap(n, &theirs, &mine);
                            n.if_(iou.ge(&iou_limit), |n| n.set(&free, Ex::bool(false)));
                            n.set(&other, other.scalar() + 1);
                        });
                    });
                    n.if_(free.scalar(), |n| {
                        let row = n.let_(found.scalar());
                        match &values {
                            None => {
                                for (k, v) in [b, c, &from].into_iter().enumerate() {
                                    n.store(&rows, &[row.clone(), Ex::idx(k as i64)], v);
                                }
                            }
                            Some(values) => {
                                for (k, v) in [c, &from].into_iter().enumerate() {
                                    let at = [b.clone(), row.clone(), Ex::idx(k as i64)];
                                    n.store(&rows, &at, v);
                                }
                                let value = own.cast(DType::F32);
                                n.store(values, &[b.clone(), row.clone()], value);
                            }
                        }
                        n.set(&found, row + 1);
                        for (f, v) in mine.iter().enumerate() {
                            n.store(&held, &[kept.scalar(), Ex::idx(f as i64)], v.clone());
                        }
                        n.set(&kept, kept.scalar() + 1);
                    });
                    n.set(&next, j + 1);
                });
            });
            if !onnx {
                n.store(&counts, std::slice::from_ref(b), found.scalar());
            }
        });
        if onnx {
            n.store(&counts, &[Ex::idx(0)], found.scalar());
        }
    });
    Ok((rows, values, counts))
}
