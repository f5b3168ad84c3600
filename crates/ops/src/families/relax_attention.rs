//! Relax's attention as a single operator, and its quantisation by tensors of scales.

use relax_loops::{Combiner, Ex, Hint, Seen, TensorRef, UnOp};
use relax_sym::Dim;
use relax_tensor::DType as DT;

use super::util::{axis_attr, dtype_given, finish, finish_like, need_eq, shaped, word};
use super::util_te::{Done, wide};
use crate::AttrTy::{Any, DType, Float, Int};
use crate::{AttrDef, Default, Fusion, Input, OpDef, RelCx, RelResult, Subject, Te, attr, input};

const INPUTS: &[Input] = &[
    input("query", "(batch, queries, heads, features)"),
    input("key", "(batch, keys, heads, features)"),
    input(
        "value",
        "(batch, keys, heads, features of the result); behind it perhaps a bias",
    ),
];
const ATTRS: &[AttrDef] = &[
    attr(
        "scale",
        Float,
        Default::None,
        "what products are multiplied by; 1 over the root of the features where none is given",
    ),
    attr(
        "causal_mask",
        Any,
        Default::None,
        "\"TopLeft\" or \"BottomRight\": keys behind the query do not count",
    ),
    attr(
        "window_size",
        Any,
        Default::None,
        "how many keys before the query count",
    ),
];
const QUANTITIES: &[Input] = &[
    input("data", "the input"),
    input(
        "scale",
        "the steps, one number or one for each index of the axis",
    ),
    input("zero_point", "what stands for 0, as many"),
];

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "relax.nn.attention",
        "Values weighted by the softmax of products of queries and keys, for each head.",
        attention,
    )
    .hinted(super::hinted::attention)
    .inputs(INPUTS)
    .variadic()
    .attrs(ATTRS)
    .compute(attention_compute),
    OpDef::new(
        "relax.nn.attention_bias",
        "`nn.attention` with what is added to the products.",
        attention,
    )
    .inputs(INPUTS)
    .variadic()
    .attrs(ATTRS)
    .compute(attention_compute),
    OpDef::new(
        "relax.quantize",
        "Floats in steps of a scale, rounded, as integers around a zero point.",
        quantize,
    )
    .inputs(QUANTITIES)
    .attrs(&[
        attr("axis", Int, Default::Int(-1), "the axis of the scales"),
        attr(
            "out_dtype",
            DType,
            Default::DType("int8"),
            "the element type of the result",
        ),
    ])
    .fusion(Fusion::Injective)
    .compute(quantize_compute),
    OpDef::new(
        "relax.dequantize",
        "Integers around a zero point, in steps of a scale, as floats.",
        dequantize,
    )
    .inputs(QUANTITIES)
    .attrs(&[
        attr("axis", Int, Default::Int(-1), "the axis of the scales"),
        attr(
            "out_dtype",
            DType,
            Default::DType("float32"),
            "the element type of the result",
        ),
    ])
    .fusion(Fusion::Injective)
    .compute(dequantize_compute),
];

fn four(cx: &mut RelCx<'_>, i: usize) -> RelResult<[Dim; 4]> {
    match shaped(cx, i)?.0 {
        None => Ok([Dim::ANY, Dim::ANY, Dim::ANY, Dim::ANY]),
        Some(dims) => match <[Dim; 4]>::try_from(dims) {
            Ok(dims) => Ok(dims),
            Err(dims) => {
                let n = dims.len();
                cx.refuse(
                    Subject::Arg(i),
                    format!("attention takes tensors of rank 4, not {n}"),
                )
            }
        },
    }
}

fn attention(cx: &mut RelCx<'_>) -> RelResult {
    if !(3..=4).contains(&cx.args.len()) {
        let n = cx.args.len();
        return cx.refuse(
            Subject::Call,
            format!("attention takes 3 or 4 tensors, not {n}"),
        );
    }
    let (q, k, v) = (four(cx, 0)?, four(cx, 1)?, four(cx, 2)?);
    let dtype = cx.tensor(0)?.dtype;
    if !cx.attr("causal_mask").is_none() {
        word(cx, "causal_mask", &["TopLeft", "BottomRight"])?;
    }
    for (i, a, b, rule) in [
        (1, &k[0], &q[0], "query and key have one batch"),
        (2, &v[0], &q[0], "query and value have one batch"),
        (2, &v[1], &k[1], "there is one value for each key"),
        (1, &k[3], &q[3], "query and key have as many features"),
        (2, &v[2], &k[2], "key and value have as many heads"),
    ] {
        need_eq(cx, a, b, Subject::Arg(i), rule)?;
    }
    if let Some(heads) = k[2].as_const().filter(|&h| h > 0) {
        super::util::need_multiple(cx, &q[2], heads, Subject::Arg(0), "the number of heads")?;
    }
    if cx.args.len() == 4 {
        let bias = four(cx, 3)?;
        for (a, b) in bias.iter().zip([&q[0], &q[2], &q[1]]) {
            if a.as_const() != Some(1) {
                need_eq(
                    cx,
                    a,
                    b,
                    Subject::Arg(3),
                    "the bias is broadcast to the products",
                )?;
            }
        }
        need_eq(
            cx,
            &bias[3],
            &k[1],
            Subject::Arg(3),
            "there is a bias for each key",
        )?;
    }
    let [b, s, n, _] = q;
    let [_, _, _, h] = v;
    finish(cx, vec![b, s, n, h], dtype)
}

/// Returns the maximum and the sum of `at` over all keys.
fn along(
    te: &mut Te<'_>,
    name: &str,
    c: Combiner,
    of: &TensorRef,
    at: impl Fn(&[Ex]) -> Ex,
) -> TensorRef {
    let (shape, keys) = (of.shape[..3].to_vec(), of.shape[3..].to_vec());
    te.reduce(name, &shape, &keys, c, |i, r| {
        let mut index = i.to_vec();
        index.push(r[0].clone());
        at(&index)
    })
}

fn attention_compute(te: &mut Te<'_>) -> Done {
    let (q, k, v) = (te.arg(0), te.arg(1), te.arg(2));
    let bias = (te.arg_count() > 3).then(|| te.arg(3));
    let (mask, window) = (te.str("causal_mask"), te.attr("window_size").as_int());
    let scale = te.attr("scale").as_float();
    let dtype = wide(q.dtype);
    let [batch, queries, heads, features] = [0, 1, 2, 3].map(|a| q.shape[a].clone());
    let keys = k.shape[1].clone();
    // Several heads of the query share one of the key.
    let shared = heads.floor_div(&k.shape[2]);
    let shape = [batch, heads, queries.clone(), keys.clone()];
    let products = te.reduce(
        "products",
        &shape,
        std::slice::from_ref(&features),
        Combiner::Sum,
        |i, r| {
            let own = i[1].floor_div(&shared);
            let a = q.at(&[i[0].clone(), i[2].clone(), i[1].clone(), r[0].clone()]);
            let b = k.at(&[i[0].clone(), i[3].clone(), own, r[0].clone()]);
            a.cast(dtype) * b.cast(dtype)
        },
    );
    let scores = te.compute("scores", &shape, |i| {
        let p = products.at(i);
        let factor = match scale {
            Some(x) => p.same(x),
            None => p.same(1.0) / features.cast(dtype).unary(UnOp::Sqrt),
        };
        let mut s = p * factor;
        if let Some(bias) = &bias {
            s = s + bias.at_broadcast(i).cast(dtype);
        }
        let row = if mask == "BottomRight" {
            &i[2] + &keys - &queries
        } else {
            i[2].clone()
        };
        let mut counts = Ex::bool(true);
        if !mask.is_empty() {
            counts = i[3].le(&row);
        }
        if let Some(window) = window {
            counts = counts & (&row - &i[3]).lt(window);
        }
        Ex::where_(&counts, &s, &Ex::float(dtype, f64::NEG_INFINITY))
    });
    let most = along(te, "most", Combiner::Max, &scores, |i| scores.at(i));
    let powers = te.compute("powers", &shape, |i| {
        (scores.at(i) - most.at(&i[..3])).unary(UnOp::Exp)
    });
    let sums = along(te, "sums", Combiner::Sum, &powers, |i| powers.at(i));
    let out = te.out(0).dtype;
    let shape = [&q.shape[..3], &v.shape[3..]].concat();
    let weighted = te.reduce(
        "weighted",
        &shape,
        std::slice::from_ref(&keys),
        Combiner::Sum,
        |i, r| {
            let p = powers.at(&[i[0].clone(), i[2].clone(), i[1].clone(), r[0].clone()]);
            let own = i[2].floor_div(&shared);
            p * v
                .at(&[i[0].clone(), r[0].clone(), own, i[3].clone()])
                .cast(dtype)
        },
    );
    let y = te.compute("attention", &shape, |i| {
        let sum = sums.at(&[i[0].clone(), i[2].clone(), i[1].clone()]);
        (weighted.at(i) / sum).cast(out)
    });
    let floats = [&q, &k, &v, &y].iter().all(|t| t.dtype == DT::F32)
        && bias.as_ref().is_none_or(|b| b.dtype == DT::F32);
    let size = features.as_int().filter(|n| *n > 0);
    let scale = scale.or(size.map(|n| 1.0 / (n as f64).sqrt()));
    let near = window.is_none_or(|n| n.abs() < 1 << 24);
    if let (Some(scale), true) = (scale, floats && near) {
        let hint = Hint::Attention {
            q: q.buf,
            k: k.buf,
            v: v.buf,
            bias: bias.map(|b| b.buf),
            scale,
            seen: Seen {
                causal: !mask.is_empty(),
                at_end: mask == "BottomRight",
                window,
            },
        };
        te.program.hints.push((y.buf, hint));
    }
    te.output(&y);
    Ok(())
}

/// Checks scales and zero points against the data.
fn quantities(cx: &mut RelCx<'_>) -> RelResult {
    let Some(dims) = shaped(cx, 0)?.0 else {
        return Ok(());
    };
    let mut extent = None;
    if !dims.is_empty() {
        extent = Some(dims[axis_attr(cx, "axis", dims.len())?].clone());
    }
    for i in [1, 2] {
        let Some(own) = shaped(cx, i)?.0 else {
            continue;
        };
        match (&own[..], &extent) {
            (own, _) if own.iter().all(|d| d.as_const() == Some(1)) => {}
            ([n], Some(extent)) => {
                need_eq(
                    cx,
                    n,
                    extent,
                    Subject::Arg(i),
                    "there is one number for each index of the axis",
                )?;
            }
            (own, _) => {
                let rank = own.len();
                let message = format!(
                    "one number, or one for each index of the axis, is expected, not a tensor of rank {rank}"
                );
                return cx.refuse(Subject::Arg(i), message);
            }
        }
    }
    Ok(())
}

fn kinds(cx: &mut RelCx<'_>, i: usize, kinds: &[&str]) -> RelResult {
    match cx.tensor(i)?.dtype.known().map(|d| d.to_string()) {
        Some(d) if !kinds.contains(&d.as_str()) => {
            let message = format!(
                "elements of {} are expected here, not {d}",
                kinds.join(", ")
            );
            cx.refuse(Subject::Arg(i), message)
        }
        _ => Ok(()),
    }
}

const ZEROS: [&str; 7] = [
    "int8", "uint8", "int16", "uint16", "int32", "uint32", "float16",
];

fn quantize(cx: &mut RelCx<'_>) -> RelResult {
    let dtype = dtype_given(cx, "out_dtype")?;
    if !["int8", "uint8", "int16", "uint16"].contains(&dtype.to_string().as_str()) {
        let message = format!("`quantize` gives 8 or 16 bits, not {dtype}");
        return cx.refuse(Subject::Attr("out_dtype"), message);
    }
    kinds(cx, 0, &["float16", "float32"])?;
    kinds(cx, 1, &["float16", "float32"])?;
    kinds(cx, 2, &ZEROS)?;
    quantities(cx)?;
    let like = cx.tensor(0)?;
    finish_like(cx, like, dtype)
}

fn dequantize(cx: &mut RelCx<'_>) -> RelResult {
    let dtype = dtype_given(cx, "out_dtype")?;
    if ![DT::F16, DT::F32].contains(&dtype) {
        let message = format!("`dequantize` gives float16 or float32, not {dtype}");
        return cx.refuse(Subject::Attr("out_dtype"), message);
    }
    kinds(
        cx,
        0,
        &[
            "int8", "uint8", "int16", "uint16", "int32", "float16", "float32",
        ],
    )?;
    kinds(cx, 1, &["float16", "float32"])?;
    kinds(cx, 2, &ZEROS)?;
    quantities(cx)?;
    let like = cx.tensor(0)?;
    finish_like(cx, like, dtype)
}

/// Returns the parameter that belongs to an index of the data.
fn beside(t: &TensorRef, i: &[Ex], axis: usize) -> Ex {
    match (t.rank(), t.shape.first().and_then(Ex::as_int)) {
        (1, Some(1)) => t.scalar(),
        (1, _) => t.at(std::slice::from_ref(&i[axis])),
        _ => t.scalar(),
    }
}

fn quantize_compute(te: &mut Te<'_>) -> Done {
    let (x, scale, zero) = (te.arg(0), te.arg(1), te.arg(2));
    let axis = te.axis("axis", x.rank())?;
    let out = te.out(0).dtype;
    let (least, greatest) = out.int_range().ok_or("integers are expected")?;
    let y = te.compute("quantized", &x.shape, |i| {
        let steps = x.at(i).cast(DT::F32) / beside(&scale, i, axis).cast(DT::F32);
        let v = steps.unary(UnOp::RoundEven) + beside(&zero, i, axis).cast(DT::F32);
        let v = v.max(Ex::float(DT::F32, least as f64));
        v.min(Ex::float(DT::F32, greatest as f64)).cast(out)
    });
    te.output(&y);
    Ok(())
}

fn dequantize_compute(te: &mut Te<'_>) -> Done {
    let (x, scale, zero) = (te.arg(0), te.arg(1), te.arg(2));
    let axis = te.axis("axis", x.rank())?;
    let out = te.out(0).dtype;
    let float = x.dtype.is_float();
    let y = te.compute("dequantized", &x.shape, |i| {
        let (v, z) = (x.at(i), beside(&zero, i, axis));
        let steps = if float || zero.dtype.is_float() {
            v.cast(DT::F32) - z.cast(DT::F32)
        } else {
            (v.cast(DT::I32) - z.cast(DT::I32)).cast(DT::F32)
        };
        (steps * beside(&scale, i, axis).cast(DT::F32)).cast(out)
    });
    te.output(&y);
    Ok(())
}
