//! Gathering and scattering, and operators that return indices.

use relax_ir::AttrValue;
use relax_sym::Dim;

use super::build::{dtype, flag, int, str};
use crate::graph::Tr;
use crate::node::{Node, R};
use crate::table::{Entry, op};
use crate::value::{Elem, Val, Value};

type Out = R<Vec<Value>>;

pub static OPS: &[Entry] = &[
    op("Gather", 1, gather),
    op("GatherElements", 11, gather_elements),
    op("GatherND", 11, gather_nd),
    op("Scatter", 9, scatter_elements),
    op("ScatterElements", 11, scatter_elements),
    op("ScatterND", 11, scatter_nd),
    op("NonZero", 9, |tr, n| {
        let x = n.t(0)?;
        let x = if x.rank() == 0 { tr.expand(&x, 0)? } else { x };
        let at = tr.op("argwhere", &[&x], &[])?;
        let at = tr.transpose(&at, &[1, 0])?;
        Ok(vec![tr.cast(&at, Elem::I64)?.into()])
    }),
    op("Compress", 9, compress),
    op("TopK", 1, top_k),
    op("Unique", 11, unique),
    op("CumSum", 11, |tr, n| cumulative(tr, n, "sum")),
    op("CumProd", 26, |tr, n| cumulative(tr, n, "prod")),
];

/// Normalises negative indices.
pub fn from_end(tr: &mut Tr<'_>, at: &Val, x: &Val, axis: usize) -> R<Val> {
    if let Some(list) = at.const_ints()
        && list.iter().all(|&i| i >= 0)
    {
        return Ok(at.clone());
    }
    let len = match x.dim(axis)?.as_const() {
        Some(len) => tr.number(at.elem, len as f64),
        None => {
            let s = tr.shape_of(x)?;
            let len = tr.pick(&s, 0, axis as i64)?;
            tr.cast(&len, at.elem)?
        }
    };
    let low = tr.by("less", at, 0.0)?;
    let up = tr.add(at, &len)?;
    tr.select(&low, &up, at)
}

fn gather(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (x, at) = (n.t(0)?, n.t(1)?);
    let axis = x.axis(n.int("axis", 0))?;
    let at = from_end(tr, &at, &x, axis)?;
    Ok(vec![tr.take(&x, &at, axis)?.into()])
}

fn gather_elements(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (x, at) = (n.t(0)?, n.t(1)?);
    let axis = x.axis(n.int("axis", 0))?;
    let at = from_end(tr, &at, &x, axis)?;
    let x = as_far_as(tr, &x, &at, axis)?;
    let mut y = tr.op("gather", &[&x, &at], &[("axis", int(axis as i64))])?;
    y.elem = x.elem;
    Ok(vec![y.into()])
}

/// Slices the data to the extents of the indices along the other axes, which may be smaller.
fn as_far_as(tr: &mut Tr<'_>, x: &Val, at: &Val, axis: usize) -> R<Val> {
    let mut x = x.clone();
    for a in 0..x.rank().min(at.rank()) {
        let Some(reach) = at.dim(a)?.as_const() else {
            continue;
        };
        if a == axis || x.dim(a)?.as_const().is_some_and(|len| len <= reach) {
            continue;
        }
        let elem = x.elem;
        x = tr.slice(&x, a, 0, reach)?;
        x.elem = elem;
        let mut dims = x.dims.to_vec();
        dims[a] = Dim::from(reach);
        x = tr.matched(&x, &dims);
    }
    Ok(x)
}

/// Moves the last axis to the front.
fn tuples_first(tr: &mut Tr<'_>, at: &Val) -> R<Val> {
    let rank = at.rank();
    let order: Vec<usize> = std::iter::once(rank - 1).chain(0..rank - 1).collect();
    tr.transpose(at, &order)
}

/// Normalises index tuples for the axes after the `batch` leading ones.
fn tuples(tr: &mut Tr<'_>, at: &Val, x: &Val, batch: usize) -> R<Val> {
    let last = at
        .rank()
        .checked_sub(1)
        .ok_or("the indices must have an axis")?;
    let len = at
        .dim(last)?
        .as_const()
        .ok_or("the length of the tuples of indices must be known")?;
    if at.const_ints().is_some_and(|l| l.iter().all(|&i| i >= 0)) {
        return tuples_first(tr, at);
    }
    let shape = tr.shape_of(x)?;
    let lens = tr.slice(&shape, 0, batch as i64, batch as i64 + len)?;
    let lens = tr.cast(&lens, at.elem)?;
    let low = tr.by("less", at, 0.0)?;
    let up = tr.add(at, &lens)?;
    let at = tr.select(&low, &up, at)?;
    tuples_first(tr, &at)
}

pub fn gather_nd(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (x, at) = (n.t(0)?, n.t(1)?);
    let batch = n.int("batch_dims", 0);
    let leading = usize::try_from(batch).ok().filter(|&b| b <= x.rank());
    let leading = leading.ok_or("`batch_dims` is not a number of axes of the data")?;
    let at = tuples(tr, &at, &x, leading)?;
    let mut attrs = Vec::new();
    if batch != 0 {
        attrs.push(("batch_dims", int(batch)));
    }
    let mut y = tr.op("gather_nd", &[&x, &at], &attrs)?;
    y.elem = x.elem;
    Ok(vec![y.into()])
}

fn reduction(n: &Node<'_>) -> &'static str {
    match n.str("reduction", "none").as_str() {
        "add" => "add",
        "mul" => "mul",
        "min" => "min",
        "max" => "max",
        _ => "update",
    }
}

fn scatter_elements(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (x, at, new) = (n.t(0)?, n.t(1)?, n.t(2)?);
    let axis = x.axis(n.int("axis", 0))?;
    let at = from_end(tr, &at, &x, axis)?;
    let attrs = [("axis", int(axis as i64)), ("reduction", str(reduction(n)))];
    let mut y = tr.op("scatter_elements", &[&x, &at, &new], &attrs)?;
    y.elem = x.elem;
    Ok(vec![y.into()])
}

fn scatter_nd(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (x, at, new) = (n.t(0)?, n.t(1)?, n.t(2)?);
    let at = tuples(tr, &at, &x, 0)?;
    let mut y = tr.op(
        "scatter_nd",
        &[&x, &at, &new],
        &[("mode", str(reduction(n)))],
    )?;
    y.elem = x.elem;
    Ok(vec![y.into()])
}

fn compress(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (x, c) = (n.t(0)?, n.t(1)?);
    let at = tr.op("argwhere", &[&c], &[])?;
    let at = tr.squeeze(&at, &[1])?;
    let (x, axis) = match n.attr("axis") {
        Some(a) => (x.clone(), x.axis(a.i)?),
        None => (tr.reshape(&x, &[x.size()])?, 0),
    };
    Ok(vec![tr.take(&x, &at, axis)?.into()])
}

fn top_k(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let x = n.t(0)?;
    let axis = x.axis(n.int("axis", -1))? as i64;
    let k = match n.opset < 10 {
        true => tr.vector(&[n.int("k", 1)]),
        false => n.t(1)?,
    };
    let mut attrs = vec![
        ("axis", int(axis)),
        ("is_ascend", flag(n.int("largest", 1) == 0)),
        ("dtype", dtype(relax_tensor::DType::I64)),
    ];
    let both = match k
        .const_ints()
        .and_then(|k| k.first().copied())
        .filter(|&k| k > 0)
    {
        Some(k) => {
            attrs.push(("k", int(k)));
            tr.ops("topk", &[&x], &attrs)?
        }
        None => {
            attrs.push(("k", AttrValue::None));
            let k = tr.as_scalar(&k)?;
            tr.ops("dyn.topk", &[&x, &k], &attrs)?
        }
    };
    Ok(both.into_iter().map(Value::Tensor).collect())
}

fn unique(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let x = n.t(0)?;
    let sorted = n.int("sorted", 1) != 0;
    let parts = match n.attr("axis") {
        None => {
            let flat = tr.reshape(&x, &[x.size()])?;
            tr.ops(
                "unique_slices",
                &[&flat],
                &[("axis", int(0)), ("sorted", flag(sorted))],
            )?
        }
        Some(a) => {
            let axis = x.axis(a.i)? as i64;
            tr.ops(
                "unique_slices",
                &[&x],
                &[("axis", int(axis)), ("sorted", flag(sorted))],
            )?
        }
    };
    Ok(parts.into_iter().map(Value::Tensor).collect())
}

fn cumulative(tr: &mut Tr<'_>, n: &Node<'_>, what: &str) -> Out {
    let (x, axis) = (n.t(0)?, n.t(1)?);
    let (exclusive, reverse) = (n.flag("exclusive"), n.flag("reverse"));
    let known = axis.const_ints().and_then(|a| a.first().copied());
    let Some(a) = known else {
        let axis = tr.as_scalar(&axis)?;
        let attrs = [("exclusive", flag(exclusive)), ("reverse", flag(reverse))];
        return Ok(vec![
            tr.op(&format!("dyn.cum{what}"), &[&x, &axis], &attrs)?
                .into(),
        ]);
    };
    let axis = x.axis(a)? as i64;
    let turn = |tr: &mut Tr<'_>, x: &Val| match reverse {
        true => tr.op("reverse", &[x], &[("axis", int(axis))]),
        false => Ok(x.clone()),
    };
    let x = turn(tr, &x)?;
    let mut attrs = vec![("axis", int(axis))];
    if exclusive {
        attrs.push(("exclusive", flag(true)));
    }
    let y = tr.op(&format!("cum{what}"), &[&x], &attrs)?;
    Ok(vec![turn(tr, &y)?.into()])
}
