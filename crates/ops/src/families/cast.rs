//! Conversions between element types.

use relax_ir::DTy;

use super::util::{dtype_given, finish_like};
use super::util_te::Done;
use crate::AttrTy::*;
use crate::{AttrDef, Default, Fusion, OpDef, RelCx, RelResult, Subject, Te, attr, input};

const TO: &[AttrDef] = &[attr(
    "dtype",
    DType,
    Default::Required,
    "the element type to convert to",
)];

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "cast",
        "Each element converted to another element type.",
        cast,
    )
    .inputs(&[input("data", "the input")])
    .attrs(TO)
    .fusion(Fusion::Elementwise)
    .compute(cast_compute),
    OpDef::new(
        "cast_like",
        "Each element converted to another tensor's element type.",
        cast_like,
    )
    .inputs(&[
        input("data", "the input"),
        input("dtype_like", "the tensor whose element type to take"),
    ])
    .fusion(Fusion::Elementwise)
    .compute(cast_compute),
    OpDef::new(
        "reinterpret",
        "The same bits read as another element type of the same width.",
        reinterpret,
    )
    .inputs(&[input("data", "the input")])
    .attrs(TO)
    .fusion(Fusion::Elementwise)
    .compute(reinterpret_compute),
];

fn cast(cx: &mut RelCx<'_>) -> RelResult {
    let dtype = dtype_given(cx, "dtype")?;
    let t = cx.tensor(0)?;
    finish_like(cx, t, dtype)
}

fn cast_like(cx: &mut RelCx<'_>) -> RelResult {
    let t = cx.tensor(0)?;
    let dtype = cx.tensor(1)?.dtype;
    if matches!(dtype, DTy::Infer(_)) {
        return Err(crate::Stop::Wait);
    }
    finish_like(cx, t, dtype)
}

fn reinterpret(cx: &mut RelCx<'_>) -> RelResult {
    let to = dtype_given(cx, "dtype")?;
    let t = cx.tensor(0)?;
    if let Some(from) = t.dtype.known()
        && from.size() != to.size()
    {
        let (a, b) = (from.size() * 8, to.size() * 8);
        return cx.refuse(
            Subject::Attr("dtype"),
            format!("bits are read as a type of the same width: {from} has {a}, {to} has {b}"),
        );
    }
    finish_like(cx, t, to)
}

fn cast_compute(te: &mut Te<'_>) -> Done {
    let dtype = te.out(0).dtype;
    te.elementwise(|x| x.cast(dtype))
}

fn reinterpret_compute(te: &mut Te<'_>) -> Done {
    let dtype = te.out(0).dtype;
    te.elementwise(|x| x.reinterpret(dtype))
}
