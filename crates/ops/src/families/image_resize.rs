//! Resizing images to a given size, and upsampling by factors.

use relax_ir::Attrs;
use relax_loops::{Ex, UnOp};
use relax_sym::Dim;
use relax_tensor::DType;

use super::resample::{Coordinates, Method, Resample};
use crate::{
    AttrDef, AttrTy, AttrValue, ComputeError, Default, Former, Fusion, Layout, OpDef, RelCx,
    RelResult, Subject, Te, attr, former, input,
};

macro_rules! resize_attrs {
    ($layout:literal) => {
        &[
            attr(
                "size",
                AttrTy::Ints,
                Default::None,
                "extents of the result's spatial axes",
            ),
            attr(
                "roi",
                AttrTy::Floats,
                Default::None,
                "the region for `tf_crop_and_resize`: starts, then ends",
            ),
            attr(
                "layout",
                AttrTy::Str,
                Default::Str($layout),
                "layout of the data",
            ),
            attr(
                "method",
                AttrTy::Str,
                Default::Str("linear"),
                "`nearest_neighbor`, `linear` or `cubic`",
            ),
            attr(
                "coordinate_transformation_mode",
                AttrTy::Str,
                Default::Str("half_pixel"),
                "how an output index becomes an input coordinate",
            ),
            attr(
                "rounding_method",
                AttrTy::Str,
                Default::Str("round"),
                "how `nearest_neighbor` rounds",
            ),
            attr(
                "cubic_alpha",
                AttrTy::Float,
                Default::Float(-0.5),
                "the spline's parameter",
            ),
            attr(
                "cubic_exclude",
                AttrTy::Int,
                Default::Int(0),
                "whether taps outside the image are left out",
            ),
            attr(
                "extrapolation_value",
                AttrTy::Float,
                Default::Float(0.0),
                "the value outside the region",
            ),
            attr(
                "out_dtype",
                AttrTy::DType,
                Default::DType(""),
                "element type of the result; that of the data where void",
            ),
        ]
    };
}

const UPSAMPLING: &[AttrDef] = &[
    attr(
        "scale_h",
        AttrTy::Float,
        Default::Required,
        "factor along the height",
    ),
    attr(
        "scale_w",
        AttrTy::Float,
        Default::Required,
        "factor along the width",
    ),
    attr(
        "layout",
        AttrTy::Str,
        Default::Str("NCHW"),
        "layout of the data",
    ),
    attr(
        "method",
        AttrTy::Str,
        Default::Str("nearest_neighbor"),
        "`nearest_neighbor`, `bilinear` or `bicubic`",
    ),
    attr(
        "align_corners",
        AttrTy::Bool,
        Default::Bool(false),
        "whether the corners stay where they are",
    ),
];

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new("image.resize1d", "Resizes along one spatial axis.", |cx| {
        resize_rel(cx, 1)
    })
    .rounds_once_where(interpolates)
    .layout(super::layout_rules::image)
    .inputs(&[input("data", "(n, c, w) in its layout")])
    .attrs(resize_attrs!("NCW"))
    .fusion(Fusion::Injective)
    .compute(|te| resize(te, 1)),
    OpDef::new("image.resize2d", "Resizes along two spatial axes.", |cx| {
        resize_rel(cx, 2)
    })
    .rounds_once_where(interpolates)
    .layout(super::layout_rules::image)
    .cost(super::costs::interpolated)
    .former(&[Former::form("image.resize", 7, former::resize)])
    .in_relax(super::relax_rules::image)
    .inputs(&[input("data", "(n, c, h, w) in its layout")])
    .attrs(resize_attrs!("NCHW"))
    .fusion(Fusion::Injective)
    .compute(|te| resize(te, 2)),
    OpDef::new(
        "image.resize3d",
        "Resizes along three spatial axes.",
        |cx| resize_rel(cx, 3),
    )
    .rounds_once_where(interpolates)
    .layout(super::layout_rules::image)
    .former(&[Former::form("image.resize3d", 7, former::methods).hidden()])
    .inputs(&[input("data", "(n, c, d, h, w) in its layout")])
    .attrs(resize_attrs!("NCDHW"))
    .fusion(Fusion::Injective)
    .compute(|te| resize(te, 3)),
    OpDef::new("nn.upsampling", "Enlarges an image by factors.", |cx| {
        upsampling_rel(cx, &["scale_h", "scale_w"])
    })
    .layout(super::layout_rules::image)
    .cost(super::costs::repeated)
    .inputs(&[input("data", "(n, c, h, w) in its layout")])
    .attrs(UPSAMPLING)
    .fusion(Fusion::Injective)
    .compute(|te| upsampling(te, &["scale_h", "scale_w"])),
    OpDef::new("nn.upsampling3d", "Enlarges a volume by factors.", |cx| {
        upsampling_rel(cx, &["scale_d", "scale_h", "scale_w"])
    })
    .layout(super::layout_rules::image)
    .inputs(&[input("data", "(n, c, d, h, w) in its layout")])
    .attrs(&[
        attr(
            "scale_d",
            AttrTy::Float,
            Default::Required,
            "factor along the depth",
        ),
        attr(
            "scale_h",
            AttrTy::Float,
            Default::Required,
            "factor along the height",
        ),
        attr(
            "scale_w",
            AttrTy::Float,
            Default::Required,
            "factor along the width",
        ),
        attr(
            "layout",
            AttrTy::Str,
            Default::Str("NCDHW"),
            "layout of the data",
        ),
        attr(
            "method",
            AttrTy::Str,
            Default::Str("nearest_neighbor"),
            "`nearest_neighbor` or `trilinear`",
        ),
        attr(
            "coordinate_transformation_mode",
            AttrTy::Str,
            Default::Str("half_pixel"),
            "how an output index becomes an input coordinate",
        ),
    ])
    .fusion(Fusion::Injective)
    .compute(|te| upsampling(te, &["scale_d", "scale_h", "scale_w"])),
];

/// Returns the layout attribute, which must be convertible from NC and `n` spatial axes and of the
/// data's rank.
fn layout_of(cx: &RelCx<'_>, n: usize, rank: usize) -> RelResult<(Layout, Layout)> {
    let canonical = Layout::parse(&format!("NC{}", &"DHW"[3 - n..])).expect("a layout");
    let text = cx.attr("layout").as_str().unwrap_or("");
    match Layout::parse(text).filter(|l| l.convertible(&canonical)) {
        Some(l) if l.rank() == rank => Ok((l, canonical)),
        Some(l) => {
            let text = format!(
                "the layout asks for rank {}, the tensor has rank {rank}",
                l.rank()
            );
            cx.refuse(Subject::Arg(0), text)
        }
        None => {
            let message = format!("`layout=\"{text}\"` is no layout of NC{}", &"DHW"[3 - n..]);
            cx.refuse(Subject::Attr("layout"), message)
        }
    }
}

fn check_names(cx: &RelCx<'_>) -> RelResult {
    let text = cx.attr("method").as_str().unwrap_or("").to_owned();
    if Method::parse(&text).is_none() {
        let message = format!("`method=\"{text}\"` is none of nearest_neighbor, linear, cubic");
        return cx.refuse(Subject::Attr("method"), message);
    }
    let ways = [
        "",
        "round",
        "floor",
        "ceil",
        "round_prefer_floor",
        "round_prefer_ceil",
    ];
    super::util::word(cx, "rounding_method", &ways)?;
    if let Some(text) = cx.attr("coordinate_transformation_mode").as_str()
        && Coordinates::parse(text).is_none()
    {
        let message = format!(
            "`coordinate_transformation_mode=\"{text}\"` is none of half_pixel, align_corners, asymmetric, pytorch_half_pixel, tf_half_pixel_for_nn, tf_crop_and_resize"
        );
        return cx.refuse(Subject::Attr("coordinate_transformation_mode"), message);
    }
    Ok(())
}

fn resize_rel(cx: &mut RelCx<'_>, n: usize) -> RelResult {
    let (dims, dtype) = super::util::shaped(cx, 0)?;
    let dtype = cx.dtype("out_dtype").map_or(dtype, Into::into);
    check_names(cx)?;
    let Some(dims) = dims else {
        return cx.finish_unranked(dtype);
    };
    let (layout, canonical) = layout_of(cx, n, dims.len())?;
    let Some(size) = sizes(cx.attr("size"), n) else {
        let text = format!("`size` needs {n} extents");
        return cx.refuse(Subject::Attr("size"), text);
    };
    if size.iter().any(|s| s.as_const().is_some_and(|s| s < 1)) {
        return cx.refuse(Subject::Attr("size"), "`size` must be positive");
    }
    let roi = cx.attr("roi").as_array().map_or(0, <[AttrValue]>::len);
    if roi != 0 && roi != 2 * n {
        let text = format!("`roi` needs {} numbers, not {roi}", 2 * n);
        return cx.refuse(Subject::Attr("roi"), text);
    }
    let mut out = layout.convert_dims(&canonical, &dims);
    out[2..].clone_from_slice(&size);
    let out = canonical.convert_dims(&layout, &out);
    cx.set_tensor(out, dtype)
}

/// Returns the extents of a `size` attribute: integers or symbolic dimensions, `n` of them.
fn sizes(value: &AttrValue, n: usize) -> Option<Vec<Dim>> {
    let items = value.as_array().filter(|a| a.len() == n)?;
    items
        .iter()
        .map(|v| match v {
            AttrValue::Dim(d) => Some(d.clone()),
            other => other.as_int().map(Dim::from),
        })
        .collect()
}

/// Returns the region of axis `k` of `n`. Volumes list their corners as (x, y, z), images as (y,
/// x), as TVM reads them.
fn region(roi: &[f64], k: usize, n: usize) -> (f64, f64) {
    let at = if n == 3 { n - 1 - k } else { k };
    match (roi.get(at), roi.get(n + at)) {
        (Some(&a), Some(&b)) => (a, b),
        _ => (0.0, 0.0),
    }
}

/// Returns whether elements are computed: those of the nearest position are only chosen.
fn interpolates(attrs: &Attrs) -> bool {
    let method = attrs.get("method").and_then(AttrValue::as_str);
    method.and_then(Method::parse) != Some(Method::Nearest)
}

fn resize(te: &mut Te<'_>, n: usize) -> Result<(), ComputeError> {
    let x = te.arg(0);
    let layout = Layout::parse(te.str("layout")).ok_or("no such layout")?;
    let floats = |v: &AttrValue| -> Vec<f64> {
        v.as_array()
            .unwrap_or(&[])
            .iter()
            .filter_map(AttrValue::as_float)
            .collect()
    };
    let roi = floats(te.attr("roi"));
    let size = te
        .ints("size")
        .filter(|s| s.len() == n)
        .ok_or("`size` must be constant")?;
    let resample = Resample {
        boxes: None,
        method: Method::parse(te.str("method")).ok_or("no such method")?,
        coordinates: Coordinates::parse(te.str("coordinate_transformation_mode"))
            .ok_or("no such coordinate transformation")?,
        rounding: te.str("rounding_method"),
        cubic_alpha: te.float("cubic_alpha")?,
        cubic_exclude: te.flag("cubic_exclude"),
        extrapolation: te.float("extrapolation_value")?,
        roi: (0..n).map(|k| region(&roi, k, n)).collect(),
        out_dtype: te.out(0).dtype,
    };
    let target: Vec<Ex> = size.into_iter().map(Ex::idx).collect();
    let y = resample.stage(te, &x, &layout, &target)?;
    te.output(&y);
    Ok(())
}

/// Multiplies a known extent by a factor, rounded half away from zero.
fn times(extent: i64, factor: f64) -> i64 {
    (extent as f64 * factor).round() as i64
}

/// Returns the integer value of a factor that symbolic extents can be multiplied by directly.
fn whole(factor: f64) -> Option<i64> {
    (factor.fract() == 0.0 && factor < 1e9).then_some(factor as i64)
}

fn upsampling_rel(cx: &mut RelCx<'_>, scales: &[&'static str]) -> RelResult {
    let (dims, dtype) = cx.ranked(0)?;
    let n = scales.len();
    let (layout, canonical) = layout_of(cx, n, dims.len())?;
    check_names(cx)?;
    let mut out = layout.convert_dims(&canonical, &dims);
    for (k, scale) in scales.iter().enumerate() {
        let factor = cx
            .attr(scale)
            .as_float()
            .filter(|f| f.is_finite() && *f > 0.0);
        let Some(factor) = factor else {
            return cx.refuse(
                Subject::Attr(scale),
                format!("`{scale}` must be a positive number"),
            );
        };
        out[2 + k] = match out[2 + k].as_const() {
            Some(d) => Dim::from(times(d, factor)),
            None => whole(factor).map_or(Dim::ANY, |f| &out[2 + k] * &Dim::from(f)),
        };
    }
    let out = canonical.convert_dims(&layout, &out);
    cx.set_tensor(out, dtype)
}

/// Like [`times`] for any extent: in integer arithmetic where both are exact, since extents in
/// texts of tensor programs are integers.
fn scaled(extent: &Ex, factor: f64) -> Ex {
    const PARTS: f64 = 4096.0;
    if let Some(d) = extent.as_int() {
        return Ex::idx(times(d, factor));
    }
    if let Some(factor) = whole(factor) {
        return extent * factor;
    }
    if (factor * PARTS).fract() == 0.0 && factor < 1e6 {
        let twice = extent * (2 * (factor * PARTS) as i64) + PARTS as i64;
        return twice.floor_div(2 * PARTS as i64);
    }
    let scaled = extent.cast(DType::F64) * Ex::float(DType::F64, factor);
    scaled.unary(UnOp::Round).cast(DType::I64)
}

fn upsampling(te: &mut Te<'_>, scales: &[&str]) -> Result<(), ComputeError> {
    let x = te.arg(0);
    let n = scales.len();
    let layout = Layout::parse(te.str("layout")).ok_or("no such layout")?;
    let canonical = Layout::parse(&format!("NC{}", &"DHW"[3 - n..])).expect("a layout");
    let dims = layout.convert_extents(&canonical, &x.shape);
    let mut target = Vec::new();
    for (k, scale) in scales.iter().enumerate() {
        let factor = te.float(scale)?;
        target.push(scaled(&dims[2 + k], factor));
    }
    let mode = match te.attr("coordinate_transformation_mode").as_str() {
        Some(text) => Coordinates::parse(text).ok_or("no such coordinate transformation")?,
        None if te.flag("align_corners") => Coordinates::AlignCorners,
        None => Coordinates::Asymmetric,
    };
    let resample = Resample {
        boxes: None,
        method: Method::parse(te.str("method")).ok_or("no such method")?,
        coordinates: mode,
        rounding: "",
        cubic_alpha: -0.5,
        cubic_exclude: false,
        extrapolation: 0.0,
        roi: vec![(0.0, 0.0); n],
        out_dtype: te.out(0).dtype,
    };
    let y = resample.stage(te, &x, &layout, &target)?;
    te.output(&y);
    Ok(())
}
