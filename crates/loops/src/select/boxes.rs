//! Reductions over boxes whose bounds depend on the place of the result: adaptive pooling. Along each of
//! some adjacent axes an index of the result has a range of the array's indices, which is computed here.

use crate::extents::{elements, numbers};
use crate::{
    BinOp, Buf, Combiner, Compute, Ex, ExKind, Interval, Program, Var, axes_of, interval,
    visit_expr,
};

/// The maximum number of axes with ranges.
pub const AXES: usize = 4;
/// The maximum extent of such an axis of the result.
const MOST: i64 = 4096;
/// Elements below which a call does not pay.
const FEW: i64 = 64;
/// Elements of a box from which on one that is like all others is taken, where other kernels do not fill
/// their lanes;
const LARGE: i64 = 16;
/// bytes that fill them,
const WIDE: i64 = 64;
/// and those of a run that is reduced where it lies.
const LONG: i64 = 256;

/// A reduction over boxes.
#[derive(Clone, Debug)]
pub struct Boxes {
    /// The array.
    pub buf: Buf,
    /// The first axis with ranges.
    pub first: usize,
    /// For each axis with ranges, for each index of the result: the first index of the array, and the one behind
    /// the last.
    pub ranges: Vec<Vec<(i64, i64)>>,
}

/// An axis: the variable of the result, what is added to its first index, and how far that goes.
struct Axis<'e> {
    place: &'e Ex,
    own: Var,
    start: &'e Ex,
    width: i64,
    /// What the index is less than, if that is said.
    end: Option<&'e Ex>,
}

/// Returns the boxes that a stage reduces; `None` where it does something else, where they are not known, or
/// where other kernels are no slower.
pub(super) fn find(program: &Program, c: &Compute) -> Option<Boxes> {
    let reduce = c.reduce.as_ref()?;
    let out = &program.bufs[c.out];
    let known = matches!(
        reduce.combiner,
        Combiner::Sum | Combiner::Max | Combiner::Min
    );
    if !known || out.dtype.is_bool() || !super::lines::is_element(out.dtype) {
        return None;
    }
    let (conditions, read) = match c.value.kind() {
        ExKind::Select(cond, yes, no) if is_neutral(no, reduce.combiner) => (conditions(cond), yes),
        _ => (Vec::new(), &c.value),
    };
    let ExKind::Load(buf, index) = read.kind() else {
        return None;
    };
    let of = &program.bufs[*buf];
    if of.dtype != out.dtype || index.len() != c.axes.len() {
        return None;
    }
    let mut axes: Vec<Option<Axis<'_>>> = Vec::with_capacity(index.len());
    for (k, place) in index.iter().enumerate() {
        let passes = matches!(place.kind(), ExKind::Var(v) if *v == c.axes[k]);
        axes.push(match passes && of.shape[k] == out.shape[k] {
            true => None,
            false => Some(axis(place, c.axes[k], &reduce.axes)?),
        });
    }
    let (mut used, uneven) = (0, !conditions.is_empty());
    for cond in conditions {
        let ExKind::Binary(BinOp::Lt, place, end) = cond.kind() else {
            return None;
        };
        let axis = axes.iter_mut().flatten().find(|a| a.place == place)?;
        if axis.end.replace(end).is_some() {
            return None;
        }
    }
    let first = axes.iter().position(Option::is_some)?;
    let last = axes.iter().rposition(Option::is_some)?;
    if last - first >= AXES {
        return None;
    }
    let mut ranges = Vec::new();
    for (k, axis) in axes.iter().enumerate().take(last + 1).skip(first) {
        let (n, m) = (of.shape[k].as_int()?, out.shape[k].as_int()?);
        if m > MOST {
            return None;
        }
        used += usize::from(axis.is_some());
        ranges.push(
            (0..m)
                .map(|i| range(axis.as_ref(), i, n))
                .collect::<Option<Vec<_>>>()?,
        );
    }
    let all = used == reduce.axes.len();
    let found = Boxes {
        buf: *buf,
        first,
        ranges,
    };
    (all && pays(program, c, &found, uneven)).then_some(found)
}

/// Returns whether a number changes nothing that it is combined with, nor what a reduction starts from.
fn is_neutral(e: &Ex, combiner: Combiner) -> bool {
    let identity = combiner.identity(e.dtype());
    let beyond = match (e.kind(), identity.as_float(), combiner) {
        (ExKind::Float(x), Some(least), Combiner::Max) => *x <= least,
        (ExKind::Float(x), Some(most), Combiner::Min) => *x >= most,
        _ => false,
    };
    beyond || *e == identity
}

/// The conditions that hold together.
fn conditions(cond: &Ex) -> Vec<&Ex> {
    let (mut found, mut work) = (Vec::new(), vec![cond]);
    while let Some(e) = work.pop() {
        match e.kind() {
            ExKind::Binary(BinOp::And, a, b) => work.extend([a, b]),
            _ if e.as_int() == Some(1) && e.dtype().is_bool() => {}
            _ => found.push(e),
        }
    }
    found
}

/// An index that is a number for each index of the result, and the reduced one of an axis added to it.
fn axis<'e>(place: &'e Ex, own: Var, reduced: &[(Var, Ex)]) -> Option<Axis<'e>> {
    let ExKind::Binary(BinOp::Add, a, b) = place.kind() else {
        return None;
    };
    let of = |e: &Ex| match e.kind() {
        ExKind::Var(v) => reduced.iter().find(|r| r.0 == *v),
        _ => None,
    };
    let (start, (_, extent)) = match (of(a), of(b)) {
        (None, Some(r)) => (a, r),
        (Some(r), None) => (b, r),
        _ => return None,
    };
    let vars: Vec<Var> = reduced.iter().map(|r| r.0).collect();
    axes_of(start, &vars).is_empty().then_some(Axis {
        place,
        own,
        start,
        width: extent.as_int()?,
        end: None,
    })
}

/// The range of an index of the result; `None` where it is not known, or not within the `n` of the array.
fn range(axis: Option<&Axis<'_>>, i: i64, n: i64) -> Option<(i64, i64)> {
    let Some(axis) = axis else {
        return (i < n).then_some((i, i + 1));
    };
    let at = |e: &Ex| -> Option<i64> {
        let mut reads = false;
        visit_expr(e, |x| reads |= matches!(x.kind(), ExKind::Load(..)));
        let found: Interval = interval(e, &|v| (v == axis.own).then_some((i, i)));
        (found.exact && found.lo == found.hi && !reads).then_some(found.lo)
    };
    let first = at(axis.start)?;
    let mut end = first.checked_add(axis.width)?;
    if let Some(e) = axis.end {
        end = end.min(at(e)?);
    }
    let end = end.max(first);
    (first >= 0 && end <= n).then_some((first, end))
}

/// Returns whether no other kernel is as fast: boxes differ, or those of several axes are large and what lies
/// behind them fills no lanes.
fn pays(program: &Program, c: &Compute, found: &Boxes, uneven: bool) -> bool {
    let out = &program.bufs[c.out];
    let few = elements(&program.bufs[found.buf].shape).is_some_and(|n| n < FEW);
    if few || uneven {
        return !few;
    }
    let behind = numbers(&out.shape[found.first + found.ranges.len()..]);
    let Some(inner) = behind.map(|n| n.iter().product::<i64>()) else {
        return false;
    };
    // Narrow floats are reduced as float32.
    let narrow = out.dtype.is_float() && out.dtype.size() < 4;
    let size = if narrow { 4 } else { out.dtype.size() as i64 };
    let widths = found
        .ranges
        .iter()
        .map(|r| r.first().map_or(0, |r| r.1 - r.0));
    let widths: Vec<i64> = widths.collect();
    let several = found.ranges.iter().any(|r| r.len() > 1);
    let apart = (found.ranges.iter()).all(|r| r.windows(2).all(|w| w[0].1 <= w[1].0));
    // A run is reduced where it lies.
    let run = match widths.split_last() {
        Some((last, before)) if inner == 1 => {
            before.iter().all(|&n| n == 1) || *last * size >= LONG
        }
        _ => false,
    };
    widths.iter().product::<i64>() >= LARGE && several && apart && !run && inner * size < WIDE
}
