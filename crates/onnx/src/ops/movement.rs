//! Operators that move elements.

use relax_ir::AttrValue;
use relax_sym::Dim;

use super::build::{dims, int, ints, str};
use crate::graph::Tr;
use crate::node::{Node, R, unsupported};
use crate::table::{Entry, op};
use crate::value::{Elem, Val, Value};

type Out = R<Vec<Value>>;

pub static OPS: &[Entry] = &[
    op("Transpose", 1, |tr, n| {
        let x = n.t(0)?;
        let order = match n.ints("perm") {
            Some(list) => list
                .iter()
                .map(|&a| x.axis(a))
                .collect::<Result<Vec<_>, _>>()?,
            None => (0..x.rank()).rev().collect(),
        };
        Ok(vec![tr.transpose(&x, &order)?.into()])
    }),
    op("Concat", 1, |tr, n| {
        let parts = (0..n.inputs.len()).map(|i| n.t(i)).collect::<R<Vec<_>>>()?;
        let first = parts.first().ok_or("there is nothing to concatenate")?;
        let axis = first.axis(n.int("axis", 1))?;
        Ok(vec![tr.concat(&parts, axis)?.into()])
    }),
    op("Slice", 1, slice),
    op("Split", 1, split),
    op("Pad", 1, pad),
    op("DepthToSpace", 1, depth_to_space),
    op("SpaceToDepth", 1, |tr, n| {
        let x = n.t(0)?;
        let order = match n.str("mode", "DCR").as_str() {
            "CRD" => [0, 1, 3, 5, 2, 4],
            _ => [0, 3, 5, 1, 2, 4],
        };
        let x = tr.known(&x);
        let b = n.int("blocksize", 1);
        let [n_, c, h, w] = four(&x)?;
        let block = Dim::from(b);
        let y = tr.reshape(
            &x,
            &[
                n_.clone(),
                c.clone(),
                h.floordiv(&block),
                block.clone(),
                w.floordiv(&block),
                block.clone(),
            ],
        )?;
        let y = tr.transpose(&y, &order)?;
        Ok(vec![
            tr.reshape(&y, &[n_, c * b * b, h.floordiv(&block), w.floordiv(&block)])?
                .into(),
        ])
    }),
    op("Trilu", 14, trilu),
    op("ReverseSequence", 10, |tr, n| {
        let (x, lens) = (n.t(0)?, n.t(1)?);
        let attrs = [
            ("seq_axis", int(n.int("time_axis", 0))),
            ("batch_axis", int(n.int("batch_axis", 1))),
        ];
        Ok(vec![
            tr.op("reverse_sequence", &[&x, &lens], &attrs)?.into(),
        ])
    }),
];

pub fn trilu(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let x = n.t(0)?;
    let k = match n.opt(1)? {
        Some(k) => tr.as_scalar(&k)?,
        None => tr.number(Elem::I64, 0.0),
    };
    let upper = n.int("upper", 1) != 0;
    let y = tr.op("trilu", &[&x, &k], &[("upper", AttrValue::Bool(upper))])?;
    Ok(vec![y.into()])
}

fn four(x: &Val) -> R<[Dim; 4]> {
    x.dims
        .to_vec()
        .try_into()
        .map_err(|_| "it takes a tensor of rank 4".into())
}

fn slice(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let x = n.t(0)?;
    let vector = |v: Vec<i64>, tr: &Tr<'_>| tr.vector(&v);
    let (starts, ends, axes_, steps) = if n.opset < 10 {
        let starts = n.ints("starts").ok_or("attribute `starts` is missing")?;
        let ends = n.ints("ends").ok_or("attribute `ends` is missing")?;
        let axes = n.ints("axes").map(|a| vector(a, tr));
        (vector(starts, tr), vector(ends, tr), axes, None)
    } else {
        (n.t(1)?, n.t(2)?, n.opt(3)?, n.opt(4)?)
    };
    let count = starts.axes()?;
    let axes_ = axes_.unwrap_or_else(|| tr.vector(&(0..count as i64).collect::<Vec<_>>()));
    let steps = steps.unwrap_or_else(|| tr.vector(&vec![1; count]));
    if let Some(y) = slice_known(tr, &x, [&starts, &ends, &axes_, &steps])? {
        return Ok(vec![y.into()]);
    }
    let mut parts = Vec::new();
    for v in [&starts, &ends, &axes_, &steps] {
        parts.push(tr.as_vector(v)?);
    }
    let mut y = tr.op(
        "dyn.slice",
        &[&x, &parts[0], &parts[1], &parts[2], &parts[3]],
        &[],
    )?;
    y.elem = x.elem;
    if let Some(list) = axes_.const_ints() {
        // Axes that are not sliced keep their extents.
        let list = list
            .iter()
            .map(|&a| x.axis(a))
            .collect::<Result<Vec<_>, _>>()?;
        let kept: Vec<Dim> = (0..x.rank())
            .map(|a| {
                if list.contains(&a) {
                    y.dims.get(a).cloned().unwrap_or(Dim::ANY)
                } else {
                    x.dims[a].clone()
                }
            })
            .collect();
        y = tr.matched(&y, &kept);
    }
    Ok(vec![y.into()])
}

/// Emits a slice with known bounds; `None` if they are unknown, or cannot be attributes.
fn slice_known(
    tr: &mut Tr<'_>,
    x: &Val,
    [starts, ends, axes_, steps]: [&Val; 4],
) -> R<Option<Val>> {
    let (Some(starts), Some(ends), Some(list), Some(steps)) = (
        starts.ints.clone(),
        ends.ints.clone(),
        axes_.const_ints(),
        steps.const_ints(),
    ) else {
        return Ok(None);
    };
    if ends.len() != starts.len() || list.len() != starts.len() || steps.len() != starts.len() {
        return Err("starts, ends, axes and steps differ in length".into());
    }
    let (mut from, mut to, mut by, mut which) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (k, &axis) in list.iter().enumerate() {
        let a = x.axis(axis)?;
        let Some(start) = starts[k].as_const() else {
            return Ok(None);
        };
        let (extent, step) = (x.dim(a)?, steps[k]);
        let (from_, to_) = match (ends[k].as_const(), extent.as_const()) {
            _ if step == 0 => return Err("a step may not be 0".into()),
            (Some(end), Some(len)) => {
                let (low, high) = if step > 0 { (0, len) } else { (-1, len - 1) };
                let bound =
                    |v: i64| (if v < 0 { v.saturating_add(len) } else { v }).clamp(low, high);
                let (s, e) = (bound(start), bound(end));
                // Before the first element, expressed from the end.
                let e = if step < 0 && e < 0 { -len - 1 } else { e };
                let e = if step > 0 && e < s { s } else { e };
                if step < 0 && e >= 0 && e > s || s < 0 {
                    return Ok(None);
                }
                (s, Dim::from(e))
            }
            (Some(end), None) if step > 0 => {
                // Bounds out of range are clamped at run time.
                if end < 0 || start < 0 || (start == 0 && end >= i64::from(i32::MAX)) {
                    let e = if end >= i64::from(i32::MAX) {
                        i64::MAX
                    } else {
                        end
                    };
                    (start, Dim::from(e))
                } else if end >= i64::from(i32::MAX) {
                    (start, Dim::from(i64::MAX))
                } else {
                    (start, Dim::from(end))
                }
            }
            // A symbolic end is only supported where nothing is cut off.
            (None, _) if step == 1 && start == 0 && ends[k] == *extent => (0, Dim::from(i64::MAX)),
            _ => return Ok(None),
        };
        from.push(from_);
        to.push(to_);
        by.push(step);
        which.push(a as i64);
    }
    let whole = (0..which.len()).all(|k| {
        let all = x.dims[which[k] as usize].as_const();
        from[k] == 0
            && by[k] == 1
            && to[k]
                .as_const()
                .is_some_and(|e| e == i64::MAX || Some(e) == all)
    });
    if whole {
        return Ok(Some(x.clone()));
    }
    let attrs = [
        ("begin", ints(&from)),
        ("end", dims(&to)),
        ("strides", ints(&by)),
        ("axes", ints(&which)),
    ];
    let mut y = tr.op("strided_slice", &[x], &attrs)?;
    y.elem = x.elem;
    Ok(Some(y))
}

fn split(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let x = n.t(0)?;
    let axis = x.axis(n.int("axis", 0))?;
    let wanted = n.proto.output.len();
    let sizes = match n.opset < 13 {
        true => n.ints("split"),
        false => match n.opt(1)? {
            None => None,
            Some(v) => match v.const_ints() {
                Some(list) => Some(list),
                None => return split_at_run_time(tr, &x, axis, &v, wanted),
            },
        },
    };
    let count = n.int("num_outputs", wanted as i64);
    // Since version 18, the last part may be shorter.
    let open = sizes.is_none() && x.dim(axis)?.as_const().is_none();
    let parts = match n.opset >= 18 && open && !divides(count, x.dim(axis)?) {
        true if (1..=MOST_PARTS).contains(&count) => parts_at_run_time(tr, &x, axis, count)?,
        _ => split_into(tr, &x, axis, sizes, count)?,
    };
    Ok(parts.into_iter().map(Value::Tensor).collect())
}

/// The limit on the number of parts of a split.
const MOST_PARTS: i64 = 1 << 16;

/// Returns whether an extent is always divisible by this number of parts.
fn divides(count: i64, extent: &Dim) -> bool {
    count > 0 && &extent.floordiv(&Dim::from(count)) * count == *extent
}

/// Splits an axis of unknown extent into parts, of which the last may be shorter.
fn parts_at_run_time(tr: &mut Tr<'_>, x: &Val, axis: usize, count: i64) -> R<Vec<Val>> {
    let x = tr.known(x);
    let len = x.dim(axis)?.clone();
    let each = (&len + (count - 1)).floordiv(&Dim::from(count));
    let sizes: Vec<Dim> = (0..count)
        .map(|k| (&len - &each * k).max(&Dim::ZERO).min(&each))
        .collect();
    let shape = tr.shape_of(&x)?;
    let have = tr.slice(&shape, 0, axis as i64, axis as i64 + 1)?;
    let step = tr.by("add", &have, (count - 1) as f64)?;
    let step = tr.by("floor_divide", &step, count as f64)?;
    let (which, one) = (tr.vector(&[axis as i64]), tr.vector(&[1]));
    let mut out = Vec::new();
    for (k, size) in sizes.into_iter().enumerate() {
        let from = tr.by("multiply", &step, k as f64)?;
        let to = tr.add(&from, &step)?;
        let mut y = tr.op("dyn.slice", &[&x, &from, &to, &which, &one], &[])?;
        y.elem = x.elem;
        let mut dims = x.dims.to_vec();
        dims[axis] = size;
        out.push(tr.matched(&y, &dims));
    }
    Ok(out)
}

/// Splits an axis: into parts of given sizes, or of sizes as equal as possible.
pub fn split_into(
    tr: &mut Tr<'_>,
    x: &Val,
    axis: usize,
    sizes: Option<Vec<i64>>,
    count: i64,
) -> R<Vec<Val>> {
    if !(0..=MOST_PARTS).contains(&count) {
        return unsupported(format!("splits into {count} parts are not supported"));
    }
    let sizes = match (sizes, x.dim(axis)?.as_const()) {
        (Some(s), _) => s,
        (None, Some(len)) if count > 0 => {
            let each = (len + count - 1) / count;
            (0..count)
                .map(|k| (len - k * each).clamp(0, each))
                .collect()
        }
        (None, _) => {
            let attrs = [
                ("indices_or_sections", int(count)),
                ("axis", int(axis as i64)),
            ];
            let parts = tr.ops("split", &[x], &attrs)?;
            return Ok(with_elem(parts, x.elem));
        }
    };
    let whole = (sizes.iter()).try_fold(0i64, |n, &s| n.checked_add(s).filter(|_| s >= 0));
    if whole.is_none() {
        return Err("the sizes of the parts are out of range".into());
    }
    if sizes.len() == 1 {
        return Ok(vec![x.clone()]);
    }
    let mut at = 0;
    if sizes.contains(&0) {
        let mut parts = Vec::new();
        for s in &sizes {
            parts.push(tr.slice(x, axis, at, at + s)?);
            at += s;
        }
        return Ok(parts);
    }
    let mut places = Vec::new();
    for s in &sizes[..sizes.len().max(1) - 1] {
        at += s;
        places.push(at);
    }
    let attrs = [
        ("indices_or_sections", ints(&places)),
        ("axis", int(axis as i64)),
    ];
    let parts = tr.ops("split", &[x], &attrs)?;
    Ok(with_elem(parts, x.elem))
}

fn with_elem(mut parts: Vec<Val>, elem: Elem) -> Vec<Val> {
    for p in &mut parts {
        p.elem = elem;
    }
    parts
}

pub fn split_at_run_time(tr: &mut Tr<'_>, x: &Val, axis: usize, sizes: &Val, count: usize) -> Out {
    let sizes = tr.as_vector(sizes)?;
    let ends = tr.op("cumsum", &[&sizes], &[("axis", int(0))])?;
    let starts = tr.sub(&ends, &sizes)?;
    let (which, one) = (tr.vector(&[axis as i64]), tr.vector(&[1]));
    let mut out = Vec::new();
    for k in 0..count as i64 {
        let (from, to) = (
            tr.slice(&starts, 0, k, k + 1)?,
            tr.slice(&ends, 0, k, k + 1)?,
        );
        let mut y = tr.op("dyn.slice", &[x, &from, &to, &which, &one], &[])?;
        y.elem = x.elem;
        let mut kept = x.dims.to_vec();
        kept[axis] = Dim::ANY;
        out.push(tr.matched(&y, &kept).into());
    }
    Ok(out)
}

pub fn pad(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let x = n.t(0)?;
    let mode = n.str("mode", "constant");
    let rank = x.rank() as i64;
    let (pads, value, which) = if n.opset < 11 {
        let pads = n
            .ints(if n.opset < 2 { "paddings" } else { "pads" })
            .ok_or("the pads are missing")?;
        (
            tr.vector(&pads),
            Some(tr.number(x.elem, n.float("value", 0.0))),
            None,
        )
    } else {
        (n.t(1)?, n.opt(2)?, n.opt(3)?)
    };
    let value = match value {
        Some(v) => tr.as_scalar(&v)?,
        None => tr.number(x.elem, 0.0),
    };
    let which_list = which
        .as_ref()
        .map_or(Some((0..rank).collect()), Val::const_ints);
    if let (Some(list), Some(axes)) = (pads.const_ints(), which_list)
        && mode != "wrap"
        && list.len() == 2 * axes.len()
    {
        let mut widths = vec![(0, 0); x.rank()];
        for (k, &a) in axes.iter().enumerate() {
            widths[x.axis(a)?] = (list[k], list[k + axes.len()]);
        }
        let y = pad_by(tr, &x, &widths, &value, &mode)?;
        return Ok(vec![y.into()]);
    }
    let pads = tr.as_vector(&pads)?;
    let which = match which {
        Some(v) => tr.as_vector(&v)?,
        None => tr.vector(&(0..rank).collect::<Vec<_>>()),
    };
    let y = tr.op(
        "dyn.pad",
        &[&x, &pads, &value, &which],
        &[("pad_mode", str(&mode))],
    )?;
    Ok(vec![y.into()])
}

/// Pads by constant widths before and after each axis.
pub fn pad_by(tr: &mut Tr<'_>, x: &Val, widths: &[(i64, i64)], value: &Val, mode: &str) -> R<Val> {
    if widths.iter().all(|&w| w == (0, 0)) {
        return Ok(x.clone());
    }
    let widths = widths.iter().map(|&(a, b)| ints(&[a, b]));
    let attrs = [
        ("pad_width", AttrValue::array(widths)),
        ("pad_mode", str(mode)),
    ];
    tr.op("nn.pad", &[x, value], &attrs)
}

fn depth_to_space(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let x = n.t(0)?;
    let x = tr.known(&x);
    let b = n.int("blocksize", 1);
    let [n_, c, h, w] = four(&x)?;
    let block = Dim::from(b);
    let depth = c.floordiv(&Dim::from(b.saturating_mul(b)));
    let (mid, order) = match n.str("mode", "DCR").as_str() {
        "DCR" => (
            [block.clone(), block.clone(), depth.clone()],
            [0, 3, 4, 1, 5, 2],
        ),
        "CRD" => (
            [depth.clone(), block.clone(), block.clone()],
            [0, 1, 4, 2, 5, 3],
        ),
        other => return unsupported(format!("mode {other} is not supported")),
    };
    let [p, q, r] = mid;
    let y = tr.reshape(&x, &[n_.clone(), p, q, r, h.clone(), w.clone()])?;
    let y = tr.transpose(&y, &order)?;
    Ok(vec![tr.reshape(&y, &[n_, depth, h * b, w * b])?.into()])
}
