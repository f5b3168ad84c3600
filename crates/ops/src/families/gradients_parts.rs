//! Gradients of operators that select, join and reduce parts of tensors, and of losses, as far as no
//! expression of the language gives them.
//!
//! What the text does not have: extents of operands (`gather_nd`, `nn.global_avg_pool2d`, `take`,
//! `variance`), the number of axes or fields (`nn.matmul`, `stack`), and the element type of an operand
//! as an attribute (`nn.cross_entropy`, `nn.cross_entropy_with_logits`).
//! The formulas are those of TVM's registry where it has one; `take` scatters where TVM loops.

use relax_ir::{AttrValue, ExprId};
use relax_tensor::{DType, Tensor};

use super::gradients::{Grads, bi, number, un, unreduced};
use crate::{Build, Site};

/// The gradient of `nn.global_avg_pool2d`.
pub fn global_avg_pool2d(b: &mut dyn Build, site: &Site, g: ExprId) -> Grads {
    let x = site.args[0];
    let extents = b.extents(x)?;
    let layout = site.value("layout");
    let size = match layout.as_str()? {
        "NCHW" => [*extents.get(2)?, *extents.get(3)?],
        "NHWC" => [*extents.get(1)?, *extents.get(2)?],
        _ => return None,
    };
    let attrs = [
        ("pool_size", AttrValue::ints(&size)),
        ("strides", AttrValue::ints(&[1, 1])),
        ("padding", AttrValue::ints(&[0, 0])),
        ("layout", layout),
    ];
    Some(vec![b.call("nn.avg_pool2d_grad", &[g, x], &attrs)])
}
/// The gradient of `stack`.
pub fn stack(b: &mut dyn Build, site: &Site, g: ExprId) -> Grads {
    let count = b.field_extents(site.args[0])?.len();
    let axis = site.int("axis")?;
    let attrs = [
        ("indices_or_sections", AttrValue::Int(count as i64)),
        ("axis", AttrValue::Int(axis)),
    ];
    let parts = b.call("split", &[g], &attrs);
    let axis = [("axis", AttrValue::ints(&[axis]))];
    let mut fields = Vec::with_capacity(count);
    for i in 0..count {
        let part = b.field(parts, i as u32);
        fields.push(b.call("squeeze", &[part], &axis));
    }
    Some(vec![b.tuple(&fields)])
}
/// The gradient of `gather_nd`.
pub fn gather_nd(b: &mut dyn Build, site: &Site, g: ExprId) -> Grads {
    let [x, indices] = site.args[..] else {
        return None;
    };
    if site.int("batch_dims").unwrap_or(0) != 0 {
        return None;
    }
    // `scatter_nd` has no `index_rank`: the tuples' length must be known by their type.
    if site.int("index_rank").is_some() && b.extents(indices).is_none() {
        return None;
    }
    let zeros = un(b, "zeros_like", x);
    let add = [("mode", AttrValue::Str("add".into()))];
    let grad = b.call("scatter_nd", &[zeros, indices, g], &add);
    Some(vec![grad, un(b, "zeros_like", indices)])
}
/// The gradient of `take`: each slice is added to the one it was taken from.
pub fn take(b: &mut dyn Build, site: &Site, g: ExprId) -> Grads {
    let [x, indices] = site.args[..] else {
        return None;
    };
    if site.int("batch_dims").unwrap_or(0) != 0 {
        return None;
    }
    let (whole, taken) = (b.extents(x)?, b.extents(indices)?);
    // `reshape` interprets an extent of 0 differently.
    if whole.iter().chain(&taken).any(|&d| d == 0) {
        return None;
    }
    let flat = site.value("axis").is_none();
    let extents = if flat {
        vec![whole.iter().product()]
    } else {
        whole.clone()
    };
    let rank = extents.len();
    let axis = if flat { 0 } else { site.int("axis")? };
    let axis = usize::try_from(if axis < 0 { axis + rank as i64 } else { axis }).ok()?;
    let extent = *extents.get(axis)?;
    let count: i64 = taken.iter().product();
    let reshape = |b: &mut dyn Build, x: ExprId, to: &[i64]| {
        b.call("reshape", &[x], &[("newshape", AttrValue::ints(to))])
    };
    let turn = |b: &mut dyn Build, x: ExprId, axes: &[i64]| {
        b.call("transpose", &[x], &[("axes", AttrValue::ints(axes))])
    };
    // `scatter_nd` indexes the first axis, so the axis is moved to the front.
    let mut first: Vec<i64> = vec![axis as i64];
    first.extend((0..rank as i64).filter(|&a| a != axis as i64));
    let mut back = vec![0; rank];
    for (i, &a) in first.iter().enumerate() {
        back[a as usize] = i as i64;
    }
    let mut base = un(b, "zeros_like", x);
    if flat {
        base = reshape(b, base, &extents);
    }
    let base = turn(b, base, &first);
    let mut merged = extents.clone();
    merged[axis] = count;
    let updates = reshape(b, g, &merged);
    let updates = turn(b, updates, &first);
    let mut at = reshape(b, indices, &[1, count]);
    let dtype = b.dtype(indices)?;
    let bound = |b: &mut dyn Build, n: i64| b.constant(Tensor::scalar_i64(dtype, n));
    match site.value("mode").as_str() {
        Some("wrap") => {
            let n = bound(b, extent);
            at = bi(b, "floor_mod", at, n);
        }
        Some("fast") => {}
        _ => {
            let (low, high) = (bound(b, 0), bound(b, extent - 1));
            at = bi(b, "maximum", at, low);
            at = bi(b, "minimum", at, high);
        }
    }
    let add = [("mode", AttrValue::Str("add".into()))];
    let grad = b.call("scatter_nd", &[base, at, updates], &add);
    let grad = turn(b, grad, &back);
    let grad = if flat { reshape(b, grad, &whole) } else { grad };
    Some(vec![grad, un(b, "zeros_like", indices)])
}
/// The gradient of `variance`.
pub fn variance(b: &mut dyn Build, site: &Site, g: ExprId) -> Grads {
    let [x, mean] = site.args[..] else {
        return None;
    };
    let shape = b.extents(x)?;
    let (g, axes) = unreduced(b, site, g)?;
    let mut count = 1.0;
    for a in axes {
        count *= *shape.get(a as usize)? as f64;
    }
    let mut by_mean = -2.0;
    if site.flag("unbiased") {
        by_mean = by_mean * count / (count - 1.0);
        count -= 1.0;
    }
    let scale = number(b, x, 2.0 / count)?;
    let left = bi(b, "multiply", g, scale);
    let left = bi(b, "multiply", left, x);
    let by_mean = number(b, x, by_mean)?;
    let right = bi(b, "multiply", by_mean, g);
    Some(vec![left, bi(b, "multiply", right, mean)])
}
/// Returns the gradient of a loss's result for each of its rows.
fn by_row(b: &mut dyn Build, x: ExprId, g: ExprId) -> Option<ExprId> {
    let dtype = b.dtype(x)?;
    let int = [("dtype", AttrValue::DType(DType::I32))];
    let shape = b.call("shape_of", &[x], &int);
    let first = b.constant(Tensor::scalar_i64(DType::I32, 0));
    let rows = b.call("take", &[shape, first], &[("axis", AttrValue::Int(0))]);
    let rows = b.call("cast", &[rows], &[("dtype", AttrValue::DType(dtype))]);
    Some(bi(b, "divide", g, rows))
}
/// The gradient of `nn.cross_entropy`.
pub fn cross_entropy(b: &mut dyn Build, site: &Site, g: ExprId) -> Grads {
    let [x, y] = site.args[..] else { return None };
    let g = by_row(b, x, g)?;
    let left = un(b, "negative", g);
    let left = bi(b, "multiply", left, y);
    let left = bi(b, "divide", left, x);
    let right = un(b, "negative", g);
    let log = un(b, "log", x);
    Some(vec![left, bi(b, "multiply", right, log)])
}
/// The gradient of `nn.cross_entropy_with_logits`.
pub fn cross_entropy_with_logits(b: &mut dyn Build, site: &Site, g: ExprId) -> Grads {
    let [x, y] = site.args[..] else { return None };
    let g = by_row(b, x, g)?;
    let left = un(b, "negative", g);
    let left = bi(b, "multiply", left, y);
    let right = un(b, "negative", g);
    Some(vec![left, bi(b, "multiply", right, x)])
}
/// The gradient of `nn.matmul` on two matrices.
pub fn matmul(b: &mut dyn Build, site: &Site, g: ExprId) -> Grads {
    let [x, y] = site.args[..] else { return None };
    if b.rank(x)? != 2 {
        return None;
    }
    let (left, right) = (site.flag("transpose_a"), site.flag("transpose_b"));
    if (left, right) == (false, true) {
        return super::gradients::dense(b, site, g);
    }
    let product = |b: &mut dyn Build, p: ExprId, q: ExprId, a: bool, c: bool| {
        let attrs = [
            ("units", AttrValue::None),
            ("transpose_a", AttrValue::Bool(a)),
            ("transpose_b", AttrValue::Bool(c)),
        ];
        b.call("nn.matmul", &[p, q], &attrs)
    };
    let (l, r) = match (left, right) {
        (true, true) => (product(b, y, g, true, true), product(b, g, x, true, true)),
        (true, false) => (
            product(b, y, g, false, true),
            product(b, x, g, false, false),
        ),
        _ => (product(b, g, y, false, true), product(b, x, g, true, false)),
    };
    Some(vec![
        bi(b, "collapse_sum_like", l, x),
        bi(b, "collapse_sum_like", r, y),
    ])
}
