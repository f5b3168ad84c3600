//! Reductions over axes.

use super::build::{axes, flag};
use crate::graph::Tr;
use crate::node::{Node, R, unsupported};
use crate::table::{Entry, op};
use crate::value::{Elem, Val, Value};

type Out = R<Vec<Value>>;

pub static OPS: &[Entry] = &[
    op("ReduceSum", 1, |tr, n| {
        let x = n.t(0)?;
        Ok(vec![reduced(tr, n, &x, "sum", 13)?.into()])
    }),
    op("ReduceProd", 1, |tr, n| {
        let x = n.t(0)?;
        Ok(vec![reduced(tr, n, &x, "prod", 18)?.into()])
    }),
    op("ReduceMean", 1, |tr, n| {
        let x = n.t(0)?;
        Ok(vec![reduced(tr, n, &x, "mean", 18)?.into()])
    }),
    op("ReduceMax", 1, |tr, n| extreme(tr, n, "max")),
    op("ReduceMin", 1, |tr, n| extreme(tr, n, "min")),
    op("ReduceL1", 1, |tr, n| {
        let x = n.t(0)?;
        let x = tr.unary("abs", &x)?;
        Ok(vec![reduced(tr, n, &x, "sum", 18)?.into()])
    }),
    op("ReduceL2", 1, |tr, n| {
        let x = n.t(0)?;
        let x = tr.mul(&x, &x)?;
        let s = reduced(tr, n, &x, "sum", 18)?;
        Ok(vec![tr.unary("sqrt", &s)?.into()])
    }),
    op("ReduceSumSquare", 1, |tr, n| {
        let x = n.t(0)?;
        let x = tr.mul(&x, &x)?;
        Ok(vec![reduced(tr, n, &x, "sum", 18)?.into()])
    }),
    op("ReduceLogSum", 1, |tr, n| {
        let x = n.t(0)?;
        let s = reduced(tr, n, &x, "sum", 18)?;
        Ok(vec![tr.unary("log", &s)?.into()])
    }),
    op("ReduceLogSumExp", 1, log_sum_exp),
    op("ArgMax", 1, |tr, n| arg(tr, n, "argmax")),
    op("ArgMin", 1, |tr, n| arg(tr, n, "argmin")),
];

/// The axes of a reduction.
enum Over {
    /// Known axes.
    Axes(Vec<usize>),
    /// Axes in a tensor.
    Runtime(Val),
    /// None: the operation is elementwise.
    None,
}

fn over(n: &Node<'_>, x: &Val, as_input: i64) -> R<Over> {
    let noop = n.flag("noop_with_empty_axes");
    let given = if n.opset < as_input {
        n.ints("axes")
    } else {
        match n.opt(1)? {
            None => None,
            Some(v) => match v.const_ints() {
                Some(ints) => Some(ints),
                None if v.dims.first().and_then(relax_sym::Dim::as_const) == Some(0) => None,
                None => return Ok(Over::Runtime(v)),
            },
        }
    };
    match given.filter(|g| !g.is_empty()) {
        None if noop => Ok(Over::None),
        None => Ok(Over::Axes((0..x.rank()).collect())),
        Some(list) => {
            let mut list = list
                .iter()
                .map(|&a| x.axis(a))
                .collect::<Result<Vec<_>, _>>()?;
            list.sort_unstable();
            list.dedup();
            Ok(Over::Axes(list))
        }
    }
}

/// Emits a reduction over the node's axes, which became an input in version `as_input`.
fn reduced(tr: &mut Tr<'_>, n: &Node<'_>, x: &Val, name: &str, as_input: i64) -> R<Val> {
    let keep = n.int("keepdims", 1) != 0;
    match over(n, x, as_input)? {
        Over::None => Ok(x.clone()),
        Over::Axes(list) => tr.reduce(name, x, &list, keep),
        Over::Runtime(v) => {
            let v = tr.as_vector(&v)?;
            let y = tr.op(&format!("dyn.{name}"), &[x, &v], &[])?;
            match keep {
                true => Ok(y),
                false => tr.op(
                    "dyn.squeeze",
                    &[&y, &v],
                    &[("axis", relax_ir::AttrValue::None)],
                ),
            }
        }
    }
}

fn extreme(tr: &mut Tr<'_>, n: &Node<'_>, name: &str) -> Out {
    let x = n.t(0)?;
    if x.elem.is_float() {
        // The native maxima start at the least finite number, so reductions of only infinities, or
        // of nothing, are handled here.
        let (compare, end) = match name {
            "max" => ("greater", f64::NEG_INFINITY),
            _ => ("less", f64::INFINITY),
        };
        let y = reduced(tr, n, &x, name, 18)?;
        let inside = tr.by(compare, &x, end)?;
        let any = tr.cast(&inside, Elem::U8)?;
        let any = reduced(tr, n, &any, "max", 18)?;
        let any = tr.by("greater", &any, 0.0)?;
        let end = tr.number(x.elem, end);
        return Ok(vec![tr.select(&any, &y, &end)?.into()]);
    }
    if x.elem != Elem::BOOL {
        return Ok(vec![reduced(tr, n, &x, name, 18)?.into()]);
    }
    let x = tr.cast(&x, Elem::U8)?;
    let y = reduced(tr, n, &x, name, 18)?;
    Ok(vec![tr.cast(&y, Elem::BOOL)?.into()])
}

/// The maximum is subtracted first to avoid overflow.
fn log_sum_exp(tr: &mut Tr<'_>, n: &Node<'_>) -> Out {
    let x = n.t(0)?;
    let Over::Axes(list) = over(n, &x, 18)? else {
        let e = tr.unary("exp", &x)?;
        let s = reduced(tr, n, &e, "sum", 18)?;
        return Ok(vec![tr.unary("log", &s)?.into()]);
    };
    let most = tr.reduce("max", &x, &list, true)?;
    let finite = tr.unary("isfinite", &most)?;
    let zero = tr.number(x.elem, 0.0);
    let most = tr.select(&finite, &most, &zero)?;
    let d = tr.sub(&x, &most)?;
    let e = tr.unary("exp", &d)?;
    let s = tr.reduce("sum", &e, &list, true)?;
    let l = tr.unary("log", &s)?;
    let mut y = tr.add(&l, &most)?;
    if n.int("keepdims", 1) == 0 {
        y = tr.squeeze(&y, &list)?;
    }
    Ok(vec![y.into()])
}

fn arg(tr: &mut Tr<'_>, n: &Node<'_>, name: &str) -> Out {
    let x = n.t(0)?;
    if x.elem.narrow().is_some() {
        return unsupported(format!(
            "elements of type {} are not supported",
            x.elem.name()
        ));
    }
    let axis = x.axis(n.int("axis", 0))?;
    let mut attrs = vec![("axis", axes(&[axis]))];
    if n.int("keepdims", 1) != 0 {
        attrs.push(("keepdims", flag(true)));
    }
    if n.flag("select_last_index") {
        attrs.push(("select_last_index", flag(true)));
    }
    let y = tr.op(name, &[&x], &attrs)?;
    Ok(vec![tr.cast(&y, Elem::I64)?.into()])
}
