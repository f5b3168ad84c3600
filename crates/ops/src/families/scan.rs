//! Running sums and products.

use relax_loops::{BinOp, Ex, Hint, Lines};
use relax_sym::Dim;

use super::util::{axis_attr, dtype_or, finish, finish_like, shaped};
use super::util_te::{Done, product, set, unflat};
use crate::AttrTy::*;
use crate::{AttrDef, Default, OpDef, RelCx, RelResult, Te, attr, input};

const SCAN: &[AttrDef] = &[
    attr(
        "axis",
        Int,
        Default::None,
        "the axis; `None` for the flattened input",
    ),
    attr(
        "dtype",
        DType,
        Default::DType(""),
        "the element type; the input's where not given",
    ),
    attr(
        "exclusive",
        Bool,
        Default::Bool(false),
        "whether an element itself is left out",
    ),
];

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "cumsum",
        "The sum of all elements up to each one along an axis.",
        scan,
    )
    .hinted(super::hinted::cumsum)
    .inputs(&[input("data", "the input")])
    .attrs(SCAN)
    .meta_attrs("relay.attrs.ScanopAttrs")
    .compute(cumsum_compute),
    OpDef::new(
        "cumprod",
        "The product of all elements up to each one along an axis.",
        scan,
    )
    .hinted(super::hinted::cumprod)
    .inputs(&[input("data", "the input")])
    .attrs(SCAN)
    .meta_attrs("relay.attrs.ScanopAttrs")
    .compute(cumprod_compute),
];

fn scan(cx: &mut RelCx<'_>) -> RelResult {
    let t = cx.tensor(0)?;
    let (dims, dtype) = shaped(cx, 0)?;
    let dtype = dtype_or(cx, "dtype", dtype);
    if cx.attr("axis").is_none() {
        let count = dims.map_or(Dim::ANY, |d| d.iter().fold(Dim::ONE, |n, d| n * d));
        return finish(cx, vec![count], dtype);
    }
    if let Some(dims) = dims {
        axis_attr(cx, "axis", dims.len())?;
    }
    finish_like(cx, t, dtype)
}

/// Combines `start` with all elements up to each one, in order.
fn running(te: &mut Te<'_>, op: BinOp, start: i64) -> Done {
    let x = te.arg(0);
    let dtype = te.out(0).dtype;
    let exclusive = te.flag("exclusive");
    let whole = te.attr("axis").is_none();
    let (shape, axis) = match whole {
        true => (vec![product(&x.shape)], 0),
        false => (x.shape.clone(), te.axis("axis", x.rank())?),
    };
    let extent = shape.get(axis).ok_or("a scalar has no axis")?.clone();
    let lines = set(&shape, axis, Ex::idx(1));
    let y = te.temp("y", dtype, &shape);
    te.nest(|n| {
        n.grid(&lines, |n, line| {
            let sum = n.cell(Ex::int(dtype, start));
            n.for_(extent.clone(), |n, k| {
                let at = set(line, axis, k.clone());
                let element = if whole {
                    x.at(&unflat(k, &x.shape))
                } else {
                    x.at(&at)
                };
                let next = sum.scalar().binary(op, &element.cast(dtype));
                if exclusive {
                    n.store(&y, &at, sum.scalar());
                    n.set(&sum, next);
                } else {
                    n.set(&sum, next);
                    n.store(&y, &at, sum.scalar());
                }
            });
        });
    });
    if (!whole || x.rank() == 1) && x.dtype == dtype {
        let product = op == BinOp::Mul;
        let (data, work) = (x.buf, Lines::Running { product, exclusive });
        te.program
            .hints
            .push((y.buf, Hint::Lines { data, axis, work }));
    }
    te.output(&y);
    Ok(())
}

fn cumsum_compute(te: &mut Te<'_>) -> Done {
    running(te, BinOp::Add, 0)
}
fn cumprod_compute(te: &mut Te<'_>) -> Done {
    running(te, BinOp::Mul, 1)
}
