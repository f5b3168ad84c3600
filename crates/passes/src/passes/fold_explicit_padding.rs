//! `fold-explicit-padding`: folds the zeros that `nn.pad` puts around data into the padding of the
//! convolution or average pooling that reads them, whose kernels need no padded copy of the data.
//!
//! Padding that the reader cannot represent is left alone: other values, other modes, batches or
//! channels that grow, and averages that do not count padding.

use relax_base::Diagnostics;
use relax_ir::{AttrValue, ExprId};
use relax_ops::Layout;

use crate::edit::{Edit, OpCall};
use crate::pattern::{Found, Rules, c, op, x};
use crate::{Analysis, Contract, PassCx, PassDef};

/// The pass.
pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "fold-explicit-padding",
    doc: "Makes zeros around data the padding of the convolution or pooling that reads them.",
    options: &[],
    contract: Contract::TYPED
        .idempotent()
        .each_function()
        .preserves(&[Analysis::Effects]),
    run,
}];

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let padded = || op(&["nn.pad"], [x(0), c(1)]).keep(2);
    let convolutions = &["nn.conv1d", "nn.conv2d", "nn.conv3d"];
    let pools = &["nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d"];
    let rules = Rules::new(vec![
        (op(convolutions, [padded(), x(3)]), |e, f| {
            folded(e, f, "data_layout")
        }),
        (op(pools, [padded()]), average),
    ]);
    rules.run(cx, "paddings folded")
}

fn average(e: &mut Edit<'_>, f: &Found) -> Option<ExprId> {
    let call = f.call(e);
    let counts = e.attr(&call, "count_include_pad").as_bool()?;
    // A window that extends beyond the padding is cut off there.
    let beyond = e.attr(&call, "ceil_mode").as_bool()?;
    (counts && !beyond).then(|| folded(e, f, "layout"))?
}

/// Returns the reader applied to the unpadded data; `layout` is its attribute for the layout of the
/// data.
fn folded(e: &mut Edit<'_>, f: &Found, layout: &str) -> Option<ExprId> {
    let (reader, pad) = (f.call(e), e.op_call(f.get(2))?);
    let value = e.scalar(f.get(1))?;
    let zeros = value == 0.0 && value.is_sign_positive();
    if !zeros || e.attr(&pad, "pad_mode").as_str() != Some("constant") {
        return None;
    }
    let width = e.attr(&pad, "pad_width").as_int_pairs()?;
    let layout = e.attr(&reader, layout);
    let (own, axes) = own_padding(e, &reader, &Layout::parse(layout.as_str()?)?, width.len())?;
    let elsewhere = |i: &usize| !axes.contains(i) && width[*i] != (0, 0);
    if (0..width.len()).any(|i| elsewhere(&i)) {
        return None;
    }
    let sums = axes.iter().zip(&own).map(|(&axis, &(before, after))| {
        let (more_before, more_after) = width[axis];
        let fits = more_before >= 0 && more_after >= 0;
        let sum = (
            before.checked_add(more_before)?,
            after.checked_add(more_after)?,
        );
        fits.then_some(sum)
    });
    let sums: Widths = sums.collect::<Option<_>>()?;
    let (before, after): (Vec<i64>, Vec<i64>) = sums.into_iter().unzip();
    let mut attrs = e.m.attrs(reader.attrs).clone();
    attrs.set("padding", AttrValue::ints(&[before, after].concat()));
    let mut args = reader.args.clone();
    args[0] = f.get(0);
    let span = e.m.span(f.root);
    Some(e.recall(&reader, &args, attrs, span))
}

/// The padding before and after, for each spatial axis.
type Widths = Vec<(i64, i64)>;

/// Returns a reader's own padding, before and after on each spatial axis, and the positions of
/// these axes.
fn own_padding(
    e: &Edit<'_>,
    reader: &OpCall,
    layout: &Layout,
    rank: usize,
) -> Option<(Widths, Vec<usize>)> {
    let axes: Vec<usize> = ("DHW".chars()).filter_map(|c| layout.position(c)).collect();
    let whole = "DHW".chars().all(|c| layout.factor(c) == 1);
    let own = e.attr(reader, "padding").as_ints()?;
    let n = axes.len();
    let pairs = match own.len() {
        1 => vec![(own[0], own[0]); n],
        len if len == n => own.iter().map(|&p| (p, p)).collect(),
        len if len == 2 * n => (0..n).map(|i| (own[i], own[n + i])).collect(),
        _ => return None,
    };
    (whole && layout.rank() == rank).then_some((pairs, axes))
}
