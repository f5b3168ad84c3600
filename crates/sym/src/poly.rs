//! The normal form: polynomials with 64-bit coefficients over [`Factor`]s.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::dim::{Atom, Dim, DimError, Repr};
pub(crate) use crate::mono::{Factor, Mono, Op, OpKind};

/// The maximum number of terms, beyond which the result is [`DimError::TooLarge`].
pub(crate) const MAX_TERMS: usize = 4096;
/// The maximum number of nodes (terms, factors, and those of nested operations, shared ones counted
/// each time), beyond which the result is [`DimError::TooLarge`].
pub(crate) const MAX_SIZE: u64 = 1 << 15;
/// The maximum nesting depth of operations, beyond which the result is [`DimError::TooLarge`]. It
/// bounds every recursion in this crate.
pub(crate) const MAX_DEPTH: u32 = 64;
/// The maximum number of term pairs in a product, beyond which the result is
/// [`DimError::TooLarge`].
const MAX_PRODUCTS: usize = 1 << 14;

/// `coef * mono`; the coefficient is not zero.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Term {
    pub(crate) mono: Mono,
    pub(crate) coef: i64,
}

/// A sum of terms and a constant.
///
/// Invariant: terms are sorted by monomial, monomials are distinct, coefficients are not zero.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Poly {
    pub(crate) terms: Vec<Term>,
    pub(crate) constant: i64,
    size: u64,
    depth: u32,
    /// A bit for each kind of operation that occurs as a factor.
    kinds: u8,
    /// The same, including operations nested inside operations.
    inner_kinds: u8,
}

/// A polynomial, or the reason why there is none.
pub(crate) type Made = Result<Poly, DimError>;

impl Poly {
    pub(crate) fn constant(constant: i64) -> Poly {
        Poly {
            terms: Vec::new(),
            constant,
            size: 1,
            depth: 0,
            kinds: 0,
            inner_kinds: 0,
        }
    }

    pub(crate) fn factor(factor: Factor) -> Poly {
        let terms = vec![Term {
            mono: Mono::factor(factor),
            coef: 1,
        }];
        Poly::measured(terms, 0)
    }

    /// Creates a polynomial from sorted and distinct terms.
    pub(crate) fn sorted(terms: Vec<Term>, constant: i64) -> Made {
        let poly = Poly::measured(terms, constant);
        if poly.terms.len() > MAX_TERMS || poly.size > MAX_SIZE {
            return Err(DimError::TooLarge);
        }
        Ok(poly)
    }

    /// Creates a polynomial from terms in any order; equal monomials are added up.
    pub(crate) fn collect(mut terms: Vec<Term>, constant: i64) -> Made {
        terms.sort_unstable_by(|a, b| a.mono.cmp(&b.mono));
        let mut merged: Vec<Term> = Vec::with_capacity(terms.len());
        for term in terms {
            match merged.last_mut() {
                Some(last) if last.mono == term.mono => {
                    last.coef = last.coef.checked_add(term.coef).ok_or(DimError::Overflow)?;
                }
                _ => {
                    if merged.last().is_some_and(|last| last.coef == 0) {
                        merged.pop();
                    }
                    merged.push(term);
                }
            }
        }
        if merged.last().is_some_and(|last| last.coef == 0) {
            merged.pop();
        }
        Poly::sorted(merged, constant)
    }

    /// Replaces atoms by others, which `rename` returns; `None` if it returns none, if there are
    /// operations, or if terms or factors become the same: then more has to be done.
    pub(crate) fn renamed(&self, mut rename: impl FnMut(Atom) -> Option<Atom>) -> Option<Poly> {
        if self.has_ops() {
            return None;
        }
        let renamed = |term: &Term| {
            let mono = term.mono.renamed(&mut rename)?;
            let coef = term.coef;
            Some(Term { mono, coef })
        };
        let mut terms: Vec<_> = self.terms.iter().map(renamed).collect::<Option<_>>()?;
        terms.sort_unstable_by(|a, b| a.mono.cmp(&b.mono));
        let distinct = terms.windows(2).all(|two| two[0].mono != two[1].mono);
        distinct.then_some(Poly { terms, ..*self })
    }

    fn measured(terms: Vec<Term>, constant: i64) -> Poly {
        let (mut size, mut depth) = (1u64, 0);
        let (mut kinds, mut inner_kinds) = (0u8, 0u8);
        for (factor, power) in terms.iter().flat_map(|term| term.mono.factors()) {
            match factor {
                Factor::Atom(_) => size += u64::from(*power),
                Factor::Op(op) => {
                    size = size.saturating_add(op.size.saturating_mul(u64::from(*power)));
                    depth = depth.max(op.depth);
                    kinds |= 1 << op.kind as u8;
                    inner_kinds |= op.kinds;
                }
            }
        }
        size = size.saturating_add(terms.len() as u64);
        Poly {
            terms,
            constant,
            size,
            depth,
            kinds,
            inner_kinds,
        }
    }

    /// Iterates over all factors, with duplicates across terms.
    pub(crate) fn factors(&self) -> impl Iterator<Item = &Factor> {
        self.terms
            .iter()
            .flat_map(|term| term.mono.factors())
            .map(|(factor, _)| factor)
    }

    /// Returns the number of nodes: the cost of an operation on the polynomial.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Returns the nesting depth of operations in it.
    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// Returns whether an operation of this kind occurs as a factor (not nested inside an
    /// operation).
    pub(crate) fn has(&self, kind: OpKind) -> bool {
        self.kinds & (1 << kind as u8) != 0
    }

    pub(crate) fn inner_kinds(&self) -> u8 {
        self.inner_kinds
    }

    /// Returns whether an operation of this kind occurs anywhere in it.
    pub(crate) fn has_inside(&self, kind: OpKind) -> bool {
        self.inner_kinds & (1 << kind as u8) != 0
    }

    pub(crate) fn has_ops(&self) -> bool {
        self.kinds != 0
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.terms.is_empty() && self.constant == 0
    }

    /// Returns whether the first term's coefficient is negative, or the constant if there are no
    /// terms.
    pub(crate) fn leads_negative(&self) -> bool {
        self.terms.first().map_or(self.constant, |term| term.coef) < 0
    }

    /// Returns the term, if there is exactly one and no constant.
    pub(crate) fn as_term(&self) -> Option<&Term> {
        match self.terms.as_slice() {
            [term] if self.constant == 0 => Some(term),
            _ => None,
        }
    }

    /// Returns the greatest common divisor of the terms' coefficients (not the constant) and
    /// `start`; with `start == 0`, that of the coefficients alone.
    pub(crate) fn content(&self, start: u64) -> u64 {
        self.terms
            .iter()
            .fold(start, |so_far, term| gcd(so_far, term.coef.unsigned_abs()))
    }

    /// Returns the polynomial without the term at `index`.
    pub(crate) fn without(&self, index: usize) -> Poly {
        let mut terms = self.terms.clone();
        terms.remove(index);
        Poly::measured(terms, self.constant)
    }

    /// Maps each coefficient, and drops terms whose coefficient becomes zero.
    pub(crate) fn map(&self, coef: impl Fn(i64) -> Option<i64>, constant: i64) -> Made {
        let mut terms = Vec::with_capacity(self.terms.len());
        for term in &self.terms {
            let coef = coef(term.coef).ok_or(DimError::Overflow)?;
            if coef != 0 {
                terms.push(Term {
                    mono: term.mono.clone(),
                    coef,
                });
            }
        }
        Poly::sorted(terms, constant)
    }

    pub(crate) fn scale(&self, by: i64) -> Made {
        let constant = self.constant.checked_mul(by).ok_or(DimError::Overflow)?;
        self.map(|coef| coef.checked_mul(by), constant)
    }

    pub(crate) fn as_const(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// Returns `left + scale * right`.
    pub(crate) fn add(left: &Poly, right: &Poly, scale: i64) -> Made {
        let scaled = |coef: i64| coef.checked_mul(scale).ok_or(DimError::Overflow);
        let constant = left
            .constant
            .checked_add(scaled(right.constant)?)
            .ok_or(DimError::Overflow)?;
        if scale == 0 {
            return Poly::sorted(left.terms.clone(), constant);
        }
        let (mut a, mut b) = (left.terms.iter().peekable(), right.terms.iter().peekable());
        let mut terms = Vec::with_capacity(left.terms.len() + right.terms.len());
        loop {
            let order = match (a.peek(), b.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(x), Some(y)) => x.mono.cmp(&y.mono),
            };
            match order {
                Ordering::Less => terms.extend(a.next().cloned()),
                Ordering::Greater => {
                    if let Some(term) = b.next() {
                        terms.push(Term {
                            mono: term.mono.clone(),
                            coef: scaled(term.coef)?,
                        });
                    }
                }
                Ordering::Equal => {
                    if let (Some(x), Some(y)) = (a.next(), b.next()) {
                        let coef = x
                            .coef
                            .checked_add(scaled(y.coef)?)
                            .ok_or(DimError::Overflow)?;
                        if coef != 0 {
                            terms.push(Term {
                                mono: x.mono.clone(),
                                coef,
                            });
                        }
                    }
                }
            }
        }
        Poly::sorted(terms, constant)
    }

    pub(crate) fn mul(left: &Poly, right: &Poly) -> Made {
        if left.as_const() == Some(0) || right.as_const() == Some(0) {
            return Ok(Poly::constant(0));
        }
        let pairs = (left.terms.len() + 1).saturating_mul(right.terms.len() + 1);
        let work = left.size.saturating_mul(right.terms.len() as u64 + 1)
            + right.size.saturating_mul(left.terms.len() as u64 + 1);
        if pairs > MAX_PRODUCTS || work > 4 * MAX_SIZE {
            return Err(DimError::TooLarge);
        }
        let times = |a: i64, b: i64| a.checked_mul(b).ok_or(DimError::Overflow);
        let mut terms = Vec::with_capacity(pairs);
        for a in &left.terms {
            for b in &right.terms {
                let mono = a.mono.times(&b.mono).ok_or(DimError::TooLarge)?;
                terms.push(Term {
                    mono,
                    coef: times(a.coef, b.coef)?,
                });
            }
        }
        for (poly, constant) in [(left, right.constant), (right, left.constant)] {
            if constant != 0 {
                for term in &poly.terms {
                    terms.push(Term {
                        mono: term.mono.clone(),
                        coef: times(term.coef, constant)?,
                    });
                }
            }
        }
        Poly::collect(terms, times(left.constant, right.constant)?)
    }
}

impl From<Made> for Dim {
    fn from(made: Made) -> Dim {
        match made {
            Err(error) => Dim::bad(error),
            Ok(poly) if poly.has(OpKind::FloorDiv) && poly.has(OpKind::Mod) => {
                Dim::settled(crate::recombine::recombine(poly))
            }
            made => Dim::settled(made),
        }
    }
}

impl Dim {
    /// Converts a polynomial that no rule applies to into a dimension.
    fn settled(made: Made) -> Dim {
        match made {
            Err(error) => Dim::bad(error),
            Ok(poly) => match poly.terms.as_slice() {
                [] => Dim::from(poly.constant),
                [Term { mono, coef: 1 }] if poly.constant == 0 => match mono.as_factor() {
                    Some(Factor::Atom(atom)) => Dim::atom(*atom),
                    _ => Dim(Repr::Poly(Arc::new(poly))),
                },
                _ => Dim(Repr::Poly(Arc::new(poly))),
            },
        }
    }
}

/// Returns the greatest common divisor; `gcd(0, b) == b`.
pub(crate) fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
