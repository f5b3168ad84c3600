//! Annotations: their result is their argument.

use relax_loops::{Ex, UnOp};
use relax_tensor::DType as DT;

use super::util::word;
use super::util_te::Done;
use crate::AttrTy::*;
use crate::{AttrDef, Default, Effects, Fusion, OpDef, RelCx, RelResult, Subject, Te, attr, input};

const COMPILER: &[AttrDef] = &[attr(
    "compiler",
    Str,
    Default::Required,
    "the name of the compiler",
)];

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new("copy", "The same tensor.", same)
        .inputs(&[input("data", "the input")])
        .fusion(Fusion::Elementwise)
        .compute(same_compute),
    OpDef::new(
        "annotation.stop_fusion",
        "The same tensor, not fused with what follows.",
        same,
    )
    .fusion_barrier()
    .inputs(&[input("data", "the input")])
    .compute(same_compute),
    OpDef::new(
        "annotation.cast_hint",
        "The same tensor, with a hint at an element type to convert to.",
        same,
    )
    .inputs(&[input("data", "the input")])
    .attrs(&[attr("dtype", DType, Default::Required, "the element type")])
    .meta_attrs("relay.attrs.CastHintAttrs")
    .compute(same_compute),
    OpDef::new(
        "annotation.bitpack_start",
        "Marks where packing of bits begins.",
        same,
    )
    .inputs(&[input("data", "the input")])
    .compute(same_compute),
    OpDef::new(
        "annotation.bitpack_end",
        "Marks where packing of bits ends.",
        same,
    )
    .inputs(&[input("data", "the input")])
    .compute(same_compute),
    OpDef::new(
        "annotation.checkpoint",
        "Marks a value that is kept for the gradient; others are computed again.",
        same,
    )
    .inputs(&[input("data", "the input")])
    .compute(same_compute),
    OpDef::new(
        "annotation.compiler_begin",
        "Begins a region for another compiler.",
        same,
    )
    .inputs(&[input("data", "the input")])
    .attrs(COMPILER)
    .meta_attrs("relay.attrs.CompilerAttrs")
    .compute(same_compute),
    OpDef::new(
        "annotation.compiler_end",
        "Ends a region for another compiler.",
        same,
    )
    .inputs(&[input("data", "the input")])
    .attrs(COMPILER)
    .meta_attrs("relay.attrs.CompilerAttrs")
    .compute(same_compute),
    OpDef::new(
        "annotation.with_funcid",
        "The same value, with the number of a function.",
        same,
    )
    .inputs(&[input("data", "the input")])
    .compute(same_compute),
    OpDef::new("device_copy", "The same tensor on another device.", same)
        .device_bound()
        .inputs(&[input("data", "the input")])
        .attrs(&[
            attr("src_virtual_device", Any, Default::Required, "where it is"),
            attr(
                "dst_virtual_device",
                Any,
                Default::Required,
                "where it is to be",
            ),
        ])
        .compute(same_compute),
    OpDef::new("on_device", "The same value, computed on a device.", same)
        .not_computed()
        .inputs(&[input("body", "the expression")])
        .attrs(&[
            attr("virtual_device", Any, Default::None, "the device"),
            attr(
                "constrain_result",
                Bool,
                Default::Bool(false),
                "whether the result is to be there",
            ),
            attr(
                "constrain_body",
                Bool,
                Default::Bool(true),
                "whether the expression is to be computed there",
            ),
        ])
        .compute(same_compute),
    OpDef::new("debug", "The same value, shown to the debugger.", same)
        .inputs(&[input("program", "the value")])
        .attrs(&[attr(
            "debug_func",
            Any,
            Default::Required,
            "the function that shows it",
        )])
        .effects(Effects::Effect)
        .compute(same_compute),
    OpDef::new(
        "relay.op.annotation.simulated_quantize",
        "The input rounded to the values that a quantised type has.",
        simulated_quantize,
    )
    .inputs(&[
        input("data", "the input"),
        input("dom_scale", "the distance between values, a scalar"),
        input("clip_min", "the least value, a scalar"),
        input("clip_max", "the greatest value, a scalar"),
    ])
    .attrs(&[
        attr(
            "kind",
            Int,
            Default::Required,
            "what is quantised: 1 input, 2 weight, 3 activation",
        ),
        attr(
            "sign",
            Bool,
            Default::Bool(true),
            "whether the type is signed",
        ),
        attr(
            "rounding",
            Str,
            Default::Str("round"),
            "`floor`, `ceil` or `round`",
        ),
    ])
    .compute(simulated_quantize_compute),
];

/// The result has the argument's type, whatever that is.
fn same(cx: &mut RelCx<'_>) -> RelResult {
    cx.set_out(cx.args[0])
}

/// Returns every tensor of the argument unchanged.
fn same_compute(te: &mut Te<'_>) -> Done {
    for t in te.tuple(0) {
        let y = te.compute("y", &t.shape, |i| t.at(i));
        te.output(&y);
    }
    Ok(())
}

fn simulated_quantize(cx: &mut RelCx<'_>) -> RelResult {
    word(cx, "rounding", &["round", "floor", "ceil", "passthrough"])?;
    let data = cx.tensor(0)?;
    let scalar = cx.host.types_mut().scalar(DT::F32);
    for (i, what) in [
        (1, "the scale"),
        (2, "the least value"),
        (3, "the greatest value"),
    ] {
        cx.require_arg(i, scalar, &format!("{what} is a float32 scalar"))?;
    }
    if let Some(d) = data.dtype.known().filter(|d| !d.is_float()) {
        return cx.refuse(Subject::Arg(0), format!("the data must be floats, not {d}"));
    }
    cx.set_out(cx.args[0])
}

/// Divides by the scale, clips, rounds and multiplies by the scale again.
fn simulated_quantize_compute(te: &mut Te<'_>) -> Done {
    let (x, [scale, low, high]) = (
        te.arg(0),
        [1, 2, 3].map(|k| te.arg(k).scalar().cast(te.arg(0).dtype)),
    );
    let rounding = match te.str("rounding") {
        "floor" => Some(UnOp::Floor),
        "ceil" => Some(UnOp::Ceil),
        "passthrough" => None,
        _ => Some(UnOp::Round),
    };
    let y = te.compute("y", &x.shape, |i| {
        let scaled: Ex = (x.at(i) / &scale).min(&high).max(&low);
        let whole = rounding.map_or(scaled.clone(), |r| scaled.unary(r));
        whole * &scale
    });
    te.output(&y);
    Ok(())
}
