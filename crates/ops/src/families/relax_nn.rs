//! Relax's products, reductions and normalisations that Relay has no operator for.

use relax_loops::{Combiner, Ex, Hint, TensorRef, UnOp};
use relax_sym::Dim;
use relax_tensor::DType as DT;

use super::elementwise::identity;
use super::reduce::{Plan, argmax_compute, argmin_compute, index_reduce, reduce};
use super::util::{finish, shaped};
use super::util_te::{Done, product, wide};
use crate::AttrTy::{Bool, DType, Float, Int, Ints};
use crate::{AttrDef, Default, Fusion, Input, OpDef, RelCx, RelResult, Subject, Te, attr, input};

const REDUCE: &[AttrDef] = &[
    attr("axis", Ints, Default::None, "the axes; none given is all"),
    attr(
        "keepdims",
        Bool,
        Default::Bool(false),
        "whether reduced axes stay, with extent 1",
    ),
];
const X: &[Input] = &[input("x", "the input")];
pub(super) const EPSILON: AttrDef = attr(
    "epsilon",
    Float,
    Default::Float(1e-5),
    "added to the variance",
);
pub(super) const CENTER: AttrDef = attr(
    "center",
    Bool,
    Default::Bool(true),
    "whether `beta` is added",
);
pub(super) const SCALE: AttrDef = attr(
    "scale",
    Bool,
    Default::Bool(true),
    "whether `gamma` multiplies",
);

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new("relax.matmul", "The product of matrices, of vectors, and of stacks of these, whose leading axes are broadcast.", matmul)
        .narrow_precision()
        .result_dtype("out_dtype")
        .hinted(super::hinted::stacked)
        .inputs(&[input("x1", "the first operand"), input("x2", "the second operand")])
        .attrs(&[attr("out_dtype", DType, Default::DType(""), "the element type of the result")])
        .fusion(Fusion::OutElementwise)
        .gradient(super::gradients::stacked_product)
        .compute(matmul_compute),
    OpDef::new("relax.argmax", "The index of the greatest element, as `int64`.", |cx| index_reduce(cx, DT::I64))
        .hinted(super::hinted::argmax)
        .inputs(X)
        .attrs(REDUCE)
        .fusion(Fusion::Reduction)
        .compute(argmax_compute),
    OpDef::new("relax.argmin", "The index of the least element, as `int64`.", |cx| index_reduce(cx, DT::I64))
        .hinted(super::hinted::argmin)
        .inputs(X)
        .attrs(REDUCE)
        .fusion(Fusion::Reduction)
        .compute(argmin_compute),
    OpDef::new("relax.variance", "The mean of the squared distances from the mean.", reduce)
        .inputs(X)
        .attrs(REDUCE)
        .fusion(Fusion::Reduction)
        .compute(|te| spread(te, false)),
    OpDef::new("relax.std", "The square root of the variance.", reduce)
        .inputs(X)
        .attrs(REDUCE)
        .fusion(Fusion::Reduction)
        .compute(|te| spread(te, true)),
    OpDef::new("relax.nn.rms_norm", "Divides by the root of the mean square over axes, and scales.", rms_norm_rel)
        .full_precision()
        .layout(super::layout_rules::along_named_axes)
        .in_relax(super::relax_rules::same_floats)
    .hinted(super::hinted::rms_norm)
    .inputs(&[input("data", "the input"), input("weight", "the scale, over the axes")])
        .attrs(&[
            attr("axes", Ints, Default::Ints(&[-1]), "the axes that are normalised"),
            attr("epsilon", Float, Default::Float(1e-5), "added to the mean square"),
        ])
        .fusion(Fusion::OutElementwise)
        .compute(rms_norm),
    OpDef::new("relax.nn.batch_norm", "Normalises per channel: by the moving mean and variance, or in training by the batch's own, which the moving ones then follow.", batch_norm)
        .full_precision()
        .decomposed(super::inference_forms::relax_batch_norm)
        .layout(super::layout_rules::along_axis)
        .in_relax(super::relax_rules::same_floats)
    .inputs(&[
            input("data", "the input"),
            input("gamma", "the scale, one per channel"),
            input("beta", "the shift, one per channel"),
            input("moving_mean", "the means, one per channel"),
            input("moving_var", "the variances, one per channel"),
        ])
        .attrs(&[
            attr("axis", Int, Default::Required, "the axis of the channels"),
            EPSILON,
            CENTER,
            SCALE,
            attr("momentum", Float, Default::Float(0.1), "how much of the batch's moments goes into the moving ones"),
            attr("training", Bool, Default::Bool(true), "whether the batch's own moments are used"),
        ])
        .fusion(Fusion::OutElementwise)
        .compute(batch_norm_compute),
];

fn matmul(cx: &mut RelCx<'_>) -> RelResult {
    let (a, ad) = shaped(cx, 0)?;
    let (b, bd) = shaped(cx, 1)?;
    for (i, s) in [&a, &b].into_iter().enumerate() {
        if s.as_ref().is_some_and(Vec::is_empty) {
            return cx.refuse(Subject::Arg(i), "a product of matrices takes no scalars");
        }
    }
    let dtype = match cx.dtype("out_dtype") {
        Some(d) => d.into(),
        None => cx.require_dtype(
            ad,
            bd,
            Subject::Arg(1),
            "both operands have one element type",
        )?,
    };
    let (Some(a), Some(b)) = (a, b) else {
        return cx.finish_unranked(dtype);
    };
    let (na, nb) = (a.len(), b.len());
    let rows = if nb == 1 { &b[0] } else { &b[nb - 2] };
    cx.require_eq(
        &a[na - 1],
        rows,
        Subject::Call,
        "the reduced extents of the two operands must agree",
    )?;
    let mut dims: Vec<Dim> =
        cx.broadcast(&a[..na.saturating_sub(2)], &b[..nb.saturating_sub(2)])?;
    if na > 1 {
        dims.push(a[na - 2].clone());
    }
    if nb > 1 {
        dims.push(b[nb - 1].clone());
    }
    finish(cx, dims, dtype)
}

/// Returns the index of an operand: its leading axes are broadcast, the last ones are given.
fn stacked(t: &TensorRef, batch: &[Ex], last: &[Ex]) -> Ex {
    let lead = t.rank() - last.len();
    let skip = batch.len() - lead;
    let mut index: Vec<Ex> = (t.shape[..lead].iter().zip(&batch[skip..]))
        .map(|(extent, i)| match extent.as_int() {
            Some(1) => Ex::idx(0),
            Some(_) => i.clone(),
            None => Ex::where_(&extent.eq(1i64), &Ex::idx(0), i),
        })
        .collect();
    index.extend_from_slice(last);
    t.at(&index)
}

fn matmul_compute(te: &mut Te<'_>) -> Done {
    let (a, b) = (te.arg(0), te.arg(1));
    let dtype = te.out(0).dtype;
    let (na, nb) = (a.rank(), b.rank());
    if na == 0 || nb == 0 {
        return Err("a product of matrices takes no scalars".into());
    }
    let mut shape = Te::broadcast_shape(
        &a.shape[..na.saturating_sub(2)],
        &b.shape[..nb.saturating_sub(2)],
    );
    let batch = shape.len();
    if na > 1 {
        shape.push(a.shape[na - 2].clone());
    }
    if nb > 1 {
        shape.push(b.shape[nb - 1].clone());
    }
    let k = a.shape[na - 1].clone();
    let y = te.reduce("matmul", &shape, &[k], Combiner::Sum, |i, r| {
        let k = r[0].clone();
        let x = if na > 1 {
            stacked(&a, &i[..batch], &[i[batch].clone(), k.clone()])
        } else {
            a.at(std::slice::from_ref(&k))
        };
        let y = if nb > 1 {
            stacked(&b, &i[..batch], &[k, i[i.len() - 1].clone()])
        } else {
            b.at(&[k])
        };
        x.cast(dtype) * y.cast(dtype)
    });
    let hint = match (na, nb) {
        (2.., 2) => Some(Hint::Gemm {
            a: a.buf,
            b: b.buf,
            transpose_a: false,
            transpose_b: false,
        }),
        (3, 3) => Some(Hint::BatchGemm {
            a: a.buf,
            b: b.buf,
            transpose_a: false,
            transpose_b: false,
        }),
        _ => None,
    };
    if let Some(hint) = hint {
        te.program.hints.push((y.buf, hint));
    }
    te.output(&y);
    Ok(())
}

/// Variance, or its root.
fn spread(te: &mut Te<'_>, root: bool) -> Done {
    let x = te.arg(0);
    let plan = Plan::new(te, &x)?;
    let dtype = wide(x.dtype);
    let count = product(&plan.over).cast(dtype);
    let mut rest = plan.shape.clone();
    if !plan.keep {
        rest = (0..x.rank())
            .map(|a| {
                if plan.axes.contains(&a) {
                    Ex::idx(1)
                } else {
                    x.shape[a].clone()
                }
            })
            .collect();
    }
    let over: Vec<Ex> = plan.axes.iter().map(|&a| x.shape[a].clone()).collect();
    let axes = plan.axes.clone();
    let join = |i: &[Ex], r: &[Ex]| -> Vec<Ex> {
        let mut index = i.to_vec();
        for (&a, r) in axes.iter().zip(r) {
            index[a] = r.clone();
        }
        index
    };
    let sum = te.reduce("sum", &rest, &over, Combiner::Sum, |i, r| {
        x.at(&join(i, r)).cast(dtype)
    });
    let mean = te.compute("mean", &rest, |i| sum.at(i) / &count);
    let squares = plan.run(te, &x, Combiner::Sum, |e, index| {
        let d = e.cast(dtype) - mean.at_broadcast(index);
        &d * &d
    });
    let y = te.compute("y", &plan.shape, |i| {
        let v = squares.at(i) / &count;
        (if root { v.unary(UnOp::Sqrt) } else { v }).cast(x.dtype)
    });
    te.output(&y);
    Ok(())
}

/// Converts the axes that an attribute names to a flag for each axis.
fn marked(given: &[i64], rank: usize) -> Result<Vec<bool>, &'static str> {
    let mut over = vec![false; rank];
    for &v in given {
        let a = if v < 0 { v + rank as i64 } else { v };
        let a = usize::try_from(a)
            .ok()
            .filter(|&a| a < rank)
            .ok_or("an axis is out of range")?;
        over[a] = true;
    }
    Ok(over)
}

fn rms_norm_rel(cx: &mut RelCx<'_>) -> RelResult {
    identity(cx)?;
    super::relax_forms::weights_over_axes(cx, &[1])
}

fn rms_norm(te: &mut Te<'_>) -> Done {
    let (x, weight) = (te.arg(0), te.arg(1));
    let epsilon = te.float("epsilon")?;
    let over = marked(&te.ints("axes").unwrap_or_default(), x.rank())?;
    let pick = |which: bool| -> Vec<Ex> {
        (x.shape.iter().zip(&over))
            .filter(|(_, o)| **o == which)
            .map(|(d, _)| d.clone())
            .collect()
    };
    let (rest, inner) = (pick(false), pick(true));
    let dtype = wide(x.dtype);
    let count = product(&inner).cast(dtype);
    let squares = te.reduce("squares", &rest, &inner, Combiner::Sum, |i, r| {
        let (mut i, mut r) = (i.iter(), r.iter());
        let index: Vec<Ex> = over
            .iter()
            .filter_map(|o| if *o { r.next() } else { i.next() }.cloned())
            .collect();
        let v = x.at(&index).cast(dtype);
        &v * &v
    });
    let y = te.compute("rms_norm", &x.shape, |i| {
        let part = |which: bool| -> Vec<Ex> {
            (i.iter().zip(&over))
                .filter(|(_, o)| **o == which)
                .map(|(i, _)| i.clone())
                .collect()
        };
        let mean = squares.at(&part(false)) / &count;
        let root = (mean.clone() + mean.same(epsilon)).unary(UnOp::Sqrt);
        let normal = (x.at(i).cast(dtype) / root).cast(x.dtype);
        normal * weight.at(&part(true))
    });
    // Rows of the last axes; narrower floats are rounded in between.
    let first = rest.len();
    if first < x.rank() && over[first..].iter().all(|o| *o) && x.dtype == dtype {
        let of = (&x, &y);
        super::util_te::normalised_rows(te, of, (&weight, None), epsilon, (first, 1));
    }
    te.output(&y);
    Ok(())
}

fn batch_norm(cx: &mut RelCx<'_>) -> RelResult {
    let (dims, dtype) = cx.ranked(0)?;
    let axis = cx.axis("axis", cx.int("axis")?, dims.len())?;
    for (i, what) in ["gamma", "beta", "moving_mean", "moving_var"]
        .into_iter()
        .enumerate()
    {
        let text = format!("`{what}` has one element per channel");
        cx.require_per_index(i + 1, &dims[axis], dtype, &text)?;
    }
    let (data, mean, var) = (cx.arg(0), cx.arg(3), cx.arg(4));
    let ty = cx.host.types_mut().tuple([data, mean, var]);
    cx.set_out(ty)
}

fn batch_norm_compute(te: &mut Te<'_>) -> Done {
    let (x, gamma, beta) = (te.arg(0), te.arg(1), te.arg(2));
    let (mut mean, mut var) = (te.arg(3), te.arg(4));
    let axis = te.axis("axis", x.rank())?;
    let (epsilon, momentum) = (te.float("epsilon")?, te.float("momentum")?);
    let (center, scale) = (te.flag("center"), te.flag("scale"));
    let (mut new_mean, mut new_var) = (mean.clone(), var.clone());
    if te.flag("training") {
        let over: Vec<bool> = (0..x.rank()).map(|k| k != axis).collect();
        let (own_mean, own_var) = super::nn_norm::moments(te, &x, &over);
        let follow = |te: &mut Te<'_>, old: &TensorRef, own: &TensorRef| {
            te.compute("moving", &old.shape, |i| {
                let (old, own) = (old.at(i), own.at(i));
                old.clone() * old.same(1.0 - momentum) + own.clone() * own.same(momentum)
            })
        };
        new_mean = follow(te, &mean, &own_mean);
        new_var = follow(te, &var, &own_var);
        (mean, var) = (own_mean, own_var);
    }
    let y = te.compute("batch_norm", &x.shape, |i| {
        let c = &i[axis..=axis];
        let deviation = (var.at(c) + x.at(i).same(epsilon)).unary(UnOp::Sqrt);
        let mut v = (x.at(i) - mean.at(c)) / deviation;
        if scale {
            v = v * gamma.at(c);
        }
        if center {
            v = v + beta.at(c);
        }
        v
    });
    te.output(&y);
    te.output(&new_mean);
    te.output(&new_var);
    Ok(())
}
