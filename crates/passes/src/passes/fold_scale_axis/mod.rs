//! `fold-scale-axis`: folds a scale along the channels of a convolution's or dense product's data,
//! or of its result, into the weight.
//!
//! Forward, `conv(x * s, w)` becomes `conv(x, w * s')`; backward, `conv(x, w) * s` becomes
//! `conv(x, w * s'')`. Between the two, operations that a scale commutes with are allowed:
//! additions (the other operand is scaled, or divided, too) and, for positive constant scales,
//! `relu`. Operators declare their role in [`ScaleRole`]: of a contraction, that is where the numbers of
//! its channels lie in its weight, so that layouts, groups and transposed windows are no matter here.

mod backward;
mod forward;

use relax_base::{Diagnostics, Span};
use relax_ir::{AttrValue, ExprId};
use relax_ops::{Channels, Contraction, Lie, ScaleRole, ScaleSite};
use relax_sym::Dim;

use crate::edit::{Edit, OpCall};
use crate::{Analysis, Contract, OptionDef, OptionType, PassCx, PassDef};

const LAWS: &str = "a factor of a sum is one of its terms: `s * (x + y) = s * x + s * y`";

/// The pass.
pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "fold-scale-axis",
    doc: "Folds scales along channels into the weights of convolutions and matrix products.",
    options: &[OptionDef {
        name: "direction",
        ty: OptionType::Choice(&["forward", "backward"]),
        default: "backward",
        doc: "whether scales move to the product behind them or to the one before",
    }],
    contract: Contract::TYPED
        .laws(LAWS)
        .each_function()
        .preserves(&[Analysis::Effects]),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let forward = cx.options.text("direction") == "forward";
    let mut edit = Edit::new(cx.module, &typing);
    let mut count = 0;
    for (global, body) in edit.m.global_bodies() {
        let (new, n) = if forward {
            forward::fold(&mut edit, body)
        } else {
            backward::fold(&mut edit, body)
        };
        count += n;
        edit.m.set_global_body(global, new);
    }
    cx.count("scales folded", count);
    Ok(())
}

/// The requirement on a scale, at an expression.
#[derive(Clone, PartialEq, Debug)]
struct Message {
    /// The axes that it runs along, ascending.
    axes: Vec<usize>,
    /// Whether it must be positive.
    positive: bool,
}

/// Returns a call's role for a scale. All operands have one element type: a product of 8-bit
/// integers into 32 bits cannot hold the scale in its weight. Integers wrap, and a wrapped scale is
/// not known to be positive.
fn role(e: &Edit<'_>, node: ExprId) -> Option<(OpCall, ScaleRole)> {
    let call = e.op_call(node)?;
    let role = call.def.hooks.scale?;
    let dtype = e.dtype(node)?;
    let one = call.args.iter().all(|&a| e.dtype(a) == Some(dtype));
    let wraps = matches!(role, ScaleRole::Positive) && !dtype.is_float();
    (one && !wraps).then_some((call, role))
}

/// Returns a constant, looking through reshapes and repetitions.
fn constant_behind(e: &Edit<'_>, mut node: ExprId) -> Option<ExprId> {
    loop {
        if e.constant_value(node).is_some() {
            return Some(node);
        }
        let call = e.op_call(node).filter(|c| c.def.hooks.same_elements)?;
        node = *call.args.first()?;
    }
}

/// Returns whether all elements of a constant expression satisfy a condition.
fn elements(e: &Edit<'_>, node: ExprId, holds: impl Fn(f64) -> bool) -> bool {
    let Some(value) = constant_behind(e, node).and_then(|c| e.constant_value(c)) else {
        return false;
    };
    (0..value.len()).all(|i| holds(value.get_f64(i)))
}

/// Returns whether `small` broadcasts against `large` along exactly these axes of `large`: it has
/// their extents there and 1 elsewhere.
fn along(e: &Edit<'_>, large: ExprId, small: ExprId, axes: &[usize]) -> bool {
    let (Some(large), Some(small)) = (e.dims(large), e.dims(small)) else {
        return false;
    };
    let Some(base) = large.len().checked_sub(small.len()) else {
        return false;
    };
    let one = Dim::from(1);
    (0..large.len()).all(|i| match axes.contains(&i) {
        true => i >= base && large[i] == small[i - base] && !large[i].is_any(),
        false => i < base || small[i - base] == one,
    })
}

/// Returns the scale as a tensor of the given axes alone, when `small` scales `large` along them.
fn scale_along(
    e: &mut Edit<'_>,
    large: ExprId,
    small: ExprId,
    value: ExprId,
    axes: &[usize],
    span: Span,
) -> Option<ExprId> {
    let rank = e.dims(small)?.len();
    let dims = e.dims(large)?;
    if rank == 0 {
        let extents: Vec<i64> = axes
            .iter()
            .map(|&a| dims.get(a)?.as_const())
            .collect::<Option<_>>()?;
        let n = AttrValue::Int(axes.len() as i64);
        let mut value = e.call(
            "expand_dims",
            &[value],
            &[("axis", AttrValue::Int(0)), ("num_newaxis", n)],
            span,
        );
        for (i, extent) in extents.into_iter().enumerate() {
            let given = [
                ("repeats", AttrValue::Int(extent)),
                ("axis", AttrValue::Int(i as i64)),
            ];
            value = e.call("repeat", &[value], &given, span);
        }
        return Some(value);
    }
    if !along(e, large, small, axes) {
        return None;
    }
    let base = dims.len() - rank;
    let ones: Vec<i64> = (base..dims.len())
        .filter(|i| !axes.contains(i))
        .map(|i| (i - base) as i64)
        .collect();
    if ones.is_empty() {
        return Some(value);
    }
    Some(e.call(
        "squeeze",
        &[value],
        &[("axis", AttrValue::ints(&ones))],
        span,
    ))
}

/// Reshapes a scale over `axes` so that it broadcasts against a tensor of these dimensions.
fn spread(
    e: &mut Edit<'_>,
    scale: ExprId,
    dims: &[Dim],
    axes: &[usize],
    span: Span,
) -> Option<ExprId> {
    if let [axis] = axes {
        let behind = dims.len() - 1 - axis;
        if behind == 0 {
            return Some(scale);
        }
        let n = AttrValue::Int(behind as i64);
        return Some(e.call(
            "expand_dims",
            &[scale],
            &[("axis", AttrValue::Int(1)), ("num_newaxis", n)],
            span,
        ));
    }
    let extent = |(i, d): (usize, &Dim)| {
        if axes.contains(&i) {
            d.as_const()
        } else {
            Some(1)
        }
    };
    let shape: Vec<i64> = dims.iter().enumerate().map(extent).collect::<Option<_>>()?;
    Some(e.call(
        "reshape",
        &[scale],
        &[("newshape", AttrValue::ints(&shape))],
        span,
    ))
}

/// Returns where the channels of a contraction lie.
fn contraction(e: &Edit<'_>, node: ExprId, call: &OpCall, role: ScaleRole) -> Option<Contraction> {
    let ScaleRole::Contraction(of) = role else {
        return None;
    };
    let [data, weight, ..] = call.args[..] else {
        return None;
    };
    of(&ScaleSite {
        attrs: e.m.attrs(call.attrs),
        data: &e.dims(data)?,
        weight: &e.dims(weight)?,
        result: &e.dims(node)?,
    })
}

/// The requirement of a contraction on a scale along channels.
fn message(channels: Channels) -> Message {
    Message {
        axes: channels.axes,
        positive: false,
    }
}

/// Scales a weight by numbers of channels.
fn scaled_weight(
    e: &mut Edit<'_>,
    weight: ExprId,
    mut scale: ExprId,
    channels: &Channels,
    span: Span,
) -> Option<ExprId> {
    let dims = e.dims(weight)?;
    let axes = match channels.weight {
        Lie::Along(ref axes) => axes.clone(),
        Lie::Groups {
            axes: [first, second],
            groups,
            repeats,
        } => {
            let apart = [("newshape", AttrValue::ints(&groups))];
            scale = e.call("reshape", &[scale], &apart, span);
            if repeats > 1 {
                let given = [("repeats", repeats), ("axis", 0)];
                let given = given.map(|(name, n)| (name, AttrValue::Int(n)));
                scale = e.call("repeat", &[scale], &given, span);
            }
            if first > second {
                let turned = [("axes", AttrValue::ints(&[1, 0]))];
                scale = e.call("transpose", &[scale], &turned, span);
            }
            vec![first.min(second), first.max(second)]
        }
    };
    let scale = spread(e, scale, &dims, &axes, span)?;
    Some(e.call("multiply", &[weight, scale], &[], span))
}
