//! Constants, extents, and tensors computed from them.

use relax_ir::AttrValue;
use relax_sym::Dim;
use relax_tensor::Tensor;

use super::build::{dtype, flag, int, ints};
use crate::graph::Tr;
use crate::node::{Node, R, unsupported};
use crate::table::{Entry, op};
use crate::value::{Elem, Val, Value};

type Out = R<Vec<Value>>;

pub static OPS: &[Entry] = &[
    op("Constant", 1, constant),
    op("ConstantOfShape", 9, constant_of_shape),
    op("Shape", 1, shape),
    op("Size", 1, size),
    op("Reshape", 1, reshape),
    op("Flatten", 1, flatten),
    op("Squeeze", 1, squeeze),
    op("Unsqueeze", 1, unsqueeze),
    op("Expand", 8, expand),
    op("Tile", 1, tile),
    op("Range", 11, range),
    op("EyeLike", 9, eye_like),
    op("OneHot", 9, one_hot),
];

fn constant(_: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let hint = n.proto.output.first().map_or("c", |o| o.as_str());
    let hint = crate::names::readable(hint, "c");
    let made = |t: Tensor, elem: Elem| Ok(vec![Val::constant(t, elem, &hint).into()]);
    let Some(a) = n.proto.attribute.first() else {
        return Err("a constant without value".into());
    };
    match a.name.as_str() {
        "value" => match n.tensor("value")? {
            Some((t, elem)) => made(t, elem),
            None => Err("attribute `value` must be a tensor".into()),
        },
        "value_float" => made(Tensor::from_slice(&[], &[a.f]), Elem::F32),
        "value_floats" => made(
            Tensor::from_slice(&[a.floats.len() as i64], &a.floats),
            Elem::F32,
        ),
        "value_int" => made(Tensor::from_slice(&[], &[a.i]), Elem::I64),
        "value_ints" => made(
            Tensor::from_slice(&[a.ints.len() as i64], &a.ints),
            Elem::I64,
        ),
        "sparse_value" => {
            let s = a
                .sparse_tensor
                .as_ref()
                .ok_or("attribute `sparse_value` must be a sparse tensor")?;
            let (t, elem) = crate::tensor::dense(s)?;
            made(t, elem)
        }
        other => unsupported(format!("constants by `{other}` are not supported")),
    }
}

/// Returns the extents that a vector describes, if they are known.
fn described(v: &Val) -> Option<Vec<Dim>> {
    v.ints.as_ref().map(|d| d.to_vec())
}

/// Returns a tensor with the extents known from the vector that gives its shape; numbers below
/// `least` are not extents there.
fn with_hints(tr: &mut Tr<'_>, y: &Val, hints: Option<&[Dim]>, least: i64) -> Val {
    let Some(hints) = hints.filter(|h| h.len() == y.rank()) else {
        return y.clone();
    };
    let known = |(d, h): (&Dim, &Dim)| match h.as_const() {
        Some(n) if n >= least && d.as_const().is_none() => h.clone(),
        _ => d.clone(),
    };
    let dims: Vec<Dim> = y.dims.iter().zip(hints).map(known).collect();
    tr.matched(y, &dims)
}

fn constant_of_shape(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let to = n.t(0)?;
    let (value, elem) = match n.tensor("value")? {
        Some((t, elem)) => (
            t.reshape(&[])
                .ok_or("attribute `value` must have one element")?,
            elem,
        ),
        None => (Tensor::scalar_f64(relax_tensor::DType::F32, 0.0), Elem::F32),
    };
    let v = Val::constant(value, elem, "c");
    if let Some(dims) = described(&to) {
        return Ok(vec![tr.full(&v, &dims)?.into()]);
    }
    let attrs = [("shape", AttrValue::None), ("dtype", dtype(v.dtype()))];
    let mut y = tr.op("dyn.full", &[&v, &to], &attrs)?;
    y.elem = elem;
    let y = with_hints(tr, &y, to.hints(), 0);
    Ok(vec![y.into()])
}

fn shape(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let given = n.t(0)?;
    let x = tr.known(&given);
    if given.dims != x.dims {
        // Later users see the same names.
        tr.define(&n.proto.input[0], Value::Tensor(x.clone()));
    }
    let rank = x.rank() as i64;
    let bound = |v: i64| (if v < 0 { v + rank } else { v }).clamp(0, rank);
    let (start, end) = (bound(n.int("start", 0)), bound(n.int("end", rank)));
    let end = end.max(start);
    let s = tr.shape_of(&x)?;
    if (start, end) == (0, rank) {
        return Ok(vec![s.into()]);
    }
    Ok(vec![tr.slice(&s, 0, start, end)?.into()])
}

fn size(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let x = n.t(0)?;
    let y = tr.op(
        "ndarray_size",
        &[&x],
        &[("dtype", dtype(relax_tensor::DType::I64))],
    )?;
    let y = tr.as_scalar(&y)?;
    Ok(vec![y.into()])
}

fn reshape(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let x = n.t(0)?;
    if n.opset < 5 {
        let to: Vec<Dim> = n
            .ints("shape")
            .unwrap_or_default()
            .into_iter()
            .map(Dim::from)
            .collect();
        return Ok(vec![reshape_to(tr, &x, &to, false)?.into()]);
    }
    let to = n.t(1)?;
    let zero = n.flag("allowzero");
    if let Some(dims) = described(&to) {
        return Ok(vec![reshape_to(tr, &x, &dims, zero)?.into()]);
    }
    let hints = to.hints().map(<[Dim]>::to_vec);
    let to = tr.as_vector(&to)?;
    let mut attrs = vec![("newshape", AttrValue::None)];
    if zero {
        attrs.push(("allowzero", flag(true)));
    }
    let mut y = tr.op("dyn.reshape", &[&x, &to], &attrs)?;
    y.elem = x.elem;
    let y = with_hints(tr, &y, hints.as_deref(), 1);
    Ok(vec![y.into()])
}

/// Emits a reshape with ONNX's rules: 0 copies an extent, -1 is inferred.
fn reshape_to(tr: &mut Tr<'_>, x: &Val, to: &[Dim], zero: bool) -> R<Val> {
    let mut dims = Vec::with_capacity(to.len());
    let mut open = None;
    for (i, d) in to.iter().enumerate() {
        match d.as_const() {
            Some(0) if !zero => {
                let copied = x
                    .dims
                    .get(i)
                    .ok_or("an extent of 0 copies one that is not there")?;
                dims.push(copied.clone());
            }
            Some(-1) => {
                open = Some(i);
                dims.push(Dim::ONE);
            }
            _ => dims.push(d.clone()),
        }
    }
    if let Some(at) = open {
        let rest: Dim = dims.iter().fold(Dim::ONE, |n, d| n * d);
        let whole = x.size();
        dims[at] = match rest.as_const() {
            Some(0) => Dim::ZERO,
            _ if !whole.is_known() || !rest.is_known() => Dim::ANY,
            _ => quotient(&whole, &rest),
        };
    }
    let unknown = dims.iter().filter(|d| !d.is_known()).count();
    if unknown > 1 {
        let x = tr.known(x);
        return reshape_to(tr, &x, to, zero);
    }
    tr.reshape(x, &dims)
}

/// Returns the quotient of two products of extents.
fn quotient(whole: &Dim, part: &Dim) -> Dim {
    let q = whole.floordiv(part);
    if &q * part == *whole || whole.as_const().is_some() && part.as_const().is_some() {
        return q;
    }
    q
}

fn flatten(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let x = n.t(0)?;
    let axis = n.int("axis", 1);
    let rank = x.rank() as i64;
    let at = if axis < 0 { axis + rank } else { axis };
    if !(0..=rank).contains(&at) {
        return Err(format!("axis {axis} is out of range for rank {rank}").into());
    }
    let x = tr.known(&x);
    let product = |d: &[Dim]| d.iter().fold(Dim::ONE, |n, d| n * d);
    let to = [
        product(x.part(..at as usize)?),
        product(x.part(at as usize..)?),
    ];
    Ok(vec![tr.reshape(&x, &to)?.into()])
}

/// Returns the axes in an attribute, or since version 13 in an input; the input itself if they are
/// only known at run time.
fn given_axes(n: &Node<'_>) -> R<Result<Option<Vec<i64>>, Val>> {
    if n.opset < 13 {
        return Ok(Ok(n.ints("axes")));
    }
    Ok(match n.opt(1)? {
        None => Ok(None),
        Some(v) => v.const_ints().map(Some).ok_or(v),
    })
}

fn squeeze(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let x = n.t(0)?;
    let which: Vec<usize> = match given_axes(n)? {
        Err(v) => {
            let v = tr.as_vector(&v)?;
            let mut y = tr.op("dyn.squeeze", &[&x, &v], &[("axis", AttrValue::None)])?;
            y.elem = x.elem;
            return Ok(vec![y.into()]);
        }
        Ok(Some(list)) => list.iter().map(|&a| x.axis(a)).collect::<Result<_, _>>()?,
        Ok(None) => (0..x.rank())
            .filter(|&a| x.dims[a].as_const() == Some(1))
            .collect(),
    };
    Ok(vec![tr.squeeze(&x, &which)?.into()])
}

fn unsqueeze(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let x = n.t(0)?;
    let list = match given_axes(n)? {
        Err(v) => {
            let v = tr.as_vector(&v)?;
            let mut y = tr.op("dyn.unsqueeze", &[&x, &v], &[])?;
            y.elem = x.elem;
            return Ok(vec![y.into()]);
        }
        Ok(list) => list.ok_or("the axes are missing")?,
    };
    let rank = x.rank() + list.len();
    let places = list
        .iter()
        .map(|&a| crate::value::axis_of(a, rank))
        .collect::<Result<Vec<_>, _>>()?;
    let mut y = tr.expand_all(&x, &places)?;
    if y.tensor().is_none() {
        y.ints = x.ints;
    }
    Ok(vec![y.into()])
}

fn expand(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (x, to) = (n.t(0)?, n.t(1)?);
    let Some(dims) = described(&to) else {
        let hints = to.hints().map(<[Dim]>::to_vec);
        let to = tr.as_vector(&to)?;
        let mut y = tr.op("dyn.expand", &[&x, &to], &[])?;
        y.elem = x.elem;
        let y = with_hints(tr, &y, hints.as_deref(), 2);
        return Ok(vec![y.into()]);
    };
    // Either operand may have the 1.
    let rank = dims.len().max(x.rank());
    let mut out = Vec::with_capacity(rank);
    for a in 0..rank {
        let at = |d: &[Dim]| (a + d.len()).checked_sub(rank).map(|i| d[i].clone());
        out.push(match (at(&x.dims), at(&dims)) {
            (Some(d), Some(e)) if e.as_const() == Some(1) => d,
            (Some(d), Some(e))
                if d.as_const().is_some_and(|d| d != 1) && e.as_const().is_none() =>
            {
                d
            }
            (_, Some(e)) => e,
            (Some(d), None) => d,
            (None, None) => Dim::ONE,
        });
    }
    if out.iter().any(|d| !d.is_known()) {
        let to = tr.as_vector(&to)?;
        let mut y = tr.op("dyn.expand", &[&x, &to], &[])?;
        y.elem = x.elem;
        return Ok(vec![y.into()]);
    }
    Ok(vec![tr.broadcast(&x, &out)?.into()])
}

fn tile(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (x, reps) = (n.t(0)?, n.t(1)?);
    if n.opset < 6 {
        // The first version repeats one axis.
        let one = |v: &Val| v.const_floats().and_then(|v| v.first().map(|&n| n as i64));
        let (Some(count), Some(axis)) = (one(&reps), one(&n.t(2)?)) else {
            return unsupported("the first version of the operator takes constants here");
        };
        let mut list = vec![1; x.rank()];
        list[x.axis(axis)?] = count;
        return Ok(vec![tr.op("tile", &[&x], &[("reps", ints(&list))])?.into()]);
    }
    let mut y = match reps.const_ints() {
        Some(list) if list.iter().all(|&r| r > 0) => {
            tr.op("tile", &[&x], &[("reps", ints(&list))])?
        }
        _ => {
            let reps = tr.as_vector(&reps)?;
            tr.op("dyn.tile", &[&x, &reps], &[("reps", AttrValue::None)])?
        }
    };
    y.elem = x.elem;
    Ok(vec![y.into()])
}

pub fn range(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let [a, b, c] = [0, 1, 2].map(|i| n.t(i));
    let (a, b, c) = (a?, b?, c?);
    let parts = [&a, &b, &c];
    let mut scalars = Vec::new();
    for v in parts {
        scalars.push(tr.as_scalar(v)?);
    }
    let number = |v: &Val| match v.tensor().filter(|t| !t.is_empty()) {
        Some(t) if v.elem.is_float() => AttrValue::Float(t.get_f64(0)),
        Some(t) => AttrValue::Int(t.get_i64(0)),
        None => AttrValue::None,
    };
    let attrs = [
        ("start", number(&a)),
        ("stop", number(&b)),
        ("step", number(&c)),
        ("dtype", dtype(a.dtype())),
    ];
    let mut y = tr.op("arange", &[&scalars[0], &scalars[1], &scalars[2]], &attrs)?;
    // From zero up to an extent with step 1: the length is that extent.
    if let (Some(0), Some(1), Some(end)) = (
        a.const_ints().and_then(|v| v.first().copied()),
        c.const_ints().and_then(|v| v.first().copied()),
        b.ints.as_ref().and_then(|d| d.first()),
    ) && y.dim(0)?.is_any()
        && end.as_const().is_none()
    {
        y = tr.matched(&y, std::slice::from_ref(end));
    }
    Ok(vec![y.into()])
}

fn eye_like(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let x = n.t(0)?;
    if x.rank() != 2 {
        return Err("it takes a matrix".into());
    }
    let elem = n.elem("dtype").unwrap_or(x.elem);
    let k = n.int("k", 0);
    let x = tr.known(&x);
    let (rows, columns) = (tr.iota(&x, 0)?, tr.iota(&x, 1)?);
    let rows = tr.by("add", &rows, k as f64)?;
    let rows = tr.expand(&rows, 1)?;
    let same = tr.binary("equal", &rows, &columns)?;
    Ok(vec![tr.cast(&same, elem)?.into()])
}

fn one_hot(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let (at, depth, values) = (n.t(0)?, n.t(1)?, n.t(2)?);
    let at = tr.cast(&at, Elem::I64)?;
    let depth = tr.cast(&depth, Elem::I64)?;
    let depth = tr.as_scalar(&depth)?;
    // Negative indices count from the end.
    let low = tr.by("less", &at, 0.0)?;
    let up = tr.add(&at, &depth)?;
    let at = tr.select(&low, &up, &at)?;
    let (off, on) = (tr.pick(&values, 0, 0)?, tr.pick(&values, 0, 1)?);
    let mut axis = n.int("axis", -1);
    if axis < 0 {
        axis += at.rank() as i64 + 1;
    }
    let attrs = [("axis", int(axis)), ("dtype", dtype(values.dtype()))];
    let y = match depth.const_ints().and_then(|d| d.first().copied()) {
        Some(d) => {
            let attrs = [attrs[0].clone(), attrs[1].clone(), ("depth", int(d))];
            tr.op("one_hot", &[&at, &on, &off], &attrs)?
        }
        None => tr.op("dyn.one_hot", &[&at, &on, &off, &depth], &attrs)?,
    };
    Ok(vec![y.into()])
}
