//! Sorting along an axis. All sorts are stable.

use relax_loops::{Ex, Hint, Lines, TensorRef};
use relax_sym::Dim;
use relax_tensor::DType as DT;

use super::sorting::stable_order;
use super::util::{
    axis_attr, dtype_or, finish, finish_tuple, shaped, tensor_type, unranked_type, word,
};
use super::util_te::{Done, set};
use crate::AttrTy::*;
use crate::{AttrDef, Default, Former, OpDef, RelCx, RelResult, Subject, Te, attr, former, input};

const SORT: &[AttrDef] = &[
    attr("axis", Int, Default::Int(-1), "the axis"),
    attr(
        "is_ascend",
        Bool,
        Default::Bool(true),
        "whether small elements come first",
    ),
    attr(
        "dtype",
        DType,
        Default::DType(""),
        "the element type of indices",
    ),
];
const TOPK: &[AttrDef] = &[
    attr("k", Int, Default::Required, "how many; less than 1 for all"),
    attr("axis", Int, Default::Int(-1), "the axis"),
    attr(
        "ret_type",
        Str,
        Default::Str("both"),
        "`both`, `values` or `indices`",
    ),
    attr(
        "is_ascend",
        Bool,
        Default::Bool(false),
        "whether the least are taken",
    ),
    attr(
        "dtype",
        DType,
        Default::DType(""),
        "the element type of indices",
    ),
];

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new("sort", "The elements along an axis in order.", sort)
        .hinted(super::hinted::sort)
        .inputs(&[input("data", "the input")])
        .attrs(SORT)
        .compute(sort_compute),
    OpDef::new(
        "argsort",
        "The indices that put the elements along an axis in order.",
        argsort,
    )
    .hinted(super::hinted::argsort)
    .inputs(&[input("data", "the input")])
    .attrs(SORT)
    .compute(argsort_compute),
    OpDef::new(
        "topk",
        "The greatest (or least) elements along an axis, in order, and their indices.",
        topk,
    )
    .former(&[Former::form("topk", 6, former::one_of_topk)])
    .hinted(super::hinted::topk)
    .inputs(&[input("data", "the input")])
    .attrs(TOPK)
    .compute(topk_compute),
    OpDef::new("dyn.topk", "`topk` for as many as a tensor says.", dyn_topk)
        .static_form("topk")
        .inputs(&[input("data", "the input"), input("k", "how many, a scalar")])
        .attrs(TOPK)
        .data_dependent()
        .compute(dyn_topk_compute),
];

fn sort(cx: &mut RelCx<'_>) -> RelResult {
    cx.set_out(cx.args[0])?;
    if let (Some(dims), _) = shaped(cx, 0)? {
        axis_attr(cx, "axis", dims.len())?;
    }
    Ok(())
}

fn argsort(cx: &mut RelCx<'_>) -> RelResult {
    let dtype = dtype_or(cx, "dtype", DT::I32.into());
    match shaped(cx, 0)?.0 {
        Some(dims) => {
            axis_attr(cx, "axis", dims.len())?;
            finish(cx, dims, dtype)
        }
        None => cx.finish_unranked(dtype),
    }
}

/// The result of a `topk` whose axis gets that extent; `None` keeps it.
fn top(cx: &mut RelCx<'_>, extent: Option<Dim>) -> RelResult {
    let ret = word(cx, "ret_type", &["both", "values", "indices"])?;
    let index_dtype = dtype_or(cx, "dtype", DT::I32.into());
    let (dims, dtype) = shaped(cx, 0)?;
    let (values, indices) = match dims {
        Some(mut dims) => {
            let axis = axis_attr(cx, "axis", dims.len())?;
            if let Some(n) = extent {
                cx.require_at_least(
                    &dims[axis],
                    &n,
                    Subject::Attr("k"),
                    "there are as many elements as `k` asks for",
                    |most, k| {
                        format!("`k={k}` asks for more elements than the {most} of axis {axis}")
                    },
                )?;
                dims[axis] = n;
            }
            (
                tensor_type(cx, dims.clone(), dtype)?,
                tensor_type(cx, dims, index_dtype)?,
            )
        }
        None => (unranked_type(cx, dtype), unranked_type(cx, index_dtype)),
    };
    match ret.as_str() {
        "both" => finish_tuple(cx, vec![values, indices]),
        "values" => cx.set_out(values),
        _ => cx.set_out(indices),
    }
}

fn topk(cx: &mut RelCx<'_>) -> RelResult {
    let k = cx.int("k")?;
    top(cx, (k >= 1).then(|| Dim::from(k)))
}

fn dyn_topk(cx: &mut RelCx<'_>) -> RelResult {
    if let (Some(dims), _) = shaped(cx, 1)?
        && !(dims.is_empty() || (dims.len() == 1 && dims[0].as_const() == Some(1)))
    {
        return cx.refuse(
            Subject::Arg(1),
            "`k` must be a scalar, or a vector of one element",
        );
    }
    top(cx, Some(Dim::ANY))
}

/// The outputs, and what is written to each.
pub(super) struct Outputs {
    pub(super) values: Option<TensorRef>,
    pub(super) indices: Option<TensorRef>,
}

/// The input sorted along `axis`: its first `keep` elements and indices are the outputs.
fn sorted(te: &mut Te<'_>, axis: usize, keep: &Ex, out: &Outputs) {
    let (x, ascend) = (te.arg(0), te.flag("is_ascend"));
    sort_lines(te, &x, (axis, ascend), keep, out);
    for v in [&out.values, &out.indices].into_iter().flatten() {
        te.output(v);
    }
}

/// Sorts along an axis, and writes the first `keep` elements and indices.
pub(super) fn sort_lines(
    te: &mut Te<'_>,
    x: &TensorRef,
    (axis, ascend): (usize, bool),
    keep: &Ex,
    out: &Outputs,
) {
    let extent = x.shape[axis].clone();
    let lines = set(&x.shape, axis, Ex::idx(1));
    te.nest(|n| {
        n.grid(&lines, |n, line| {
            let read = |at: &Ex| x.at(&set(line, axis, at.clone()));
            let order = stable_order(n, &extent, &extent, |a, b| {
                let (a, b) = (read(a), read(b));
                if ascend { a.lt(&b) } else { a.gt(&b) }
            });
            n.for_(keep.clone(), |n, k| {
                let at = set(line, axis, k.clone());
                // Elements beyond the input's are unspecified; they are 0.
                n.if_else(
                    k.lt(&extent),
                    |n| {
                        let from = n.let_(order.at(std::slice::from_ref(k)));
                        if let Some(v) = &out.values {
                            n.store(v, &at, read(&from));
                        }
                        if let Some(v) = &out.indices {
                            n.store(v, &at, from.cast(v.dtype));
                        }
                    },
                    |n| {
                        for v in [&out.values, &out.indices].into_iter().flatten() {
                            n.store(v, &at, 0i64);
                        }
                    },
                );
            });
        });
    });
    for (v, indices) in [(&out.values, false), (&out.indices, true)] {
        let Some(v) = v else { continue };
        let work = Lines::Sorted { ascend, indices };
        let data = x.buf;
        te.program
            .hints
            .push((v.buf, Hint::Lines { data, axis, work }));
    }
}

fn sort_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let axis = te.axis("axis", x.rank())?;
    let keep = x
        .shape
        .get(axis)
        .ok_or("a scalar has no axis to sort along")?
        .clone();
    let values = Some(te.temp("values", x.dtype, &x.shape));
    sorted(
        te,
        axis,
        &keep,
        &Outputs {
            values,
            indices: None,
        },
    );
    Ok(())
}

fn argsort_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let axis = te.axis("axis", x.rank())?;
    let keep = x
        .shape
        .get(axis)
        .ok_or("a scalar has no axis to sort along")?
        .clone();
    let dtype = te.out(0).dtype;
    let indices = Some(te.temp("indices", dtype, &x.shape));
    sorted(
        te,
        axis,
        &keep,
        &Outputs {
            values: None,
            indices,
        },
    );
    Ok(())
}

fn top_compute(te: &mut Te<'_>, k: &Ex) -> Done {
    let x = te.arg(0);
    let axis = te.axis("axis", x.rank())?;
    let extent = x
        .shape
        .get(axis)
        .ok_or("a scalar has no axis to sort along")?;
    let keep = Ex::where_(&k.lt(1i64), extent, k);
    let shape = set(&x.shape, axis, keep.clone());
    let ret = te.str("ret_type");
    let values = (ret != "indices").then(|| te.temp("values", x.dtype, &shape));
    let indices = (ret != "values").then(|| {
        let dtype = te.out(usize::from(ret == "both")).dtype;
        te.temp("indices", dtype, &shape)
    });
    sorted(te, axis, &keep, &Outputs { values, indices });
    Ok(())
}

fn topk_compute(te: &mut Te<'_>) -> Done {
    let k = Ex::idx(te.int("k")?);
    top_compute(te, &k)
}
fn dyn_topk_compute(te: &mut Te<'_>) -> Done {
    let k = te.arg(1).scalar().cast(DT::I64);
    top_compute(te, &k)
}
