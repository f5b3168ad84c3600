//! Fourier transforms and the windows they slide over.

use crate::AttrTy::*;
use crate::{Default, OpDef, attr, input};

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

fn dft(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn sliding_window(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn stft(_: &mut crate::RelCx<'_>) -> crate::RelResult {
    Err(crate::Stop::Wait)
}

fn dft_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn sliding_window_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}

fn stft_compute(_: &mut crate::Te<'_>) -> Result<(), crate::ComputeError> {
    Err("not written yet".into())
}
