//! Convolution, pooling, and image operators.

use relax_sym::Dim;
use relax_tensor::{DType, Tensor};

use super::super::call::{Call, why};
use super::super::graph::Attr;
use super::super::walk::{R, Val};

fn one(name: String) -> R<Val> {
    Ok(Val::Tensor(name))
}

/// Returns the letters of the last spatial axes.
fn spatial(count: usize) -> &'static str {
    &"DHW"[3 - count.min(3)..]
}

/// Returns the axis order that converts one layout to another.
fn order(from: &str, to: &str) -> R<Vec<i64>> {
    let at = |c: char| from.find(c).map(|i| i as i64);
    let order: Option<Vec<i64>> = to.chars().map(at).collect();
    match order {
        Some(order) if from.len() == to.len() => Ok(order),
        _ => why(format!("the layout `{from}`")),
    }
}

/// Returns the data with channels as the second axis, and the axis order that restores its layout.
fn channels_second(c: &mut Call<'_, '_>, layout: &str) -> R<(String, Vec<i64>)> {
    let x = c.arg(0)?;
    let spatial = spatial((c.rank(0)? - 2).max(0) as usize);
    let layout = match c.text(layout) {
        given if given.is_empty() => format!("NC{spatial}"),
        given => given,
    };
    let canonical = format!("NC{spatial}");
    let there = order(&layout, &canonical)?;
    let result = match c.text("out_layout") {
        given if given.is_empty() => layout,
        given => given,
    };
    let back = order(&canonical, &result)?;
    Ok((c.transposed(x, &there), back))
}

/// Returns one number for each spatial axis; a single one applies to all.
fn each(c: &Call<'_, '_>, name: &str, count: usize) -> R<Vec<i64>> {
    let mut all = c.ints(name)?;
    if all.len() == 1 {
        all.resize(count, all[0]);
    }
    Ok(all)
}

/// Returns the paddings before all axes, then those after.
fn pads(c: &Call<'_, '_>, count: usize) -> R<Vec<i64>> {
    let mut all = each(c, "padding", count)?;
    if all.len() == count {
        all.extend(all.clone());
    }
    Ok(all)
}

/// Checks that the result has the element type of the operands.
fn plain(c: &Call<'_, '_>) -> R<()> {
    let (a, b, y) = (c.dtype(0)?, c.dtype(1)?, c.out_dtype()?);
    if a == b && a == y {
        return Ok(());
    }
    why(format!("a convolution of {a} by {b} as {y}"))
}

/// Returns the weight in ONNX's axis order.
fn weight(c: &mut Call<'_, '_>, canonical: &str, count: usize) -> R<String> {
    let w = c.arg(1)?;
    let canonical = format!("{canonical}{}", spatial(count));
    let order = match c.text("kernel_layout") {
        given if given.is_empty() => return Ok(w),
        given => order(&given, &canonical)?,
    };
    Ok(c.transposed(w, &order))
}

/// Returns the extents of a depthwise convolution's weight whose channels and multiplier are
/// separate axes: ONNX has a single axis for both.
fn multiplied(c: &Call<'_, '_>, count: usize) -> R<Option<Vec<Dim>>> {
    let groups = c.int("groups")?;
    let layout = match c.text("kernel_layout") {
        given if given.is_empty() => return Ok(None),
        given => order(&given, &format!("OI{}", spatial(count)))?,
    };
    let given = c.dims(1)?;
    let mut dims: Vec<Dim> = layout.iter().map(|&i| given[i as usize].clone()).collect();
    if groups == 1 || dims[0] != Dim::from(groups) || dims[1] == Dim::ONE {
        return Ok(None);
    }
    dims[0] = &dims[0] * &dims[1];
    dims[1] = Dim::ONE;
    Ok(Some(dims))
}

/// Writes a convolution.
pub fn conv(c: &mut Call<'_, '_>) -> R<Val> {
    plain(c)?;
    convolution(c, "Conv", &[])
}

/// Writes a convolution by an operator of ONNX that takes `more` after the weight.
pub fn convolution(c: &mut Call<'_, '_>, op: &str, more: &[&str]) -> R<Val> {
    let count = (c.rank(0)? - 2).max(0) as usize;
    let (x, back) = channels_second(c, "data_layout")?;
    let mut w = weight(c, "OI", count)?;
    if let Some(dims) = multiplied(c, count)? {
        w = c.reshaped(&w, &dims)?;
    }
    let attrs = vec![
        ("dilations", Attr::Ints(each(c, "dilation", count)?)),
        ("group", Attr::Int(c.int("groups")?)),
        ("pads", Attr::Ints(pads(c, count)?)),
        ("strides", Attr::Ints(each(c, "strides", count)?)),
    ];
    let inputs = [&[x.as_str(), w.as_str()], more].concat();
    let y = c.node(op, &inputs, attrs);
    one(c.transposed(y, &back))
}

/// Writes a transposed convolution.
pub fn conv_transpose(c: &mut Call<'_, '_>) -> R<Val> {
    plain(c)?;
    let count = (c.rank(0)? - 2).max(0) as usize;
    let (x, back) = channels_second(c, "data_layout")?;
    let w = weight(c, "IO", count)?;
    let attrs = vec![
        ("dilations", Attr::Ints(each(c, "dilation", count)?)),
        ("group", Attr::Int(c.int("groups")?)),
        (
            "output_padding",
            Attr::Ints(each(c, "output_padding", count)?),
        ),
        ("pads", Attr::Ints(pads(c, count)?)),
        ("strides", Attr::Ints(each(c, "strides", count)?)),
    ];
    let y = c.node("ConvTranspose", &[&x, &w], attrs);
    one(c.transposed(y, &back))
}

/// Writes max or average pooling.
pub fn pool(c: &mut Call<'_, '_>, op: &str) -> R<Val> {
    let count = (c.rank(0)? - 2).max(0) as usize;
    let (x, back) = channels_second(c, "layout")?;
    let mut attrs = vec![
        ("ceil_mode", Attr::Int(c.flag("ceil_mode").into())),
        ("dilations", Attr::Ints(each(c, "dilation", count)?)),
        ("kernel_shape", Attr::Ints(each(c, "pool_size", count)?)),
        ("pads", Attr::Ints(pads(c, count)?)),
        ("strides", Attr::Ints(each(c, "strides", count)?)),
    ];
    if op == "AveragePool" {
        let counted = c.flag("count_include_pad");
        attrs.push(("count_include_pad", Attr::Int(counted.into())));
    }
    let y = c.node(op, &[&x], attrs);
    one(c.transposed(y, &back))
}

/// Writes global pooling.
pub fn global(c: &mut Call<'_, '_>, op: &str) -> R<Val> {
    let (x, back) = channels_second(c, "layout")?;
    let y = c.node(op, &[&x], vec![]);
    one(c.transposed(y, &back))
}

/// Writes adaptive pooling to given extents, provided that windows of equal size tile the input.
pub fn adaptive(c: &mut Call<'_, '_>, whole: &str, op: &str) -> R<Val> {
    let count = (c.rank(0)? - 2).max(0) as usize;
    let sizes = each(c, "output_size", count)?;
    if sizes.iter().all(|&n| n == 1) {
        return global(c, whole);
    }
    let (x, back) = channels_second(c, "layout")?;
    let layout = c.text("layout");
    let dims = c.dims(0)?;
    let mut windows = Vec::new();
    for (letter, &n) in spatial(count).chars().zip(&sizes) {
        let extent = layout.find(letter).and_then(|i| dims.get(i)?.as_const());
        match extent {
            Some(extent) if n > 0 && extent % n == 0 => windows.push(extent / n),
            _ => return why("windows of several sizes"),
        }
    }
    let attrs = vec![
        ("kernel_shape", Attr::Ints(windows.clone())),
        ("strides", Attr::Ints(windows)),
    ];
    let y = c.node(op, &[&x], attrs);
    one(c.transposed(y, &back))
}

/// Rearranges channels into spatial blocks.
pub fn depth_to_space(c: &mut Call<'_, '_>) -> R<Val> {
    let (x, back) = channels_second(c, "layout")?;
    let mode = if c.text("mode") == "DCR" {
        "DCR"
    } else {
        "CRD"
    };
    let attrs = vec![
        ("blocksize", Attr::Int(c.int("block_size")?)),
        ("mode", Attr::Str(mode)),
    ];
    let y = c.node("DepthToSpace", &[&x], attrs);
    one(c.transposed(y, &back))
}

/// Rearranges spatial blocks into channels.
pub fn space_to_depth(c: &mut Call<'_, '_>) -> R<Val> {
    if c.text("mode") != "DCR" {
        return why("blocks whose channels stay together");
    }
    let (x, back) = channels_second(c, "layout")?;
    let attrs = vec![("blocksize", Attr::Int(c.int("block_size")?))];
    let y = c.node("SpaceToDepth", &[&x], attrs);
    one(c.transposed(y, &back))
}

/// Returns ONNX's name of an interpolation method.
fn method(text: &str) -> R<&'static str> {
    Ok(match text {
        "nearest_neighbor" | "nearest" => "nearest",
        "linear" | "bilinear" | "trilinear" => "linear",
        "cubic" | "bicubic" => "cubic",
        other => return why(format!("`method=\"{other}\"`")),
    })
}

/// Returns ONNX's name of a rounding mode; an empty one is the default of the coordinate
/// transformation.
fn rounding(text: &str, coordinates: &str) -> R<&'static str> {
    Ok(match (text, coordinates) {
        ("round" | "round_prefer_ceil", _) | ("", "align_corners") => "round_prefer_ceil",
        ("round_prefer_floor", _) => "round_prefer_floor",
        ("floor" | "", _) => "floor",
        ("ceil", _) => "ceil",
        (other, _) => return why(format!("`rounding_method=\"{other}\"`")),
    })
}

fn coordinates(text: &str) -> R<Attr> {
    const KNOWN: [&str; 6] = [
        "half_pixel",
        "half_pixel_symmetric",
        "pytorch_half_pixel",
        "align_corners",
        "asymmetric",
        "tf_crop_and_resize",
    ];
    match KNOWN.contains(&text) {
        true => Ok(Attr::Text(text.to_owned())),
        false => why(format!("`coordinate_transformation_mode=\"{text}\"`")),
    }
}

/// Writes the resizing of spatial axes.
pub fn resize(c: &mut Call<'_, '_>) -> R<Val> {
    if c.out_dtype()? != c.dtype(0)? {
        return why("another element type of the result");
    }
    let mode = method(&c.text("method"))?;
    let way = match c.text("coordinate_transformation_mode") {
        given if !given.is_empty() => given,
        _ if c.flag("align_corners") => "align_corners".to_owned(),
        _ => "asymmetric".to_owned(),
    };
    if way == "tf_crop_and_resize" {
        return why("a region that is cut out");
    }
    let dims = c.out_dims()?;
    let mut attrs = vec![
        ("coordinate_transformation_mode", coordinates(&way)?),
        ("mode", Attr::Str(mode)),
        (
            "nearest_mode",
            Attr::Str(rounding(&c.text("rounding_method"), &way)?),
        ),
    ];
    if mode == "cubic" {
        let alpha = c.float("cubic_alpha").unwrap_or(-0.5);
        attrs.push(("cubic_coeff_a", Attr::Float(alpha)));
    }
    if mode == "cubic" && c.int("cubic_exclude").unwrap_or(0) != 0 {
        attrs.push(("exclude_outside", Attr::Int(1)));
    }
    let x = c.arg(0)?;
    let sizes = c.extents(&dims)?;
    one(c.node("Resize", &[&x, "", "", &sizes], attrs))
}

/// Writes the resizing of one axis by a coordinate factor and an extent.
pub fn resize_axis(c: &mut Call<'_, '_>) -> R<Val> {
    let rank = c.rank(0)?;
    let axis = c.axis("axis", rank)?;
    let way = c.text("coordinate_transformation_mode");
    let mode = method(&c.text("method"))?;
    let attrs = vec![
        ("antialias", Attr::Int(c.flag("antialias").into())),
        ("axes", Attr::Ints(vec![axis])),
        ("coordinate_transformation_mode", coordinates(&way)?),
        ("cubic_coeff_a", Attr::Float(c.float("cubic_alpha")?)),
        (
            "exclude_outside",
            Attr::Int(c.flag("exclude_outside").into()),
        ),
        (
            "extrapolation_value",
            Attr::Float(c.float("extrapolation_value")?),
        ),
        ("mode", Attr::Str(mode)),
        (
            "nearest_mode",
            Attr::Str(rounding(&c.text("rounding_method"), &way)?),
        ),
    ];
    let (x, roi) = (c.arg(0)?, c.arg(3)?);
    let roi = match way == "tf_crop_and_resize" {
        true => c.cast(roi, c.dtype(3)?, DType::F32),
        false => String::new(),
    };
    let (from, to) = (c.dims(0)?, c.out_dims()?);
    let (from, to) = (&from[axis as usize], &to[axis as usize]);
    let size = c.wide_vector(2)?;
    let by_size = |c: &mut Call<'_, '_>, attrs| c.node("Resize", &[&x, &roi, "", &size], attrs);
    // ONNX takes either the factor or the extent, which may be rounded: the factor is used if it
    // gives the extent.
    if let (Some(factor), Some(from), Some(to)) = (c.number(1), from.as_const(), to.as_const()) {
        if (from as f64 * factor).floor() as i64 != to {
            return one(by_size(c, attrs));
        }
        let factor = Tensor::from_slice(&[1], &[factor as f32]);
        let scales = c.g.constant("scales", &factor);
        return one(c.node("Resize", &[&x, &roi, &scales], attrs));
    }
    let factor = c.arg(1)?;
    let factor = c.cast(factor, c.dtype(1)?, DType::F32);
    let one_element = c.g.ints(&[1]);
    let scales = c.node("Reshape", &[&factor, &one_element], vec![]);
    let extent = c.g.axis(&x, axis);
    let extent = c.cast(extent, DType::I64, DType::F32);
    let given = c.node("Mul", &[&extent, &scales], vec![]);
    let given = c.node("Floor", &[&given], vec![]);
    let given = c.cast(given, DType::F32, DType::I64);
    let same = c.node("Equal", &[&given, &size], vec![]);
    let none = c.g.ints(&[]);
    let same = c.node("Reshape", &[&same, &none], vec![]);
    let branch = |c: &mut Call<'_, '_>, name: &str, inputs: &[&str], attrs| {
        c.g.open();
        let y = c.node("Resize", inputs, attrs);
        c.g.output(&y, &y, None);
        Attr::Graph(c.g.close(name))
    };
    let then = branch(c, "then", &[&x, &roi, &scales], attrs.clone());
    let otherwise = branch(c, "else", &[&x, &roi, "", &size], attrs);
    let branches = vec![("then_branch", then), ("else_branch", otherwise)];
    one(c.node("If", &[&same], branches))
}

/// Samples images at the coordinates of a grid.
pub fn grid_sample(c: &mut Call<'_, '_>) -> R<Val> {
    let (x, grid, rank) = (c.arg(0)?, c.arg(1)?, c.rank(1)?);
    // Other runtimes only support coordinates of the data's type.
    let (from, to) = (c.dtype(1)?, c.dtype(0)?);
    let grid = match to.is_float() {
        true => c.cast(grid, from, to),
        false => grid,
    };
    let mode = match c.text("method").as_str() {
        "bilinear" => "linear",
        "nearest" => "nearest",
        "bicubic" => "cubic",
        other => return why(format!("`method=\"{other}\"`")),
    };
    let attrs = vec![
        ("align_corners", Attr::Int(c.flag("align_corners").into())),
        ("mode", Attr::Str(mode)),
        ("padding_mode", Attr::Text(c.text("padding_mode"))),
    ];
    // In ONNX, a sample's coordinates are the last axis.
    let order: Vec<i64> = [0].into_iter().chain(2..rank).chain([1]).collect();
    let grid = c.transposed(grid, &order);
    one(c.node("GridSample", &[&x, &grid], attrs))
}

/// Writes RoIAlign.
pub fn roi_align(c: &mut Call<'_, '_>) -> R<Val> {
    let (x, back) = channels_second(c, "layout")?;
    let rois = c.arg(1)?;
    let size = each(c, "pooled_size", 2)?;
    let mode = match c.text("mode").as_str() {
        "max" => return why("the greatest of the samples, which ONNX weights first"),
        "max_weighted" => "max",
        _ => "avg",
    };
    // ONNX shifts the regions itself where their sides may be short.
    let (coordinates, moved) = match c.flag("aligned") {
        true => ("half_pixel", 0.5 / c.float("spatial_scale")?),
        false => ("output_half_pixel", 0.0),
    };
    let columns = c.g.ints(&[1, 4]);
    let axis = ("axis", Attr::Int(1));
    let parts = c.nodes("Split", &[&rois, &columns], vec![axis], 2);
    let rows = c.g.ints(&[-1]);
    let batch = c.node("Reshape", &[&parts[0], &rows], vec![]);
    let batch = c.cast(batch, c.dtype(1)?, DType::I64);
    let attrs = vec![
        ("coordinate_transformation_mode", Attr::Str(coordinates)),
        ("mode", Attr::Str(mode)),
        ("output_height", Attr::Int(size[0])),
        ("output_width", Attr::Int(size[1])),
        ("sampling_ratio", Attr::Int(c.int("sample_ratio")?.max(0))),
        ("spatial_scale", Attr::Float(c.float("spatial_scale")?)),
    ];
    let mut regions = parts[1].clone();
    if moved != 0.0 {
        let moved = c.scalar(c.dtype(1)?, moved);
        regions = c.node("Add", &[&regions, &moved], vec![]);
    }
    let y = c.node("RoiAlign", &[&x, &regions, &batch], attrs);
    one(c.transposed(y, &back))
}

/// Writes a deformable convolution.
pub fn deformable(c: &mut Call<'_, '_>) -> R<Val> {
    let (x, offset, w) = (c.arg(0)?, c.arg(1)?, c.arg(2)?);
    for (name, plain) in [("data_layout", "NCHW"), ("kernel_layout", "OIHW")] {
        let given = c.text(name);
        if !given.is_empty() && given != plain {
            return why(format!("the layout `{given}`"));
        }
    }
    let attrs = vec![
        ("dilations", Attr::Ints(each(c, "dilation", 2)?)),
        ("group", Attr::Int(c.int("groups")?)),
        ("offset_group", Attr::Int(c.int("deformable_groups")?)),
        ("pads", Attr::Ints(pads(c, 2)?)),
        ("strides", Attr::Ints(each(c, "strides", 2)?)),
    ];
    one(c.node("DeformConv", &[&x, &w, &offset], attrs))
}
