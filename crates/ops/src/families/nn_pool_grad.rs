//! Gradients of pooling.

use relax_loops::{Ex, TensorRef};

use super::nn_conv::{numbers, padding_of, pairs, steps};
use super::util::{finish_like, int_list};
use super::util_te::Done;
use crate::AttrTy::{Bool, Ints, Str};
use crate::{
    AttrDef, Default, Fusion, Input, Layout, OpDef, RelCx, RelResult, Subject, Te, attr, input,
};

const INPUTS: &[Input] = &[
    input("data", "the gradient of the result"),
    input("grad", "the data that were pooled"),
];

macro_rules! attrs {
    ($($more:expr),*) => {
        &[
            attr("pool_size", Ints, Default::Required, "extents of the window"),
            attr("strides", Ints, Default::Ints(&[1, 1]), "steps along height and width"),
            attr("dilation", Ints, Default::Ints(&[1, 1]), "distance of taps"),
            attr("padding", Ints, Default::Ints(&[0, 0]), "padding before and after height and width"),
            attr("layout", Str, Default::Str("NCHW"), "layout of the data"),
            attr("out_layout", Str, Default::Str(""), "layout of the result"),
            attr("ceil_mode", Bool, Default::Bool(false), "whether a last partial window counts"),
            $($more),*
        ]
    };
}

const MAX: &[AttrDef] = attrs!();
const MEAN: &[AttrDef] = attrs!(attr(
    "count_include_pad",
    Bool,
    Default::Bool(false),
    "whether the mean counts padding"
));

/// The family.
pub static OPS: &[OpDef] = &[
    OpDef::new(
        "nn.max_pool2d_grad",
        "The gradient of `nn.max_pool2d`: it goes to the first maximum of each window.",
        grad,
    )
    .inputs(INPUTS)
    .attrs(MAX)
    .fusion(Fusion::OutElementwise)
    .compute(|te| grad_compute(te, true)),
    OpDef::new(
        "nn.avg_pool2d_grad",
        "The gradient of `nn.avg_pool2d`: it is spread over each window.",
        grad,
    )
    .inputs(INPUTS)
    .attrs(MEAN)
    // TVM registers the attribute type of maximum pooling for it, but creates that of average
    // pooling.
    .meta_attrs("relay.attrs.AvgPool2DAttrs")
    .fusion(Fusion::OutElementwise)
    .compute(|te| grad_compute(te, false)),
];

/// Returns the layout attribute and `NCHW`; height and width may not be split.
fn layouts(text: &str) -> Option<(Layout, Layout)> {
    let canonical = Layout::parse("NCHW")?;
    let own = Layout::parse(text).filter(|l| l.convertible(&canonical))?;
    (own.factor('H') == 1 && own.factor('W') == 1).then_some((own, canonical))
}

fn grad(cx: &mut RelCx<'_>) -> RelResult {
    let text = cx.attr("layout").as_str().unwrap_or("").to_owned();
    let Some((own, _)) = layouts(&text) else {
        let text = format!("`layout=\"{text}\"` is no layout of NCHW with whole height and width");
        return cx.refuse(Subject::Attr("layout"), text);
    };
    for i in 0..2 {
        let (dims, _) = cx.ranked(i)?;
        if dims.len() != own.rank() {
            let text = format!(
                "the layout asks for rank {}, the tensor has rank {}",
                own.rank(),
                dims.len()
            );
            return cx.refuse(Subject::Arg(i), text);
        }
    }
    let window = int_list(cx, "pool_size")?;
    if window.len() != 2 || window.iter().any(|&w| w < 1) {
        let text = format!("`pool_size={window:?}` must be two positive numbers");
        return cx.refuse(Subject::Attr("pool_size"), text);
    }
    steps(cx, "strides", 2, 1)?;
    padding_of(cx, 2)?;
    let t = cx.tensor(1)?;
    let dtype = t.dtype;
    finish_like(cx, t, dtype)
}

fn grad_compute(te: &mut Te<'_>, max: bool) -> Done {
    let (grad, x) = (te.arg(0), te.arg(1));
    let (own, canonical) = layouts(te.str("layout")).ok_or("the layout is no layout of NCHW")?;
    let (window, strides) = (numbers(te, "pool_size", 2), numbers(te, "strides", 2));
    let padding =
        pairs(&te.ints("padding").unwrap_or_default(), 2).ok_or("`padding` has a wrong length")?;
    let count_pad = te.flag("count_include_pad");
    let data = own.convert_extents(&canonical, &x.shape);
    let goal = own.convert_extents(&canonical, &grad.shape);
    let out = te.temp("grad", x.dtype, &x.shape);
    te.nest(|n| {
        n.grid(&x.shape, |n, i| n.store(&out, i, 0i64));
        n.grid(&goal, |n, at| {
            let place = |t: &TensorRef, y: &Ex, x: &Ex| {
                let index = [at[0].clone(), at[1].clone(), y.clone(), x.clone()];
                (t.clone(), own.index_from(&canonical, &index))
            };
            // The part of the window within the data.
            let mut range = |k: usize| {
                let from = n.let_(&at[2 + k] * strides[k] - padding[k].0);
                let low = n.let_(from.max(0i64));
                let high = n.let_((from + window[k]).min(&data[2 + k]));
                (low, high)
            };
            let ((y0, y1), (x0, x1)) = (range(0), range(1));
            let (g, index) = place(&grad, &at[2], &at[3]);
            let gradient = n.let_(g.at(&index).cast(x.dtype));
            if max {
                let best = n.cell(Ex::float(x.dtype, 0.0));
                let (by, bx) = (n.cell(Ex::idx(-1)), n.cell(Ex::idx(0)));
                n.grid(&[&y1 - &y0, &x1 - &x0], |n, r| {
                    let (y, x_) = (n.let_(&y0 + &r[0]), n.let_(&x0 + &r[1]));
                    let (t, index) = place(&x, &y, &x_);
                    let value = n.let_(t.at(&index));
                    let better = by.scalar().lt(0i64) | value.gt(best.scalar());
                    n.if_(better, |n| {
                        n.set(&best, &value);
                        n.set(&by, &y);
                        n.set(&bx, &x_);
                    });
                });
                n.if_(by.scalar().ge(0i64), |n| {
                    let (y, x_) = (n.let_(by.scalar()), n.let_(bx.scalar()));
                    let (t, index) = place(&out, &y, &x_);
                    n.store(&t, &index, t.at(&index) + &gradient);
                });
            } else {
                let count = if count_pad {
                    Ex::idx(window[0].saturating_mul(window[1]))
                } else {
                    ((&y1 - &y0) * (&x1 - &x0)).max(1i64)
                };
                let share = n.let_(&gradient / &count.cast(x.dtype));
                n.grid(&[&y1 - &y0, &x1 - &x0], |n, r| {
                    let (t, index) = place(&out, &(&y0 + &r[0]), &(&x0 + &r[1]));
                    n.store(&t, &index, t.at(&index) + &share);
                });
            }
        });
    });
    te.output(&out);
    Ok(())
}
