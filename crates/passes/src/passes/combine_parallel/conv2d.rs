//! 2-D convolutions of the same data: their filters are concatenated.

use relax_base::Span;
use relax_ir::{AttrValue, ExprId};
use relax_ops::Layout;

use super::{Kind, operands};
use crate::edit::{Edit, OpCall};

pub(super) struct Conv2d;

fn layout(e: &Edit<'_>, call: &OpCall, name: &str) -> Option<Layout> {
    Layout::parse(e.attr(call, name).as_str()?)
}

impl Kind for Conv2d {
    fn op(&self) -> &'static str {
        "nn.conv2d"
    }
    fn compatible(&self, e: &Edit<'_>, a: &OpCall, b: &OpCall) -> bool {
        const SAME: &[&str] = &[
            "strides",
            "padding",
            "dilation",
            "groups",
            "data_layout",
            "kernel_layout",
            "out_layout",
            "out_dtype",
        ];
        let alike = SAME.iter().all(|n| e.attr(a, n) == e.attr(b, n));
        let Some(kernel) = layout(e, a, "kernel_layout") else {
            return false;
        };
        let (Some(x), Some(y)) = (e.dims(a.args[1]), e.dims(b.args[1])) else {
            return false;
        };
        // Only the number of filters may differ.
        let Some(filters) = kernel.position('O') else {
            return false;
        };
        let shapes = x.len() == y.len()
            && x.iter()
                .zip(&y)
                .enumerate()
                .all(|(i, (p, q))| i == filters || p == q);
        alike
            && shapes
            && e.dtype(a.args[1]) == e.dtype(b.args[1])
            && e.attr(a, "groups").as_int() == Some(1)
    }
    fn product(&self, e: &mut Edit<'_>, products: &[OpCall], span: Span) -> Option<ExprId> {
        let kernel = layout(e, &products[0], "kernel_layout")?;
        let axis = kernel.position('O')?;
        let mut channels = 0;
        for p in products {
            channels += e.dims(p.args[1])?.get(axis)?.as_const()? * kernel.factor('O');
        }
        let weights = operands(e, products, 1, span);
        let weight = e.call(
            "concatenate",
            &[weights],
            &[("axis", AttrValue::Int(axis as i64))],
            span,
        );
        let attrs =
            e.m.attrs(products[0].attrs)
                .clone()
                .with("channels", AttrValue::Int(channels));
        Some(e.recall(&products[0], &[products[0].args[0], weight], attrs, span))
    }
    fn axis(&self, e: &Edit<'_>, product: &OpCall, _: usize) -> Option<Option<usize>> {
        let name = match e.attr(product, "out_layout").as_str()? {
            "" => "data_layout",
            _ => "out_layout",
        };
        Some(Some(layout(e, product, name)?.position('C')?))
    }
}
