//! Tensors created from no operand or from one value: `full`, `zeros`, `ones`, their `_like` and
//! `dyn.` forms, and `arange`.

use relax_ir::AttrValue;
use relax_loops::Ex;
use relax_sym::Dim;
use relax_tensor::{DType as DT, Tensor};

use super::elementwise::identity;
use super::util::{
    anys, dtype_given, dtype_or, extents, finish, finish_like, need_scalar, vector_len,
};
use super::util_te::{Done, elements, out_shape};
use crate::AttrTy::*;
use crate::{AttrDef, Default, Fusion, OpDef, RelCx, RelResult, Subject, Te, attr, input};

const INIT: &[AttrDef] = &[
    attr("shape", Dims, Default::Required, "the extents"),
    attr(
        "dtype",
        DType,
        Default::DType(""),
        "the element type; the value's where not given",
    ),
];

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "full",
        "A tensor of the given shape filled with one value.",
        full,
    )
    .result_dtype("dtype")
    .inputs(&[input("fill_value", "the value, a scalar")])
    .attrs(INIT)
    .fusion(Fusion::Elementwise)
    .compute(full_compute),
    OpDef::new("zeros", "A tensor of zeros.", init)
        .result_dtype("dtype")
        .attrs(INIT)
        .fusion(Fusion::Elementwise)
        .compute(zeros_compute),
    OpDef::new("ones", "A tensor of ones.", init)
        .result_dtype("dtype")
        .attrs(INIT)
        .fusion(Fusion::Elementwise)
        .compute(ones_compute),
    OpDef::new(
        "full_like",
        "A tensor of another's shape and element type filled with one value.",
        full_like,
    )
    .inputs(&[
        input("data", "the tensor to be like"),
        input("fill_value", "the value, a scalar"),
    ])
    .fusion(Fusion::Elementwise)
    .compute(full_like_compute),
    OpDef::new(
        "zeros_like",
        "Zeros of another tensor's shape and element type.",
        identity,
    )
    .inputs(&[input("data", "the tensor to be like")])
    .fusion(Fusion::Elementwise)
    .compute(zeros_like_compute),
    OpDef::new(
        "ones_like",
        "Ones of another tensor's shape and element type.",
        identity,
    )
    .inputs(&[input("data", "the tensor to be like")])
    .fusion(Fusion::Elementwise)
    .compute(ones_like_compute),
    OpDef::new(
        "dyn.full",
        "A tensor filled with one value, its extents given by a tensor.",
        dyn_full,
    )
    .result_dtype("dtype")
    .static_form("full")
    .inputs(&[
        input("fill_value", "the value, a scalar"),
        input("shape", "the extents, a vector"),
    ])
    .attrs(INIT)
    .fusion(Fusion::Elementwise)
    .data_dependent()
    .compute(dyn_full_compute),
    OpDef::new(
        "dyn.zeros",
        "Zeros, the extents given by a tensor.",
        dyn_init,
    )
    .result_dtype("dtype")
    .static_form("zeros")
    .inputs(&[input("shape", "the extents, a vector")])
    .attrs(INIT)
    .fusion(Fusion::Elementwise)
    .data_dependent()
    .compute(dyn_zeros_compute),
    OpDef::new("dyn.ones", "Ones, the extents given by a tensor.", dyn_init)
        .result_dtype("dtype")
        .static_form("ones")
        .inputs(&[input("shape", "the extents, a vector")])
        .attrs(INIT)
        .fusion(Fusion::Elementwise)
        .data_dependent()
        .compute(dyn_ones_compute),
    OpDef::new(
        "arange",
        "The numbers from `start` to `end`, exclusive, by `step`.",
        arange,
    )
    .full_precision()
    .inputs(&[
        input("start", "the first number, a scalar"),
        input("end", "where to stop, exclusive"),
        input("step", "the distance between numbers"),
    ])
    .attrs(&[
        attr(
            "start",
            Any,
            Default::Required,
            "the first number, as a constant where it is one",
        ),
        attr(
            "stop",
            Any,
            Default::Required,
            "where to stop, as a constant where it is one",
        ),
        attr(
            "step",
            Any,
            Default::Required,
            "the distance, as a constant where it is one",
        ),
        attr("dtype", DType, Default::Required, "the element type"),
    ])
    .data_dependent()
    .compute(arange_compute),
];

fn full(cx: &mut RelCx<'_>) -> RelResult {
    let value = need_scalar(cx, 0, "the value to fill with")?;
    let dims = extents(cx, "shape")?;
    finish(cx, dims, dtype_or(cx, "dtype", value))
}

fn init(cx: &mut RelCx<'_>) -> RelResult {
    let dims = extents(cx, "shape")?;
    let dtype = dtype_given(cx, "dtype")?;
    finish(cx, dims, dtype)
}

fn full_like(cx: &mut RelCx<'_>) -> RelResult {
    need_scalar(cx, 1, "the value to fill with")?;
    let t = cx.tensor(0)?;
    let dtype = t.dtype;
    finish_like(cx, t, dtype)
}

fn dyn_full(cx: &mut RelCx<'_>) -> RelResult {
    let value = need_scalar(cx, 0, "the value to fill with")?;
    let rank = vector_len(cx, 1, "the shape")?;
    finish(cx, anys(rank), dtype_or(cx, "dtype", value))
}

fn dyn_init(cx: &mut RelCx<'_>) -> RelResult {
    let rank = vector_len(cx, 0, "the shape")?;
    let dtype = dtype_given(cx, "dtype")?;
    finish(cx, anys(rank), dtype)
}

/// The number of elements of `arange`, when all three numbers are known: the attributes hold them
/// (as a constant of the metadata section, or a number), or the arguments are constants.
fn arange(cx: &mut RelCx<'_>) -> RelResult {
    let dtype = dtype_given(cx, "dtype")?;
    let scalar = cx.host.types_mut().scalar(dtype);
    for (i, what) in ["`start`", "`end`", "`step`"].into_iter().enumerate() {
        cx.require_arg(
            i,
            scalar,
            &format!("{what} is a scalar of the attribute `dtype`"),
        )?;
    }
    let mut numbers = [0.0; 3];
    let mut known = true;
    for (i, name) in ["start", "stop", "step"].into_iter().enumerate() {
        let constant = cx.host.const_arg(i).filter(|t| t.len() == 1);
        match (constant, cx.attr(name)) {
            // An extent that the attributes do not determine stays unknown, even where the argument
            // is a constant.
            (_, AttrValue::None) => known = false,
            (_, AttrValue::Int(v)) => numbers[i] = *v as f64,
            (_, AttrValue::Float(v)) => numbers[i] = *v,
            (Some(t), _) => numbers[i] = t.get_f64(0),
            (None, _) => known = false,
        }
    }
    if !known {
        return finish(cx, anys(1), dtype);
    }
    let [start, stop, step] = numbers;
    let count = ((stop - start) / step).ceil();
    if !(count >= 1.0 && count <= f64::from(i32::MAX)) {
        return cx.refuse(
            Subject::Call,
            format!("from {start} to {stop} by {step} there are no numbers, or too many"),
        );
    }
    finish(cx, vec![Dim::from(count as i64)], dtype)
}

fn filled(te: &mut Te<'_>, shape: &[Ex], value: Ex) -> Done {
    let y = te.compute("y", shape, |_| value);
    te.output(&y);
    Ok(())
}

fn full_compute(te: &mut Te<'_>) -> Done {
    let shape = out_shape(te);
    let value = te.arg(0).scalar().cast(te.out(0).dtype);
    filled(te, &shape, value)
}

fn constant(te: &mut Te<'_>, value: i64) -> Done {
    let shape = out_shape(te);
    let value = Ex::int(te.out(0).dtype, value);
    filled(te, &shape, value)
}
fn zeros_compute(te: &mut Te<'_>) -> Done {
    constant(te, 0)
}
fn ones_compute(te: &mut Te<'_>) -> Done {
    constant(te, 1)
}

fn full_like_compute(te: &mut Te<'_>) -> Done {
    let (x, v) = (te.arg(0), te.arg(1));
    filled(te, &x.shape, v.scalar().cast(x.dtype))
}
fn zeros_like_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    filled(te, &x.shape, Ex::int(x.dtype, 0))
}
fn ones_like_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    filled(te, &x.shape, Ex::int(x.dtype, 1))
}

fn dyn_full_compute(te: &mut Te<'_>) -> Done {
    let shape = elements(&te.arg(1))?;
    let value = te.arg(0).scalar().cast(te.out(0).dtype);
    filled(te, &shape, value)
}
fn dyn_zeros_compute(te: &mut Te<'_>) -> Done {
    let shape = elements(&te.arg(0))?;
    let value = Ex::int(te.out(0).dtype, 0);
    filled(te, &shape, value)
}
fn dyn_ones_compute(te: &mut Te<'_>) -> Done {
    let shape = elements(&te.arg(0))?;
    let value = Ex::int(te.out(0).dtype, 1);
    filled(te, &shape, value)
}

/// Only values before `end`: where the extent is determined at run time, TVM counts with `start`,
/// `end` and `step` truncated to integers, and exceeds `end` for fractions.
fn arange_compute(te: &mut Te<'_>) -> Done {
    let [start, stop, step] = [te.arg(0), te.arg(1), te.arg(2)].map(|t| t.scalar());
    let dtype = te.out(0).dtype;
    let number = |t: Option<&Tensor>| t.filter(|t| t.len() == 1).map(|t| t.get_f64(0));
    let known = [0, 1, 2].map(|i| number(te.const_arg(i)));
    let count = match (te.out(0).shape.first().copied().flatten(), known) {
        (Some(n), _) => Ex::idx(n),
        (None, [Some(a), Some(b), Some(s)]) => Ex::idx(((b - a) / s).ceil().max(0.0) as i64),
        _ => {
            let [a, b, s] = [&start, &stop, &step].map(|e| e.cast(DT::F64));
            let n = ((b - a) / s).unary(relax_loops::UnOp::Ceil);
            n.cast(DT::I64).max(0i64)
        }
    };
    let y = te.compute("y", &[count], |i| {
        (&start + &step * i[0].cast(step.dtype())).cast(dtype)
    });
    te.output(&y);
    Ok(())
}
