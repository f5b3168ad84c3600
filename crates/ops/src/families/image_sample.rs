//! Sampling images at computed positions: grids, crops; grey-scale dilation.

use relax_loops::{Combiner, Ex, TensorRef, UnOp};
use relax_sym::Dim;
use relax_tensor::DType;

use super::conv_attrs;
use super::nn_conv::{canonical_arg, numbers, padded_to, padding_of, pairs, reach, steps};
use super::resample::{Coordinates, Method, Resample};
use super::util::{dtype_or, finish, int_list, need_eq, word};
use super::util_te::Done;
use super::vision_nms::of_rank;
use crate::AttrTy::{Bool, Float, Ints, Str};
use crate::{
    AttrDef, ComputeError, Default, Fusion, Layout, OpDef, RelCx, RelResult, Subject, Te, attr,
    input,
};

const OUT_DTYPE: AttrDef = conv_attrs::OUT_DTYPE;

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "image.affine_grid",
        "The coordinates, -1 to 1, that an affine map gives to an even grid.",
        affine_grid,
    )
    .inputs(&[input("data", "(batch, 2, 3): the maps")])
    .attrs(&[attr(
        "target_shape",
        Ints,
        Default::Required,
        "height and width of the grid",
    )])
    .fusion(Fusion::Injective)
    .compute(affine_grid_compute),
    OpDef::new(
        "image.grid_sample",
        "Images sampled at the coordinates, -1 to 1, of a grid.",
        grid_sample,
    )
    .inputs(&[
        input("data", "the images: (n, c, h, w) or (n, c, d, h, w)"),
        input(
            "grid",
            "(n, 2, h, w) or (n, 3, d, h, w): x, y (and z) of each sample",
        ),
    ])
    .attrs(&[
        attr(
            "method",
            Str,
            Default::Str("bilinear"),
            "\"bilinear\", \"nearest\" or \"bicubic\"",
        ),
        attr("layout", Str, Default::Str("NCHW"), "layout of the data"),
        attr(
            "padding_mode",
            Str,
            Default::Str("zeros"),
            "what is outside: \"zeros\", \"border\" or \"reflection\"",
        ),
        attr(
            "align_corners",
            Bool,
            Default::Bool(true),
            "whether -1 and 1 are the centres of the outermost elements",
        ),
    ])
    .fusion(Fusion::Injective)
    .compute(grid_sample_compute),
    OpDef::new(
        "image.crop_and_resize",
        "Boxes cut out of images and resampled to one size.",
        crop_and_resize,
    )
    .inputs(&[
        input("data", "the images, in their layout"),
        input("boxes", "(boxes, 4): top, left, bottom, right, 0 to 1"),
        input("box_indices", "(boxes,): the image of each box"),
    ])
    .attrs(&[
        attr(
            "crop_size",
            Ints,
            Default::None,
            "height and width of the result",
        ),
        attr("layout", Str, Default::Str("NCHW"), "layout of the data"),
        attr(
            "method",
            Str,
            Default::Str("bilinear"),
            "\"bilinear\" or \"nearest_neighbor\"",
        ),
        attr(
            "extrapolation_value",
            Float,
            Default::Float(0.0),
            "the value outside an image",
        ),
        OUT_DTYPE,
    ])
    .fusion(Fusion::Injective)
    .compute(crop_and_resize_compute),
    OpDef::new(
        "image.dilation2d",
        "The maximum over a window of the data plus a weight.",
        dilation2d,
    )
    .inputs(&[
        input("data", "the images, in their layout"),
        input("weight", "(c, kh, kw) in its layout"),
    ])
    .attrs(&[
        conv_attrs::strides(&[1, 1]),
        conv_attrs::padding(&[0, 0]),
        attr(
            "dilations",
            Ints,
            Default::Ints(&[1, 1]),
            "distance of taps",
        ),
        conv_attrs::data_layout("NCHW"),
        conv_attrs::kernel_layout("IHW"),
        OUT_DTYPE,
    ])
    .fusion(Fusion::OutElementwise)
    .compute(dilation2d_compute),
];

/// Two numbers of an attribute, at least `least`.
fn two(cx: &RelCx<'_>, name: &'static str, least: i64) -> RelResult<[i64; 2]> {
    let v = int_list(cx, name)?;
    match v[..] {
        [a, b] if a >= least && b >= least => Ok([a, b]),
        _ => {
            let text = format!("`{name}={v:?}` must be two numbers, {least} or greater");
            cx.refuse(Subject::Attr(name), text)
        }
    }
}

fn affine_grid(cx: &mut RelCx<'_>) -> RelResult {
    let d = of_rank(cx, 0, 3)?;
    for (k, n) in [(1, 2), (2, 3)] {
        need_eq(
            cx,
            &d[k],
            &Dim::from(n),
            Subject::Arg(0),
            "affine maps are matrices of 2 rows and 3 columns",
        )?;
    }
    let [h, w] = two(cx, "target_shape", 0)?;
    let dtype = cx.tensor(0)?.dtype;
    let out = [d[0].clone(), Dim::from(2), Dim::from(h), Dim::from(w)];
    finish(cx, out.to_vec(), dtype)
}

fn affine_grid_compute(te: &mut Te<'_>) -> Done {
    let m = te.arg(0);
    let size = te.ints("target_shape").unwrap_or_default();
    let [h, w] = size[..] else {
        return Err("`target_shape` needs two numbers".into());
    };
    let shape = [m.shape[0].clone(), Ex::idx(2), Ex::idx(h), Ex::idx(w)];
    // Slightly less than the full step, as in TVM, so that the last position stays below 1.
    let step = |n: i64| Ex::float(m.dtype, (2.0 - 1e-7) / (n - 1) as f64);
    let y = te.compute("affine_grid", &shape, |i| {
        let from = Ex::float(m.dtype, -1.0);
        let y = &from + &(i[2].cast(m.dtype) * step(h));
        let x = from + i[3].cast(m.dtype) * step(w);
        let at = |k: i64| m.at(&[i[0].clone(), i[1].clone(), Ex::idx(k)]);
        at(0) * x + at(1) * y + at(2)
    });
    te.output(&y);
    Ok(())
}

/// Returns the layout of images with two or three spatial axes, and the canonical one.
fn image_layout(text: &str, rank: usize) -> Option<(Layout, Layout)> {
    let canonical = Layout::parse(if rank == 4 { "NCHW" } else { "NCDHW" })?;
    let own = Layout::parse(text).filter(|l| l.convertible(&canonical))?;
    Some((own, canonical))
}

fn grid_sample(cx: &mut RelCx<'_>) -> RelResult {
    let (data, dtype) = cx.ranked(0)?;
    let rank = data.len();
    if rank != 4 && rank != 5 {
        return cx.refuse(
            Subject::Arg(0),
            format!("`image.grid_sample` takes images of rank 4 or 5, not {rank}"),
        );
    }
    let grid = of_rank(cx, 1, rank)?;
    let text = cx.attr("layout").as_str().unwrap_or("").to_owned();
    let Some((own, canonical)) = image_layout(&text, rank).filter(|l| l.0.rank() == rank) else {
        return cx.refuse(
            Subject::Attr("layout"),
            format!("`layout=\"{text}\"` does not fit images of rank {rank}"),
        );
    };
    word(
        cx,
        "method",
        if rank == 4 {
            &["bilinear", "nearest", "bicubic"]
        } else {
            &["bilinear", "nearest"]
        },
    )?;
    word(cx, "padding_mode", &["zeros", "border", "reflection"])?;
    let mut out = own.convert_dims(&canonical, &data);
    let rule = "the grid has one number for each spatial axis";
    need_eq(
        cx,
        &grid[1],
        &Dim::from(rank as i64 - 2),
        Subject::Arg(1),
        rule,
    )?;
    let rule = "the grid has one batch for each of the images";
    need_eq(cx, &grid[0], &out[0], Subject::Arg(1), rule)?;
    out[2..].clone_from_slice(&grid[2..]);
    finish(cx, canonical.convert_dims(&own, &out), dtype)
}

/// The treatment of samples outside an image.
#[derive(Clone, Copy, PartialEq)]
enum Outside {
    Zeros,
    Border,
    Reflection,
}

/// Maps a coordinate into an image, or the index of a tap (`f` converts numbers to its type).
fn bring(x: &Ex, extent: &Ex, outside: Outside, align: bool) -> Ex {
    let t = x.dtype();
    let c = |v: f64| Ex::float(t, v);
    let clip = |x: &Ex| x.max(0i64).min((extent - 1).cast(t));
    match outside {
        Outside::Zeros => x.clone(),
        Outside::Border => clip(x),
        Outside::Reflection => {
            let (corner, size) = if align {
                (c(0.0), (extent - 1).cast(t))
            } else {
                (c(-0.5), extent.cast(t))
            };
            let away = (&corner - x).unary(UnOp::Abs);
            let times = (away.cast(DType::I64) / size.cast(DType::I64)).cast(DType::I64);
            let extra = away - times.cast(t) * &size;
            let even = times.rem(2i64).eq(0i64);
            let folded = Ex::where_(&even, &(&extra + &corner), &(&size - &extra + &corner));
            let within = x.ge(&corner) & x.le(&size + &corner);
            clip(&Ex::where_(&within, x, &folded))
        }
    }
}

fn grid_sample_compute(te: &mut Te<'_>) -> Done {
    let (x, grid) = (te.arg(0), te.arg(1));
    let layout = image_layout(te.str("layout"), x.rank());
    let (own, canonical) = layout.ok_or("the layout does not fit the images")?;
    let outside = match te.str("padding_mode") {
        "border" => Outside::Border,
        "reflection" => Outside::Reflection,
        _ => Outside::Zeros,
    };
    let (method, align) = (te.str("method"), te.flag("align_corners"));
    let spatial = x.rank() - 2;
    let dims = own.convert_extents(&canonical, &x.shape);
    let mut shape = dims.clone();
    shape[2..].clone_from_slice(&grid.shape[2..]);
    let shape = canonical.convert_extents(&own, &shape);
    let t = grid.dtype;
    let c = |v: f64| Ex::float(t, v);
    let y = te.compute("grid_sample", &shape, |i| {
        let at = canonical.index_from(&own, i);
        let pixel = |place: &[Ex]| {
            let mut from = at.clone();
            let mut inside = Ex::bool(true);
            for (k, p) in place.iter().enumerate() {
                inside = inside & p.ge(0i64) & p.lt(&dims[2 + k]);
                from[2 + k] = p.clone();
            }
            let value = x.at(&own.index_from(&canonical, &from));
            Ex::where_(&inside, &value, &value.same(0.0)).cast(t)
        };
        // The grid holds x first, the image's last axis.
        let raw: Vec<Ex> = (0..spatial)
            .map(|k| {
                let mut from = vec![at[0].clone(), Ex::idx((spatial - 1 - k) as i64)];
                from.extend_from_slice(&at[2..]);
                let v = grid.at(&from);
                let size = &dims[2 + k];
                if align {
                    (v + c(1.0)) * (size - 1).cast(t) / c(2.0)
                } else {
                    c(-0.5) + (v + c(1.0)) * size.cast(t) / c(2.0)
                }
            })
            .collect();
        let bring = |v: &Ex, k: usize| bring(v, &dims[2 + k], outside, align);
        let value = match method {
            "bicubic" => bicubic(&raw, &|y, x| {
                // Taps are mapped into the image one by one.
                let tap = |v: &Ex, k: usize| bring(&v.cast(t), k).cast(DType::I64);
                pixel(&[tap(y, 0), tap(x, 1)])
            }),
            "nearest" => {
                let place = raw.iter().enumerate();
                let place: Vec<Ex> = place
                    .map(|(k, v)| bring(v, k).unary(UnOp::RoundEven).cast(DType::I64))
                    .collect();
                pixel(&place)
            }
            _ => {
                let place = raw.iter().enumerate();
                let place: Vec<Ex> = place.map(|(k, v)| bring(v, k)).collect();
                multilinear(&place, &pixel)
            }
        };
        value.cast(x.dtype)
    });
    te.output(&y);
    Ok(())
}

/// Linear interpolation along each axis between the elements around a position.
fn multilinear(place: &[Ex], pixel: &dyn Fn(&[Ex]) -> Ex) -> Ex {
    let base: Vec<Ex> = (place.iter())
        .map(|v| v.unary(UnOp::Floor).cast(DType::I64))
        .collect();
    let terms = (0..1u32 << place.len()).map(|corner| {
        let high = |k: usize| corner >> (place.len() - 1 - k) & 1;
        let at: Vec<Ex> = (base.iter().enumerate())
            .map(|(k, b)| b + i64::from(high(k)))
            .collect();
        (0..place.len()).fold(pixel(&at), |value, k| {
            let fraction = &place[k] - &base[k].cast(place[k].dtype());
            if high(k) == 1 {
                value * fraction
            } else {
                value * (fraction.same(1.0) - &fraction)
            }
        })
    });
    terms.reduce(|a, b| a + b).expect("a place has axes")
}

/// Cubic convolution of the 16 elements around a position, with A = -0.75 as in PyTorch.
fn bicubic(place: &[Ex], pixel: &dyn Fn(&Ex, &Ex) -> Ex) -> Ex {
    let c = |v: f64| Ex::float(place[0].dtype(), v);
    let a = -0.75;
    let near = |t: &Ex| ((c(a + 2.0) * t - c(a + 3.0)) * t) * t + c(1.0);
    let far = |t: &Ex| ((c(a) * t - c(5.0 * a)) * t + c(8.0 * a)) * t - c(4.0 * a);
    let base: Vec<Ex> = (place.iter())
        .map(|v| v.unary(UnOp::Floor).cast(DType::I64))
        .collect();
    let weights: Vec<[Ex; 4]> = (0..2)
        .map(|k| {
            let t = &place[k] - &base[k].cast(place[k].dtype());
            [
                far(&(&t + &c(1.0))),
                near(&t),
                near(&(c(1.0) - &t)),
                far(&(c(2.0) - &t)),
            ]
        })
        .collect();
    let blend = |values: [Ex; 4], w: &[Ex; 4]| {
        let [p, q, r, s] = values;
        p * &w[0] + q * &w[1] + r * &w[2] + s * &w[3]
    };
    let rows = std::array::from_fn(|i| {
        let y = &base[0] + (i as i64 - 1);
        let taps = std::array::from_fn(|j| pixel(&y, &(&base[1] + (j as i64 - 1))));
        blend(taps, &weights[1])
    });
    blend(rows, &weights[0])
}

fn crop_and_resize(cx: &mut RelCx<'_>) -> RelResult {
    let text = cx.attr("layout").as_str().unwrap_or("").to_owned();
    let Some((own, canonical)) = image_layout(&text, 4) else {
        return cx.refuse(
            Subject::Attr("layout"),
            format!("`layout=\"{text}\"` is no layout of NCHW"),
        );
    };
    let (mut out, dtype) = canonical_arg(cx, 0, &own, &canonical)?;
    let boxes = of_rank(cx, 1, 2)?;
    let images = of_rank(cx, 2, 1)?;
    let rule = "there is one image for each box";
    need_eq(cx, &images[0], &boxes[0], Subject::Arg(2), rule)?;
    super::util::index_arg(cx, 2, "the numbers of images")?;
    need_eq(
        cx,
        &boxes[1],
        &Dim::from(4),
        Subject::Arg(1),
        "each box has four coordinates",
    )?;
    let [h, w] = two(cx, "crop_size", 0)?;
    let known = cx
        .attr("method")
        .as_str()
        .is_some_and(|m| ["bilinear", "nearest_neighbor"].contains(&m.to_lowercase().as_str()));
    if !known {
        return cx.refuse(
            Subject::Attr("method"),
            "`method` must be \"bilinear\" or \"nearest_neighbor\"",
        );
    }
    out[0] = boxes[0].clone();
    (out[2], out[3]) = (Dim::from(h), Dim::from(w));
    let dtype = dtype_or(cx, "out_dtype", dtype);
    finish(cx, canonical.convert_dims(&own, &out), dtype)
}

fn crop_and_resize_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let (own, _) = image_layout(te.str("layout"), 4).ok_or("the layout is no layout of NCHW")?;
    let target: Vec<Ex> = te
        .ints("crop_size")
        .unwrap_or_default()
        .into_iter()
        .map(Ex::idx)
        .collect();
    let resample = Resample {
        method: Method::parse(te.str("method")).ok_or("unknown method")?,
        coordinates: Coordinates::TfCrop,
        rounding: "round",
        cubic_alpha: -0.5,
        cubic_exclude: false,
        extrapolation: te.float("extrapolation_value")?,
        roi: Vec::new(),
        boxes: Some((te.arg(1), te.arg(2))),
        out_dtype: te.out(0).dtype,
    };
    let y = resample.stage(te, &x, &own, &target)?;
    te.output(&y);
    Ok(())
}

/// Returns the layouts of a dilation: of the data, the weight, and the canonical ones.
fn dilation_layouts(get: &dyn Fn(&str) -> String) -> Result<[Layout; 4], (&'static str, String)> {
    let read = |name: &'static str, form: &str| {
        let like = Layout::parse(form).expect("a layout");
        let text = get(name);
        match Layout::parse(&text).filter(|l| l.convertible(&like)) {
            Some(own) => Ok((own, like)),
            None => Err((name, format!("`{name}=\"{text}\"` is no layout of {form}"))),
        }
    };
    let ((data, like), (kernel, plain)) =
        (read("data_layout", "NCHW")?, read("kernel_layout", "IHW")?);
    Ok([data, like, kernel, plain])
}

fn dilation2d(cx: &mut RelCx<'_>) -> RelResult {
    let get = |name: &str| cx.attr(name).as_str().unwrap_or("").to_owned();
    let [own, canonical, kernel, plain] = match dilation_layouts(&get) {
        Ok(l) => l,
        Err((name, message)) => return cx.refuse(Subject::Attr(name), message),
    };
    let (data, dtype) = canonical_arg(cx, 0, &own, &canonical)?;
    let (w, _) = canonical_arg(cx, 1, &kernel, &plain)?;
    let (strides, dilations) = (steps(cx, "strides", 2, 1)?, steps(cx, "dilations", 2, 1)?);
    let padding = padding_of(cx, 2)?;
    need_eq(
        cx,
        &w[0],
        &data[1],
        Subject::Arg(1),
        "data and weight must have as many channels",
    )?;
    let mut out = vec![data[0].clone(), w[0].clone()];
    for k in 0..2 {
        let size = &data[2 + k];
        if size.is_any() {
            out.push(Dim::ANY);
            continue;
        }
        let pad = padding[k].0.saturating_add(padding[k].1);
        let room = size + &Dim::from(pad) - reach(&w[1 + k], dilations[k]);
        out.push(room.floordiv(&Dim::from(strides[k])) + Dim::ONE);
    }
    let dtype = dtype_or(cx, "out_dtype", dtype);
    finish(cx, canonical.convert_dims(&own, &out), dtype)
}

fn dilation2d_compute(te: &mut Te<'_>) -> Done {
    let (x, weight) = (te.arg(0), te.arg(1));
    let layouts = dilation_layouts(&|name| te.str(name).to_owned());
    let [own, canonical, kernel, plain] = layouts.map_err(|e| ComputeError(e.1))?;
    let (strides, dilations) = (numbers(te, "strides", 2), numbers(te, "dilations", 2));
    let padding = te.ints("padding").unwrap_or_default();
    let padding = pairs(&padding, 2).ok_or("`padding` has a wrong length")?;
    let dtype = te.out(0).dtype;
    let data = own.convert_extents(&canonical, &x.shape);
    let w = kernel.convert_extents(&plain, &weight.shape);
    let mut shape = vec![data[0].clone(), w[0].clone()];
    for k in 0..2 {
        let window = (&w[1 + k] - 1) * dilations[k] + 1;
        let room = &data[2 + k] + (padding[k].0 + padding[k].1) - window;
        shape.push(room.floor_div(strides[k]) + 1);
    }
    let shape = canonical.convert_extents(&own, &shape);
    // A window never ends at an image's border.
    let padded = padded_to(te, &x, (&own, &canonical, &own), &padding, 0.0);
    let y = te.reduce("dilation", &shape, &w[1..], Combiner::Max, |i, r| {
        let at = canonical.index_from(&own, i);
        let mut from = at.clone();
        for k in 0..2 {
            from[2 + k] = &at[2 + k] * strides[k] + &r[k] * dilations[k];
        }
        let read = |t: &TensorRef, index: &[Ex]| t.at(index).cast(dtype);
        let value = read(&padded, &own.index_from(&canonical, &from));
        let tap = [at[1].clone(), r[0].clone(), r[1].clone()];
        value + read(&weight, &kernel.index_from(&plain, &tap))
    });
    te.output(&y);
    Ok(())
}
