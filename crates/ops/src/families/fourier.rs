//! Fourier transforms and the windows they slide over.

use relax_loops::{Combiner, Ex, UnOp};
use relax_sym::Dim;
use relax_tensor::DType as DT;

use super::transform::{angle, transform};
use super::util::{axis_attr, check_eq, finish, finish_tuple, int_list, shaped};
use super::util_te::{Done, set};
use crate::AttrTy::*;
use crate::{Default, OpDef, RelCx, RelResult, Subject, Te, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "stft",
        "The short-time Fourier transform; the last axis holds real and imaginary part.",
        stft,
    )
    .inputs(&[
        input("data", "a signal, or a batch of them"),
        input("window", "the window"),
    ])
    .attrs(&[
        attr("n_fft", Int, Default::Int(-1), "the size of the transform"),
        attr(
            "hop_length",
            Int,
            Default::Int(-1),
            "the distance between frames",
        ),
        attr(
            "win_length",
            Int,
            Default::Int(-1),
            "the size of the window",
        ),
        attr(
            "normalized",
            Bool,
            Default::Bool(false),
            "whether to divide by the square root of the size",
        ),
        attr(
            "onesided",
            Bool,
            Default::Bool(true),
            "whether to leave out the symmetric half",
        ),
    ])
    .meta_attrs("relay.attrs.StftAttrs")
    .compute(stft_compute),
    OpDef::new(
        "dft",
        "The discrete Fourier transform along the last axis: real and imaginary part.",
        dft,
    )
    .inputs(&[
        input("re_data", "the real part"),
        input("im_data", "the imaginary part"),
    ])
    .attrs(&[attr(
        "inverse",
        Bool,
        Default::Bool(false),
        "whether to transform back",
    )])
    .meta_attrs("relay.attrs.DFTAttrs")
    .compute(dft_compute),
    OpDef::new(
        "sliding_window",
        "The windows of an input as new axes.",
        sliding_window,
    )
    .inputs(&[input("data", "the input")])
    .attrs(&[
        attr(
            "axis",
            Int,
            Default::Required,
            "the first axis that the window slides along",
        ),
        attr(
            "window_shape",
            Ints,
            Default::Required,
            "the extents of the window",
        ),
        attr("strides", Ints, Default::Required, "the steps"),
    ])
    .compute(sliding_window_compute),
];

fn positive(cx: &RelCx<'_>, name: &'static str) -> RelResult<i64> {
    let v = cx.int(name)?;
    if v > 0 {
        return Ok(v);
    }
    cx.refuse(
        Subject::Attr(name),
        format!("`{name}={v}` must be greater than 0"),
    )
}

fn stft(cx: &mut RelCx<'_>) -> RelResult {
    let (size, hop) = (positive(cx, "n_fft")?, positive(cx, "hop_length")?);
    positive(cx, "win_length")?;
    let (dims, dtype) = shaped(cx, 0)?;
    if let Some(rank) = shaped(cx, 1)?.0.map(|d| d.len()).filter(|&n| n != 1) {
        return cx.refuse(
            Subject::Arg(1),
            format!("the window must be a vector, but has rank {rank}"),
        );
    }
    let Some(mut dims) = dims else {
        return cx.finish_unranked(dtype);
    };
    let Some(signal) = dims.pop().filter(|_| dims.len() < 2) else {
        return cx.refuse(
            Subject::Arg(0),
            "the data must be a signal, or a batch of them",
        );
    };
    let rows = if cx.flag("onesided") {
        size / 2 + 1
    } else {
        size
    };
    let frames = if signal.is_any() {
        Dim::ANY
    } else {
        (signal - size).floordiv(&Dim::from(hop)) + 1
    };
    dims.extend([Dim::from(rows), frames, Dim::from(2)]);
    finish(cx, dims, dtype)
}

fn stft_compute(te: &mut Te<'_>) -> Done {
    let (x, window) = (te.arg(0), te.arg(1));
    let (size, hop, width) = (
        te.int("n_fft")?,
        te.int("hop_length")?,
        te.int("win_length")?,
    );
    if size < 1 || hop < 1 || width < 1 || x.rank() == 0 {
        return Err("sizes must be greater than 0".into());
    }
    let rows = if te.flag("onesided") {
        size / 2 + 1
    } else {
        size
    };
    let (batch, signal) = x.shape.split_at(x.rank() - 1);
    let frames = (&signal[0] - size).floor_div(hop) + 1;
    let shape = [batch, &[Ex::idx(rows), frames, Ex::idx(2)]].concat();
    let scale = if te.flag("normalized") {
        1.0 / (size as f64).sqrt()
    } else {
        1.0
    };
    let skip = batch.len();
    // The windowed waves are shared by all frames.
    let waves = [Ex::idx(rows), Ex::idx(width), Ex::idx(2)];
    let waves = te.compute("waves", &waves, |i| {
        let a = angle(&i[0], &i[1], &Ex::idx(width));
        let wave = Ex::where_(&i[2].eq(0i64), &a.unary(UnOp::Cos), &(-a.unary(UnOp::Sin)));
        window.at(&i[1..2]).cast(x.dtype) * wave.cast(x.dtype)
    });
    let sum = te.reduce("sum", &shape, &[Ex::idx(width)], Combiner::Sum, |i, r| {
        let (row, frame, part) = (&i[skip], &i[skip + 1], &i[skip + 2]);
        let at = [&i[..skip], &[frame * hop + &r[0]]].concat();
        waves.at(&[row.clone(), r[0].clone(), part.clone()]) * x.at(&at)
    });
    let y = if scale == 1.0 {
        sum
    } else {
        te.compute("y", &shape, |i| sum.at(i) * Ex::float(x.dtype, scale))
    };
    te.output(&y);
    Ok(())
}

fn dft(cx: &mut RelCx<'_>) -> RelResult {
    let (re, dtype) = shaped(cx, 0)?;
    let (im, other) = shaped(cx, 1)?;
    cx.require_dtype(
        dtype,
        other,
        Subject::Arg(1),
        "real and imaginary part have one element type",
    )?;
    if let Some(d) = dtype.known().filter(|d| !d.is_float()) {
        return cx.refuse(Subject::Arg(0), format!("the data must be floats, not {d}"));
    }
    if re.as_ref().is_some_and(Vec::is_empty) {
        return cx.refuse(Subject::Arg(0), "a scalar has no axis to transform along");
    }
    if let (Some(re), Some(im)) = (re, im) {
        if re.len() != im.len() {
            let (n, m) = (re.len(), im.len());
            return cx.refuse(
                Subject::Arg(1),
                format!("real and imaginary part have one shape, but rank {m} is not {n}"),
            );
        }
        for (k, (a, b)) in re.iter().zip(&im).enumerate() {
            let rule = format!("real and imaginary part have one shape; axis {k}");
            check_eq(cx, a, b, Subject::Arg(1), &rule)?;
        }
    }
    finish_tuple(cx, cx.args[..2].to_vec())
}

fn dft_compute(te: &mut Te<'_>) -> Done {
    let (re, im) = (te.arg(0), te.arg(1));
    let axis = re
        .rank()
        .checked_sub(1)
        .ok_or("a scalar has no axis to transform along")?;
    let n = re.shape[axis].clone();
    let inverse = te.flag("inverse");
    let parts = (n.as_int().filter(|&n| n > 0)).map(|n| transform(te, &re, &im, n, inverse));
    for imaginary in [false, true] {
        let scaled = |v: Ex| {
            let v = if inverse { v / n.cast(DT::F64) } else { v };
            v.cast(re.dtype)
        };
        if let Some(parts) = &parts {
            let y = te.compute("y", &re.shape, |i| {
                scaled(parts.at(i, Ex::idx(imaginary.into())))
            });
            te.output(&y);
            continue;
        }
        let sum = te.reduce(
            "sum",
            &re.shape,
            std::slice::from_ref(&n),
            Combiner::Sum,
            |i, r| {
                let at = set(i, axis, r[0].clone());
                let a = angle(&i[axis], &r[0], &n);
                let sine = a.unary(UnOp::Sin);
                let (c, s) = (a.unary(UnOp::Cos), if inverse { sine } else { -sine });
                let [x, y] = [re.at(&at), im.at(&at)].map(|e| e.cast(DT::F64));
                if imaginary {
                    x * s + y * c
                } else {
                    x * c - y * s
                }
            },
        );
        let y = te.compute("y", &re.shape, |i| scaled(sum.at(i)));
        te.output(&y);
    }
    Ok(())
}

fn sliding_window(cx: &mut RelCx<'_>) -> RelResult {
    let (window, strides) = (int_list(cx, "window_shape")?, int_list(cx, "strides")?);
    let (dims, dtype) = shaped(cx, 0)?;
    let Some(dims) = dims else {
        return cx.finish_unranked(dtype);
    };
    let axis = axis_attr(cx, "axis", dims.len())?;
    for (name, list) in [("window_shape", &window), ("strides", &strides)] {
        let (n, m) = (list.len(), dims.len() - axis);
        if n != m {
            return cx.refuse(
                Subject::Attr(name),
                format!("`{name}` has {n} elements, but the window slides along {m} axes"),
            );
        }
        if let Some(v) = list.iter().find(|&&v| v < 1) {
            return cx.refuse(
                Subject::Attr(name),
                format!("`{name}` must be greater than 0, but holds {v}"),
            );
        }
    }
    let mut out = dims[..axis].to_vec();
    for (k, (w, s)) in window.iter().zip(&strides).enumerate() {
        out.push((&dims[axis + k] - *w).floordiv(&Dim::from(*s)) + 1);
    }
    out.extend(window.iter().map(|&w| Dim::from(w)));
    finish(cx, out, dtype)
}

fn sliding_window_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let axis = te.axis("axis", x.rank())?;
    let window = te.ints("window_shape").ok_or("`window_shape` is no list")?;
    let strides = te.ints("strides").ok_or("`strides` is no list")?;
    let count = x.rank() - axis;
    if window.len() != count || strides.len() != count || strides.iter().any(|&s| s < 1) {
        return Err("the window does not fit the data".into());
    }
    let mut shape = x.shape[..axis].to_vec();
    for k in 0..count {
        shape.push((&x.shape[axis + k] - window[k]).floor_div(strides[k]) + 1);
    }
    shape.extend(window.iter().map(|&w| Ex::idx(w)));
    let y = te.compute("y", &shape, |i| {
        let mut index = i[..axis].to_vec();
        index.extend((0..count).map(|k| &i[axis + k] * strides[k] + &i[axis + count + k]));
        x.at(&index)
    });
    te.output(&y);
    Ok(())
}
