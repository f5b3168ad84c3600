//! Region proposals.

use relax_loops::{Ex, Nest, TensorRef, UnOp};
use relax_sym::Dim;
use relax_tensor::DType;

use super::sorting::stable_order;
use super::util::{finish, need_eq};
use super::util_te::Done;
use super::vision_detect::{count, numbers};
use super::vision_nms::of_rank;
use crate::AttrTy::{Bool, Float, Floats, Int};
use crate::{Default, OpDef, RelCx, RelResult, Subject, Te, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[OpDef::new(
    "vision.proposal",
    "Regions that a region proposal network finds worth a look.",
    proposal,
)
.inputs(&[
    input("cls_prob", "(batch, 2 * anchors, height, width): scores"),
    input(
        "bbox_pred",
        "(batch, 4 * anchors, height, width): predicted moves",
    ),
    input(
        "im_info",
        "(batch, 3): height, width and scale of each image",
    ),
])
.attrs(&[
    attr(
        "scales",
        Floats,
        Default::Floats(&[4.0, 8.0, 16.0, 32.0]),
        "scales of anchors",
    ),
    attr(
        "ratios",
        Floats,
        Default::Floats(&[0.5, 1.0, 2.0]),
        "proportions of anchors",
    ),
    attr(
        "feature_stride",
        Int,
        Default::Int(16),
        "image elements for each element of the data",
    ),
    attr(
        "threshold",
        Float,
        Default::Float(0.7),
        "the overlap from which a region is dropped",
    ),
    attr(
        "rpn_pre_nms_top_n",
        Int,
        Default::Int(6000),
        "regions looked at",
    ),
    attr(
        "rpn_post_nms_top_n",
        Int,
        Default::Int(300),
        "regions given, repeated where too few",
    ),
    attr(
        "rpn_min_size",
        Int,
        Default::Int(16),
        "the least side of a region",
    ),
    attr(
        "iou_loss",
        Bool,
        Default::Bool(false),
        "whether moves are of corners",
    ),
])
.meta_attrs("relay.attrs.ProposalAttrs")
.compute(proposal_compute)];

fn proposal(cx: &mut RelCx<'_>) -> RelResult {
    let (cls, pred, info) = (of_rank(cx, 0, 4)?, of_rank(cx, 1, 4)?, of_rank(cx, 2, 2)?);
    need_eq(
        cx,
        &info[1],
        &Dim::from(3),
        Subject::Arg(2),
        "each image has height, width and scale",
    )?;
    let anchors = (count(cx, "scales", 1)? * count(cx, "ratios", 1)?) as i64;
    need_eq(
        cx,
        &cls[1],
        &Dim::from(anchors * 2),
        Subject::Arg(0),
        "there are two scores for each anchor, one anchor for each scale and ratio",
    )?;
    need_eq(
        cx,
        &pred[1],
        &Dim::from(anchors * 4),
        Subject::Arg(1),
        "there are four predicted moves for each anchor",
    )?;
    for name in ["feature_stride", "rpn_post_nms_top_n"] {
        let v = cx.int(name)?;
        if v < 1 {
            return cx.refuse(
                Subject::Attr(name),
                format!("`{name}={v}` must be positive"),
            );
        }
    }
    let rows = &cls[0] * &Dim::from(cx.int("rpn_post_nms_top_n")?);
    let dtype = cx.tensor(0)?.dtype;
    finish(cx, vec![rows, Dim::from(5)], dtype)
}

/// Returns the corners of the anchor of one ratio and scale around a block of side `base`.
fn anchor_of(ratio: f64, scale: f64, base: f64) -> [f64; 4] {
    let centre = 0.5 * (base - 1.0);
    let area = (base * base / ratio).floor();
    let w = (area.sqrt() + 0.5).floor() * scale;
    let h = (w / scale * ratio + 0.5).floor() * scale;
    let (w, h) = (0.5 * (w - 1.0), 0.5 * (h - 1.0));
    [centre - w, centre - h, centre + w, centre + h]
}

fn proposal_compute(te: &mut Te<'_>) -> Done {
    let (cls, pred, info) = (te.arg(0), te.arg(1), te.arg(2));
    let (scales, ratios) = (numbers(te, "scales")?, numbers(te, "ratios")?);
    let [stride, before, after, least] = [
        "feature_stride",
        "rpn_pre_nms_top_n",
        "rpn_post_nms_top_n",
        "rpn_min_size",
    ]
    .map(|a| te.int(a));
    let (stride, before, after, least) = (stride?, before?, after?, least?);
    let (limit, corners) = (te.float("threshold")?, te.flag("iou_loss"));
    let t = pred.dtype;
    let anchors: Vec<[f64; 4]> = ratios
        .iter()
        .flat_map(|&r| scales.iter().map(move |&s| anchor_of(r, s, stride as f64)))
        .collect();
    let [batch, height, width] = [0, 2, 3].map(|k| cls.shape[k].clone());
    let kinds = anchors.len() as i64;
    let all = &height * &width * kinds;
    let seen = if before > 0 {
        all.min(before)
    } else {
        all.clone()
    };
    let boxes = te.temp("boxes", t, &[batch.clone(), all.clone(), Ex::idx(5)]);
    let dtype = te.out(0).dtype;
    let out = te.temp("proposals", dtype, &[&batch * after, Ex::idx(5)]);
    te.nest(|n| {
        n.grid(&[batch.clone(), height.clone(), width.clone()], |n, i| {
            let (b, h, w) = (&i[0], &i[1], &i[2]);
            for (k, anchor) in anchors.iter().enumerate() {
                predict(
                    n,
                    [&cls, &pred, &info, &boxes],
                    anchor,
                    (k, kinds, stride, least, corners),
                    b,
                    h,
                    w,
                );
            }
        });
        n.grid(&out.shape.clone(), |n, i| n.store(&out, i, 0i64));
        n.for_(batch.clone(), |n, b| {
            let at = |i: &Ex, k: i64| boxes.at(&[b.clone(), i.clone(), Ex::idx(k)]);
            let order = stable_order(n, &all, &all, |p, q| at(p, 4).gt(at(q, 4)));
            let dropped = n.local("dropped", DType::BOOL, std::slice::from_ref(&seen));
            let kept = n.cell(Ex::idx(0));
            n.for_(seen.clone(), |n, i| {
                n.store(&dropped, std::slice::from_ref(i), Ex::bool(false))
            });
            n.for_(seen.clone(), |n, i| {
                n.if_(!dropped.at(std::slice::from_ref(i)), |n| {
                    n.set(&kept, kept.scalar() + 1);
                    let mine = n.let_(order.at(std::slice::from_ref(i)));
                    n.for_(&seen - i - 1, |n, j| {
                        let j = n.let_(i + 1 + j);
                        let other = n.let_(order.at(std::slice::from_ref(&j)));
                        let iou = overlap(|k| at(&mine, k), |k| at(&other, k));
                        n.if_(iou.gt(Ex::float(t, limit)), |n| {
                            n.store(&dropped, std::slice::from_ref(&j), Ex::bool(true));
                        });
                    });
                });
            });
            // The remaining regions, repeated until there are enough.
            let filled = n.cell(Ex::idx(0));
            n.while_(kept.scalar().gt(0i64) & filled.scalar().lt(after), |n| {
                n.for_(seen.clone(), |n, i| {
                    let take = !dropped.at(std::slice::from_ref(i)) & filled.scalar().lt(after);
                    n.if_(take, |n| {
                        let row = n.let_(b * after + filled.scalar());
                        let from = n.let_(order.at(std::slice::from_ref(i)));
                        n.store(&out, &[row.clone(), Ex::idx(0)], b.cast(out.dtype));
                        for k in 0..4 {
                            let value = at(&from, k).cast(out.dtype);
                            n.store(&out, &[row.clone(), Ex::idx(k + 1)], value);
                        }
                        n.set(&filled, filled.scalar() + 1);
                    });
                });
            });
        });
    });
    te.output(&out);
    Ok(())
}

/// Writes the region that one anchor predicts at one position, and its score.
fn predict(
    n: &mut Nest<'_>,
    [cls, pred, info, boxes]: [&TensorRef; 4],
    anchor: &[f64; 4],
    (k, kinds, stride, least, corners): (usize, i64, i64, i64, bool),
    b: &Ex,
    h: &Ex,
    w: &Ex,
) {
    let t = boxes.dtype;
    let k = k as i64;
    let c = |v: f64| Ex::float(t, v);
    let about = |f: i64| info.at(&[b.clone(), Ex::idx(f)]).cast(t);
    let place = |v: f64, at: &Ex| c(v) + (at * stride).cast(t);
    let from = [
        place(anchor[0], w),
        place(anchor[1], h),
        place(anchor[2], w),
        place(anchor[3], h),
    ];
    let delta = |i: i64| pred.at(&[b.clone(), Ex::idx(k * 4 + i), h.clone(), w.clone()]);
    let moved: Vec<Ex> = if corners {
        (0..4).map(|i| &from[i] + &delta(i as i64)).collect()
    } else {
        let axis = |i: usize| {
            let extent = &from[i + 2] - &from[i] + c(1.0);
            let centre = &from[i] + &(c(0.5) * (&extent - &c(1.0)));
            let centre = delta(i as i64) * &extent + centre;
            let extent = delta(i as i64 + 2).unary(UnOp::Exp) * extent;
            let half = c(0.5) * (extent - c(1.0));
            (&centre - &half, centre + half)
        };
        let ((x1, x2), (y1, y2)) = (axis(0), axis(1));
        vec![x1, y1, x2, y2]
    };
    let limits = [about(1), about(0)];
    let cut: Vec<Ex> = (moved.iter().enumerate())
        .map(|(i, v)| n.let_(v.min(&limits[i % 2] - &c(1.0)).max(0i64)))
        .collect();
    let real = |f: i64| (about(f) / c(stride as f64)).cast(DType::I64);
    let small = n.let_(about(2) * c(least as f64));
    let outside = h.ge(real(0)) | w.ge(real(1));
    let score = cls
        .at(&[b.clone(), Ex::idx(kinds + k), h.clone(), w.clone()])
        .cast(t);
    let score = Ex::where_(&outside, &c(-1.0), &score);
    let extent = |i: usize| &cut[i + 2] - &cut[i] + c(1.0);
    let tiny = n.let_(extent(0).lt(&small) | extent(1).lt(&small));
    let row = n.let_((h * &cls.shape[3] + w) * kinds + k);
    let half = &small / &c(2.0);
    for (i, side) in cut.iter().enumerate() {
        let grown = if i < 2 { side - &half } else { side + &half };
        let value = Ex::where_(&tiny, &grown, side);
        n.store(boxes, &[b.clone(), row.clone(), Ex::idx(i as i64)], value);
    }
    let score = Ex::where_(&tiny, &c(-1.0), &score);
    n.store(boxes, &[b.clone(), row, Ex::idx(4)], score);
}

/// Returns the intersection of two regions over their union; sides include both ends.
fn overlap(a: impl Fn(i64) -> Ex, b: impl Fn(i64) -> Ex) -> Ex {
    let one = a(0).same(1.0);
    let side = |k: i64| {
        let d = a(k + 2).min(b(k + 2)) - a(k).max(b(k)) + &one;
        d.same(0.0).max(d)
    };
    let area = side(0) * side(1);
    let whole = |c: &dyn Fn(i64) -> Ex| (c(2) - c(0) + &one) * (c(3) - c(1) + &one);
    let union = whole(&a) + whole(&b) - &area;
    area / union
}
