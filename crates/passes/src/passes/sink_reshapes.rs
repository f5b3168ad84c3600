//! `sink-reshapes`: does what follows a product or a convolution element by element before its result
//! is reshaped, so that it can be fused with the product.
//!
//! A reshape goes behind operators whose other operands are scalars, numbers along an axis that it
//! keeps, or tensors that were reshaped alike. Of two reshapes in a row, the second is left. Others stay
//! where they are, as do all whose extents are not known.

use relax_base::Diagnostics;
use relax_ir::{AttrValue, ExprId};
use relax_ops::{Effects, Fusion, reshaped_runs};
use relax_sym::Dim;

use crate::edit::{Edit, OpCall};
use crate::{Analysis, Contract, PassCx, PassDef};

/// The pass.
pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "sink-reshapes",
    doc: "Does element-wise operators after products before the result is reshaped.",
    options: &[],
    contract: Contract::TYPED
        .idempotent()
        .each_function()
        .preserves(&[Analysis::Effects]),
    run,
}];

/// The element-wise operators behind a product that are looked through.
const DEPTH: usize = 16;

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let mut edit = Edit::new(cx.module, &typing);
    let count = edit.replace(|edit, node| joined(edit, node).or_else(|| sunk(edit, node)));
    cx.count("reshapes moved", count);
    Ok(())
}

/// A reshaped value of known extents.
struct Reshaped {
    call: OpCall,
    from: ExprId,
    old: Vec<i64>,
    new: Vec<i64>,
}

impl Reshaped {
    fn of(edit: &Edit<'_>, e: ExprId) -> Option<Reshaped> {
        let call = edit.op_call(e)?;
        let [from] = call.args[..] else { return None };
        let reshapes = call.def.hooks.reshape && edit.attr(&call, "newshape").as_ints().is_some();
        reshapes.then_some(())?;
        let (old, new) = (edit.extents(from)?, edit.extents(e)?);
        // As an extent to reshape to, 0 is another's.
        let some = old.iter().chain(&new).all(|n| *n > 0);
        some.then_some(())?;
        Some(Reshaped {
            call,
            from,
            old,
            new,
        })
    }

    /// Returns the axis that becomes `axis`, and no others but those of extent one.
    fn before(&self, axis: usize) -> Option<usize> {
        let dims = |extents: &[i64]| extents.iter().map(|&d| Dim::from(d)).collect::<Vec<_>>();
        let runs = reshaped_runs(&dims(&self.old), &dims(&self.new))?;
        let (mut from, _) = runs.into_iter().find(|run| run.1.contains(&axis))?;
        let extent = self.new[axis];
        let whole = extent > 1 && self.old[from.clone()].iter().product::<i64>() == extent;
        from.find(|&a| whole && self.old[a] == extent)
    }

    /// Makes a value of the shape before that of the shape after.
    fn again(&self, edit: &mut Edit<'_>, e: ExprId, at: ExprId) -> ExprId {
        let (attrs, span) = (edit.m.attrs(self.call.attrs).clone(), edit.m.span(at));
        let attrs = attrs.with("newshape", AttrValue::ints(&self.new));
        edit.recall(&self.call, &[e], attrs, span)
    }
}

/// Leaves the second one of two reshapes.
fn joined(edit: &mut Edit<'_>, node: ExprId) -> Option<ExprId> {
    let outer = Reshaped::of(edit, node)?;
    let inner = Reshaped::of(edit, outer.from)?;
    Some(match inner.old == outer.new {
        true => inner.from,
        false => outer.again(edit, inner.from, node),
    })
}

/// Returns whether element-wise operators alone are between a value and the product before it.
fn follows_product(edit: &Edit<'_>, mut e: ExprId) -> bool {
    for _ in 0..DEPTH {
        let Some((_, def, args)) = edit.callee(e) else {
            return false;
        };
        match (def.fusion, args.first()) {
            (Fusion::OutElementwise, _) => return true,
            (Fusion::Elementwise | Fusion::Broadcast, Some(first)) => e = *first,
            _ => return false,
        }
    }
    false
}

/// Reshapes the result of an element-wise operator instead of its operands.
fn sunk(edit: &mut Edit<'_>, node: ExprId) -> Option<ExprId> {
    let call = edit.op_call(node)?;
    // What works in any order of axes asks for no places.
    let element_wise = matches!(call.def.fusion, Fusion::Elementwise | Fusion::Broadcast)
        && call.def.layout_rule().is_some();
    if !element_wise || call.def.effects != Effects::Pure {
        return None;
    }
    let first = Reshaped::of(edit, *call.args.first()?)?;
    if edit.extents(node)? != first.new || !follows_product(edit, first.from) {
        return None;
    }
    let mut args = vec![first.from];
    let given = edit.attr(&call, "axis").as_int();
    let rank = first.new.len() as i64;
    let axis = |axis: i64| usize::try_from(if axis < 0 { axis + rank } else { axis }).ok();
    let place = given.map_or(first.new.len().checked_sub(1), axis);
    let before = place
        .filter(|&a| a < first.new.len())
        .and_then(|a| first.before(a));
    let mut vectors = false;
    for &arg in &call.args[1..] {
        let alike =
            Reshaped::of(edit, arg).filter(|r| (&r.old, &r.new) == (&first.old, &first.new));
        let extents = edit.extents(arg)?;
        args.push(match (alike, &extents[..]) {
            (_, []) => arg,
            (Some(other), _) => other.from,
            (None, [n]) if Some(n) == place.and_then(|a| first.new.get(a)) => {
                vectors = true;
                arg
            }
            _ => return None,
        });
    }
    let mut attrs = edit.m.attrs(call.attrs).clone();
    match (before, given) {
        (Some(before), Some(_)) => attrs.set("axis", AttrValue::Int(before as i64)),
        (_, None) if !vectors => {}
        // Without an axis, one of two operands has numbers of the last one.
        (Some(before), None) if args.len() == 2 && before + 1 == first.old.len() => {}
        _ => return None,
    }
    let span = edit.m.span(node);
    let new = edit.recall(&call, &args, attrs, span);
    (edit.extents(new)? == first.old).then(|| first.again(edit, new, node))
}
