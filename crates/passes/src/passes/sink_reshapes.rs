//! `sink-reshapes`: does what follows a product or a convolution element by element before its result
//! is reshaped, or its axes are moved or cut, so that it can be fused with the product.
//!
//! A reshape goes behind operators whose other operands are scalars, numbers along axes that it keeps,
//! splits or merges, or tensors that were reshaped alike or can be: what a residual is added to, say.
//! Where it joins axes, numbers along what it makes may still be numbers along one axis before the
//! reshapes and moved axes around it, which are then passed together. Of two reshapes in a row, the
//! second is left.
//! Others stay where they are, as do all whose extents are not known. What moves or cuts axes goes
//! behind such operators where nothing else uses it, since it is a copy.

use relax_base::Diagnostics;
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
    // What element-wise operators alone use.
    let mut goes_on: FxHashMap<ExprId, bool> = FxHashMap::default();
    for e in edit.m.post_order(bodies) {
        let element_wise = (edit.callee(e)).is_some_and(|c| is_element_wise(c.1.fusion));
        edit.m.for_each_child(e, |c| {
            *users.entry(c).or_default() += 1;
            *goes_on.entry(c).or_insert(true) &= element_wise;
        });
    }
    let mut count = 0;
    edit.rewrite(|edit, old, node| {
        // A copy of wider elements takes longer: what makes these only passes one with what follows it.
        let ends = goes_on.get(&old) != Some(&true);
        let alone = !(shared(edit, old, &users) || ends && widens(edit, old));
        let new = joined(edit, node).or_else(|| sunk(edit, node, alone));
        count += u64::from(new.is_some());
        new.unwrap_or(node)
    });
    cx.count("reshapes moved", count);
    Ok(())
}

/// Returns whether an operator computes each element from those at its place.
fn is_element_wise(fusion: Fusion) -> bool {
    matches!(fusion, Fusion::Elementwise | Fusion::Broadcast)
}

/// Returns whether a call's elements have more bytes than those of its first operand.
fn widens(edit: &Edit<'_>, call: ExprId) -> bool {
    let size = |e| edit.dtype(e).map_or(0, |dtype| dtype.size());
    let first = edit.callee(call).and_then(|c| c.2.first().copied());
    first.is_some_and(|first| size(call) > size(first))
}

/// Emits a reshape for the call `at`.
fn reshape(edit: &mut Edit<'_>, x: ExprId, extents: AttrValue, at: ExprId) -> ExprId {
    let span = edit.m.span(at);
    edit.call("reshape", &[x], &[("newshape", extents)], span)
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
    /// How each number becomes several, where the axis is a part of one, in this order.
    spreads: Vec<Spread>,
}

/// Numbers along some parts of an axis become numbers along all of it.
struct Spread {
    /// The parts with their extents, and whether the numbers have each.
    parts: Vec<(i64, bool)>,
}

impl Spread {
    /// Emits it for a vector.
    fn of(&self, edit: &mut Edit<'_>, mut all: ExprId, at: ExprId) -> ExprId {
        let span = edit.m.span(at);
        let product = |parts: &[(i64, bool)]| parts.iter().map(|p| p.0).product::<i64>();
        let mut own = self.parts.iter().enumerate().filter(|p| p.1.1);
        if let (Some((k, _)), None) = (own.next(), own.next()) {
            let (times, each) = (product(&self.parts[..k]), product(&self.parts[k + 1..]));
            if each > 1 {
                let given = [("repeats", each), ("axis", 0)];
                let given = given.map(|(name, n)| (name, AttrValue::Int(n)));
                all = edit.call("repeat", &[all], &given, span);
            }
            if times > 1 {
                all = edit.call("tile", &[all], &[("reps", AttrValue::ints(&[times]))], span);
            }
            return all;
        }
        let ones = self.parts.iter().map(|&(n, own)| if own { n } else { 1 });
        let (ones, whole): (Vec<i64>, Vec<i64>) =
            (ones.collect(), self.parts.iter().map(|p| p.0).collect());
        all = reshape(edit, all, AttrValue::ints(&ones), at);
        all = edit.call(
            "broadcast_to",
            &[all],
            &[("shape", AttrValue::ints(&whole))],
            span,
        );
        reshape(edit, all, AttrValue::ints(&[product(&self.parts)]), at)
    }
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

    /// Returns where numbers along some axes, the last one's beside each other, lie before; what they
    /// become on the way is added to `spreads`.
    fn before(&self, axes: &[usize], spreads: &mut Vec<Spread>) -> Option<Vec<usize>> {
        match &self.how {
            How::Turned(order) => axes.iter().map(|&a| order.get(a).copied()).collect(),
            How::Cut(whole) => {
                let all = axes.iter().all(|&a| whole.get(a) == Some(&true));
                all.then(|| axes.to_vec())
            }
            How::Reshaped => {
                let runs = reshaped_runs(&self.old, &self.new)?;
                let mut found = Vec::new();
                let mut left = axes;
                while let Some(first) = left.first() {
                    let (from, to) = runs.iter().find(|run| run.1.contains(first))?;
                    let here = left.iter().take_while(|a| to.contains(a)).count();
                    let (mine, rest) = left.split_at(here);
                    let long: Vec<usize> =
                        from.clone().filter(|&a| self.old[a] != Dim::ONE).collect();
                    let others = to
                        .clone()
                        .any(|a| !mine.contains(&a) && self.new[a] != Dim::ONE);
                    let one = mine.iter().any(|&a| self.new[a] == Dim::ONE);
                    if one || !mine.is_sorted() || rest.iter().any(|a| to.contains(a)) {
                        return None;
                    }
                    if others && (here < axes.len() || long.len() != 1) {
                        return None;
                    }
                    if others {
                        let part = |a: usize| Some((self.new[a].as_const()?, mine.contains(&a)));
                        let parts = to.clone().map(part).collect::<Option<_>>()?;
                        spreads.push(Spread { parts });
                    }
                    found.extend(long);
                    left = rest;
                }
                Some(found)
            }
        }
    }

    /// Makes a tensor that is broadcast against the value after of one that is so against the value
    /// before: by a reshaping, which costs nothing. `None` where that would change the order of its
    /// elements, or it is broadcast along a part of an axis.
    fn spread_before(&self, edit: &mut Edit<'_>, e: ExprId, at: ExprId) -> Option<ExprId> {
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
                        return (long == 1).then(|| self.repeated_before(edit, e, place, at))?;
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
        Some(reshape(edit, e, extents, at))
    }

    /// Makes numbers along an axis after, which a tensor consists of, numbers along an axis before: of
    /// an axis that is a part of it, repeated.
    fn repeated_before(
        &self,
        edit: &mut Edit<'_>,
        e: ExprId,
        axis: usize,
        at: ExprId,
    ) -> Option<ExprId> {
        let n = self.new[axis].as_const()?;
        let mut spreads = Vec::new();
        let [axis] = self.before(&[axis], &mut spreads)?[..] else {
            return None;
        };
        let mut all = reshape(edit, e, AttrValue::ints(&[n]), at);
        for spread in spreads {
            all = spread.of(edit, all, at);
        }
        let mut old = vec![Dim::ONE; self.old.len() - axis];
        old[0] = self.old[axis].clone();
        let extents = AttrValue::array(old.into_iter().map(AttrValue::dim));
        Some(reshape(edit, all, extents, at))
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
            fusion if is_element_wise(fusion) => open.extend(args.iter().rev()),
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
fn sunk(edit: &mut Edit<'_>, node: ExprId, alone: bool) -> Option<ExprId> {
    let call = edit.op_call(node)?;
    // What works in any order of axes asks for no places.
    let element_wise = is_element_wise(call.def.fusion) && call.def.layout_rule().is_some();
    if !element_wise || call.def.effects != Effects::Pure {
        return None;
    }
    let dims = edit.dims(node)?;
    // What is copied is so where the first operand comes from.
    let passed = |edit: &Edit<'_>, e: ExprId, at: usize| {
        let moved = Moved::of(edit, e)?;
        let fits = matches!(moved.how, How::Reshaped) || alone && at == 0;
        (fits && follows_product(edit, moved.from, true)).then_some(moved)
    };
    let (at, first) = (call.args.iter().enumerate())
        .find_map(|(at, &arg)| Some((at, passed(edit, arg, at)?)).filter(|m| m.1.new == dims))?;
    let mut moves = vec![first];
    while moves.len() < DEPTH
        && let Some(moved) = passed(edit, moves[moves.len() - 1].from, at)
    {
        moves.push(moved);
    }
    let (count, mut new) = (1..=moves.len()).rev().find_map(|count| {
        let new = before(edit, node, &call, (at, &moves[..count]))?;
        (edit.dims(new)? == moves[count - 1].old).then_some((count, new))
    })?;
    for moved in moves[..count].iter().rev() {
        new = moved.again(edit, new, node);
    }
    Some(new)
}

/// Calls an element-wise operator on what was moved, the last time first; that is its operand `at`.
fn before(
    edit: &mut Edit<'_>,
    node: ExprId,
    call: &OpCall,
    (at, moves): (usize, &[Moved]),
) -> Option<ExprId> {
    let span = edit.m.span(node);
    let (first, last) = (moves.first()?, moves.last()?);
    let given = edit.attr(call, "axis").as_int();
    let rank = first.new.len() as i64;
    let axis = |axis: i64| usize::try_from(if axis < 0 { axis + rank } else { axis }).ok();
    let place = given.map_or(first.new.len().checked_sub(1), axis);
    let before = place.filter(|&a| a < first.new.len()).and_then(|a| {
        let (mut axes, mut spreads) = (vec![a], Vec::new());
        for moved in moves {
            axes = moved.before(&axes, &mut spreads)?;
        }
        let [axis] = axes[..] else { return None };
        Some(Before { axis, spreads })
    });
    // An axis is that of the first operand.
    if at > 0 && given.is_some() {
        return None;
    }
    let mut args = Vec::new();
    let mut vectors = Vec::new();
    for (i, &arg) in call.args.iter().enumerate() {
        if i == at {
            args.push(last.from);
            continue;
        }
        if given.is_none()
            && let Some(spread) =
                (moves.iter()).try_fold(arg, |e, moved| moved.spread_before(edit, e, node))
        {
            args.push(spread);
            continue;
        }
        let dims = edit.dims(arg)?;
        args.push(match (alike(edit, arg, moves), &dims[..]) {
            (_, []) => arg,
            (Some(other), _) => other,
            (None, [n]) if Some(n) == place.and_then(|a| first.new.get(a)) => {
                vectors.push(args.len());
                arg
            }
            _ => return None,
        });
    }
    let mut attrs = edit.m.attrs(call.attrs).clone();
    match (&before, given) {
        (Some(before), Some(_)) => attrs.set("axis", AttrValue::Int(before.axis as i64)),
        // Any, where nothing has numbers along it.
        (None, Some(_)) if vectors.is_empty() => {
            attrs.set("axis", AttrValue::Int(last.old.len() as i64 - 1));
        }
        (_, None) if vectors.is_empty() => {}
        // Without an axis, one of two operands has numbers of the last one.
        (Some(before), None) if args.len() == 2 && before.axis + 1 == last.old.len() => {}
        _ => return None,
    }
    for k in vectors {
        for spread in before.iter().flat_map(|before| &before.spreads) {
            args[k] = spread.of(edit, args[k], node);
        }
    }
    Some(edit.recall(call, &args, attrs, span))
}

/// Returns what became a value by the same moves, if it did.
fn alike(edit: &Edit<'_>, mut e: ExprId, moves: &[Moved]) -> Option<ExprId> {
    for moved in moves {
        e = Moved::of(edit, e)
            .filter(|other| other.alike(edit, moved))?
            .from;
    }
    Some(e)
}
