//! Padding and spreading: pad, mirror_pad, dilate.

use relax_loops::{Ex, Operand};
use relax_sym::Dim;

use super::nn_conv::Pairs;
use crate::{
    AttrTy, ComputeError, Default, Former, Fusion, OpDef, RelCx, RelResult, Subject, Te, attr,
    former, input,
};

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "nn.pad",
        "Puts values around a tensor; negative widths cut off.",
        |cx| pad_rel(cx, true),
    )
    .layout(super::layout_rules::padded)
    .affine_rule(super::affine_rules::padded)
    .former(&[Former::form("nn.pad", 7, former::pad_value)])
    .inputs(&[
        input("data", "the input"),
        input("pad_val", "the value, a scalar"),
    ])
    .attrs(&[
        attr(
            "pad_width",
            AttrTy::IntLists,
            Default::Required,
            "for each axis, how much before and after",
        ),
        attr(
            "pad_mode",
            AttrTy::Str,
            Default::Str("constant"),
            "`constant`, `edge` or `reflect`",
        ),
    ])
    .fusion(Fusion::Injective)
    .compute(pad),
    OpDef::new(
        "nn.mirror_pad",
        "Pads with the tensor's own mirrored elements.",
        |cx| pad_rel(cx, false),
    )
    .layout(super::layout_rules::padded)
    .inputs(&[input("data", "the input")])
    .attrs(&[
        attr(
            "mode",
            AttrTy::Str,
            Default::Str("SYMMETRIC"),
            "`SYMMETRIC` repeats the border, `REFLECT` does not",
        ),
        attr(
            "pad_width",
            AttrTy::IntLists,
            Default::Required,
            "for each axis, how much before and after",
        ),
    ])
    .fusion(Fusion::Injective)
    .compute(mirror_pad),
    OpDef::new(
        "nn.dilate",
        "Puts a value between neighbouring elements.",
        dilate_rel,
    )
    .inputs(&[input("x", "the input")])
    .attrs(&[
        attr(
            "strides",
            AttrTy::Ints,
            Default::Ints(&[1, 1]),
            "for each axis, the distance that neighbours get",
        ),
        attr(
            "dilation_value",
            AttrTy::Float,
            Default::Float(0.0),
            "what is put between",
        ),
    ])
    .meta_attrs("relay.attrs.DilateAttrs")
    .fusion(Fusion::Injective)
    .compute(dilate),
];

fn pad_rel(cx: &mut RelCx<'_>, negative: bool) -> RelResult {
    let (mut dims, dtype) = cx.ranked(0)?;
    let Some(widths) = cx.attr("pad_width").as_int_pairs() else {
        let text = "`pad_width` must be a list of pairs of integers";
        return cx.refuse(Subject::Attr("pad_width"), text);
    };
    if negative {
        super::util::word(cx, "pad_mode", &["constant", "edge", "reflect"])?;
    } else {
        super::util::word(cx, "mode", &["SYMMETRIC", "REFLECT"])?;
    }
    if widths.len() != dims.len() {
        let text = format!(
            "`pad_width` has {} pairs, but the tensor has rank {}: one pair per axis",
            widths.len(),
            dims.len()
        );
        return cx.refuse(Subject::Attr("pad_width"), text);
    }
    for (k, (d, &(before, after))) in dims.iter_mut().zip(&widths).enumerate() {
        if !negative && (before < 0 || after < 0) {
            return cx.refuse(
                Subject::Attr("pad_width"),
                "mirrored padding cannot be negative",
            );
        }
        if d.is_any() {
            continue;
        }
        if !negative && let Some(n) = d.as_const() {
            // Without its edge, an axis has one element less to reflect.
            let most = n - i64::from(cx.attr("mode").as_str() == Some("REFLECT"));
            if before.max(after) > most {
                return cx.refuse(
                    Subject::Attr("pad_width"),
                    format!("axis {k} of extent {n} has at most {most} elements to mirror"),
                );
            }
        }
        *d = &*d + &Dim::from(before.saturating_add(after));
        if d.as_const().is_some_and(|n| n < 0) {
            let text = format!("`pad_width` cuts more off axis {k} than it has");
            return cx.refuse(Subject::Attr("pad_width"), text);
        }
    }
    cx.set_tensor(dims, dtype)
}

fn padded_shape(te: &Te<'_>, shape: &[Ex]) -> Result<(Vec<Ex>, Pairs), ComputeError> {
    let widths = te
        .attr("pad_width")
        .as_int_pairs()
        .ok_or("`pad_width` is no list of pairs")?;
    let shape = shape
        .iter()
        .zip(&widths)
        .map(|(d, w)| d + (w.0 + w.1))
        .collect();
    Ok((shape, widths))
}

fn pad(te: &mut Te<'_>) -> Result<(), ComputeError> {
    let (x, value) = (te.arg(0), te.arg(1));
    let (shape, widths) = padded_shape(te, &x.shape)?;
    let mode = te.str("pad_mode");
    let y = te.compute("pad", &shape, |i| {
        let from: Vec<Ex> = i.iter().zip(&widths).map(|(i, w)| i - w.0).collect();
        match mode {
            "edge" => {
                let clamp = |(k, i): (usize, &Ex)| i.max(0i64).min(&x.shape[k] - 1);
                let at: Vec<Ex> = from.iter().enumerate().map(clamp).collect();
                x.at(&at)
            }
            "reflect" => x.at(&mirrored(&from, &x.shape, 1)),
            _ => {
                let mut inside = Ex::bool(true);
                for (k, (i, w)) in from.iter().zip(&widths).enumerate() {
                    if w.0 > 0 {
                        inside = both(inside, i.ge(0i64));
                    }
                    if w.1 > 0 {
                        inside = both(inside, i.lt(&x.shape[k]));
                    }
                }
                Ex::where_(&inside, &x.at(&from), &value.scalar().cast(x.dtype))
            }
        }
    });
    te.output(&y);
    Ok(())
}

fn both(a: Ex, b: impl Into<Operand>) -> Ex {
    let Operand::Ex(b) = b.into() else { return a };
    if a.as_int() == Some(1) { b } else { a & b }
}

/// Reflects indices into the tensor, excluding the border element (`skip` 1) or repeating it
/// (`skip` 0).
fn mirrored(from: &[Ex], shape: &[Ex], skip: i64) -> Vec<Ex> {
    let one = |(i, n): (&Ex, &Ex)| {
        let low = -i - (1 - skip);
        let high = n * 2 - i - (1 + skip);
        Ex::where_(&i.lt(0i64), &low, &Ex::where_(&i.ge(n), &high, i))
    };
    from.iter().zip(shape).map(one).collect()
}

fn mirror_pad(te: &mut Te<'_>) -> Result<(), ComputeError> {
    let x = te.arg(0);
    let (shape, widths) = padded_shape(te, &x.shape)?;
    let skip = i64::from(te.str("mode") == "REFLECT");
    let y = te.compute("mirror_pad", &shape, |i| {
        let from: Vec<Ex> = i.iter().zip(&widths).map(|(i, w)| i - w.0).collect();
        x.at(&mirrored(&from, &x.shape, skip))
    });
    te.output(&y);
    Ok(())
}

fn dilate_rel(cx: &mut RelCx<'_>) -> RelResult {
    let (mut dims, dtype) = cx.ranked(0)?;
    let strides = cx.ints("strides")?.unwrap_or_default();
    if strides.len() != dims.len() {
        let text = format!(
            "`strides` has {} numbers, but the tensor has rank {}",
            strides.len(),
            dims.len()
        );
        return cx.refuse(Subject::Attr("strides"), text);
    }
    if let Some(bad) = strides.iter().find(|&&s| s < 1) {
        return cx.refuse(
            Subject::Attr("strides"),
            format!("`strides` must be positive, not {bad}"),
        );
    }
    for (d, &s) in dims.iter_mut().zip(&strides) {
        // There is nothing to insert between no elements.
        if !d.is_any() && d.as_const() != Some(0) {
            *d = (&*d - &Dim::ONE) * Dim::from(s) + Dim::ONE;
        }
    }
    cx.set_tensor(dims, dtype)
}

fn dilate(te: &mut Te<'_>) -> Result<(), ComputeError> {
    let x = te.arg(0);
    let strides = te.ints("strides").ok_or("`strides` is missing")?;
    let value = te.float("dilation_value")?;
    let shape: Vec<Ex> = x
        .shape
        .iter()
        .zip(&strides)
        .map(|(d, &s)| ((d - 1) * s + 1).max(0i64))
        .collect();
    let y = te.compute("dilate", &shape, |i| {
        let mut on = Ex::bool(true);
        let mut at = Vec::new();
        for (i, &s) in i.iter().zip(&strides) {
            at.push(i.floor_div(s));
            if s > 1 {
                on = both(on, i.floor_mod(s).eq(0i64));
            }
        }
        let v = x.at(&at);
        Ex::where_(&on, &v, &v.same(value))
    });
    te.output(&y);
    Ok(())
}
