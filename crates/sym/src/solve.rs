//! Isolating unknowns.

use crate::dim::{Atom, Dim};

/// What can be said of `a == b`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Solution {
    /// It holds exactly when each atom has the value beside it.
    Solved(Vec<(Atom, Dim)>),
    /// It always holds.
    Equal,
    /// It never holds.
    Different,
    /// Nothing can be isolated: ask again when more is known.
    Stuck,
}

/// Solves `a == b` for the atoms that `solvable` allows.
pub fn solve(a: &Dim, b: &Dim, solvable: &dyn Fn(Atom) -> bool) -> Solution {
    if !a.is_known() || !b.is_known() {
        return Solution::Stuck;
    }
    match (a - b).as_const() {
        Some(0) => return Solution::Equal,
        Some(_) => return Solution::Different,
        None => {}
    }
    for (one, other) in [(a, b), (b, a)] {
        if let Some(atom) = one.as_atom()
            && solvable(atom)
            && !other.atoms().contains(&atom)
        {
            return Solution::Solved(vec![(atom, other.clone())]);
        }
    }
    Solution::Stuck
}
