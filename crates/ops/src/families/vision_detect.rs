//! Anchor boxes, decoding the outputs of single-shot detectors, and YOLO's layout change.

use relax_loops::{Ex, UnOp};
use relax_sym::Dim;
use relax_tensor::DType;

use super::util::{finish, finish_tuple, need_eq, tensor_type};
use super::util_te::{Done, flat, product, unflat};
use super::vision_nms::of_rank;
use crate::AttrTy::{Bool, Float, Floats, Int};
use crate::{ComputeError, Default, Fusion, OpDef, RelCx, RelResult, Subject, Te, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "vision.multibox_prior",
        "Anchor boxes of several sizes and proportions around each element of an image.",
        prior,
    )
    .inputs(&[input("data", "(batch, channels, height, width)")])
    .attrs(&[
        attr(
            "sizes",
            Floats,
            Default::Floats(&[1.0]),
            "sizes of boxes, relative to the image",
        ),
        attr(
            "ratios",
            Floats,
            Default::Floats(&[1.0]),
            "proportions of boxes",
        ),
        attr(
            "steps",
            Floats,
            Default::Floats(&[-1.0, -1.0]),
            "steps along height and width; negative for the elements' own",
        ),
        attr(
            "offsets",
            Floats,
            Default::Floats(&[0.5, 0.5]),
            "where in an element the centre is",
        ),
        attr(
            "clip",
            Bool,
            Default::Bool(false),
            "whether boxes are cut off at the image's edges",
        ),
    ])
    .compute(prior_compute),
    OpDef::new(
        "vision.multibox_transform_loc",
        "Anchor boxes moved as predicted, with class and score: those that are no background, and \
         their number.",
        transform,
    )
    .inputs(&[
        input("cls_prob", "(batch, classes, anchors): probabilities"),
        input("loc_pred", "(batch, anchors * 4): predicted moves"),
        input("anchor", "(1, anchors, 4): the boxes"),
    ])
    .attrs(&[
        attr(
            "clip",
            Bool,
            Default::Bool(true),
            "whether boxes are cut off at the image's edges",
        ),
        attr(
            "threshold",
            Float,
            Default::Float(0.01),
            "the least probability of a box",
        ),
        attr(
            "variances",
            Floats,
            Default::Floats(&[0.1f32 as f64, 0.1f32 as f64, 0.2f32 as f64, 0.2f32 as f64]),
            "factors of the predicted moves",
        ),
        attr(
            "keep_background",
            Bool,
            Default::Bool(false),
            "whether boxes of the class 0, the background, are kept",
        ),
    ])
    .compute(transform_compute),
    OpDef::new(
        "vision.yolo_reorg",
        "Blocks of space moved to channels, in the order that YOLO uses.",
        reorg,
    )
    .inputs(&[input("data", "(batch, channels, height, width)")])
    .attrs(&[attr("stride", Int, Default::Int(1), "the side of a block")])
    .fusion(Fusion::Injective)
    .compute(reorg_compute),
];

/// A list of numbers.
pub(super) fn numbers(te: &Te<'_>, name: &str) -> Result<Vec<f64>, ComputeError> {
    let list = te.attr(name).as_array().unwrap_or(&[]);
    let list: Option<Vec<f64>> = list.iter().map(|v| v.as_float()).collect();
    list.ok_or_else(|| format!("`{name}` must be a list of numbers").into())
}

/// Returns the length of a list attribute; refuses one shorter than `least`.
pub(super) fn count(cx: &RelCx<'_>, name: &'static str, least: usize) -> RelResult<usize> {
    let n = cx.attr(name).as_array().map_or(0, <[_]>::len);
    if n < least {
        let text = format!("`{name}` needs at least {least} numbers, not {n}");
        return cx.refuse(Subject::Attr(name), text);
    }
    Ok(n)
}

fn f32(v: f64) -> Ex {
    Ex::float(DType::F32, v)
}

fn prior(cx: &mut RelCx<'_>) -> RelResult {
    let d = of_rank(cx, 0, 4)?;
    let each = count(cx, "sizes", 1)? + count(cx, "ratios", 1)? - 1;
    count(cx, "steps", 2)?;
    count(cx, "offsets", 2)?;
    let boxes = &d[2] * &d[3] * Dim::from(each as i64);
    let dtype = cx.tensor(0)?.dtype;
    finish(cx, vec![Dim::ONE, boxes, Dim::from(4)], dtype)
}

fn prior_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let [sizes, ratios, steps, offsets] = [
        numbers(te, "sizes")?,
        numbers(te, "ratios")?,
        numbers(te, "steps")?,
        numbers(te, "offsets")?,
    ];
    let (clip, dtype) = (te.flag("clip"), te.out(0).dtype);
    let each = sizes.len() + ratios.len() - 1;
    let (height, width) = (x.shape[2].clone(), x.shape[3].clone());
    let shape = [Ex::idx(1), &height * &width * each as i64, Ex::idx(4)];
    // Half the width and height of each kind of box, in the image's units.
    let sides: Vec<(Ex, Ex)> = (0..each)
        .map(|k| {
            let size = f32(sizes[if k < sizes.len() { k } else { 0 }]);
            let w = &size * &height.cast(DType::F32) / width.cast(DType::F32);
            if k < sizes.len() {
                return (w / f32(2.0), size / f32(2.0));
            }
            let root = f32(ratios[k - sizes.len() + 1]).unary(UnOp::Sqrt);
            (w * &root / f32(2.0), size / root / f32(2.0))
        })
        .collect();
    let y = te.compute("prior", &shape, |i| {
        let kind = i[1].floor_mod(each as i64);
        let cell = i[1].floor_div(each as i64);
        let centre = |k: usize, at: &Ex, extent: &Ex| {
            let step = if steps[k] > 0.0 {
                f32(steps[k])
            } else {
                f32(1.0) / extent.cast(DType::F32)
            };
            (at.cast(DType::F32) + f32(offsets[k])) * step
        };
        let (cy, cx) = (
            centre(0, &cell.floor_div(&width), &height),
            centre(1, &cell.floor_mod(&width), &width),
        );
        let pick = |f: &dyn Fn(&(Ex, Ex)) -> Ex| {
            let last = f(&sides[each - 1]);
            (0..each - 1).rev().fold(last, |rest, k| {
                Ex::where_(&kind.eq(k as i64), &f(&sides[k]), &rest)
            })
        };
        let (w, h) = (pick(&|s| s.0.clone()), pick(&|s| s.1.clone()));
        let corners = [&cx - &w, &cy - &h, &cx + &w, &cy + &h];
        let last = corners[3].clone();
        let v = (0..3).rev().fold(last, |rest, k| {
            Ex::where_(&i[2].eq(k as i64), &corners[k], &rest)
        });
        let v = if clip { v.min(1i64).max(0i64) } else { v };
        v.cast(dtype)
    });
    te.output(&y);
    Ok(())
}

fn transform(cx: &mut RelCx<'_>) -> RelResult {
    let (cls, loc, anchor) = (of_rank(cx, 0, 3)?, of_rank(cx, 1, 2)?, of_rank(cx, 2, 3)?);
    need_eq(
        cx,
        &cls[2],
        &anchor[1],
        Subject::Arg(2),
        "there is one probability for each anchor",
    )?;
    let four = Dim::from(4);
    need_eq(
        cx,
        &(&cls[2] * &four),
        &loc[1],
        Subject::Arg(1),
        "each anchor has four predicted moves",
    )?;
    need_eq(
        cx,
        &anchor[2],
        &four,
        Subject::Arg(2),
        "each anchor has four coordinates",
    )?;
    if anchor[1].as_const() == Some(0) {
        return cx.refuse(Subject::Arg(2), "there must be at least one anchor");
    }
    count(cx, "variances", 4)?;
    let dtype = cx.tensor(0)?.dtype;
    let boxes = vec![cls[0].clone(), anchor[1].clone(), Dim::from(6)];
    let fields = vec![
        tensor_type(cx, boxes, dtype)?,
        tensor_type(cx, vec![cls[0].clone()], DType::I32)?,
    ];
    finish_tuple(cx, fields)
}

fn transform_compute(te: &mut Te<'_>) -> Done {
    let (cls, loc, anchor) = (te.arg(0), te.arg(1), te.arg(2));
    let (clip, threshold) = (te.flag("clip"), te.float("threshold")?);
    // The first class considered, and the number that classes are counted from.
    let first = i64::from(!te.flag("keep_background"));
    let variances = numbers(te, "variances")?;
    let [batch, classes, anchors] = [0, 1, 2].map(|k| cls.shape[k].clone());
    let t = cls.dtype;
    let out = te.temp("boxes", t, &[batch.clone(), anchors.clone(), Ex::idx(6)]);
    let counts = te.temp("count", DType::I32, std::slice::from_ref(&batch));
    te.nest(|n| {
        // TVM leaves the rest uninitialised; here it is 0.
        n.grid(&out.shape.clone(), |n, i| n.store(&out, i, 0i64));
        n.for_(batch.clone(), |n, b| {
            let found = n.cell(Ex::idx(0));
            let (score, class) = (n.cell(Ex::float(t, -1.0)), n.cell(Ex::idx(0)));
            n.for_(anchors.clone(), |n, j| {
                n.set(&score, -1i64);
                n.set(&class, 0i64);
                n.for_((&classes - first).max(0i64), |n, k| {
                    let p = n.let_(cls.at(&[b.clone(), k + first, j.clone()]));
                    let better = p.gt(score.scalar());
                    n.set(&class, Ex::where_(&better, &(k + first), &class.scalar()));
                    n.set(&score, p.max(score.scalar()));
                });
                let limit = Ex::float(DType::F32, threshold).cast(t);
                let good = class.scalar().gt(0i64) & score.scalar().ge(limit);
                if first == 0 {
                    // Boxes with a low score are background.
                    n.set(&class, Ex::where_(&good, &class.scalar(), &Ex::idx(0)));
                }
                let kept = if first == 0 {
                    class.scalar().ge(0i64)
                } else {
                    good
                };
                n.if_(kept, |n| {
                    let row = n.let_(found.scalar());
                    let a = |k: i64| anchor.at(&[Ex::idx(0), j.clone(), Ex::idx(k)]).cast(t);
                    let p = |k: i64| loc.at(&[b.clone(), j * 4 + k]).cast(t);
                    let v = |k: usize| f32(variances[k]).cast(t);
                    let two = Ex::float(t, 2.0);
                    let axis = |k: i64| {
                        let extent = a(k + 2) - a(k);
                        let centre = (a(k) + a(k + 2)) / &two;
                        let moved = p(k) * v(k as usize) * &extent + centre;
                        let grown = (p(k + 2) * v(k as usize + 2)).unary(UnOp::Exp);
                        (moved, grown * extent / &two)
                    };
                    let ((x, w), (y, h)) = (axis(0), axis(1));
                    let cut = |e: Ex| {
                        if clip {
                            e.same(0.0).max(e.same(1.0).min(e))
                        } else {
                            e
                        }
                    };
                    let fields = [
                        (class.scalar() - first).cast(t),
                        score.scalar(),
                        cut(&x - &w),
                        cut(&y - &h),
                        cut(x + w),
                        cut(y + h),
                    ];
                    for (k, value) in fields.into_iter().enumerate() {
                        n.store(&out, &[b.clone(), row.clone(), Ex::idx(k as i64)], value);
                    }
                    n.set(&found, row + 1);
                });
            });
            n.store(
                &counts,
                std::slice::from_ref(b),
                found.scalar().cast(DType::I32),
            );
        });
    });
    te.output(&out);
    te.output(&counts);
    Ok(())
}

fn reorg(cx: &mut RelCx<'_>) -> RelResult {
    let d = of_rank(cx, 0, 4)?;
    let s = cx.int("stride")?;
    let square = s.checked_mul(s);
    let Some(square) = square.filter(|_| s > 0) else {
        let text = format!("`stride={s}` must be positive");
        return cx.refuse(Subject::Attr("stride"), text);
    };
    let dtype = cx.tensor(0)?.dtype;
    let part = |d: &Dim| d.floordiv(&Dim::from(s));
    let out = vec![
        d[0].clone(),
        &d[1] * &Dim::from(square),
        part(&d[2]),
        part(&d[3]),
    ];
    finish(cx, out, dtype)
}

fn reorg_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let s = te.int("stride")?;
    let part = |d: &Ex| d.floor_div(s);
    let shape = [
        x.shape[0].clone(),
        &x.shape[1] * (s * s),
        part(&x.shape[2]),
        part(&x.shape[3]),
    ];
    let y = te.compute("reorg", &shape, |i| {
        // The position within one image, read as (channel, row, column) of the data; these
        // determine an element of the image viewed as (channels / s², height * s, width * s).
        let own = &x.shape[1..];
        let k = unflat(&flat(&i[1..], &shape[1..]), own);
        let wide = own[0].floor_div(s * s);
        let (c, offset) = (k[0].floor_mod(&wide), k[0].floor_div(&wide));
        let row = &k[1] * s + offset.floor_div(s);
        let column = &k[2] * s + offset.floor_mod(s);
        let at = (c * (&own[1] * s) + row) * (&own[2] * s) + column;
        let mut index = vec![i[0].clone()];
        index.extend(unflat(&at.min(product(own) - 1), own));
        x.at(&index)
    });
    te.output(&y);
    Ok(())
}
