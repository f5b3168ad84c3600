//! `flatten-atrous-conv`: a convolution between `nn.space_to_batch_nd` and `nn.batch_to_space_nd`
//! becomes a dilated convolution.
//!
//! With blocks of `b`, padding `p` and crops `c`, a convolution of stride 1 with padding `q`
//! between them is the one of dilation `b` with padding `p + q * b - c`: exactly, for any of these.

use relax_base::Diagnostics;
use relax_ir::{AttrValue, ExprId};

use crate::edit::Edit;
use crate::pattern::{Found, Pat, Rules, op, x};
use crate::{Analysis, Contract, PassCx, PassDef};

/// The pass.
pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "flatten-atrous-conv",
    doc: "Replaces space-to-batch, convolution, batch-to-space by one dilated convolution.",
    options: &[],
    contract: Contract::TYPED
        .idempotent()
        .reorders()
        .each_function()
        .preserves(&[Analysis::Effects]),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let between = |conv: Pat| op(&["nn.batch_to_space_nd"], [conv.keep(2)]);
    let split = || op(&["nn.space_to_batch_nd"], [x(0)]).keep(1);
    let rules = Rules::new(vec![
        (between(op(&["nn.conv2d"], [split(), x(3)])), dilate),
        (
            between(Pat::Op {
                ops: relax_ops::registry()
                    .find("qnn.conv2d")
                    .into_iter()
                    .collect(),
                args: vec![
                    split(),
                    x(3),
                    Pat::Any(4),
                    Pat::Any(5),
                    Pat::Any(6),
                    Pat::Any(7),
                ],
                any_order: false,
            }),
            dilate,
        ),
    ]);
    rules.run(cx, "convolutions dilated")
}

fn dilate(e: &mut Edit<'_>, f: &Found) -> Option<ExprId> {
    let (join, conv, split) = (f.call(e), e.op_call(f.get(2))?, e.op_call(f.get(1))?);
    let two = |v: AttrValue| <[i64; 2]>::try_from(v.as_ints()?).ok();
    let blocks = two(e.attr(&split, "block_shape"))?;
    let pads = e.attr(&split, "paddings").as_int_pairs()?;
    let crops = e.attr(&join, "crops").as_int_pairs()?;
    let same = two(e.attr(&join, "block_shape"))? == blocks;
    let plain =
        two(e.attr(&conv, "strides"))? == [1, 1] && two(e.attr(&conv, "dilation"))? == [1, 1];
    let channels_last = e.attr(&conv, "data_layout").as_str() == Some("NHWC");
    // The value of the padding must be the one that the convolution itself would pad with.
    let zero = match conv.args.get(2) {
        None => 0.0,
        Some(&zero_point) => e.scalar(zero_point)?,
    };
    let filled = e.attr(&split, "pad_value").as_float()? == zero;
    if !(same && plain && channels_last && filled) || pads.len() != 2 || crops.len() != 2 {
        return None;
    }
    let own = e.attr(&conv, "padding").as_ints()?;
    let own: [i64; 4] = match own[..] {
        [a] => [a; 4],
        [a, b] => [a, b, a, b],
        [a, b, c, d] => [a, b, c, d],
        _ => return None,
    };
    let padding = [
        pads[0].0 + own[0] * blocks[0] - crops[0].0,
        pads[1].0 + own[1] * blocks[1] - crops[1].0,
        pads[0].1 + own[2] * blocks[0] - crops[0].1,
        pads[1].1 + own[3] * blocks[1] - crops[1].1,
    ];
    if padding.iter().any(|&p| p < 0) {
        return None;
    }
    let mut attrs = e.m.attrs(conv.attrs).clone();
    attrs.set("padding", AttrValue::ints(&padding));
    attrs.set("dilation", AttrValue::ints(&blocks));
    let mut args = conv.args.clone();
    args[0] = f.get(0);
    let span = e.m.span(f.root);
    Some(e.recall(&conv, &args, attrs, span))
}
