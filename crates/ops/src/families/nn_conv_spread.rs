//! Transposed convolutions of bytes, and those of floats over volumes, as convolutions, which have
//! kernels.
//!
//! Along an axis with a step of `s`, positions of the result that are `s` apart read the same taps:
//! every `s`th of them. So all results that lie between two steps are channels of one convolution with
//! a tap for each `s` of them, and the result is these channels side by side, cut where padding takes
//! elements off. Taps that do not exist in every phase have the weight's zero point.

use relax_ir::{AttrValue, Attrs, ExprId};
use relax_sym::Dim;
use relax_tensor::{DType, Tensor};

use super::affine_rules::{Integers, factors, filters_fit, quantised_product, sums, uniform};
use super::conv_forms::{Layouts, pairs, per_axis};
use super::nn_conv_planes::{self, Operands};
use crate::expand::{Build, Site};
use crate::{AffineSite, Layout, Order};

/// The parameters along one spatial axis.
struct Along {
    /// The taps of the transposed convolution, with those between dilated ones.
    taps: i64,
    stride: i64,
    /// The taps of each phase.
    each: i64,
    /// The padding of the convolution.
    padding: (i64, i64),
    /// The elements to take off its result, once the phases lie side by side.
    cut: (i64, i64),
}

impl Along {
    /// Reads them; `taken` is what the transposed convolution takes off its result, `extra` what it
    /// adds at the end.
    fn of(taps: i64, stride: i64, taken: (i64, i64), extra: i64) -> Along {
        let each = (taps as u64).div_ceil(stride as u64) as i64;
        // Results count from the first that data reach, before anything is taken off. Step `q` has
        // those from `q * stride` on, and reads data `q` and as many before it as there are taps.
        let first = (taken.0 / stride).min(each - 1);
        let behind = (taps - 1 - taken.1 + extra).div_euclid(stride).max(0);
        Along {
            taps,
            stride,
            each,
            padding: (each - 1 - first, behind),
            cut: (
                taken.0 - first * stride,
                (behind + 1) * stride - taps + taken.1 - extra,
            ),
        }
    }
}

fn ints(list: &[i64]) -> AttrValue {
    AttrValue::ints(list)
}

fn dims(list: &[Dim]) -> AttrValue {
    AttrValue::array(list.iter().cloned().map(AttrValue::dim))
}

fn reshape(b: &mut dyn Build, x: ExprId, shape: &[Dim]) -> ExprId {
    b.call("reshape", &[x], &[("newshape", dims(shape))])
}

fn transpose(b: &mut dyn Build, x: ExprId, axes: &[usize]) -> ExprId {
    if axes.is_sorted() {
        return x;
    }
    let axes: Vec<i64> = axes.iter().map(|&a| a as i64).collect();
    b.call("transpose", &[x], &[("axes", ints(&axes))])
}

/// Brings a tensor from one layout of whole axes to another.
fn laid(b: &mut dyn Build, x: ExprId, from: &Layout, to: &Layout) -> Option<ExprId> {
    let order = Order::between(from, to)?;
    let axes: Vec<usize> = order.parts().iter().map(|p| p.axis).collect();
    (to.axes().iter().all(|a| a.factor == 0)).then(|| transpose(b, x, &axes))
}

/// Rewrites a call of `qnn.conv2d_transpose` of bytes.
pub(super) fn of_call(b: &mut dyn Build, site: &Site) -> Option<ExprId> {
    let operands = site.args.first_chunk::<6>()?;
    convolved(b, site, operands, site.value("out_dtype"))
}

/// Rewrites a call of `nn.conv3d_transpose` of float32.
pub(super) fn of_volume(b: &mut dyn Build, site: &Site) -> Option<ExprId> {
    let operands = site.args.first_chunk::<2>()?;
    let float = b.dtype(site.call) == Some(DType::F32);
    float.then(|| convolved(b, site, operands, AttrValue::None))?
}

/// `nn.conv1d_transpose`, `nn.conv2d_transpose` and `nn.conv3d_transpose`. The operator that takes
/// integers is for images alone, and takes scales of channels without groups: others are convolutions.
pub(super) fn of_numbers(b: &mut dyn Build, s: &AffineSite) -> Integers {
    let (filter, channel) = filters_fit(b, s, 'O')?;
    let [(x, of_x), (w, mut of_w)] = factors(s)?;
    let groups = s.site.int("groups")?;
    if let (Some(_), 2..) = (of_w.axis, groups) {
        // The channels of all groups share scales.
        let channels = b.extents(w)?[filter];
        let scale = b.value(of_w.scale)?;
        let mut all = Tensor::zeros(DType::F32, &[channels * groups]);
        for i in 0..all.len() {
            all.set_f64(i, scale.get_f64(i % scale.len()));
        }
        of_w.scale = b.constant(all);
    } else if b.rank(x) == Some(4) {
        return quantised_product(b, s, "qnn.conv2d_transpose", channel);
    }
    let all = [x, w, of_x.zero, of_w.zero, of_x.scale, of_w.scale];
    let y = convolved(b, &s.site, &all, AttrValue::DType(DType::I32))?;
    Some((y, sums(b, of_x, of_w, channel)))
}

/// Emits a transposed convolution of bytes over one to three axes as a convolution: the attributes are
/// those of the call, the operands those of `qnn.conv2d_transpose`. Or one of float32 over three, whose
/// operands are data and weight. `None` where the weight's extents or zero point or the data's rank are
/// not known.
pub(super) fn convolved(
    b: &mut dyn Build,
    site: &Site,
    operands: &[ExprId],
    out_dtype: AttrValue,
) -> Option<ExprId> {
    let (&[x, w], parameters) = operands.split_first_chunk()?;
    let parameters = parameters.first_chunk::<4>();
    let fits = |e| match parameters {
        Some(_) => matches!(b.dtype(e), Some(DType::I8 | DType::U8)),
        None => b.dtype(e) == Some(DType::F32),
    };
    let least = if parameters.is_some() { 1 } else { 3 };
    let n = b
        .rank(x)?
        .checked_sub(2)
        .filter(|n| (least..=3).contains(n))?;
    if !fits(x) || !fits(w) {
        return None;
    }
    let text = |name: &str| site.value(name).as_str().unwrap_or_default().to_owned();
    let l = Layouts::read(&text, n, "IO").ok()?;
    let zero = match parameters {
        Some(&[_, w_zero, ..]) => uniform(b, w_zero)?,
        None => 0.0,
    };
    let axes = along(b, site, w, &l)?;
    let groups = site.int("groups")?;

    let x = laid(b, x, &l.data, &l.canonical)?;
    let data = b.dims(x).filter(|d| d.iter().all(Dim::is_known))?;
    let nothing = |d: &Dim| d.as_const() == Some(0);
    if data.iter().chain(&b.dims(site.call)?).any(nothing) || !fit(&data[2..], &axes) {
        return None;
    }
    let w = laid(b, w, &l.kernel, &l.canonical_kernel)?;
    let (w, channels) = phases_of_weight(b, w, (zero, groups), &axes, &site_dilation(site, n)?)?;
    let steps: i64 = axes.iter().map(|a| a.stride).product();
    let all = channels * steps;
    let before = axes.iter().map(|a| a.padding.0);
    let around: Vec<i64> = before.chain(axes.iter().map(|a| a.padding.1)).collect();
    let window: Vec<i64> = axes.iter().map(|a| a.each).collect();
    // Channels with windows of their own are as many as results.
    let alone = groups > 1 && data[1].as_const() == Some(groups);
    let (x, own) = match alone && all > groups && parameters.is_some() {
        true => {
            let given = [("repeats", all / groups), ("axis", 1)];
            let given = given.map(|(name, k)| (name, AttrValue::Int(k)));
            (b.call("repeat", &[x], &given), all)
        }
        false => (x, groups),
    };
    let attrs = [
        ("strides", ints(&vec![1; n])),
        ("padding", ints(&around)),
        ("dilation", ints(&vec![1; n])),
        ("groups", AttrValue::Int(own)),
        ("channels", AttrValue::Int(all)),
        ("kernel_size", ints(&window)),
        ("out_dtype", out_dtype),
    ];
    let y = match parameters {
        None => {
            let attrs = &attrs[..attrs.len() - 1];
            volume(b, site, &[x, w], attrs, &Operands::Floats([x, w]))
                .unwrap_or_else(|| b.call("nn.conv3d", &[x, w], attrs))
        }
        Some(&[x_zero, _, x_scale, w_scale]) => {
            let w_zero = b.constant(Tensor::scalar_i64(DType::I32, zero as i64));
            let w_scale = scales(b, w_scale, [groups, steps, channels / groups])?;
            let args = [x, w, x_zero, w_zero, x_scale, w_scale];
            match n {
                1 => b.call("qnn.conv1d", &args, &attrs),
                2 => b.call("qnn.conv2d", &args, &attrs),
                _ => {
                    let zero = uniform(b, x_zero)?;
                    let operands = Operands::Integers(args, zero as i64);
                    volume(b, site, &args, &attrs, &operands)?
                }
            }
        }
    };
    b.dims(y)?;
    let extents: Vec<Dim> = (data[2..].iter().zip(&axes))
        .map(|(d, a)| d + &Dim::from(a.padding.0 + a.padding.1 - (a.each - 1)))
        .collect();
    let y = beside(b, y, (&data[0], groups, channels / groups), &extents, &axes);
    laid(b, y, &l.canonical, &l.out)
}

/// Returns whether the convolution has a result wherever the transposed one has.
fn fit(data: &[Dim], axes: &[Along]) -> bool {
    let mut all = data.iter().zip(axes);
    all.all(|(d, a)| d.as_const().is_some() || a.padding.0 + a.padding.1 + 1 >= a.each)
}

fn site_dilation(site: &Site, n: usize) -> Option<Vec<i64>> {
    let list = per_axis(site.value("dilation").as_ints()?, n);
    (list.len() == n).then_some(list)
}

/// Reads the parameters along the spatial axes.
fn along(b: &dyn Build, site: &Site, w: ExprId, l: &Layouts) -> Option<Vec<Along>> {
    let weight: Vec<Dim> = b.extents(w)?.into_iter().map(Dim::from).collect();
    let weight = l.kernel.convert_dims(&l.canonical_kernel, &weight);
    let weight: Vec<i64> = weight.iter().map(Dim::as_const).collect::<Option<_>>()?;
    let n = weight.len().checked_sub(2)?;
    let strides = per_axis(site.value("strides").as_ints()?, n);
    let dilation = site_dilation(site, n)?;
    let taken = pairs(&site.value("padding").as_ints()?, n)?;
    let extra = site.value("output_padding").as_ints()?;
    if strides.len() != n || extra.len() < n || weight.iter().any(|&k| k < 1) {
        return None;
    }
    let one = |k: usize| {
        let taps = (weight[2 + k] - 1) * dilation[k] + 1;
        Along::of(taps, strides[k], taken[k], extra[k])
    };
    Some((0..n).map(one).collect())
}

/// Makes the weight of the convolution of one in the canonical layout: the last taps of each phase
/// come first. Returns it with the number of channels of the result.
fn phases_of_weight(
    b: &mut dyn Build,
    mut w: ExprId,
    (zero, groups): (f64, i64),
    axes: &[Along],
    dilation: &[i64],
) -> Option<(ExprId, i64)> {
    let weight = b.extents(w)?;
    let [inputs, outputs] = *weight.first_chunk()?;
    let n = axes.len();
    if groups < 1 || inputs % groups != 0 {
        return None;
    }
    if dilation.iter().any(|&d| d > 1) {
        let steps: Vec<i64> = [1, 1].iter().chain(dilation).copied().collect();
        let given = [
            ("strides", ints(&steps)),
            ("dilation_value", AttrValue::Float(zero)),
        ];
        w = b.call("nn.dilate", &[w], &given);
    }
    if axes.iter().any(|a| a.each * a.stride != a.taps) {
        let mut around = vec![ints(&[0, 0]); 2];
        around.extend(axes.iter().map(|a| ints(&[0, a.each * a.stride - a.taps])));
        let by = Tensor::scalar_i64(b.dtype(w)?, zero as i64);
        let by = b.constant(by);
        w = b.call(
            "nn.pad",
            &[w, by],
            &[("pad_width", AttrValue::array(around))],
        );
    }
    let mut apart = vec![groups, inputs / groups, outputs];
    apart.extend(axes.iter().flat_map(|a| [a.each, a.stride]));
    let apart: Vec<Dim> = apart.into_iter().map(Dim::from).collect();
    w = reshape(b, w, &apart);
    for (k, a) in axes.iter().enumerate() {
        if a.each > 1 {
            w = b.call(
                "reverse",
                &[w],
                &[("axis", AttrValue::Int(3 + 2 * k as i64))],
            );
        }
    }
    let phases = (0..n).map(|k| 4 + 2 * k);
    let taps = (0..n).map(|k| 3 + 2 * k);
    let order: Vec<usize> = [0]
        .into_iter()
        .chain(phases)
        .chain([2, 1])
        .chain(taps)
        .collect();
    w = transpose(b, w, &order);
    let steps: i64 = axes.iter().map(|a| a.stride).product();
    let mut together = vec![groups * steps * outputs, inputs / groups];
    together.extend(axes.iter().map(|a| a.each));
    let together: Vec<Dim> = together.into_iter().map(Dim::from).collect();
    Some((reshape(b, w, &together), groups * outputs))
}

/// Makes scales of the convolution's channels, which are groups, phases, and the channels of a group, of
/// those of the result's channels.
fn scales(b: &mut dyn Build, scale: ExprId, [groups, phases, each]: [i64; 3]) -> Option<ExprId> {
    if b.rank(scale)? == 0 || phases == 1 {
        return Some(scale);
    }
    let apart = [groups, 1, each].map(Dim::from);
    let scale = reshape(b, scale, &apart);
    let scale = b.call("tile", &[scale], &[("reps", ints(&[1, phases, 1]))]);
    Some(reshape(b, scale, &[Dim::from(groups * phases * each)]))
}

/// Emits a convolution over three axes.
fn volume(
    b: &mut dyn Build,
    site: &Site,
    args: &[ExprId],
    attrs: &[(&str, AttrValue)],
    operands: &Operands,
) -> Option<ExprId> {
    let mut all = Attrs::default();
    for (name, layout) in [
        ("data_layout", "NCDHW"),
        ("kernel_layout", "OIDHW"),
        ("out_layout", ""),
    ] {
        all.set(name, AttrValue::Str(layout.into()));
    }
    for (name, value) in attrs {
        all.set(*name, value.clone());
    }
    let conv = Site {
        call: site.call,
        args: args.to_vec(),
        attrs: all,
    };
    nn_conv_planes::convolved(b, &conv, operands)
}

/// Puts phases beside each other: channels are groups, phases, and the channels of a group, in this
/// order; `extents` are those of the steps.
fn beside(
    b: &mut dyn Build,
    mut y: ExprId,
    (batch, groups, outputs): (&Dim, i64, i64),
    extents: &[Dim],
    axes: &[Along],
) -> ExprId {
    let whole: Vec<Dim> = (extents.iter().zip(axes))
        .map(|(d, a)| d * Dim::from(a.stride))
        .collect();
    if axes.iter().any(|a| a.stride > 1) {
        // What each axis becomes, without those of one element: its parts, in their order.
        let mut apart = vec![batch.clone()];
        let mut put = |d: Dim| {
            apart.push(d);
            apart.len() - 1
        };
        let group = (groups > 1).then(|| put(Dim::from(groups)));
        let phases: Vec<Option<usize>> = axes
            .iter()
            .map(|a| (a.stride > 1).then(|| put(Dim::from(a.stride))))
            .collect();
        let mut order: Vec<usize> = [0].into_iter().chain(group).collect();
        // An axis that stays as it is may have numbers for each of its elements.
        order.extend((groups == 1 || outputs > 1).then(|| put(Dim::from(outputs))));
        for (d, phase) in extents.iter().zip(phases) {
            order.push(put(d.clone()));
            order.extend(phase);
        }
        y = reshape(b, y, &apart);
        y = transpose(b, y, &order);
        let mut together = vec![batch.clone(), Dim::from(groups * outputs)];
        together.extend(whole.iter().cloned());
        y = reshape(b, y, &together);
    }
    if axes.iter().all(|a| a.cut == (0, 0)) {
        return y;
    }
    let begin: Vec<i64> = axes.iter().map(|a| a.cut.0).collect();
    let end: Vec<Dim> = (whole.iter().zip(axes))
        .map(|(d, a)| d - &Dim::from(a.cut.1))
        .collect();
    let places: Vec<i64> = (2..2 + axes.len() as i64).collect();
    let given = [
        ("begin", ints(&begin)),
        ("end", dims(&end)),
        ("strides", ints(&vec![1; axes.len()])),
        ("axes", ints(&places)),
    ];
    b.call("strided_slice", &[y], &given)
}
