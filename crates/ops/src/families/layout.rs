//! Layout transformations: `NCHW` to `NCHW8c` and the like.

use relax_loops::Ex;
use relax_sym::Dim;

use super::util::{check_eq, finish, need_multiple, shaped};
use super::util_te::Done;
use crate::AttrTy::*;
use crate::{Default, Fusion, Layout, OpDef, RelCx, RelResult, Subject, Te, attr, input};

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "layout_transform",
        "The same tensor in another data layout.",
        layout_transform,
    )
    .layout(super::layout_rules::transformed)
    .cost(super::costs::moved)
    .inputs(&[input("data", "the input")])
    .attrs(&[
        attr(
            "src_layout",
            Str,
            Default::Required,
            "the input's layout, `NCHW`",
        ),
        attr(
            "dst_layout",
            Str,
            Default::Required,
            "the output's layout, `NCHW16c`",
        ),
    ])
    .fusion(Fusion::Injective)
    .compute(layout_transform_compute),
    OpDef::new(
        "auto_scheduler_layout_transform",
        "The same tensor in another layout whose extents are written out.",
        auto_scheduler,
    )
    .inputs(&[input("data", "the input")])
    .attrs(&[
        attr(
            "src_layout",
            Str,
            Default::Required,
            "the input's layout, `1N32C112H112W`",
        ),
        attr(
            "dst_layout",
            Str,
            Default::Required,
            "the output's layout, `1N2C112H112W16c`",
        ),
    ])
    .fusion(Fusion::Injective)
    .compute(auto_scheduler_compute),
    OpDef::new(
        "meta_schedule_layout_transform",
        "The same tensor under an index map.",
        meta_schedule,
    )
    .uncomputed(
        "an index map is a function of TVM's tensor expressions, which the text only refers to",
    )
    .inputs(&[input("data", "the input")])
    .attrs(&[attr("index_map", Any, Default::Required, "the index map")])
    .fusion(Fusion::Injective),
];

fn layout_attr(cx: &RelCx<'_>, name: &'static str) -> RelResult<Layout> {
    let text = cx.attr(name).as_str().unwrap_or("");
    match Layout::parse(text) {
        Some(l) => Ok(l),
        None => cx.refuse(
            Subject::Attr(name),
            format!("`{name}=\"{text}\"` is no layout"),
        ),
    }
}

fn layout_transform(cx: &mut RelCx<'_>) -> RelResult {
    let (from, to) = (
        layout_attr(cx, "src_layout")?,
        layout_attr(cx, "dst_layout")?,
    );
    if !from.convertible(&to) {
        return cx.refuse(
            Subject::Attr("dst_layout"),
            "the two layouts have different axes",
        );
    }
    let (dims, dtype) = shaped(cx, 0)?;
    let Some(dims) = dims else {
        return cx.finish_unranked(dtype);
    };
    if dims.len() != from.rank() {
        let (n, m) = (from.rank(), dims.len());
        return cx.refuse(
            Subject::Attr("src_layout"),
            format!("the layout has {n} axes, but the tensor has rank {m}"),
        );
    }
    for (d, axis) in dims.iter().zip(from.axes()) {
        if axis.factor > 0 {
            let rule = format!(
                "the inner axis `{}` has the extent that the layout says",
                axis.letter
            );
            check_eq(
                cx,
                d,
                &Dim::from(axis.factor),
                Subject::Attr("src_layout"),
                &rule,
            )?;
        }
    }
    // A block that does not divide the extent would drop the axis's last elements.
    for (letter, factor) in to
        .axes()
        .iter()
        .filter(|a| a.factor > 0)
        .map(|a| (a.letter, a.factor))
    {
        let upper = letter.to_ascii_uppercase();
        let whole = (dims.iter().zip(from.axes()))
            .filter(|(_, a)| a.letter.eq_ignore_ascii_case(&letter))
            .fold(Dim::ONE, |n, (d, _)| &n * d);
        let what = format!("the extent of `{upper}`, which is cut into blocks,");
        need_multiple(cx, &whole, factor, Subject::Attr("dst_layout"), &what)?;
    }
    // TVM's layouts compute in 32 bits.
    let dims: Vec<Dim> = dims.iter().map(Dim::narrow).collect();
    let out = from.convert_dims(&to, &dims);
    finish(cx, out, dtype)
}

fn layout_transform_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let [from, to] = ["src_layout", "dst_layout"].map(|n| Layout::parse(te.str(n)));
    let (from, to) = (from.ok_or("no such layout")?, to.ok_or("no such layout")?);
    if !from.convertible(&to) || from.rank() != x.rank() {
        return Err("the layouts do not fit the tensor".into());
    }
    let shape = from.convert_extents(&to, &x.shape);
    let y = te.compute("y", &shape, |i| x.at(&from.index_from(&to, i)));
    te.output(&y);
    Ok(())
}

/// Parses the axes of a layout whose extents are written before their names: `1N2C112H112W16c`.
fn written(text: &str) -> Option<Vec<(i64, String)>> {
    let mut axes: Vec<(i64, String)> = Vec::new();
    let (mut extent, mut digits) = (0i64, false);
    for c in text.chars() {
        if let Some(d) = c.to_digit(10) {
            extent = if digits { extent } else { 0 }
                .checked_mul(10)?
                .checked_add(d.into())?;
            digits = true;
        } else if c.is_ascii_alphabetic() {
            match axes.last_mut() {
                Some((_, name)) if !digits => name.push(c),
                _ if digits && extent > 0 => axes.push((extent, c.into())),
                _ => return None,
            }
            digits = false;
        } else {
            return None;
        }
    }
    (!digits && !axes.is_empty()).then_some(axes)
}

fn written_attr(cx: &RelCx<'_>, name: &'static str) -> RelResult<Vec<(i64, String)>> {
    let text = cx.attr(name).as_str().unwrap_or("");
    match written(text) {
        Some(axes) => Ok(axes),
        None => cx.refuse(
            Subject::Attr(name),
            format!("`{name}=\"{text}\"` is no layout with extents, such as `1N32C8c`"),
        ),
    }
}

fn auto_scheduler(cx: &mut RelCx<'_>) -> RelResult {
    let (from, to) = (
        written_attr(cx, "src_layout")?,
        written_attr(cx, "dst_layout")?,
    );
    for (_, name) in from.iter().chain(&to) {
        let extent = |all: &[(i64, String)]| {
            let own = all.iter().filter(|(_, n)| n.eq_ignore_ascii_case(name));
            own.fold(1i64, |n, (m, _)| n.saturating_mul(*m))
        };
        let (a, b) = (extent(&from), extent(&to));
        if a != b {
            return cx.refuse(
                Subject::Attr("dst_layout"),
                format!("both layouts keep each axis, but `{name}` has {a} elements in one and {b} in the other"),
            );
        }
    }
    let (dims, dtype) = shaped(cx, 0)?;
    if let Some(rank) = dims.map(|d| d.len()).filter(|&r| r != from.len()) {
        let n = from.len();
        return cx.refuse(
            Subject::Attr("src_layout"),
            format!("the layout has {n} axes, but the tensor has rank {rank}"),
        );
    }
    finish(cx, to.iter().map(|(n, _)| Dim::from(*n)).collect(), dtype)
}

fn auto_scheduler_compute(te: &mut Te<'_>) -> Done {
    let x = te.arg(0);
    let [from, to] = ["src_layout", "dst_layout"].map(|n| written(te.str(n)));
    let (from, to) = (from.ok_or("no such layout")?, to.ok_or("no such layout")?);
    if from.len() != x.rank() {
        return Err("the layout does not fit the tensor".into());
    }
    let shape: Vec<Ex> = to.iter().map(|(n, _)| Ex::idx(*n)).collect();
    let y = te.compute("y", &shape, |i| {
        let index: Vec<Ex> = (from.iter().enumerate())
            .map(|(k, (extent, name))| {
                // The index along the whole axis, and the part of it that this input axis counts.
                let own = to
                    .iter()
                    .zip(i)
                    .filter(|((_, n), _)| n.eq_ignore_ascii_case(name));
                let at = own.fold(Ex::idx(0), |at, ((n, _), i)| at * *n + i);
                let inner = (from[k + 1..].iter())
                    .filter(|(_, n)| n.eq_ignore_ascii_case(name))
                    .fold(1i64, |all, (n, _)| all.saturating_mul(*n));
                at.floor_div(inner).floor_mod(*extent)
            })
            .collect();
        x.at(&index)
    });
    te.output(&y);
    Ok(())
}

/// Index maps are TVM's own functions; only the result type can be used.
fn meta_schedule(cx: &mut RelCx<'_>) -> RelResult {
    let (_, dtype) = shaped(cx, 0)?;
    cx.finish_unranked(dtype)
}
