//! Operators that take as tensors what other operators take as attributes: axes, ranges, widths.
//!
//! Ranks do not depend on values, so everything here is a selection among known axes.

use relax_loops::{BinOp, Combiner, Ex, TensorRef};
use relax_tensor::DType;

use super::util::{anys, finish, index_arg, need_scalar, shaped, vector_len, word};
use super::util_te::{Done, clamp, elements, from_end, product, reshaped, set};
use crate::AttrTy::*;
use crate::{
    AttrDef, ComputeError, Default, Fusion, OpDef, RelCx, RelResult, Subject, Te, attr, input,
};

const REDUCED: &[crate::Input] = &[
    input("data", "the input"),
    input("axes", "the axes, a vector; each stays, with extent 1"),
];

const SCANNED: &[AttrDef] = &[
    attr(
        "exclusive",
        Bool,
        Default::Bool(false),
        "whether an element itself is left out",
    ),
    attr(
        "reverse",
        Bool,
        Default::Bool(false),
        "whether it runs from the end",
    ),
];

/// A reduction over axes that are given by a tensor.
const fn reduction(name: &'static str, doc: &'static str, compute: crate::def::ComputeFn) -> OpDef {
    OpDef::new(name, doc, reduce)
        .inputs(REDUCED)
        .fusion(Fusion::Reduction)
        .data_dependent()
        .compute(compute)
}

/// The family.
pub static OPS: &[OpDef] = &[
    reduction("dyn.sum", "The sum over axes that a tensor holds.", |te| {
        reduced(te, Combiner::Sum)
    }),
    reduction(
        "dyn.prod",
        "The product over axes that a tensor holds.",
        |te| reduced(te, Combiner::Prod),
    ),
    reduction(
        "dyn.max",
        "The greatest element over axes that a tensor holds.",
        |te| reduced(te, Combiner::Max),
    ),
    reduction(
        "dyn.min",
        "The least element over axes that a tensor holds.",
        |te| reduced(te, Combiner::Min),
    ),
    reduction("dyn.mean", "The mean over axes that a tensor holds.", mean),
    OpDef::new(
        "dyn.unsqueeze",
        "New axes of extent 1 at the places in the result that a tensor holds.",
        unsqueeze,
    )
    .reshape()
    .inputs(&[
        input("data", "the input"),
        input("axes", "the places, a vector"),
    ])
    .fusion(Fusion::Injective)
    .data_dependent()
    .compute(unsqueeze_compute),
    OpDef::new(
        "dyn.expand",
        "The input and the extents that a tensor holds, broadcast to each other.",
        expand,
    )
    .inputs(&[
        input("data", "the input"),
        input("shape", "the extents, a vector"),
    ])
    .fusion(Fusion::Broadcast)
    .data_dependent()
    .compute(expand_compute),
    OpDef::new(
        "dyn.slice",
        "Ranges of axes, all given by tensors. A step back ends before the first element with an end that is \
         at most minus the extent less one.",
        slice,
    )
    .inputs(&[
        input("data", "the input"),
        input("starts", "the first indices"),
        input("ends", "the indices to end before"),
        input("axes", "the axes"),
        input("steps", "the steps"),
    ])
    .fusion(Fusion::Injective)
    .data_dependent()
    .compute(slice_compute),
    OpDef::new(
        "dyn.pad",
        "Elements put around some axes, or taken off where widths are negative.",
        pad,
    )
    .inputs(&[
        input("data", "the input"),
        input("widths", "those before each axis, then those behind"),
        input("value", "the value there, a scalar"),
        input("axes", "the axes"),
    ])
    .attrs(&[attr(
        "pad_mode",
        Str,
        Default::Str("constant"),
        "`constant`, `edge`, `reflect` or `wrap`",
    )])
    .fusion(Fusion::Injective)
    .data_dependent()
    .compute(pad_compute),
    OpDef::new(
        "dyn.cumsum",
        "The sum of all elements up to each one along an axis that a tensor holds.",
        scan,
    )
    .inputs(&[input("data", "the input"), input("axis", "the axis, a scalar")])
    .attrs(SCANNED)
    .compute(|te| running(te, BinOp::Add, 0)),
    OpDef::new(
        "dyn.cumprod",
        "The product of all elements up to each one along an axis that a tensor holds.",
        scan,
    )
    .inputs(&[input("data", "the input"), input("axis", "the axis, a scalar")])
    .attrs(SCANNED)
    .compute(|te| running(te, BinOp::Mul, 1)),
];

/// Returns unknown extents, of the input's rank.
fn same_rank(cx: &mut RelCx<'_>, more: usize) -> RelResult {
    let (dims, dtype) = shaped(cx, 0)?;
    match dims {
        Some(dims) => finish(cx, anys(dims.len() + more), dtype),
        None => cx.finish_unranked(dtype),
    }
}

fn reduce(cx: &mut RelCx<'_>) -> RelResult {
    index_arg(cx, 1, "the list of axes")?;
    vector_len(cx, 1, "the list of axes")?;
    same_rank(cx, 0)
}

/// Returns the elements of a vector of axes, with negative axes normalised.
fn axes_of(x: &TensorRef, rank: usize) -> Result<Vec<Ex>, ComputeError> {
    let n = Ex::idx(rank as i64);
    Ok(elements(x)?.iter().map(|a| from_end(a, &n)).collect())
}

/// Returns whether axis `a` is among some.
fn among(axes: &[Ex], a: usize) -> Ex {
    axes.iter().fold(Ex::bool(false), |found, x| {
        let here = x.eq(a as i64);
        if found.as_int() == Some(0) {
            here
        } else {
            found | here
        }
    })
}

/// Returns the reduction of `f` over the elements, and the number of elements reduced.
fn over(
    te: &mut Te<'_>,
    c: Combiner,
    f: impl FnOnce(Ex) -> Ex,
) -> Result<(TensorRef, Ex), ComputeError> {
    let x = te.arg(0);
    let axes = axes_of(&te.arg(1), x.rank())?;
    let part = |a: usize, yes: &Ex, no: &Ex| Ex::where_(&among(&axes, a), yes, no);
    let one = Ex::idx(1);
    let shape: Vec<Ex> = (0..x.rank()).map(|a| part(a, &one, &x.shape[a])).collect();
    let box_: Vec<Ex> = (0..x.rank()).map(|a| part(a, &x.shape[a], &one)).collect();
    let y = te.reduce("y", &shape, &box_, c, |i, r| {
        let at: Vec<Ex> = i.iter().zip(r).map(|(i, r)| i + r).collect();
        f(x.at(&at))
    });
    Ok((y, product(&box_)))
}

fn reduced(te: &mut Te<'_>, c: Combiner) -> Done {
    let (y, _) = over(te, c, |e| e)?;
    te.output(&y);
    Ok(())
}

fn mean(te: &mut Te<'_>) -> Done {
    let dtype = te.arg(0).dtype;
    let wide = super::util_te::wide(dtype);
    let (sum, count) = over(te, Combiner::Sum, |e| e.cast(wide))?;
    let y = te.compute("mean", &sum.shape, |i| {
        (sum.at(i) / count.cast(wide)).cast(dtype)
    });
    te.output(&y);
    Ok(())
}

fn unsqueeze(cx: &mut RelCx<'_>) -> RelResult {
    index_arg(cx, 1, "the list of places")?;
    let more = vector_len(cx, 1, "the list of places")?;
    same_rank(cx, more)
}

/// Output axis `k` is new, or the next input axis after those already used.
fn unsqueeze_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let count = elements(&te.arg(1))?.len();
    let rank = x.rank() + count;
    let places = axes_of(&te.arg(1), rank)?;
    let mut old = Ex::idx(0);
    let mut shape = Vec::with_capacity(rank);
    for k in 0..rank {
        let new = among(&places, k);
        let own = (0..x.rank()).fold(Ex::idx(1), |n, a| {
            Ex::where_(&old.eq(a as i64), &x.shape[a], &n)
        });
        shape.push(Ex::where_(&new, &Ex::idx(1), &own));
        old = Ex::where_(&new, &old, &(&old + 1));
    }
    let y = reshaped(te, &x, &shape);
    te.output(&y);
    Ok(())
}

fn expand(cx: &mut RelCx<'_>) -> RelResult {
    index_arg(cx, 1, "the list of extents")?;
    let len = vector_len(cx, 1, "the list of extents")?;
    let (dims, dtype) = shaped(cx, 0)?;
    match dims {
        Some(dims) => finish(cx, anys(dims.len().max(len)), dtype),
        None => cx.finish_unranked(dtype),
    }
}

fn expand_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let to = elements(&te.arg(1))?;
    let shape = Te::broadcast_shape(&x.shape, &to);
    let y = te.compute("y", &shape, |i| x.at_broadcast(i));
    te.output(&y);
    Ok(())
}

fn slice(cx: &mut RelCx<'_>) -> RelResult {
    let mut count = None;
    for (i, what) in [
        (1, "the list of starts"),
        (2, "the list of ends"),
        (3, "the list of axes"),
        (4, "the list of steps"),
    ] {
        index_arg(cx, i, what)?;
        let n = vector_len(cx, i, what)?;
        if *count.get_or_insert(n) != n {
            let first = count.unwrap_or(n);
            return cx.refuse(
                Subject::Arg(i),
                format!("{what} has {n} elements, that of starts {first}"),
            );
        }
    }
    same_rank(cx, 0)
}

/// Returns the one of `values` that belongs to axis `a`; `otherwise` where none does.
fn of_axis(axes: &[Ex], values: &[Ex], a: usize, otherwise: &Ex) -> Ex {
    axes.iter()
        .zip(values)
        .fold(otherwise.clone(), |v, (x, value)| {
            Ex::where_(&x.eq(a as i64), value, &v)
        })
}

fn slice_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let axes = axes_of(&te.arg(3), x.rank())?;
    let [starts, ends, steps] = [1, 2, 4].map(|k| elements(&te.arg(k)));
    let (starts, ends, steps) = (starts?, ends?, steps?);
    let mut shape = Vec::with_capacity(x.rank());
    let mut from = Vec::with_capacity(x.rank());
    for (a, n) in x.shape.iter().enumerate() {
        let step = of_axis(&axes, &steps, a, &Ex::idx(1));
        let back = step.lt(0i64);
        let low = Ex::where_(&back, &Ex::idx(-1), &Ex::idx(0));
        let high = Ex::where_(&back, &(n - 1), n);
        let bound = |v: &Ex| from_end(v, n).max(&low).min(&high);
        let start = bound(&of_axis(&axes, &starts, a, &Ex::idx(0)));
        let end = bound(&of_axis(&axes, &ends, a, n));
        let way = Ex::where_(&back, &(&start - &end), &(&end - &start)).max(0i64);
        let size = Ex::where_(&back, &-&step, &step);
        shape.push((way + &size - 1).floor_div(&size));
        from.push((start, step));
    }
    let y = te.compute("y", &shape, |i| {
        let at: Vec<Ex> = (i.iter().zip(&from))
            .map(|(i, (from, step))| i * step + from)
            .collect();
        x.at(&at)
    });
    te.output(&y);
    Ok(())
}

fn pad(cx: &mut RelCx<'_>) -> RelResult {
    word(cx, "pad_mode", &["constant", "edge", "reflect", "wrap"])?;
    index_arg(cx, 1, "the list of widths")?;
    index_arg(cx, 3, "the list of axes")?;
    need_scalar(cx, 2, "the value to pad with")?;
    let widths = vector_len(cx, 1, "the list of widths")?;
    let axes = vector_len(cx, 3, "the list of axes")?;
    if widths != 2 * axes {
        return cx.refuse(
            Subject::Arg(1),
            format!(
                "{axes} axes have {} widths, but there are {widths}",
                2 * axes
            ),
        );
    }
    same_rank(cx, 0)
}

fn pad_compute(te: &mut Te<'_>) -> Done {
    let [x, value] = [0, 2].map(|k| te.arg(k));
    let (widths, axes) = (elements(&te.arg(1))?, axes_of(&te.arg(3), x.rank())?);
    let (before, behind) = widths.split_at(axes.len());
    let zero = Ex::idx(0);
    let first: Vec<Ex> = (0..x.rank())
        .map(|a| of_axis(&axes, before, a, &zero))
        .collect();
    let shape: Vec<Ex> = (0..x.rank())
        .map(|a| &x.shape[a] + &first[a] + of_axis(&axes, behind, a, &zero))
        .collect();
    let mode = te.str("pad_mode");
    let y = te.compute("pad", &shape, |i| {
        // Without elements there is nothing to repeat.
        let mut inside = match mode {
            "constant" => Ex::bool(true),
            _ => product(&x.shape).gt(0i64),
        };
        let mut at = Vec::with_capacity(i.len());
        for (a, n) in x.shape.iter().enumerate() {
            let place = &i[a] - &first[a];
            at.push(match mode {
                "edge" => clamp(&place, n),
                "wrap" => place.floor_mod(n),
                "reflect" => {
                    // Reflection: the index sequence has a period of twice the extent less one.
                    let period = (n * 2 - 2).max(1i64);
                    let way = place.floor_mod(&period);
                    Ex::where_(&way.ge(n), &(&period - &way), &way)
                }
                _ => {
                    let here = place.ge(0i64) & place.lt(n);
                    inside = match inside.as_int() {
                        Some(1) => here,
                        _ => &inside & here,
                    };
                    place
                }
            });
        }
        Ex::where_(&inside, &x.at(&at), &value.scalar().cast(x.dtype))
    });
    te.output(&y);
    Ok(())
}

fn scan(cx: &mut RelCx<'_>) -> RelResult {
    index_arg(cx, 1, "the axis")?;
    need_scalar(cx, 1, "the axis")?;
    cx.set_out(cx.args[0])?;
    cx.tensor(0).map(|_| ())
}

/// Every axis has its own loop nest, and the value of the axis selects the one that runs.
fn running(te: &mut Te<'_>, op: BinOp, start: i64) -> Done {
    let x = te.arg(0);
    let rank = x.rank();
    let axis = from_end(&te.arg(1).scalar().cast(DType::I64), &Ex::idx(rank as i64));
    let (exclusive, reverse) = (te.flag("exclusive"), te.flag("reverse"));
    let y = te.temp("y", x.dtype, &x.shape);
    te.nest(|n| {
        for a in 0..rank {
            n.if_(axis.eq(a as i64), |n| {
                let lines = set(&x.shape, a, Ex::idx(1));
                let extent = x.shape[a].clone();
                n.grid(&lines, |n, line| {
                    let sum = n.cell(Ex::int(x.dtype, start));
                    n.for_(extent.clone(), |n, k| {
                        let k = if reverse { &extent - 1 - k } else { k.clone() };
                        let at = set(line, a, k);
                        let next = sum.scalar().binary(op, &x.at(&at));
                        if exclusive {
                            let next = n.let_(next);
                            n.store(&y, &at, sum.scalar());
                            n.set(&sum, next);
                        } else {
                            n.set(&sum, next);
                            n.store(&y, &at, sum.scalar());
                        }
                    });
                });
            });
        }
    });
    te.output(&y);
    Ok(())
}
