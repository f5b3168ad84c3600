//! What is known of variables, and what follows from it.

use rustc_hash::FxHashMap;

use crate::dim::{Atom, Dim};

/// The answer to a question about dimensions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proof {
    /// It holds under every assignment that satisfies the facts.
    Proven,
    /// It fails under every assignment that satisfies the facts.
    Refuted,
    /// Neither is known.
    Unknown,
}

/// What is known of variables: bounds and divisibility. Without a fact, a variable or unknown is
/// any integer that is at least 0.
#[derive(Clone, Default, Debug)]
pub struct Facts {
    known: FxHashMap<Atom, Known>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    lower: i64,
    upper: Option<i64>,
    multiple: i64,
}

impl Facts {
    fn entry(&mut self, atom: Atom) -> &mut Known {
        self.known.entry(atom).or_insert(Known {
            lower: 0,
            upper: None,
            multiple: 1,
        })
    }

    /// `atom >= lower`, besides what is known already.
    pub fn add_lower(&mut self, atom: impl Into<Atom>, lower: i64) {
        let known = self.entry(atom.into());
        known.lower = known.lower.max(lower);
    }

    /// `atom <= upper`, besides what is known already.
    pub fn add_upper(&mut self, atom: impl Into<Atom>, upper: i64) {
        let known = self.entry(atom.into());
        known.upper = Some(known.upper.map_or(upper, |old| old.min(upper)));
    }

    /// `atom` is a multiple of `divisor` (positive, others are ignored).
    pub fn add_multiple_of(&mut self, atom: impl Into<Atom>, divisor: i64) {
        if divisor > 0 {
            self.entry(atom.into()).multiple = divisor;
        }
    }

    /// Whether `a == b`.
    pub fn eq(&self, a: &Dim, b: &Dim) -> Proof {
        if !a.is_known() || !b.is_known() {
            return Proof::Unknown;
        }
        match (a - b).as_const() {
            Some(0) => Proof::Proven,
            Some(_) => Proof::Refuted,
            None => Proof::Unknown,
        }
    }

    /// Whether `a <= b`.
    pub fn le(&self, a: &Dim, b: &Dim) -> Proof {
        match (b - a).as_const() {
            Some(difference) if difference >= 0 => Proof::Proven,
            Some(_) => Proof::Refuted,
            None => Proof::Unknown,
        }
    }

    /// Whether `a < b`.
    pub fn lt(&self, a: &Dim, b: &Dim) -> Proof {
        self.le(&(a + 1), b)
    }

    /// The least and the greatest value, where known.
    pub fn bounds(&self, dim: &Dim) -> (Option<i64>, Option<i64>) {
        (dim.as_const(), dim.as_const())
    }

    /// Whether `divisor` divides `dim`.
    pub fn divides(&self, divisor: i64, dim: &Dim) -> Proof {
        self.eq(&dim.modulo(&Dim::from(divisor)), &Dim::ZERO)
    }

    /// `dim`, simplified with these facts.
    pub fn simplify(&self, dim: &Dim) -> Dim {
        dim.rebuild(&|_| None, self)
    }
}
