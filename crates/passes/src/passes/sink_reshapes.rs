//! `sink-reshapes`: does what follows a product or a convolution element by element before its result
//! is reshaped, or its axes are moved or cut, so that it can be fused with the product.
//!
//! A reshape goes behind operators whose other operands are scalars, numbers along axes that it keeps,
//! splits or merges, or tensors that were reshaped alike or can be: what a residual is added to, say. Of two reshapes in a row, the second is left.
//! Others stay where they are, as do all whose extents are not known. What moves or cuts axes goes
//! behind such operators where nothing else uses it, since it is a copy.

use relax_base::{Diagnostics, Span};
use relax_ir::{AttrValue, ExprId};
use relax_ops::{Effects, Fusion, Operand, Order, Relaid, Relayout, reshaped_runs};
use relax_sym::Dim;
use rustc_hash::FxHashMap;

use crate::edit::{Edit, OpCall};
use crate::{Analysis, Contract, PassCx, PassDef};

/// The pass.
pub(crate) static PASSES: &[PassDef] = &[PassDef {
    name: "sink-reshapes",
    doc: "Does element-wise operators after products before the result is reshaped, moved or cut.",
    options: &[],
    contract: Contract::TYPED
        .idempotent()
        .each_function()
        .preserves(&[Analysis::Effects]),
    run,
}];

/// The operators behind a product that are looked through.
const DEPTH: usize = 16;

fn run(cx: &mut PassCx<'_>) -> Result<(), Diagnostics> {
    let typing = cx.typing()?;
    let mut edit = Edit::new(cx.module, &typing);
    let bodies: Vec<ExprId> = edit.m.global_bodies().iter().map(|b| b.1).collect();
    let mut users: FxHashMap<ExprId, u32> = FxHashMap::default();
    for e in edit.m.post_order(bodies) {
        edit.m
            .for_each_child(e, |c| *users.entry(c).or_default() += 1);
    }
    let mut count = 0;
    edit.rewrite(|edit, old, node| {
        let alone = !shared(edit, old, &users);
        let new = joined(edit, node).or_else(|| sunk(edit, node, alone, DEPTH));
        count += u64::from(new.is_some());
        new.unwrap_or(node)
    });
    cx.count("reshapes moved", count);
    Ok(())
}

/// Returns whether anything between a call and the product before its first operand has other users.
fn shared(edit: &Edit<'_>, call: ExprId, users: &FxHashMap<ExprId, u32>) -> bool {
    let mut e = call;
    for _ in 0..DEPTH {
        let Some(&first) = edit.callee(e).and_then(|c| c.2.first()) else {
            return false;
        };
        e = first;
        match edit.callee(e) {
            Some((_, def, _)) if def.fusion == Fusion::OutElementwise => return false,
            Some(_) if users.get(&e) == Some(&1) => {}
            _ => return true,
        }
    }
    true
}

/// What becomes of the axes of a tensor whose elements stay as they are.
enum How {
    Reshaped,
    /// The axes in their new order.
    Turned(Vec<usize>),
    /// Some indices of the axes for which this is not set are left.
    Cut(Vec<bool>),
}

/// Where numbers along an axis lie before it is reshaped, moved or cut.
struct Before {
    axis: usize,
    /// How often each number is repeated, and all of them then, where the axis is a part of one.
    repeats: [i64; 2],
}

/// A value whose elements are those of another, of known dimensions.
struct Moved {
    call: OpCall,
    from: ExprId,
    old: Vec<Dim>,
    new: Vec<Dim>,
    how: How,
}

impl Moved {
    fn of(edit: &Edit<'_>, e: ExprId) -> Option<Moved> {
        let call = edit.op_call(e)?;
        let [from] = call.args[..] else { return None };
        let (old, new) = (edit.dims(from)?, edit.dims(e)?);
        // As an extent to reshape to, 0 is another's.
        let some = |d: &Dim| d.is_known() && d.as_const() != Some(0);
        old.iter().chain(&new).all(some).then_some(())?;
        let how = match call.def.hooks.reshape {
            true => {
                let given = edit.attr(&call, "newshape");
                let extents = given.as_array().is_some() || given.as_int().is_some();
                extents.then_some(How::Reshaped)?
            }
            false => How::of_axes(edit, &call, &old, &new)?,
        };
        Some(Moved {
            call,
            from,
            old,
            new,
            how,
        })
    }

    /// Returns the same of reshapes alone.
    fn reshaped(edit: &Edit<'_>, e: ExprId) -> Option<Moved> {
        Moved::of(edit, e).filter(|m| matches!(m.how, How::Reshaped))
    }

    /// Returns where numbers along an axis lie before.
    fn before(&self, axis: usize) -> Option<Before> {
        let at = |axis| {
            let repeats = [1; 2];
            Some(Before { axis, repeats })
        };
        match &self.how {
            How::Turned(axes) => at(*axes.get(axis)?),
            How::Cut(whole) => whole.get(axis)?.then(|| at(axis))?,
            How::Reshaped => {
                let runs = reshaped_runs(&self.old, &self.new)?;
                let (mut from, to) = runs.into_iter().find(|run| run.1.contains(&axis))?;
                if self.new[axis] == Dim::ONE {
                    return None;
                }
                let from = from
                    .clone()
                    .find(|&a| self.old[a] == self.new[axis])
                    .or_else(|| {
                        let long = from.by_ref().filter(|&a| self.old[a] != Dim::ONE);
                        let long: Vec<usize> = long.collect();
                        (long.len() == 1).then(|| long[0])
                    })?;
                let product = |dims: &[Dim]| {
                    let dims = dims.iter().map(Dim::as_const);
                    dims.product::<Option<i64>>()
                };
                let all = self.old[from].as_const() == product(&self.new[to.clone()]);
                let whole = self.old[from] == self.new[axis];
                let repeats = [
                    product(&self.new[axis + 1..to.end])?,
                    product(&self.new[to.start..axis])?,
                ];
                (all || whole && repeats == [1; 2]).then_some(Before {
                    axis: from,
                    repeats,
                })
            }
        }
    }

    /// Makes a tensor that is broadcast against the value after of one that is so against the value
    /// before: by a reshaping, which costs nothing. `None` where that would change the order of its
    /// elements, or it is broadcast along a part of an axis.
    fn spread_before(&self, edit: &mut Edit<'_>, e: ExprId, span: Span) -> Option<ExprId> {
        if Moved::of(edit, e).is_some_and(|other| other.alike(edit, self)) {
            return None;
        }
        let given = edit.dims(e)?;
        // A whole tensor is worth that where the product itself can add it.
        if given == self.new && !follows_product(edit, self.from, false) {
            return None;
        }
        let mut dims = vec![Dim::ONE; self.new.len().checked_sub(given.len())?];
        dims.extend(given.iter().cloned());
        let mut old = vec![Dim::ONE; self.old.len()];
        let long = dims.iter().filter(|d| **d != Dim::ONE).count();
        match &self.how {
            How::Reshaped => {
                for (from, to) in reshaped_runs(&self.old, &self.new)? {
                    if dims[to.clone()] == self.new[to.clone()] {
                        old[from.clone()].clone_from_slice(&self.old[from]);
                    } else if dims[to].iter().any(|d| *d != Dim::ONE) {
                        let place = dims.iter().position(|d| *d != Dim::ONE)?;
                        return (long == 1).then(|| self.repeated_before(edit, e, place, span))?;
                    }
                }
            }
            How::Turned(axes) if long <= 1 => {
                for (axis, d) in axes.iter().zip(&dims) {
                    old[*axis] = d.clone();
                }
            }
            How::Cut(whole) if dims.iter().zip(whole).all(|(d, w)| *w || *d == Dim::ONE) => {
                old.clone_from(&dims);
            }
            _ => return None,
        }
        // A whole tensor has all axes, as what it is added to.
        let ones = old.iter().take_while(|d| **d == Dim::ONE).count();
        let left_out = match dims == self.new {
            true => 0,
            false => ones.min(old.len().saturating_sub(given.len().min(1))),
        };
        let old = old.split_off(left_out);
        if old == given {
            return Some(e);
        }
        let e = match Moved::reshaped(edit, e) {
            Some(inner) if inner.old == old => return Some(inner.from),
            Some(inner) => inner.from,
            None => e,
        };
        let extents = AttrValue::array(old.into_iter().map(AttrValue::dim));
        Some(edit.call("reshape", &[e], &[("newshape", extents)], span))
    }

    /// Makes numbers along an axis after, which a tensor consists of, numbers along an axis before: of
    /// an axis that is a part of it, repeated.
    fn repeated_before(
        &self,
        edit: &mut Edit<'_>,
        e: ExprId,
        axis: usize,
        span: Span,
    ) -> Option<ExprId> {
        let n = self.new[axis].as_const()?;
        let Before { axis, repeats } = self.before(axis)?;
        let line = [("newshape", AttrValue::ints(&[n]))];
        let mut all = edit.call("reshape", &[e], &line, span);
        all = repeated(edit, all, repeats, span);
        let mut old = vec![Dim::ONE; self.old.len() - axis];
        old[0] = self.old[axis].clone();
        let extents = AttrValue::array(old.into_iter().map(AttrValue::dim));
        Some(edit.call("reshape", &[all], &[("newshape", extents)], span))
    }

    /// Makes a value of the shape before that of the shape after.
    fn again(&self, edit: &mut Edit<'_>, e: ExprId, at: ExprId) -> ExprId {
        let (mut attrs, span) = (edit.m.attrs(self.call.attrs).clone(), edit.m.span(at));
        if matches!(self.how, How::Reshaped) {
            let extents = self.new.iter().cloned().map(AttrValue::dim);
            attrs.set("newshape", AttrValue::array(extents));
        }
        edit.recall(&self.call, &[e], attrs, span)
    }

    /// Returns whether another value was made of its own in the same way.
    fn alike(&self, edit: &Edit<'_>, other: &Moved) -> bool {
        let attrs = |m: &Moved| edit.m.attrs(m.call.attrs).clone();
        let same = match (&self.how, &other.how) {
            (How::Reshaped, How::Reshaped) => true,
            (How::Turned(x), How::Turned(y)) => x == y,
            (How::Cut(_), How::Cut(_)) => attrs(self) == attrs(other),
            _ => false,
        };
        same && (&self.old, &self.new) == (&other.old, &other.new)
    }
}

impl How {
    /// Finds what a call that is no reshape does to the axes of its operand.
    fn of_axes(edit: &Edit<'_>, call: &OpCall, old: &[Dim], new: &[Dim]) -> Option<How> {
        let attrs = edit.m.attrs(call.attrs);
        if let Some(whole) = call.def.hooks.leaves_whole {
            let whole: Vec<bool> = (0..old.len()).map(|a| whole(attrs, a)).collect();
            return most(old, new).then_some(How::Cut(whole));
        }
        let operands = [Operand {
            order: Some(Order::still(old.len())?),
            dims: Some(old.to_vec()),
        }];
        let site = Relayout {
            attrs,
            operands: &operands,
            results: 1,
            wanted: None,
        };
        let Relaid::Operand(order) = call.def.layout_rule()?(&site)? else {
            return None;
        };
        // The order of the operand's axes is that of the result's in which they do not move.
        let mut axes = vec![0; old.len()];
        for (from, part) in order.parts().iter().enumerate() {
            *axes.get_mut(part.axis)? = from;
        }
        let moves = order.parts().len() == old.len() && old.len() == new.len();
        (moves && order.parts().iter().all(|p| p.inner == 0)).then_some(How::Turned(axes))
    }
}

/// Returns whether a tensor has more than half of the elements of another, of which it is a part.
fn most(all: &[Dim], part: &[Dim]) -> bool {
    let mut left = 1.0;
    for (all, part) in all.iter().zip(part).filter(|(all, part)| all != part) {
        let (Some(all), Some(part)) = (all.as_const(), part.as_const()) else {
            return false;
        };
        left *= part as f64 / all as f64;
    }
    all.len() == part.len() && left > 0.5
}

/// Leaves the second one of two reshapes.
fn joined(edit: &mut Edit<'_>, node: ExprId) -> Option<ExprId> {
    let outer = Moved::reshaped(edit, node)?;
    let inner = Moved::reshaped(edit, outer.from)?;
    Some(match inner.old == outer.new {
        true => inner.from,
        false => outer.again(edit, inner.from, node),
    })
}

/// Returns whether element-wise operators, reshapes, and such that move or cut axes where they are
/// `copied`, alone are between a value and a product before it.
fn follows_product(edit: &Edit<'_>, e: ExprId, copied: bool) -> bool {
    let mut open = vec![e];
    for _ in 0..DEPTH {
        let Some(e) = open.pop() else {
            return false;
        };
        let Some((_, def, args)) = edit.callee(e) else {
            continue;
        };
        match def.fusion {
            Fusion::OutElementwise => return true,
            // The first operand is the next one.
            Fusion::Elementwise | Fusion::Broadcast => open.extend(args.iter().rev()),
            _ => {
                let fits = |m: &Moved| copied || matches!(m.how, How::Reshaped);
                open.extend(Moved::of(edit, e).filter(fits).map(|moved| moved.from));
            }
        }
    }
    false
}

/// Moves the result of an element-wise operator instead of its operands, behind as many operators that
/// move elements as are before it. Those that copy are passed where the operator `alone` uses them.
fn sunk(edit: &mut Edit<'_>, node: ExprId, alone: bool, depth: usize) -> Option<ExprId> {
    let call = edit.op_call(node)?;
    // What works in any order of axes asks for no places.
    let element_wise = matches!(call.def.fusion, Fusion::Elementwise | Fusion::Broadcast)
        && call.def.layout_rule().is_some();
    if !element_wise || call.def.effects != Effects::Pure {
        return None;
    }
    let dims = edit.dims(node)?;
    let (at, first) = (call.args.iter().enumerate()).find_map(|(i, &arg)| {
        let moved = Moved::of(edit, arg)?;
        let reshaped = matches!(moved.how, How::Reshaped);
        // What is copied is so where the first operand comes from.
        let fits = dims == moved.new && (reshaped || alone && i == 0);
        (fits && follows_product(edit, moved.from, true)).then_some((i, moved))
    })?;
    let new = before(edit, node, &call, (at, &first))?;
    if edit.dims(new)? != first.old {
        return None;
    }
    let deeper = match depth {
        0 => None,
        _ => sunk(edit, new, alone, depth - 1),
    };
    Some(first.again(edit, deeper.unwrap_or(new), node))
}

/// Repeats each number of a vector, and all of them then.
fn repeated(edit: &mut Edit<'_>, mut all: ExprId, [each, times]: [i64; 2], span: Span) -> ExprId {
    if each > 1 {
        let given = [("repeats", each), ("axis", 0)];
        let given = given.map(|(name, n)| (name, AttrValue::Int(n)));
        all = edit.call("repeat", &[all], &given, span);
    }
    if times > 1 {
        all = edit.call("tile", &[all], &[("reps", AttrValue::ints(&[times]))], span);
    }
    all
}

/// Calls an element-wise operator on what was moved, which is its operand `at`.
fn before(
    edit: &mut Edit<'_>,
    node: ExprId,
    call: &OpCall,
    (at, first): (usize, &Moved),
) -> Option<ExprId> {
    let span = edit.m.span(node);
    let given = edit.attr(call, "axis").as_int();
    let rank = first.new.len() as i64;
    let axis = |axis: i64| usize::try_from(if axis < 0 { axis + rank } else { axis }).ok();
    let place = given.map_or(first.new.len().checked_sub(1), axis);
    let before = place
        .filter(|&a| a < first.new.len())
        .and_then(|a| first.before(a));
    // An axis is that of the first operand.
    if at > 0 && given.is_some() {
        return None;
    }
    let mut args = Vec::new();
    let mut vectors = false;
    for (i, &arg) in call.args.iter().enumerate() {
        if i == at {
            args.push(first.from);
            continue;
        }
        if given.is_none()
            && let Some(spread) = first.spread_before(edit, arg, span)
        {
            args.push(spread);
            continue;
        }
        let alike = Moved::of(edit, arg).filter(|other| other.alike(edit, first));
        let dims = edit.dims(arg)?;
        args.push(match (alike, &dims[..]) {
            (_, []) => arg,
            (Some(other), _) => other.from,
            (None, [n]) if Some(n) == place.and_then(|a| first.new.get(a)) => {
                vectors = true;
                repeated(edit, arg, before.as_ref()?.repeats, span)
            }
            _ => return None,
        });
    }
    let mut attrs = edit.m.attrs(call.attrs).clone();
    match (before, given) {
        (Some(before), Some(_)) => attrs.set("axis", AttrValue::Int(before.axis as i64)),
        (_, None) if !vectors => {}
        // Without an axis, one of two operands has numbers of the last one.
        (Some(before), None) if args.len() == 2 && before.axis + 1 == first.old.len() => {}
        _ => return None,
    }
    Some(edit.recall(call, &args, attrs, span))
}
