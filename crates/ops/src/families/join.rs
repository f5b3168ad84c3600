//! Several tensors into one, and one into several.

use relax_ir::{AttrValue, DTy};
use relax_loops::{Ex, TensorRef};
use relax_sym::{Dim, Proof};

use super::util::{
    MAX_FIELDS, axis_attr, finish, finish_tuple, gap_attr, need_eq, shaped, shaped_field,
    tensor_type, unranked_type,
};
use super::util_te::{Done, set, without};
use crate::AttrTy::*;
use crate::{Default, Fusion, OpDef, RelCx, RelResult, Subject, Te, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "concatenate",
        "Tensors one after the other along an axis.",
        concatenate,
    )
    .gradient(super::gradients::concatenate)
    .affine_rule(super::affine_rules::concatenated)
    .layout(super::layout_rules::joined)
    .in_relax(super::relax_rules::one_type_in_tuple)
    .inputs(&[input("data", "the tensors, a tuple")])
    .attrs(&[attr("axis", Int, Default::Int(0), "the axis")])
    .fusion(Fusion::Injective)
    .compute(concatenate_compute),
    OpDef::new(
        "stack",
        "Tensors of one shape side by side along a new axis.",
        stack,
    )
    .gradient(super::gradients_parts::stack)
    .inputs(&[input("data", "the tensors, a tuple")])
    .attrs(&[attr(
        "axis",
        Int,
        Default::Int(0),
        "where the new axis is put in",
    )])
    .fusion(Fusion::Injective)
    .compute(stack_compute),
    OpDef::new(
        "split",
        "A tensor cut into parts along an axis; a tuple.",
        split,
    )
    .affine_rule(super::affine_rules::selection)
    .layout(super::layout_rules::cut)
    .inputs(&[input("data", "the input")])
    .attrs(&[
        attr(
            "indices_or_sections",
            IntOrInts,
            Default::Required,
            "how many equal parts, or where to cut",
        ),
        attr("axis", Int, Default::Int(0), "the axis"),
    ])
    .fusion(Fusion::Injective)
    .compute(split_compute),
];

/// Returns the dimensions of all tensors of the tuple (`None` where one has unknown rank), and
/// their common element type.
fn fields(cx: &mut RelCx<'_>) -> RelResult<(Option<Vec<Vec<Dim>>>, DTy)> {
    let name = cx.name.to_owned();
    let types = cx.tuple(0)?;
    let Some(&first) = types.first() else {
        return cx.refuse(
            Subject::Arg(0),
            format!("`{name}` takes at least one tensor"),
        );
    };
    let (_, mut dtype) = shaped_field(cx, 0, first)?;
    let mut all = Some(Vec::with_capacity(types.len()));
    let mut rank = None;
    for (k, ty) in types.into_iter().enumerate() {
        let (dims, d) = shaped_field(cx, 0, ty)?;
        dtype = cx.require_dtype(
            dtype,
            d,
            Subject::Arg(0),
            &format!("`{name}` takes tensors of one element type"),
        )?;
        match (dims, &mut all) {
            (Some(dims), Some(all)) => {
                let r = *rank.get_or_insert(dims.len());
                if r != dims.len() {
                    let n = dims.len();
                    return cx.refuse(
                        Subject::Arg(0),
                        format!("`{name}` takes tensors of one rank, but number 0 has rank {r} and number {k} has rank {n}"),
                    );
                }
                all.push(dims);
            }
            _ => all = None,
        }
    }
    Ok((all, dtype))
}

/// The type relation of `concatenate`, shared with the quantised form.
pub(super) fn concatenate(cx: &mut RelCx<'_>) -> RelResult {
    let (all, dtype) = fields(cx)?;
    let Some(all) = all else {
        return cx.finish_unranked(dtype);
    };
    let rank = all[0].len();
    let axis = axis_attr(cx, "axis", rank)?;
    let dynamic = all.iter().any(|d| d[axis].is_any());
    let mut out = Vec::with_capacity(rank);
    for a in 0..rank {
        if a == axis {
            out.push(if dynamic {
                Dim::ANY
            } else {
                all.iter().map(|d| d[a].clone()).sum()
            });
            continue;
        }
        let known: Vec<&Dim> = all.iter().map(|d| &d[a]).filter(|d| !d.is_any()).collect();
        for d in known.iter().skip(1) {
            let rule =
                format!("`concatenate` along axis {axis} takes tensors that agree in axis {a}");
            cx.require_eq(known[0], d, Subject::Arg(0), &rule)?;
        }
        // As in TVM: where some extent is `?`, the others decide only if the joined axis is `?`
        // too.
        out.push(match known.first() {
            Some(&d) if known.len() == all.len() || dynamic => d.clone(),
            _ => Dim::ANY,
        });
    }
    finish(cx, out, dtype)
}

fn concatenate_compute(te: &mut Te<'_>) -> Done {
    let parts = te.tuple(0);
    let rank = parts.first().map_or(0, |p| p.rank());
    let axis = te.axis("axis", rank)?;
    let y = join_parts(te, &parts, axis);
    te.output(&y);
    Ok(())
}

/// Builds the concatenation of tensors along an axis as a stage; there is at least one.
pub(super) fn join_parts(te: &mut Te<'_>, parts: &[TensorRef], axis: usize) -> TensorRef {
    let mut starts = vec![Ex::idx(0)];
    for p in parts {
        let end = &starts[starts.len() - 1] + &p.shape[axis];
        starts.push(end);
    }
    let mut shape = parts[0].shape.clone();
    shape[axis] = starts[parts.len()].clone();
    te.compute("y", &shape, |i| {
        let read = |k: usize| parts[k].at(&set(i, axis, &i[axis] - &starts[k]));
        let last = parts.len() - 1;
        (0..last).rev().fold(read(last), |rest, k| {
            Ex::where_(&i[axis].lt(&starts[k + 1]), &read(k), &rest)
        })
    })
}

fn stack(cx: &mut RelCx<'_>) -> RelResult {
    let (all, dtype) = fields(cx)?;
    let Some(all) = all else {
        return cx.finish_unranked(dtype);
    };
    let mut out = all[0].clone();
    let axis = gap_attr(cx, "axis", out.len())?;
    for dims in &all[1..] {
        for (k, (a, b)) in out.iter().zip(dims).enumerate() {
            // TVM omits the axis at which the new one is inserted; all extents must agree.
            need_eq(
                cx,
                a,
                b,
                Subject::Arg(0),
                &format!("`stack` takes tensors of one shape; axis {k}"),
            )?;
        }
    }
    out.insert(axis, Dim::from(all.len() as i64));
    finish(cx, out, dtype)
}

fn stack_compute(te: &mut Te<'_>) -> Done {
    let parts = te.tuple(0);
    let mut shape = parts
        .first()
        .ok_or("`stack` takes at least one tensor")?
        .shape
        .clone();
    let axis = te.int("axis")?;
    let axis = if axis < 0 {
        axis + shape.len() as i64 + 1
    } else {
        axis
    };
    let axis = usize::try_from(axis)
        .ok()
        .filter(|&a| a <= shape.len())
        .ok_or("`axis` is out of range")?;
    shape.insert(axis, Ex::idx(parts.len() as i64));
    let y = te.compute("y", &shape, |i| {
        let inner = without(i, axis);
        let last = parts.len() - 1;
        (0..last).rev().fold(parts[last].at(&inner), |rest, k| {
            Ex::where_(&i[axis].lt(k as i64 + 1), &parts[k].at(&inner), &rest)
        })
    });
    te.output(&y);
    Ok(())
}

fn split(cx: &mut RelCx<'_>) -> RelResult {
    let (dims, dtype) = shaped(cx, 0)?;
    let name = "indices_or_sections";
    let given = cx.attr(name).clone();
    if given == AttrValue::Int(1) && cx.host.in_tvmscript() {
        // TVM's Relax leaves one part as it is.
        let ty = cx.arg(0);
        return cx.set_out(ty);
    }
    let (sections, cuts) = match &given {
        AttrValue::Int(n) if (1..=MAX_FIELDS).contains(n) => (*n, None),
        AttrValue::Int(n) => {
            return cx.refuse(
                Subject::Attr(name),
                format!("`{name}={n}` must be 1 to {MAX_FIELDS}"),
            );
        }
        other => match other.as_ints() {
            Some(cuts) => (cuts.len() as i64 + 1, Some(cuts)),
            None => {
                return cx.refuse(
                    Subject::Attr(name),
                    format!("attribute `{name}` must be an integer or a list of integers"),
                );
            }
        },
    };
    let Some(dims) = dims else {
        let field = unranked_type(cx, dtype);
        return finish_tuple(cx, vec![field; sections as usize]);
    };
    if dims.is_empty() {
        return cx.refuse(Subject::Arg(0), "a scalar cannot be split: it has no axis");
    }
    let axis = axis_attr(cx, "axis", dims.len())?;
    let whole = dims[axis].clone();
    let parts: Vec<Dim> = match cuts {
        None if whole.is_any() => vec![Dim::ANY; sections as usize],
        None => {
            let n = Dim::from(sections);
            divides(cx, &whole, &n, axis)?;
            vec![whole.floordiv(&n); sections as usize]
        }
        Some(cuts) => {
            let mut from = 0;
            let mut parts = Vec::with_capacity(cuts.len() + 1);
            for cut in cuts {
                if cut <= from {
                    return cx.refuse(Subject::Attr(name), format!("`{name}` must be ascending and greater than 0, but {cut} follows {from}"));
                }
                parts.push(Dim::from(cut - from));
                from = cut;
            }
            cx.require_at_least(
                &whole,
                &Dim::from(from + 1),
                Subject::Attr(name),
                "every part has at least one element",
                |n, _| format!("`{name}` cuts at {from}, but axis {axis} has extent {n}: every part has at least one element"),
            )?;
            parts.push(if whole.is_any() {
                Dim::ANY
            } else {
                &whole - from
            });
            parts
        }
    };
    let mut types = Vec::with_capacity(parts.len());
    for part in parts {
        let mut d = dims.clone();
        d[axis] = part;
        types.push(tensor_type(cx, d, dtype)?);
    }
    finish_tuple(cx, types)
}

/// Requires that an axis can be divided into equal parts.
fn divides(cx: &mut RelCx<'_>, whole: &Dim, n: &Dim, axis: usize) -> RelResult {
    let rest = whole.modulo(n);
    match cx.host.compare_dims(&rest, &Dim::ZERO) {
        Proof::Proven => Ok(()),
        Proof::Refuted => {
            let (w, n) = (cx.host.show_dim(whole), cx.host.show_dim(n));
            cx.refuse(
                Subject::Attr("indices_or_sections"),
                format!("axis {axis} of extent {w} cannot be split into {n} equal parts"),
            )
        }
        _ => {
            cx.host
                .check_dims(&rest, &Dim::ZERO, "an axis is split into equal parts");
            Ok(())
        }
    }
}

fn split_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let axis = te.axis("axis", x.rank())?;
    let whole = &x.shape[axis];
    let mut bounds = vec![Ex::idx(0)];
    match te.attr("indices_or_sections") {
        AttrValue::Int(n) => {
            let part = whole.floor_div(*n);
            bounds.extend((1..=*n).map(|k| &part * k));
        }
        other => {
            let cuts = other.as_ints().ok_or("`indices_or_sections` is no list")?;
            bounds.extend(cuts.into_iter().map(Ex::idx));
            bounds.push(whole.clone());
        }
    }
    for pair in bounds.windows(2) {
        let mut shape = x.shape.clone();
        shape[axis] = &pair[1] - &pair[0];
        let y = te.compute("part", &shape, |i| x.at(&set(i, axis, &i[axis] + &pair[0])));
        te.output(&y);
    }
    Ok(())
}
