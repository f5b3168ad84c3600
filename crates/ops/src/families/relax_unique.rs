//! Relax's operators with data-dependent result shapes: elements that are not 0, distinct elements.

use relax_ir::DTy;
use relax_loops::Ex;
use relax_sym::Dim;
use relax_tensor::DType as DT;

use super::distinct::distinct;
use super::util::{axis_attr, finish, finish_tuple, shaped, tensor_type};
use super::util_te::{Done, product, reshaped};
use crate::{RelCx, RelResult, Te};

pub(super) fn nonzero(cx: &mut RelCx<'_>) -> RelResult {
    let rank = match shaped(cx, 0)?.0 {
        Some(d) => Dim::from(d.len().max(1) as i64),
        None => Dim::ANY,
    };
    finish(cx, vec![rank, Dim::ANY], DT::I64)
}

pub(super) fn nonzero_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let holds = |e: Ex| e.cast(DT::BOOL);
    let count = te.temp("count", DT::I64, &[]);
    te.nest(|n| {
        n.set(&count, 0i64);
        n.grid(&x.shape, |n, i| {
            n.if_(holds(x.at(i)), |n| n.set(&count, count.scalar() + 1));
        });
    });
    let y = te.temp(
        "nonzero",
        DT::I64,
        &[Ex::idx(x.rank().max(1) as i64), count.scalar()],
    );
    te.nest(|n| {
        let column = n.cell(Ex::idx(0));
        n.grid(&x.shape, |n, i| {
            n.if_(holds(x.at(i)), |n| {
                let zero = [Ex::idx(0)];
                let index = if i.is_empty() { &zero } else { i };
                for (k, i) in index.iter().enumerate() {
                    n.store(&y, &[Ex::idx(k as i64), column.scalar()], i.clone());
                }
                n.set(&column, column.scalar() + 1);
            });
        });
    });
    te.output(&y);
    Ok(())
}

pub(super) fn unique(cx: &mut RelCx<'_>) -> RelResult {
    let (dims, dtype) = shaped(cx, 0)?;
    let mut all = Dim::ANY;
    let values = match (&dims, cx.attr("axis").as_int()) {
        (Some(dims), Some(_)) => {
            let axis = axis_attr(cx, "axis", dims.len())?;
            all = dims[axis].clone();
            let mut kept = dims.clone();
            kept[axis] = Dim::ANY;
            tensor_type(cx, kept, dtype)?
        }
        (None, Some(_)) => super::util::unranked_type(cx, dtype),
        (dims, None) => {
            if let Some(dims) = dims {
                all = dims.iter().fold(Dim::ONE, |n, d| &n * d);
            }
            tensor_type(cx, vec![Dim::ANY], dtype)?
        }
    };
    let some = tensor_type(cx, vec![Dim::ANY], DTy::from(DT::I64))?;
    let whole = tensor_type(cx, vec![all], DTy::from(DT::I64))?;
    let mut fields = vec![values];
    for (name, ty) in [
        ("return_index", some),
        ("return_inverse", whole),
        ("return_counts", some),
    ] {
        if cx.flag(name) {
            fields.push(ty);
        }
    }
    match fields[..] {
        [one] => cx.set_out(one),
        _ => finish_tuple(cx, fields),
    }
}

pub(super) fn unique_compute(te: &mut Te<'_>) -> Done {
    let mut x = te.arg(0);
    let axis = match te.attr("axis").as_int() {
        Some(_) => te.axis("axis", x.rank())?,
        None => {
            let n = product(&x.shape);
            x = reshaped(te, &x, &[n]);
            0
        }
    };
    let sorted = te.flag("sorted");
    let [values, starts, which, counts] = distinct(te, &x, axis, sorted);
    te.output(&values);
    for (name, t) in [
        ("return_index", starts),
        ("return_inverse", which),
        ("return_counts", counts),
    ] {
        if te.flag(name) {
            te.output(&t);
        }
    }
    Ok(())
}
