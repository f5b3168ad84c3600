//! Transposed convolutions: each input element spreads over a window of the output.

use relax_loops::{Combiner, Ex, Hint, TensorRef};
use relax_sym::Dim;

use super::conv_attrs;
use super::nn_conv::{
    Layouts, at_canonical, canonical_arg, declared_channels, declared_window, numbers, padding_of,
    pairs, reach, require_weight, steps, taps_of_weight, weight_of,
};
use super::util::need_multiple;
use crate::{
    AttrDef, AttrTy, ComputeError, DTy, Default, Former, Fusion, OpDef, RelCx, RelResult, Stop,
    Subject, Te, attr, former, input,
};

macro_rules! transpose_attrs {
    ($ones:expr, $zeros:expr, $data:expr, $kernel:expr) => {
        &[
            conv_attrs::CHANNELS,
            conv_attrs::KERNEL_SIZE,
            attr(
                "strides",
                AttrTy::Ints,
                Default::Ints($ones),
                "distance that neighbouring inputs get in the output",
            ),
            attr(
                "output_padding",
                AttrTy::Ints,
                Default::Ints($zeros),
                "added to the output's extents at the end",
            ),
            attr(
                "padding",
                AttrTy::Ints,
                Default::Ints($zeros),
                "taken off the output before and after each spatial axis",
            ),
            conv_attrs::dilation($ones),
            conv_attrs::GROUPS,
            conv_attrs::data_layout($data),
            conv_attrs::kernel_layout($kernel),
            conv_attrs::OUT_LAYOUT,
            conv_attrs::OUT_DTYPE,
        ]
    };
}

/// Attributes of the 2-D form, shared with its quantised form.
pub(super) const CONV2D_TRANSPOSE_ATTRS: &[AttrDef] =
    transpose_attrs!(&[1, 1], &[0, 0], "NCHW", "IOHW");

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "nn.conv1d_transpose",
        "Transposed convolution over one spatial axis.",
        |cx| rel(cx, 1),
    )
    .narrow_precision()
    .result_dtype("out_dtype")
    .layout(super::layout_rules::transposed_convolution)
    .in_relax(super::relax_rules::one_type_unless_given)
    .inputs(&[
        input("data", "(n, c, w) in its layout"),
        input("weight", "(i, o, kw) in its layout"),
    ])
    .former(&[Former::form(
        "nn.conv1d_transpose",
        11,
        former::swap_letters,
    )])
    .attrs(transpose_attrs!(&[1], &[0], "NCW", "IOW"))
    .fusion(Fusion::OutElementwise)
    .compute(|te| compute(te, 1)),
    OpDef::new(
        "nn.conv2d_transpose",
        "Transposed convolution over two spatial axes.",
        |cx| rel(cx, 2),
    )
    .narrow_precision()
    .result_dtype("out_dtype")
    .layout(super::layout_rules::transposed_convolution)
    .in_relax(super::relax_rules::one_type_unless_given)
    .cost(super::costs::conv2d_transpose)
    .inputs(&[
        input("data", "(n, c, h, w) in its layout"),
        input("weight", "(i, o, kh, kw) in its layout"),
    ])
    .former(&[Former::form(
        "nn.conv2d_transpose",
        11,
        former::transposed_2d,
    )])
    .attrs(CONV2D_TRANSPOSE_ATTRS)
    .fusion(Fusion::OutElementwise)
    .compute(|te| compute(te, 2)),
    OpDef::new(
        "nn.conv3d_transpose",
        "Transposed convolution over three spatial axes.",
        |cx| rel(cx, 3),
    )
    .narrow_precision()
    .result_dtype("out_dtype")
    .layout(super::layout_rules::transposed_convolution)
    .in_relax(super::relax_rules::one_type_unless_given)
    .inputs(&[
        input("data", "(n, c, d, h, w) in its layout"),
        input("weight", "(i, o, kd, kh, kw) in its layout"),
    ])
    .former(&[Former::form(
        "nn.conv3d_transpose",
        11,
        former::swap_letters,
    )])
    .attrs(transpose_attrs!(&[1, 1, 1], &[0, 0, 0], "NCDHW", "IODHW"))
    .fusion(Fusion::OutElementwise)
    .compute(|te| compute(te, 3)),
];

fn rel(cx: &mut RelCx<'_>, n: usize) -> RelResult {
    let (out, dtype) = transpose_result(cx, n)?;
    cx.set_tensor(out, dtype)
}

/// The result of a transposed convolution; unifies the weight's type where the attributes tell it.
pub(super) fn transpose_result(cx: &mut RelCx<'_>, n: usize) -> RelResult<(Vec<Dim>, DTy)> {
    let l = Layouts::of_rel(cx, n, "IO")?;
    let (data, dtype) = canonical_arg(cx, 0, &l.data, &l.canonical)?;
    let groups = cx.int("groups")?;
    if groups < 1 {
        return cx.refuse(
            Subject::Attr("groups"),
            format!("`groups` must be at least 1, not {groups}"),
        );
    }
    let rule = "the data's channels, which `groups` divides,";
    need_multiple(cx, &data[1], groups, Subject::Attr("groups"), rule)?;
    let count = groups;
    let groups = Dim::from(groups);
    let (strides, dilation) = (steps(cx, "strides", n, 1)?, steps(cx, "dilation", n, 1)?);
    // TVM reads as many numbers as there are axes, and lets further ones be.
    let extra = cx.ints("output_padding")?.unwrap_or_default();
    if extra.len() < n || extra.iter().any(|&e| e < 0) {
        let text = format!("`output_padding={extra:?}` needs {n} numbers, none negative");
        return cx.refuse(Subject::Attr("output_padding"), text);
    }
    if let Some(k) = (0..n).find(|&k| extra[k] >= strides[k].max(dilation[k])) {
        let text = format!(
            "`output_padding` must be less than the stride (or the dilation), but {} is not less than {}",
            extra[k],
            strides[k].max(dilation[k])
        );
        return cx.refuse(Subject::Attr("output_padding"), text);
    }
    let padding = padding_of(cx, n)?;
    let weight = weight_of(cx, &l)?;
    let (channels, taps) = match declared_window(cx, n)? {
        Some((channels, taps)) => {
            let head = [data[1].clone(), channels.floordiv(&groups)];
            require_weight(cx, &l, head, &taps, weight.map_or(dtype, |w| w.1))?;
            (channels, taps)
        }
        None => {
            let Some((w, _)) = weight else {
                return Err(Stop::Wait);
            };
            let taps = taps_of_weight(cx, &w, n)?;
            let channels = declared_channels(cx);
            if let Some(c) = &channels {
                let what = "`channels` divided by `groups` must be the weight's output channels";
                cx.require_eq(&w[1], &c.floordiv(&groups), Subject::Attr("channels"), what)?;
            }
            if !(data[1].is_any() || w[0].is_any()) {
                let what = "the weight's input channels must be the data's";
                cx.require_eq(&w[0], &data[1], Subject::Arg(1), what)?;
            }
            (channels.unwrap_or_else(|| &w[1] * &groups), taps)
        }
    };
    let rule = "the result's channels, which `groups` divides,";
    need_multiple(cx, &channels, count, Subject::Attr("groups"), rule)?;
    let mut out = vec![data[0].clone(), channels];
    for i in 0..n {
        let size = &data[2 + i];
        if size.is_any() {
            out.push(Dim::ANY);
            continue;
        }
        let spread = (size - &Dim::ONE) * Dim::from(strides[i]) + reach(&taps[i], dilation[i]);
        let cut = padding[i]
            .0
            .saturating_add(padding[i].1)
            .saturating_sub(extra[i]);
        let extent = spread - Dim::from(cut);
        if extent.as_const().is_some_and(|e| e < 0) {
            return cx.refuse(
                Subject::Attr("padding"),
                "`padding` takes more off than the result has",
            );
        }
        out.push(extent);
    }
    let out = l.canonical.convert_dims(&l.out, &out);
    Ok((out, cx.dtype("out_dtype").map_or(dtype, Into::into)))
}

fn compute(te: &mut Te<'_>, n: usize) -> Result<(), ComputeError> {
    let l = Layouts::of_te(te, n, "IO")?;
    let (x, w) = (te.arg(0), te.arg(1));
    let y = transpose_stage(te, n, &l, &x, &w)?;
    te.output(&y);
    Ok(())
}

/// The transposed convolution of `x` with `w` as a stage; the result is in the output layout.
pub(super) fn transpose_stage(
    te: &mut Te<'_>,
    n: usize,
    l: &Layouts,
    x: &TensorRef,
    w: &TensorRef,
) -> Result<TensorRef, ComputeError> {
    let dtype = te.out(0).dtype;
    let groups = te.int("groups")?;
    let (strides, dilation) = (numbers(te, "strides", n), numbers(te, "dilation", n));
    let extra = numbers(te, "output_padding", n);
    let padding =
        pairs(&te.ints("padding").unwrap_or_default(), n).ok_or("`padding` has a wrong length")?;
    let data = l.data.convert_extents(&l.canonical, &x.shape);
    let weight = l.kernel.convert_extents(&l.canonical_kernel, &w.shape);
    let mut shape = vec![data[0].clone(), &weight[1] * groups];
    for i in 0..n {
        let reach = (&weight[2 + i] - 1) * dilation[i] + 1;
        let cut = padding[i].0 + padding[i].1 - extra[i];
        shape.push((&data[2 + i] - 1) * strides[i] + reach - cut);
    }
    let shape = l.canonical.convert_extents(&l.out, &shape);
    let per_group = data[1].floor_div(groups);
    // The input with its elements `stride` apart and zeros around them: what is left is a plain sum of products.
    let reach: Vec<Ex> = (0..n).map(|k| (&weight[2 + k] - 1) * dilation[k]).collect();
    let canonical = l.out.convert_extents(&l.canonical, &shape);
    let mut wide = vec![data[0].clone(), data[1].clone()];
    for k in 0..n {
        wide.push(&canonical[2 + k] + &reach[k]);
    }
    let spread = te.compute("spread", &wide, |i| {
        let mut x_at = i[..2].to_vec();
        let mut hits = Ex::bool(true);
        for k in 0..n {
            let from = &i[2 + k] + padding[k].0 - &reach[k];
            let input = from.floor_div(strides[k]);
            hits = hits & from.ge(0i64) & input.lt(&data[2 + k]);
            if strides[k] > 1 {
                hits = hits & from.floor_mod(strides[k]).eq(0i64);
            }
            x_at.push(input);
        }
        let xe = at_canonical(x, &l.data, &l.canonical, &x_at);
        Ex::where_(&hits, &xe, &xe.same(0.0))
    });
    let mut over = vec![per_group.clone()];
    over.extend(weight[2..].iter().cloned());
    let y = te.reduce("conv_transpose", &shape, &over, Combiner::Sum, |i, r| {
        let at = l.canonical.index_from(&l.out, i);
        let group = if groups == 1 {
            Ex::idx(0)
        } else {
            at[1].floor_div(&weight[1])
        };
        let channel = group * &per_group + &r[0];
        let column = if groups == 1 {
            at[1].clone()
        } else {
            at[1].floor_mod(&weight[1])
        };
        let (mut x_at, mut w_at) = (vec![at[0].clone(), channel.clone()], vec![channel, column]);
        for k in 0..n {
            // Output y comes from input i by tap t where i * stride + t * dilation = y + pad.
            x_at.push(&at[2 + k] + &reach[k] - &r[1 + k] * dilation[k]);
            w_at.push(r[1 + k].clone());
        }
        let we = at_canonical(w, &l.kernel, &l.canonical_kernel, &w_at).cast(dtype);
        spread.at(&x_at).cast(dtype) * we
    });
    if n == 2 && l.tuned_transpose() {
        let hint = Hint::Conv2dTranspose {
            data: x.buf,
            weight: w.buf,
            strides: [strides[0], strides[1]],
            padding: [padding[0].0, padding[1].0],
            dilation: [dilation[0], dilation[1]],
            groups,
        };
        te.program.hints.push((y.buf, hint));
    }
    Ok(y)
}
