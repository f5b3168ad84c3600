//! The computations of operators that TVM added after 0.12.

use relax_loops::{Combiner, Ex, Nest, TensorRef, UnOp};
use relax_tensor::DType;

use super::nn_pool::window_of;
use super::qnn_util::{Rescale, saturate, shifted};
use super::sorting::stable_order;
use super::util_te::Done;
use crate::Te;

/// Softmax of integers by shifts: `2^x` approximates `e^(x / ln 2)`, with linear interpolation
/// between powers. This follows TVM's expansion of the operator step by step; results have seven
/// bits before they are rescaled.
pub(super) fn softmax(te: &mut Te<'_>) -> Done {
    const ONE: i64 = 1 << 30;
    const BITS: i64 = 7;
    let (x, scale, zero) = (te.arg(0), te.arg(1), te.arg(2));
    let (to, zero_out) = (te.arg(3), te.arg(4));
    let axis = te.axis("axis", x.rank())?;
    let dtype = te.out(0).dtype;
    let over = [x.shape[axis].clone()];
    let mut outer = x.shape.clone();
    outer[axis] = Ex::idx(1);
    let along = |i: &[Ex], r: &[Ex]| {
        let mut at = i.to_vec();
        at[axis] = r[0].clone();
        at
    };
    let reduced = |i: &[Ex]| {
        let mut at = i.to_vec();
        at[axis] = Ex::idx(0);
        at
    };
    let i32c = |v: i64| Ex::int(DType::I32, v);
    te.nest(|n| {
        let fits = scale.scalar().le(1.0) & scale.scalar().gt(0.0);
        n.assert(fits, "the scale of the input lies between 0 and 1");
    });
    // The value 1 in units of the input.
    let unit = te.compute("unit", &[], |_| {
        let one = Ex::float(DType::F32, 1.0);
        (one / scale.scalar()).unary(UnOp::Round).cast(DType::I32)
    });
    let most = te.reduce("most", &outer, &over, Combiner::Max, |i, r| {
        shifted(&x.at(&along(i, r)), &zero, i, None)
    });
    let scaled = te.compute("scaled", &x.shape, |i| {
        let below = shifted(&x.at(i), &zero, i, None) - most.at(&reduced(i));
        &below + &below.shr(1i64) - below.shr(4i64)
    });
    let whole = te.compute("whole", &x.shape, |i| {
        let quotient = scaled.at(i) / (i32c(0) - unit.scalar());
        quotient.max(0i64).min(20i64)
    });
    let most_whole = te.reduce("most_whole", &outer, &over, Combiner::Max, |i, r| {
        whole.at(&along(i, r))
    });
    let powers = te.compute("powers", &x.shape, |i| {
        let rest = scaled.at(i) + whole.at(i) * unit.scalar();
        let base = rest.shr(1i64) + unit.scalar();
        base.shl(most_whole.at(&reduced(i)) - whole.at(i))
    });
    let sums = te.reduce("sums", &outer, &over, Combiner::Sum, |i, r| {
        powers.at(&along(i, r))
    });
    let from = te.compute("from", &[], |_| {
        Ex::float(DType::F32, 1.0 / f64::from(1 << BITS))
    });
    let none = te.compute("none", &[], |_| i32c(0));
    let rescale = Rescale::new(te, &from, &to, None);
    let y = te.compute("softmax", &x.shape, |i| {
        let share = (i32c(ONE) / sums.at(&reduced(i))) * powers.at(i);
        let value = shifted(&share.shr(30 - BITS), &none, i, None);
        saturate(&rescale.apply(&value, i, &zero_out), dtype)
    });
    te.output(&y);
    Ok(())
}

/// The mean over windows, of values rescaled to the result's scale first.
pub(super) fn avg_pool2d(te: &mut Te<'_>) -> Done {
    let (x, from, zero) = (te.arg(0), te.arg(1), te.arg(2));
    let (to, zero_out) = (te.arg(3), te.arg(4));
    let dtype = te.out(0).dtype;
    let rescale = Rescale::new(te, &from, &to, None);
    let wide = te.compute("rescaled", &x.shape, |i| {
        rescale.apply(&shifted(&x.at(i), &zero, i, None), i, &zero_out)
    });
    let mean = window_of(te, &wide, 2, false)?;
    let y = te.compute("saturated", &mean.shape, |i| saturate(&mean.at(i), dtype));
    te.output(&y);
    Ok(())
}

/// The boxes selected so far: their number, indices, classes and scores.
struct Chosen {
    count: TensorRef,
    boxes: TensorRef,
    classes: TensorRef,
    scores: TensorRef,
}

/// For each class, the boxes in descending order of score, without those that overlap an earlier
/// one too much; then the best over all classes. Among equal scores the earlier class and box comes
/// first.
pub(super) fn suppression(te: &mut Te<'_>) -> Done {
    let (boxes, scores) = (te.arg(0), te.arg(1));
    let (most, classes) = (te.int("max_detections")?, te.int("num_classes")?);
    let batch = boxes.shape[0].clone();
    let each = boxes.shape[1].clone();
    let rows = [batch.clone(), Ex::idx(most)];
    let out_boxes = te.temp(
        "found",
        DType::F32,
        &[batch.clone(), Ex::idx(most), Ex::idx(4)],
    );
    let out_classes = te.temp("classes", DType::F32, &rows);
    let out_scores = te.temp("scores", DType::F32, &rows);
    let out_count = te.temp("count", DType::I32, &rows[..1]);
    let limits = Limits {
        per_class: te.int("max_detections_per_class")?,
        overlap: te.float("iou_threshold")?,
        score: te.float("score_threshold")?,
    };
    te.nest(|n| {
        let background = n.let_(&scores.shape[2] - classes);
        n.assert(background.ge(0i64), "there is a score for each class");
        n.for_(batch.clone(), |n, b| {
            let room = n.let_((&each * classes).max(1i64));
            let chosen = Chosen {
                count: n.cell(Ex::idx(0)),
                boxes: n.local("boxes", DType::I64, std::slice::from_ref(&room)),
                classes: n.local("of", DType::I64, std::slice::from_ref(&room)),
                scores: n.local("with", DType::F32, std::slice::from_ref(&room)),
            };
            n.for_(Ex::idx(classes), |n, c| {
                let score = |k: &Ex| scores.at(&[b.clone(), k.clone(), c + &background]);
                let field = |k: &Ex, f: i64| boxes.at(&[b.clone(), k.clone(), Ex::idx(f)]);
                of_class(n, &limits, &each, c, &chosen, &score, &field);
            });
            let count = n.let_(chosen.count.scalar());
            let order = stable_order(n, &count, &room, |p, q| {
                let key = |k: &Ex| chosen.scores.at(std::slice::from_ref(k));
                key(p).gt(key(q))
            });
            n.for_(Ex::idx(most), |n, j| {
                let at = [b.clone(), j.clone()];
                let place = |f: i64| [b.clone(), j.clone(), Ex::idx(f)];
                n.if_else(
                    j.lt(&count),
                    |n| {
                        let row = [n.let_(order.at(std::slice::from_ref(j)))];
                        let from = n.let_(chosen.boxes.at(&row));
                        for f in 0..4 {
                            let value = boxes.at(&[b.clone(), from.clone(), Ex::idx(f)]);
                            n.store(&out_boxes, &place(f), value);
                        }
                        n.store(&out_classes, &at, chosen.classes.at(&row).cast(DType::F32));
                        n.store(&out_scores, &at, chosen.scores.at(&row));
                    },
                    |n| {
                        for f in 0..4 {
                            n.store(&out_boxes, &place(f), 0i64);
                        }
                        n.store(&out_classes, &at, 0i64);
                        n.store(&out_scores, &at, 0i64);
                    },
                );
            });
            let found = count.min(most).cast(DType::I32);
            n.store(&out_count, std::slice::from_ref(b), found);
        });
    });
    for t in [&out_boxes, &out_classes, &out_scores, &out_count] {
        te.output(t);
    }
    Ok(())
}

/// The limits of box selection.
struct Limits {
    per_class: i64,
    overlap: f64,
    score: f64,
}

/// Chooses boxes of a class.
fn of_class(
    n: &mut Nest<'_>,
    limits: &Limits,
    each: &Ex,
    class: &Ex,
    chosen: &Chosen,
    score: &dyn Fn(&Ex) -> Ex,
    field: &dyn Fn(&Ex, i64) -> Ex,
) {
    let room = [n.let_(each.max(1i64))];
    let good = n.local("good", DType::I64, &room);
    let (count, first) = (n.cell(Ex::idx(0)), n.let_(chosen.count.scalar()));
    n.for_(each.clone(), |n, k| {
        n.if_(score(k).ge(limits.score), |n| {
            n.store(&good, &[count.scalar()], k);
            n.set(&count, count.scalar() + 1);
        });
    });
    let count = n.let_(count.scalar());
    let candidate = |k: &Ex| good.at(std::slice::from_ref(k));
    let order = stable_order(n, &count, &room[0], |p, q| {
        score(&candidate(p)).gt(score(&candidate(q)))
    });
    let keep = n.cell(Ex::bool(true));
    n.for_(count, |n, k| {
        let taken = n.let_(chosen.count.scalar());
        n.if_((&taken - &first).lt(limits.per_class), |n| {
            let row = n.let_(order.at(std::slice::from_ref(k)));
            let mine = n.let_(candidate(&row));
            n.set(&keep, Ex::bool(true));
            n.for_(&taken - &first, |n, j| {
                let other = n.let_(chosen.boxes.at(&[&first + j]));
                let share = overlap(n, &|f| field(&other, f), &|f| field(&mine, f));
                n.if_(share.gt(limits.overlap), |n| {
                    n.set(&keep, Ex::bool(false));
                });
            });
            n.if_(keep.scalar(), |n| {
                let at = std::slice::from_ref(&taken);
                n.store(&chosen.boxes, at, &mine);
                n.store(&chosen.classes, at, class);
                n.store(&chosen.scores, at, score(&mine));
                n.set(&chosen.count, &taken + 1);
            });
        });
    });
}

/// Returns the intersection of two boxes over their union; 0 where one of them has no area.
fn overlap(n: &mut Nest<'_>, a: &dyn Fn(i64) -> Ex, b: &dyn Fn(i64) -> Ex) -> Ex {
    let area = |c: &dyn Fn(i64) -> Ex| (c(2) - c(0)) * (c(3) - c(1));
    let (first, second) = (n.let_(area(a)), n.let_(area(b)));
    let zero = first.same(0.0);
    let side = |low: i64, high: i64| (a(high).min(b(high)) - a(low).max(b(low))).max(&zero);
    let common = n.let_(side(0, 2) * side(1, 3));
    let share = &common / &(&first + &second - &common);
    n.let_(Ex::where_(&(first.gt(0.0) & second.gt(0.0)), &share, &zero))
}
