//! Parts of tensors taken by ranges of indices.

use relax_ir::{AttrValue, Attrs};
use relax_loops::{Ex, TensorRef};
use relax_sym::{Dim, Proof};

use super::extent_rules::{Item, range};
use super::util::{anys, finish, shaped, vector_len, word};
use super::util_te::{Done, elements};
use crate::AttrTy::*;
use crate::{
    AttrDef, ComputeError, Default, Former, Fusion, OpDef, RelCx, RelResult, Subject, Te, attr,
    former, input,
};

const SLICE: &[AttrDef] = &[
    attr(
        "begin",
        Dims,
        Default::Required,
        "the first index of each axis",
    ),
    attr(
        "end",
        Dims,
        Default::Required,
        "the index before which each axis ends",
    ),
    attr(
        "strides",
        Ints,
        Default::Required,
        "the step of each axis; negative steps go back",
    ),
    attr(
        "slice_mode",
        Str,
        Default::Str("end"),
        "`end`, or `size`: `end` holds sizes, -1 for all that is left",
    ),
    attr(
        "axes",
        Ints,
        Default::Required,
        "the axes that the numbers are for; `None` for the first ones",
    ),
];

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "strided_slice",
        "The elements in ranges of indices, by steps.",
        strided_slice,
    )
    .gradient(super::gradients::strided_slice)
    .affine_ordered(super::affine_rules::selection)
    .leaves_whole(whole)
    .layout(super::layout_rules::sliced)
    .in_relax(super::relax_rules::distinct_axes)
    .former(&[Former::form("strided_slice", 8, former::first_axes).hidden()])
    .inputs(&[input("data", "the input")])
    .attrs(SLICE)
    .fusion(Fusion::Injective)
    .compute(strided_slice_compute),
    OpDef::new(
        "dyn.strided_slice",
        "`strided_slice` by ranges that tensors hold.",
        dyn_strided_slice,
    )
    .static_form("strided_slice")
    .former(&[Former::form("dyn.strided_slice", 8, former::no_axes).hidden()])
    .inputs(&[
        input("data", "the input"),
        input("begin", "the first indices"),
        input("end", "the indices to end before"),
        input("strides", "the steps"),
    ])
    .attrs(SLICE)
    .fusion(Fusion::Injective)
    .data_dependent()
    .compute(dyn_strided_slice_compute),
    OpDef::new(
        "slice_like",
        "The leading part of the extents of another tensor.",
        slice_like,
    )
    .inputs(&[
        input("data", "the input"),
        input("shape_like", "the tensor whose extents to take"),
    ])
    .attrs(&[attr(
        "axes",
        Ints,
        Default::Required,
        "the axes to cut; `None` for all that both have",
    )])
    .fusion(Fusion::Injective)
    .compute(slice_like_compute),
    OpDef::new(
        "strided_set",
        "The input with the elements in ranges of indices replaced.",
        strided_set,
    )
    .inputs(&[
        input("data", "the input"),
        input("v", "the new elements"),
        input("begin", "the first indices"),
        input("end", "the indices to end before"),
        input("strides", "the steps"),
    ])
    .fusion(Fusion::Injective)
    .compute(strided_set_compute),
];

/// Returns whether no range is given for an axis, which may be counted from the last one.
fn whole(attrs: &Attrs, axis: usize) -> bool {
    let list = |name: &str| attrs.get(name).and_then(AttrValue::as_array);
    match list("axes") {
        Some(axes) => axes
            .iter()
            .all(|a| a.as_int().is_some_and(|a| a >= 0 && a != axis as i64)),
        None => ["begin", "end", "strides"]
            .iter()
            .all(|name| list(name).is_some_and(|l| l.len() <= axis)),
    }
}

/// The ranges of a slice: one for each axis that is sliced.
struct Ranges<E> {
    axes: Vec<i64>,
    begin: Vec<Item<E>>,
    end: Vec<Item<E>>,
    strides: Vec<i64>,
}

/// Returns the default start of an axis in the direction of the stride.
pub(super) fn first(stride: i64) -> i64 {
    if stride > 0 { 0 } else { i64::MAX }
}
/// Returns the default end of an axis; it is TVM's, which for negative strides omits index 0.
pub(super) fn last(stride: i64) -> i64 {
    if stride < 0 { 0 } else { i64::MAX }
}

impl<E: Clone> Ranges<E> {
    /// Reads the attributes for a tensor of that rank; `sym` interprets symbolic bounds. An error
    /// names the attribute.
    fn read<'a>(
        attr: &dyn Fn(&'static str) -> &'a AttrValue,
        rank: usize,
        sym: &mut dyn FnMut(&Dim) -> E,
    ) -> Result<Ranges<E>, (&'static str, String)> {
        let mut list = |name: &'static str| -> Result<Vec<Item<E>>, (&'static str, String)> {
            let mut one = |v: &AttrValue| match v {
                AttrValue::Dim(d) if d.as_const().is_none() => Some(Item::Sym(sym(d))),
                v => v.as_int().map(Item::Int),
            };
            let items = match attr(name) {
                AttrValue::Array(items) => items.iter().map(one).collect(),
                other => one(other).map(|i| vec![i]),
            };
            items.ok_or((
                name,
                format!("attribute `{name}` must be a list of integers"),
            ))
        };
        let (mut begin, mut end) = (list("begin")?, list("end")?);
        let ints = |name: &'static str| match attr(name) {
            AttrValue::Int(i) => Ok(vec![*i]),
            other => other.as_ints().ok_or((
                name,
                format!("attribute `{name}` must be a list of integers"),
            )),
        };
        let mut strides = match attr("strides") {
            AttrValue::None => vec![1; begin.len()],
            _ => ints("strides")?,
        };
        let size = match attr("slice_mode").as_str() {
            Some("end") => false,
            Some("size") => true,
            _ => {
                return Err((
                    "slice_mode",
                    "`slice_mode` must be \"end\" or \"size\"".into(),
                ));
            }
        };
        let axes = match attr("axes") {
            AttrValue::None => {
                for (name, n) in [
                    ("begin", begin.len()),
                    ("end", end.len()),
                    ("strides", strides.len()),
                ] {
                    if n > rank {
                        return Err((
                            name,
                            format!("`{name}` has {n} elements, but the tensor has rank {rank}"),
                        ));
                    }
                }
                strides.resize(rank, 1);
                for s in &strides[begin.len()..] {
                    begin.push(Item::Int(first(*s)));
                }
                for s in &strides[end.len()..] {
                    end.push(Item::Int(last(*s)));
                }
                (0..rank as i64).collect()
            }
            _ => ints("axes")?,
        };
        for (name, n) in [
            ("begin", begin.len()),
            ("end", end.len()),
            ("strides", strides.len()),
        ] {
            if n != axes.len() {
                let m = axes.len();
                return Err((
                    name,
                    format!("`{name}` has {n} elements, but `axes` names {m} axes"),
                ));
            }
        }
        if let Some(k) = strides.iter().position(|&s| s == 0) {
            return Err((
                "strides",
                format!("a step may not be 0, but `strides[{k}]` is"),
            ));
        }
        if size {
            strides.fill(1);
            for (b, e) in begin.iter().zip(&mut end) {
                *e = match (&b, &e) {
                    (_, Item::Int(..0)) => Item::Int(last(1)),
                    (Item::Int(b), Item::Int(e)) => Item::Int(b.saturating_add(*e)),
                    _ => return Err((
                        "slice_mode",
                        "sizes of slices with symbolic bounds are not supported; give ends instead"
                            .into(),
                    )),
                };
            }
        }
        Ok(Ranges {
            axes,
            begin,
            end,
            strides,
        })
    }
}

fn strided_slice(cx: &mut RelCx<'_>) -> RelResult {
    let (dims, dtype) = shaped(cx, 0)?;
    let Some(mut dims) = dims else {
        return cx.finish_unranked(dtype);
    };
    let attrs = cx.attrs;
    static NONE: AttrValue = AttrValue::None;
    let get = |name: &'static str| attrs.get(name).unwrap_or(&NONE);
    let ranges = match Ranges::read(&get, dims.len(), &mut |d| d.clone()) {
        Ok(r) => r,
        Err((name, message)) => return cx.refuse(Subject::Attr(name), message),
    };
    for (k, &axis) in ranges.axes.iter().enumerate() {
        let a = cx.axis("axes", axis, dims.len())?;
        let (begin, end, stride) = (&ranges.begin[k], &ranges.end[k], ranges.strides[k]);
        let unknown = |i: &Item<Dim>| matches!(i, Item::Sym(d) if !d.is_known());
        if dims[a].is_any() || unknown(begin) || unknown(end) {
            dims[a] = Dim::ANY;
            continue;
        }
        let (from, count) = range(begin, end, stride, &dims[a]);
        // For constants, TVM refuses a range that runs in the wrong direction.
        if let (Some(n), Some(from), Item::Int(b), Item::Int(e)) =
            (dims[a].as_const(), from.as_const(), begin, end)
        {
            let (to, _) = range(end, end, stride, &dims[a]);
            let to = to.as_const().unwrap_or(from);
            if (stride > 0 && from > to) || (stride < 0 && from < to) {
                return cx.refuse(
                    Subject::Attr("end"),
                    format!("axis {a} of extent {n} has no elements from {b} to {e} by {stride}: that is the wrong way"),
                );
            }
        }
        dims[a] = count;
    }
    finish(cx, dims, dtype)
}

fn strided_slice_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let attrs = te.attrs();
    static NONE: AttrValue = AttrValue::None;
    let get = |name: &'static str| attrs.get(name).unwrap_or(&NONE);
    // Symbolic bounds are not among the program's dimensions; where an end is symbolic, the extent
    // of the output determines it.
    let mut symbolic = false;
    let ranges: Ranges<Ex> = Ranges::read(&get, x.rank(), &mut |_| {
        symbolic = true;
        Ex::idx(0)
    })
    .map_err(|(_, m)| ComputeError(m))?;
    let mut shape = x.shape.clone();
    let mut starts: Vec<Option<(Ex, i64)>> = vec![None; x.rank()];
    for (k, &axis) in ranges.axes.iter().enumerate() {
        let a = if axis < 0 {
            axis + x.rank() as i64
        } else {
            axis
        };
        let a = usize::try_from(a)
            .ok()
            .filter(|&a| a < x.rank())
            .ok_or("`axes` is out of range")?;
        let (from, mut count) = range(
            &ranges.begin[k],
            &ranges.end[k],
            ranges.strides[k],
            &shape[a],
        );
        if matches!(ranges.begin[k], Item::Sym(_)) {
            return Err("a slice that begins at a symbolic index is not supported".into());
        }
        if matches!(ranges.end[k], Item::Sym(_)) {
            count = match te.out(0).shape[a] {
                Some(n) => Ex::idx(n),
                None => te.dim("n"),
            };
        }
        shape[a] = count;
        starts[a] = Some((from, ranges.strides[k]));
    }
    let y = te.compute("y", &shape, |i| {
        let index: Vec<Ex> = (i.iter().zip(&starts))
            .map(|(i, start)| match start {
                Some((from, stride)) => i * *stride + from,
                None => i.clone(),
            })
            .collect();
        x.at(&index)
    });
    te.output(&y);
    Ok(())
}

fn dyn_strided_slice(cx: &mut RelCx<'_>) -> RelResult {
    word(cx, "slice_mode", &["end", "size"])?;
    let (dims, dtype) = shaped(cx, 0)?;
    let count = vector_len(cx, 1, "the list of first indices")?;
    let Some(mut dims) = dims else {
        return cx.finish_unranked(dtype);
    };
    for (i, what) in [(2, "the list of ends"), (3, "the list of steps")] {
        let n = vector_len(cx, i, what)?;
        if n != count {
            return cx.refuse(
                Subject::Arg(i),
                format!("{what} has {n} elements, that of first indices {count}"),
            );
        }
    }
    if count > dims.len() {
        let rank = dims.len();
        return cx.refuse(
            Subject::Arg(1),
            format!("{count} axes are cut, but the tensor has rank {rank}"),
        );
    }
    dims.splice(..count, anys(count));
    finish(cx, dims, dtype)
}

/// Returns the range of one axis by numbers known only at run time: the first index and the count.
fn run_range(begin: &Ex, end: &Ex, stride: &Ex, extent: &Ex) -> (Ex, Ex) {
    let back = stride.lt(0i64);
    let low = Ex::where_(&back, &Ex::idx(-1), &Ex::idx(0));
    let high = Ex::where_(&back, &(extent - 1), extent);
    let bound = |v: &Ex| {
        let v = Ex::where_(&v.lt(0i64), &(v + extent), v);
        v.max(&low).min(&high)
    };
    let (from, to) = (bound(begin), bound(end));
    let way = Ex::where_(&back, &(&from - &to), &(&to - &from)).max(0i64);
    let step = Ex::where_(&back, &-stride, stride);
    (from, (way + &step - 1).floor_div(&step))
}

fn dyn_strided_slice_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let [begin, end, strides] = [1, 2, 3].map(|k| elements(&te.arg(k)));
    let (begin, end, strides) = (begin?, end?, strides?);
    if begin.len() > x.rank() || end.len() != begin.len() || strides.len() != begin.len() {
        return Err(
            "begin, end and strides must have one element for each axis that is cut".into(),
        );
    }
    let size = te.str("slice_mode") == "size";
    let mut shape = x.shape.clone();
    let mut starts = Vec::with_capacity(begin.len());
    for (a, b) in begin.iter().enumerate() {
        let n = &x.shape[a];
        let one = Ex::idx(1);
        let stride = if size { &one } else { &strides[a] };
        let end = if size {
            let from = Ex::where_(&b.lt(0i64), &(b + n), b);
            Ex::where_(&end[a].lt(0i64), n, &(from + &end[a]))
        } else {
            end[a].clone()
        };
        let (from, count) = run_range(b, &end, stride, n);
        shape[a] = count;
        starts.push((from, stride.clone()));
    }
    let y = te.compute("y", &shape, |i| {
        let mut index = i.to_vec();
        for (a, (from, stride)) in starts.iter().enumerate() {
            index[a] = &i[a] * stride + from;
        }
        x.at(&index)
    });
    te.output(&y);
    Ok(())
}

/// The axes that `slice_like` cuts.
fn like_axes(cx: &RelCx<'_>, rank: usize, like: usize) -> RelResult<Vec<usize>> {
    let Some(given) = cx.ints("axes")? else {
        return Ok((0..rank.min(like)).collect());
    };
    if given.is_empty() {
        return cx.refuse(
            Subject::Attr("axes"),
            "`axes` may not be empty; `None` is all axes that both have",
        );
    }
    let mut axes = Vec::with_capacity(given.len());
    for v in given {
        let a = cx.axis("axes", v, rank)?;
        if a >= like {
            return cx.refuse(
                Subject::Attr("axes"),
                format!("`axes` names axis {a}, but the tensor to be like has rank {like}"),
            );
        }
        axes.push(a);
    }
    Ok(axes)
}

fn slice_like(cx: &mut RelCx<'_>) -> RelResult {
    let (a, dtype) = shaped(cx, 0)?;
    let (b, _) = shaped(cx, 1)?;
    let (Some(mut dims), Some(like)) = (a, b) else {
        return cx.finish_unranked(dtype);
    };
    for axis in like_axes(cx, dims.len(), like.len())? {
        let (n, m) = (dims[axis].clone(), like[axis].clone());
        let longer = match (n.as_const(), m.as_const()) {
            (Some(n), Some(m)) => m > n,
            _ => {
                n.is_known() && m.is_known() && {
                    let kept = n.min(&m);
                    match cx.host.compare_dims(&kept, &m) {
                        Proof::Proven => false,
                        Proof::Refuted => true,
                        _ => {
                            cx.host.check_dims(
                                &kept,
                                &m,
                                "`slice_like` cuts to at most the input's extent",
                            );
                            false
                        }
                    }
                }
            }
        };
        if longer {
            let (n, m) = (cx.host.show_dim(&n), cx.host.show_dim(&m));
            return cx.refuse(
                Subject::Call,
                format!("axis {axis} has extent {n}, which cannot be cut to {m}"),
            );
        }
        dims[axis] = m;
    }
    finish(cx, dims, dtype)
}

fn slice_like_compute(te: &mut Te<'_>) -> Done {
    let (x, like) = (te.arg(0), te.arg(1));
    let rank = x.rank();
    let axes: Vec<usize> = match te.ints("axes") {
        None => (0..rank.min(like.rank())).collect(),
        Some(axes) => axes
            .iter()
            .map(|&a| if a < 0 { a + rank as i64 } else { a } as usize)
            .collect(),
    };
    let mut shape = x.shape.clone();
    for a in axes {
        let n = like.shape.get(a).ok_or("`axes` is out of range")?;
        *shape.get_mut(a).ok_or("`axes` is out of range")? = n.clone();
    }
    let y = te.compute("y", &shape, |i| x.at(i));
    te.output(&y);
    Ok(())
}

fn strided_set(cx: &mut RelCx<'_>) -> RelResult {
    let data = cx.tensor(0)?;
    let v = cx.tensor(1)?;
    cx.require_dtype(
        data.dtype,
        v.dtype,
        Subject::Arg(1),
        "the new elements have the input's element type",
    )?;
    for (i, what) in [
        (2, "the list of first indices"),
        (3, "the list of ends"),
        (4, "the list of steps"),
    ] {
        if let (Some(dims), dtype) = shaped(cx, i)? {
            super::util::need_integers(cx, dtype, i, what)?;
            if dims.len() != 1 {
                let rank = dims.len();
                return cx.refuse(
                    Subject::Arg(i),
                    format!("{what} must be a vector, but has rank {rank}"),
                );
            }
            let rank = data.shape.dims().map_or(i64::MAX, |d| d.len() as i64);
            if let Some(n) = dims[0].as_const().filter(|&n| n > rank) {
                return cx.refuse(
                    Subject::Arg(i),
                    format!("{what} has {n} elements, but the tensor has rank {rank}"),
                );
            }
        }
    }
    cx.set_out(cx.args[0])
}

fn strided_set_compute(te: &mut Te<'_>) -> Done {
    let (x, v) = (te.arg(0), te.arg(1));
    if v.rank() != x.rank() {
        return Err("the new elements must have the rank of the input".into());
    }
    let [begin, end, strides] = [2, 3, 4].map(|k| elements(&te.arg(k)));
    let (begin, end, strides) = (begin?, end?, strides?);
    let ranges: Vec<(Ex, Ex, Ex)> = (0..x.rank())
        .map(|a| {
            let n = &x.shape[a];
            let stride = strides.get(a).cloned().unwrap_or(Ex::idx(1));
            let ahead = stride.gt(0i64);
            let b = begin
                .get(a)
                .cloned()
                .unwrap_or_else(|| Ex::where_(&ahead, &Ex::idx(0), n));
            // A missing end is beyond the last element; for negative strides, that is below -1.
            let e = (end.get(a).cloned()).unwrap_or_else(|| Ex::where_(&ahead, n, &(-n - 1)));
            let (from, count) = run_range(&b, &e, &stride, n);
            (from, count, stride)
        })
        .collect();
    let y = set_ranges(te, &x, &v, &ranges);
    te.output(&y);
    Ok(())
}

/// Returns `x` with the elements `from + k * stride` (`k < count`) of each axis replaced by those
/// of `v`.
fn set_ranges(te: &mut Te<'_>, x: &TensorRef, v: &TensorRef, ranges: &[(Ex, Ex, Ex)]) -> TensorRef {
    te.compute("y", &x.shape, |i| {
        let mut inside = Ex::bool(true);
        let mut index = Vec::with_capacity(i.len());
        for (i, (from, count, stride)) in i.iter().zip(ranges) {
            let way = i - from;
            let k = way.floor_div(stride);
            let here = way.floor_mod(stride).eq(0i64) & k.ge(0i64) & k.lt(count);
            inside = if inside.as_int() == Some(1) {
                here
            } else {
                inside & here
            };
            index.push(k);
        }
        Ex::where_(&inside, &v.at(&index), &x.at(i))
    })
}
