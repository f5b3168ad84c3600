//! Writing elements at the positions that a tensor of indices gives.

use relax_loops::{Ex, TensorRef};
use relax_sym::Dim;
use relax_tensor::DType;

use super::util::{axis_attr, check_eq, need_integers, shaped, word};
use super::util_te::{Done, from_end, set};
use crate::AttrTy::*;
use crate::{ComputeError, Default, OpDef, RelCx, RelResult, Stop, Subject, Te, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new("scatter_elements", "The input with elements along an axis replaced, or combined with updates.", scatter_elements)
        .inputs(&[input("data", "the input"), input("indices", "where along the axis, for each update"), input("updates", "the updates")])
        .attrs(&[
            attr("axis", Int, Default::Int(0), "the axis"),
            attr("reduction", Str, Default::Str("update"), "`update`, `add`, `mul`, `mean`, `min` or `max`"),
        ])
        .meta_attrs("relay.attrs.ScatterElementsAttrs")
        .compute(scatter_elements_compute),
    OpDef::new("scatter", "`scatter_elements` that replaces (releases before 0.12).", scatter_elements)
        .inputs(&[input("data", "the input"), input("indices", "where along the axis, for each update"), input("updates", "the updates")])
        .attrs(&[attr("axis", Int, Default::Int(0), "the axis")])
        .compute(scatter_elements_compute),
    OpDef::new("scatter_add", "`scatter_elements` that adds (releases before 0.12).", scatter_elements)
        .inputs(&[input("data", "the input"), input("indices", "where along the axis, for each update"), input("updates", "the updates")])
        .attrs(&[attr("axis", Int, Default::Int(0), "the axis")])
        .compute(scatter_add_compute),
    OpDef::new("scatter_nd", "The input with elements (or slices) at tuples of indices replaced, or combined with updates.", scatter_nd)
        .inputs(&[input("data", "the input"), input("indices", "the tuples of indices, along the first axis"), input("updates", "the updates")])
        .attrs(&[attr("mode", Str, Default::Str("update"), "`update`, `add`, `mul`, `min` or `max`")])
        .meta_attrs("relay.attrs.ScatterNDAttrs")
        .compute(scatter_nd_compute),
];

fn scatter_elements(cx: &mut RelCx<'_>) -> RelResult {
    if !cx.attr("reduction").is_none() {
        word(
            cx,
            "reduction",
            &["update", "add", "mul", "mean", "min", "max"],
        )?;
    }
    let (data, dtype) = shaped(cx, 0)?;
    let (indices, index_dtype) = shaped(cx, 1)?;
    let (updates, update_dtype) = shaped(cx, 2)?;
    need_integers(cx, index_dtype, 1, "the indices")?;
    cx.require_dtype(
        dtype,
        update_dtype,
        Subject::Arg(2),
        "the updates have the input's element type",
    )?;
    let ranks = [&data, &indices, &updates].map(|d| d.as_ref().map(Vec::len));
    if let Some(rank) = ranks.iter().flatten().next().copied() {
        axis_attr(cx, "axis", rank)?;
        for (i, r) in ranks.iter().enumerate() {
            if let Some(r) = r.filter(|&r| r != rank) {
                return cx.refuse(
                    Subject::Arg(i),
                    format!("data, indices and updates have one rank, but {r} is not {rank}"),
                );
            }
        }
    }
    if let (Some(indices), Some(updates)) = (indices, updates) {
        // Updates beyond those are not read; TVM's own programs have such updates.
        for (k, (a, b)) in updates.iter().zip(&indices).enumerate() {
            let rule = format!("there is an update for each index; axis {k}");
            cx.require_at_least(a, b, Subject::Arg(2), &rule, |a, b| {
                format!("{rule}: there are {a} for {b} indices")
            })?;
        }
    }
    cx.set_out(cx.args[0])
}

/// Combines a new value with the old one.
pub(super) fn combine(how: &str, old: &Ex, new: &Ex) -> Result<Ex, ComputeError> {
    Ok(match how {
        "update" => new.clone(),
        "add" => old + new,
        "mul" => old * new,
        "mean" => (old + new) / 2,
        "min" => old.min(new),
        "max" => old.max(new),
        other => return Err(format!("there is no way to combine called `{other}`").into()),
    })
}

/// A copy of `x`, to be changed by a nest.
pub(super) fn copied(te: &mut Te<'_>, x: &TensorRef) -> TensorRef {
    let y = te.temp("y", x.dtype, &x.shape);
    te.nest(|n| n.grid(&x.shape, |n, i| n.store(&y, i, x.at(i))));
    y
}

fn scatter_elements_compute(te: &mut Te<'_>) -> Done {
    let how = te.attr("reduction").as_str().unwrap_or("update").to_owned();
    scatter_by(te, &how)
}
fn scatter_add_compute(te: &mut Te<'_>) -> Done {
    scatter_by(te, "add")
}

fn scatter_by(te: &mut Te<'_>, how: &str) -> Done {
    let (x, indices, updates) = (te.arg(0), te.arg(1), te.arg(2));
    let axis = te.axis("axis", x.rank())?;
    combine(how, &Ex::int(x.dtype, 0), &Ex::int(x.dtype, 0))?;
    let y = copied(te, &x);
    te.nest(|n| {
        n.grid(&indices.shape, |n, i| {
            let at = n.let_(from_end(&indices.at(i).cast(DType::I64), &x.shape[axis]));
            let at = set(i, axis, at);
            if let Ok(v) = combine(how, &y.at(&at), &updates.at(i)) {
                n.store(&y, &at, v);
            }
        });
    });
    te.output(&y);
    Ok(())
}

fn scatter_nd(cx: &mut RelCx<'_>) -> RelResult {
    word(cx, "mode", &["update", "add", "mul", "min", "max"])?;
    let (data, dtype) = shaped(cx, 0)?;
    let (indices, index_dtype) = shaped(cx, 1)?;
    let (updates, update_dtype) = shaped(cx, 2)?;
    need_integers(cx, index_dtype, 1, "the indices")?;
    cx.require_dtype(
        dtype,
        update_dtype,
        Subject::Arg(2),
        "the updates have the input's element type",
    )?;
    let (Some(data), Some(indices)) = (data, indices) else {
        return cx.set_out(cx.args[0]);
    };
    let Some((first, outer)) = indices.split_first() else {
        return cx.refuse(
            Subject::Arg(1),
            "the indices must have an axis that runs over the index tuple",
        );
    };
    if first.has_infer() {
        return Err(Stop::Wait);
    }
    let Some(count) = first.as_const() else {
        let n = cx.host.show_dim(first);
        return cx.refuse(
            Subject::Arg(1),
            format!("the first axis of the indices says how many axes are indexed, so it must be known, but it is {n}"),
        );
    };
    let Some(rest) = usize::try_from(count).ok().and_then(|n| data.get(n..)) else {
        let rank = data.len();
        return cx.refuse(
            Subject::Arg(1),
            format!("tuples of {count} indices do not fit data of rank {rank}"),
        );
    };
    if let Some(updates) = updates {
        let want: Vec<Dim> = [outer, rest].concat();
        if updates.len() != want.len() {
            let (n, m) = (updates.len(), want.len());
            return cx.refuse(
                Subject::Arg(2),
                format!("the updates have rank {n}, but the indices ask for rank {m}"),
            );
        }
        for (k, (a, b)) in updates.iter().zip(&want).enumerate() {
            check_eq(
                cx,
                a,
                b,
                Subject::Arg(2),
                &format!("there is one update for each index; axis {k}"),
            )?;
        }
    }
    cx.set_out(cx.args[0])
}

fn scatter_nd_compute(te: &mut Te<'_>) -> Done {
    let (x, indices, updates) = (te.arg(0), te.arg(1), te.arg(2));
    let how = te.str("mode").to_owned();
    combine(&how, &Ex::int(x.dtype, 0), &Ex::int(x.dtype, 0))?;
    let count = indices
        .shape
        .first()
        .and_then(Ex::as_int)
        .ok_or("the length of the index tuples must be known")?;
    let count = usize::try_from(count)
        .ok()
        .filter(|&n| n <= x.rank())
        .ok_or("the index tuples are too long")?;
    let (outer, inner) = (&indices.shape[1..], &x.shape[count..]);
    let y = copied(te, &x);
    te.nest(|n| {
        n.grid(outer, |n, o| {
            let mut at = Vec::with_capacity(x.rank());
            for k in 0..count {
                let i = indices
                    .at(&[&[Ex::idx(k as i64)], o].concat())
                    .cast(DType::I64);
                at.push(n.let_(from_end(&i, &x.shape[k])));
            }
            n.grid(inner, |n, i| {
                let at = [&at, i].concat();
                if let Ok(v) = combine(&how, &y.at(&at), &updates.at(&[o, i].concat())) {
                    n.store(&y, &at, v);
                }
            });
        });
    });
    te.output(&y);
    Ok(())
}
