//! Reshaping: the same elements, in row-major order, under another shape.

use relax_ir::{AttrValue, DTy};
use relax_loops::Ex;
use relax_sym::Dim;

use super::extent_rules::{Item, new_extents};
use super::util::{anys, check_eq, finish, shaped, vector_len};
use super::util_te::{Done, elements, product, reshaped};
use crate::AttrTy::*;
use crate::{
    AttrDef, ComputeError, Default, Former, Fusion, OpDef, RelCx, RelResult, Relaid, Relayout,
    Subject, Te, attr, former, input,
};

const NEWSHAPE: &[AttrDef] = &[
    attr(
        "newshape",
        Dims,
        Default::Required,
        "the new extents; 0 copies an extent, -1 is what is left, -2 copies all that remain, -3 merges two, -4 splits one by the two numbers that follow",
    ),
    attr(
        "allowzero",
        Bool,
        Default::Bool(false),
        "whether 0 is the extent 0",
    ),
];

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "reshape",
        "The same elements in the same order under another shape.",
        reshape,
    )
    .reshape()
    .affine_ordered(super::affine_rules::selection)
    .layout(relaid)
    .former(&[Former::form("reshape", 7, former::reversed)])
    .inputs(&[input("data", "the input")])
    .attrs(NEWSHAPE)
    .fusion(Fusion::Injective)
    .compute(reshape_compute),
    OpDef::new(
        "contrib_reverse_reshape",
        "`reshape` whose special numbers are read from right to left.",
        reverse_reshape,
    )
    .reshape()
    .former(&[
        Former::form("_contrib_reverse_reshape", 6, former::reversed),
        Former::form("contrib_reverse_reshape", 7, former::reversed),
    ])
    .inputs(&[input("data", "the input")])
    .attrs(NEWSHAPE)
    .fusion(Fusion::Injective)
    .compute(reverse_reshape_compute),
    OpDef::new(
        "dyn.reshape",
        "`reshape` to the extents that a tensor holds.",
        dyn_reshape,
    )
    .reshape()
    .static_form("reshape")
    .former(&[Former::form("dyn.reshape", 7, former::unreversed)])
    .inputs(&[
        input("data", "the input"),
        input("newshape", "the new extents, a vector"),
    ])
    .attrs(NEWSHAPE)
    .fusion(Fusion::Injective)
    .data_dependent()
    .compute(dyn_reshape_compute),
    OpDef::new(
        "reshape_like",
        "The elements under the shape of another tensor, or of some of its axes.",
        reshape_like,
    )
    .inputs(&[
        input("data", "the input"),
        input("shape_like", "the tensor whose extents to take"),
    ])
    .attrs(&[
        attr(
            "lhs_begin",
            Int,
            Default::Int(0),
            "the first axis of the input to replace",
        ),
        attr(
            "lhs_end",
            Int,
            Default::None,
            "the axis before which replacing ends",
        ),
        attr(
            "rhs_begin",
            Int,
            Default::Int(0),
            "the first axis of the other tensor to take",
        ),
        attr(
            "rhs_end",
            Int,
            Default::None,
            "the axis before which taking ends",
        ),
    ])
    .fusion(Fusion::Injective)
    .compute(reshape_like_compute),
];

/// The items of `newshape`.
fn items(value: &AttrValue) -> Option<Vec<Item<Dim>>> {
    let one = |v: &AttrValue| match v {
        // An extent that is written with 64 bits keeps them; special numbers do not. The value of a
        // symbolic extent is an extent, whatever it is.
        AttrValue::Dim(d) => match d.as_const() {
            Some(i) if i <= 0 && d.is_wide() => Some(Item::Int(i)),
            Some(i) if i < 0 => None,
            _ => Some(Item::Sym(d.clone())),
        },
        v => v.as_int().map(Item::Int),
    };
    match value {
        AttrValue::Array(list) => list.iter().map(one).collect(),
        other => one(other).map(|i| vec![i]),
    }
}

/// Axes that lie beside each other are reshaped where they lie; others are brought there.
fn relaid(s: &Relayout<'_>) -> Option<Relaid> {
    let operand = s.operands.first()?;
    let (order, old) = (operand.order.clone()?, operand.dims.as_ref()?);
    let allow_zero = s.attrs.get("allowzero")?.as_bool()?;
    let new = new_extents(old, &items(s.attrs.get("newshape")?)?, allow_zero).ok()?;
    let (order, after) = match order.after_reshape(old, &new) {
        Some(after) => (order, after),
        None => {
            let beside = order.beside(old, &new)?;
            let after = beside.after_reshape(old, &new)?;
            (beside, after)
        }
    };
    let moved = after
        .parts()
        .iter()
        .map(|p| AttrValue::dim(new[p.axis].clone()));
    Some(Relaid::Call {
        attrs: s.attrs.clone().with("newshape", AttrValue::array(moved)),
        operands: vec![Some(order)],
        results: vec![after.moved()],
    })
}

fn reshape(cx: &mut RelCx<'_>) -> RelResult {
    by_items(cx, false)
}
fn reverse_reshape(cx: &mut RelCx<'_>) -> RelResult {
    by_items(cx, true)
}

fn by_items(cx: &mut RelCx<'_>, reverse: bool) -> RelResult {
    let Some(mut new) = items(cx.attr("newshape")) else {
        return cx.refuse(
            Subject::Attr("newshape"),
            "attribute `newshape` must be a list of extents",
        );
    };
    let allow_zero = cx.flag("allowzero");
    let (dims, dtype) = shaped(cx, 0)?;
    let Some(mut dims) = dims else {
        return unranked(cx, &new, allow_zero, dtype);
    };
    if reverse {
        new.reverse();
        dims.reverse();
    }
    let mut out = match new_extents(&dims, &new, allow_zero) {
        Ok(out) => out,
        Err(message) => {
            return cx.refuse(Subject::Attr("newshape"), format!("`newshape`: {message}"));
        }
    };
    same_count(cx, &dims, &out)?;
    if reverse {
        out.reverse();
    }
    finish(cx, out, dtype)
}

/// For an input of unknown rank: only the extents in the attribute are known, copied ones are not.
fn unranked(cx: &mut RelCx<'_>, new: &[Item<Dim>], allow_zero: bool, dtype: DTy) -> RelResult {
    if new.iter().any(|i| matches!(i, Item::Int(..=-2))) {
        return cx.finish_unranked(dtype);
    }
    let dim = |i: &Item<Dim>| match i {
        Item::Int(v) if *v > 0 || (*v == 0 && allow_zero) => Dim::from(*v),
        Item::Int(_) => Dim::ANY,
        Item::Sym(d) => d.clone(),
    };
    finish(cx, new.iter().map(dim).collect(), dtype)
}

/// Requires that reshaping keeps the number of elements.
fn same_count(cx: &mut RelCx<'_>, old: &[Dim], new: &[Dim]) -> RelResult {
    let count = |dims: &[Dim]| dims.iter().fold(Dim::ONE, |n, d| n * d);
    if old.iter().chain(new).any(|d| !d.is_known()) {
        return Ok(());
    }
    let (a, b) = (count(old), count(new));
    if a == b {
        return Ok(());
    }
    let show = |cx: &RelCx<'_>, dims: &[Dim]| {
        let dims: Vec<String> = dims.iter().map(|d| cx.host.show_dim(d)).collect();
        format!("({})", dims.join(", "))
    };
    let rule = format!(
        "reshaping keeps the number of elements, but {} cannot become {}",
        show(cx, old),
        show(cx, new)
    );
    check_eq(cx, &a, &b, Subject::Call, &rule)
}

fn dyn_reshape(cx: &mut RelCx<'_>) -> RelResult {
    let (_, dtype) = shaped(cx, 0)?;
    let rank = vector_len(cx, 1, "the new shape")?;
    finish(cx, anys(rank), dtype)
}

/// Normalises an end of a range of axes: `None` is the rank, negative numbers count from it.
fn end(value: Option<i64>, rank: usize) -> Option<usize> {
    let r = rank as i64;
    let v = value.unwrap_or(r);
    let v = if v < 0 { v.checked_add(r)? } else { v };
    (0..=r).contains(&v).then_some(v as usize)
}

/// Returns the axis ranges of the two tensors that a `reshape_like` combines: what is kept before,
/// what is taken, where the rest begins.
fn like_ranges(
    attr: &dyn Fn(&'static str) -> Option<i64>,
    lhs: usize,
    rhs: usize,
) -> Result<[usize; 4], &'static str> {
    let begin = |name, rank| end(Some(attr(name).unwrap_or(0)), rank).ok_or(name);
    let end = |name, rank| end(attr(name), rank).ok_or(name);
    let all = [
        begin("lhs_begin", lhs)?,
        end("lhs_end", lhs)?,
        begin("rhs_begin", rhs)?,
        end("rhs_end", rhs)?,
    ];
    if all[0] > all[1] {
        return Err("lhs_end");
    }
    if all[2] > all[3] {
        return Err("rhs_end");
    }
    Ok(all)
}

fn reshape_like(cx: &mut RelCx<'_>) -> RelResult {
    let (a, dtype) = shaped(cx, 0)?;
    let (b, _) = shaped(cx, 1)?;
    let whole = ["lhs_begin", "lhs_end", "rhs_begin", "rhs_end"]
        .iter()
        .all(|n| matches!(cx.attr(n), AttrValue::None | AttrValue::Int(0)));
    let (a, b) = match (a, b) {
        (Some(a), Some(b)) => (a, b),
        (None, Some(b)) if whole && cx.attr("rhs_end").is_none() => return finish(cx, b, dtype),
        _ => return cx.finish_unranked(dtype),
    };
    let get = |name: &'static str| cx.attr(name).as_int();
    let [l0, l1, r0, r1] = match like_ranges(&get, a.len(), b.len()) {
        Ok(r) => r,
        Err(name) => {
            let (v, l, r) = (cx.attr(name).as_int().unwrap_or(0), a.len(), b.len());
            return cx.refuse(
                Subject::Attr(name),
                format!("`{name}={v}` gives no range of axes: the tensors have rank {l} and {r}"),
            );
        }
    };
    let out: Vec<Dim> = [&a[..l0], &b[r0..r1], &a[l1..]].concat();
    // TVM compares the numbers of elements only where the input's extents are constants.
    if a.iter().all(|d| d.as_const().is_some()) {
        same_count(cx, &a, &out)?;
    } else if a.iter().chain(&out).all(Dim::is_known) {
        let count = |dims: &[Dim]| dims.iter().fold(Dim::ONE, |n, d| n * d);
        let rule = "reshaping keeps the number of elements";
        cx.host
            .check_at_run_time(&count(&a), crate::Fit::Equal, &count(&out), rule);
    }
    finish(cx, out, dtype)
}

fn reshape_compute(te: &mut Te<'_>) -> Done {
    static_reshape(te, false)
}
fn reverse_reshape_compute(te: &mut Te<'_>) -> Done {
    static_reshape(te, true)
}

fn static_reshape(te: &mut Te<'_>, reverse: bool) -> Done {
    let x = te.arg(0);
    let known = te.out(0).shape.clone();
    let shape: Vec<Ex> = if known.iter().all(Option::is_some) {
        known.iter().flatten().map(|&n| Ex::idx(n)).collect()
    } else {
        let mut items = items(te.attr("newshape")).ok_or("`newshape` is no list of extents")?;
        let mut old = x.shape.clone();
        if reverse {
            items.reverse();
            old.reverse();
        }
        // A single symbolic extent is inferred; for more, and beside an extent of zero, which fits
        // any, the caller binds them by the extents of the output.
        let symbolic = items.iter().filter(|i| matches!(i, Item::Sym(_))).count();
        let allow_zero = te.flag("allowzero");
        let open = (items.iter())
            .any(|i| matches!(i, Item::Int(-1 | -4)) || allow_zero && matches!(i, Item::Int(0)));
        let items: Vec<Item<Ex>> = items
            .into_iter()
            .map(|i| match i {
                Item::Int(v) => Item::Int(v),
                Item::Sym(_) if symbolic == 1 && !open => Item::Int(-1),
                Item::Sym(_) => Item::Sym(te.dim("n")),
            })
            .collect();
        let mut new = new_extents(&old, &items, allow_zero).map_err(ComputeError)?;
        if reverse {
            new.reverse();
        }
        new
    };
    let y = reshaped(te, &x, &shape);
    te.output(&y);
    Ok(())
}

/// Computes the extents that the vector of `dyn.reshape` specifies: 0 copies, -1 is inferred, -3
/// merges two.
fn dyn_reshape_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let asked = elements(&te.arg(1))?;
    let (one, two) = (Ex::idx(1), Ex::idx(2));
    let copies = !te.flag("allowzero");
    let old = |at: &Ex| {
        let pick = |n: Ex, (a, d): (usize, &Ex)| Ex::where_(&at.eq(a as i64), d, &n);
        x.shape.iter().enumerate().fold(one.clone(), pick)
    };
    let mut at = Ex::idx(0);
    let mut found = Vec::with_capacity(asked.len());
    for v in &asked {
        let here = old(&at);
        let copied = if copies {
            Ex::where_(&v.eq(0i64), &here, v)
        } else {
            v.clone()
        };
        let merges = v.eq(-3i64);
        found.push(Ex::where_(&merges, &(&here * old(&(&at + 1))), &copied));
        at = at + Ex::where_(&merges, &two, &one);
    }
    let positive: Vec<Ex> = found
        .iter()
        .map(|v| Ex::where_(&v.lt(0i64), &one, v))
        .collect();
    let rest = product(&x.shape).floor_div(product(&positive));
    let shape: Vec<Ex> = found
        .iter()
        .map(|v| Ex::where_(&v.lt(0i64), &rest, v))
        .collect();
    te.nest(|n| {
        n.assert(
            product(&shape).eq(product(&x.shape)),
            "the new shape has another number of elements than the data",
        );
    });
    let y = reshaped(te, &x, &shape);
    te.output(&y);
    Ok(())
}

fn reshape_like_compute(te: &mut Te<'_>) -> Done {
    let (x, like) = (te.arg(0), te.arg(1));
    let get = |name: &'static str| te.attr(name).as_int();
    let [l0, l1, r0, r1] = like_ranges(&get, x.rank(), like.rank())
        .map_err(|name| format!("`{name}` gives no range of axes"))?;
    let shape = [&x.shape[..l0], &like.shape[r0..r1], &x.shape[l1..]].concat();
    let y = reshaped(te, &x, &shape);
    te.output(&y);
    Ok(())
}
