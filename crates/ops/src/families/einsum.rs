//! Einstein's summation convention.

use relax_loops::{Combiner, Ex};
use relax_sym::Dim;

use super::einsum_equation::{Equation, Label};
use super::util::{finish, shaped_field};
use super::util_te::Done;
use crate::AttrTy::*;
use crate::{Default, Fusion, OpDef, RelCx, RelResult, Subject, Te, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[OpDef::new(
    "einsum",
    "Products of elements summed over the indices that the equation does not keep.",
    einsum,
)
.inputs(&[input("data", "the operands, a tuple")])
.attrs(&[attr("equation", Str, Default::Required, "`ij,jk->ik`")])
.fusion(Fusion::Injective)
.for_kernels(super::einsum_pairs::in_pairs)
.compute(einsum_compute)];

fn einsum(cx: &mut RelCx<'_>) -> RelResult {
    let text = cx.attr("equation").as_str().unwrap_or("").to_owned();
    let about = Subject::Attr("equation");
    let equation = match Equation::parse(&text) {
        Ok(e) => e,
        Err(message) => return cx.refuse(about, format!("`equation=\"{text}\"`: {message}")),
    };
    let types = cx.tuple(0)?;
    if types.len() != equation.inputs.len() || types.is_empty() {
        let (n, m) = (equation.inputs.len(), types.len());
        return cx.refuse(
            about,
            format!("`equation=\"{text}\"` has {n} operands, but {m} tensors are given"),
        );
    }
    let (_, mut dtype) = shaped_field(cx, 0, types[0])?;
    let mut all = Vec::with_capacity(types.len());
    for ty in types {
        let (dims, d) = shaped_field(cx, 0, ty)?;
        dtype = cx.require_dtype(
            dtype,
            d,
            Subject::Arg(0),
            "`einsum` takes tensors of one element type",
        )?;
        all.push(dims);
    }
    let Some(all) = all.into_iter().collect::<Option<Vec<Vec<Dim>>>>() else {
        return cx.finish_unranked(dtype);
    };
    let ranks: Vec<usize> = all.iter().map(Vec::len).collect();
    let (inputs, output) = match equation.axes(&ranks) {
        Ok(axes) => axes,
        Err(k) => {
            let rank = ranks[k];
            return cx.refuse(
                about,
                format!("`equation=\"{text}\"` does not fit operand {k} of rank {rank}"),
            );
        }
    };
    let mut extents: Vec<(Label, Dim)> = Vec::new();
    for (labels, dims) in inputs.iter().zip(&all) {
        for (l, d) in labels.iter().zip(dims) {
            match extents.iter().position(|(m, _)| m == l) {
                Some(at) => extents[at].1 = cx.broadcast_dim(&extents[at].1.clone(), d)?,
                None => extents.push((*l, d.clone())),
            }
        }
    }
    let of = |l: &Label| {
        extents
            .iter()
            .find(|(m, _)| m == l)
            .map_or(Dim::ONE, |(_, d)| d.clone())
    };
    finish(cx, output.iter().map(of).collect(), dtype)
}

fn einsum_compute(te: &mut Te<'_>) -> Done {
    let parts = te.tuple(0);
    let equation = Equation::parse(te.str("equation"))?;
    let ranks: Vec<usize> = parts.iter().map(|p| p.rank()).collect();
    if ranks.len() != equation.inputs.len() {
        return Err("the equation has another number of operands".into());
    }
    let (inputs, output) = equation
        .axes(&ranks)
        .map_err(|k| format!("operand {k} does not fit the equation"))?;
    let mut extents: Vec<(Label, Ex)> = Vec::new();
    for (labels, p) in inputs.iter().zip(&parts) {
        for (l, d) in labels.iter().zip(&p.shape) {
            match extents.iter_mut().find(|(m, _)| m == l) {
                Some((_, e)) => {
                    let both =
                        Te::broadcast_shape(std::slice::from_ref(e), std::slice::from_ref(d));
                    *e = both[0].clone();
                }
                None => extents.push((*l, d.clone())),
            }
        }
    }
    extents.sort_by_key(|(l, _)| *l);
    let of = |l: &Label| {
        extents
            .iter()
            .find(|(m, _)| m == l)
            .map_or(Ex::idx(1), |(_, d)| d.clone())
    };
    let shape: Vec<Ex> = output.iter().map(of).collect();
    let summed: Vec<(Label, Ex)> = extents
        .iter()
        .filter(|(l, _)| !output.contains(l))
        .cloned()
        .collect();
    let term = |i: &[Ex], r: &[Ex]| {
        let at = |l: &Label| match output.iter().position(|m| m == l) {
            Some(k) => i[k].clone(),
            None => summed
                .iter()
                .position(|(m, _)| m == l)
                .map_or(Ex::idx(0), |k| r[k].clone()),
        };
        let factor = |(labels, p): (&Vec<Label>, &relax_loops::TensorRef)| {
            p.at_broadcast(&labels.iter().map(at).collect::<Vec<Ex>>())
        };
        inputs.iter().zip(&parts).map(factor).reduce(|a, b| a * b)
    };
    if parts.is_empty() {
        return Err("`einsum` takes at least one tensor".into());
    }
    let zero = Ex::int(te.out(0).dtype, 0);
    let y = if summed.is_empty() {
        te.compute("y", &shape, |i| term(i, &[]).unwrap_or(zero))
    } else {
        let over: Vec<Ex> = summed.iter().map(|(_, n)| n.clone()).collect();
        te.reduce("y", &shape, &over, Combiner::Sum, |i, r| {
            term(i, r).unwrap_or(zero)
        })
    };
    te.output(&y);
    Ok(())
}
