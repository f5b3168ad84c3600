//! Convolutions over one, two and three spatial axes, in any layout.

use relax_loops::{Combiner, Ex, Hint, TensorRef};
use relax_sym::Dim;

use super::conv_attrs;
pub(super) use super::conv_forms::{
    Layouts, Pairs, canonical_arg, padding_of, pairs, per_axis, reach, spatial, steps,
};
use super::nn_conv_live::{Live, live_conv};
use super::util_te::wide;
use crate::{
    AttrDef, ComputeError, DTy, Former, Fusion, Layout, OpDef, RelCx, RelResult, Stop, Subject, Te,
    input,
};

macro_rules! conv_attrs {
    ($strides:expr, $padding:expr, $dilation:expr, $data:expr, $kernel:expr) => {
        &[
            conv_attrs::strides($strides),
            conv_attrs::padding($padding),
            conv_attrs::dilation($dilation),
            conv_attrs::GROUPS,
            conv_attrs::CHANNELS,
            conv_attrs::KERNEL_SIZE,
            conv_attrs::data_layout($data),
            conv_attrs::kernel_layout($kernel),
            conv_attrs::OUT_LAYOUT,
            conv_attrs::OUT_DTYPE,
        ]
    };
}

/// The attributes of 1-D convolutions, shared with their quantised form.
pub(super) const CONV1D_ATTRS: &[AttrDef] = conv_attrs!(&[1], &[0, 0], &[1], "NCW", "OIW");

/// The attributes of 2-D convolutions, shared with their quantised and packed forms.
pub(super) const CONV2D_ATTRS: &[AttrDef] = conv_attrs!(&[1, 1], &[0, 0], &[1, 1], "NCHW", "OIHW");

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new("nn.conv1d", "Convolution over one spatial axis.", |cx| {
        conv_rel(cx, 1)
    })
    .for_kernels(|b, site| live_conv(b, site, "nn.conv1d", 1))
    .narrow_precision()
    .rounds_once()
    .result_dtype("out_dtype")
    .scale(crate::ScaleRole::Contraction(
        super::scale_rules::convolution,
    ))
    .layout(super::layout_rules::convolution)
    .affine_product(super::affine_rules::conv1d)
    .hinted(super::hinted_windows::conv1d)
    .inputs(&[
        input("data", "(n, c, w) in its layout"),
        input("weight", "(o, i, kw) in its layout"),
    ])
    .attrs(CONV1D_ATTRS)
    .fusion(Fusion::OutElementwise)
    .compute(|te| conv(te, 1)),
    OpDef::new("nn.conv2d", "Convolution over two spatial axes.", |cx| {
        conv_rel(cx, 2)
    })
    .gradient(super::gradients::conv2d)
    .for_kernels(|b, site| live_conv(b, site, "nn.conv2d", 2))
    .narrow_precision()
    .rounds_once()
    .result_dtype("out_dtype")
    .scale(crate::ScaleRole::Contraction(
        super::scale_rules::convolution,
    ))
    .layout(super::layout_rules::convolution)
    .cost(super::costs::conv2d)
    .affine_product(super::affine_rules::conv2d)
    .hinted(super::hinted_windows::conv2d)
    .inputs(&[
        input("data", "(n, c, h, w) in its layout"),
        input("weight", "(o, i, kh, kw) in its layout"),
    ])
    .attrs(CONV2D_ATTRS)
    .fusion(Fusion::OutElementwise)
    .compute(|te| conv(te, 2)),
    OpDef::new("nn.conv3d", "Convolution over three spatial axes.", |cx| {
        conv_rel(cx, 3)
    })
    .for_kernels(super::nn_conv_planes::of_volume)
    .affine_product(super::affine_rules::conv3d)
    .hinted(super::hinted_windows::conv3d)
    .narrow_precision()
    .rounds_once()
    .result_dtype("out_dtype")
    .scale(crate::ScaleRole::Contraction(
        super::scale_rules::convolution,
    ))
    .layout(super::layout_rules::convolution)
    .inputs(&[
        input("data", "(n, c, d, h, w) in its layout"),
        input("weight", "(o, i, kd, kh, kw) in its layout"),
    ])
    .attrs(conv_attrs!(
        &[1, 1, 1],
        &[0, 0, 0],
        &[1, 1, 1],
        "NCDHW",
        "OIDHW"
    ))
    .fusion(Fusion::OutElementwise)
    .compute(|te| conv(te, 3)),
    OpDef::new(
        "nn.contrib_conv2d_NCHWc",
        "2-D convolution on channels packed in blocks.",
        packed_rel,
    )
    .former(&[Former::name("nn.contrib_conv2d_NCHWc_int8", 6)])
    .result_dtype("out_dtype")
    .inputs(&[
        input("data", "(n, c / b, h, w, b)"),
        input("weight", "(o / b, i / b, kh, kw, b, b)"),
    ])
    .attrs(CONV2D_ATTRS)
    .fusion(Fusion::OutElementwise)
    .compute(|te| conv(te, 2)),
    OpDef::new(
        "nn.contrib_depthwise_conv2d_NCHWc",
        "Depthwise 2-D convolution on packed channels.",
        |cx| conv_rel(cx, 2),
    )
    .result_dtype("out_dtype")
    .inputs(&[
        input("data", "(n, c / b, h, w, b)"),
        input("weight", "(c / b, 1, kh, kw, 1, b)"),
    ])
    .attrs(CONV2D_ATTRS)
    .fusion(Fusion::OutElementwise)
    .compute(|te| conv(te, 2)),
];

fn conv_rel(cx: &mut RelCx<'_>, n: usize) -> RelResult {
    let (out, dtype) = conv_result(cx, n, None)?;
    cx.set_tensor(out, dtype)
}

/// Packed forms accept a weight of any shape when the attributes determine the result, as TVM does.
fn packed_rel(cx: &mut RelCx<'_>) -> RelResult {
    if cx.attr("kernel_size").is_none() || cx.attr("channels").is_none() {
        return conv_rel(cx, 2);
    }
    // The weight may be packed in ways that its layout does not show; where it is not, it must fit.
    let l = Layouts::of_rel(cx, 2, "OI")?;
    let rank = cx.tensor(1)?.shape.dims().map(<[_]>::len);
    if rank == Some(l.kernel.rank()) && cx.int("groups")? == 1 {
        let (data, _) = canonical_arg(cx, 0, &l.data, &l.canonical)?;
        let (weight, _) = canonical_arg(cx, 1, &l.kernel, &l.canonical_kernel)?;
        if !data[1].is_any() && !weight[1].is_any() {
            let what = "the weight's input channels must be the data's";
            cx.require_eq(&weight[1], &data[1], Subject::Arg(1), what)?;
        }
        let channels = Dim::from(cx.int("channels")?);
        let what = "`channels` and the weight's output channels must agree";
        super::util::need_eq(cx, &weight[0], &channels, Subject::Arg(1), what)?;
        let taps = cx.ints("kernel_size")?.unwrap_or_default();
        for (extent, taps) in weight[2..].iter().zip(taps) {
            let what = "`kernel_size` and the weight's spatial extents must agree";
            super::util::need_eq(cx, extent, &Dim::from(taps), Subject::Arg(1), what)?;
        }
    }
    super::nn_winograd::conv_rel(cx, 2)
}

/// Returns the layout of a packed weight, (o, i, kh, kw, inner i, inner o), where the attribute
/// does not give it: TVM's packed convolution reads no other.
fn packed_layout(w: &TensorRef) -> Result<Layout, ComputeError> {
    let inner = |k: usize| w.shape.get(k).and_then(Ex::as_int).filter(|&n| n > 0);
    let text = match (w.rank(), inner(4), inner(5)) {
        (6, Some(i), Some(o)) => format!("OIHW{i}i{o}o"),
        _ => return Err("the weight does not have the form that its layout says".into()),
    };
    Layout::parse(&text).ok_or_else(|| "the weight's blocks make no layout".into())
}

/// Returns the weight's extents in its canonical layout and its element type, as soon as its rank
/// is known.
pub(super) fn weight_of(cx: &mut RelCx<'_>, l: &Layouts) -> RelResult<Option<(Vec<Dim>, DTy)>> {
    match canonical_arg(cx, 1, &l.kernel, &l.canonical_kernel) {
        Ok(weight) => Ok(Some(weight)),
        Err(Stop::Wait) => Ok(None),
        Err(stop) => Err(stop),
    }
}

/// Returns the attribute `channels`, where it is given.
pub(super) fn declared_channels(cx: &RelCx<'_>) -> Option<Dim> {
    cx.attr("channels").as_int().map(Dim::from)
}

/// Returns the result's channels and the window's extents, where the attributes give both.
pub(super) fn declared_window(cx: &mut RelCx<'_>, n: usize) -> RelResult<Option<(Dim, Vec<Dim>)>> {
    let (Some(kernel_size), Some(channels)) = (cx.ints("kernel_size")?, declared_channels(cx))
    else {
        return Ok(None);
    };
    if kernel_size.len() != n {
        let text = format!("`kernel_size` needs {n} numbers, not {}", kernel_size.len());
        return cx.refuse(Subject::Attr("kernel_size"), text);
    }
    let taps = kernel_size.iter().map(|&k| Dim::from(k)).collect();
    Ok(Some((channels, taps)))
}

/// Requires a weight with the two channel extents `head` and these window extents.
pub(super) fn require_weight(
    cx: &mut RelCx<'_>,
    l: &Layouts,
    head: [Dim; 2],
    taps: &[Dim],
    dtype: DTy,
) -> RelResult<()> {
    let shape: Vec<Dim> = head.into_iter().chain(taps.iter().cloned()).collect();
    let shape = l.canonical_kernel.convert_dims(&l.kernel, &shape);
    let ty = cx.host.types_mut().tensor(shape, dtype);
    let what = "the weight does not fit the data, `channels`, `kernel_size` and `groups`";
    cx.require_arg(1, ty, what)
}

/// Returns the window extents of a weight with the extents `w`; `kernel_size`, where it is given,
/// has to agree.
pub(super) fn taps_of_weight(cx: &mut RelCx<'_>, w: &[Dim], n: usize) -> RelResult<Vec<Dim>> {
    let kernel_size = cx.ints("kernel_size")?.unwrap_or_default();
    for (tap, &k) in w[2..].iter().zip(kernel_size.iter().take(n)) {
        let what = "`kernel_size` and the weight's spatial extents must agree";
        cx.require_eq(tap, &Dim::from(k), Subject::Attr("kernel_size"), what)?;
    }
    Ok(w[2..].to_vec())
}

/// Returns the result type of a convolution; unifies the weight's type where `kernel_size` and
/// `channels` determine it. `weight_dtype` overrides the weight's element type (quantised forms).
pub(super) fn conv_result(
    cx: &mut RelCx<'_>,
    n: usize,
    weight_dtype: Option<DTy>,
) -> RelResult<(Vec<Dim>, DTy)> {
    let l = Layouts::of_rel(cx, n, "OI")?;
    let (data, dtype) = canonical_arg(cx, 0, &l.data, &l.canonical)?;
    let groups = cx.int("groups")?;
    if groups < 1 {
        return cx.refuse(
            Subject::Attr("groups"),
            format!("`groups` must be at least 1, not {groups}"),
        );
    }
    let (strides, dilation) = (steps(cx, "strides", n, 1)?, steps(cx, "dilation", n, 1)?);
    let padding = padding_of(cx, n)?;
    let group_dim = Dim::from(groups);
    let rule = "the data's channels, which `groups` divides,";
    super::util::need_multiple(cx, &data[1], groups, Subject::Attr("groups"), rule)?;
    let weight = weight_of(cx, &l)?;
    let element = weight_dtype
        .or(weight.as_ref().map(|w| w.1))
        .unwrap_or(dtype);
    let (channels, taps) = match declared_window(cx, n)? {
        Some((channels, taps)) => {
            let depthwise = groups > 1
                && data[1] == group_dim
                && weight.as_ref().is_some_and(|w| w.0[0] == group_dim);
            if groups > 1 && weight.is_none() {
                return Err(Stop::Wait);
            }
            let head = if depthwise {
                [data[1].clone(), channels.floordiv(&data[1])]
            } else {
                [channels.clone(), data[1].floordiv(&group_dim)]
            };
            require_weight(cx, &l, head, &taps, element)?;
            (channels, taps)
        }
        None => {
            let Some((w, _)) = weight else {
                return Err(Stop::Wait);
            };
            let taps = taps_of_weight(cx, &w, n)?;
            if let Some(c) = declared_channels(cx) {
                let what = "`channels` and the weight's output channels must agree";
                cx.require_eq(&w[0], &c, Subject::Attr("channels"), what)?;
            }
            if !(data[1].is_any() || w[1].is_any()) {
                let per_group = data[1].floordiv(&group_dim);
                let what = "the weight's input channels must be the data's, divided by `groups`";
                cx.require_eq(&w[1], &per_group, Subject::Arg(1), what)?;
            }
            (w[0].clone(), taps)
        }
    };
    let rule = "the result's channels, which `groups` divides,";
    super::util::need_multiple(cx, &channels, groups, Subject::Attr("groups"), rule)?;
    let mut out = vec![data[0].clone(), channels];
    for i in 0..n {
        let size = &data[2 + i];
        if size.is_any() {
            out.push(Dim::ANY);
            continue;
        }
        let window = reach(&taps[i], dilation[i]);
        let padded = size + &Dim::from(padding[i].0.saturating_add(padding[i].1));
        cx.require_at_least(
            &padded,
            &window,
            Subject::Call,
            "the window (with dilation) lies within the padded axis",
            |padded, window| {
                format!(
                    "the window (with dilation) is {} larger than the padded {} axis",
                    window - padded,
                    &spatial(n)[i..=i]
                )
            },
        )?;
        let room = padded - window;
        out.push(room.floordiv(&Dim::from(strides[i])) + Dim::ONE);
    }
    let out = l.canonical.convert_dims(&l.out, &out);
    Ok((out, cx.dtype("out_dtype").map_or(dtype, Into::into)))
}

/// Reads `t` by canonical indices.
pub(super) fn at_canonical(t: &TensorRef, own: &Layout, canonical: &Layout, index: &[Ex]) -> Ex {
    t.at(&own.index_from(canonical, index))
}

/// Returns the data with `fill` around its spatial axes, in canonical layout. Without padding and in
/// canonical layout already, returns the data itself.
pub(super) fn padded(
    te: &mut Te<'_>,
    x: &TensorRef,
    (own, canonical): (&Layout, &Layout),
    padding: &[(i64, i64)],
    fill: f64,
) -> TensorRef {
    padded_to(te, x, (own, canonical, canonical), padding, fill)
}

/// The same in a layout of one's own, the third: the data itself where that is its own already.
pub(super) fn padded_to(
    te: &mut Te<'_>,
    x: &TensorRef,
    (own, canonical, to): (&Layout, &Layout, &Layout),
    padding: &[(i64, i64)],
    fill: f64,
) -> TensorRef {
    if own == to && padding.iter().all(|&p| p == (0, 0)) {
        return x.clone();
    }
    let dims = own.convert_extents(canonical, &x.shape);
    let mut shape = dims.clone();
    for (d, p) in shape[2..].iter_mut().zip(padding) {
        *d = &*d + (p.0 + p.1);
    }
    let shape = canonical.convert_extents(to, &shape);
    te.compute("pad", &shape, |i| {
        let mut at = canonical.index_from(to, i);
        let mut inside = Ex::bool(true);
        for (k, p) in padding.iter().enumerate() {
            at[2 + k] = &at[2 + k] - p.0;
            if p.0 > 0 {
                inside = and(inside, at[2 + k].ge(0i64));
            }
            if p.0 > 0 || p.1 > 0 {
                inside = and(inside, at[2 + k].lt(&dims[2 + k]));
            }
        }
        let value = at_canonical(x, own, canonical, &at);
        Ex::where_(&inside, &value, &value.same(fill))
    })
}

fn and(a: Ex, b: Ex) -> Ex {
    match (a.as_int(), b.as_int()) {
        (Some(1), _) => b,
        (_, Some(1)) => a,
        _ => a & b,
    }
}

fn conv(te: &mut Te<'_>, n: usize) -> Result<(), ComputeError> {
    let mut l = Layouts::of_te(te, n, "OI")?;
    let (x, w) = (te.arg(0), te.arg(1));
    if w.rank() != l.kernel.rank() {
        l.kernel = packed_layout(&w)?;
    }
    let y = conv_stage(te, n, &l, &x, &w)?;
    te.output(&y);
    Ok(())
}

/// Returns one number per spatial axis.
pub(super) fn numbers(te: &Te<'_>, name: &str, n: usize) -> Vec<i64> {
    per_axis(te.ints(name).unwrap_or_default(), n)
}

/// Extends per-axis values to rows and columns: a line is an image of one row, whose value is
/// `row`.
pub(super) fn of_image<T: Copy>(axes: &[T], row: T) -> Option<[T; 2]> {
    match *axes {
        [column] => Some([row, column]),
        [row, column] => Some([row, column]),
        _ => None,
    }
}

/// Returns the hint for the kernel of windows over volumes that each of `groups` channels has of its
/// own, where it supports these layouts.
fn volume_hint(
    l: &Layouts,
    [x, w]: [&TensorRef; 2],
    (strides, padding, dilation): (&[i64], &Pairs, &[i64]),
    groups: i64,
) -> Option<Hint> {
    let data = l.data.convert_extents(&l.canonical, &x.shape);
    let weight = l.kernel.convert_extents(&l.canonical_kernel, &w.shape);
    let [channels, filters, each] =
        [&data[1], &weight[0], &weight[1]].map(|extent| extent.as_int().unwrap_or(0));
    let (before, behind): (Vec<i64>, Vec<i64>) = padding.iter().copied().unzip();
    let around = [before, behind].concat();
    let alone = groups > 1 && channels == groups;
    // The weight is (channels, multiplier, …), or (channels times multiplier, 1, …).
    let whole = filters == groups || each == 1;
    (alone && whole).then_some(Hint::Depthwise3d {
        data: x.buf,
        weight: w.buf,
        strides: strides.try_into().ok()?,
        padding: around.try_into().ok()?,
        dilation: dilation.try_into().ok()?,
        last: l.tuned_volume(filters * each == groups)?,
    })
}

/// Returns the hint for the kernels of convolutions of images and lines, where one supports these
/// layouts. `depthwise`: the weight is (channels, multiplier, …).
fn conv_hint(
    l: &Layouts,
    [x, w]: [&TensorRef; 2],
    (strides, padding, dilation): (&[i64], &Pairs, &[i64]),
    (groups, depthwise): (i64, bool),
) -> Option<Hint> {
    let multiplier = l.kernel.convert_extents(&l.canonical_kernel, &w.shape)[1].as_int();
    let [rows, columns] = of_image(padding, (0, 0))?;
    Some(Hint::Conv2d {
        data: x.buf,
        weight: w.buf,
        strides: of_image(strides, 1)?,
        padding: [rows.0, columns.0, rows.1, columns.1],
        dilation: of_image(dilation, 1)?,
        groups,
        nhwc: l.tuned(depthwise, multiplier == Some(1))?,
    })
}

/// Builds the convolution of `x` with `w` as stages; the result is in the output layout.
pub(super) fn conv_stage(
    te: &mut Te<'_>,
    n: usize,
    l: &Layouts,
    x: &TensorRef,
    w: &TensorRef,
) -> Result<TensorRef, ComputeError> {
    let dtype = te.out(0).dtype;
    // Narrow floats are rounded once, after the sum.
    let sums = wide(dtype);
    let groups = te.int("groups")?;
    let (strides, dilation) = (numbers(te, "strides", n), numbers(te, "dilation", n));
    let padding =
        pairs(&te.ints("padding").unwrap_or_default(), n).ok_or("`padding` has a wrong length")?;
    let data = l.data.convert_extents(&l.canonical, &x.shape);
    let weight = l.kernel.convert_extents(&l.canonical_kernel, &w.shape);
    // A depthwise weight is (channels, multiplier, …): the number of output channels is their
    // product.
    let depthwise =
        groups > 1 && data[1].as_int() == Some(groups) && weight[0].as_int() == Some(groups);
    let channels = if depthwise {
        &weight[0] * &weight[1]
    } else {
        weight[0].clone()
    };
    let steps = (&strides[..], &padding, &dilation[..]);
    let hint = match n {
        3 => volume_hint(l, [x, w], steps, groups),
        _ => conv_hint(l, [x, w], steps, (groups, depthwise)),
    };
    // Kernels for images read weights in place.
    let live: Vec<Live<Ex>> = (0..n)
        .map(
            |k| match (hint.is_some(), data[2 + k].as_int(), weight[2 + k].as_int()) {
                (false, Some(extent), Some(all)) => {
                    let live = Live::of(extent, all, (strides[k], dilation[k]), padding[k]);
                    Live {
                        first: live.first,
                        taps: Ex::idx(live.taps),
                        padding: live.padding,
                    }
                }
                _ => Live::all(weight[2 + k].clone(), padding[k]),
            },
        )
        .collect();
    let around: Vec<(i64, i64)> = live.iter().map(|l| l.padding).collect();
    let p = padded(te, x, (&l.data, &l.canonical), &around, 0.0);
    let mut shape = vec![data[0].clone(), channels.clone()];
    for i in 0..n {
        let window = (&weight[2 + i] - 1) * dilation[i] + 1;
        let room = &data[2 + i] + (padding[i].0 + padding[i].1) - window;
        shape.push(room.floor_div(strides[i]) + 1);
    }
    let shape = l.canonical.convert_extents(&l.out, &shape);
    let mut over: Vec<Ex> = if depthwise {
        vec![]
    } else {
        vec![weight[1].clone()]
    };
    over.extend(live.iter().map(|l| l.taps.clone()));
    let y = te.reduce("conv", &shape, &over, Combiner::Sum, |i, r| {
        let at = l.canonical.index_from(&l.out, i);
        let (n_, o) = (at[0].clone(), at[1].clone());
        let taps = if depthwise { r } else { &r[1..] };
        let (channel, w_at) = if depthwise {
            (
                o.floor_div(&weight[1]),
                vec![o.floor_div(&weight[1]), o.floor_mod(&weight[1])],
            )
        } else {
            let group = if groups == 1 {
                Ex::idx(0)
            } else {
                o.floor_div(channels.floor_div(groups))
            };
            (group * &weight[1] + &r[0], vec![o, r[0].clone()])
        };
        let mut x_at = vec![n_, channel];
        let mut w_at = w_at;
        for k in 0..n {
            x_at.push(&at[2 + k] * strides[k] + &taps[k] * dilation[k]);
            w_at.push(&taps[k] + live[k].first);
        }
        // After `padded`, the data is in canonical layout.
        let xe = p.at(&x_at).cast(sums);
        xe * at_canonical(w, &l.kernel, &l.canonical_kernel, &w_at).cast(sums)
    });
    if sums != dtype {
        return Ok(te.compute("rounded", &shape, |i| y.at(i).cast(dtype)));
    }
    te.program.hints.extend(hint.map(|hint| (y.buf, hint)));
    Ok(y)
}
