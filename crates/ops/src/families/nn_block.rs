//! Rearranging blocks of space into depth or batch, and back.

use relax_loops::Ex;
use relax_sym::Dim;

use super::nn_conv::Pairs;
use super::util::word;
use crate::{
    AttrDef, AttrTy, ComputeError, Default, Former, Fusion, Layout, OpDef, RelCx, RelResult,
    Subject, Te, attr, former, input,
};

const SUB_PIXEL: &[AttrDef] = &[
    attr(
        "block_size",
        AttrTy::Int,
        Default::Int(1),
        "edge of a block",
    ),
    attr(
        "layout",
        AttrTy::Str,
        Default::Str("NCHW"),
        "layout of the data",
    ),
    attr(
        "mode",
        AttrTy::Str,
        Default::Str("DCR"),
        "`DCR` interleaves channels, `CDR` keeps them together",
    ),
];

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "nn.depth_to_space",
        "Spreads channels over blocks of space.",
        |cx| sub_pixel_rel(cx, true),
    )
    .affine_ordered(super::affine_rules::selection)
    .layout(super::layout_rules::whole_image)
    .inputs(&[input("data", "(n, c, h, w) in its layout")])
    .attrs(SUB_PIXEL)
    .fusion(Fusion::Injective)
    .compute(depth_to_space),
    OpDef::new(
        "nn.space_to_depth",
        "Gathers blocks of space into channels.",
        |cx| sub_pixel_rel(cx, false),
    )
    .former(&[Former::form("nn.space_to_depth", 7, former::no_mode).hidden()])
    .affine_ordered(super::affine_rules::selection)
    .layout(super::layout_rules::whole_image)
    .inputs(&[input("data", "(n, c, h, w) in its layout")])
    .attrs(SUB_PIXEL)
    .fusion(Fusion::Injective)
    .compute(space_to_depth),
    OpDef::new(
        "nn.space_to_batch_nd",
        "Pads space, then moves its blocks into the batch.",
        space_to_batch_rel,
    )
    .inputs(&[input("data", "(batch, space…, rest…)")])
    .attrs(&[
        attr(
            "block_shape",
            AttrTy::Ints,
            Default::Ints(&[1, 1]),
            "extents of a block",
        ),
        attr(
            "paddings",
            AttrTy::IntLists,
            Default::Required,
            "for each spatial axis, how much before and after",
        ),
        attr(
            "pad_value",
            AttrTy::Float,
            Default::Float(0.0),
            "what is put there",
        ),
    ])
    .fusion(Fusion::Injective)
    .compute(space_to_batch),
    OpDef::new(
        "nn.batch_to_space_nd",
        "Moves blocks of the batch into space, then crops.",
        batch_to_space_rel,
    )
    .inputs(&[input("data", "(batch, space…, rest…)")])
    .attrs(&[
        attr(
            "block_shape",
            AttrTy::Ints,
            Default::Ints(&[1, 1]),
            "extents of a block",
        ),
        attr(
            "crops",
            AttrTy::IntLists,
            Default::Required,
            "for each spatial axis, how much is cut before and after",
        ),
    ])
    .fusion(Fusion::Injective)
    .compute(batch_to_space),
];

fn nchw() -> Layout {
    Layout::parse("NCHW").expect("a layout")
}

fn sub_pixel_rel(cx: &mut RelCx<'_>, to_space: bool) -> RelResult {
    let (dims, dtype) = cx.ranked(0)?;
    let text = cx.attr("layout").as_str().unwrap_or("").to_owned();
    let layout = Layout::parse(&text).filter(|l| l.convertible(&nchw()));
    let Some(layout) = layout else {
        return cx.refuse(
            Subject::Attr("layout"),
            format!("`layout=\"{text}\"` is no layout of NCHW"),
        );
    };
    if dims.len() != layout.rank() {
        let text = format!(
            "the layout asks for rank {}, the tensor has rank {}",
            layout.rank(),
            dims.len()
        );
        return cx.refuse(Subject::Arg(0), text);
    }
    let block = cx.int("block_size")?;
    if block < 1 {
        return cx.refuse(
            Subject::Attr("block_size"),
            format!("`block_size` must be positive, not {block}"),
        );
    }
    word(cx, "mode", &["DCR", "CRD"])?;
    let d = layout.convert_dims(&nchw(), &dims);
    // As in TVM, the quotients are rounded down: remaining elements are dropped.
    let area = block.saturating_mul(block);
    let (area, block) = (Dim::from(area), Dim::from(block));
    let out = if to_space {
        [
            d[0].clone(),
            d[1].floordiv(&area),
            &d[2] * &block,
            &d[3] * &block,
        ]
    } else {
        [
            d[0].clone(),
            &d[1] * &area,
            d[2].floordiv(&block),
            d[3].floordiv(&block),
        ]
    };
    let out = nchw().convert_dims(&layout, &out);
    cx.set_tensor(out, dtype)
}

/// Reads the layout and returns the input's canonical extents.
fn canonical(te: &Te<'_>) -> Result<(Layout, Vec<Ex>, i64), ComputeError> {
    let layout = Layout::parse(te.str("layout")).ok_or("no such layout")?;
    let dims = layout.convert_extents(&nchw(), &te.arg(0).shape);
    Ok((layout, dims, te.int("block_size")?))
}

fn depth_to_space(te: &mut Te<'_>) -> Result<(), ComputeError> {
    let x = te.arg(0);
    let (layout, d, b) = canonical(te)?;
    let depth = d[1].floor_div(b * b);
    let shape = [d[0].clone(), depth.clone(), &d[2] * b, &d[3] * b];
    let shape = nchw().convert_extents(&layout, &shape);
    let interleaved = te.str("mode") == "DCR";
    let y = te.compute("depth_to_space", &shape, |i| {
        let at = nchw().index_from(&layout, i);
        let within = at[2].floor_mod(b) * b + at[3].floor_mod(b);
        let c = if interleaved {
            within * &depth + &at[1]
        } else {
            &at[1] * (b * b) + within
        };
        let from = [at[0].clone(), c, at[2].floor_div(b), at[3].floor_div(b)];
        x.at(&layout.index_from(&nchw(), &from))
    });
    te.output(&y);
    Ok(())
}

fn space_to_depth(te: &mut Te<'_>) -> Result<(), ComputeError> {
    let x = te.arg(0);
    let (layout, d, b) = canonical(te)?;
    let shape = [
        d[0].clone(),
        &d[1] * (b * b),
        d[2].floor_div(b),
        d[3].floor_div(b),
    ];
    let shape = nchw().convert_extents(&layout, &shape);
    let y = te.compute("space_to_depth", &shape, |i| {
        let at = nchw().index_from(&layout, i);
        let within = at[1].floor_div(&d[1]);
        let from = [
            at[0].clone(),
            at[1].floor_mod(&d[1]),
            &at[2] * b + within.floor_div(b),
            &at[3] * b + within.floor_mod(b),
        ];
        x.at(&layout.index_from(&nchw(), &from))
    });
    te.output(&y);
    Ok(())
}

/// Returns the block shape and, under `name`, as many pairs; refuses other numbers of them.
fn blocks(cx: &RelCx<'_>, name: &'static str, rank: usize) -> RelResult<Vec<(i64, (i64, i64))>> {
    let shape = cx.ints("block_shape")?.unwrap_or_default();
    let Some(pairs) = cx.attr(name).as_int_pairs() else {
        return cx.refuse(
            Subject::Attr(name),
            format!("`{name}` must be a list of pairs of integers"),
        );
    };
    if pairs.len() != shape.len() {
        let text = format!(
            "`{name}` needs one pair per spatial axis ({}), not {}",
            shape.len(),
            pairs.len()
        );
        return cx.refuse(Subject::Attr(name), text);
    }
    if shape.len() >= rank {
        let text = format!(
            "`block_shape` has {} axes, the tensor only {} beside the batch",
            shape.len(),
            rank.max(1) - 1
        );
        return cx.refuse(Subject::Attr("block_shape"), text);
    }
    if let Some(bad) = shape.iter().find(|&&b| b < 1) {
        return cx.refuse(
            Subject::Attr("block_shape"),
            format!("`block_shape` must be positive, not {bad}"),
        );
    }
    Ok(shape.into_iter().zip(pairs).collect())
}

fn space_to_batch_rel(cx: &mut RelCx<'_>) -> RelResult {
    let (mut dims, dtype) = cx.ranked(0)?;
    for (k, (block, pad)) in blocks(cx, "paddings", dims.len())?.into_iter().enumerate() {
        let padded = &dims[k + 1] + &Dim::from(pad.0.saturating_add(pad.1));
        let rule = "the padded axis is a multiple of the block's";
        cx.require_multiple(&padded, block, Subject::Attr("block_shape"), rule, |_| {
            format!(
                "the padded axis {} is no multiple of the block's {block}",
                k + 1
            )
        })?;
        dims[0] = &dims[0] * &Dim::from(block);
        dims[k + 1] = padded.floordiv(&Dim::from(block));
    }
    cx.set_tensor(dims, dtype)
}

fn batch_to_space_rel(cx: &mut RelCx<'_>) -> RelResult {
    let (mut dims, dtype) = cx.ranked(0)?;
    let mut all = Dim::ONE;
    for (k, (block, crop)) in blocks(cx, "crops", dims.len())?.into_iter().enumerate() {
        all = &all * &Dim::from(block);
        dims[k + 1] = &dims[k + 1] * &Dim::from(block) - Dim::from(crop.0.saturating_add(crop.1));
        if dims[k + 1].as_const().is_some_and(|n| n < 0) {
            return cx.refuse(
                Subject::Attr("crops"),
                format!("`crops` cuts more off axis {} than it has", k + 1),
            );
        }
    }
    // As in TVM, the quotients are rounded down: remaining elements are dropped.
    dims[0] = dims[0].floordiv(&all);
    cx.set_tensor(dims, dtype)
}

fn block_attrs(te: &Te<'_>, name: &str) -> Result<(Vec<i64>, Pairs), ComputeError> {
    let shape = te.ints("block_shape").ok_or("`block_shape` is missing")?;
    let pairs = te.attr(name).as_int_pairs().ok_or("no list of pairs")?;
    Ok((shape, pairs))
}

fn space_to_batch(te: &mut Te<'_>) -> Result<(), ComputeError> {
    let x = te.arg(0);
    let (block, pad) = block_attrs(te, "paddings")?;
    let value = te.float("pad_value")?;
    let mut shape = x.shape.clone();
    for (k, (&b, p)) in block.iter().zip(&pad).enumerate() {
        shape[0] = &shape[0] * b;
        shape[k + 1] = (&x.shape[k + 1] + (p.0 + p.1)).floor_div(b);
    }
    let y = te.compute("space_to_batch", &shape, |i| {
        // The batch index of the result counts blocks first: (block…, batch).
        let mut within = i[0].floor_div(&x.shape[0]);
        let mut at = i.to_vec();
        at[0] = i[0].floor_mod(&x.shape[0]);
        let mut inside = Ex::bool(true);
        for (k, (&b, p)) in block.iter().zip(&pad).enumerate().rev() {
            at[k + 1] = &i[k + 1] * b + within.floor_mod(b) - p.0;
            within = within.floor_div(b);
            inside = inside & at[k + 1].ge(0i64) & at[k + 1].lt(&x.shape[k + 1]);
        }
        let v = x.at(&at);
        Ex::where_(&inside, &v, &v.same(value))
    });
    te.output(&y);
    Ok(())
}

fn batch_to_space(te: &mut Te<'_>) -> Result<(), ComputeError> {
    let x = te.arg(0);
    let (block, crop) = block_attrs(te, "crops")?;
    let all: i64 = block.iter().product();
    let mut shape = x.shape.clone();
    shape[0] = shape[0].floor_div(all);
    for (k, (&b, c)) in block.iter().zip(&crop).enumerate() {
        shape[k + 1] = &shape[k + 1] * b - (c.0 + c.1);
    }
    let batch = shape[0].clone();
    let y = te.compute("batch_to_space", &shape, |i| {
        let mut at = i.to_vec();
        let mut within = Ex::idx(0);
        for (k, (&b, c)) in block.iter().zip(&crop).enumerate() {
            let full = &i[k + 1] + c.0;
            within = within * b + full.floor_mod(b);
            at[k + 1] = full.floor_div(b);
        }
        at[0] = within * &batch + &i[0];
        x.at(&at)
    });
    te.output(&y);
    Ok(())
}
