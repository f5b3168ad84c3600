//! Searching in sorted sequences, and finding distinct elements.

use relax_loops::{Ex, TensorRef};
use relax_sym::Dim;
use relax_tensor::DType as DT;

use super::sort::{Outputs, sort_lines};
use super::util::{check_eq, dtype_or, finish, finish_tuple, shaped, tensor_type};
use super::util_te::Done;
use crate::AttrTy::*;
use crate::{Default, OpDef, RelCx, RelResult, Subject, Te, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new("searchsorted", "Where each value would be put into a sorted sequence.", searchsorted)
        .inputs(&[input("sorted_sequence", "the sequences, along the last axis"), input("values", "the values")])
        .attrs(&[
            attr("right", Bool, Default::Bool(false), "whether a value is put after equal elements"),
            attr("dtype", DType, Default::DType("int32"), "the element type of the output"),
        ])
        .compute(searchsorted_compute),
    OpDef::new("unique", "The distinct elements of a vector, where each occurs first, which one each element is, how many there are, and how often each occurs.", unique)
        .inputs(&[input("data", "the input, a vector")])
        .attrs(&[
            attr("sorted", Bool, Default::Bool(true), "whether they are in order of size rather than of occurrence"),
            attr("return_counts", Bool, Default::Bool(false), "whether to count"),
        ])
        .meta_attrs("relay.attrs.UniqueAttrs")
        .compute(unique_compute),
];

fn searchsorted(cx: &mut RelCx<'_>) -> RelResult {
    let (sequence, a) = shaped(cx, 0)?;
    let (values, b) = shaped(cx, 1)?;
    cx.require_dtype(
        a,
        b,
        Subject::Arg(1),
        "sequence and values have one element type",
    )?;
    let dtype = dtype_or(cx, "dtype", DT::I32.into());
    if let Some(d) = dtype.known().filter(|d| !d.is_integral()) {
        return cx.refuse(
            Subject::Attr("dtype"),
            format!("`dtype` is the type of indices, so it must be an integer type, not {d}"),
        );
    }
    let Some(values) = values else {
        return cx.finish_unranked(dtype);
    };
    if values.is_empty() {
        return cx.refuse(Subject::Arg(1), "the values must have at least one axis");
    }
    if let Some(sequence) = sequence {
        let (s, v) = (sequence.len(), values.len());
        if s == 0 || (s > 1 && s != v) {
            return cx.refuse(
                Subject::Arg(0),
                format!(
                    "the sequence must be a vector or have the values' rank {v}, but has rank {s}"
                ),
            );
        }
        if s > 1 {
            for k in 0..v - 1 {
                check_eq(
                    cx,
                    &sequence[k],
                    &values[k],
                    Subject::Arg(1),
                    &format!("sequence and values agree in axis {k}"),
                )?;
            }
        }
    }
    finish(cx, values, dtype)
}

/// Values that are searched for together: the loads of one search depend on each other, those of
/// several are under way at once.
const TOGETHER: i64 = 16;

fn searchsorted_compute(te: &mut Te<'_>) -> Done {
    let (s, v) = (te.arg(0), te.arg(1));
    let right = te.flag("right");
    let last = s.shape.last().ok_or("the sequence has no axis")?.clone();
    let dtype = te.out(0).dtype;
    let y = te.temp("y", dtype, &v.shape);
    let one = std::slice::from_ref;
    let (count, rows) = v.shape.split_last().ok_or("the values have no axis")?;
    te.nest(|n| {
        n.grid(rows, |n, row| {
            let blocks = (count + (TOGETHER - 1)).floor_div(TOGETHER);
            n.for_(blocks, |n, block| {
                // Not named, so that blocks are seen to be independent of each other.
                let first = block * TOGETHER;
                let many = (count - &first).min(TOGETHER);
                let at = |j: &Ex| [row, &[&first + j]].concat();
                let place = |at: Ex| s.at(&[&row[..s.rank() - 1], &[at]].concat());
                let before = |at: Ex, value: &Ex| match right {
                    true => place(at).le(value),
                    false => place(at).lt(value),
                };
                let low = n.local("low", DT::I64, &[Ex::idx(TOGETHER)]);
                n.for_(many.clone(), |n, j| n.store(&low, one(j), 0));
                // The extent that is left does not depend on comparisons, and they choose without
                // a branch, which would be mispredicted every other time.
                let left = n.cell(last.clone());
                n.while_(left.scalar().gt(1i64), |n| {
                    let half = n.let_(left.scalar().floor_div(2));
                    n.for_(many.clone(), |n, j| {
                        let begin = n.let_(low.at(one(j)));
                        let beyond = n.let_(before(&begin + &half - 1, &v.at(&at(j))));
                        let next = Ex::where_(&beyond, &(&begin + &half), &begin);
                        n.store(&low, one(j), next);
                    });
                    n.set(&left, left.scalar() - &half);
                });
                n.if_(left.scalar().gt(0i64), |n| {
                    n.for_(many.clone(), |n, j| {
                        let begin = n.let_(low.at(one(j)));
                        let beyond = n.let_(before(begin.clone(), &v.at(&at(j))));
                        n.store(&low, one(j), Ex::where_(&beyond, &(&begin + 1), &begin));
                    });
                });
                n.for_(many, |n, j| {
                    n.store(&y, &at(j), low.at(one(j)).cast(y.dtype))
                });
            });
        });
    });
    te.output(&y);
    Ok(())
}

fn unique(cx: &mut RelCx<'_>) -> RelResult {
    let (dims, dtype) = shaped(cx, 0)?;
    let dims = dims.unwrap_or(vec![Dim::ANY]);
    if dims.len() != 1 {
        let rank = dims.len();
        return cx.refuse(
            Subject::Arg(0),
            format!("`unique` takes a vector, but the input has rank {rank}"),
        );
    }
    let values = tensor_type(cx, dims.clone(), dtype)?;
    let indices = tensor_type(cx, dims, DT::I32)?;
    let count = tensor_type(cx, vec![Dim::ONE], DT::I32)?;
    let mut fields = vec![values, indices, indices, count];
    if cx.flag("return_counts") {
        fields.push(indices);
    }
    finish_tuple(cx, fields)
}

/// All outputs have the input's extent. Beyond the number of distinct elements, values and counts
/// are 0 and first occurrences are the input's extent.
fn unique_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let [extent] = x.shape.as_slice() else {
        return Err("`unique` takes a vector".into());
    };
    let (by_size, counted) = (te.flag("sorted"), te.flag("return_counts"));
    let values = te.temp("values", x.dtype, &x.shape);
    let first = te.temp("first", DT::I32, &x.shape);
    let which = te.temp("which", DT::I32, &x.shape);
    let number = te.temp("number", DT::I32, &[Ex::idx(1)]);
    let counts = te.temp("counts", DT::I32, &x.shape);
    let order = te.temp("order", DT::I64, &x.shape);
    let indices = Outputs {
        values: None,
        indices: Some(order.clone()),
    };
    sort_lines(te, &x, (0, true), extent, &indices);
    if by_size {
        by_size_of(te, &x, &order, [&values, &first, &which, &number, &counts]);
    } else {
        by_occurrence(te, &x, &order, [&values, &first, &which, &number, &counts]);
    }
    for t in [&values, &first, &which, &number] {
        te.output(t);
    }
    if counted {
        te.output(&counts);
    }
    Ok(())
}

/// The distinct elements in order of size, from the stable order of all: the first of equal ones,
/// which are adjacent there, is the one that occurs first.
fn by_size_of(
    te: &mut Te<'_>,
    x: &TensorRef,
    order: &TensorRef,
    [values, first, which, number, counts]: [&TensorRef; 5],
) {
    let (extent, one) = (&x.shape[0], std::slice::from_ref);
    te.nest(|n| {
        let found = n.cell(Ex::idx(0));
        let last = n.cell(x.at(&[Ex::idx(0)]).same(0.0));
        n.for_(extent.clone(), |n, k| {
            let at = n.let_(order.at(one(k)));
            let value = n.let_(x.at(one(&at)));
            let new = n.let_(k.eq(0i64) | value.ne(last.scalar()));
            n.set(&found, found.scalar() + new.cast(DT::I64));
            n.set(&last, value.clone());
            // Without branches, which nobody could predict.
            let to = n.let_(found.scalar() - 1);
            let chosen = |t: &TensorRef, v: Ex| Ex::where_(&new, &v, &t.at(one(&to)));
            n.store(values, one(&to), chosen(values, value.clone()));
            n.store(first, one(&to), chosen(first, at.cast(DT::I32)));
            let before = chosen(counts, Ex::int(DT::I32, 0));
            n.store(counts, one(&to), before + 1);
            n.store(which, &[at], to.cast(DT::I32));
        });
        let total = n.let_(found.scalar());
        n.store(number, &[Ex::idx(0)], total.cast(DT::I32));
        n.for_(extent - &total, |n, k| {
            let k = [k + &total];
            n.store(values, &k, 0i64);
            n.store(counts, &k, 0i64);
            n.store(first, &k, extent.cast(DT::I32));
        });
    });
}

/// The distinct elements in the order in which they occur.
fn by_occurrence(
    te: &mut Te<'_>,
    x: &TensorRef,
    order: &TensorRef,
    [values, first, which, number, counts]: [&TensorRef; 5],
) {
    let (extent, one) = (&x.shape[0], std::slice::from_ref);
    te.nest(|n| {
        // The group of each element, in order of size; equal elements are adjacent.
        let group = n.local("group", DT::I64, &x.shape);
        let place = n.local("place", DT::I64, &x.shape);
        let found = n.cell(Ex::idx(0));
        n.for_(extent.clone(), |n, k| {
            n.store(values, one(k), 0i64);
            n.store(counts, one(k), 0i64);
            n.store(first, one(k), extent.cast(DT::I32));
            n.store(&place, one(k), Ex::idx(-1));
            let at = n.let_(order.at(one(k)));
            let before = order.at(&[(k - 1).max(0i64)]);
            let new = k.eq(0i64) | x.at(one(&at)).ne(x.at(&[before]));
            n.if_(new, |n| n.set(&found, found.scalar() + 1));
            n.store(&group, &[at], found.scalar() - 1);
        });
        n.store(number, &[Ex::idx(0)], found.scalar().cast(DT::I32));
        let next = n.cell(Ex::idx(0));
        n.for_(extent.clone(), |n, i| {
            let g = n.let_(group.at(one(i)));
            n.if_(place.at(one(&g)).lt(0i64), |n| {
                let to = n.let_(next.scalar());
                n.store(&place, one(&g), to.clone());
                n.store(values, one(&to), x.at(one(i)));
                n.store(first, one(&to), i.cast(DT::I32));
                n.set(&next, next.scalar() + 1);
            });
            let to = n.let_(place.at(one(&g)));
            n.store(which, one(i), to.cast(DT::I32));
            n.store(counts, one(&to), counts.at(one(&to)) + 1);
        });
    });
}
