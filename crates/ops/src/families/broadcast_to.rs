//! Broadcasting to a shape, and its opposite: sums over the axes that were broadcast.

use relax_ir::TypeId;
use relax_loops::{Combiner, Ex};
use relax_sym::{Dim, Proof};

use super::util::{anys, extents, finish, shaped, tensor_type, vector_len};
use super::util_te::{Done, elements, out_shape};
use crate::AttrTy::*;
use crate::{AttrDef, Default, Fusion, OpDef, RelCx, RelResult, Subject, Te, attr, input};

const INIT: &[AttrDef] = &[
    attr("shape", Dims, Default::Required, "the extents"),
    attr("dtype", DType, Default::DType(""), "not used"),
];

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "broadcast_to",
        "The input broadcast to a shape.",
        broadcast_to,
    )
    .result_dtype("dtype")
    .inputs(&[input("data", "the input")])
    .attrs(INIT)
    .fusion(Fusion::Broadcast)
    .compute(broadcast_to_compute),
    OpDef::new(
        "broadcast_to_like",
        "The input broadcast to the shape of another tensor.",
        broadcast_to_like,
    )
    .inputs(&[
        input("data", "the input"),
        input("broadcast_type", "the tensor whose shape to take"),
    ])
    .fusion(Fusion::Broadcast)
    .compute(broadcast_to_like_compute),
    OpDef::new(
        "dyn.broadcast_to",
        "The input broadcast to the extents that a tensor holds.",
        dyn_broadcast_to,
    )
    .result_dtype("dtype")
    .static_form("broadcast_to")
    .inputs(&[
        input("data", "the input"),
        input("shape", "the extents, a vector"),
    ])
    .attrs(INIT)
    .fusion(Fusion::Broadcast)
    .data_dependent()
    .compute(dyn_broadcast_to_compute),
    OpDef::new(
        "collapse_sum_like",
        "The sum over all axes along which another tensor's shape is broadcast to the input's.",
        collapse_sum_like,
    )
    .inputs(&[
        input("data", "the input"),
        input("collapse_type", "the tensor whose shape to take"),
    ])
    .fusion(Fusion::Reduction)
    .compute(collapse_sum_like_compute),
    OpDef::new(
        "collapse_sum_to",
        "The sum over all axes along which the given shape is broadcast to the input's.",
        collapse_sum_to,
    )
    .result_dtype("dtype")
    .inputs(&[
        input("data", "the input"),
        input("shape", "the extents, a vector"),
    ])
    .attrs(INIT)
    .meta_attrs("relay.attrs.InitOpAttrs")
    .fusion(Fusion::Reduction)
    .compute(collapse_sum_to_compute),
];

/// Requires that `small` broadcasts to `large`, unchanged.
fn fits(cx: &mut RelCx<'_>, small: &[Dim], large: &[Dim], subject: Subject) -> RelResult {
    let show = |cx: &RelCx<'_>, dims: &[Dim]| {
        let dims: Vec<String> = dims.iter().map(|d| cx.host.show_dim(d)).collect();
        format!("({})", dims.join(", "))
    };
    let mut bad = small.len() > large.len();
    let skip = large.len().saturating_sub(small.len());
    for (a, b) in small.iter().zip(large.iter().skip(skip)) {
        if a.as_const() == Some(1) || !a.is_known() || !b.is_known() {
            continue;
        }
        match cx.host.compare_dims(a, b) {
            Proof::Proven => {}
            Proof::Refuted if a.as_const().is_some() => bad = true,
            _ => {
                cx.host.check_dims(a, b, "broadcasting");
                cx.host
                    .check_at_run_time(a, crate::Fit::BroadcastsTo, b, "");
            }
        }
    }
    if bad {
        let (small, large) = (show(cx, small), show(cx, large));
        return cx.refuse(
            subject,
            format!("{small} does not broadcast to {large}: extents must be equal or 1, aligned at the last"),
        );
    }
    Ok(())
}

/// The result has type `target`, which `small` broadcasts to (or that broadcasts to it, when
/// collapsing).
fn by_type(cx: &mut RelCx<'_>, target: TypeId, collapse: bool, about: Subject) -> RelResult {
    cx.set_out(target)?;
    let data = cx.tensor(0)?;
    let other = cx.expect_tensor(target, about.clone())?;
    cx.require_dtype(
        data.dtype,
        other.dtype,
        about.clone(),
        "both tensors have one element type",
    )?;
    if let (Some(a), Some(b)) = (data.shape.dims(), other.shape.dims()) {
        let (small, large) = if collapse { (b, a) } else { (a, b) };
        return fits(cx, small, large, about);
    }
    Ok(())
}

fn broadcast_to(cx: &mut RelCx<'_>) -> RelResult {
    let data = cx.tensor(0)?;
    let dims = extents(cx, "shape")?;
    let ty = tensor_type(cx, dims, data.dtype)?;
    by_type(cx, ty, false, Subject::Attr("shape"))
}

fn broadcast_to_like(cx: &mut RelCx<'_>) -> RelResult {
    by_type(cx, cx.args[1], false, Subject::Arg(1))
}

fn dyn_broadcast_to(cx: &mut RelCx<'_>) -> RelResult {
    let (dims, dtype) = shaped(cx, 0)?;
    let rank = vector_len(cx, 1, "the shape")?;
    if let Some(n) = dims.map(|d| d.len()).filter(|&n| n > rank) {
        return cx.refuse(
            Subject::Arg(1),
            format!("a tensor of rank {n} does not broadcast to rank {rank}"),
        );
    }
    finish(cx, anys(rank), dtype)
}

fn collapse_sum_like(cx: &mut RelCx<'_>) -> RelResult {
    by_type(cx, cx.args[1], true, Subject::Arg(1))
}

fn collapse_sum_to(cx: &mut RelCx<'_>) -> RelResult {
    let data = cx.tensor(0)?;
    let rank = vector_len(cx, 1, "the shape")?;
    let dims = match super::util::dim_list(cx, "shape")? {
        Some(dims) => dims,
        None => anys(rank),
    };
    let ty = tensor_type(cx, dims, data.dtype)?;
    by_type(cx, ty, true, Subject::Attr("shape"))
}

fn spread(te: &mut Te<'_>, shape: &[Ex]) -> Done {
    let x = te.arg(0);
    if x.rank() > shape.len() {
        return Err("a tensor does not broadcast to a lower rank".into());
    }
    let y = te.compute("y", shape, |i| x.at_broadcast(i));
    te.output(&y);
    Ok(())
}

fn broadcast_to_compute(te: &mut Te<'_>) -> Done {
    let shape = out_shape(te);
    spread(te, &shape)
}
fn broadcast_to_like_compute(te: &mut Te<'_>) -> Done {
    let shape = te.arg(1).shape;
    spread(te, &shape)
}
fn dyn_broadcast_to_compute(te: &mut Te<'_>) -> Done {
    let shape = elements(&te.arg(1))?;
    spread(te, &shape)
}

/// Sums over the axes that the target lacks, or has with extent 1.
pub(super) fn collapse(te: &mut Te<'_>, target: &[Ex]) -> Done {
    let x = te.arg(0);
    let skip = x
        .rank()
        .checked_sub(target.len())
        .ok_or("a sum does not have a higher rank")?;
    let over: Vec<Ex> = (0..x.rank())
        .map(|a| match a.checked_sub(skip).map(|k| &target[k]) {
            None => x.shape[a].clone(),
            Some(t) => match t.as_int() {
                Some(1) => x.shape[a].clone(),
                Some(_) => Ex::idx(1),
                None => Ex::where_(&t.eq(1i64), &x.shape[a], &Ex::idx(1)),
            },
        })
        .collect();
    // Axes that are not summed are not axes of the reduction.
    let summed: Vec<usize> = (0..x.rank())
        .filter(|&a| over[a].as_int() != Some(1))
        .collect();
    let y = if summed.is_empty() {
        te.compute("y", target, |i| {
            x.at(&[&vec![Ex::idx(0); skip], i].concat())
        })
    } else {
        let extents: Vec<Ex> = summed.iter().map(|&a| over[a].clone()).collect();
        te.reduce("y", target, &extents, Combiner::Sum, |i, r| {
            let mut index = [&vec![Ex::idx(0); skip], i].concat();
            for (&a, r) in summed.iter().zip(r) {
                let only = a < skip || target[a - skip].as_int() == Some(1);
                index[a] = if only { r.clone() } else { &index[a] + r };
            }
            x.at(&index)
        })
    };
    te.output(&y);
    Ok(())
}

fn collapse_sum_like_compute(te: &mut Te<'_>) -> Done {
    let target = te.arg(1).shape;
    collapse(te, &target)
}
fn collapse_sum_to_compute(te: &mut Te<'_>) -> Done {
    let known = te.out(0).shape.clone();
    let target = match known.iter().copied().collect::<Option<Vec<i64>>>() {
        Some(dims) => dims.into_iter().map(Ex::idx).collect(),
        None => elements(&te.arg(1))?,
    };
    collapse(te, &target)
}
