//! Facts implied by the conditions around an expression.

use relax_tensor::DType;

use crate::rewrite::visit_expr;
use crate::{BinOp, Ex, ExKind, UnOp};

/// The facts at an expression: comparisons that hold where it is evaluated.
pub(super) type Facts = Vec<(BinOp, Ex, Ex)>;

/// Returns whether an expression reads a buffer.
pub(super) fn has_load(e: &Ex) -> bool {
    let mut found = false;
    visit_expr(e, |e| found |= matches!(e.kind(), ExKind::Load(..)));
    found
}

/// Adds what a condition implies when it holds (or fails): the comparisons of its conjunction.
pub(super) fn assume(cond: &Ex, holds: bool, facts: &mut Facts) {
    let mut work = vec![(cond, holds)];
    while let Some((e, holds)) = work.pop() {
        match e.kind() {
            ExKind::Binary(BinOp::And, a, b) if holds && e.dtype().is_bool() => {
                work.extend([(a, true), (b, true)]);
            }
            ExKind::Binary(BinOp::Or, a, b) if !holds && e.dtype().is_bool() => {
                work.extend([(a, false), (b, false)]);
            }
            ExKind::Unary(UnOp::Not, a) if e.dtype().is_bool() => work.push((a, !holds)),
            ExKind::Binary(op, a, b) if a.dtype() == DType::I64 => {
                let op = match (op, holds) {
                    (BinOp::Lt, true) | (BinOp::Ge, false) => BinOp::Lt,
                    (BinOp::Le, true) | (BinOp::Gt, false) => BinOp::Le,
                    (BinOp::Gt, true) | (BinOp::Le, false) => BinOp::Gt,
                    (BinOp::Ge, true) | (BinOp::Lt, false) => BinOp::Ge,
                    _ => continue,
                };
                facts.push((op, a.clone(), b.clone()));
            }
            _ => {}
        }
    }
}

/// Returns whether a fact implies that `i` is at least 0.
pub(super) fn at_least_zero((op, a, b): &(BinOp, Ex, Ex), i: &Ex) -> bool {
    match op {
        BinOp::Ge => a == i && b.as_int().is_some_and(|v| v >= 0),
        BinOp::Gt => a == i && b.as_int().is_some_and(|v| v >= -1),
        BinOp::Le => b == i && a.as_int().is_some_and(|v| v >= 0),
        _ => b == i && a.as_int().is_some_and(|v| v >= -1),
    }
}

/// Returns whether a fact implies that `i` is less than `extent`.
pub(super) fn below_by((op, a, b): &(BinOp, Ex, Ex), i: &Ex, extent: &Ex) -> bool {
    let (small, large, strict) = match op {
        BinOp::Lt => (a, b, true),
        BinOp::Le => (a, b, false),
        BinOp::Gt => (b, a, true),
        _ => (b, a, false),
    };
    if small != i {
        return false;
    }
    match (large.as_int(), extent.as_int()) {
        (Some(l), Some(n)) => l < n || strict && l == n,
        _ => strict && large == extent || !strict && *large == extent - 1,
    }
}
