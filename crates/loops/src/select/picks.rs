//! Stages that select elements of one array axis by axis: padding of all modes, gathering of rows,
//! mirroring, repeating.
//!
//! Where each index, and each condition for the fill value, depends on few axes, offsets are
//! tabulated once for every group of such axes.

use super::chosen::{Chosen, chosen};
use crate::extents::elements;
use crate::{Compute, Ex, ExKind, Program, Var, axes_of, interval};

/// The maximum number of axes of the result.
pub const AXES: usize = 12;
/// Elements of the result per table entry below which tables do not pay.
const FEW: i64 = 4;
/// Elements below which a call does not pay.
const SMALL: i64 = 64;

/// Axes that share a table, with the indices and conditions that depend on them.
#[derive(Clone, Default, Debug)]
pub struct Group {
    /// The axes.
    pub axes: std::ops::Range<usize>,
    /// The conditions.
    pub conditions: Vec<Ex>,
    /// Numbers of indices.
    pub index: Vec<usize>,
}

/// Returns the groups of axes of a stage that selects elements of one array; `None` where tables
/// do not pay, or might be made of elements outside an array.
pub fn find(program: &Program, c: &Compute) -> Option<Vec<Group>> {
    let out = &program.bufs[c.out];
    let chosen = chosen(&c.value, &c.axes)?;
    if out.shape.len() > AXES || program.bufs[chosen.buf].dtype != out.dtype {
        return None;
    }
    let groups = groups(&chosen, &c.axes);
    let tables = (groups.iter()).try_fold(0i64, |n, g| {
        n.checked_add(elements(&out.shape[g.axes.clone()])?)
    });
    let pays = match (elements(&out.shape), tables) {
        (Some(all), Some(tables)) => all >= SMALL && all / FEW >= tables,
        _ => groups.len() > 1,
    };
    // Tables are also made for indices at which nothing may be read.
    let mut all = (chosen.conditions.iter())
        .chain(chosen.index)
        .chain(chosen.fill);
    (pays && all.all(|e| harmless(program, c, e))).then_some(groups)
}

/// Returns whether all elements that an expression reads are proven to be in their arrays, for all
/// elements of a stage.
pub(super) fn harmless(program: &Program, c: &Compute, e: &Ex) -> bool {
    let loops = program.loops(c);
    let extent = |v: Var| loops.iter().find(|l| l.0 == v).map(|l| &l.1);
    let dims = |v: Var| program.dims.contains(&v).then_some((0, crate::MOST_EXTENT));
    let range = |v: Var| match extent(v) {
        Some(n) => {
            let most = match n.as_int() {
                Some(n) => n - 1,
                None => interval(n, &dims).hi.saturating_sub(1),
            };
            Some((0, most.max(0)))
        }
        None => dims(v),
    };
    let inside = |index: &Ex, n: &Ex| match (index.kind(), n.as_int()) {
        (ExKind::Var(v), _) if extent(*v) == Some(n) => true,
        (_, Some(n)) => {
            let i = interval(index, &range);
            i.exact && i.lo >= 0 && i.hi < n
        }
        (_, None) => false,
    };
    let mut work = vec![e];
    while let Some(e) = work.pop() {
        if let ExKind::Load(buf, index) = e.kind() {
            let shape = &program.bufs[*buf].shape;
            if !index.iter().zip(shape).all(|(i, n)| inside(i, n)) {
                return false;
            }
        }
        work.extend(e.children());
    }
    true
}

/// Groups adjacent axes such that each expression's axes, and those between them, are in one group.
fn groups(c: &Chosen<'_>, axes: &[Var]) -> Vec<Group> {
    let of: Vec<Vec<usize>> = (c.conditions.iter().chain(c.index))
        .map(|e| axes_of(e, axes))
        .collect();
    let mut groups: Vec<Group> = Vec::new();
    for axis in 0..axes.len() {
        let with_last = of.iter().any(|a| {
            let ends = a.first().zip(a.last());
            ends.is_some_and(|(&first, &last)| first < axis && axis <= last)
        });
        match groups.last_mut().filter(|_| with_last) {
            Some(group) => group.axes.end = axis + 1,
            None => groups.push(Group {
                axes: axis..axis + 1,
                ..Group::default()
            }),
        }
    }
    for (k, of) in of.iter().enumerate() {
        let axis = of.first().copied().unwrap_or(0);
        let group = groups.iter_mut().find(|g| g.axes.contains(&axis));
        let group = group.expect("every axis is in a group");
        match c.conditions.get(k) {
            Some(condition) => group.conditions.push(condition.clone()),
            None => group.index.push(k - c.conditions.len()),
        }
    }
    groups
}
