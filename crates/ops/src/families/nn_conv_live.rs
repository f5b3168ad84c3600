//! Taps of windows that meet nothing but padding, and convolutions without them.

use relax_ir::{AttrValue, ExprId};

use super::conv_forms::{pairs, per_axis, spatial};
use crate::expand::{Build, Site};

/// The taps of a window along an axis that read data in at least one position, and the padding that
/// they need: the others are multiplied only with zeros, which is most of them for a small image
/// under a large or dilated window.
pub(super) struct Live<T> {
    pub first: i64,
    pub taps: T,
    pub padding: (i64, i64),
}

impl<T> Live<T> {
    /// All taps.
    pub fn all(taps: T, padding: (i64, i64)) -> Live<T> {
        Live {
            first: 0,
            taps,
            padding,
        }
    }
}

impl Live<i64> {
    /// Returns the live ones of `all` taps over data of an extent; the steps are the stride and the
    /// dilation.
    pub fn of(extent: i64, all: i64, steps: (i64, i64), padding: (i64, i64)) -> Live<i64> {
        let (stride, dilation) = steps;
        let room = extent + padding.0 + padding.1 - (all - 1) * dilation - 1;
        if extent < 1 || all < 1 || room < 0 || padding.0 < 0 || padding.1 < 0 {
            return Live::all(all, padding);
        }
        // Tap `t` reads `t * dilation - padding.0` in the first position, and `last` more in the
        // last one.
        let last = room / stride * stride;
        let first = ((padding.0 - last).max(0) as u64).div_ceil(dilation as u64) as i64;
        let end = ((extent - 1 + padding.0) / dilation + 1).min(all);
        // At least one tap has to remain for there to be a window.
        let first = first.min(padding.0 / dilation).min(all - 1);
        let behind = (all - end).min(padding.1 / dilation).min(all - 1 - first);
        Live {
            first,
            taps: all - first - behind,
            padding: (padding.0 - first * dilation, padding.1 - behind * dilation),
        }
    }
}

/// Rewrites a convolution over `n` spatial axes of known extents, of whose window some taps meet
/// only padding, as one with the others: kernels read the weight as it lies, and that of a small
/// image can be most of what they read.
pub(super) fn live_conv(
    b: &mut dyn Build,
    site: &Site,
    op: &'static str,
    n: usize,
) -> Option<ExprId> {
    let [x, w] = *site.args.first_chunk()?;
    let (data, weight) = (b.extents(x)?, b.extents(w)?);
    // The places of the spatial axes in a layout of whole axes.
    let axes = |name: &str| -> Option<Vec<usize>> {
        let layout = site.value(name);
        let layout = layout.as_str()?;
        let whole = layout.bytes().all(|c| c.is_ascii_uppercase());
        let places = spatial(n).chars().map(|c| layout.find(c));
        places.collect::<Option<_>>().filter(|_| whole)
    };
    let list = |name: &str| {
        let list = per_axis(site.value(name).as_ints()?, n);
        (list.len() == n).then_some(list)
    };
    let (of_data, of_weight) = (axes("data_layout")?, axes("kernel_layout")?);
    let (strides, dilation) = (list("strides")?, list("dilation")?);
    let padding = pairs(&site.value("padding").as_ints()?, n)?;
    let live = |k: usize| {
        let (extent, all) = (*data.get(of_data[k])?, *weight.get(of_weight[k])?);
        Some(Live::of(extent, all, (strides[k], dilation[k]), padding[k]))
    };
    let live: Vec<Live<i64>> = (0..n).map(live).collect::<Option<_>>()?;
    let (mut begin, mut end) = (vec![0; weight.len()], weight.clone());
    for (live, &at) in live.iter().zip(&of_weight) {
        (begin[at], end[at]) = (live.first, live.first + live.taps);
    }
    if end == weight && begin.iter().all(|&b| b == 0) {
        return None;
    }
    let given = [
        ("begin", AttrValue::ints(&begin)),
        ("end", AttrValue::ints(&end)),
    ];
    let w = b.call("strided_slice", &[w], &given);
    let before = live.iter().map(|l| l.padding.0);
    let around: Vec<i64> = before.chain(live.iter().map(|l| l.padding.1)).collect();
    let window: Vec<i64> = live.iter().map(|l| l.taps).collect();
    let mut attrs = site.attrs.clone();
    attrs.set("padding", AttrValue::ints(&around));
    attrs.set("kernel_size", AttrValue::ints(&window));
    let attrs: Vec<(&str, AttrValue)> = (attrs.iter())
        .map(|(name, value)| (name.as_str(), value.clone()))
        .collect();
    Some(b.call(op, &[x, w], &attrs))
}
