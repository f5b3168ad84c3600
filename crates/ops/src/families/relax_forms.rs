//! Relax's forms of operators with features that Relay's lack: several axes, values as attributes,
//! plain lists of widths; and annotations about memory and multiple devices.

use relax_ir::{Shape, Type};
use relax_loops::{BinOp, Ex, UnOp};
use relax_sym::Dim;
use relax_tensor::{DType as DT, TypeCode};

use super::relax_rules::same_floats;
use super::util::{
    axis_attr, dim_list, dtype_or, finish, finish_like, int_list, need_eq, need_multiple, shaped,
    word,
};
use super::util_te::{
    Done, flat, moments, narrowed, normalised_rows, out_shape, unflat, wide, widened,
};
use crate::AttrTy::{Bool, DType, Dims, Float, Int, Ints, Str};
use crate::{Default, Fusion, OpDef, RelCx, RelResult, Stop, Subject, Te, attr, input};

const SHAPE: &str = "shapes are values of the program, not tensors";

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "relax.nn.layer_norm",
        "Normalises over several axes by their own mean and variance.",
        layer_norm,
    )
    .full_precision()
    .layout(super::layout_rules::along_named_axes)
    .hinted(super::hinted::layer_norm_over)
    .inputs(&[
        input("data", "the input"),
        input("gamma", "the scale, over the axes"),
        input("beta", "the shift, over the axes"),
    ])
    .attrs(&[
        attr("axes", Ints, Default::Required, "the axes"),
        attr(
            "epsilon",
            Float,
            Default::Float(1e-5),
            "added to the variance",
        ),
        attr(
            "center",
            Bool,
            Default::Bool(true),
            "whether `beta` is added",
        ),
        attr(
            "scale",
            Bool,
            Default::Bool(true),
            "whether `gamma` multiplies",
        ),
    ])
    .fusion(Fusion::OutElementwise)
    .compute(layer_norm_compute),
    OpDef::new(
        "relax.nn.pad",
        "More elements around those of a tensor.",
        pad,
    )
    .inputs(&[input("data", "the input")])
    .attrs(&[
        attr(
            "pad_width",
            Ints,
            Default::Required,
            "how many before and behind, for each axis in turn",
        ),
        attr(
            "pad_mode",
            Str,
            Default::Str("constant"),
            "`constant`, `reflect`, `replicate` or `circular`",
        ),
        attr("pad_value", Float, Default::Float(0.0), "the constant"),
    ])
    .fusion(Fusion::Injective)
    .compute(pad_compute),
    OpDef::new(
        "relax.reshape",
        "The same elements in the extents that a value says.",
        reshape,
    )
    .inputs(&[
        input("x", "the input"),
        input("shape", "the extents, a shape"),
    ])
    .uncomputed(SHAPE)
    .not_computed(),
    OpDef::new(
        "relax.broadcast_to",
        "A tensor broadcast to the extents that a value says.",
        broadcast_to,
    )
    .inputs(&[
        input("x", "the input"),
        input("shape", "the extents, a shape"),
    ])
    .uncomputed(SHAPE)
    .not_computed(),
    OpDef::new(
        "relax.strided_slice",
        "Elements in ranges that values say.",
        strided_slice,
    )
    .inputs(&[
        input("x", "the input"),
        input("axes", "the axes, numbers"),
        input("begin", "the first indices, numbers"),
        input(
            "end",
            "the indices to end before, numbers; behind them perhaps the steps",
        ),
    ])
    .variadic()
    .attrs(&[attr(
        "assume_inbound",
        Bool,
        Default::Bool(false),
        "whether the ranges lie inside",
    )])
    .uncomputed(SHAPE)
    .not_computed(),
    OpDef::new(
        "relax.image.affine_grid",
        "The coordinates that an affine map gives to a grid whose extents a value says.",
        affine_grid,
    )
    .inputs(&[
        input("data", "(batch, 2, 3), the maps"),
        input("size", "height and width, a shape"),
    ])
    .attrs(&[attr(
        "align_corners",
        Bool,
        Default::Bool(true),
        "whether the outermost points are -1 and 1",
    )])
    .uncomputed(SHAPE)
    .not_computed(),
    OpDef::new(
        "relax.memory.view",
        "The bytes of a tensor as another one.",
        view,
    )
    .inputs(&[input("data", "the tensor")])
    .attrs(&[
        attr(
            "shape",
            Dims,
            Default::None,
            "the extents; the tensor's where none are given",
        ),
        attr(
            "dtype",
            DType,
            Default::DType(""),
            "the element type; the tensor's where none is given",
        ),
        attr(
            "relative_byte_offset",
            Int,
            Default::None,
            "where it begins",
        ),
    ])
    .same_memory()
    .compute(view_compute),
    OpDef::new(
        "relax.dist.redistribute_replica_to_shard",
        "One of equal parts of a tensor along an axis: this worker's.",
        shard,
    )
    .inputs(&[input("input", "the tensor")])
    .attrs(&[
        attr(
            "num_workers",
            Int,
            Default::Required,
            "how many parts there are",
        ),
        attr("axis", Int, Default::Required, "the axis"),
    ])
    .uncomputed("it is about several devices")
    .not_computed(),
];

/// Requires that inputs have the extents of the data's `axes`.
pub(super) fn weights_over_axes(cx: &mut RelCx<'_>, inputs: &[usize]) -> RelResult {
    let given = int_list(cx, "axes")?;
    let Some(dims) = shaped(cx, 0)?.0 else {
        return Ok(());
    };
    let mut over = Vec::with_capacity(given.len());
    for v in &given {
        over.push(dims[cx.axis("axes", *v, dims.len())?].clone());
    }
    for &i in inputs {
        let Some(own) = shaped(cx, i)?.0 else {
            continue;
        };
        if own.len() != over.len() {
            let (n, m) = (own.len(), over.len());
            let message = format!("a tensor over the {m} axes is expected, not one of rank {n}");
            return cx.refuse(Subject::Arg(i), message);
        }
        for (a, b) in own.iter().zip(&over) {
            let rule = "there is one number for each index of the axes";
            need_eq(cx, a, b, Subject::Arg(i), rule)?;
        }
    }
    Ok(())
}

fn layer_norm(cx: &mut RelCx<'_>) -> RelResult {
    let whole = cx.tensor(0)?;
    same_floats(cx)?;
    weights_over_axes(cx, &[1, 2])?;
    let dtype = whole.dtype;
    finish_like(cx, whole, dtype)
}

fn layer_norm_compute(te: &mut Te<'_>) -> Done {
    let (mut x, mut gamma, mut beta) = (te.arg(0), te.arg(1), te.arg(2));
    let (epsilon, center, scale) = (te.float("epsilon")?, te.flag("center"), te.flag("scale"));
    let (given, dtype) = (x.dtype, wide(x.dtype));
    let mut axes = Vec::new();
    for v in te.ints("axes").unwrap_or_default() {
        let a = if v < 0 { v + x.rank() as i64 } else { v };
        let a = usize::try_from(a).ok().filter(|&a| a < x.rank());
        axes.push(a.ok_or("an axis is out of range")?);
    }
    let rest: Vec<usize> = (0..x.rank()).filter(|a| !axes.contains(a)).collect();
    let first = rest.len();
    let rows = scale && center && !axes.is_empty() && axes.iter().copied().eq(first..x.rank());
    if rows {
        [x, gamma, beta] = [&x, &gamma, &beta].map(|t| widened(te, t));
    }
    let extents = |of: &[usize]| -> Vec<Ex> { of.iter().map(|&a| x.shape[a].clone()).collect() };
    let (shape, over) = (extents(&rest), extents(&axes));
    let at = |i: &[Ex], r: &[Ex]| {
        let mut index = vec![Ex::idx(0); x.rank()];
        for (&a, e) in rest.iter().zip(i).chain(axes.iter().zip(r)) {
            index[a] = e.clone();
        }
        x.at(&index).cast(dtype)
    };
    let moments = moments(te, &shape, &over, dtype, at);
    let y = te.compute("norm", &x.shape, |i| {
        let pick = |of: &[usize]| -> Vec<Ex> { of.iter().map(|&a| i[a].clone()).collect() };
        let (own, inner) = (pick(&rest), pick(&axes));
        let mut v = moments.normal(x.at(i).cast(dtype), &own, epsilon);
        if scale {
            v = v * gamma.at(&inner).cast(dtype);
        }
        if center {
            v = v + beta.at(&inner).cast(dtype);
        }
        v.cast(x.dtype)
    });
    let y = narrowed(te, &y, given);
    if rows {
        let (given, gamma, beta) = (te.arg(0), te.arg(1), te.arg(2));
        normalised_rows(te, (&given, &y), (&gamma, Some(&beta)), epsilon, (first, 1));
    }
    te.output(&y);
    Ok(())
}

fn pad(cx: &mut RelCx<'_>) -> RelResult {
    let (dims, dtype) = shaped(cx, 0)?;
    let widths = int_list(cx, "pad_width")?;
    word(
        cx,
        "pad_mode",
        &["constant", "reflect", "replicate", "circular"],
    )?;
    let Some(dims) = dims else {
        return cx.finish_unranked(dtype);
    };
    if widths.len() != 2 * dims.len() {
        let (n, rank) = (widths.len(), dims.len());
        let message = format!("two widths for each of {rank} axes are expected, not {n}");
        return cx.refuse(Subject::Attr("pad_width"), message);
    }
    let wider = |(d, w): (&Dim, &[i64])| {
        if d.is_any() {
            Dim::ANY
        } else {
            d + &Dim::from(w[0] + w[1])
        }
    };
    let out = dims.iter().zip(widths.chunks(2)).map(wider).collect();
    finish(cx, out, dtype)
}

fn pad_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let widths = te.ints("pad_width").unwrap_or_default();
    if widths.len() != 2 * x.rank() {
        return Err("two widths for each axis are expected".into());
    }
    let value = Ex::float(x.dtype, te.float("pad_value")?);
    let mode = te.str("pad_mode");
    let shape: Vec<Ex> = (x.shape.iter().zip(widths.chunks(2)))
        .map(|(d, w)| d + (w[0] + w[1]))
        .collect();
    let y = te.compute("pad", &shape, |i| {
        let mut inside = Ex::bool(true);
        let mut index = Vec::with_capacity(x.rank());
        for ((i, d), w) in i.iter().zip(&x.shape).zip(widths.chunks(2)) {
            let k = i - w[0];
            index.push(match mode {
                "reflect" => {
                    let k = k.unary(UnOp::Abs);
                    let last = d - 1;
                    k.min(&(&last * 2 - &k))
                }
                "replicate" => k.max(0i64).min(d - 1),
                "circular" => k.binary(BinOp::FloorMod, d),
                _ => {
                    inside = &inside & k.ge(0i64) & k.lt(d);
                    k
                }
            });
        }
        Ex::where_(&inside, &x.at(&index), &value)
    });
    te.output(&y);
    Ok(())
}

/// Returns the extents of a shape value: those of its type.
fn extents_of(cx: &mut RelCx<'_>, i: usize) -> RelResult<Option<Vec<Dim>>> {
    let ty = cx.arg(i);
    match &cx.host.types()[ty] {
        Type::Shape(Shape::Dims(dims)) => Ok(Some(dims.to_vec())),
        Type::Shape(Shape::Infer(_)) | Type::Infer(_) | Type::Error => Err(Stop::Wait),
        Type::Shape(_) | Type::Object => Ok(None),
        _ => {
            let text = cx.host.show(ty);
            let message = format!("`{}` takes a shape here, not {text}", cx.name);
            cx.refuse(Subject::Arg(i), message)
        }
    }
}

fn reshape(cx: &mut RelCx<'_>) -> RelResult {
    let (own, dtype) = shaped(cx, 0)?;
    let Some(dims) = extents_of(cx, 1)? else {
        return cx.finish_unranked(dtype);
    };
    if let Some(own) = own {
        let all = |dims: &[Dim]| dims.iter().fold(Dim::ONE, |n, d| &n * d);
        need_eq(
            cx,
            &all(&own),
            &all(&dims),
            Subject::Arg(1),
            "the number of elements stays",
        )?;
    }
    finish(cx, dims, dtype)
}

fn broadcast_to(cx: &mut RelCx<'_>) -> RelResult {
    let (own, dtype) = shaped(cx, 0)?;
    let Some(dims) = extents_of(cx, 1)? else {
        return cx.finish_unranked(dtype);
    };
    if let Some(own) = own {
        let Some(skip) = dims.len().checked_sub(own.len()) else {
            return cx.refuse(Subject::Arg(1), "a tensor is not broadcast to fewer axes");
        };
        for (a, b) in own.iter().zip(&dims[skip..]) {
            if a.as_const() != Some(1) {
                need_eq(
                    cx,
                    a,
                    b,
                    Subject::Arg(1),
                    "only axes of extent 1 are broadcast",
                )?;
            }
        }
    }
    finish(cx, dims, dtype)
}

fn strided_slice(cx: &mut RelCx<'_>) -> RelResult {
    let (_, dtype) = shaped(cx, 0)?;
    for i in 1..cx.args.len() {
        let ty = cx.arg(i);
        if matches!(cx.host.types()[ty], Type::Tensor(_)) {
            let message = "ranges that tensors hold are for `dynamic_strided_slice`";
            return cx.refuse(Subject::Arg(i), message);
        }
    }
    cx.finish_unranked(dtype)
}

fn affine_grid(cx: &mut RelCx<'_>) -> RelResult {
    let (own, dtype) = shaped(cx, 0)?;
    let size = extents_of(cx, 1)?;
    let batch = own.and_then(|d| d.first().cloned()).unwrap_or(Dim::ANY);
    let mut dims = vec![batch, Dim::from(2)];
    dims.extend(size.unwrap_or_else(|| super::util::anys(2)));
    finish(cx, dims, dtype)
}

fn view(cx: &mut RelCx<'_>) -> RelResult {
    let (own, dtype) = shaped(cx, 0)?;
    let to = dtype_or(cx, "dtype", dtype);
    let Some(dims) = dim_list(cx, "shape")?.or_else(|| own.clone()) else {
        return cx.finish_unranked(to);
    };
    let offset = cx.attr("relative_byte_offset").as_int().unwrap_or(0);
    if offset < 0 {
        let message = format!("the view begins {} bytes before the tensor", -offset);
        return cx.refuse(Subject::Attr("relative_byte_offset"), message);
    }
    if let (Some(have), Some(want)) = (dtype.known(), to.known()) {
        let (have, want) = (have.size() as i64, want.size() as i64);
        if offset % have.min(want) != 0 {
            return cx.refuse(
                Subject::Attr("relative_byte_offset"),
                "the view begins inside an element",
            );
        }
        if let Some(own) = own {
            let bytes = |dims: &[Dim], size| dims.iter().fold(Dim::from(size), |n, d| &n * d);
            let (have, want) = (bytes(&own, have), &bytes(&dims, want) + &Dim::from(offset));
            let behind = |n: i64| format!("the view ends {n} bytes behind the tensor");
            match (&want - &have).as_const() {
                Some(over) if over > 0 => return cx.refuse(Subject::Call, behind(over)),
                Some(_) => {}
                None => cx.require_at_least(
                    &have,
                    &want,
                    Subject::Call,
                    "a view ends with the tensor",
                    |have, want| behind(want - have),
                )?,
            }
        }
    }
    finish(cx, dims, to)
}

/// Reinterprets the elements' bits as elements of the requested width: the lowest byte comes first.
fn view_compute(te: &mut Te<'_>) -> Done {
    let (x, dtype) = (te.arg(0), te.out(0).dtype);
    let (own, new) = (x.dtype.size() as i64, dtype.size() as i64);
    let begin = te.attr("relative_byte_offset").as_int().unwrap_or(0);
    let step = own.min(new);
    if begin % step != 0 {
        return Err("the view begins inside an element".into());
    }
    let shape = out_shape(te);
    let word = |size: i64| DT::new(TypeCode::UInt, (size * 8) as u8);
    let bits_as = |e: Ex, to: DT| match e.dtype().is_bool() || to.is_bool() {
        true => e.cast(to),
        false if e.dtype() == to => e,
        false => e.reinterpret(to),
    };
    // A piece of the least of both sizes.
    let per = own / step;
    let piece = |at: &Ex| {
        let whole = x.at(&unflat(&at.floor_div(per), &x.shape));
        let bits = bits_as(whole, word(own));
        match per {
            1 => bits,
            _ => {
                let bit = (at.floor_mod(per) * (step * 8)).cast(word(own));
                bits.shr(bit).cast(word(step))
            }
        }
    };
    let y = te.compute("view", &shape, |i| {
        let parts = new / step;
        let first = flat(i, &shape) * parts + begin / step;
        let mut bits = piece(&first).cast(word(new));
        for k in 1..parts {
            let next = piece(&(&first + k)).cast(word(new));
            bits = bits | next.shl(k * step * 8);
        }
        bits_as(bits, dtype)
    });
    te.output(&y);
    Ok(())
}

fn shard(cx: &mut RelCx<'_>) -> RelResult {
    let (dims, dtype) = shaped(cx, 0)?;
    let workers = cx.int("num_workers")?;
    if workers < 1 {
        return cx.refuse(Subject::Attr("num_workers"), "there is at least one worker");
    }
    let Some(mut dims) = dims else {
        return cx.finish_unranked(dtype);
    };
    let axis = axis_attr(cx, "axis", dims.len())?;
    need_multiple(
        cx,
        &dims[axis],
        workers,
        Subject::Arg(0),
        "the extent along the axis",
    )?;
    dims[axis] = dims[axis].floordiv(&Dim::from(workers));
    finish(cx, dims, dtype)
}
