//! Dense products of the same data: one batched product, or one with all outputs concatenated.

use relax_base::Span;
use relax_ir::{AttrValue, ExprId};

use super::{Kind, operands};
use crate::edit::{Edit, OpCall};

const NAME: &str = "nn.dense";

/// Combines products into an `nn.batch_matmul`, for weights of one shape.
pub(super) struct ToBatch;

impl Kind for ToBatch {
    fn op(&self) -> &'static str {
        NAME
    }
    fn compatible(&self, e: &Edit<'_>, a: &OpCall, b: &OpCall) -> bool {
        e.attr(a, "out_dtype") == e.attr(b, "out_dtype") && e.same_type(a.args[1], b.args[1])
    }
    fn product(&self, e: &mut Edit<'_>, products: &[OpCall], span: Span) -> Option<ExprId> {
        if e.dims(products[0].args[0])?.len() != 2 {
            return None;
        }
        let first = [("axis", AttrValue::Int(0))];
        let data = operands(e, products, 0, span);
        let data = e.call("stack", &[data], &first, span);
        let weights = operands(e, products, 1, span);
        let weight = e.call("stack", &[weights], &first, span);
        let given = [
            ("out_dtype", e.attr(&products[0], "out_dtype")),
            ("transpose_a", AttrValue::Bool(false)),
            ("transpose_b", AttrValue::Bool(true)),
        ];
        Some(e.call("nn.batch_matmul", &[data, weight], &given, span))
    }
    fn axis(&self, _: &Edit<'_>, _: &OpCall, _: usize) -> Option<Option<usize>> {
        Some(None)
    }
}

/// Combines products into one `nn.dense`.
pub(super) struct ToDense;

impl Kind for ToDense {
    fn op(&self) -> &'static str {
        NAME
    }
    fn compatible(&self, e: &Edit<'_>, a: &OpCall, b: &OpCall) -> bool {
        e.attr(a, "out_dtype") == e.attr(b, "out_dtype") && e.dtype(a.args[1]) == e.dtype(b.args[1])
    }
    fn product(&self, e: &mut Edit<'_>, products: &[OpCall], span: Span) -> Option<ExprId> {
        let mut units = 0;
        for p in products {
            units += e.dims(p.args[1])?.first()?.as_const()?;
        }
        let weights = operands(e, products, 1, span);
        let weight = e.call(
            "concatenate",
            &[weights],
            &[("axis", AttrValue::Int(0))],
            span,
        );
        let attrs =
            e.m.attrs(products[0].attrs)
                .clone()
                .with("units", AttrValue::Int(units));
        Some(e.recall(&products[0], &[products[0].args[0], weight], attrs, span))
    }
    fn axis(&self, _: &Edit<'_>, _: &OpCall, rank: usize) -> Option<Option<usize>> {
        rank.checked_sub(1).map(Some)
    }
}
