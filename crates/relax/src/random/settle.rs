//! Search for extents that a program can run with.

use relax_infer::{CheckKind, Typing};
use relax_ir::{Module, Type};
use relax_sym::{Dim, DimVar};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Extents, Random};
use crate::param::Param;

/// A constraint on extents, for the program to run and compute something.
enum Need {
    /// The two are equal; with `true`, one of them may also be 1.
    Equal(Dim, Dim, bool),
    /// An extent of an intermediate tensor is not zero.
    Some(Dim),
}

/// The number of violated equalities, and the number of tensors with an extent of zero or less.
type Cost = (usize, usize);

/// The state of the search.
struct Search {
    needs: Vec<Need>,
    /// Candidate values, in order of preference.
    candidates: Vec<i64>,
    values: FxHashMap<DimVar, i64>,
}

impl Extents {
    /// Chooses the extents of parameters that are still open: `extent`, or the next candidate
    /// that satisfies the most of the program's checks found by the search while keeping
    /// intermediate tensors non-empty (an `extent` of zero asks for empty ones).
    pub(crate) fn settle(&mut self, m: &Module, params: &[Param], how: Random<'_>) {
        let extent = how.extent;
        let Some(typing) = how.typing else {
            return;
        };
        let mut open: Vec<DimVar> = Vec::new();
        for p in params {
            if let Type::Tensor(t) = &m.types[p.ty] {
                let dims = t.shape.dims().unwrap_or_default();
                open.extend(dims.iter().flat_map(Dim::free_vars));
            }
        }
        open.sort_unstable();
        open.dedup();
        open.retain(|v| !self.0.contains_key(v));
        if open.is_empty() {
            return;
        }
        let speaks_of = |d: &Dim| d.free_vars().iter().any(|v| open.contains(v));
        let mut needs = needs(m, typing, extent > 0);
        needs.retain(|need| match need {
            Need::Equal(a, b, _) => speaks_of(a) || speaks_of(b),
            Need::Some(d) => speaks_of(d),
        });
        self.0.extend(open.iter().map(|v| (*v, extent)));
        let mut search = Search {
            candidates: candidates(extent, &needs),
            needs,
            values: std::mem::take(&mut self.0),
        };
        search.run(&open);
        self.0 = search.values;
    }
}

/// Collects the constraints that types and run-time checks put on extents.
fn needs(m: &Module, typing: &Typing, full: bool) -> Vec<Need> {
    let mut needs: Vec<Need> = (typing.checks.iter())
        .filter_map(|c| match &c.kind {
            CheckKind::Equal(a, b) => Some(Need::Equal(a.clone(), b.clone(), false)),
            CheckKind::Broadcast(a, b) => Some(Need::Equal(a.clone(), b.clone(), true)),
            CheckKind::HasType(_) | CheckKind::HasShape(_) => None,
        })
        .collect();
    if full {
        let types: FxHashSet<_> = m.exprs.ids().map(|e| typing.exprs[e]).collect();
        let tensors = types.iter().filter_map(|&t| m.types.as_tensor(t));
        let dims = tensors.flat_map(|t| t.shape.dims().unwrap_or_default());
        let open: FxHashSet<&Dim> = dims.filter(|d| d.as_const().is_none()).collect();
        needs.extend(open.into_iter().map(|d| Need::Some(d.clone())));
    }
    needs
}

/// Returns the candidate values: `extent` and above, then those below it; constants in the
/// constraints are included.
fn candidates(extent: i64, needs: &[Need]) -> Vec<i64> {
    let asked = needs.iter().flat_map(|need| match need {
        Need::Equal(a, b, _) => [a.as_const(), b.as_const()],
        Need::Some(_) => [None, None],
    });
    let all = (1..=64).chain((96..=512).step_by(32));
    let mut all: Vec<i64> = all.chain(asked.flatten().filter(|n| *n >= 0)).collect();
    all.sort_unstable();
    all.dedup();
    let (above, below): (Vec<i64>, Vec<i64>) = all.into_iter().partition(|c| *c > extent);
    let below = below.into_iter().rev().filter(|c| *c < extent);
    [extent].into_iter().chain(above).chain(below).collect()
}

impl Search {
    /// Returns the cost of setting some of the variables to one value.
    fn cost(&self, vars: &[DimVar], value: i64) -> Cost {
        let value = |v| match vars.contains(&v) {
            true => Some(value),
            false => self.values.get(&v).copied(),
        };
        let of = |d: &Dim| d.eval(&value).ok().flatten();
        let (mut unequal, mut empty) = (0, 0);
        for need in &self.needs {
            match need {
                Need::Equal(a, b, or_one) => {
                    // Constraints over unknown variables are left to the run-time checks.
                    if let (Some(a), Some(b)) = (of(a), of(b)) {
                        unequal += usize::from(a != b && !(*or_one && (a == 1 || b == 1)));
                    }
                }
                Need::Some(d) => empty += usize::from(of(d).is_some_and(|n| n <= 0)),
            }
        }
        (unequal, empty)
    }

    fn set(&mut self, vars: &[DimVar], value: i64) {
        self.values.extend(vars.iter().map(|v| (*v, value)));
    }

    /// Returns the lowest cost and the first value that achieves it.
    fn best(&self, vars: &[DimVar]) -> (Cost, i64) {
        let costs = self.candidates.iter().map(|&c| (self.cost(vars, c), c));
        let best = costs.min_by_key(|(cost, _)| *cost);
        best.expect("there is a candidate")
    }

    /// Tries one value for all variables, then improves one variable at a time while the cost
    /// decreases, then gives each variable the most preferred value that costs no more.
    fn run(&mut self, open: &[DimVar]) {
        let mut least = self.cost(&[], 0);
        if least == (0, 0) {
            return;
        }
        let (cost, value) = self.best(open);
        if cost < least {
            self.set(open, value);
            least = cost;
        }
        while least > (0, 0) {
            let moves = open.iter().map(|v| (self.best(&[*v]), *v));
            let Some(((cost, value), v)) = moves.min_by_key(|((cost, _), _)| *cost) else {
                break;
            };
            if cost >= least {
                break;
            }
            self.set(&[v], value);
            least = cost;
        }
        for v in open {
            let (cost, value) = self.best(&[*v]);
            if cost <= least {
                self.set(&[*v], value);
                least = cost;
            }
        }
    }
}
