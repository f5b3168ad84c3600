//! Elements repeated and reversed along axes.

use relax_loops::{Ex, TensorRef};
use relax_sym::Dim;

use super::util::{MAX_RANK, anys, axis_attr, finish, int_list, need_eq, shaped, vector_len};
use super::util_te::{Done, elements, product, reshaped, set};
use crate::AttrTy::*;
use crate::{Default, Fusion, OpDef, RelCx, RelResult, Subject, Te, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "repeat",
        "Each element several times along an axis.",
        repeat,
    )
    .affine_ordered(super::affine_rules::selection)
    .inputs(&[input("data", "the input")])
    .attrs(&[
        attr(
            "repeats",
            Int,
            Default::Required,
            "how often, at least once",
        ),
        attr("axis", Int, Default::None, "the axis"),
    ])
    .fusion(Fusion::Broadcast)
    .same_elements()
    .layout(super::layout_rules::cut)
    .compute(repeat_compute),
    OpDef::new(
        "tile",
        "The whole tensor several times along each axis.",
        tile,
    )
    .affine_ordered(super::affine_rules::selection)
    .inputs(&[input("data", "the input")])
    .attrs(&[attr(
        "reps",
        Ints,
        Default::Required,
        "how often, for each of the last axes",
    )])
    .fusion(Fusion::Broadcast)
    .compute(tile_compute),
    OpDef::new("dyn.tile", "`tile` as often as a tensor says.", dyn_tile)
        .static_form("tile")
        .inputs(&[
            input("data", "the input"),
            input("reps", "how often, a vector"),
        ])
        .attrs(&[attr("reps", Ints, Default::Required, "not used")])
        .fusion(Fusion::Injective)
        .data_dependent()
        .compute(dyn_tile_compute),
    OpDef::new(
        "reverse",
        "The elements along an axis in opposite order.",
        reverse,
    )
    .inputs(&[input("data", "the input")])
    .attrs(&[attr("axis", Int, Default::None, "the axis; must be given")])
    .fusion(Fusion::Injective)
    .compute(reverse_compute),
    OpDef::new(
        "reverse_sequence",
        "The first elements of each sequence in opposite order, as many as its length.",
        reverse_sequence,
    )
    .inputs(&[
        input("data", "the input"),
        input("seq_lengths", "the lengths, a vector of integers"),
    ])
    .attrs(&[
        attr(
            "seq_axis",
            Int,
            Default::Int(1),
            "the axis along which to reverse",
        ),
        attr(
            "batch_axis",
            Int,
            Default::Int(0),
            "the axis over the sequences",
        ),
    ])
    .fusion(Fusion::Injective)
    .compute(reverse_sequence_compute),
];

fn repeat(cx: &mut RelCx<'_>) -> RelResult {
    let n = cx.int("repeats")?;
    if n < 1 {
        return cx.refuse(
            Subject::Attr("repeats"),
            format!("`repeats={n}` must be at least 1"),
        );
    }
    let (dims, dtype) = shaped(cx, 0)?;
    let Some(mut dims) = dims else {
        return cx.finish_unranked(dtype);
    };
    if cx.attr("axis").is_none() && cx.host.in_tvmscript() {
        // All elements, as a vector.
        let all = dims.iter().fold(Dim::ONE, |p, d| &p * d);
        return finish(cx, vec![all * n], dtype);
    }
    let axis = axis_attr(cx, "axis", dims.len())?;
    if !dims[axis].is_any() {
        dims[axis] = &dims[axis] * n;
    }
    finish(cx, dims, dtype)
}

fn repeat_compute(te: &mut Te<'_>) -> Done {
    let (mut x, mut axis) = (te.arg(0), 0);
    if te.attr("axis").is_none() {
        let all = product(&x.shape);
        x = reshaped(te, &x, &[all]);
    } else {
        axis = te.axis("axis", x.rank())?;
    }
    let n = te.int("repeats")?;
    let shape = set(&x.shape, axis, &x.shape[axis] * n);
    let y = te.compute("y", &shape, |i| x.at(&set(i, axis, i[axis].floor_div(n))));
    te.output(&y);
    Ok(())
}

fn tile(cx: &mut RelCx<'_>) -> RelResult {
    let reps = int_list(cx, "reps")?;
    if let Some(n) = reps.iter().find(|&&n| n < 1) {
        return cx.refuse(
            Subject::Attr("reps"),
            format!("`reps` must be greater than 0, but holds {n}"),
        );
    }
    let (dims, dtype) = shaped(cx, 0)?;
    let Some(dims) = dims else {
        return cx.finish_unranked(dtype);
    };
    let rank = dims.len().max(reps.len()).min(MAX_RANK + 1);
    let back = |len: usize, k: usize| (k + len).checked_sub(rank);
    let out = (0..rank)
        .map(|k| {
            let d = back(dims.len(), k).map_or(Dim::ONE, |a| dims[a].clone());
            let n = back(reps.len(), k).map_or(1, |a| reps[a]);
            if d.is_any() { d } else { d * n }
        })
        .collect();
    finish(cx, out, dtype)
}

/// Repeats each axis of `x` (aligned from the last one) `reps` times.
fn tiled(te: &mut Te<'_>, x: &TensorRef, reps: &[Ex]) -> Done {
    let rank = x.rank().max(reps.len());
    let back = |len: usize, k: usize| (k + len).checked_sub(rank);
    let shape: Vec<Ex> = (0..rank)
        .map(|k| {
            let d = back(x.rank(), k).map_or(Ex::idx(1), |a| x.shape[a].clone());
            let n = back(reps.len(), k).map_or(Ex::idx(1), |a| reps[a].clone());
            d * n
        })
        .collect();
    let skip = rank - x.rank();
    let once = |k: usize| back(reps.len(), k).is_none_or(|a| reps[a].as_int() == Some(1));
    let y = te.compute("y", &shape, |i| {
        let index: Vec<Ex> = (0..x.rank())
            .map(|a| {
                let i = &i[a + skip];
                if once(a + skip) {
                    i.clone()
                } else {
                    i.floor_mod(&x.shape[a])
                }
            })
            .collect();
        x.at(&index)
    });
    te.output(&y);
    Ok(())
}

fn tile_compute(te: &mut Te<'_>) -> Done {
    let reps = te.ints("reps").ok_or("`reps` is no list")?;
    let reps: Vec<Ex> = reps.into_iter().map(Ex::idx).collect();
    let x = te.arg(0);
    tiled(te, &x, &reps)
}

fn dyn_tile(cx: &mut RelCx<'_>) -> RelResult {
    let (dims, dtype) = shaped(cx, 0)?;
    let n = vector_len(cx, 1, "the list of repetitions")?;
    match dims {
        Some(dims) => finish(cx, anys(dims.len().max(n)), dtype),
        None => cx.finish_unranked(dtype),
    }
}

fn dyn_tile_compute(te: &mut Te<'_>) -> Done {
    let (x, reps) = (te.arg(0), te.arg(1));
    let reps = elements(&reps)?;
    tiled(te, &x, &reps)
}

fn reverse(cx: &mut RelCx<'_>) -> RelResult {
    cx.set_out(cx.args[0])?;
    if let (Some(dims), _) = shaped(cx, 0)? {
        axis_attr(cx, "axis", dims.len())?;
    }
    Ok(())
}

fn reverse_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let axis = te.axis("axis", x.rank())?;
    let y = te.compute("y", &x.shape, |i| {
        x.at(&set(i, axis, &x.shape[axis] - 1 - &i[axis]))
    });
    te.output(&y);
    Ok(())
}

fn reverse_sequence(cx: &mut RelCx<'_>) -> RelResult {
    cx.set_out(cx.args[0])?;
    let (data, _) = shaped(cx, 0)?;
    let (lengths, dtype) = shaped(cx, 1)?;
    super::util::need_integers(cx, dtype, 1, "the sequence lengths")?;
    if let Some(l) = &lengths
        && l.len() != 1
    {
        let rank = l.len();
        return cx.refuse(
            Subject::Arg(1),
            format!("the sequence lengths must be a vector, but have rank {rank}"),
        );
    }
    let Some(data) = data else { return Ok(()) };
    axis_attr(cx, "seq_axis", data.len())?;
    let batch = axis_attr(cx, "batch_axis", data.len())?;
    if let Some(l) = lengths {
        need_eq(
            cx,
            &l[0],
            &data[batch],
            Subject::Arg(1),
            "there is one length for each sequence",
        )?;
    }
    Ok(())
}

fn reverse_sequence_compute(te: &mut Te<'_>) -> Done {
    let (x, lengths) = (te.arg(0), te.arg(1));
    let (seq, batch) = (
        te.axis("seq_axis", x.rank())?,
        te.axis("batch_axis", x.rank())?,
    );
    let y = te.compute("y", &x.shape, |i| {
        let at = &i[seq];
        let len = lengths
            .at(&[i[batch].clone()])
            .cast(relax_tensor::DType::I64)
            .min(&x.shape[seq]);
        let inside = at.lt(&len);
        x.at(&set(i, seq, Ex::where_(&inside, &(&len - 1 - at), at)))
    });
    te.output(&y);
    Ok(())
}
