//! Reductions as people write them: their loops in any order, started from any value, in the nest
//! itself or by a statement before it.

use rustc_hash::FxHashSet;

use crate::continued::reads;
use crate::raise::peel;
use crate::reduction_init::depends;
use crate::{Buf, Combiner, Compute, Ex, ExKind, Program, Reduce, Stmt, Var};

/// A nest that combines the elements of a buffer with values, over loops that the element does not
/// depend on.
pub(crate) struct Accumulation {
    /// The combined values, from the identity element.
    pub(crate) sums: Compute,
    /// What each element is before, over the axes of `sums`; `None` where the nest does not say.
    pub(crate) start: Option<Ex>,
}

impl Accumulation {
    /// Returns the reduction that a statement is.
    pub(crate) fn of(program: &Program, s: &Stmt) -> Option<Accumulation> {
        let mut loops: Vec<(Var, Ex)> = Vec::new();
        let outer = peel(std::slice::from_ref(s), &mut loops);
        let around = loops.len();
        let (start, update) = match outer {
            [Stmt::Init { over, body }, update] => match &body[..] {
                [start] => (Some((start, Some(over))), update),
                _ => return None,
            },
            [start @ Stmt::Store { .. }, Stmt::For { .. }] => match peel(&outer[1..], &mut loops) {
                [update] => (Some((start, None)), update),
                _ => return None,
            },
            [update] => (None, update),
            _ => return None,
        };
        let Stmt::Store { buf, index, value } = update else {
            return None;
        };
        let (combiner, value) = combined(*buf, index, value)?;
        let buffer = &program.bufs[*buf];
        let axes: Vec<Var> = (index.iter().zip(&buffer.shape))
            .map(|(i, extent)| match i.kind() {
                ExKind::Var(v) if loops.iter().any(|l| l.0 == *v && l.1 == *extent) => Some(*v),
                _ => None,
            })
            .collect::<Option<_>>()?;
        let distinct: FxHashSet<Var> = axes.iter().copied().collect();
        let over: Vec<(Var, Ex)> = (loops.iter())
            .filter(|l| !distinct.contains(&l.0))
            .cloned()
            .collect();
        let inner: FxHashSet<Var> = over.iter().map(|l| l.0).collect();
        let all: FxHashSet<Var> = loops.iter().map(|l| l.0).collect();
        let regular = loops
            .iter()
            .all(|l| !depends(&l.1, &|v| all.contains(&v)) && !reads(&l.1, *buf));
        let form = !over.is_empty() && !axes.is_empty() && distinct.len() == axes.len();
        if !form || !regular || reads(value, *buf) {
            return None;
        }
        let start = match start {
            None => None,
            Some((
                Stmt::Store {
                    buf: b,
                    index: i,
                    value,
                },
                resets,
            )) => {
                // It is set once: where all loops of the reduction are at 0, or before they begin.
                let once = match resets {
                    Some(resets) => resets.iter().copied().collect::<FxHashSet<Var>>() == inner,
                    None => loops[..around].iter().all(|l| distinct.contains(&l.0)),
                };
                let own = (b, i) == (buf, index)
                    && !reads(value, *buf)
                    && !depends(value, &|v| inner.contains(&v));
                if !once || !own {
                    return None;
                }
                Some(value.clone())
            }
            Some(_) => return None,
        };
        Some(Accumulation {
            sums: Compute {
                out: *buf,
                axes,
                reduce: Some(Reduce {
                    axes: over,
                    combiner,
                }),
                value: value.clone(),
            },
            start,
        })
    }
}

/// Returns the combiner and the value of an update of an element.
fn combined<'e>(buf: Buf, index: &[Ex], value: &'e Ex) -> Option<(Combiner, &'e Ex)> {
    let ExKind::Binary(op, a, b) = value.kind() else {
        return None;
    };
    let combiner = Combiner::ALL.into_iter().find(|c| c.op() == *op)?;
    let element = |e: &Ex| matches!(e.kind(), ExKind::Load(x, at) if *x == buf && at[..] == *index);
    match (element(a), element(b)) {
        (true, false) => Some((combiner, b)),
        (false, true) => Some((combiner, a)),
        _ => None,
    }
}
