//! Sums of products of two arrays, of any form and element type: convolutions of any rank over
//! padded data, transposed or grouped, `einsum`, batched products. A stage is recognised by its
//! expression, not by the operator that it comes from.

use relax_tensor::DType;

use super::lines::is_element;
use crate::extents::elements;
use crate::{BinOp, Buf, Combiner, Compute, Ex, ExKind, Program};

/// Multiplications below which a call does not pay.
const FEW: i64 = 512;

/// Returns whether a stage is such a sum, and large enough for a kernel.
pub fn is_contraction(program: &Program, c: &Compute) -> bool {
    let of = |b: Buf| program.bufs[b].dtype;
    let Some([a, b]) = factors(c) else {
        return false;
    };
    let (from, to) = ([of(a.0), of(b.0)], of(c.out));
    let loops = program.loops(c);
    let known = elements(loops.iter().map(|l| &l.1));
    to != DType::BOOL
        && is_element(to)
        && from.iter().all(|&f| is_element(f) && widens(f, to))
        && known.is_none_or(|n| n >= FEW)
}

/// Returns the two factors whose products a stage sums up: buffers, and their indices.
pub fn factors(c: &Compute) -> Option<[(Buf, &[Ex]); 2]> {
    let sums = |r: &crate::Reduce| r.combiner == Combiner::Sum && !r.axes.is_empty();
    if !c.reduce.as_ref().is_some_and(sums) {
        return None;
    }
    match c.value.kind() {
        ExKind::Binary(BinOp::Mul, x, y) => Some([factor(x)?, factor(y)?]),
        _ => None,
    }
}

/// A factor of the products: elements of a buffer, perhaps converted to a wider type.
fn factor(e: &Ex) -> Option<(Buf, &[Ex])> {
    let loaded = match e.kind() {
        ExKind::Cast(inner) => inner,
        _ => e,
    };
    match loaded.kind() {
        ExKind::Load(buf, index) => Some((*buf, index)),
        _ => None,
    }
}

/// Returns whether elements of one type may be multiplied and summed as those of another: the sums
/// lose no precision.
fn widens(from: DType, to: DType) -> bool {
    let narrow = |d: DType| matches!(d, DType::F16 | DType::BF16);
    match (from.is_float(), to.is_float()) {
        (false, false) => true,
        // Narrow integers are exact as floats; others would be rounded to the narrow type first.
        (false, true) => matches!(to, DType::F32 | DType::F64),
        (true, false) => false,
        (true, true) => {
            from == to || narrow(from) && to == DType::F32 || (from, to) == (DType::F32, DType::F64)
        }
    }
}
