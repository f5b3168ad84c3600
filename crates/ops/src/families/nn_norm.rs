//! Normalisation: softmax and its variants, and the norms over batches, layers, groups, instances.

use relax_loops::{Combiner, Ex, Hint, TensorRef, UnOp};
use relax_sym::Dim;

use super::elementwise::identity;
use super::util_te::{narrowed, normalised_rows, set, wide, widened, with, without};
use crate::{
    AttrDef, AttrTy, ComputeError, DTy, Default, Fusion, Input, OpDef, RelCx, RelResult, Subject,
    Te, attr, input,
};

const AXIS_LAST: &[AttrDef] = &[attr(
    "axis",
    AttrTy::Int,
    Default::Int(-1),
    "the axis that is normalised",
)];
const DATA: &[Input] = &[input("data", "the input")];
const NORM_INPUTS: &[Input] = &[
    input("data", "the input"),
    input("gamma", "the scale, one per index of the axis"),
    input("beta", "the shift, one per index of the axis"),
];
const EPSILON: AttrDef = attr(
    "epsilon",
    AttrTy::Float,
    Default::Float(1e-5),
    "added to the variance",
);
const CENTER: AttrDef = attr(
    "center",
    AttrTy::Bool,
    Default::Bool(true),
    "whether `beta` is added",
);
const SCALE: AttrDef = attr(
    "scale",
    AttrTy::Bool,
    Default::Bool(true),
    "whether `gamma` multiplies",
);

macro_rules! norm_attrs {
    ($axis:literal $(, $first:expr)*) => {
        &[
            $($first,)*
            attr("axis", AttrTy::Int, Default::Int($axis), "the axis of `gamma` and `beta`"),
            EPSILON,
            CENTER,
            SCALE,
        ]
    };
}

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "nn.softmax",
        "`exp(x) / sum(exp(x))` along an axis, the maximum taken off first.",
        softmax_rel,
    )
    .full_precision()
    .fast_form("nn.fast_softmax")
    .layout(super::layout_rules::along_axis)
    .cost(super::costs::along_rows)
    .in_relax(super::relax_rules::floats)
    .hinted(super::hinted::softmax)
    .inputs(DATA)
    .attrs(AXIS_LAST)
    .fusion(Fusion::OutElementwise)
    .compute(|te| softmax(te, false)),
    OpDef::new(
        "nn.fast_softmax",
        "`nn.softmax` with leave to approximate `exp`.",
        softmax_rel,
    )
    .layout(super::layout_rules::along_axis)
    .inputs(DATA)
    .attrs(AXIS_LAST)
    .fusion(Fusion::OutElementwise)
    .compute(|te| softmax(te, false)),
    OpDef::new(
        "nn.log_softmax",
        "The logarithm of `nn.softmax`.",
        softmax_rel,
    )
    .layout(super::layout_rules::along_axis)
    .cost(super::costs::along_rows)
    .in_relax(super::relax_rules::floats)
    .hinted(super::hinted::log_softmax)
    .inputs(DATA)
    .attrs(AXIS_LAST)
    .fusion(Fusion::OutElementwise)
    .compute(|te| softmax(te, true)),
    OpDef::new(
        "nn.batch_norm",
        "Normalises by given means and variances, per channel.",
        batch_norm_rel,
    )
    .inference(super::inference_forms::batch_norm)
    .layout(super::layout_rules::along_axis)
    .inputs(&[
        input("data", "the input"),
        input("gamma", "the scale, one per channel"),
        input("beta", "the shift, one per channel"),
        input("moving_mean", "the means, one per channel"),
        input("moving_var", "the variances, one per channel"),
    ])
    .attrs(norm_attrs!(1))
    .fusion(Fusion::OutElementwise)
    .compute(batch_norm),
    OpDef::new(
        "nn.layer_norm",
        "Normalises along one axis by its own mean and variance.",
        |cx| norm_rel(cx, 0),
    )
    .inference(super::inference_forms::layer_norm)
    .whole_kernel()
    .full_precision()
    .layout(super::layout_rules::along_axis)
    .cost(super::costs::along_rows)
    .in_relax(super::relax_rules::same_floats)
    .hinted(super::hinted::layer_norm)
    .inputs(NORM_INPUTS)
    .attrs(norm_attrs!(-1))
    .compute(layer_norm),
    OpDef::new(
        "nn.instance_norm",
        "Normalises each channel of each sample.",
        |cx| norm_rel(cx, 3),
    )
    .inference(super::inference_forms::instance_norm)
    .whole_kernel()
    .full_precision()
    .layout(super::layout_rules::along_axis_of_samples)
    .hinted(super::hinted::instance_norm)
    .inputs(NORM_INPUTS)
    .attrs(norm_attrs!(1))
    .compute(instance_norm),
    OpDef::new(
        "nn.group_norm",
        "Normalises each group of channels of each sample.",
        |cx| norm_rel(cx, 0),
    )
    .inference(super::inference_forms::group_norm)
    .whole_kernel()
    .full_precision()
    .layout(super::layout_rules::along_axis_of_samples)
    .hinted(super::hinted::group_norm)
    .inputs(NORM_INPUTS)
    .attrs(norm_attrs!(
        1,
        attr(
            "num_groups",
            AttrTy::Int,
            Default::Int(0),
            "number of groups"
        )
    ))
    .compute(group_norm),
    OpDef::new(
        "nn.lrn",
        "Local response normalisation across channels.",
        lrn_rel,
    )
    .layout(super::layout_rules::along_axis)
    .inputs(DATA)
    .attrs(&[
        attr(
            "size",
            AttrTy::Int,
            Default::Int(5),
            "channels that take part",
        ),
        attr("axis", AttrTy::Int, Default::Int(1), "the channel axis"),
        attr(
            "bias",
            AttrTy::Float,
            Default::Float(2.0),
            "offset that keeps the divisor from 0",
        ),
        attr(
            "alpha",
            AttrTy::Float,
            Default::Float(0.0001),
            "scale of the sum of squares",
        ),
        attr("beta", AttrTy::Float, Default::Float(0.75), "exponent"),
    ])
    .compute(lrn),
    OpDef::new(
        "nn.l2_normalize",
        "Divides by the euclidean norm along axes.",
        l2_rel,
    )
    .inference(super::inference_forms::l2_normalize)
    .full_precision()
    .layout(super::layout_rules::along_axes)
    .inputs(DATA)
    .attrs(&[
        attr(
            "eps",
            AttrTy::Float,
            Default::Required,
            "the least sum of squares",
        ),
        attr(
            "axis",
            AttrTy::Ints,
            Default::None,
            "the axes of the norm; all where `None`",
        ),
    ])
    .compute(l2_normalize),
];

fn l2_rel(cx: &mut RelCx<'_>) -> RelResult {
    let axes = cx.ints("axis")?.unwrap_or_default();
    if let Some(rank) = cx.tensor(0)?.shape.dims().map(<[_]>::len) {
        for axis in axes {
            cx.axis("axis", axis, rank)?;
        }
    }
    identity(cx)
}

fn lrn_rel(cx: &mut RelCx<'_>) -> RelResult {
    let size = cx.int("size")?;
    if size < 1 || size % 2 == 0 {
        return cx.refuse(
            Subject::Attr("size"),
            format!("`size` must be odd, so that the window has a centre, not {size}"),
        );
    }
    softmax_rel(cx)
}

/// An axis, and the operand's type again.
fn softmax_rel(cx: &mut RelCx<'_>) -> RelResult {
    let t = cx.tensor(0)?;
    if let Some(dims) = t.shape.dims() {
        cx.axis("axis", cx.int("axis")?, dims.len())?;
    }
    identity(cx)
}

fn softmax(te: &mut Te<'_>, log: bool) -> Result<(), ComputeError> {
    let given = te.arg(0);
    let axis = te.axis("axis", given.rank())?;
    let (dtype, last) = (wide(given.dtype), axis + 1 == given.rank());
    let x = if last {
        widened(te, &given)
    } else {
        given.clone()
    };
    let rest = without(&x.shape, axis);
    let over = [x.shape[axis].clone()];
    let max = te.reduce("max", &rest, &over, Combiner::Max, |i, r| {
        x.at(&with(i, axis, r[0].clone())).cast(dtype)
    });
    let shifted = |i: &[Ex]| x.at(i).cast(dtype) - max.at(&without(i, axis));
    let y = if log {
        let sum = te.reduce("sum", &rest, &over, Combiner::Sum, |i, r| {
            shifted(&with(i, axis, r[0].clone())).unary(UnOp::Exp)
        });
        let log = te.compute("log", &rest, |i| sum.at(i).unary(UnOp::Log));
        te.compute("softmax", &x.shape, |i| {
            shifted(i) - log.at(&without(i, axis))
        })
    } else {
        // Exponentials are used twice, and recomputing them costs more than storing them.
        let exps = te.compute("exp", &x.shape, |i| shifted(i).unary(UnOp::Exp));
        let sum = te.reduce("sum", &rest, &over, Combiner::Sum, |i, r| {
            exps.at(&with(i, axis, r[0].clone()))
        });
        te.compute("softmax", &x.shape, |i| {
            exps.at(i) / sum.at(&without(i, axis))
        })
    };
    let y = narrowed(te, &y, given.dtype);
    if last {
        let data = given.buf;
        te.program.hints.push((y.buf, Hint::Softmax { data, log }));
    }
    te.output(&y);
    Ok(())
}

/// Requires arguments 1 and up to be vectors along `axis` of the data.
fn require_vectors(cx: &mut RelCx<'_>, extent: &Dim, dtype: DTy) -> RelResult<relax_ir::TypeId> {
    let ty = cx.host.types_mut().tensor(vec![extent.clone()], dtype);
    for i in 1..cx.args.len() {
        cx.require_arg(i, ty, "this input has one element per index of the axis")?;
    }
    Ok(ty)
}

fn norm_rel(cx: &mut RelCx<'_>, least_rank: usize) -> RelResult {
    let (dims, dtype) = cx.ranked(0)?;
    if dims.len() < least_rank {
        let text = format!(
            "`{}` needs rank {least_rank} or more, not {}",
            cx.name,
            dims.len()
        );
        return cx.refuse(Subject::Arg(0), text);
    }
    let axis = cx.axis("axis", cx.int("axis")?, dims.len())?;
    if let Some(groups) = cx.attrs.get("num_groups").and_then(|g| g.as_int()) {
        if groups < 1 {
            let text = format!("`num_groups` must be at least 1, not {groups}");
            return cx.refuse(Subject::Attr("num_groups"), text);
        }
        let rest = dims[axis].modulo(&Dim::from(groups));
        let what = "`num_groups` must divide the channels: the remainder must be 0";
        super::util::need_multiple(
            cx,
            &dims[axis],
            groups,
            Subject::Attr("num_groups"),
            "the number of channels, which `num_groups` divides,",
        )?;
        cx.require_eq(&rest, &Dim::ZERO, Subject::Attr("num_groups"), what)?;
    }
    require_vectors(cx, &dims[axis], dtype)?;
    let ty = cx.arg(0);
    cx.set_out(ty)
}

fn batch_norm_rel(cx: &mut RelCx<'_>) -> RelResult {
    let (dims, dtype) = cx.ranked(0)?;
    let axis = cx.axis("axis", cx.int("axis")?, dims.len())?;
    let vector = require_vectors(cx, &dims[axis], dtype)?;
    let data = cx.arg(0);
    let ty = cx.host.types_mut().tuple([data, vector, vector]);
    cx.set_out(ty)
}

/// The scale and shift of the result by vectors along the axis.
struct Affine {
    gamma: Option<TensorRef>,
    beta: Option<TensorRef>,
}

impl Affine {
    /// Those of a call, widened.
    fn of(te: &mut Te<'_>) -> Affine {
        let mut wanted = |flag, i| {
            let given = te.flag(flag).then(|| te.arg(i))?;
            Some(widened(te, &given))
        };
        Affine {
            gamma: wanted("scale", 1),
            beta: wanted("center", 2),
        }
    }
    /// Names the kernel over the rows from an axis on, in groups of channels: see
    /// [`Hint::LayerNorm`].
    fn hint(
        &self,
        te: &mut Te<'_>,
        of: (&TensorRef, &TensorRef),
        epsilon: f64,
        rows: (usize, i64),
    ) {
        if self.gamma.is_some() && self.beta.is_some() {
            let (gamma, beta) = (te.arg(1), te.arg(2));
            normalised_rows(te, of, (&gamma, Some(&beta)), epsilon, rows);
        }
    }
    fn apply(&self, x: Ex, at: &Ex) -> Ex {
        let at = std::slice::from_ref(at);
        let x = self.gamma.as_ref().map_or(x.clone(), |g| x * g.at(at));
        self.beta.as_ref().map_or(x.clone(), |b| x + b.at(at))
    }
}

fn batch_norm(te: &mut Te<'_>) -> Result<(), ComputeError> {
    let (x, mean, var) = (te.arg(0), te.arg(3), te.arg(4));
    let axis = te.axis("axis", x.rank())?;
    let (dtype, epsilon, affine) = (wide(x.dtype), te.float("epsilon")?, Affine::of(te));
    // Once for each channel; integers are divided by it.
    let deviation = te.compute("deviation", &var.shape, |i| {
        let var = var.at(i).cast(dtype);
        (var.clone() + var.same(epsilon)).unary(UnOp::Sqrt)
    });
    let y = te.compute("batch_norm", &x.shape, |i| {
        let c = &i[axis..=axis];
        let [mean, own] = [mean.at(c), x.at(i)].map(|e| e.cast(dtype));
        let y = affine.apply((own - mean) / deviation.at(c), &i[axis]);
        y.cast(x.dtype)
    });
    te.output(&y);
    te.output(&mean);
    te.output(&var);
    Ok(())
}

/// Returns the mean and variance of `x` over the axes for which `over` is true; both keep the other
/// axes.
pub(super) fn moments(te: &mut Te<'_>, x: &TensorRef, over: &[bool]) -> (TensorRef, TensorRef) {
    let pick = |which: bool| -> Vec<Ex> {
        x.shape
            .iter()
            .zip(over)
            .filter(|(_, o)| **o == which)
            .map(|(d, _)| d.clone())
            .collect()
    };
    let (rest, box_) = (pick(false), pick(true));
    let join = |i: &[Ex], r: &[Ex]| -> Vec<Ex> {
        let (mut i, mut r) = (i.iter(), r.iter());
        let take = |o: &bool| if *o { r.next() } else { i.next() };
        over.iter()
            .map(take)
            .map(|e| e.expect("one per axis").clone())
            .collect()
    };
    let count = box_.iter().fold(Ex::idx(1), |n, d| n * d).cast(x.dtype);
    let sum = te.reduce("sum", &rest, &box_, Combiner::Sum, |i, r| x.at(&join(i, r)));
    let mean = te.compute("mean", &rest, |i| sum.at(i) / &count);
    let squares = te.reduce("squares", &rest, &box_, Combiner::Sum, |i, r| {
        let d = x.at(&join(i, r)) - mean.at(i);
        &d * &d
    });
    let var = te.compute("var", &rest, |i| squares.at(i) / &count);
    (mean, var)
}

/// `sqrt(var + epsilon)`, computed once for all elements that are divided by it.
fn deviation(te: &mut Te<'_>, var: &TensorRef, epsilon: f64) -> TensorRef {
    te.compute("deviation", &var.shape, |i| {
        let v = var.at(i);
        (v.clone() + v.same(epsilon)).unary(UnOp::Sqrt)
    })
}

fn layer_norm(te: &mut Te<'_>) -> Result<(), ComputeError> {
    let given = te.arg(0);
    let axis = te.axis("axis", given.rank())?;
    let (x, epsilon, affine) = (widened(te, &given), te.float("epsilon")?, Affine::of(te));
    let over: Vec<bool> = (0..x.rank()).map(|k| k == axis).collect();
    let (mean, var) = moments(te, &x, &over);
    let root = deviation(te, &var, epsilon);
    let y = te.compute("layer_norm", &x.shape, |i| {
        let at = without(i, axis);
        affine.apply((x.at(i) - mean.at(&at)) / root.at(&at), &i[axis])
    });
    let y = narrowed(te, &y, given.dtype);
    if axis + 1 == x.rank() {
        affine.hint(te, (&given, &y), epsilon, (axis, 1));
    }
    te.output(&y);
    Ok(())
}

fn instance_norm(te: &mut Te<'_>) -> Result<(), ComputeError> {
    let given = te.arg(0);
    let axis = te.axis("axis", given.rank())?;
    let (x, epsilon, affine) = (widened(te, &given), te.float("epsilon")?, Affine::of(te));
    let over: Vec<bool> = (0..x.rank()).map(|k| k != 0 && k != axis).collect();
    let (mean, var) = moments(te, &x, &over);
    let root = deviation(te, &var, epsilon);
    let y = te.compute("instance_norm", &x.shape, |i| {
        let at: Vec<Ex> = (0..x.rank())
            .filter(|&k| !over[k])
            .map(|k| i[k].clone())
            .collect();
        affine.apply((x.at(i) - mean.at(&at)) / root.at(&at), &i[axis])
    });
    let y = narrowed(te, &y, given.dtype);
    if axis == 1 {
        affine.hint(te, (&given, &y), epsilon, (axis, 0));
    }
    te.output(&y);
    Ok(())
}

fn group_norm(te: &mut Te<'_>) -> Result<(), ComputeError> {
    let given = te.arg(0);
    let axis = te.axis("axis", given.rank())?;
    let groups = te.int("num_groups")?.max(1);
    let (x, epsilon, affine) = (widened(te, &given), te.float("epsilon")?, Affine::of(te));
    // The channel axis is treated as (groups, channels per group).
    let per_group = x.shape[axis].floor_div(groups);
    let mut split = x.shape.clone();
    split[axis] = per_group.clone();
    split.insert(axis, Ex::idx(groups));
    let grouped = te.compute("groups", &split, |i| {
        let mut at = i.to_vec();
        let group = at.remove(axis);
        at[axis] = group * &per_group + &at[axis];
        x.at(&at)
    });
    let over: Vec<bool> = (0..split.len()).map(|k| k != 0 && k != axis).collect();
    let (mean, var) = moments(te, &grouped, &over);
    let root = deviation(te, &var, epsilon);
    let y = te.compute("group_norm", &x.shape, |i| {
        let group = i[axis].floor_div(&per_group);
        let at = if axis == 0 {
            vec![group]
        } else {
            vec![i[0].clone(), group]
        };
        let at = &at[..mean.rank()];
        affine.apply((x.at(i) - mean.at(at)) / root.at(at), &i[axis])
    });
    let y = narrowed(te, &y, given.dtype);
    if axis <= 1 {
        affine.hint(te, (&given, &y), epsilon, (axis, groups));
    }
    te.output(&y);
    Ok(())
}

fn lrn(te: &mut Te<'_>) -> Result<(), ComputeError> {
    let x = te.arg(0);
    let axis = te.axis("axis", x.rank())?;
    let size = te.int("size")?.max(1);
    let [bias, alpha, beta] = [te.float("bias")?, te.float("alpha")?, te.float("beta")?];
    let mut padded = x.shape.clone();
    padded[axis] = &x.shape[axis] + (size - 1);
    let p = te.compute("pad", &padded, |i| {
        let at = &i[axis] - size / 2;
        let v = x.at(&set(i, axis, at.clone()));
        let inside = at.ge(0i64) & at.lt(&x.shape[axis]);
        Ex::where_(&inside, &v, &v.same(0.0))
    });
    let over = [Ex::idx(size)];
    let squares = te.reduce("squares", &x.shape, &over, Combiner::Sum, |i, r| {
        let v = p.at(&set(i, axis, &i[axis] + &r[0]));
        &v * &v
    });
    let y = te.compute("lrn", &x.shape, |i| {
        let s = squares.at(i);
        let scale = s.same(bias) + s.same(alpha) * &s / s.same(size as f64);
        let root = |e: &Ex| e.clone().unary(UnOp::Sqrt);
        let power = match beta {
            0.5 => root(&scale),
            // The usual one; roots take a fraction of the time of any power.
            0.75 => {
                let half = root(&scale);
                &half * root(&half)
            }
            _ => scale.pow(beta),
        };
        x.at(i) / power
    });
    te.output(&y);
    Ok(())
}

fn l2_normalize(te: &mut Te<'_>) -> Result<(), ComputeError> {
    let x = te.arg(0);
    let eps = te.float("eps")?;
    let rank = x.rank() as i64;
    let axes = te.ints("axis").unwrap_or_else(|| (0..rank).collect());
    let over: Vec<bool> = (0..rank)
        .map(|k| axes.contains(&k) || axes.contains(&(k - rank)))
        .collect();
    let rest: Vec<Ex> = x
        .shape
        .iter()
        .zip(&over)
        .filter(|(_, o)| !**o)
        .map(|(d, _)| d.clone())
        .collect();
    let reduced: Vec<Ex> = x
        .shape
        .iter()
        .zip(&over)
        .filter(|(_, o)| **o)
        .map(|(d, _)| d.clone())
        .collect();
    let squares = te.reduce("squares", &rest, &reduced, Combiner::Sum, |i, r| {
        let (mut i, mut r) = (i.iter(), r.iter());
        let take = |o: &bool| if *o { r.next() } else { i.next() };
        let at: Vec<Ex> = over
            .iter()
            .map(take)
            .map(|e| e.expect("one per axis").clone())
            .collect();
        x.at(&at) * x.at(&at)
    });
    let y = te.compute("l2_normalize", &x.shape, |i| {
        let at: Vec<Ex> = i
            .iter()
            .zip(&over)
            .filter(|(_, o)| !**o)
            .map(|(d, _)| d.clone())
            .collect();
        x.at(i) / squares.at(&at).max(eps).unary(UnOp::Sqrt)
    });
    te.output(&y);
    Ok(())
}
