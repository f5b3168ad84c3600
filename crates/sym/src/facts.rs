//! Facts about variables, and proofs from them.

use rustc_hash::FxHashMap;

use crate::dim::{Atom, Dim};
use crate::poly::{Factor, OpKind, Poly, Term, gcd};
use crate::range::Ranges;
use crate::rebuild::Rebuild;
use crate::solve::{Solution, solve_with};

/// The answer to a query about dimensions.
///
/// Answers hold for assignments that satisfy the facts and give both dimensions a value (see the
/// crate documentation on division by zero). Contradictory facts allow no assignment, so any answer
/// may be returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proof {
    /// It holds under every assignment.
    Proven,
    /// It fails under every assignment.
    Refuted,
    /// Neither is known; it may or may not depend on the assignment.
    Unknown,
}

/// Facts about variables: bounds and divisibility. Without a fact, a variable is any integer that
/// is at least 0.
#[derive(Clone, Default, Debug)]
pub struct Facts {
    known: FxHashMap<Atom, Known>,
}

/// Invariant: `lower >= 0` and `multiple >= 1`.
#[derive(Clone, Copy, Debug)]
struct Known {
    lower: i64,
    upper: Option<i64>,
    multiple: i64,
}

impl Known {
    const NOTHING: Known = Known {
        lower: 0,
        upper: None,
        multiple: 1,
    };

    /// Returns the least multiple that is not below the lower bound, if it fits.
    fn least(self) -> Option<i64> {
        let missing = self.lower.rem_euclid(self.multiple);
        if missing == 0 {
            Some(self.lower)
        } else {
            self.lower.checked_add(self.multiple - missing)
        }
    }
}

impl Facts {
    fn entry(&mut self, atom: Atom) -> &mut Known {
        self.known.entry(atom).or_insert(Known::NOTHING)
    }

    fn get(&self, atom: Atom) -> Known {
        self.known.get(&atom).copied().unwrap_or(Known::NOTHING)
    }

    /// Adds the fact `atom >= lower`.
    pub fn add_lower(&mut self, atom: impl Into<Atom>, lower: i64) {
        let known = self.entry(atom.into());
        known.lower = known.lower.max(lower);
    }

    /// Adds the fact `atom <= upper`.
    pub fn add_upper(&mut self, atom: impl Into<Atom>, upper: i64) {
        let known = self.entry(atom.into());
        known.upper = Some(known.upper.map_or(upper, |old| old.min(upper)));
    }

    /// Adds the fact that `atom` is a multiple of `divisor`. A divisor that is not positive is
    /// ignored.
    pub fn add_multiple_of(&mut self, atom: impl Into<Atom>, divisor: i64) {
        if divisor <= 0 {
            return;
        }
        let known = self.entry(atom.into());
        let common = gcd(known.multiple.unsigned_abs(), divisor.unsigned_abs());
        let common = i64::try_from(common).unwrap_or(1);
        // If the least common multiple overflows, the older fact is kept, as it remains true.
        known.multiple = (known.multiple / common)
            .checked_mul(divisor)
            .unwrap_or(known.multiple);
    }

    /// Returns the bounds of an atom.
    pub(crate) fn bounds_of_atom(&self, atom: Atom) -> (i64, Option<i64>) {
        let known = self.get(atom);
        (known.lower, known.upper)
    }

    /// Returns a divisor of every value of the term.
    pub(crate) fn multiple_of_term(&self, term: &Term) -> u64 {
        let mut product = term.coef.unsigned_abs();
        for (factor, power) in term.mono.factors() {
            let multiple = self.multiple_of_factor(factor);
            for _ in 0..*power {
                if multiple == 1 {
                    break;
                }
                // On overflow, the product so far is still a divisor.
                let Some(next) = product.checked_mul(multiple) else {
                    return product;
                };
                product = next;
            }
        }
        product
    }

    /// Returns a divisor of every value of the factor; zero means that its only value is zero.
    fn multiple_of_factor(&self, factor: &Factor) -> u64 {
        let op = match factor {
            Factor::Atom(atom) => return self.get(*atom).multiple.unsigned_abs(),
            Factor::Op(op) => op,
        };
        let mut args = op.args.iter();
        match op.kind {
            OpKind::FloorDiv => 1,
            // a % k = a - a // k * k
            OpKind::Min | OpKind::Max | OpKind::Mod => {
                args.try_fold(0, |so_far, arg| {
                    Some(gcd(so_far, self.multiple_of(&*arg.poly()?)))
                })
            }
            .unwrap_or(1),
        }
    }

    fn multiple_of(&self, poly: &Poly) -> u64 {
        poly.terms
            .iter()
            .fold(poly.constant.unsigned_abs(), |so_far, term| {
                if so_far == 1 {
                    1
                } else {
                    gcd(so_far, self.multiple_of_term(term))
                }
            })
    }

    /// Rewrites `dim` with every atom `n` as `least + multiple * n'`, so that lower bounds and
    /// divisibility become part of the expression; also returns the remaining facts about `n'`.
    fn reduce(&self, dim: &Dim) -> (Dim, Facts) {
        let mut rest = Facts::default();
        let relevant: Vec<_> = dim
            .atoms()
            .into_iter()
            .filter(|atom| self.known.contains_key(atom))
            .collect();
        let mut shifted = FxHashMap::default();
        for atom in relevant {
            let known = self.get(atom);
            let Some(least) = known.least() else { continue };
            shifted.insert(atom, least + known.multiple * Dim::atom(atom));
            if let Some(upper) = known.upper {
                let room = upper.saturating_sub(least).div_euclid(known.multiple);
                rest.add_upper(atom, room);
            }
        }
        if shifted.is_empty() {
            return (dim.clone(), rest);
        }
        let reduced = Rebuild::new(&|atom| shifted.get(&atom).cloned(), &rest).dim(dim);
        (reduced, rest)
    }

    /// Returns the difference, in the form with the most cancellation, and the facts about its
    /// atoms; `None` if it is unknown.
    fn difference(&self, a: &Dim, b: &Dim) -> Option<(Dim, Facts)> {
        let difference = a - b;
        if !difference.is_known() {
            return None;
        }
        if difference.as_const().is_some() {
            return Some((difference, Facts::default()));
        }
        let (reduced, facts) = self.reduce(&difference);
        let (reduced, facts) = if reduced.is_known() {
            (reduced, facts)
        } else {
            (difference, self.clone())
        };
        if !reduced.poly()?.has_inside(OpKind::Mod) {
            return Some((reduced, facts));
        }
        let expanded = Rebuild::expanding_mod(&facts).dim(&reduced);
        Some((
            if expanded.is_known() {
                expanded
            } else {
                reduced
            },
            facts,
        ))
    }

    /// Returns whether `a == b`.
    pub fn eq(&self, a: &Dim, b: &Dim) -> Proof {
        let Some((difference, facts)) = self.difference(a, b) else {
            return Proof::Unknown;
        };
        if let Some(value) = difference.as_const() {
            return if value == 0 {
                Proof::Proven
            } else {
                Proof::Refuted
            };
        }
        let range = Ranges::new(&facts).of_dim(&difference);
        if range.lower == Some(0) && range.upper == Some(0) {
            return Proof::Proven;
        }
        let apart = range.lower.is_some_and(|lower| lower > 0)
            || range.upper.is_some_and(|upper| upper < 0);
        if apart || facts.never_zero(&difference) {
            return Proof::Refuted;
        }
        Proof::Unknown
    }

    /// Returns whether divisibility alone implies that it is nonzero, as for `n * 4 - 7`.
    fn never_zero(&self, dim: &Dim) -> bool {
        let Some(poly) = dim.poly() else { return false };
        let common = poly
            .terms
            .iter()
            .fold(0, |so_far, term| gcd(so_far, self.multiple_of_term(term)));
        match common {
            0 => poly.constant != 0,
            common => poly.constant.unsigned_abs() % common != 0,
        }
    }

    /// Returns whether `a <= b`.
    pub fn le(&self, a: &Dim, b: &Dim) -> Proof {
        let Some((difference, facts)) = self.difference(b, a) else {
            return Proof::Unknown;
        };
        let range = Ranges::new(&facts).of_dim(&difference);
        if range.lower.is_some_and(|lower| lower >= 0) {
            Proof::Proven
        } else if range.upper.is_some_and(|upper| upper < 0) {
            Proof::Refuted
        } else {
            Proof::Unknown
        }
    }

    /// Returns whether `a < b`.
    pub fn lt(&self, a: &Dim, b: &Dim) -> Proof {
        match self.le(b, a) {
            Proof::Proven => Proof::Refuted,
            Proof::Refuted => Proof::Proven,
            Proof::Unknown => Proof::Unknown,
        }
    }

    /// Returns the lower and the upper bound, where known. They need not be tight.
    pub fn bounds(&self, dim: &Dim) -> (Option<i64>, Option<i64>) {
        let Some((reduced, facts)) = self.difference(dim, &Dim::ZERO) else {
            return (None, None);
        };
        let range = Ranges::new(&facts).of_dim(&reduced);
        // A lower bound above `i64::MAX` is weakened to it, one below `i64::MIN` is dropped.
        let lower = range
            .lower
            .and_then(|lower| i64::try_from(lower.min(i128::from(i64::MAX))).ok());
        let upper = range
            .upper
            .and_then(|upper| i64::try_from(upper.max(i128::from(i64::MIN))).ok());
        (lower, upper)
    }

    /// Returns whether `divisor` divides `dim`. Zero divides only zero.
    pub fn divides(&self, divisor: i64, dim: &Dim) -> Proof {
        if divisor == 0 || !dim.is_known() {
            return self.eq(dim, &Dim::ZERO);
        }
        let (reduced, facts) = self.reduce(dim);
        let rest = |dim: &Dim, facts: &Facts| {
            let rest = crate::division::modulo(dim, &Dim::from(divisor), facts);
            facts.eq(&rest, &Dim::ZERO)
        };
        match rest(&reduced, &facts) {
            Proof::Unknown => rest(dim, self),
            proof => proof,
        }
    }

    /// Normalises `dim`, using these facts in the rules for `//`, `%`, `min` and `max`.
    pub fn simplify(&self, dim: &Dim) -> Dim {
        let simple = Rebuild::new(&|_| None, self).dim(dim);
        if simple.is_known() {
            simple
        } else {
            dim.clone()
        }
    }

    /// Runs [`solve`](crate::solve()) with these facts.
    pub fn solve(&self, a: &Dim, b: &Dim, solvable: &dyn Fn(Atom) -> bool) -> Solution {
        solve_with(self, a, b, solvable)
    }
}
