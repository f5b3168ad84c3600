//! Padding and resizing by amounts that tensors hold.

use crate::AttrTy::*;
use crate::{Default, Fusion, OpDef, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "dyn.nn.pad",
        "The input with each axis lengthened at both ends.",
        dyn_pad,
    )
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

fn dyn_pad(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn dyn_resize2d(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn dyn_upsampling(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn dyn_upsampling3d(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn dyn_pad_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn dyn_resize2d_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn dyn_upsampling3d_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn dyn_upsampling_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}
