//! Reductions under a condition that bounds a loop: windows whose extents differ by position.
//!
//! Beyond the bound, the value is the neutral number. Loops end at the bound instead, and combine
//! the neutral number once where they left something out, since a maximum discards a NaN before it:
//! results are identical to the bit.

use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types;
use cranelift_frontend::Variable;
use relax_loops::{BinOp, Combiner, Ex, ExKind, Reduce, Var, visit_expr};
use relax_tensor::DType;

use super::{Kernel, Result};

/// A clipped reduction: the value, the combiner, and the loops.
pub(super) struct Clipped {
    /// The value to combine inside the bounds.
    pub(super) value: Ex,
    /// Loops that end before their extents, and their ends.
    limits: Vec<(Var, Ex)>,
    combiner: Combiner,
    dtype: DType,
    acc: Variable,
}

fn free_of(e: &Ex, vars: &[(Var, Ex)]) -> bool {
    let mut free = true;
    visit_expr(e, |x| {
        free &= match x.kind() {
            ExKind::Var(v) => vars.iter().all(|a| a.0 != *v),
            ExKind::Load(..) => false,
            _ => true,
        }
    });
    free
}

/// Returns the end of a reduction loop that a condition implies: `place + r < end`.
fn limit(term: &Ex, axes: &[(Var, Ex)]) -> Option<(Var, Ex)> {
    let ExKind::Binary(BinOp::Lt, place, end) = term.kind() else {
        return None;
    };
    let axis = |e: &Ex| match e.kind() {
        ExKind::Var(v) => axes.iter().map(|a| a.0).find(|a| a == v),
        _ => None,
    };
    let (var, rest) = match place.kind() {
        ExKind::Binary(BinOp::Add, a, b) => match (axis(a), axis(b)) {
            (None, Some(v)) => (v, Some(a)),
            (Some(v), None) => (v, Some(b)),
            _ => return None,
        },
        _ => (axis(place)?, None),
    };
    let fits = place.dtype() == DType::I64
        && free_of(end, axes)
        && rest.is_none_or(|rest| free_of(rest, axes));
    let end = rest.map_or_else(|| end.clone(), |rest| end - rest);
    fits.then_some((var, end))
}

/// The clipped form of a reduction whose sum is kept in `acc`, with loops as short as its condition
/// allows.
pub(super) fn clipped(reduce: &Reduce, value: &Ex, dtype: DType, acc: Variable) -> Clipped {
    let mut found = Clipped {
        value: value.clone(),
        limits: Vec::new(),
        combiner: reduce.combiner,
        dtype,
        acc,
    };
    let ExKind::Select(cond, yes, no) = value.kind() else {
        return found;
    };
    if *no != reduce.combiner.identity(dtype) {
        return found;
    }
    let (mut left, mut terms) = (None, vec![cond]);
    while let Some(term) = terms.pop() {
        match term.kind() {
            ExKind::Binary(BinOp::And, a, b) => terms.extend([b, a]),
            _ => match limit(term, &reduce.axes) {
                Some((var, end)) if found.limits.iter().all(|l| l.0 != var) => {
                    found.limits.push((var, end));
                }
                _ => left = Some(left.map_or_else(|| term.clone(), |all: Ex| all & term)),
            },
        }
    }
    if !found.limits.is_empty() {
        found.value = match left {
            Some(cond) => Ex::where_(&cond, yes, no),
            None => yes.clone(),
        };
    }
    found
}

impl Kernel<'_, '_, '_> {
    /// The loops of a reduction over `axes`.
    pub(super) fn reduced(&mut self, axes: &[(Var, Ex)], c: &Clipped) -> Result<()> {
        let Some(((var, extent), rest)) = axes.split_first() else {
            let v = self.eval(&c.value)?;
            return self.combine(c.combiner, c.dtype, c.acc, v);
        };
        let (zero, end) = (self.b.ins().iconst(types::I64, 0), self.eval(extent)?);
        let Some((_, limit)) = c.limits.iter().find(|l| l.0 == *var) else {
            return self.in_order(*var, extent, (zero, end), &mut |k| k.reduced(rest, c));
        };
        self.held.push(limit.clone());
        let limit = self.eval(limit)?;
        let limit = self.b.ins().smax(limit, zero);
        let stop = self.b.ins().smin(limit, end);
        self.in_order(*var, extent, (zero, stop), &mut |k| k.reduced(rest, c))?;
        let left = self.b.ins().icmp(IntCC::SignedLessThan, stop, end);
        self.two_ways(
            left,
            &mut |k| {
                let none = k.neutral(c.combiner, c.dtype);
                k.combine(c.combiner, c.dtype, c.acc, none)
            },
            &mut |_| Ok(()),
        )
    }
}
