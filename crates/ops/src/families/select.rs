//! Elements selected by a condition: `where`, one-hot vectors, masks.

use relax_loops::Ex;
use relax_sym::Dim;
use relax_tensor::DType as DT;

use super::util::{check_eq, dtype_or, finish, need_integers, need_scalar, shaped};
use super::util_te::{Done, with, without};
use crate::AttrTy::*;
use crate::{AttrDef, Default, Fusion, OpDef, RelCx, RelResult, Subject, Te, attr, input};

const ONE_HOT: &[AttrDef] = &[
    attr("depth", Int, Default::Int(1), "the extent of the new axis"),
    attr(
        "axis",
        Int,
        Default::Int(-1),
        "where the new axis is put in",
    ),
    attr("dtype", DType, Default::DType(""), "the element type"),
];

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "where",
        "Elements of `x` where the condition holds, of `y` elsewhere, with broadcasting.",
        where_,
    )
    .layout(super::layout_rules::broadcast)
    .in_relax(super::relax_rules::condition)
    .inputs(&[
        input(
            "condition",
            "the condition; numbers hold where they are not 0",
        ),
        input("x", "where it holds"),
        input("y", "where it doesn't"),
    ])
    .fusion(Fusion::Broadcast)
    .compute(where_compute),
    OpDef::new(
        "one_hot",
        "A new axis with one value at the given index and another elsewhere.",
        one_hot,
    )
    .inputs(&[
        input("indices", "the indices"),
        input("on_value", "the value at the index, a scalar"),
        input("off_value", "the value elsewhere, a scalar"),
    ])
    .attrs(ONE_HOT)
    .fusion(Fusion::OutElementwise)
    .compute(one_hot_compute),
    OpDef::new(
        "dyn.one_hot",
        "`one_hot` whose depth a tensor holds.",
        dyn_one_hot,
    )
    .static_form("one_hot")
    .inputs(&[
        input("indices", "the indices"),
        input("on_value", "the value at the index, a scalar"),
        input("off_value", "the value elsewhere, a scalar"),
        input("depth", "the extent of the new axis, a scalar"),
    ])
    .attrs(ONE_HOT)
    .fusion(Fusion::OutElementwise)
    .data_dependent()
    .compute(dyn_one_hot_compute),
    OpDef::new(
        "sequence_mask",
        "The input with all elements beyond each sequence's length replaced.",
        sequence_mask,
    )
    .inputs(&[
        input("data", "the input"),
        input("valid_length", "the lengths, a vector"),
    ])
    .attrs(&[
        attr("mask_value", Float, Default::Float(0.0), "the value beyond"),
        attr(
            "axis",
            Int,
            Default::Int(0),
            "the axis of the length, 0 or 1; the other of the two is the batch",
        ),
    ])
    .fusion(Fusion::Injective)
    .compute(sequence_mask_compute),
    OpDef::new(
        "trilu",
        "The upper (or lower) triangle of matrices, zeros elsewhere.",
        trilu,
    )
    .inputs(&[
        input("data", "the input"),
        input("k", "the diagonal, a scalar"),
    ])
    .attrs(&[attr(
        "upper",
        Bool,
        Default::Bool(true),
        "whether the upper triangle is kept",
    )])
    .meta_attrs("relay.attrs.TriluAttrs")
    .fusion(Fusion::Elementwise)
    .compute(trilu_compute),
    OpDef::new(
        "matrix_set_diag",
        "Matrices with some of their diagonals replaced.",
        matrix_set_diag,
    )
    .inputs(&[
        input("input", "the matrices"),
        input("diagonal", "the diagonals"),
    ])
    .attrs(&[
        attr("k1", Int, Default::Int(0), "the lowest diagonal"),
        attr("k2", Int, Default::Int(0), "the highest diagonal"),
        attr(
            "super_diag_right_align",
            Bool,
            Default::Bool(true),
            "whether diagonals above the main one end at the right",
        ),
        attr(
            "sub_diag_right_align",
            Bool,
            Default::Bool(false),
            "whether diagonals below the main one end at the right",
        ),
    ])
    .fusion(Fusion::Injective)
    .compute(matrix_set_diag_compute),
];

fn where_(cx: &mut RelCx<'_>) -> RelResult {
    let (c, _) = shaped(cx, 0)?;
    let (x, a) = shaped(cx, 1)?;
    let (y, b) = shaped(cx, 2)?;
    let dtype = cx.require_dtype(
        a,
        b,
        Subject::Call,
        "both sides of `where` have one element type",
    )?;
    let (Some(c), Some(x), Some(y)) = (c, x, y) else {
        return cx.finish_unranked(dtype);
    };
    let sides = cx.broadcast(&x, &y)?;
    let out = cx.broadcast(&c, &sides)?;
    finish(cx, out, dtype)
}

fn where_compute(te: &mut Te<'_>) -> Done {
    let [c, x, y] = [te.arg(0), te.arg(1), te.arg(2)];
    let shape = Te::broadcast_shape(&Te::broadcast_shape(&c.shape, &x.shape), &y.shape);
    let out = te.compute("y", &shape, |i| {
        let holds = c.at_broadcast(i).cast(DT::BOOL);
        Ex::where_(&holds, &x.at_broadcast(i), &y.at_broadcast(i))
    });
    te.output(&out);
    Ok(())
}

/// Returns the position of the new axis of `one_hot`: -1 is last.
fn hot_axis(axis: i64, rank: usize) -> Option<usize> {
    if axis == -1 {
        return Some(rank);
    }
    usize::try_from(axis).ok().filter(|&a| a <= rank)
}

fn hot(cx: &mut RelCx<'_>, depth: Dim) -> RelResult {
    let on = need_scalar(cx, 1, "the value at the index")?;
    need_scalar(cx, 2, "the value elsewhere")?;
    let dtype = dtype_or(cx, "dtype", on);
    let (indices, index_dtype) = shaped(cx, 0)?;
    need_integers(cx, index_dtype, 0, "the indices")?;
    let Some(mut dims) = indices else {
        return cx.finish_unranked(dtype);
    };
    let axis = cx.int("axis")?;
    let rank = dims.len();
    match hot_axis(axis, rank) {
        Some(at) => dims.insert(at, depth),
        None => {
            return cx.refuse(
                Subject::Attr("axis"),
                format!(
                    "`axis={axis}` is out of range: it may be -1 for the last place, or 0 to {rank}"
                ),
            );
        }
    }
    finish(cx, dims, dtype)
}

fn one_hot(cx: &mut RelCx<'_>) -> RelResult {
    let depth = cx.int("depth")?;
    if depth < 1 {
        return cx.refuse(
            Subject::Attr("depth"),
            format!("`depth={depth}` must be greater than 0"),
        );
    }
    hot(cx, Dim::from(depth))
}

fn dyn_one_hot(cx: &mut RelCx<'_>) -> RelResult {
    need_scalar(cx, 3, "the depth")?;
    hot(cx, Dim::ANY)
}

fn hot_compute(te: &mut Te<'_>, depth: Ex) -> Done {
    let [x, on, off] = [te.arg(0), te.arg(1), te.arg(2)];
    let dtype = te.out(0).dtype;
    let at = hot_axis(te.int("axis")?, x.rank()).ok_or("`axis` is out of range")?;
    let shape = with(&x.shape, at, depth);
    let y = te.compute("y", &shape, |i| {
        let here = x.at(&without(i, at)).cast(DT::I64).eq(&i[at]);
        Ex::where_(&here, &on.scalar().cast(dtype), &off.scalar().cast(dtype))
    });
    te.output(&y);
    Ok(())
}
fn one_hot_compute(te: &mut Te<'_>) -> Done {
    let depth = Ex::idx(te.int("depth")?);
    hot_compute(te, depth)
}
fn dyn_one_hot_compute(te: &mut Te<'_>) -> Done {
    let depth = te.arg(3).scalar().cast(DT::I64);
    hot_compute(te, depth)
}

fn sequence_mask(cx: &mut RelCx<'_>) -> RelResult {
    cx.set_out(cx.args[0])?;
    let axis = cx.int("axis")?;
    if !(0..=1).contains(&axis) {
        return cx.refuse(
            Subject::Attr("axis"),
            format!("`axis={axis}` must be 0 or 1"),
        );
    }
    let (data, _) = shaped(cx, 0)?;
    let (_, length) = shaped(cx, 1)?;
    let Some(data) = data else { return Ok(()) };
    if data.len() < 2 {
        let rank = data.len();
        return cx.refuse(
            Subject::Arg(0),
            format!("the data must have at least 2 axes, but has rank {rank}"),
        );
    }
    let want = cx
        .host
        .types_mut()
        .tensor(vec![data[1 - axis as usize].clone()], length);
    cx.require_arg(1, want, "there is one length for each sequence")
}

fn sequence_mask_compute(te: &mut Te<'_>) -> Done {
    let (x, lengths) = (te.arg(0), te.arg(1));
    let axis = te.axis("axis", x.rank().min(2))?;
    let mask = Ex::float(x.dtype, te.float("mask_value")?);
    let y = te.compute("y", &x.shape, |i| {
        let beyond = i[axis]
            .cast(lengths.dtype)
            .ge(lengths.at(&[i[1 - axis].clone()]));
        Ex::where_(&beyond, &mask, &x.at(i))
    });
    te.output(&y);
    Ok(())
}

fn trilu(cx: &mut RelCx<'_>) -> RelResult {
    cx.set_out(cx.args[0])?;
    let diagonal = need_scalar(cx, 1, "the diagonal")?;
    need_integers(cx, diagonal, 1, "the diagonal")?;
    match shaped(cx, 0)?.0 {
        Some(d) if d.len() < 2 => {
            let rank = d.len();
            cx.refuse(
                Subject::Arg(0),
                format!("a triangle is part of a matrix, but the data has rank {rank}"),
            )
        }
        _ => Ok(()),
    }
}

fn trilu_compute(te: &mut Te<'_>) -> Done {
    let (x, k) = (te.arg(0), te.arg(1));
    let upper = te.flag("upper");
    let rank = x.rank();
    if rank < 2 {
        return Err("a triangle is part of a matrix".into());
    }
    let y = te.compute("y", &x.shape, |i| {
        let diagonal = &i[rank - 1] - k.scalar().cast(DT::I64);
        let row = &i[rank - 2];
        let keep = if upper {
            row.le(&diagonal)
        } else {
            row.ge(&diagonal)
        };
        Ex::where_(&keep, &x.at(i), &Ex::int(x.dtype, 0))
    });
    te.output(&y);
    Ok(())
}

/// Returns the extents that `diagonal` must have for matrices of extents `dims`.
fn diagonal_extents(dims: &[Dim], k1: i64, k2: i64) -> Vec<Dim> {
    let (outer, matrix) = dims.split_at(dims.len() - 2);
    let length = (&matrix[0] + k2.min(0)).min(&(&matrix[1] - k1.max(0)));
    let mut want = outer.to_vec();
    if k1 != k2 {
        want.push(Dim::from(k2 - k1 + 1));
    }
    want.push(length);
    want
}

fn matrix_set_diag(cx: &mut RelCx<'_>) -> RelResult {
    cx.set_out(cx.args[0])?;
    let (k1, k2) = (cx.int("k1")?, cx.int("k2")?);
    if k1 > k2 {
        return cx.refuse(
            Subject::Attr("k1"),
            format!("`k1={k1}` must not be greater than `k2={k2}`"),
        );
    }
    let (data, a) = shaped(cx, 0)?;
    let (diagonal, b) = shaped(cx, 1)?;
    cx.require_dtype(
        a,
        b,
        Subject::Arg(1),
        "the diagonals have the input's element type",
    )?;
    let (Some(data), Some(diagonal)) = (data, diagonal) else {
        return Ok(());
    };
    if data.len() < 2 {
        let rank = data.len();
        return cx.refuse(
            Subject::Arg(0),
            format!("diagonals are part of matrices, but the input has rank {rank}"),
        );
    }
    for (axis, name, k) in [(2, "k1", k1.checked_neg()), (1, "k2", Some(k2))] {
        let n = data[data.len() - axis].as_const();
        if let Some(n) = n.filter(|n| k.is_none_or(|k| k >= *n)) {
            let k = cx.int(name)?;
            return cx.refuse(
                Subject::Attr(name),
                format!("`{name}={k}` is outside of the matrix, whose extent is {n}"),
            );
        }
    }
    let want = diagonal_extents(&data, k1, k2);
    if want.len() != diagonal.len() {
        let (n, m) = (diagonal.len(), want.len());
        return cx.refuse(
            Subject::Arg(1),
            format!("the diagonals must have rank {m}, but have rank {n}"),
        );
    }
    for (k, (a, b)) in diagonal.iter().zip(&want).enumerate() {
        check_eq(
            cx,
            a,
            b,
            Subject::Arg(1),
            &format!("the extents of the diagonals follow from the input; axis {k}"),
        )?;
    }
    Ok(())
}

fn matrix_set_diag_compute(te: &mut Te<'_>) -> Done {
    let (x, d) = (te.arg(0), te.arg(1));
    let (k1, k2) = (te.int("k1")?, te.int("k2")?);
    let right = [
        te.flag("super_diag_right_align"),
        te.flag("sub_diag_right_align"),
    ];
    let rank = x.rank();
    if rank < 2 || d.rank() == 0 {
        return Err("diagonals are part of matrices".into());
    }
    let longest = d.shape[d.rank() - 1].clone();
    let (rows, columns) = (x.shape[rank - 2].clone(), x.shape[rank - 1].clone());
    let y = te.compute("y", &x.shape, |i| {
        let (row, column) = (&i[rank - 2], &i[rank - 1]);
        let k = column - row;
        let above = k.ge(0i64);
        let mut at = i[..rank - 2].to_vec();
        let place = Ex::where_(&above, row, column);
        if k1 == k2 {
            at.push(place);
        } else {
            // Shorter diagonals are aligned at one of the ends.
            let pad = |align: bool, length: Ex| if align { &longest - length } else { Ex::idx(0) };
            let over = pad(right[0], rows.min(&columns - &k));
            let under = pad(right[1], (&rows + &k).min(&columns));
            at.push(Ex::idx(k2) - &k);
            at.push(place + Ex::where_(&above, &over, &under));
        }
        let inside = k.ge(k1) & k.le(k2);
        Ex::where_(&inside, &d.at(&at), &x.at(i))
    });
    te.output(&y);
    Ok(())
}
