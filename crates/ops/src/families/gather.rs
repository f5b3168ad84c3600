//! Elements gathered at indices that a tensor holds.

use relax_loops::{Ex, TensorRef};
use relax_sym::Dim;
use relax_tensor::DType;

use super::util::{
    axis_attr, check_eq, finish, need_eq, need_integers, shaped, shaped_field, word,
};
use super::util_te::{Done, clamp, from_end, product, set, unflat};
use crate::AttrTy::*;
use crate::{Default, Fusion, OpDef, RelCx, RelResult, Stop, Subject, Te, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new("take", "The elements (or slices along an axis) at the given indices.", take)
        .gradient(super::gradients_parts::take)
        .inputs(&[input("data", "the input"), input("indices", "the indices, integers")])
        .attrs(&[
            attr("batch_dims", Int, Default::Int(0), "how many leading axes the two have in common"),
            attr("axis", Int, Default::None, "the axis; `None` takes from the flattened input"),
            attr("mode", Str, Default::Str("clip"), "indices outside: `clip` to the range, `wrap` around, `fast` trusts that there are none"),
        ])
        .fusion(Fusion::Injective)
        .compute(take_compute),
    OpDef::new("gather", "Elements along an axis, an index for each element of the output.", gather)
        .inputs(&[input("data", "the input"), input("indices", "the indices, of the output's shape")])
        .attrs(&[attr("axis", Int, Default::None, "the axis; must be given")])
        .fusion(Fusion::Injective)
        .compute(gather_compute),
    OpDef::new("gather_nd", "Elements (or slices) at tuples of indices; the first axis of `indices` runs over the tuple.", gather_nd)
        .gradient(super::gradients_parts::gather_nd)
        .inputs(&[input("data", "the input"), input("indices", "the tuples of indices, along the first axis")])
        .attrs(&[
            attr("batch_dims", Int, Default::Int(0), "how many leading axes the two have in common"),
            attr("index_rank", Int, Default::None, "the length of the tuples, where it is known only here"),
        ])
        .fusion(Fusion::Injective)
        .compute(gather_nd_compute),
    OpDef::new("adv_index", "numpy's advanced indexing: the first tensor at the indices that the others give.", adv_index)
        .inputs(&[input("inputs", "the tensor and the indices of its leading axes, a tuple")])
        .fusion(Fusion::Injective)
        .compute(adv_index_compute),
];

/// Returns the number of leading axes that data and indices share; negative ones count from the
/// indices' rank.
fn batch_dims(cx: &RelCx<'_>, indices: usize) -> RelResult<usize> {
    let b = cx.int("batch_dims")?;
    let at = if b < 0 {
        b.saturating_add(indices as i64)
    } else {
        b
    };
    match usize::try_from(at) {
        Ok(n) if n <= indices => Ok(n),
        _ => cx.refuse(
            Subject::Attr("batch_dims"),
            format!("`batch_dims={b}` is out of range: the indices have rank {indices}"),
        ),
    }
}

fn take(cx: &mut RelCx<'_>) -> RelResult {
    word(cx, "mode", &["clip", "wrap", "fast"])?;
    let (data, dtype) = shaped(cx, 0)?;
    let (indices, index_dtype) = shaped(cx, 1)?;
    need_integers(cx, index_dtype, 1, "the indices")?;
    if cx.attr("axis").is_none() {
        if cx.host.as_written() && data.is_some_and(|d| d.len() != 1) {
            let message = "Relax takes along an axis: without one the data have a single axis";
            return cx.refuse(Subject::Arg(0), message);
        }
        return match indices {
            Some(dims) => finish(cx, dims, dtype),
            None => cx.finish_unranked(dtype),
        };
    }
    let (Some(data), Some(indices)) = (data, indices) else {
        return cx.finish_unranked(dtype);
    };
    let axis = axis_attr(cx, "axis", data.len())?;
    let batch = batch_dims(cx, indices.len())?;
    if batch > axis {
        return cx.refuse(
            Subject::Attr("batch_dims"),
            format!("`batch_dims` is {batch}, which must not be greater than the axis {axis}"),
        );
    }
    for k in 0..batch {
        check_eq(
            cx,
            &data[k],
            &indices[k],
            Subject::Arg(1),
            &format!("data and indices share axis {k}"),
        )?;
    }
    let out = [&data[..axis], &indices[batch..], &data[axis + 1..]].concat();
    finish(cx, out, dtype)
}

/// Maps an index into the extent, by the mode.
fn inside(mode: &str, i: &Ex, n: &Ex) -> Ex {
    match mode {
        "clip" => clamp(i, n),
        "wrap" => i.floor_mod(n),
        _ => i.clone(),
    }
}

fn take_compute(te: &mut Te<'_>) -> Done {
    let (x, indices) = (te.arg(0), te.arg(1));
    let mode = te.str("mode").to_owned();
    if te.attr("axis").is_none() {
        let n = product(&x.shape);
        let y = te.compute("y", &indices.shape, |i| {
            let at = inside(&mode, &indices.at(i).cast(DType::I64), &n);
            x.at(&unflat(&at, &x.shape))
        });
        te.output(&y);
        return Ok(());
    }
    let axis = te.axis("axis", x.rank())?;
    let batch = te.int("batch_dims")?;
    let batch = if batch < 0 {
        batch + indices.rank() as i64
    } else {
        batch
    } as usize;
    if batch > axis || batch > indices.rank() || axis >= x.rank() {
        return Err("`batch_dims` is out of range".into());
    }
    let shape = [
        &x.shape[..axis],
        &indices.shape[batch..],
        &x.shape[axis + 1..],
    ]
    .concat();
    let own = indices.rank() - batch;
    let y = te.compute("y", &shape, |i| {
        let at = [&i[..batch], &i[axis..axis + own]].concat();
        let at = inside(&mode, &indices.at(&at).cast(DType::I64), &x.shape[axis]);
        x.at(&[&i[..axis], &[at], &i[axis + own..]].concat())
    });
    te.output(&y);
    Ok(())
}

fn gather(cx: &mut RelCx<'_>) -> RelResult {
    let (data, dtype) = shaped(cx, 0)?;
    let (indices, index_dtype) = shaped(cx, 1)?;
    need_integers(cx, index_dtype, 1, "the indices")?;
    let Some(indices) = indices else {
        return cx.finish_unranked(dtype);
    };
    let axis = axis_attr(cx, "axis", indices.len())?;
    if let Some(data) = data {
        if data.len() != indices.len() {
            let (a, b) = (data.len(), indices.len());
            return cx.refuse(
                Subject::Arg(1),
                format!("the indices have the rank of the data, but {b} is not {a}"),
            );
        }
        for (k, (d, i)) in data.iter().zip(&indices).enumerate() {
            if k != axis {
                let rule = format!(
                    "`gather` along axis {axis} takes indices that agree with the data in axis {k}"
                );
                need_eq(cx, i, d, Subject::Arg(1), &rule)?;
            }
        }
    }
    if indices[axis].as_const() == Some(0) {
        return cx.refuse(
            Subject::Arg(1),
            format!("the indices must have at least one element along axis {axis}"),
        );
    }
    finish(cx, indices, dtype)
}

fn gather_compute(te: &mut Te<'_>) -> Done {
    let (x, indices) = (te.arg(0), te.arg(1));
    let axis = te.axis("axis", x.rank())?;
    let y = te.compute("y", &indices.shape, |i| {
        let at = from_end(&indices.at(i).cast(DType::I64), &x.shape[axis]);
        x.at(&set(i, axis, at))
    });
    te.output(&y);
    Ok(())
}

fn gather_nd(cx: &mut RelCx<'_>) -> RelResult {
    let (data, dtype) = shaped(cx, 0)?;
    let (indices, index_dtype) = shaped(cx, 1)?;
    let (Some(data), Some(indices)) = (data, indices) else {
        return cx.finish_unranked(dtype);
    };
    let Some(first) = indices.first() else {
        return cx.refuse(
            Subject::Arg(1),
            "the indices must have an axis that runs over the index tuple",
        );
    };
    if index_dtype.known().is_some_and(DType::is_bool) {
        return cx.refuse(Subject::Arg(1), "the indices must be numbers");
    }
    if first.has_infer() {
        return Err(Stop::Wait);
    }
    let Some(count) = first.as_const().or_else(|| cx.attr("index_rank").as_int()) else {
        let n = cx.host.show_dim(first);
        return cx.refuse(
            Subject::Arg(1),
            format!("the first axis of the indices says how many axes are indexed, so it must be known, but it is {n}"),
        );
    };
    if first.as_const().is_none() {
        let (first, rule) = (
            first.clone(),
            "the first axis of the indices is `index_rank`",
        );
        need_eq(cx, &first, &count.into(), Subject::Arg(1), rule)?;
    }
    let batch = cx.int("batch_dims")?;
    let end = count
        .checked_add(batch)
        .and_then(|n| usize::try_from(n).ok());
    let batch = usize::try_from(batch)
        .ok()
        .filter(|&b| b < indices.len() && b <= data.len());
    let (Some(batch), Some(end)) = (batch, end.filter(|&e| e <= data.len())) else {
        let (rank, b) = (data.len(), cx.int("batch_dims")?);
        return cx.refuse(
            Subject::Arg(1),
            format!(
                "`batch_dims={b}` and tuples of {count} indices do not fit data of rank {rank}"
            ),
        );
    };
    for k in 0..batch {
        need_eq(
            cx,
            &data[k],
            &indices[k + 1],
            Subject::Arg(1),
            &format!("data and indices share axis {k}"),
        )?;
    }
    let out: Vec<Dim> = [&indices[1..], &data[end..]].concat();
    finish(cx, out, dtype)
}

fn gather_nd_compute(te: &mut Te<'_>) -> Done {
    let (x, indices) = (te.arg(0), te.arg(1));
    let count = (indices.shape.first().and_then(Ex::as_int)).or(te.attr("index_rank").as_int());
    let count = count.ok_or("the length of the index tuples must be known")? as usize;
    let batch = te.int("batch_dims")?.max(0) as usize;
    let own = indices.rank() - 1;
    if batch + count > x.rank() || batch > own {
        return Err("the index tuples do not fit the data".into());
    }
    let shape = [&indices.shape[1..], &x.shape[batch + count..]].concat();
    let y = te.compute("y", &shape, |i| {
        let mut index = i[..batch].to_vec();
        for k in 0..count {
            let at = [&[Ex::idx(k as i64)], &i[..own]].concat();
            index.push(from_end(
                &indices.at(&at).cast(DType::I64),
                &x.shape[batch + k],
            ));
        }
        index.extend_from_slice(&i[own..]);
        x.at(&index)
    });
    te.output(&y);
    Ok(())
}

fn adv_index(cx: &mut RelCx<'_>) -> RelResult {
    let types = cx.tuple(0)?;
    let Some((&data, indices)) = types.split_first().filter(|(_, i)| !i.is_empty()) else {
        return cx.refuse(
            Subject::Arg(0),
            "`adv_index` takes a tensor and at least one tensor of indices",
        );
    };
    let (data, dtype) = shaped_field(cx, 0, data)?;
    let mut shape: Option<Vec<Dim>> = Some(Vec::new());
    for &ty in indices {
        let (dims, index_dtype) = shaped_field(cx, 0, ty)?;
        need_integers(cx, index_dtype, 0, "the indices")?;
        shape = match (shape, dims) {
            (Some(a), Some(b)) => Some(cx.broadcast(&a, &b)?),
            _ => None,
        };
    }
    let (Some(data), Some(shape)) = (data, shape) else {
        return cx.finish_unranked(dtype);
    };
    if indices.len() > data.len() {
        let (n, rank) = (indices.len(), data.len());
        return cx.refuse(
            Subject::Arg(0),
            format!("{n} tensors of indices are more than the {rank} axes of the data"),
        );
    }
    finish(cx, [&shape, &data[indices.len()..]].concat(), dtype)
}

fn adv_index_compute(te: &mut Te<'_>) -> Done {
    let parts: Vec<TensorRef> = te.tuple(0);
    let (x, indices) = parts.split_first().ok_or("`adv_index` takes a tensor")?;
    let mut own: Vec<Ex> = Vec::new();
    for t in indices {
        own = Te::broadcast_shape(&own, &t.shape);
    }
    let shape = [&own, &x.shape[indices.len()..]].concat();
    let y = te.compute("y", &shape, |i| {
        let (here, rest) = i.split_at(own.len());
        let at = |(k, t): (usize, &TensorRef)| {
            from_end(&t.at_broadcast(here).cast(DType::I64), &x.shape[k])
        };
        let mut index: Vec<Ex> = indices.iter().enumerate().map(at).collect();
        index.extend_from_slice(rest);
        x.at(&index)
    });
    te.output(&y);
    Ok(())
}
