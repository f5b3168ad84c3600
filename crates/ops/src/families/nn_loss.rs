//! Losses.

use relax_loops::{Combiner, Ex, TensorRef, UnOp};
use relax_sym::Dim;

use crate::{
    AttrTy, ComputeError, Default, Fusion, OpDef, RelCx, RelResult, Subject, Te, attr, input,
};

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "nn.nll_loss",
        "The negative log likelihood of target classes, weighted.",
        nll_rel,
    )
    .inputs(&[
        input("predictions", "(n, classes, …), log probabilities"),
        input("targets", "(n, …), class numbers"),
        input("weights", "(classes,)"),
    ])
    .attrs(&[
        attr(
            "reduction",
            AttrTy::Str,
            Default::Str("mean"),
            "`mean`, `sum` or `none`",
        ),
        attr(
            "ignore_index",
            AttrTy::Int,
            Default::Required,
            "a class that does not count",
        ),
    ])
    .fusion(Fusion::OutElementwise)
    .compute(nll),
    OpDef::new(
        "nn.cross_entropy",
        "`-sum(y * log(x)) / n`.",
        cross_entropy_rel,
    )
    .gradient(super::gradients_parts::cross_entropy)
    .full_precision()
    .inputs(&[
        input("x", "(n, classes), probabilities"),
        input("y", "(n, classes), the wanted ones"),
    ])
    .compute(|te| cross_entropy(te, true)),
    OpDef::new(
        "nn.cross_entropy_with_logits",
        "`-sum(y * x) / n`.",
        cross_entropy_rel,
    )
    .gradient(super::gradients_parts::cross_entropy_with_logits)
    .full_precision()
    .inputs(&[
        input("x", "(n, classes), log probabilities"),
        input("y", "(n, classes), the wanted ones"),
    ])
    .compute(|te| cross_entropy(te, false)),
];

fn nll_rel(cx: &mut RelCx<'_>) -> RelResult {
    let (predictions, dtype) = cx.ranked(0)?;
    let (targets, target_dtype) = cx.ranked(1)?;
    let (weights, weight_dtype) = cx.ranked(2)?;
    if predictions.len() != targets.len() + 1 {
        let text = format!(
            "the predictions must have one axis more than the targets: {} and {}",
            predictions.len(),
            targets.len()
        );
        return cx.refuse(Subject::Arg(0), text);
    }
    if weights.len() != 1 {
        let text = format!(
            "the weights must be a vector, not of rank {}",
            weights.len()
        );
        return cx.refuse(Subject::Arg(2), text);
    }
    let class_axis = usize::from(predictions.len() > 1);
    let what = "there is one weight per class";
    cx.require_eq(&predictions[class_axis], &weights[0], Subject::Arg(2), what)?;
    let what = "predictions and weights must have one element type";
    let dtype = cx.require_dtype(dtype, weight_dtype, Subject::Arg(2), what)?;
    if dtype.known().is_some_and(|d| !d.is_float()) {
        return cx.refuse(Subject::Arg(0), "the predictions must be floats");
    }
    if target_dtype.known().is_some_and(|d| !d.is_int()) {
        return cx.refuse(Subject::Arg(1), "the targets must be signed integers");
    }
    let what = "predictions and targets agree in all axes but the classes'";
    for (k, target) in targets.iter().enumerate() {
        let own = &predictions[if k == 0 && class_axis == 1 { 0 } else { k + 1 }];
        super::util::need_eq(cx, target, own, Subject::Arg(1), what)?;
    }
    let out = if super::util::word(cx, "reduction", &["mean", "sum", "none"])? == "none" {
        targets
    } else {
        vec![]
    };
    cx.set_tensor(out, dtype)
}

/// The sum of all elements, as a scalar.
fn total(te: &mut Te<'_>, t: &TensorRef) -> TensorRef {
    let shape = t.shape.clone();
    te.reduce("total", &[], &shape, Combiner::Sum, |_, r| t.at(r))
}

fn nll(te: &mut Te<'_>) -> Result<(), ComputeError> {
    let (predictions, targets, weights) = (te.arg(0), te.arg(1), te.arg(2));
    let ignored = te.int("ignore_index")?;
    let reduction = te.str("reduction");
    let pick = |te: &mut Te<'_>, value: &dyn Fn(&[Ex], &Ex) -> Ex| {
        te.compute("nll", &targets.shape, |i| {
            let class = targets.at(i);
            let counts = class.ne(ignored);
            let v = value(i, &class.cast(relax_tensor::DType::I64));
            Ex::where_(&counts, &v, &v.same(0.0))
        })
    };
    let losses = pick(te, &|i, class| {
        let mut at = i.to_vec();
        at.insert(usize::from(predictions.rank() > 1), class.clone());
        -predictions.at(&at) * weights.at(std::slice::from_ref(class))
    });
    let y = match reduction {
        "none" => losses,
        "sum" => total(te, &losses),
        _ => {
            let counted = pick(te, &|_, class| weights.at(std::slice::from_ref(class)));
            let (sum, weight) = (total(te, &losses), total(te, &counted));
            te.compute("mean", &[], |_| sum.scalar() / weight.scalar())
        }
    };
    te.output(&y);
    Ok(())
}

fn cross_entropy_rel(cx: &mut RelCx<'_>) -> RelResult {
    let (x, dtype) = cx.ranked(0)?;
    let (y, own) = cx.ranked(1)?;
    let dtype = cx.require_dtype(
        dtype,
        own,
        Subject::Arg(1),
        "both inputs have one element type",
    )?;
    let lone = cx.host.in_tvmscript() && x.len() == 1 && y.len() == 1;
    if !lone && (x.len() != 2 || y.len() != 2) {
        let text = format!(
            "`{}` takes two matrices, not ranks {} and {}",
            cx.name,
            x.len(),
            y.len()
        );
        return cx.refuse(Subject::Call, text);
    }
    for k in 0..x.len() {
        cx.require_eq(
            &x[k],
            &y[k],
            Subject::Arg(1),
            "both inputs must have the same extents",
        )?;
    }
    cx.set_tensor(Vec::<Dim>::new(), dtype)
}

fn cross_entropy(te: &mut Te<'_>, log: bool) -> Result<(), ComputeError> {
    let (x, y) = (te.arg(0), te.arg(1));
    let sum = te.reduce("sum", &[], &x.shape, Combiner::Sum, |_, r| {
        let p = if log {
            x.at(r).unary(UnOp::Log)
        } else {
            x.at(r)
        };
        p * y.at(r)
    });
    let loss = te.compute("cross_entropy", &[], |_| match x.rank() {
        1 => -sum.scalar(),
        _ => -sum.scalar() / x.shape[0].cast(x.dtype),
    });
    te.output(&loss);
    Ok(())
}
