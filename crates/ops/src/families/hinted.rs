//! The calls that hints stand for, by operator: the inverse of what the computations name.

use relax_loops::{Buf, Hint, Lines};
use relax_tensor::DType;

use crate::AttrValue;
use crate::hinted::{HintSite, HintedCall};

pub(super) type Calls = Vec<HintedCall>;
pub(super) type Given = Vec<(&'static str, AttrValue)>;

pub(super) fn one(args: impl Into<Vec<Buf>>, attrs: Given) -> Calls {
    vec![HintedCall::new(args, attrs)]
}

pub(super) fn none() -> Calls {
    Vec::new()
}

/// Adds a flag that is false by default.
pub(super) fn flag(attrs: &mut Given, name: &'static str, value: bool) {
    if value {
        attrs.push((name, AttrValue::Bool(true)));
    }
}

/// Adds integers that are not `default`.
pub(super) fn ints(attrs: &mut Given, name: &'static str, values: &[i64], default: i64) {
    if values.iter().any(|v| *v != default) {
        attrs.push((name, AttrValue::ints(values)));
    }
}

/// Adds the element type of the result where it is not that of the data.
pub(super) fn out_dtype(attrs: &mut Given, site: &HintSite<'_>, data: Buf) {
    let dtype = site.dtype(site.out);
    if dtype != site.dtype(data) {
        attrs.push(("out_dtype", AttrValue::DType(dtype)));
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

pub(super) fn ints_one(attrs: &mut Given, name: &'static str, value: i64) {
    attrs.push((name, AttrValue::Int(value)));
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
        let mut args = vec![data, gamma];
        args.extend(beta);
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
            HintedCall::new(args.clone(), attrs)
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
    attrs.push(("k", AttrValue::Int(k)));
    // One nest may write both, which is a call that has the hint of the indices, too.
    let other = site.hinted_together().into_iter().find(|b| *b != site.out);
    let outs = match (other, indices) {
        (Some(values), true) => Some(vec![values, site.out]),
        // The other buffer tells the type of the indices.
        (Some(_), false) => return none(),
        (None, _) => {
            let which = if indices { "indices" } else { "values" };
            attrs.push(("ret_type", AttrValue::Str(which.into())));
            None
        }
    };
    let args = vec![data];
    vec![HintedCall { args, outs, attrs }]
}
