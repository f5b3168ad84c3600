//! Batched products of the same data: their weights are concatenated.

use relax_base::Span;
use relax_ir::{AttrValue, ExprId};

use super::{Kind, operands};
use crate::edit::{Edit, OpCall};

pub(super) struct BatchMatmul;

impl Kind for BatchMatmul {
    fn op(&self) -> &'static str {
        "nn.batch_matmul"
    }
    fn compatible(&self, e: &Edit<'_>, a: &OpCall, b: &OpCall) -> bool {
        // Rows of the weight are columns of the result: the second operand is transposed.
        let rows = |c: &OpCall| {
            e.attr(c, "transpose_a").as_bool() == Some(false)
                && e.attr(c, "transpose_b").as_bool() == Some(true)
        };
        let (Some(x), Some(y)) = (e.dims(a.args[1]), e.dims(b.args[1])) else {
            return false;
        };
        rows(a)
            && rows(b)
            && e.dtype(a.args[1]) == e.dtype(b.args[1])
            && e.attr(a, "out_dtype") == e.attr(b, "out_dtype")
            && x.len() == 3
            && y.len() == 3
            && x[0] == y[0]
    }
    fn product(&self, e: &mut Edit<'_>, products: &[OpCall], span: Span) -> Option<ExprId> {
        let weights = operands(e, products, 1, span);
        let weight = e.call(
            "concatenate",
            &[weights],
            &[("axis", AttrValue::Int(1))],
            span,
        );
        let attrs = e.m.attrs(products[0].attrs).clone();
        Some(e.recall(&products[0], &[products[0].args[0], weight], attrs, span))
    }
    fn axis(&self, _: &Edit<'_>, _: &OpCall, rank: usize) -> Option<Option<usize>> {
        (rank == 3).then_some(Some(2))
    }
    fn operand_axis(&self, _: usize) -> i64 {
        -1
    }
}
