//! Image operators: resizing, sampling, boxes.

use relax_ir::AttrValue;
use relax_sym::Dim;

use super::build::{flag, float, int, ints, str};
use crate::graph::Tr;
use crate::node::{Node, R, unsupported};
use crate::table::{Entry, op};
use crate::value::{Elem, Val, Value};

type Out = R<Vec<Value>>;

pub static OPS: &[Entry] = &[
    op("Resize", 10, resize),
    op("Upsample", 7, |tr, n| {
        let x = n.t(0)?;
        let scales = match n.opset < 9 {
            true => {
                let list = n.floats("scales").ok_or("attribute `scales` is missing")?;
                let list: Vec<f32> = list.iter().map(|&v| v as f32).collect();
                let t = relax_tensor::Tensor::from_slice(&[list.len() as i64], &list);
                Val::constant(t, Elem::F32, "scales")
            }
            false => n.t(1)?,
        };
        upsampled(tr, n, &x, scales)
    }),
    op("GridSample", 16, grid_sample),
    op("AffineGrid", 20, affine_grid),
    op("CenterCropPad", 18, center_crop_pad),
    op("RoiAlign", 10, roi_align),
    op("NonMaxSuppression", 10, non_max_suppression),
    op("MaxRoiPool", 1, |tr, n| {
        let (x, rois) = (n.t(0)?, n.t(1)?);
        let size = n
            .ints("pooled_shape")
            .ok_or("attribute `pooled_shape` is missing")?;
        let attrs = [
            ("pooled_size", ints(&size)),
            ("spatial_scale", float(n.float("spatial_scale", 1.0))),
        ];
        Ok(vec![tr.op("vision.roi_pool", &[&x, &rois], &attrs)?.into()])
    }),
    op("Col2Im", 18, col2im),
];

/// The interpolation mode.
#[derive(Default)]
struct Form {
    method: String,
    coordinates: String,
    rounding: String,
    alpha: f64,
    exclude: bool,
    antialias: bool,
    extrapolation: f64,
    /// Whether the nearest element is rounded up when downsampling, as in the first version of
    /// `Resize`.
    above: bool,
}

/// The target size.
enum Goal {
    Scales(Val),
    Sizes(Val),
    /// A common scale for all axes, and the resulting sizes.
    Both(Val, Val),
}

/// Emits the resizing of `Upsample`, and of `Resize` before version 11.
fn upsampled(tr: &mut Tr<'_>, n: &Node<'_>, x: &Val, scales: Val) -> Out {
    let form = Form {
        method: n.str("mode", "nearest"),
        coordinates: "asymmetric".into(),
        rounding: "floor".into(),
        above: true,
        ..Form::default()
    };
    let axes: Vec<usize> = (0..x.rank()).collect();
    let y = resized(tr, x, &axes, Goal::Scales(scales), None, &form)?;
    Ok(vec![y.into()])
}

fn resize(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let x = n.t(0)?;
    if n.opset < 11 {
        return upsampled(tr, n, &x, n.t(1)?);
    }
    let axes = match n.ints("axes") {
        Some(list) => list
            .iter()
            .map(|&a| x.axis(a))
            .collect::<Result<Vec<_>, _>>()?,
        None => (0..x.rank()).collect(),
    };
    let form = Form {
        method: n.str("mode", "nearest"),
        coordinates: n.str("coordinate_transformation_mode", "half_pixel"),
        rounding: n.str("nearest_mode", "round_prefer_floor"),
        alpha: n.float("cubic_coeff_a", -0.75),
        exclude: n.flag("exclude_outside"),
        antialias: n.flag("antialias"),
        extrapolation: n.float("extrapolation_value", 0.0),
        above: false,
    };
    let there = |v: Option<Val>| v.filter(|v| v.dims.first().and_then(Dim::as_const) != Some(0));
    let (roi, scales, sizes) = (there(n.opt(1)?), there(n.opt(2)?), there(n.opt(3)?));
    let goal = match (scales, sizes) {
        (_, Some(sizes)) => sized(tr, n, &x, &axes, sizes)?,
        (Some(scales), None) => Goal::Scales(scales),
        (None, None) => return Err("neither scales nor sizes are given".into()),
    };
    let roi = if form.coordinates == "tf_crop_and_resize" {
        roi
    } else {
        None
    };
    Ok(vec![resized(tr, &x, &axes, goal, roi, &form)?.into()])
}

/// Returns sizes, or the common scale that preserves the aspect ratio.
fn sized(tr: &mut Tr<'_>, n: &Node<'_>, x: &Val, axes: &[usize], sizes: Val) -> R<Goal> {
    let policy = n.str("keep_aspect_ratio_policy", "stretch");
    let pick = match policy.as_str() {
        "stretch" => return Ok(Goal::Sizes(sizes)),
        "not_larger" => "min",
        "not_smaller" => "max",
        other => return unsupported(format!("the policy {other} is not supported")),
    };
    let shape = tr.shape_of(x)?;
    let which = tr.vector(&axes.iter().map(|&a| a as i64).collect::<Vec<_>>());
    let extents = tr.take(&shape, &which, 0)?;
    let (a, b) = (tr.cast(&sizes, Elem::F32)?, tr.cast(&extents, Elem::F32)?);
    let ratios = tr.div(&a, &b)?;
    let one = tr.reduce(pick, &ratios, &[0], true)?;
    let goal = tr.mul(&one, &b)?;
    let goal = tr.by("add", &goal, 0.5)?;
    let goal = tr.unary("floor", &goal)?;
    let sizes = tr.cast(&goal, Elem::I64)?;
    let one = tr.as_scalar(&one)?;
    Ok(Goal::Both(one, sizes))
}

/// The places of axes in the order in which they are resized: those that shrink, from the outermost
/// on, then those that grow, from the innermost on, so that what comes between them is small and
/// the last axis, along which elements are gathered one by one, has few rows.
fn order(x: &Val, axes: &[usize], goal: &Goal) -> Vec<usize> {
    let grows = |k: usize| match goal {
        Goal::Scales(s) | Goal::Both(s, _) => {
            let scales = s.const_floats();
            (scales.as_ref().and_then(|s| s.get(k).or(s.first()))).is_some_and(|&s| s > 1.0)
        }
        Goal::Sizes(s) => {
            let goal = s.ints.as_ref().and_then(|d| d.get(k)?.as_const());
            let len = axes.get(k).and_then(|&a| x.dims.get(a)?.as_const());
            goal.zip(len).is_some_and(|(goal, len)| goal > len)
        }
    };
    let (growing, mut order): (Vec<_>, Vec<_>) = (0..axes.len()).partition(|&k| grows(k));
    order.extend(growing.into_iter().rev());
    order
}

/// Resizes axis by axis.
fn resized(
    tr: &mut Tr<'_>,
    x: &Val,
    axes: &[usize],
    goal: Goal,
    roi: Option<Val>,
    form: &Form,
) -> R<Val> {
    let mut y = tr.known(x);
    for k in order(x, axes, &goal) {
        let axis = axes[k];
        let at = |v: &Val| v.const_floats().and_then(|v| v.get(k).copied());
        let len = y.dim(axis)?.clone();
        let shape = tr.shape_of(&y)?;
        let extent = tr.pick(&shape, 0, axis as i64)?;
        let (scale, size, known) = match &goal {
            Goal::Scales(s) => {
                if at(s) == Some(1.0) && roi.is_none() {
                    continue;
                }
                let scale = tr.pick(s, 0, k as i64)?;
                let wide = tr.cast(&extent, Elem::F32)?;
                let long = tr.mul(&wide, &scale)?;
                let long = tr.unary("floor", &long)?;
                let size = tr.cast(&long, Elem::I64)?;
                let known = match (at(s), len.as_const()) {
                    (Some(s), Some(n)) => {
                        // In the precision used at run time.
                        Some(Dim::from((n as f32 * s as f32).floor() as i64))
                    }
                    (Some(s), None) if s == s.trunc() && s > 0.0 => Some(&len * (s as i64)),
                    _ => None,
                };
                (scale, size, known)
            }
            Goal::Both(scale, s) => (scale.clone(), tr.pick(s, 0, k as i64)?, None),
            Goal::Sizes(s) => {
                let known = s.ints.as_ref().and_then(|d| d.get(k).cloned());
                if known.as_ref() == Some(&len) && roi.is_none() {
                    continue;
                }
                let size = tr.pick(s, 0, k as i64)?;
                let size = tr.cast(&size, Elem::I64)?;
                let (a, b) = (tr.cast(&size, Elem::F32)?, tr.cast(&extent, Elem::F32)?);
                (tr.div(&a, &b)?, size, known)
            }
        };
        let region = match &roi {
            Some(roi) => {
                let roi = tr.cast(roi, Elem::F32)?;
                let at = tr.vector(&[k as i64, (k + axes.len()) as i64]);
                tr.take(&roi, &at, 0)?
            }
            None => Val::constant(
                relax_tensor::Tensor::from_slice(&[2], &[0f32, 1.0]),
                Elem::F32,
                "roi",
            ),
        };
        let region = match region.const_floats().as_deref() {
            // Two numbers are written as literals.
            Some(&[a, b]) => {
                let (a, b) = (tr.number(Elem::F32, a), tr.number(Elem::F32, b));
                tr.op_of_tuple("stack", &[&a, &b], &[("axis", int(0))])?
            }
            _ => region,
        };
        let mut attrs = vec![
            ("axis", int(axis as i64)),
            ("method", str(&form.method)),
            ("coordinate_transformation_mode", str(&form.coordinates)),
        ];
        match form.method.as_str() {
            "nearest" if form.above && scale.const_floats().is_some_and(|s| s[0] < 1.0) => {
                attrs.push(("rounding_method", str("ceil")));
            }
            "nearest" => attrs.push(("rounding_method", str(&form.rounding))),
            "cubic" => attrs.push(("cubic_alpha", float(form.alpha))),
            _ => {}
        }
        for (name, on) in [
            ("exclude_outside", form.exclude),
            ("antialias", form.antialias),
        ] {
            if on {
                attrs.push((name, flag(true)));
            }
        }
        if form.extrapolation != 0.0 {
            attrs.push(("extrapolation_value", float(form.extrapolation)));
        }
        y = tr.op("image.resize_axis", &[&y, &scale, &size, &region], &attrs)?;
        if let Some(known) = known {
            let mut dims = y.dims.to_vec();
            dims[axis] = known;
            y = tr.matched(&y, &dims);
        }
    }
    Ok(y)
}

pub fn grid_sample(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (x, grid) = (n.t(0)?, n.t(1)?);
    let rank = x.rank();
    if !(4..=5).contains(&rank) {
        return unsupported(format!(
            "samples of tensors of rank {rank} are not supported"
        ));
    }
    let order: Vec<usize> = std::iter::once(0)
        .chain([rank - 1])
        .chain(1..rank - 1)
        .collect();
    let grid = tr.transpose(&grid, &order)?;
    let grid = tr.cast(&grid, Elem::F32)?;
    let method = match n.str("mode", "linear").as_str() {
        "nearest" => "nearest",
        "cubic" | "bicubic" => "bicubic",
        _ => "bilinear",
    };
    let attrs = [
        ("method", str(method)),
        ("layout", str(if rank == 4 { "NCHW" } else { "NCDHW" })),
        ("padding_mode", str(&n.str("padding_mode", "zeros"))),
        ("align_corners", flag(n.flag("align_corners"))),
    ];
    Ok(vec![
        tr.op("image.grid_sample", &[&x, &grid], &attrs)?.into(),
    ])
}

/// Emits coordinates between -1 and 1 for each axis, transformed by a matrix per image.
fn affine_grid(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (theta, size) = (n.t(0)?, n.t(1)?);
    let size = tr.as_vector(&size)?;
    let k = size.axes()? as i64 - 2;
    if !(2..=3).contains(&k) {
        return unsupported(format!("grids of {k} axes are not supported"));
    }
    let corners = n.flag("align_corners");
    let theta = tr.known(&theta);
    let mut lines = Vec::new();
    for a in 0..k {
        let len = tr.pick(&size, 0, 2 + a)?;
        let (zero, one) = (tr.number(Elem::I64, 0.0), tr.number(Elem::I64, 1.0));
        let attrs = [
            ("start", int(0)),
            (
                "stop",
                len.const_ints().map_or(AttrValue::None, |v| int(v[0])),
            ),
            ("step", int(1)),
            ("dtype", super::build::dtype(relax_tensor::DType::I64)),
        ];
        let i = tr.op("arange", &[&zero, &len, &one], &attrs)?;
        let i = tr.cast(&i, theta.elem)?;
        let len = tr.cast(&len, theta.elem)?;
        let i = tr.by("multiply", &i, 2.0)?;
        let at = if corners {
            let last = tr.by("subtract", &len, 1.0)?;
            let at = tr.div(&i, &last)?;
            tr.by("subtract", &at, 1.0)?
        } else {
            let i = tr.by("add", &i, 1.0)?;
            let at = tr.div(&i, &len)?;
            tr.by("subtract", &at, 1.0)?
        };
        // One axis for each grid dimension, and one for the batch.
        let places: Vec<usize> = (0..=k as usize).filter(|&p| p != a as usize + 1).collect();
        lines.push(tr.expand_all(&at, &places)?);
    }
    // x is the last axis.
    lines.reverse();
    let mut rows = Vec::new();
    for r in 0..k {
        let row = tr.pick(&theta, 1, r)?;
        let entry = |tr: &mut Tr<'_>, c: i64| -> R<Val> {
            let e = tr.pick(&row, 1, c)?;
            tr.expand_all(&e, &(1..=k as usize).collect::<Vec<_>>())
        };
        let mut sum = entry(tr, k)?;
        for (c, line) in lines.iter().enumerate() {
            let e = entry(tr, c as i64)?;
            let p = tr.mul(&e, line)?;
            sum = tr.add(&sum, &p)?;
        }
        let last = sum.rank();
        rows.push(tr.expand(&sum, last)?);
    }
    let last = rows[0].but(1)?;
    Ok(vec![tr.concat(&rows, last)?.into()])
}

fn center_crop_pad(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (x, to) = (n.t(0)?, n.t(1)?);
    let to = tr.as_vector(&to)?;
    let axes: Vec<i64> = match n.ints("axes") {
        Some(list) => list
            .iter()
            .map(|&a| x.axis(a).map(|a| a as i64))
            .collect::<Result<_, _>>()?,
        None => (0..x.rank() as i64).collect(),
    };
    let which = tr.vector(&axes);
    let shape = tr.shape_of(&x)?;
    let have = tr.take(&shape, &which, 0)?;
    let two = 2.0;
    // Surplus is cropped, the smaller part at the front; missing parts are padded likewise.
    let less = tr.sub(&have, &to)?;
    let less = tr.by("maximum", &less, 0.0)?;
    let start = tr.by("floor_divide", &less, two)?;
    let kept = tr.binary("minimum", &have, &to)?;
    let end = tr.add(&start, &kept)?;
    let one = tr.vector(&vec![1; axes.len()]);
    let y = tr.op("dyn.slice", &[&x, &start, &end, &which, &one], &[])?;
    let more = tr.sub(&to, &kept)?;
    let front = tr.by("floor_divide", &more, two)?;
    let back = tr.sub(&more, &front)?;
    let widths = tr.concat(&[front, back], 0)?;
    let zero = tr.number(x.elem, 0.0);
    Ok(vec![
        tr.op("dyn.pad", &[&y, &widths, &zero, &which], &[])?.into(),
    ])
}

fn roi_align(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (x, rois, images) = (n.t(0)?, n.t(1)?, n.t(2)?);
    let scale = n.float("spatial_scale", 1.0);
    let images = tr.cast(&images, rois.elem)?;
    let images = tr.expand(&images, 1)?;
    let mode = n.str(
        "coordinate_transformation_mode",
        if n.opset < 16 {
            "output_half_pixel"
        } else {
            "half_pixel"
        },
    );
    let mut rois = rois;
    if mode == "half_pixel" {
        rois = tr.by("subtract", &rois, 0.5 / scale)?;
    }
    let boxes = tr.concat(&[images, rois], 1)?;
    let attrs = [
        (
            "pooled_size",
            ints(&[n.int("output_height", 1), n.int("output_width", 1)]),
        ),
        ("spatial_scale", float(scale)),
        ("sample_ratio", int(n.int("sampling_ratio", 0))),
        (
            "mode",
            str(match n.str("mode", "avg").as_str() {
                "max" => "max_weighted",
                _ => "avg",
            }),
        ),
        ("aligned", flag(mode == "half_pixel")),
    ];
    Ok(vec![
        tr.op("vision.roi_align", &[&x, &boxes], &attrs)?.into(),
    ])
}

fn non_max_suppression(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (mut boxes, scores) = (n.t(0)?, n.t(1)?);
    if n.int("center_point_box", 0) == 1 {
        let (center, size) = (tr.slice(&boxes, 2, 0, 2)?, tr.slice(&boxes, 2, 2, 4)?);
        let half = tr.by("divide", &size, 2.0)?;
        let (low, high) = (tr.sub(&center, &half)?, tr.add(&center, &half)?);
        boxes = tr.concat(&[low, high], 2)?;
    }
    let scalar = |tr: &mut Tr<'_>, i: usize, elem: Elem, otherwise: f64| match n.opt(i)? {
        Some(v) => tr.as_scalar(&v),
        None => Ok(tr.number(elem, otherwise)),
    };
    let most = scalar(tr, 2, Elem::I64, 0.0)?;
    let iou = scalar(tr, 3, Elem::F32, 0.0)?;
    // The native operator drops boxes whose overlap equals the threshold, ONNX only those that
    // exceed it.
    let iou = tr.by("multiply", &iou, 1.0 + f64::from(f32::EPSILON))?;
    let iou = tr.by("maximum", &iou, f64::from(f32::MIN_POSITIVE))?;
    let least = scalar(tr, 4, Elem::F32, f64::from(f32::MIN))?;
    let parts = tr.ops(
        "vision.all_class_non_max_suppression",
        &[&boxes, &scores, &most, &iou, &least],
        &[("output_format", str("onnx"))],
    )?;
    // The native operator keeps all boxes where none may be kept.
    let some = tr.by("greater", &most, 0.0)?;
    let none = tr.number(parts[1].elem, 0.0);
    let count = tr.select(&some, &parts[1], &none)?;
    let count = tr.as_vector(&count)?;
    let (zero, axis, one) = (tr.vector(&[0]), tr.vector(&[0]), tr.vector(&[1]));
    let rows = tr.op("dyn.slice", &[&parts[0], &zero, &count, &axis, &one], &[])?;
    let rows = tr.matched(&rows, &[Dim::ANY, Dim::from(3)]);
    let rows = tr.cast(&rows, Elem::I64)?;
    Ok(vec![rows.into()])
}

/// Emits col2im: puts window columns back in place, summed where they overlap.
fn col2im(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (x, image, block) = (n.t(0)?, n.t(1)?, n.t(2)?);
    let k = image.axes()?;
    let list = |name: &str, otherwise: i64| n.ints(name).unwrap_or(vec![otherwise; k]);
    let (strides, dilations) = (list("strides", 1), list("dilations", 1));
    let pads = n.ints("pads").unwrap_or(vec![0; 2 * k]);
    let all = [&strides, &dilations, &pads].into_iter().flatten();
    if [strides.len(), dilations.len()] != [k; 2]
        || pads.len() != 2 * k
        || all.clone().any(|v| v.abs() > super::nn::FARTHEST)
    {
        return Err("strides, dilations and pads do not fit the image".into());
    }
    let x = tr.known(&x);
    let (image, block) = (tr.as_vector(&image)?, tr.as_vector(&block)?);
    let long = tr.vector(&(0..k).map(|a| pads[a] + pads[k + a]).collect::<Vec<_>>());
    let padded = tr.add(&image, &long)?;
    let (st, di) = (tr.vector(&strides), tr.vector(&dilations));
    let reach = tr.by("subtract", &block, 1.0)?;
    let reach = tr.mul(&reach, &di)?;
    let rest = tr.sub(&padded, &reach)?;
    let rest = tr.by("subtract", &rest, 1.0)?;
    let windows = tr.binary("floor_divide", &rest, &st)?;
    let windows = tr.by("add", &windows, 1.0)?;
    // The target of each element: its position in the window, plus the window's own.
    let mut place: Option<Val> = None;
    for a in 0..k {
        let line = |tr: &mut Tr<'_>, v: &Val, by: i64| -> R<Val> {
            let len = tr.pick(v, 0, a as i64)?;
            let (zero, one) = (tr.number(Elem::I64, 0.0), tr.number(Elem::I64, 1.0));
            let attrs = [
                ("start", int(0)),
                ("stop", AttrValue::None),
                ("step", int(1)),
                ("dtype", super::build::dtype(relax_tensor::DType::I64)),
            ];
            let i = tr.op("arange", &[&zero, &len, &one], &attrs)?;
            tr.by("multiply", &i, by as f64)
        };
        let (taps, starts) = (
            line(tr, &block, dilations[a])?,
            line(tr, &windows, strides[a])?,
        );
        // Axes: taps of each axis, then windows of each axis.
        let spread = |tr: &mut Tr<'_>, v: &Val, at: usize| {
            let places: Vec<usize> = (0..2 * k).filter(|&p| p != at).collect();
            tr.expand_all(v, &places)
        };
        let (taps, starts) = (spread(tr, &taps, a)?, spread(tr, &starts, k + a)?);
        let at = tr.add(&taps, &starts)?;
        let extent = tr.pick(&padded, 0, a as i64)?;
        place = Some(match place {
            Some(p) => {
                let p = tr.mul(&p, &extent)?;
                tr.add(&p, &at)?
            }
            None => at,
        });
    }
    let place = place.ok_or("there are no axes")?;
    let place = tr.reshape(&place, &[Dim::from(-1)])?;
    let size = tr.reduce("prod", &padded, &[0], true)?;
    let taps = tr.reduce("prod", &block, &[0], true)?;
    let count = tr.reduce("prod", &windows, &[0], true)?;
    let batch = tr.shape_of(&x)?;
    let batch = tr.slice(&batch, 0, 0, 1)?;
    let minus = tr.vector(&[-1]);
    let all = tr.mul(&taps, &count)?;
    let rows = tr.concat(&[batch.clone(), minus.clone(), all], 0)?;
    let rows = tr.op(
        "dyn.reshape",
        &[&x, &rows],
        &[("newshape", AttrValue::None)],
    )?;
    let rows = tr.known(&rows);
    let at = tr.broadcast(&place, &rows.dims.clone())?;
    let channels = tr.shape_of(&rows)?;
    let channels = tr.slice(&channels, 0, 1, 2)?;
    let flat = tr.concat(&[batch.clone(), channels.clone(), size], 0)?;
    let zero = tr.number(x.elem, 0.0);
    let zeros = tr.op("dyn.full", &[&zero, &flat], &[("shape", AttrValue::None)])?;
    let attrs = [("axis", int(2)), ("reduction", str("add"))];
    let y = tr.op("scatter_elements", &[&zeros, &at, &rows], &attrs)?;
    let whole = tr.concat(&[batch, channels, padded], 0)?;
    let y = tr.op(
        "dyn.reshape",
        &[&y, &whole],
        &[("newshape", AttrValue::None)],
    )?;
    if pads.iter().all(|&p| p == 0) {
        return Ok(vec![y.into()]);
    }
    let start = tr.vector(&pads[..k]);
    let end = tr.add(&start, &image)?;
    let axes = tr.vector(&(2..2 + k as i64).collect::<Vec<_>>());
    let ones = tr.vector(&vec![1; k]);
    Ok(vec![
        tr.op("dyn.slice", &[&y, &start, &end, &axes, &ones], &[])?
            .into(),
    ])
}
