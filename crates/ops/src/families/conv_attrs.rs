//! Attributes that all kinds of convolutions have in common.

use crate::{AttrDef, AttrTy, Default, attr};

/// Steps of the window.
pub(super) const fn strides(default: &'static [i64]) -> AttrDef {
    let doc = "steps along the spatial axes";
    attr("strides", AttrTy::Ints, Default::Ints(default), doc)
}

/// Zeros around the data.
pub(super) const fn padding(default: &'static [i64]) -> AttrDef {
    let doc = "zeros before and after each spatial axis";
    attr("padding", AttrTy::Ints, Default::Ints(default), doc)
}

/// The distance of taps.
pub(super) const fn dilation(default: &'static [i64]) -> AttrDef {
    let doc = "distance of taps along the spatial axes";
    attr("dilation", AttrTy::Ints, Default::Ints(default), doc)
}

/// The data's layout.
pub(super) const fn data_layout(default: &'static str) -> AttrDef {
    let doc = "layout of the data";
    attr("data_layout", AttrTy::Str, Default::Str(default), doc)
}

/// The weight's layout.
pub(super) const fn kernel_layout(default: &'static str) -> AttrDef {
    let doc = "layout of the weight";
    attr("kernel_layout", AttrTy::Str, Default::Str(default), doc)
}

/// Groups of channels.
pub(super) const GROUPS: AttrDef = attr(
    "groups",
    AttrTy::Int,
    Default::Int(1),
    "groups of channels that are convolved apart",
);

/// Channels of the result.
pub(super) const CHANNELS: AttrDef = attr(
    "channels",
    AttrTy::Int,
    Default::None,
    "number of output channels",
);

/// Extents of the window.
pub(super) const KERNEL_SIZE: AttrDef = attr(
    "kernel_size",
    AttrTy::Ints,
    Default::None,
    "spatial extents of the weight",
);

/// The result's layout.
pub(super) const OUT_LAYOUT: AttrDef = attr(
    "out_layout",
    AttrTy::Str,
    Default::Str(""),
    "layout of the result; that of the data where empty",
);

/// The result's element type.
pub(super) const OUT_DTYPE: AttrDef = attr(
    "out_dtype",
    AttrTy::DType,
    Default::DType(""),
    "element type of the result; that of the data where void",
);
