//! Reductions over axes: sums, extremes, means.

use relax_loops::{Combiner, Ex, Hint, Lines, TensorRef};
use relax_sym::Dim;
use relax_tensor::DType;

use super::util::{MAX_RANK, finish, shaped};
use super::util_te::{Done, flat, product, wide};
use crate::AttrTy::*;
use crate::{AttrDef, Default, Fusion, OpDef, RelCx, RelResult, Subject, Te, attr, input};

const REDUCE: &[AttrDef] = &[
    attr("axis", Ints, Default::None, "the axes; none given is all"),
    attr(
        "keepdims",
        Bool,
        Default::Bool(false),
        "whether reduced axes stay, with extent 1",
    ),
    attr(
        "exclude",
        Bool,
        Default::Bool(false),
        "whether the axes are those to keep",
    ),
];
const VARIANCE: &[AttrDef] = &[
    REDUCE[0],
    REDUCE[1],
    REDUCE[2],
    attr(
        "unbiased",
        Bool,
        Default::Bool(false),
        "whether to divide by one less than the count",
    ),
];
const ARG_REDUCE: &[AttrDef] = &[
    REDUCE[0],
    REDUCE[1],
    attr(
        "select_last_index",
        Bool,
        Default::Bool(false),
        "whether the last of equal elements counts",
    ),
    REDUCE[2],
];

macro_rules! reductions {
    ($($name:literal $compute:ident $doc:literal $(, $hook:ident $(= $with:expr)?)*;)*) => {
        /// The family.
        pub static OPS: &[OpDef] = &[
            $(OpDef::new($name, $doc, reduce)
                $(.$hook($($with)?))*
                .layout(super::layout_rules::reduce)
                .inputs(&[input("data", "the input")])
                .attrs(REDUCE)
                .fusion(Fusion::Reduction)
                .compute($compute),)*
            OpDef::new("variance", "The mean of the squared distances from the given mean.", variance)
                .gradient(super::gradients_parts::variance)
                .full_precision()
                .layout(super::layout_rules::reduce)
    .inputs(&[input("data", "the input"), input("mean", "the mean over the same axes, kept with extent 1")])
                .attrs(VARIANCE)
                .fusion(Fusion::Reduction)
                .compute(variance_compute),
            OpDef::new("argmax", "The index of the greatest element.", arg_reduce)
                .layout(super::layout_rules::reduce_to_index)
    .hinted(super::hinted::argmax)
    .inputs(&[input("data", "the input")])
                .attrs(ARG_REDUCE)
                .fusion(Fusion::Reduction)
                .compute(argmax_compute),
            OpDef::new("argmin", "The index of the least element.", arg_reduce)
                .layout(super::layout_rules::reduce_to_index)
    .hinted(super::hinted::argmin)
    .inputs(&[input("data", "the input")])
                .attrs(ARG_REDUCE)
                .fusion(Fusion::Reduction)
                .compute(argmin_compute),
        ];
    };
}

reductions! {
    "sum" sum_compute "The sum of the elements.", full_precision, gradient = super::gradients::sum, affine_rule = super::affine_totals::sum;
    "prod" prod_compute "The product of the elements.";
    "max" max_compute "The greatest element.", gradient = super::gradients::max, affine_ordered = super::affine_rules::selection;
    "min" min_compute "The least element.", affine_ordered = super::affine_rules::selection;
    "all" all_compute "Whether all elements hold.";
    "any" any_compute "Whether any element holds.";
    "mean" mean_compute "The mean of the elements; of integers, truncated.", full_precision, gradient = super::gradients::mean, affine_rule = super::affine_totals::mean;
}

/// Returns the axes that a reduction removes, in order. `exclude` without axes removes all.
fn reduced(cx: &RelCx<'_>, rank: usize) -> RelResult<Vec<usize>> {
    let given = cx.ints("axis")?.unwrap_or_default();
    if given.is_empty() {
        return Ok((0..rank).collect());
    }
    let mut chosen = vec![false; rank];
    for v in given {
        let axis = cx.axis("axis", v, rank)?;
        if std::mem::replace(&mut chosen[axis], true) {
            return cx.refuse(
                Subject::Attr("axis"),
                format!("`axis` names axis {axis} twice"),
            );
        }
    }
    let exclude = cx.flag("exclude");
    Ok((0..rank).filter(|&a| chosen[a] != exclude).collect())
}

/// Returns the remaining extents.
fn left(cx: &RelCx<'_>, dims: &[Dim]) -> RelResult<Vec<Dim>> {
    let axes = reduced(cx, dims.len())?;
    let keep = cx.flag("keepdims");
    let part = |(a, d): (usize, &Dim)| match (axes.contains(&a), keep) {
        (false, _) => Some(d.clone()),
        (true, true) => Some(Dim::ONE),
        (true, false) => None,
    };
    Ok(dims.iter().enumerate().filter_map(part).collect())
}

/// Returns whether the reduction is over everything, with a scalar result whatever the rank.
fn gives_scalar(cx: &RelCx<'_>) -> RelResult<bool> {
    Ok(cx.ints("axis")?.unwrap_or_default().is_empty() && !cx.flag("keepdims"))
}

/// The type relation of a reduction: the result has the remaining extents.
pub(super) fn reduce(cx: &mut RelCx<'_>) -> RelResult {
    let (dims, dtype) = shaped(cx, 0)?;
    match dims {
        Some(dims) => {
            let dims = left(cx, &dims)?;
            finish(cx, dims, dtype)
        }
        None if gives_scalar(cx)? => finish(cx, Vec::new(), dtype),
        None => cx.finish_unranked(dtype),
    }
}

fn not_scalar(cx: &RelCx<'_>, rank: usize) -> RelResult {
    if rank > 0 {
        return Ok(());
    }
    cx.refuse(
        Subject::Arg(0),
        format!(
            "`{}` takes a tensor with at least one axis, not a scalar",
            cx.name
        ),
    )
}

fn arg_reduce(cx: &mut RelCx<'_>) -> RelResult {
    index_reduce(cx, DType::I32)
}

/// The type relation of a reduction to indices of that element type.
pub(super) fn index_reduce(cx: &mut RelCx<'_>, dtype: DType) -> RelResult {
    let (dims, _) = shaped(cx, 0)?;
    match dims {
        Some(dims) => {
            not_scalar(cx, dims.len())?;
            let dims = left(cx, &dims)?;
            finish(cx, dims, dtype)
        }
        None if gives_scalar(cx)? => finish(cx, Vec::new(), dtype),
        None => cx.finish_unranked(dtype),
    }
}

fn variance(cx: &mut RelCx<'_>) -> RelResult {
    let (mean, mean_dtype) = shaped(cx, 1)?;
    let (dims, dtype) = shaped(cx, 0)?;
    let dtype = cx.require_dtype(
        dtype,
        mean_dtype,
        Subject::Arg(1),
        "data and mean have one element type",
    )?;
    let Some(dims) = dims else {
        return reduce(cx);
    };
    not_scalar(cx, dims.len())?;
    if let Some(mean) = mean {
        if mean.len() != dims.len() {
            let (m, d) = (mean.len(), dims.len());
            return cx.refuse(
                Subject::Arg(1),
                format!(
                    "the mean must keep the reduced axes: its rank is {m}, that of the data {d}"
                ),
            );
        }
        for (m, d) in mean.iter().zip(&dims) {
            cx.broadcast_dim(d, m)?;
        }
    }
    let dims = left(cx, &dims)?;
    finish(cx, dims, dtype)
}

/// How a reduction's input index is composed of output and reduction indices.
pub(super) struct Plan {
    /// The reduced axes.
    pub axes: Vec<usize>,
    /// Whether they are kept, with extent 1.
    pub keep: bool,
    /// The output's extents.
    pub shape: Vec<Ex>,
    /// The extents of the reduced axes.
    pub over: Vec<Ex>,
}

impl Plan {
    /// The plan of a call.
    pub fn new(te: &Te<'_>, x: &TensorRef) -> Result<Plan, crate::ComputeError> {
        let rank = x.rank().min(MAX_RANK);
        let given = te.ints("axis").unwrap_or_default();
        let mut chosen = vec![given.is_empty(); rank];
        for v in &given {
            let at = if *v < 0 { v + rank as i64 } else { *v };
            let at = usize::try_from(at).ok().filter(|&a| a < rank);
            chosen[at.ok_or("`axis` is out of range")?] = true;
        }
        let exclude = te.flag("exclude") && !given.is_empty();
        let axes: Vec<usize> = (0..rank).filter(|&a| chosen[a] != exclude).collect();
        let keep = te.flag("keepdims");
        let shape = (0..rank)
            .filter(|a| keep || !axes.contains(a))
            .map(|a| {
                if axes.contains(&a) {
                    Ex::idx(1)
                } else {
                    x.shape[a].clone()
                }
            })
            .collect();
        let over = axes.iter().map(|&a| x.shape[a].clone()).collect();
        Ok(Plan {
            axes,
            keep,
            shape,
            over,
        })
    }
    /// The input index.
    fn index(&self, i: &[Ex], r: &[Ex]) -> Vec<Ex> {
        let rank = if self.keep {
            i.len()
        } else {
            i.len() + r.len()
        };
        let (mut i, mut r) = (i.iter(), r.iter());
        (0..rank)
            .filter_map(|a| {
                if self.axes.contains(&a) {
                    if self.keep {
                        i.next();
                    }
                    r.next().cloned()
                } else {
                    i.next().cloned()
                }
            })
            .collect()
    }
    /// Reduces `f` over the elements.
    pub fn run(
        &self,
        te: &mut Te<'_>,
        x: &TensorRef,
        c: Combiner,
        f: impl FnOnce(Ex, &[Ex]) -> Ex,
    ) -> TensorRef {
        te.reduce("y", &self.shape, &self.over, c, |i, r| {
            let index = self.index(i, r);
            f(x.at(&index), &index)
        })
    }
}

fn simple(te: &mut Te<'_>, c: Combiner) -> Done {
    let x = te.arg(0);
    let plan = Plan::new(te, &x)?;
    let y = plan.run(te, &x, c, |e, _| e);
    te.output(&y);
    Ok(())
}

fn sum_compute(te: &mut Te<'_>) -> Done {
    simple(te, Combiner::Sum)
}
fn prod_compute(te: &mut Te<'_>) -> Done {
    simple(te, Combiner::Prod)
}
fn max_compute(te: &mut Te<'_>) -> Done {
    simple(te, Combiner::Max)
}
fn min_compute(te: &mut Te<'_>) -> Done {
    simple(te, Combiner::Min)
}

/// The conjunction or disjunction of all elements; numbers are true where they are not 0.
fn truth(te: &mut Te<'_>, c: Combiner) -> Done {
    let x = te.arg(0);
    let plan = Plan::new(te, &x)?;
    let mut y = plan.run(te, &x, c, |e, _| e.cast(DType::BOOL));
    if !x.dtype.is_bool() {
        y = te.compute("as", &plan.shape, |i| y.at(i).cast(x.dtype));
    }
    te.output(&y);
    Ok(())
}
fn all_compute(te: &mut Te<'_>) -> Done {
    truth(te, Combiner::And)
}
fn any_compute(te: &mut Te<'_>) -> Done {
    truth(te, Combiner::Or)
}

fn mean_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let plan = Plan::new(te, &x)?;
    let sum = plan.run(te, &x, Combiner::Sum, |e, _| e.cast(wide(x.dtype)));
    let count = product(&plan.over).cast(wide(x.dtype));
    let y = te.compute("mean", &plan.shape, |i| (sum.at(i) / &count).cast(x.dtype));
    te.output(&y);
    Ok(())
}

fn variance_compute(te: &mut Te<'_>) -> Done {
    let (x, mean) = (te.arg(0), te.arg(1));
    let plan = Plan::new(te, &x)?;
    let sum = plan.run(te, &x, Combiner::Sum, |e, index| {
        let d = e - mean.at_broadcast(index);
        (&d * &d).cast(wide(x.dtype))
    });
    let less = i64::from(te.flag("unbiased"));
    let count = (product(&plan.over) - less).cast(wide(x.dtype));
    let y = te.compute("variance", &plan.shape, |i| {
        (sum.at(i) / &count).cast(x.dtype)
    });
    te.output(&y);
    Ok(())
}

/// Returns the position of an extreme element in row-major order over the reduced axes; -1 for no
/// elements. `beats` tells whether the best one so far is kept.
fn extreme(te: &mut Te<'_>, greatest: bool, beats: impl Fn(&Ex, &Ex, bool) -> Ex) -> Done {
    let x = te.arg(0);
    let plan = Plan::new(te, &x)?;
    let dtype = te.out(0).dtype;
    let last = te.flag("select_last_index");
    let y = te.temp("y", dtype, &plan.shape);
    te.nest(|n| {
        n.grid(&plan.shape, |n, i| {
            let best = n.cell(Ex::int(x.dtype, 0));
            let place = n.cell(Ex::idx(-1));
            n.grid(&plan.over, |n, r| {
                let v = n.let_(x.at(&plan.index(i, r)));
                let keep = place.scalar().ge(0i64) & beats(&best.scalar(), &v, last);
                n.if_(!keep, |n| {
                    n.set(&best, v.clone());
                    n.set(&place, flat(r, &plan.over));
                });
            });
            n.store(&y, i, place.scalar().cast(dtype));
        });
    });
    if let [axis] = plan.axes[..] {
        let (data, work) = (x.buf, Lines::Extreme { greatest, last });
        te.program
            .hints
            .push((y.buf, Hint::Lines { data, axis, work }));
    }
    te.output(&y);
    Ok(())
}
pub(super) fn argmax_compute(te: &mut Te<'_>) -> Done {
    extreme(
        te,
        true,
        |best, v, last| if last { best.gt(v) } else { best.ge(v) },
    )
}
pub(super) fn argmin_compute(te: &mut Te<'_>) -> Done {
    extreme(
        te,
        false,
        |best, v, last| if last { best.lt(v) } else { best.le(v) },
    )
}
