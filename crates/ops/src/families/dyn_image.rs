//! Padding and resizing by amounts that are operands.

use relax_loops::{Ex, UnOp};
use relax_sym::Dim;
use relax_tensor::DType as DT;

use super::resample::{Coordinates, Method, Resample};
use super::util::{anys, dtype_or, finish, need_eq, need_scalar, shaped, word};
use super::util_te::Done;
use crate::AttrTy::*;
use crate::{
    Default, Former, Fusion, Layout, OpDef, RelCx, RelResult, Subject, Te, attr, former, input,
};

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "dyn.nn.pad",
        "The input with each axis lengthened at both ends.",
        dyn_pad,
    )
    .static_form("nn.pad")
    .former(&[Former::form("dyn.nn.pad", 7, former::pad_value)])
    .inputs(&[
        input("data", "the input"),
        input(
            "pad_width",
            "how much before and after, a row for each axis",
        ),
        input("pad_val", "the value there, a scalar"),
    ])
    .attrs(&[
        attr("pad_width", IntLists, Default::Required, "not used"),
        attr(
            "pad_mode",
            Str,
            Default::Str("constant"),
            "`constant`, `edge` or `reflect`",
        ),
    ])
    .fusion(Fusion::Injective)
    .data_dependent()
    .compute(dyn_pad_compute),
    OpDef::new(
        "dyn.nn.upsampling",
        "An image enlarged by factors that tensors hold.",
        dyn_upsampling,
    )
    .static_form("nn.upsampling")
    .inputs(&[
        input("data", "the images"),
        input("scale_h", "the factor of the height, a scalar"),
        input("scale_w", "the factor of the width, a scalar"),
    ])
    .attrs(&[
        attr("scale_h", Float, Default::Required, "not used"),
        attr("scale_w", Float, Default::Required, "not used"),
        attr("layout", Str, Default::Str("NCHW"), "the layout"),
        attr(
            "method",
            Str,
            Default::Str("nearest_neighbor"),
            "`nearest_neighbor`, `bilinear` or `bicubic`",
        ),
        attr(
            "align_corners",
            Bool,
            Default::Bool(false),
            "whether the corners stay where they are",
        ),
    ])
    .fusion(Fusion::Injective)
    .data_dependent()
    .compute(dyn_upsampling_compute),
    OpDef::new(
        "dyn.nn.upsampling3d",
        "A volume enlarged by factors that tensors hold.",
        dyn_upsampling3d,
    )
    .static_form("nn.upsampling3d")
    .inputs(&[
        input("data", "the volumes"),
        input("scale_d", "the factor of the depth, a scalar"),
        input("scale_h", "the factor of the height, a scalar"),
        input("scale_w", "the factor of the width, a scalar"),
    ])
    .attrs(&[
        attr("scale_d", Float, Default::Required, "not used"),
        attr("scale_h", Float, Default::Required, "not used"),
        attr("scale_w", Float, Default::Required, "not used"),
        attr("layout", Str, Default::Str("NCDHW"), "the layout"),
        attr(
            "method",
            Str,
            Default::Str("nearest_neighbor"),
            "`nearest_neighbor` or `trilinear`",
        ),
        attr(
            "coordinate_transformation_mode",
            Str,
            Default::Str("half_pixel"),
            "how coordinates correspond",
        ),
    ])
    .fusion(Fusion::Injective)
    .data_dependent()
    .compute(dyn_upsampling3d_compute),
    OpDef::new(
        "dyn.image.resize2d",
        "Images resized to a height and width that a tensor holds.",
        dyn_resize2d,
    )
    .static_form("image.resize2d")
    .former(&[Former::form("dyn.image.resize", 7, former::dyn_resize)])
    .inputs(&[
        input("data", "the images"),
        input("size", "height and width"),
        input("roi", "the region of interest"),
    ])
    .attrs(&[
        attr("size", Dims, Default::None, "not used"),
        attr("roi", Floats, Default::None, "not used"),
        attr("layout", Str, Default::Str("NCHW"), "the layout"),
        attr(
            "method",
            Str,
            Default::Str("linear"),
            "`nearest_neighbor`, `linear` or `cubic`",
        ),
        attr(
            "coordinate_transformation_mode",
            Str,
            Default::Str("half_pixel"),
            "how coordinates correspond",
        ),
        attr(
            "rounding_method",
            Str,
            Default::Str("round"),
            "how coordinates are rounded",
        ),
        attr(
            "cubic_alpha",
            Float,
            Default::Float(-0.5),
            "the parameter of cubic interpolation",
        ),
        attr(
            "cubic_exclude",
            Int,
            Default::Int(0),
            "whether pixels outside are left out",
        ),
        attr(
            "extrapolation_value",
            Float,
            Default::Float(0.0),
            "the value outside",
        ),
        attr(
            "out_dtype",
            DType,
            Default::DType(""),
            "the element type of the output",
        ),
    ])
    .fusion(Fusion::Injective)
    .data_dependent()
    .compute(dyn_resize2d_compute),
];

fn dyn_pad(cx: &mut RelCx<'_>) -> RelResult {
    word(cx, "pad_mode", &["constant", "edge", "reflect"])?;
    let (dims, dtype) = shaped(cx, 0)?;
    need_scalar(cx, 2, "the value to pad with")?;
    let (widths, _) = shaped(cx, 1)?;
    if let Some(w) = &widths
        && w.len() != 2
    {
        let rank = w.len();
        return cx.refuse(
            Subject::Arg(1),
            format!("the pad widths must be a matrix, a row for each axis, but have rank {rank}"),
        );
    }
    let Some(dims) = dims else {
        return cx.finish_unranked(dtype);
    };
    if dims.is_empty() {
        return cx.refuse(Subject::Arg(0), "a scalar cannot be padded: it has no axis");
    }
    let rank = dims.len() as i64;
    match widths.as_ref().map(|w| (w[0].as_const(), &w[0])) {
        Some((Some(n), _)) if n != rank => {
            return cx.refuse(
                Subject::Arg(1),
                format!("there are pad widths for {n} axes, but the tensor has rank {rank}"),
            );
        }
        Some((None, n)) => {
            let rule = "there is a pair of pad widths for each axis";
            cx.host
                .check_at_run_time(n, crate::Fit::Equal, &Dim::from(rank), rule);
        }
        _ => {}
    }
    finish(cx, anys(dims.len()), dtype)
}

fn dyn_pad_compute(te: &mut Te<'_>) -> Done {
    let [x, widths, value] = [0, 1, 2].map(|k| te.arg(k));
    let width = |a: usize, end: i64| widths.at(&[Ex::idx(a as i64), Ex::idx(end)]).cast(DT::I64);
    let shape: Vec<Ex> = (0..x.rank())
        .map(|a| &x.shape[a] + width(a, 0) + width(a, 1))
        .collect();
    let mode = te.str("pad_mode");
    let y = te.compute("pad", &shape, |i| {
        let mut inside = Ex::bool(true);
        let at: Vec<Ex> = (0..x.rank())
            .map(|a| {
                let (at, n) = (&i[a] - width(a, 0), &x.shape[a]);
                match mode {
                    "edge" => at.min(n - 1).max(0i64),
                    "reflect" => {
                        let high = Ex::where_(&at.ge(n), &(n * 2 - &at - 2), &at);
                        Ex::where_(&at.lt(0i64), &-&at, &high)
                    }
                    _ => {
                        let here = at.ge(0i64) & at.lt(n);
                        inside = if inside.as_int() == Some(1) {
                            here
                        } else {
                            &inside & here
                        };
                        at
                    }
                }
            })
            .collect();
        Ex::where_(&inside, &x.at(&at), &value.scalar().cast(x.dtype))
    });
    te.output(&y);
    Ok(())
}

/// Parses a layout of images or volumes: returns it, and the one with all spatial axes last.
fn layouts(text: &str, n: usize) -> Option<(Layout, Layout)> {
    let canonical = Layout::parse(&format!("NC{}", &"DHW"[3 - n..]))?;
    let layout = Layout::parse(text).filter(|l| l.convertible(&canonical))?;
    Some((layout, canonical))
}

/// Returns the input's extents with all spatial ones unknown.
fn spatial(cx: &mut RelCx<'_>, n: usize, out: relax_ir::DTy) -> RelResult {
    let text = cx.attr("layout").as_str().unwrap_or("").to_owned();
    let Some((layout, canonical)) = layouts(&text, n) else {
        return cx.refuse(
            Subject::Attr("layout"),
            format!("`layout=\"{text}\"` is no layout with {n} spatial axes"),
        );
    };
    let Some(dims) = shaped(cx, 0)?.0 else {
        return cx.finish_unranked(out);
    };
    if dims.len() != layout.rank() {
        let rank = dims.len();
        return cx.refuse(
            Subject::Arg(0),
            format!("the layout {text} does not fit a tensor of rank {rank}"),
        );
    }
    let mut all = layout.convert_dims(&canonical, &dims);
    all[2..].fill(Dim::ANY);
    let all = canonical.convert_dims(&layout, &all);
    finish(cx, all, out)
}

fn scaled(cx: &mut RelCx<'_>, n: usize) -> RelResult {
    for i in 1..=n {
        need_scalar(cx, i, "the factor")?;
    }
    let (_, dtype) = shaped(cx, 0)?;
    spatial(cx, n, dtype)
}

fn dyn_upsampling(cx: &mut RelCx<'_>) -> RelResult {
    scaled(cx, 2)
}
fn dyn_upsampling3d(cx: &mut RelCx<'_>) -> RelResult {
    scaled(cx, 3)
}

fn dyn_resize2d(cx: &mut RelCx<'_>) -> RelResult {
    let (_, dtype) = shaped(cx, 0)?;
    let out = dtype_or(cx, "out_dtype", dtype);
    if let Some(size) = shaped(cx, 1)?.0 {
        let rule = "the size has a height and a width";
        match &size[..] {
            [n] => need_eq(cx, n, &2.into(), Subject::Arg(1), rule)?,
            _ => {
                let rank = size.len();
                let message = format!("{rule}: a vector of two, but this has rank {rank}");
                return cx.refuse(Subject::Arg(1), message);
            }
        }
    }
    spatial(cx, 2, out)
}

fn upsampled(te: &mut Te<'_>, n: usize) -> Done {
    let x = te.arg(0);
    let (layout, canonical) = layouts(te.str("layout"), n).ok_or("no such layout")?;
    let dims = layout.convert_extents(&canonical, &x.shape);
    let target: Vec<Ex> = (0..n)
        .map(|k| {
            let long = dims[2 + k].cast(DT::F32) * te.arg(1 + k).scalar().cast(DT::F32);
            long.unary(UnOp::Round).cast(DT::I64)
        })
        .collect();
    let coordinates = match te.attr("coordinate_transformation_mode").as_str() {
        Some(text) => Coordinates::parse(text).ok_or("no such coordinate transformation")?,
        None if te.flag("align_corners") => Coordinates::AlignCorners,
        None => Coordinates::Asymmetric,
    };
    let resample = Resample {
        boxes: None,
        method: Method::parse(te.str("method")).ok_or("no such method")?,
        coordinates,
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

fn dyn_upsampling_compute(te: &mut Te<'_>) -> Done {
    upsampled(te, 2)
}
fn dyn_upsampling3d_compute(te: &mut Te<'_>) -> Done {
    upsampled(te, 3)
}

fn dyn_resize2d_compute(te: &mut Te<'_>) -> Done {
    let (x, size) = (te.arg(0), te.arg(1));
    if size.rank() != 1 {
        return Err("the size is no vector".into());
    }
    let (layout, _) = layouts(te.str("layout"), 2).ok_or("no such layout")?;
    let coordinates = Coordinates::parse(te.str("coordinate_transformation_mode"))
        .ok_or("no such coordinate transformation")?;
    // A region is needed only for cropping, and must be constant in that case.
    let mut roi = vec![(0.0, 0.0); 2];
    if coordinates == Coordinates::TfCrop {
        let region = te.const_arg(2).filter(|t| t.len() == 4);
        let region = region.ok_or("cropping to a region that is no constant is not supported")?;
        roi = (0..2)
            .map(|k| (region.get_f64(k), region.get_f64(2 + k)))
            .collect();
    }
    let resample = Resample {
        boxes: None,
        method: Method::parse(te.str("method")).ok_or("no such method")?,
        coordinates,
        rounding: te.str("rounding_method"),
        cubic_alpha: te.float("cubic_alpha")?,
        cubic_exclude: te.flag("cubic_exclude"),
        extrapolation: te.float("extrapolation_value")?,
        roi,
        out_dtype: te.out(0).dtype,
    };
    let target = [0, 1].map(|k| size.at(&[Ex::idx(k)]).cast(DT::I64));
    let y = resample.stage(te, &x, &layout, &target)?;
    te.output(&y);
    Ok(())
}
