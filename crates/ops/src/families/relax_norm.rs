//! Relax's norms over groups and instances, its dropout, and its negative log-likelihood loss.

use relax_loops::{Combiner, Ex, TensorRef};
use relax_sym::Dim;
use relax_tensor::DType as DT;

use super::relax_nn::{CENTER, EPSILON, SCALE};
use super::relax_rules::float_arg;
use super::util::{axis_attr, finish, finish_tuple, int_list, need_eq, shaped, word};
use super::util_te::{Done, moments, narrowed, normalised_rows, wide, widened};
use crate::AttrTy::{Float, Int, Ints, Str};
use crate::{AttrDef, Default, Fusion, Input, OpDef, RelCx, RelResult, Subject, Te, attr, input};

const INPUTS: &[Input] = &[
    input("data", "the input"),
    input("gamma", "the scale, one per channel"),
    input("beta", "the shift, one per channel"),
];
const CHANNEL: AttrDef = attr(
    "channel_axis",
    Int,
    Default::Required,
    "the axis of the channels",
);
const AXES: AttrDef = attr(
    "axes",
    Ints,
    Default::Required,
    "the other axes that are normalised",
);
const REDUCTION: AttrDef = attr(
    "reduction",
    Str,
    Default::Str("mean"),
    "`mean`, `sum` or `none`",
);
const IGNORED: AttrDef = attr(
    "ignore_index",
    Int,
    Default::Int(-100),
    "a class that does not count",
);
const LOSS: &[Input] = &[
    input("predictions", "(n, classes, …), log probabilities"),
    input(
        "targets",
        "(n, …), class numbers; behind them perhaps (classes,), weights",
    ),
];

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "relax.nn.group_norm",
        "Normalises groups of channels by their own mean and variance over further axes.",
        group_norm,
    )
    .full_precision()
    .layout(super::layout_rules::along_named_axes)
    .hinted(super::hinted::group_norm_over)
    .inputs(INPUTS)
    .attrs(&[
        attr(
            "num_groups",
            Int,
            Default::Required,
            "how many groups there are",
        ),
        CHANNEL,
        AXES,
        EPSILON,
        CENTER,
        SCALE,
    ])
    .fusion(Fusion::OutElementwise)
    .compute(|te| {
        let groups = te.int("num_groups")?;
        grouped(te, Some(groups))
    }),
    OpDef::new(
        "relax.nn.instance_norm",
        "Normalises each channel by its own mean and variance over further axes.",
        group_norm,
    )
    .full_precision()
    .layout(super::layout_rules::along_named_axes)
    .hinted(super::hinted::instance_norm_over)
    .inputs(INPUTS)
    .attrs(&[CHANNEL, AXES, EPSILON, CENTER, SCALE])
    .fusion(Fusion::OutElementwise)
    .compute(|te| grouped(te, None)),
    OpDef::new(
        "relax.nn.dropout",
        "The input, and the mask that keeps all of it: outside of training nothing is dropped.",
        dropout,
    )
    .inputs(&[input("data", "the input")])
    .attrs(&[attr(
        "rate",
        Float,
        Default::Float(0.5),
        "how much is dropped in training",
    )])
    .compute(dropout_compute),
    OpDef::new(
        "relax.nn.nll_loss",
        "The negative log likelihood of target classes, weighted where weights are given.",
        nll,
    )
    .inputs(LOSS)
    .variadic()
    .attrs(&[REDUCTION, IGNORED])
    .fusion(Fusion::OutElementwise)
    .compute(nll_compute),
    OpDef::new(
        "relax.grad.nll_loss_backward",
        "The gradient of the predictions of `nn.nll_loss`.",
        nll_backward,
    )
    .inputs(&[
        input("output_grad", "the gradient of the loss"),
        input("predictions", "(n, classes, …), log probabilities"),
        input(
            "targets",
            "(n, …), class numbers; behind them perhaps (classes,), weights",
        ),
    ])
    .variadic()
    .attrs(&[REDUCTION, IGNORED])
    .compute(nll_backward_compute),
];

fn group_norm(cx: &mut RelCx<'_>) -> RelResult {
    let whole = cx.tensor(0)?;
    let (dims, dtype) = shaped(cx, 0)?;
    float_arg(cx, 0)?;
    let mut channels = None;
    if let Some(dims) = &dims {
        let axis = axis_attr(cx, "channel_axis", dims.len())?;
        let mut seen = Vec::new();
        for v in int_list(cx, "axes")? {
            let a = cx.axis("axes", v, dims.len())?;
            if a == axis || seen.contains(&a) {
                return cx.refuse(Subject::Attr("axes"), format!("axis {v} is named twice"));
            }
            seen.push(a);
        }
        channels = Some(dims[axis].clone());
        if cx.attr("num_groups").as_int().is_some() {
            let groups = cx.int("num_groups")?;
            if groups < 1 {
                return cx.refuse(Subject::Attr("num_groups"), "there is at least one group");
            }
            super::util::need_multiple(
                cx,
                &dims[axis],
                groups,
                Subject::Arg(0),
                "the number of channels",
            )?;
        }
    }
    for i in [1, 2] {
        let (own, d) = shaped(cx, i)?;
        cx.require_dtype(
            dtype,
            d,
            Subject::Arg(i),
            "all inputs have one element type",
        )?;
        match own.as_deref() {
            Some([n]) => {
                if let Some(c) = &channels {
                    need_eq(
                        cx,
                        n,
                        c,
                        Subject::Arg(i),
                        "there is one number for each channel",
                    )?;
                }
            }
            Some(other) => {
                let rank = other.len();
                let message = format!("a vector is expected, not a tensor of rank {rank}");
                return cx.refuse(Subject::Arg(i), message);
            }
            None => {}
        }
    }
    super::util::finish_like(cx, whole, dtype)
}

/// Returns the means and variances of groups: channels `g * size … (g + 1) * size` over the axes.
fn grouped(te: &mut Te<'_>, groups: Option<i64>) -> Done {
    let (mut x, mut gamma, mut beta) = (te.arg(0), te.arg(1), te.arg(2));
    let (epsilon, center, scale) = (te.float("epsilon")?, te.flag("center"), te.flag("scale"));
    let channel = te.axis("channel_axis", x.rank())?;
    let (given, dtype) = (x.dtype, wide(x.dtype));
    let mut inner = vec![false; x.rank()];
    for v in te.ints("axes").unwrap_or_default() {
        let a = if v < 0 { v + x.rank() as i64 } else { v };
        let a = usize::try_from(a).ok().filter(|&a| a < x.rank());
        inner[a.ok_or("an axis is out of range")?] = true;
    }
    inner[channel] = false;
    // What is normalised at once lies in one row.
    let rows = scale && center && channel == 1 && !inner[0] && inner[2..].iter().all(|&i| i);
    if rows {
        [x, gamma, beta] = [&x, &gamma, &beta].map(|t| widened(te, t));
    }
    let count = x.shape[channel].clone();
    let whole = groups.unwrap_or(0);
    let groups = groups.map_or(count.clone(), Ex::idx);
    let size = count.floor_div(&groups);
    // Statistics have the axes that are not normalised, with the groups in the position of the
    // channels.
    let kept: Vec<usize> = (0..x.rank()).filter(|&a| !inner[a]).collect();
    let of_group = |a: usize, i: &Ex| {
        if a == channel {
            i.floor_div(&size)
        } else {
            i.clone()
        }
    };
    let extent = |&a: &usize| {
        if a == channel {
            groups.clone()
        } else {
            x.shape[a].clone()
        }
    };
    let shape: Vec<Ex> = kept.iter().map(extent).collect();
    let mut over = vec![size.clone()];
    over.extend(
        (0..x.rank())
            .filter(|&a| inner[a])
            .map(|a| x.shape[a].clone()),
    );
    let at = |i: &[Ex], r: &[Ex]| -> Ex {
        let (mut i, mut rest) = (i.iter(), r[1..].iter());
        let index = (0..x.rank()).map(|a| {
            let own = if inner[a] { rest.next() } else { i.next() };
            let own = own.cloned().unwrap_or(Ex::idx(0));
            if a == channel {
                &own * &size + &r[0]
            } else {
                own
            }
        });
        let index: Vec<Ex> = index.collect();
        x.at(&index).cast(dtype)
    };
    let moments = moments(te, &shape, &over, dtype, at);
    let y = te.compute("norm", &x.shape, |i| {
        let group: Vec<Ex> = kept.iter().map(|&a| of_group(a, &i[a])).collect();
        let mut v = moments.normal(x.at(i).cast(dtype), &group, epsilon);
        let c = std::slice::from_ref(&i[channel]);
        if scale {
            v = v * gamma.at(c).cast(dtype);
        }
        if center {
            v = v + beta.at(c).cast(dtype);
        }
        v.cast(x.dtype)
    });
    let y = narrowed(te, &y, given);
    if rows {
        let (given, gamma, beta) = (te.arg(0), te.arg(1), te.arg(2));
        normalised_rows(te, (&given, &y), (&gamma, Some(&beta)), epsilon, (1, whole));
    }
    te.output(&y);
    Ok(())
}

fn dropout(cx: &mut RelCx<'_>) -> RelResult {
    cx.tensor(0)?;
    let ty = cx.arg(0);
    finish_tuple(cx, vec![ty, ty])
}

fn dropout_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let y = te.compute("kept", &x.shape, |i| x.at(i));
    let mask = te.compute("mask", &x.shape, |_| Ex::float(x.dtype, 1.0));
    te.output(&y);
    te.output(&mask);
    Ok(())
}

/// Checks predictions, targets and weights, from argument `first` on, against each other; returns
/// the extents of the targets.
fn losses(cx: &mut RelCx<'_>, first: usize) -> RelResult<(Option<Vec<Dim>>, relax_ir::DTy)> {
    if !(first + 2..=first + 3).contains(&cx.args.len()) {
        let n = cx.args.len();
        return cx.refuse(
            Subject::Call,
            format!("predictions, targets and weights are expected, not {n} tensors"),
        );
    }
    let (predictions, mut dtype) = shaped(cx, first)?;
    let (targets, own) = shaped(cx, first + 1)?;
    if own.known().is_some_and(|d| !d.is_integral()) {
        return cx.refuse(
            Subject::Arg(first + 1),
            "the targets are numbers of classes, integers",
        );
    }
    if let (Some(p), Some(t)) = (&predictions, &targets) {
        if p.is_empty() || p.len() != t.len() + 1 {
            let text = format!(
                "the predictions have one axis more than the targets, not {} and {}",
                p.len(),
                t.len()
            );
            return cx.refuse(Subject::Arg(first + 1), text);
        }
        let class = usize::from(p.len() > 1);
        let rest: Vec<Dim> = (0..p.len())
            .filter(|&a| a != class)
            .map(|a| p[a].clone())
            .collect();
        for (a, b) in t.iter().zip(&rest) {
            need_eq(
                cx,
                a,
                b,
                Subject::Arg(first + 1),
                "predictions and targets agree in all axes but the classes'",
            )?;
        }
    }
    if cx.args.len() == first + 3 {
        let (weights, d) = shaped(cx, first + 2)?;
        dtype = cx.require_dtype(
            dtype,
            d,
            Subject::Arg(first + 2),
            "predictions and weights have one element type",
        )?;
        match (weights.as_deref(), &predictions) {
            (Some([n]), Some(p)) => {
                let classes = p[usize::from(p.len() > 1)].clone();
                need_eq(
                    cx,
                    n,
                    &classes,
                    Subject::Arg(first + 2),
                    "there is one weight for each class",
                )?;
            }
            (Some([_]) | None, _) => {}
            (Some(other), _) => {
                let rank = other.len();
                return cx.refuse(
                    Subject::Arg(first + 2),
                    format!("the weights are a vector, not of rank {rank}"),
                );
            }
        }
    }
    Ok((targets, dtype))
}

fn nll(cx: &mut RelCx<'_>) -> RelResult {
    let (targets, dtype) = losses(cx, 0)?;
    let none = word(cx, "reduction", &["mean", "sum", "none"])? == "none";
    match targets {
        _ if !none => finish(cx, Vec::new(), dtype),
        Some(dims) => finish(cx, dims, dtype),
        None => cx.finish_unranked(dtype),
    }
}

fn nll_backward(cx: &mut RelCx<'_>) -> RelResult {
    losses(cx, 1)?;
    word(cx, "reduction", &["mean", "sum", "none"])?;
    let ty = cx.arg(1);
    cx.set_out(ty)
}

/// Predictions, targets, and the weight of a class.
struct Loss {
    predictions: TensorRef,
    targets: TensorRef,
    weights: Option<TensorRef>,
    ignored: i64,
}

impl Loss {
    fn new(te: &Te<'_>, first: usize) -> Result<Loss, crate::ComputeError> {
        Ok(Loss {
            predictions: te.arg(first),
            targets: te.arg(first + 1),
            weights: (te.arg_count() > first + 2).then(|| te.arg(first + 2)),
            ignored: te.int("ignore_index")?,
        })
    }
    /// The weight of a target; 0 for an ignored one.
    fn weight(&self, i: &[Ex]) -> Ex {
        let class = self.targets.at(i);
        let one = Ex::float(self.predictions.dtype, 1.0);
        let own = match &self.weights {
            Some(w) => w.at(&[class.cast(DT::I64)]),
            None => one.clone(),
        };
        Ex::where_(&class.ne(self.ignored), &own, &one.same(0.0))
    }
    fn total_weight(&self, te: &mut Te<'_>) -> TensorRef {
        let shape = self.targets.shape.clone();
        te.reduce("weight", &[], &shape, Combiner::Sum, |_, r| self.weight(r))
    }
}

fn nll_compute(te: &mut Te<'_>) -> Done {
    let loss = Loss::new(te, 0)?;
    let value = |i: &[Ex]| {
        let class = loss.targets.at(i);
        let mut at = i.to_vec();
        at.insert(
            usize::from(loss.predictions.rank() > 1),
            class.cast(DT::I64),
        );
        let weight = loss.weight(i);
        // Ignored targets are not read.
        let own = Ex::where_(
            &class.ne(loss.ignored),
            &loss.predictions.at(&at),
            &weight.same(0.0),
        );
        -own * weight
    };
    let shape = loss.targets.shape.clone();
    let reduction = te.str("reduction");
    let y = if reduction == "none" {
        te.compute("nll", &shape, value)
    } else {
        let sum = te.reduce("sum", &[], &shape, Combiner::Sum, |_, r| value(r));
        if reduction == "sum" {
            sum
        } else {
            let weight = loss.total_weight(te);
            te.compute("mean", &[], |_| sum.scalar() / weight.scalar())
        }
    };
    te.output(&y);
    Ok(())
}

fn nll_backward_compute(te: &mut Te<'_>) -> Done {
    let (grad, loss) = (te.arg(0), Loss::new(te, 1)?);
    let class_axis = usize::from(loss.predictions.rank() > 1);
    let whole = (te.str("reduction") == "mean").then(|| loss.total_weight(te));
    let shape = loss.predictions.shape.clone();
    let y = te.compute("gradient", &shape, |i| {
        let mut at = i.to_vec();
        let class = at.remove(class_axis);
        let own = if grad.rank() == 0 {
            grad.scalar()
        } else {
            grad.at(&at)
        };
        let mut v = -own * loss.weight(&at);
        if let Some(whole) = &whole {
            v = v / whole.scalar();
        }
        let here = loss.targets.at(&at).cast(DT::I64).eq(class);
        Ex::where_(&here, &v, &v.same(0.0))
    });
    te.output(&y);
    Ok(())
}
