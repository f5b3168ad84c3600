//! Matrix products: dense, matmul, batch_matmul, and the bias that follows them.

use relax_loops::{Combiner, Ex, Hint, TensorRef};
use relax_sym::Dim;
use relax_tensor::DType;

use crate::{
    AttrDef, AttrTy, ComputeError, Default, Fusion, OpDef, RelCx, RelResult, Subject, Te, attr,
    input,
};

/// Shared with the quantised forms.
pub(super) const OUT_DTYPE: AttrDef = attr(
    "out_dtype",
    AttrTy::DType,
    Default::DType(""),
    "the element type of the result; that of the data where void",
);
/// Shared with the quantised forms.
pub(super) const UNITS: AttrDef = attr(
    "units",
    AttrTy::Int,
    Default::Required,
    "the number of result columns",
);
/// Shared with the quantised forms.
pub(super) const TRANSPOSE_A: AttrDef = attr(
    "transpose_a",
    AttrTy::Bool,
    Default::Bool(false),
    "whether the first operand is transposed",
);
/// Shared with the quantised forms.
pub(super) const TRANSPOSE_B: AttrDef = attr(
    "transpose_b",
    AttrTy::Bool,
    Default::Bool(false),
    "whether the second operand is transposed",
);

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "nn.dense",
        "`y = x · wᵀ`: the last axis of the data against the rows of the weight.",
        dense_rel,
    )
    .gradient(super::gradients::dense)
    .rounds_once()
    .narrow_precision()
    .result_dtype("out_dtype")
    .scale(crate::ScaleRole::Contraction(super::scale_rules::dense))
    .affine_product(super::affine_rules::dense)
    .hinted(super::hinted::dense)
    .inputs(&[
        input("data", "any leading axes, then k"),
        input("weight", "(units, k)"),
    ])
    .attrs(&[UNITS, OUT_DTYPE])
    .fusion(Fusion::OutElementwise)
    .compute(|te| product(te, false, true)),
    OpDef::new(
        "nn.matmul",
        "`y = a · b`, either operand transposed on request.",
        matmul_rel,
    )
    .gradient(super::gradients_parts::matmul)
    .rounds_once()
    .result_dtype("out_dtype")
    .scale(crate::ScaleRole::Contraction(super::scale_rules::matmul))
    .affine_product(super::affine_rules::matmul)
    .hinted(super::hinted::matmul)
    .inputs(&[
        input("tensor_a", "any leading axes, then a matrix"),
        input("tensor_b", "a matrix"),
    ])
    .attrs(&[UNITS, OUT_DTYPE, TRANSPOSE_A, TRANSPOSE_B])
    .fusion(Fusion::OutElementwise)
    .compute(|te| product(te, te.flag("transpose_a"), te.flag("transpose_b"))),
    OpDef::new(
        "nn.batch_matmul",
        "A matrix product for each batch; a batch of 1 is broadcast.",
        batch_matmul_rel,
    )
    .affine_product(super::affine_rules::batch_matmul)
    .rounds_once()
    .narrow_precision()
    .result_dtype("out_dtype")
    .hinted(super::hinted::batch_matmul)
    .inputs(&[
        input("tensor_a", "(batch, m, k)"),
        input("tensor_b", "(batch, k, n)"),
    ])
    .attrs(&[OUT_DTYPE, TRANSPOSE_A, TRANSPOSE_B])
    .fusion(Fusion::OutElementwise)
    .compute(batch_matmul),
    OpDef::new("nn.bias_add", "Adds a vector along one axis.", bias_add_rel)
        .scale(crate::ScaleRole::Bias)
        .affine_rule(super::affine_rules::bias_add)
        .layout(super::layout_rules::along_axis)
        .inputs(&[
            input("data", "the input"),
            input("bias", "one element per index of the axis"),
        ])
        .attrs(&[attr(
            "axis",
            AttrTy::Int,
            Default::Int(1),
            "the axis of the bias",
        )])
        .fusion(Fusion::Broadcast)
        .compute(bias_add),
    OpDef::new(
        "nn.contrib_dense_pack",
        "`nn.dense` with a weight packed in tiles of output columns.",
        dense_pack_rel,
    )
    .result_dtype("out_dtype")
    .inputs(&[
        input("data", "(m, k)"),
        input("weight", "(units / t, k, t)"),
    ])
    .attrs(&[
        UNITS,
        OUT_DTYPE,
        attr(
            "weight_layout",
            AttrTy::Str,
            Default::Str("NC"),
            "how the weight is packed",
        ),
    ])
    .meta_attrs("relay.attrs.DensePackAttrs")
    .fusion(Fusion::OutElementwise)
    .compute(dense_pack),
];

/// The type relation of `nn.dense`, shared with the quantised form.
pub(super) fn dense_rel(cx: &mut RelCx<'_>) -> RelResult {
    product_rel(cx, false, true)
}

fn matmul_rel(cx: &mut RelCx<'_>) -> RelResult {
    product_rel(cx, cx.flag("transpose_a"), cx.flag("transpose_b"))
}

fn product_rel(cx: &mut RelCx<'_>, transpose_a: bool, transpose_b: bool) -> RelResult {
    let (a, dtype) = cx.ranked(0)?;
    let least = if transpose_a { 2 } else { 1 };
    if a.len() < least {
        let text = format!(
            "`{}` needs an operand of rank {least} or more, not {}",
            cx.name,
            a.len()
        );
        return cx.refuse(Subject::Arg(0), text);
    }
    let last = a.len() - 1;
    let k_axis = if transpose_a { last - 1 } else { last };
    let k = a[k_axis].clone();
    let mut out = a.clone();
    if transpose_a {
        out[last - 1] = a[last].clone();
    }
    if cx.attr("units").is_none() {
        let (b, _) = cx.ranked(1)?;
        if b.len() != 2 {
            let text = format!(
                "the second operand of `{}` must be a matrix, not of rank {}",
                cx.name,
                b.len()
            );
            return cx.refuse(Subject::Arg(1), text);
        }
        let (bk, bn) = if transpose_b {
            (&b[1], &b[0])
        } else {
            (&b[0], &b[1])
        };
        // TVM does not compare constants here, so that a program with different extents has a type;
        // the product then uses the smaller extent.
        if bk.as_const().is_none() || k.as_const().is_none() {
            let rule = "the reduced extents of the two operands must agree";
            cx.require_eq(bk, &k, Subject::Arg(1), rule)?;
        }
        out[last] = bn.clone();
    } else {
        let units = Dim::from(cx.int("units")?);
        let b_dtype = match cx.tensor(1) {
            Ok(b) => b.dtype,
            Err(crate::Stop::Wait) => dtype,
            Err(stop) => return Err(stop),
        };
        let shape = if transpose_b {
            vec![units.clone(), k]
        } else {
            vec![k, units.clone()]
        };
        let ty = cx.host.types_mut().tensor(shape, b_dtype);
        cx.require_arg(1, ty, "the weight does not fit the data and `units`")?;
        out[last] = units;
    }
    let dtype = cx.dtype("out_dtype").map_or(dtype, Into::into);
    cx.set_tensor(out, dtype)
}

/// Returns the product's element type: operands are converted before they are multiplied, as in
/// TVM.
fn out_dtype(te: &Te<'_>) -> DType {
    te.out(0).dtype
}

/// `sum over k of a(i…, k) * b(k, j)`, with the indices of transposed operands exchanged.
fn product(te: &mut Te<'_>, transpose_a: bool, transpose_b: bool) -> Result<(), ComputeError> {
    let (a, b) = (te.arg(0), te.arg(1));
    let y = product_stage(te, &a, &b, transpose_a, transpose_b);
    te.output(&y);
    Ok(())
}

/// Builds the product of two tensors as a stage; shared with the quantised form.
pub(super) fn product_stage(
    te: &mut Te<'_>,
    a: &TensorRef,
    b: &TensorRef,
    transpose_a: bool,
    transpose_b: bool,
) -> TensorRef {
    let dtype = out_dtype(te);
    let last = a.rank() - 1;
    let mut k = a.shape[if transpose_a { last - 1 } else { last }].clone();
    let other = &b.shape[if transpose_b { 1 } else { 0 }];
    if k.as_int().is_some() && other.as_int().is_some() {
        k = k.min(other);
    }
    let mut shape = a.shape.clone();
    if transpose_a {
        shape[last - 1] = a.shape[last].clone();
    }
    shape[last] = b.shape[if transpose_b { 0 } else { 1 }].clone();
    let fits =
        a.shape[if transpose_a { last - 1 } else { last }] == *other || other.as_int().is_none();
    let y = te.reduce("matmul", &shape, &[k], Combiner::Sum, |i, r| {
        let mut ai = i.to_vec();
        ai[last] = r[0].clone();
        if transpose_a {
            ai.swap(last, last - 1);
            ai[last] = i[last - 1].clone();
            ai[last - 1] = r[0].clone();
        }
        let bi = if transpose_b {
            [i[last].clone(), r[0].clone()]
        } else {
            [r[0].clone(), i[last].clone()]
        };
        a.at(&ai).cast(dtype) * b.at(&bi).cast(dtype)
    });
    if fits && (a.rank() == 2 || !transpose_a) {
        let hint = Hint::Gemm {
            a: a.buf,
            b: b.buf,
            transpose_a,
            transpose_b,
        };
        te.program.hints.push((y.buf, hint));
    }
    y
}

/// The type relation of `nn.batch_matmul`, shared with the quantised form.
pub(super) fn batch_matmul_rel(cx: &mut RelCx<'_>) -> RelResult {
    let (a, dtype) = cx.ranked(0)?;
    let (b, b_dtype) = cx.ranked(1)?;
    for (i, s) in [&a, &b].into_iter().enumerate() {
        if s.len() != 3 {
            let text = format!(
                "`{}` takes tensors of rank 3 (batch, rows, columns), not of rank {}",
                cx.name,
                s.len()
            );
            return cx.refuse(Subject::Arg(i), text);
        }
    }
    let (ta, tb) = (cx.flag("transpose_a"), cx.flag("transpose_b"));
    let (m, ak) = if ta { (&a[2], &a[1]) } else { (&a[1], &a[2]) };
    let (bk, n) = if tb { (&b[2], &b[1]) } else { (&b[1], &b[2]) };
    // As in TVM: where any extent is `?`, only numbers are compared, and the batch is `?` where
    // either is.
    let batch = if a[0].is_any() || b[0].is_any() {
        Dim::ANY
    } else {
        cx.broadcast_dim(&a[0], &b[0])?
    };
    let numbers = ak.as_const().is_some() && bk.as_const().is_some();
    if numbers || !a.iter().chain(&b).any(Dim::is_any) {
        cx.require_eq(
            ak,
            bk,
            Subject::Call,
            "the reduced extents of the two operands must agree",
        )?;
    }
    let dtype = match (cx.dtype("out_dtype"), dtype) {
        (Some(d), _) => d.into(),
        (None, crate::DTy::Unknown) => b_dtype,
        (None, d) => d,
    };
    cx.set_tensor(vec![batch, m.clone(), n.clone()], dtype)
}

fn batch_matmul(te: &mut Te<'_>) -> Result<(), ComputeError> {
    let (a, b) = (te.arg(0), te.arg(1));
    let y = batch_matmul_stage(te, &a, &b);
    te.output(&y);
    Ok(())
}

/// Builds the product of two tensors of rank 3 as a stage; shared with the quantised form.
pub(super) fn batch_matmul_stage(te: &mut Te<'_>, a: &TensorRef, b: &TensorRef) -> TensorRef {
    let (transpose_a, transpose_b) = (te.flag("transpose_a"), te.flag("transpose_b"));
    let dtype = out_dtype(te);
    let (m, k) = if transpose_a { (2, 1) } else { (1, 2) };
    let n = if transpose_b { 1 } else { 2 };
    let batch = Te::broadcast_shape(&a.shape[..1], &b.shape[..1]).remove(0);
    let shape = [batch, a.shape[m].clone(), b.shape[n].clone()];
    let y = te.reduce(
        "batch_matmul",
        &shape,
        &[a.shape[k].clone()],
        Combiner::Sum,
        |i, r| {
            let pick = |t: &TensorRef, row: &Ex, col: &Ex, swap: bool| {
                let (row, col) = if swap { (col, row) } else { (row, col) };
                t.at_broadcast(&[i[0].clone(), row.clone(), col.clone()])
                    .cast(dtype)
            };
            // Only the batch is broadcast: the other extents are used unchanged.
            let ax = pick(&fixed(a), &i[1], &r[0], transpose_a);
            let bx = pick(&fixed(b), &r[0], &i[2], transpose_b);
            ax * bx
        },
    );
    te.program.hints.push((
        y.buf,
        Hint::BatchGemm {
            a: a.buf,
            b: b.buf,
            transpose_a,
            transpose_b,
        },
    ));
    y
}

/// Returns the tensor with all but the leading extent excluded from broadcasting.
fn fixed(t: &TensorRef) -> TensorRef {
    let mut t = t.clone();
    for extent in &mut t.shape[1..] {
        *extent = Ex::idx(i64::MAX);
    }
    t
}

fn bias_add_rel(cx: &mut RelCx<'_>) -> RelResult {
    let (data, dtype) = cx.ranked(0)?;
    let axis = cx.axis("axis", cx.int("axis")?, data.len())?;
    cx.require_per_index(
        1,
        &data[axis],
        dtype,
        "the bias has one element per index of the axis",
    )?;
    let ty = cx.arg(0);
    cx.set_out(ty)
}

fn bias_add(te: &mut Te<'_>) -> Result<(), ComputeError> {
    let (x, bias) = (te.arg(0), te.arg(1));
    let axis = te.axis("axis", x.rank())?;
    // A bias of unknown extent may be a single number for all.
    let y = te.compute("bias_add", &x.shape, |i| {
        x.at(i) + bias.at_broadcast(&i[axis..=axis])
    });
    te.output(&y);
    Ok(())
}

fn dense_pack_rel(cx: &mut RelCx<'_>) -> RelResult {
    let (data, dtype) = cx.ranked(0)?;
    let (weight, _) = cx.ranked(1)?;
    if data.len() != 2 || weight.len() != 3 {
        let text = format!("`{}` takes a matrix and a packed weight of rank 3", cx.name);
        return cx.refuse(Subject::Call, text);
    }
    cx.require_eq(
        &weight[1],
        &data[1],
        Subject::Arg(1),
        "the reduced extents of data and weight must agree",
    )?;
    let dtype = cx.dtype("out_dtype").map_or(dtype, Into::into);
    cx.set_tensor(vec![data[0].clone(), &weight[0] * &weight[2]], dtype)
}

fn dense_pack(te: &mut Te<'_>) -> Result<(), ComputeError> {
    let (x, w) = (te.arg(0), te.arg(1));
    let dtype = out_dtype(te);
    let shape = [x.shape[0].clone(), &w.shape[0] * &w.shape[2]];
    let y = te.reduce(
        "dense_pack",
        &shape,
        &[x.shape[1].clone()],
        Combiner::Sum,
        |i, r| {
            let tile = &w.shape[2];
            let at = [i[1].floor_div(tile), r[0].clone(), i[1].floor_mod(tile)];
            x.at(&[i[0].clone(), r[0].clone()]).cast(dtype) * w.at(&at).cast(dtype)
        },
    );
    te.output(&y);
    Ok(())
}
