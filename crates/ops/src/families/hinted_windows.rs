//! The calls that hints of convolutions and of pooling stand for.

use relax_loops::{Buf, Hint};

use super::hinted::{Calls, Given, flag, ints, ints_one, none, one, out_dtype};
use crate::AttrValue;
use crate::hinted::{HintSite, HintedCall};

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
    spelled([data, weight], &attrs, layouts, declared)
}

/// The calls with these attributes, in each of the layouts, without and with what may be declared: the
/// channels of the result, and the extents of the window.
fn spelled(
    operands: [Buf; 2],
    attrs: &[(&'static str, AttrValue)],
    layouts: &[Option<(&str, &str)>],
    declared: Option<(i64, Vec<i64>)>,
) -> Calls {
    let mut calls = Vec::new();
    for declared in [None, declared] {
        for layout in layouts {
            let mut attrs = attrs.to_vec();
            if let Some((of_data, of_weight)) = layout {
                attrs.push(("data_layout", AttrValue::Str((*of_data).into())));
                attrs.push(("kernel_layout", AttrValue::Str((*of_weight).into())));
            }
            if let Some((channels, taps)) = &declared {
                ints_one(&mut attrs, "channels", *channels);
                attrs.push(("kernel_size", AttrValue::ints(taps)));
            }
            calls.push(HintedCall::new(operands, attrs));
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

/// A convolution over volumes in which each channel has windows of its own.
pub(super) fn conv3d(hint: &Hint, site: &HintSite<'_>) -> Calls {
    let Hint::Depthwise3d {
        data,
        weight,
        strides,
        padding,
        dilation,
        last,
    } = *hint
    else {
        return none();
    };
    let (axis, first) = if last { (4, 0) } else { (1, 2) };
    let channels = |buf: Buf| site.shape(buf).get(axis).and_then(|n| n.as_int());
    let taps = site.shape(weight).iter().skip(first).take(3);
    let taps: Option<Vec<i64>> = taps.map(|n| n.as_int()).collect();
    let (Some(groups), Some(all)) = (channels(data), channels(site.out)) else {
        return none();
    };
    let mut attrs = Vec::new();
    ints(&mut attrs, "strides", &strides, 1);
    let around = if padding[..3] == padding[3..] { 3 } else { 6 };
    ints(&mut attrs, "padding", &padding[..around], 0);
    ints(&mut attrs, "dilation", &dilation, 1);
    ints_one(&mut attrs, "groups", groups);
    out_dtype(&mut attrs, site, data);
    let layouts: &[Option<(&str, &str)>] = match last {
        false => &[None],
        true => &[Some(("NDHWC", "DHWIO")), Some(("NDHWC", "DHWOI"))],
    };
    // Whether a weight has several results for each channel is told by their number.
    let declared = taps.map(|taps| (all, taps));
    spelled([data, weight], &attrs, layouts, declared)
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
        let [x, w, y] = [x, w, y].map(|shape| &shape[2 + k]);
        let whole = (x - 1) * strides[k] + (w - 1) * dilation[k] + 1;
        let Some(cut) = site.difference(&(whole - padding[k]), y) else {
            // As it is usual: cropped at both ends.
            ends.push(padding[k]);
            extra.push(0);
            continue;
        };
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
            HintedCall::new([data], attrs)
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
