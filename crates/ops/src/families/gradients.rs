//! Gradients that no expression of the language gives: those of all other operators are `grad` items of
//! `prelude/gradients.relay`. The formulas are TVM's, so that the resulting programs are the same.
//!
//! What the text does not have: extents of operands (`concatenate`, `max`, `mean`, `nn.conv2d`,
//! `nn.dense`, `strided_slice`), the number of axes (`relax.matmul`, `sum`), and arithmetic on attributes
//! (`expand_dims`, `transpose`, the dilation of `nn.max_pool2d`, which may be written in two ways).

use relax_ir::{AttrValue, ExprId};
use relax_tensor::Tensor;

use crate::{Build, Site};

pub(super) type Grads = Option<Vec<ExprId>>;

pub(super) fn un(b: &mut dyn Build, op: &'static str, x: ExprId) -> ExprId {
    b.call(op, &[x], &[])
}
pub(super) fn bi(b: &mut dyn Build, op: &'static str, x: ExprId, y: ExprId) -> ExprId {
    b.call(op, &[x, y], &[])
}
pub(super) fn number(b: &mut dyn Build, like: ExprId, value: f64) -> Option<ExprId> {
    let dtype = b.dtype(like)?;
    let value = if dtype.is_float() {
        Tensor::scalar_f64(dtype, value)
    } else {
        Tensor::scalar_i64(dtype, value as i64)
    };
    Some(b.constant(value))
}

/// The gradient of `nn.max_pool2d` without dilation, which the backward operator does not support.
pub fn max_pool2d(b: &mut dyn Build, site: &Site, g: ExprId) -> Grads {
    if site.value("dilation").as_ints()?.iter().any(|&d| d != 1) {
        return None;
    }
    let names = ["pool_size", "strides", "padding", "layout", "ceil_mode"];
    let mut attrs: Vec<(&str, AttrValue)> = names.iter().map(|n| (*n, site.value(n))).collect();
    attrs.push(("dilation", AttrValue::ints(&[])));
    Some(vec![b.call(
        "nn.max_pool2d_grad",
        &[g, site.args[0]],
        &attrs,
    )])
}
/// The gradient of `concatenate`.
pub fn concatenate(b: &mut dyn Build, site: &Site, g: ExprId) -> Grads {
    let fields = b.field_extents(site.args[0])?;
    let axis = site.int("axis")?;
    let at = if axis < 0 {
        axis + fields.first()?.len() as i64
    } else {
        axis
    } as usize;
    let (mut splits, mut sum) = (Vec::new(), 0);
    for f in &fields[..fields.len().checked_sub(1)?] {
        sum += f.get(at)?;
        splits.push(sum);
    }
    let attrs = [
        ("indices_or_sections", AttrValue::ints(&splits)),
        ("axis", AttrValue::Int(axis)),
    ];
    Some(vec![b.call("split", &[g], &attrs)])
}
/// The gradient of `nn.conv2d` in layout `NCHW`.
pub fn conv2d(b: &mut dyn Build, site: &Site, g: ExprId) -> Grads {
    let [data, given] = site.args[..] else {
        return None;
    };
    let (d, mut w) = (b.extents(data)?, b.extents(given)?);
    let o = b.extents(site.call)?;
    let plain = |name: &str, layout: &str| {
        site.attrs
            .get(name)
            .and_then(AttrValue::as_str)
            .is_none_or(|s| s.is_empty() || s == layout)
    };
    if d.len() != 4
        || !plain("data_layout", "NCHW")
        || !plain("kernel_layout", "OIHW")
        || !plain("out_layout", "NCHW")
    {
        return None;
    }
    // A depthwise weight may be written by input channels, (C, multiplier, …): the same elements in
    // the same order as by output channels, (C * multiplier, 1, …).
    let by_input = w[0] != o[1];
    let mut weight = given;
    if by_input {
        w[..2].copy_from_slice(&[o[1], 1]);
        weight = b.call("reshape", &[given], &[("newshape", AttrValue::ints(&w))]);
    }
    let pads = site.attrs.get("padding")?.as_ints()?;
    let (top, left, bottom, right) = match pads[..] {
        [p] => (p, p, p, p),
        [h, w] => (h, w, h, w),
        [t, l, b, r] => (t, l, b, r),
        _ => return None,
    };
    let strides = site.attrs.get("strides")?.as_ints()?;
    let dilation = site.attrs.get("dilation")?.as_ints()?;
    let along = |i: usize| dilation.get(i).or(dilation.first()).copied().unwrap_or(1);
    let reach = |i: usize| (w[2 + i] - 1) * along(i) + 1;
    let out_h = (o[2] - 1) * strides[0] - top - bottom + reach(0);
    let out_w = (o[3] - 1) * strides[1] - left - right + reach(1);
    let dtype = match site.attrs.get("out_dtype") {
        Some(AttrValue::DType(d)) if !d.is_void() => AttrValue::DType(*d),
        _ => AttrValue::DType(b.dtype(data)?),
    };
    let backward_data = b.call(
        "nn.conv2d_transpose",
        &[g, weight],
        &[
            ("strides", site.value("strides")),
            ("padding", site.value("padding")),
            ("dilation", site.value("dilation")),
            ("groups", site.value("groups")),
            (
                "output_padding",
                AttrValue::ints(&[d[2] - out_h, d[3] - out_w]),
            ),
            ("out_dtype", dtype.clone()),
        ],
    );
    let layout = site
        .attrs
        .get("out_layout")
        .and_then(AttrValue::as_str)
        .filter(|s| !s.is_empty());
    let mut backward_weight = b.call(
        "nn.conv2d_backward_weight",
        &[g, data],
        &[
            ("strides", site.value("strides")),
            ("padding", site.value("padding")),
            ("dilation", site.value("dilation")),
            ("groups", site.value("groups")),
            ("channels", site.value("channels")),
            ("kernel_size", AttrValue::ints(&[w[2], w[3]])),
            // The layouts of the two operands and of the result, from the attributes of a
            // convolution.
            (
                "data_layout",
                AttrValue::Str(layout.unwrap_or("NCHW").into()),
            ),
            ("kernel_layout", site.value("data_layout")),
            ("out_layout", site.value("kernel_layout")),
            ("out_dtype", dtype),
        ],
    );
    if by_input {
        backward_weight = bi(b, "reshape_like", backward_weight, given);
    }
    Some(vec![backward_data, backward_weight])
}

/// Returns the axes that a reduction runs over, sorted; `None` where it names none, which means
/// all.
fn axes(b: &mut dyn Build, site: &Site) -> Option<Option<Vec<i64>>> {
    let rank = b.rank(site.args[0])? as i64;
    let given = match site.value("axis") {
        AttrValue::None => {
            return if site.flag("exclude") {
                None
            } else {
                Some(None)
            };
        }
        AttrValue::Int(i) => vec![i],
        list => list.as_ints()?,
    };
    let mut axes: Vec<i64> = given
        .iter()
        .map(|&a| if a < 0 { a + rank } else { a })
        .collect();
    axes.sort_unstable();
    if site.flag("exclude") {
        axes = (0..rank).filter(|a| !axes.contains(a)).collect();
    }
    Some(Some(axes))
}
fn expand(b: &mut dyn Build, mut x: ExprId, axes: &[i64]) -> ExprId {
    for &axis in axes {
        x = b.call("expand_dims", &[x], &[("axis", AttrValue::Int(axis))]);
    }
    x
}
pub(super) fn unreduced(b: &mut dyn Build, site: &Site, g: ExprId) -> Option<(ExprId, Vec<i64>)> {
    let rank = b.rank(site.args[0])? as i64;
    let axes = axes(b, site)?.unwrap_or_else(|| (0..rank).collect());
    let g = if site.flag("keepdims") {
        g
    } else {
        expand(b, g, &axes)
    };
    Some((g, axes))
}
pub(super) fn total(
    b: &mut dyn Build,
    x: ExprId,
    axis: AttrValue,
    keep: bool,
    exclude: bool,
) -> ExprId {
    let attrs = [
        ("axis", axis),
        ("keepdims", AttrValue::Bool(keep)),
        ("exclude", AttrValue::Bool(exclude)),
    ];
    b.call("sum", &[x], &attrs)
}
/// The gradient of `sum`.
pub fn sum(b: &mut dyn Build, site: &Site, g: ExprId) -> Grads {
    let (g, _) = unreduced(b, site, g)?;
    Some(vec![bi(b, "broadcast_to_like", g, site.args[0])])
}
/// The gradient of `mean`.
pub fn mean(b: &mut dyn Build, site: &Site, g: ExprId) -> Grads {
    let x = site.args[0];
    let shape = b.extents(x)?;
    let (g, axes) = unreduced(b, site, g)?;
    let mut scale = 1.0;
    for a in axes {
        scale /= *shape.get(a as usize)? as f64;
    }
    let scale = number(b, x, scale)?;
    let g = bi(b, "multiply", g, scale);
    Some(vec![bi(b, "broadcast_to_like", g, x)])
}
/// The gradient of `max`: divided equally among all positions that hold the maximum.
pub fn max(b: &mut dyn Build, site: &Site, mut g: ExprId) -> Grads {
    let x = site.args[0];
    let shape = b.extents(x)?;
    let axes = axes(b, site)?;
    let mut repeated = site.call;
    match &axes {
        None if site.flag("keepdims") => repeated = bi(b, "broadcast_to_like", repeated, x),
        None => repeated = bi(b, "full_like", x, repeated),
        Some(axes) => {
            if !site.flag("keepdims") {
                repeated = expand(b, repeated, axes);
                g = expand(b, g, axes);
            }
            for &a in axes {
                let attrs = [
                    ("repeats", AttrValue::Int(*shape.get(a as usize)?)),
                    ("axis", AttrValue::Int(a)),
                ];
                repeated = b.call("repeat", &[repeated], &attrs);
            }
        }
    }
    let same = bi(b, "equal", repeated, x);
    let here = bi(b, "cast_like", same, g);
    let axis = axes.map_or(AttrValue::None, |a| AttrValue::ints(&a));
    let count = total(b, here, axis, true, false);
    let top = bi(b, "multiply", here, g);
    Some(vec![bi(b, "divide", top, count)])
}
/// The gradient of `nn.dense`.
pub fn dense(b: &mut dyn Build, site: &Site, g: ExprId) -> Grads {
    let [data, weight] = site.args[..] else {
        return None;
    };
    let (d, w) = (b.extents(data)?, b.extents(weight)?);
    // TVM's type relation accepts other programs too; they compute nothing that has a gradient.
    let [units, inner] = w[..] else { return None };
    if d.last() != Some(&inner) {
        return None;
    }
    let rows = |b: &mut dyn Build, e: ExprId, width: i64| match d.len() {
        2 => e,
        _ => b.call(
            "reshape",
            &[e],
            &[("newshape", AttrValue::ints(&[-1, width]))],
        ),
    };
    let (x, g) = (rows(b, data, inner), rows(b, g, units));
    let width = [("units", AttrValue::Int(inner))];
    let t = un(b, "transpose", weight);
    let left = b.call("nn.dense", &[g, t], &width);
    let left = match d.len() {
        2 => bi(b, "collapse_sum_like", left, data),
        _ => bi(b, "reshape_like", left, data),
    };
    let (t, u) = (un(b, "transpose", g), un(b, "transpose", x));
    let right = b.call("nn.dense", &[t, u], &width);
    Some(vec![left, bi(b, "collapse_sum_like", right, weight)])
}
/// The gradient of the product of stacks of matrices.
pub fn stacked_product(b: &mut dyn Build, site: &Site, g: ExprId) -> Grads {
    let [x, y] = site.args[..] else { return None };
    let (m, n) = (b.rank(x)?, b.rank(y)?);
    if m < 2 || n < 2 {
        return None;
    }
    let turned = |b: &mut dyn Build, e: ExprId, rank: usize| {
        let mut axes: Vec<i64> = (0..rank as i64).collect();
        axes.swap(rank - 2, rank - 1);
        b.call("transpose", &[e], &[("axes", AttrValue::ints(&axes))])
    };
    let (t, u) = (turned(b, y, n), turned(b, x, m));
    let left = bi(b, "relax.matmul", g, t);
    let right = bi(b, "relax.matmul", u, g);
    Some(vec![
        bi(b, "collapse_sum_like", left, x),
        bi(b, "collapse_sum_like", right, y),
    ])
}
/// The gradient of `transpose`.
pub fn transpose(b: &mut dyn Build, site: &Site, g: ExprId) -> Grads {
    let axes = match site.value("axes").as_ints() {
        Some(axes) if !axes.is_empty() => {
            let rank = axes.len() as i64;
            let mut back = vec![0; axes.len()];
            for (i, a) in axes.iter().enumerate() {
                *back.get_mut(a.rem_euclid(rank) as usize)? = i as i64;
            }
            AttrValue::ints(&back)
        }
        _ => AttrValue::None,
    };
    Some(vec![b.call("transpose", &[g], &[("axes", axes)])])
}

/// The gradient of `expand_dims`.
pub fn expand_dims(b: &mut dyn Build, site: &Site, mut g: ExprId) -> Grads {
    let axis = site.int("axis")?;
    for _ in 0..site.int("num_newaxis")? {
        g = b.call("squeeze", &[g], &[("axis", AttrValue::ints(&[axis]))]);
    }
    Some(vec![g])
}
/// The gradient of `strided_slice` without `axes`.
pub fn strided_slice(b: &mut dyn Build, site: &Site, g: ExprId) -> Grads {
    let x = site.args[0];
    if !site.value("axes").is_none() {
        return None;
    }
    let begin = site.value("begin").as_ints()?;
    let mut end = site.value("end").as_ints()?;
    let mut strides = site.value("strides").as_ints()?;
    if site.value("slice_mode").as_str() == Some("size") {
        let shape = b.extents(x)?;
        for ((end, begin), extent) in end.iter_mut().zip(&begin).zip(&shape) {
            *end = if *end == -1 { *extent } else { begin + *end };
        }
        strides = vec![1];
    }
    let vector = |b: &mut dyn Build, values: &[i64]| {
        let values: Option<Vec<i32>> = values.iter().map(|&v| v.try_into().ok()).collect();
        let values = values?;
        Some(b.constant(Tensor::from_slice(&[values.len() as i64], &values)))
    };
    let zeros = un(b, "zeros_like", x);
    let begin = vector(b, &begin)?;
    let end = vector(b, &end)?;
    let strides = vector(b, &strides)?;
    Some(vec![b.call(
        "strided_set",
        &[zeros, g, begin, end, strides],
        &[],
    )])
}
