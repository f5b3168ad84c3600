//! The calls that hints stand for, by operator: the inverse of what the computations name.

use relax_loops::{Buf, Hint, Lines};
use relax_tensor::DType;

use crate::AttrValue;
use crate::hinted::{HintSite, HintedCall};

type Calls = Vec<HintedCall>;
type Given = Vec<(&'static str, AttrValue)>;

fn one(args: impl Into<Vec<Buf>>, attrs: Given) -> Calls {
    vec![HintedCall {
        args: args.into(),
        attrs,
    }]
}

fn none() -> Calls {
    Vec::new()
}

/// Adds a flag that is false by default.
fn flag(attrs: &mut Given, name: &'static str, value: bool) {
    if value {
        attrs.push((name, AttrValue::Bool(true)));
    }
}

/// Adds integers that are not `default`.
fn ints(attrs: &mut Given, name: &'static str, values: &[i64], default: i64) {
    if values.iter().any(|v| *v != default) {
        attrs.push((name, AttrValue::ints(values)));
    }
}

/// Adds the element type of the result where it is not that of the data.
fn out_dtype(attrs: &mut Given, site: &HintSite<'_>, data: Buf) {
    let dtype = site.dtype(site.out);
    if dtype != site.dtype(data) {
        attrs.push(("out_dtype", AttrValue::DType(dtype)));
    }
}

/// `pairs` of a window's axes as a list, in as few numbers as say it.
fn around(attrs: &mut Given, [top, left, bottom, right]: [i64; 4], axes: usize) {
    let all = match axes {
        1 => vec![left, right],
        _ if (top, left) == (bottom, right) => vec![top, left],
        _ => vec![top, left, bottom, right],
    };
    ints(attrs, "padding", &all, 0);
}

/// The values of the last axes; none where a line is not an image of one row.
fn per_axis(values: [i64; 2], axes: usize, row: i64) -> Option<Vec<i64>> {
    match axes {
        1 => (values[0] == row).then(|| vec![values[1]]),
        _ => Some(values.to_vec()),
    }
}

/// The columns of a product's result, where they are known.
fn units(site: &HintSite<'_>) -> AttrValue {
    let last = site.shape(site.out).last();
    last.and_then(|n| n.as_int())
        .map_or(AttrValue::None, AttrValue::Int)
}

pub(super) fn dense(hint: &Hint, site: &HintSite<'_>) -> Calls {
    match *hint {
        Hint::Gemm {
            a,
            b,
            transpose_a: false,
            transpose_b: true,
        } => {
            let mut attrs = vec![("units", units(site))];
            out_dtype(&mut attrs, site, a);
            one([a, b], attrs)
        }
        _ => none(),
    }
}

pub(super) fn matmul(hint: &Hint, site: &HintSite<'_>) -> Calls {
    match *hint {
        Hint::Gemm {
            a,
            b,
            transpose_a,
            transpose_b,
        } => {
            let mut attrs = vec![("units", units(site))];
            flag(&mut attrs, "transpose_a", transpose_a);
            flag(&mut attrs, "transpose_b", transpose_b);
            out_dtype(&mut attrs, site, a);
            one([a, b], attrs)
        }
        _ => none(),
    }
}

pub(super) fn batch_matmul(hint: &Hint, site: &HintSite<'_>) -> Calls {
    match *hint {
        Hint::BatchGemm {
            a,
            b,
            transpose_a,
            transpose_b,
        } => {
            let mut attrs = Vec::new();
            flag(&mut attrs, "transpose_a", transpose_a);
            flag(&mut attrs, "transpose_b", transpose_b);
            out_dtype(&mut attrs, site, a);
            one([a, b], attrs)
        }
        _ => none(),
    }
}

/// The product of stacks of matrices, whose operands are not transposed.
pub(super) fn stacked(hint: &Hint, site: &HintSite<'_>) -> Calls {
    match *hint {
        Hint::Gemm {
            a,
            b,
            transpose_a: false,
            transpose_b: false,
        }
        | Hint::BatchGemm {
            a,
            b,
            transpose_a: false,
            transpose_b: false,
        } => {
            let mut attrs = Vec::new();
            out_dtype(&mut attrs, site, a);
            one([a, b], attrs)
        }
        _ => none(),
    }
}

pub(super) fn blockwise(hint: &Hint, _: &HintSite<'_>) -> Calls {
    match *hint {
        Hint::Blockwise {
            data,
            weight,
            scale,
            block,
            bits,
        } => {
            let mut attrs = Vec::new();
            ints_one(&mut attrs, "bits", bits);
            ints_one(&mut attrs, "block_size", block);
            one([data, weight, scale], attrs)
        }
        _ => none(),
    }
}

fn ints_one(attrs: &mut Given, name: &'static str, value: i64) {
    attrs.push((name, AttrValue::Int(value)));
}

/// A convolution over `axes` axes.
fn conv(hint: &Hint, site: &HintSite<'_>, axes: usize) -> Calls {
    let Hint::Conv2d {
        data,
        weight,
        strides,
        padding,
        dilation,
        groups,
        nhwc,
    } = *hint
    else {
        return none();
    };
    let (Some(strides), Some(dilation)) = (per_axis(strides, axes, 1), per_axis(dilation, axes, 1))
    else {
        return none();
    };
    if site.rank(data) != axes + 2 {
        return none();
    }
    let mut attrs = Vec::new();
    ints(&mut attrs, "strides", &strides, 1);
    around(&mut attrs, padding, axes);
    ints(&mut attrs, "dilation", &dilation, 1);
    if groups != 1 {
        ints_one(&mut attrs, "groups", groups);
    }
    out_dtype(&mut attrs, site, data);
    let layouts: &[Option<(&str, &str)>] = match (nhwc, axes) {
        (false, _) => &[None],
        (true, 1) => &[Some(("NWC", "WIO"))],
        // A weight that is convolved channel by channel may have either order.
        (true, _) => &[Some(("NHWC", "HWIO")), Some(("NHWC", "HWOI"))],
    };
    // Whether a weight has several results for each channel is told by their number.
    let axis = if nhwc { axes + 1 } else { 1 };
    let channels = site.shape(site.out).get(axis).and_then(|n| n.as_int());
    let first = if nhwc { 0 } else { 2 };
    let taps = site.shape(weight).iter().skip(first).take(axes);
    let taps: Option<Vec<i64>> = taps.map(|n| n.as_int()).collect();
    let declared = channels.zip(taps).filter(|_| groups > 1);
    let mut calls = Vec::new();
    for declared in [None, declared] {
        for layout in layouts {
            let mut attrs = attrs.clone();
            if let Some((of_data, of_weight)) = layout {
                attrs.push(("data_layout", AttrValue::Str((*of_data).into())));
                attrs.push(("kernel_layout", AttrValue::Str((*of_weight).into())));
            }
            if let Some((channels, taps)) = &declared {
                ints_one(&mut attrs, "channels", *channels);
                attrs.push(("kernel_size", AttrValue::ints(taps)));
            }
            calls.push(HintedCall {
                args: vec![data, weight],
                attrs,
            });
        }
    }
    calls
}

pub(super) fn conv1d(hint: &Hint, site: &HintSite<'_>) -> Calls {
    conv(hint, site, 1)
}

pub(super) fn conv2d(hint: &Hint, site: &HintSite<'_>) -> Calls {
    conv(hint, site, 2)
}

/// A transposed convolution over `axes` axes. What is cropped at the ends, and what is added there,
/// follows from the result's extents; the hint does not have it.
fn conv_transpose(hint: &Hint, site: &HintSite<'_>, axes: usize) -> Calls {
    let Hint::Conv2dTranspose {
        data,
        weight,
        strides,
        padding,
        dilation,
        groups,
    } = *hint
    else {
        return none();
    };
    let spread = (per_axis(strides, axes, 1), per_axis(dilation, axes, 1));
    let ((Some(strides), Some(dilation)), Some(padding)) = (
        spread,
        // A line has no rows to crop.
        per_axis(padding, axes, 0),
    ) else {
        return none();
    };
    let (x, w, y) = (site.shape(data), site.shape(weight), site.shape(site.out));
    if [x, w, y].iter().any(|s| s.len() != axes + 2) {
        return none();
    }
    let (mut ends, mut extra) = (Vec::new(), Vec::new());
    for k in 0..axes {
        let extents = (x[2 + k].as_int(), w[2 + k].as_int(), y[2 + k].as_int());
        let (Some(x), Some(w), Some(y)) = extents else {
            // As it is usual: cropped at both ends.
            ends.push(padding[k]);
            extra.push(0);
            continue;
        };
        let whole = (x - 1) * strides[k] + (w - 1) * dilation[k] + 1;
        let cut = whole - y - padding[k];
        let more = (padding[k] - cut).clamp(0, (strides[k] - 1).max(0));
        ends.push(cut + more);
        extra.push(more);
    }
    let mut attrs = Vec::new();
    ints(&mut attrs, "strides", &strides, 1);
    let all = match ends == padding && axes > 1 {
        true => padding,
        false => [padding, ends].concat(),
    };
    ints(&mut attrs, "padding", &all, 0);
    ints(&mut attrs, "output_padding", &extra, 0);
    ints(&mut attrs, "dilation", &dilation, 1);
    if groups != 1 {
        ints_one(&mut attrs, "groups", groups);
    }
    one([data, weight], attrs)
}

pub(super) fn conv1d_transpose(hint: &Hint, site: &HintSite<'_>) -> Calls {
    conv_transpose(hint, site, 1)
}

pub(super) fn conv2d_transpose(hint: &Hint, site: &HintSite<'_>) -> Calls {
    conv_transpose(hint, site, 2)
}

/// Pooling over `axes` axes. Whether windows begin beyond the end of the data is not in the hint.
fn pool(hint: &Hint, site: &HintSite<'_>, axes: usize, greatest: bool) -> Calls {
    let Hint::Pool2d {
        data,
        nhwc,
        window,
        strides,
        padding,
        dilation,
        max,
        count_include_pad,
    } = *hint
    else {
        return none();
    };
    let (Some(window), Some(strides), Some(dilation)) = (
        per_axis(window, axes, 1),
        per_axis(strides, axes, 1),
        per_axis(dilation, axes, 1),
    ) else {
        return none();
    };
    // There is no layout with channels last for lines that has a kernel.
    if max != greatest || site.rank(data) != axes + 2 || nhwc && axes == 1 {
        return none();
    }
    let mut attrs = vec![("pool_size", AttrValue::ints(&window))];
    ints(&mut attrs, "strides", &strides, 1);
    ints(&mut attrs, "dilation", &dilation, 1);
    around(&mut attrs, padding, axes);
    if nhwc {
        attrs.push(("layout", AttrValue::Str("NHWC".into())));
    }
    flag(&mut attrs, "count_include_pad", count_include_pad);
    [false, true]
        .map(|ceil| {
            let mut attrs = attrs.clone();
            flag(&mut attrs, "ceil_mode", ceil);
            HintedCall {
                args: vec![data],
                attrs,
            }
        })
        .into()
}

pub(super) fn max_pool1d(hint: &Hint, site: &HintSite<'_>) -> Calls {
    pool(hint, site, 1, true)
}

pub(super) fn max_pool2d(hint: &Hint, site: &HintSite<'_>) -> Calls {
    pool(hint, site, 2, true)
}

pub(super) fn avg_pool1d(hint: &Hint, site: &HintSite<'_>) -> Calls {
    pool(hint, site, 1, false)
}

pub(super) fn avg_pool2d(hint: &Hint, site: &HintSite<'_>) -> Calls {
    pool(hint, site, 2, false)
}

pub(super) fn softmax(hint: &Hint, _: &HintSite<'_>) -> Calls {
    match *hint {
        Hint::Softmax { data, log: false } => one([data], Vec::new()),
        _ => none(),
    }
}

pub(super) fn log_softmax(hint: &Hint, _: &HintSite<'_>) -> Calls {
    match *hint {
        Hint::Softmax { data, log: true } => one([data], Vec::new()),
        _ => none(),
    }
}

/// Normalised rows, as operators know them.
struct Rows {
    args: Vec<Buf>,
    shifted: bool,
    epsilon: f64,
    axis: usize,
    rank: usize,
    groups: i64,
}

impl Rows {
    fn of(hint: &Hint, site: &HintSite<'_>) -> Option<Rows> {
        let Hint::LayerNorm {
            data,
            gamma,
            beta,
            epsilon,
            axis,
            groups,
        } = *hint
        else {
            return None;
        };
        // Scale and shift of narrow floats are converted first.
        let dtype = site.dtype(data);
        let own = |b: Buf| match site.dtype(b) == dtype {
            true => b,
            false => site.unconverted(b),
        };
        let mut args = vec![data, own(gamma)];
        args.extend(beta.map(own));
        Some(Rows {
            args,
            shifted: beta.is_some(),
            epsilon,
            axis,
            rank: site.rank(data),
            groups,
        })
    }

    /// The axes from one on.
    fn from(&self, axis: usize) -> AttrValue {
        let axes: Vec<i64> = (axis..self.rank).map(|a| a as i64).collect();
        AttrValue::ints(&axes)
    }

    fn call(self, mut attrs: Given) -> Calls {
        attrs.push(("epsilon", AttrValue::Float(self.epsilon)));
        one(self.args, attrs)
    }

    fn axis(&self) -> (&'static str, AttrValue) {
        ("axis", AttrValue::Int(self.axis as i64))
    }
}

/// Makes the hook of an operator that normalises: which rows it has, and its attributes.
macro_rules! rows {
    ($($name:ident: |$rows:ident| $fits:expr => [$($attr:expr),*];)*) => {
        $(pub(super) fn $name(hint: &Hint, site: &HintSite<'_>) -> Calls {
            match Rows::of(hint, site) {
                Some($rows) if $fits => {
                    let attrs = vec![$($attr),*];
                    $rows.call(attrs)
                }
                _ => none(),
            }
        })*
    };
}

rows! {
    layer_norm: |r| r.shifted && r.groups == 1 && r.axis + 1 == r.rank => [];
    instance_norm: |r| r.shifted && r.groups == 0 => [r.axis()];
    group_norm: |r| r.shifted && r.groups > 0 => [("num_groups", AttrValue::Int(r.groups)), r.axis()];
    layer_norm_over: |r| r.shifted && r.groups == 1 => [("axes", r.from(r.axis))];
    instance_norm_over: |r| r.shifted && r.groups == 0 && r.axis == 1 => [
        ("channel_axis", AttrValue::Int(1)), ("axes", r.from(2))
    ];
    group_norm_over: |r| r.shifted && r.groups > 0 && r.axis == 1 => [
        ("num_groups", AttrValue::Int(r.groups)), ("channel_axis", AttrValue::Int(1)), ("axes", r.from(2))
    ];
    rms_norm: |r| !r.shifted && r.groups == 1 => [("axes", r.from(r.axis))];
}

pub(super) fn attention(hint: &Hint, _: &HintSite<'_>) -> Calls {
    let Hint::Attention {
        q,
        k,
        v,
        bias,
        scale,
        seen,
    } = *hint
    else {
        return none();
    };
    let mut args = vec![q, k, v];
    args.extend(bias);
    let mut attrs = Vec::new();
    if seen.causal {
        let corner = if seen.at_end {
            "BottomRight"
        } else {
            "TopLeft"
        };
        attrs.push(("causal_mask", AttrValue::Str(corner.into())));
    }
    if let Some(window) = seen.window {
        ints_one(&mut attrs, "window_size", window);
    }
    // The factor may be the one that is taken where none is given.
    [AttrValue::None, AttrValue::Float(scale)]
        .map(|scale| {
            let mut attrs = attrs.clone();
            attrs.push(("scale", scale));
            HintedCall {
                args: args.clone(),
                attrs,
            }
        })
        .into()
}

/// The place of an extreme.
fn extreme(hint: &Hint, site: &HintSite<'_>, max: bool) -> Calls {
    match *hint {
        Hint::Lines {
            data,
            axis,
            work: Lines::Extreme { greatest, last },
        } if greatest == max => {
            let mut attrs = vec![("axis", AttrValue::ints(&[axis as i64]))];
            let kept = site.rank(data) == site.rank(site.out);
            flag(&mut attrs, "keepdims", kept);
            flag(&mut attrs, "select_last_index", last);
            one([data], attrs)
        }
        _ => none(),
    }
}

pub(super) fn argmax(hint: &Hint, site: &HintSite<'_>) -> Calls {
    extreme(hint, site, true)
}

pub(super) fn argmin(hint: &Hint, site: &HintSite<'_>) -> Calls {
    extreme(hint, site, false)
}

/// Running sums or products.
fn running(hint: &Hint, products: bool) -> Calls {
    match *hint {
        Hint::Lines {
            data,
            axis,
            work: Lines::Running { product, exclusive },
        } if product == products => {
            let mut attrs = vec![("axis", AttrValue::Int(axis as i64))];
            flag(&mut attrs, "exclusive", exclusive);
            one([data], attrs)
        }
        _ => none(),
    }
}

pub(super) fn cumsum(hint: &Hint, _: &HintSite<'_>) -> Calls {
    running(hint, false)
}

pub(super) fn cumprod(hint: &Hint, _: &HintSite<'_>) -> Calls {
    running(hint, true)
}

/// The attributes of sorting, and whether indices are written.
fn sorting(hint: &Hint, site: &HintSite<'_>) -> Option<(Buf, Given, bool, usize)> {
    match *hint {
        Hint::Lines {
            data,
            axis,
            work: Lines::Sorted { ascend, indices },
        } => {
            let mut attrs = vec![
                ("axis", AttrValue::Int(axis as i64)),
                ("is_ascend", AttrValue::Bool(ascend)),
            ];
            let dtype = site.dtype(site.out);
            if indices && dtype != DType::I32 {
                attrs.push(("dtype", AttrValue::DType(dtype)));
            }
            Some((data, attrs, indices, axis))
        }
        _ => None,
    }
}

pub(super) fn sort(hint: &Hint, site: &HintSite<'_>) -> Calls {
    match sorting(hint, site) {
        Some((data, attrs, false, _)) => one([data], attrs),
        _ => none(),
    }
}

pub(super) fn argsort(hint: &Hint, site: &HintSite<'_>) -> Calls {
    match sorting(hint, site) {
        Some((data, attrs, true, _)) => one([data], attrs),
        _ => none(),
    }
}

/// The first of the sorted elements, or their indices.
pub(super) fn topk(hint: &Hint, site: &HintSite<'_>) -> Calls {
    let Some((data, mut attrs, indices, axis)) = sorting(hint, site) else {
        return none();
    };
    let Some(k) = site.shape(site.out).get(axis).and_then(|n| n.as_int()) else {
        return none();
    };
    let which = if indices { "indices" } else { "values" };
    attrs.push(("ret_type", AttrValue::Str(which.into())));
    attrs.push(("k", AttrValue::Int(k)));
    one([data], attrs)
}
