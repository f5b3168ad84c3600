//! Axes permuted, added and removed.

use relax_loops::Ex;
use relax_sym::Dim;

use super::util::{
    MAX_RANK, anys, finish, gap_attr, need_integers, need_scalar, shaped, vector_len,
};
use super::util_te::{Done, elements, reshaped};
use crate::AttrTy::*;
use crate::{Default, Fusion, OpDef, RelCx, RelResult, Subject, Te, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new("transpose", "The axes in another order.", transpose)
        .gradient(super::gradients::transpose)
        .affine_rule(super::affine_rules::transposed)
        .layout(super::layout_rules::transposed)
        .cost(super::costs::moved)
        .inputs(&[input("data", "the input")])
        .attrs(&[attr(
            "axes",
            Ints,
            Default::Required,
            "the input's axes in the output's order; `None` reverses them",
        )])
        .fusion(Fusion::Injective)
        .same_elements()
        .compute(transpose_compute),
    OpDef::new("expand_dims", "New axes of extent 1.", expand_dims)
        .gradient(super::gradients::expand_dims)
        .affine_ordered(super::affine_rules::selection)
        .reshape()
        .inputs(&[input("data", "the input")])
        .attrs(&[
            attr(
                "axis",
                Int,
                Default::Required,
                "where they are put in, -rank-1 to rank",
            ),
            attr("num_newaxis", Int, Default::Int(1), "how many"),
        ])
        .fusion(Fusion::Broadcast)
        .compute(expand_dims_compute),
    OpDef::new("squeeze", "Axes of extent 1 removed.", squeeze)
        .reshape()
        .affine_ordered(super::affine_rules::selection)
        .layout(super::layout_rules::squeezed)
        .inputs(&[input("data", "the input")])
        .attrs(&[attr(
            "axis",
            Ints,
            Default::None,
            "which; `None` for all of extent 1",
        )])
        .fusion(Fusion::Injective)
        .compute(squeeze_compute),
    OpDef::new(
        "dyn.expand_dims",
        "New axes of extent 1 where a tensor says.",
        dyn_expand_dims,
    )
    .inputs(&[
        input("data", "the input"),
        input("axis", "where they are put in, a scalar"),
    ])
    .attrs(&[attr("num_newaxis", Int, Default::Int(1), "how many")])
    .meta_attrs("relay.attrs.DynExpandDimsAttrs")
    .fusion(Fusion::Injective)
    .data_dependent()
    .compute(dyn_expand_dims_compute),
    OpDef::new(
        "dyn.squeeze",
        "The axes of extent 1 removed that a tensor names.",
        dyn_squeeze,
    )
    .reshape()
    .static_form("squeeze")
    .renamed(&[("axes", "axis")])
    .inputs(&[input("data", "the input"), input("axes", "which, a vector")])
    .attrs(&[attr("axis", Ints, Default::None, "not used")])
    .fusion(Fusion::Injective)
    .data_dependent()
    .compute(dyn_squeeze_compute),
];

/// The permutation that `axes` gives.
fn permutation(cx: &RelCx<'_>, rank: usize) -> RelResult<Vec<usize>> {
    let Some(given) = cx.ints("axes")? else {
        return Ok((0..rank).rev().collect());
    };
    if given.len() != rank {
        let n = given.len();
        return cx.refuse(
            Subject::Attr("axes"),
            format!(
                "`axes` has {n} elements, but the tensor has rank {rank}: every axis is named once"
            ),
        );
    }
    let mut seen = vec![false; rank];
    let mut axes = Vec::with_capacity(rank);
    for v in given {
        let axis = cx.axis("axes", v, rank)?;
        if std::mem::replace(&mut seen[axis], true) {
            return cx.refuse(
                Subject::Attr("axes"),
                format!("`axes` names axis {axis} twice"),
            );
        }
        axes.push(axis);
    }
    Ok(axes)
}

fn transpose(cx: &mut RelCx<'_>) -> RelResult {
    let (dims, dtype) = shaped(cx, 0)?;
    let dims = match (dims, cx.ints("axes")?) {
        (Some(dims), _) => dims,
        // As many axes as are named.
        (None, Some(axes)) => anys(axes.len()),
        (None, None) => return cx.finish_unranked(dtype),
    };
    let axes = permutation(cx, dims.len())?;
    let out = axes.iter().map(|&a| dims[a].clone()).collect();
    finish(cx, out, dtype)
}

fn transpose_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let rank = x.rank();
    let axes: Vec<usize> = match te.ints("axes") {
        None => (0..rank).rev().collect(),
        Some(axes) => axes
            .iter()
            .map(|&a| if a < 0 { a + rank as i64 } else { a } as usize)
            .collect(),
    };
    if axes.len() != rank || axes.iter().any(|&a| a >= rank) {
        return Err("`axes` is no permutation of the axes".into());
    }
    let shape: Vec<Ex> = axes.iter().map(|&a| x.shape[a].clone()).collect();
    let y = te.compute("y", &shape, |i| {
        let mut index = vec![Ex::idx(0); rank];
        for (k, &a) in axes.iter().enumerate() {
            index[a] = i[k].clone();
        }
        x.at(&index)
    });
    te.output(&y);
    Ok(())
}

/// Returns the number of inserted axes.
fn new_axes(cx: &RelCx<'_>) -> RelResult<usize> {
    let n = cx.int("num_newaxis")?;
    match usize::try_from(n) {
        Ok(n) if n <= MAX_RANK => Ok(n),
        _ => cx.refuse(
            Subject::Attr("num_newaxis"),
            format!("`num_newaxis={n}` must be 0 to {MAX_RANK}"),
        ),
    }
}

fn expand_dims(cx: &mut RelCx<'_>) -> RelResult {
    let count = new_axes(cx)?;
    let (dims, dtype) = shaped(cx, 0)?;
    let Some(mut dims) = dims else {
        return cx.finish_unranked(dtype);
    };
    let at = gap_attr(cx, "axis", dims.len())?;
    dims.splice(at..at, vec![Dim::ONE; count]);
    finish(cx, dims, dtype)
}

fn expand_dims_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let rank = x.rank() as i64;
    let axis = te.int("axis")?;
    let at = usize::try_from(if axis < 0 { axis + rank + 1 } else { axis }).unwrap_or(usize::MAX);
    let count = te.int("num_newaxis")?.clamp(0, MAX_RANK as i64) as usize;
    if at > x.rank() {
        return Err("`axis` is out of range".into());
    }
    let mut shape = x.shape.clone();
    shape.splice(at..at, vec![Ex::idx(1); count]);
    let y = te.compute("y", &shape, |i| {
        let mut index = i.to_vec();
        index.drain(at..at + count);
        x.at(&index)
    });
    te.output(&y);
    Ok(())
}

fn squeeze(cx: &mut RelCx<'_>) -> RelResult {
    let (dims, dtype) = shaped(cx, 0)?;
    let Some(dims) = dims else {
        return cx.finish_unranked(dtype);
    };
    let Some(given) = cx.ints("axis")? else {
        for d in &dims {
            if d.has_infer() {
                return Err(crate::Stop::Wait);
            }
            if d.as_const().is_none() {
                let d = cx.host.show_dim(d);
                return cx.refuse(
                    Subject::Attr("axis"),
                    format!("`axis` must say which axes to remove, because the extent {d} may or may not be 1"),
                );
            }
        }
        let out = dims
            .into_iter()
            .filter(|d| d.as_const() != Some(1))
            .collect();
        return finish(cx, out, dtype);
    };
    let mut gone = vec![false; dims.len()];
    for v in given {
        let axis = cx.axis("axis", v, dims.len())?;
        if std::mem::replace(&mut gone[axis], true) {
            return cx.refuse(
                Subject::Attr("axis"),
                format!("`axis` names axis {axis} twice"),
            );
        }
        let d = &dims[axis];
        if d.as_const().is_some_and(|n| n != 1) {
            let d = cx.host.show_dim(d);
            return cx.refuse(
                Subject::Attr("axis"),
                format!("only axes of extent 1 can be removed, but axis {axis} has extent {d}"),
            );
        }
        // A symbolic extent must be 1 at run time.
        if d.is_known() && d.as_const().is_none() {
            cx.host
                .check_dims(d, &Dim::ONE, "a removed axis has extent 1");
        }
    }
    let out = dims
        .into_iter()
        .zip(gone)
        .filter(|(_, g)| !g)
        .map(|(d, _)| d)
        .collect();
    finish(cx, out, dtype)
}

fn squeeze_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let rank = x.rank();
    let mut gone = vec![false; rank];
    match te.ints("axis") {
        Some(axes) => {
            for v in axes {
                let at = if v < 0 { v + rank as i64 } else { v };
                let at = usize::try_from(at).ok().filter(|&a| a < rank);
                gone[at.ok_or("`axis` is out of range")?] = true;
            }
        }
        None => {
            for (g, n) in gone.iter_mut().zip(&x.shape) {
                *g = n.as_int() == Some(1);
            }
        }
    }
    let shape: Vec<Ex> = (0..rank)
        .filter(|&a| !gone[a])
        .map(|a| x.shape[a].clone())
        .collect();
    let y = te.compute("y", &shape, |i| {
        let mut i = i.iter();
        let index: Vec<Ex> = gone
            .iter()
            .map(|&g| {
                if g {
                    Ex::idx(0)
                } else {
                    i.next().cloned().unwrap_or(Ex::idx(0))
                }
            })
            .collect();
        x.at(&index)
    });
    te.output(&y);
    Ok(())
}

fn dyn_expand_dims(cx: &mut RelCx<'_>) -> RelResult {
    let count = new_axes(cx)?;
    let axis = need_scalar(cx, 1, "the axis")?;
    need_integers(cx, axis, 1, "the axis")?;
    let (dims, dtype) = shaped(cx, 0)?;
    match dims {
        Some(dims) => finish(cx, anys(dims.len() + count), dtype),
        None => cx.finish_unranked(dtype),
    }
}

fn dyn_expand_dims_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let rank = x.rank();
    let count = te.int("num_newaxis")?.clamp(0, MAX_RANK as i64) as usize;
    let axis = te.arg(1).scalar().cast(relax_tensor::DType::I64);
    let at = Ex::where_(&axis.lt(0i64), &(&axis + (rank as i64 + 1)), &axis);
    let shape: Vec<Ex> = (0..rank + count)
        .map(|k| {
            let before = x.shape.get(k).cloned().unwrap_or(Ex::idx(1));
            let after = k
                .checked_sub(count)
                .map_or(Ex::idx(1), |j| x.shape[j].clone());
            let behind = Ex::where_(&at.gt(k as i64 - count as i64), &Ex::idx(1), &after);
            Ex::where_(&at.gt(k as i64), &before, &behind)
        })
        .collect();
    let y = reshaped(te, &x, &shape);
    te.output(&y);
    Ok(())
}

fn dyn_squeeze(cx: &mut RelCx<'_>) -> RelResult {
    let (dims, dtype) = shaped(cx, 0)?;
    let gone = vector_len(cx, 1, "the list of axes")?;
    let Some(dims) = dims else {
        return cx.finish_unranked(dtype);
    };
    match dims.len().checked_sub(gone) {
        Some(rank) => finish(cx, anys(rank), dtype),
        None => {
            let rank = dims.len();
            cx.refuse(
                Subject::Arg(1),
                format!("{gone} axes cannot be removed from a tensor of rank {rank}"),
            )
        }
    }
}

/// Output axis `k` is the input axis that has `k` remaining axes before it.
fn dyn_squeeze_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let rank = x.rank();
    let axes: Vec<Ex> = elements(&te.arg(1))?
        .iter()
        .map(|a| Ex::where_(&a.lt(0i64), &(a + rank as i64), a))
        .collect();
    let left = rank
        .checked_sub(axes.len())
        .ok_or("more axes than there are")?;
    // The number of remaining axes before each one.
    let stays = |a: usize| {
        axes.iter().fold(Ex::idx(1), |s, g| {
            Ex::where_(&g.eq(a as i64), &Ex::idx(0), &s)
        })
    };
    let mut before = vec![Ex::idx(0)];
    for a in 0..rank {
        before.push(&before[a] + stays(a));
    }
    let shape: Vec<Ex> = (0..left)
        .map(|k| {
            (0..rank).fold(Ex::idx(1), |n, a| {
                let here = before[a].eq(k as i64) & stays(a).eq(1i64);
                Ex::where_(&here, &x.shape[a], &n)
            })
        })
        .collect();
    let y = reshaped(te, &x, &shape);
    te.output(&y);
    Ok(())
}
