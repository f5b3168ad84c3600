//! Solving equations by isolating variables.

use crate::dim::{Atom, Dim};
use crate::facts::{Facts, Proof};
use crate::poly::{Factor, Poly, Term};

/// The solution of `a == b`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Solution {
    /// It holds if and only if each atom has the given value. (Where the equation holds, the value
    /// must also be a valid extent, i.e. non-negative.)
    Solved(Vec<(Atom, Dim)>),
    /// It always holds.
    Equal,
    /// It never holds.
    Different,
    /// Nothing can be isolated, at least not yet: retry when more is known.
    Stuck,
}

/// Solves `a == b` for one of the atoms accepted by `solvable`, by linear isolation: the atom
/// occurs in a single term, alone, and the other terms are divisible by its coefficient.
///
/// If several qualify, inference variables take precedence over variables, and younger (higher) ids
/// over older ones, so that `?2 == ?1` makes `?2` point to `?1`.
///
/// Invariant: the value of a solved atom does not contain the atom.
pub fn solve(a: &Dim, b: &Dim, solvable: &dyn Fn(Atom) -> bool) -> Solution {
    solve_with(&Facts::default(), a, b, solvable)
}

pub(crate) fn solve_with(
    facts: &Facts,
    a: &Dim,
    b: &Dim,
    solvable: &dyn Fn(Atom) -> bool,
) -> Solution {
    // This also checks ranges: an equation whose value would be negative is refuted here.
    match facts.eq(a, b) {
        Proof::Proven => return Solution::Equal,
        Proof::Refuted => return Solution::Different,
        Proof::Unknown => {}
    }
    let difference = a - b;
    let Some(poly) = difference.poly() else {
        return Solution::Stuck;
    };
    let poly = cancel(facts, &poly);
    let mut candidates: Vec<(Atom, usize)> = Vec::new();
    for (index, term) in poly.terms.iter().enumerate() {
        if let Some(Factor::Atom(atom)) = term.mono.as_factor()
            && solvable(*atom)
        {
            candidates.push((*atom, index));
        }
    }
    candidates.sort_unstable_by(|a, b| b.cmp(a));
    for (atom, index) in candidates {
        let Some(value) = isolate(&poly, index) else {
            continue;
        };
        if value.atoms().contains(&atom) {
            continue;
        }
        return Solution::Solved(vec![(atom, value)]);
    }
    Solution::Stuck
}

/// Removes from `poly == 0` the factors that all terms share and that are never zero.
fn cancel(facts: &Facts, poly: &Poly) -> Poly {
    let mut terms = poly.terms.iter();
    let Some(first) = terms.next().filter(|_| poly.constant == 0) else {
        return poly.clone();
    };
    let Some(common) = terms.try_fold(first.mono.clone(), |so_far, term| so_far.gcd(&term.mono))
    else {
        return poly.clone();
    };
    let positive = common.factors().iter().all(
        |(factor, _)| matches!(factor, Factor::Atom(atom) if facts.bounds_of_atom(*atom).0 > 0),
    );
    if !positive {
        return poly.clone();
    }
    let mut constant = 0;
    let mut reduced = Vec::with_capacity(poly.terms.len());
    for term in &poly.terms {
        match term.mono.divide(&common) {
            Some(Some(mono)) => reduced.push(Term {
                mono,
                coef: term.coef,
            }),
            Some(None) => constant = term.coef,
            None => return poly.clone(),
        }
    }
    Poly::collect(reduced, constant).unwrap_or_else(|_| poly.clone())
}

/// Returns `-(rest) / coef` for the term at `index`, if every coefficient is divisible.
fn isolate(poly: &Poly, index: usize) -> Option<Dim> {
    let divisor = poly.terms[index].coef.checked_neg()?;
    let divide = |coef: i64| -> Option<i64> {
        if coef.checked_rem(divisor)? == 0 {
            coef.checked_div(divisor)
        } else {
            None
        }
    };
    let constant = divide(poly.constant)?;
    let value = Dim::from(poly.without(index).map(divide, constant));
    value.is_known().then_some(value)
}
