//! The normal form: polynomials with 64-bit coefficients over [`Factor`]s.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::dim::{Atom, Dim, DimError, Repr};

/// More terms than this: [`DimError::TooLarge`].
pub(crate) const MAX_TERMS: usize = 4096;
/// More nodes (terms, factors, and those of nested operations, shared ones counted each time)
/// than this: [`DimError::TooLarge`].
pub(crate) const MAX_SIZE: u64 = 1 << 16;
/// Operations nested deeper than this: [`DimError::TooLarge`]. It bounds every recursion here.
pub(crate) const MAX_DEPTH: u32 = 64;
/// A product that multiplies more pairs of terms than this: [`DimError::TooLarge`].
const MAX_PRODUCTS: usize = 1 << 14;

/// The operations that are not polynomial.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum OpKind {
    FloorDiv,
    Mod,
    Min,
    Max,
}

/// `//` and `%` have two arguments; `min` and `max` two or more, sorted and distinct.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Op {
    pub(crate) kind: OpKind,
    pub(crate) args: Vec<Dim>,
    size: u64,
    depth: u32,
}

impl Op {
    /// The operation as it stands; simplifying it is the caller's work. An error when an
    /// argument has no identity or the limits are exceeded.
    pub(crate) fn build(kind: OpKind, args: Vec<Dim>) -> Dim {
        let (mut size, mut depth) = (1u64, 0);
        for arg in &args {
            match &arg.0 {
                Repr::Poly(poly) => {
                    size = size.saturating_add(poly.size);
                    depth = depth.max(poly.depth);
                }
                _ => size += 1,
            }
        }
        if size > MAX_SIZE || depth >= MAX_DEPTH {
            return Dim::bad(DimError::TooLarge);
        }
        let op = Op {
            kind,
            args,
            size,
            depth: depth + 1,
        };
        Ok(Poly::factor(Factor::Op(Arc::new(op)))).into()
    }
}

/// What monomials multiply.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Factor {
    Atom(Atom),
    Op(Arc<Op>),
}

/// A product of powers of factors, not empty.
///
/// Invariant: factors are sorted and distinct, powers are positive.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Mono(Arc<[(Factor, u32)]>);

impl Mono {
    pub(crate) fn factor(factor: Factor) -> Mono {
        Mono(Arc::new([(factor, 1)]))
    }

    pub(crate) fn factors(&self) -> &[(Factor, u32)] {
        &self.0
    }

    /// The factor, when the monomial is one factor to the first power.
    pub(crate) fn as_factor(&self) -> Option<&Factor> {
        match &*self.0 {
            [(factor, 1)] => Some(factor),
            _ => None,
        }
    }

    fn degree(&self) -> u64 {
        self.0.iter().map(|(_, power)| u64::from(*power)).sum()
    }

    /// `None` when a power does not fit.
    pub(crate) fn times(&self, other: &Mono) -> Option<Mono> {
        let (mut left, mut right) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut product = Vec::with_capacity(self.0.len() + other.0.len());
        loop {
            let order = match (left.peek(), right.peek()) {
                (None, None) => return Some(Mono(product.into())),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(a), Some(b)) => a.0.cmp(&b.0),
            };
            match order {
                Ordering::Less => product.extend(left.next().cloned()),
                Ordering::Greater => product.extend(right.next().cloned()),
                Ordering::Equal => {
                    let (a, b) = (left.next()?, right.next()?);
                    product.push((a.0.clone(), a.1.checked_add(b.1)?));
                }
            }
        }
    }

    /// `self / other`: `None` when it does not divide, `Some(None)` when the quotient is 1.
    pub(crate) fn divide(&self, other: &Mono) -> Option<Option<Mono>> {
        let mut quotient = Vec::with_capacity(self.0.len());
        let mut divisor = other.0.iter().peekable();
        for (factor, power) in self.0.iter() {
            match divisor.peek() {
                Some((wanted, by)) if wanted == factor => {
                    if by > power {
                        return None;
                    }
                    if power > by {
                        quotient.push((factor.clone(), power - by));
                    }
                    divisor.next();
                }
                _ => quotient.push((factor.clone(), *power)),
            }
        }
        if divisor.next().is_some() {
            return None;
        }
        Some(if quotient.is_empty() {
            None
        } else {
            Some(Mono(quotient.into()))
        })
    }

    /// The greatest monomial that divides both; `None` when that is 1.
    pub(crate) fn gcd(&self, other: &Mono) -> Option<Mono> {
        let common: Vec<_> = self
            .0
            .iter()
            .filter_map(|(factor, power)| {
                let at = other.0.binary_search_by(|(f, _)| f.cmp(factor)).ok()?;
                Some((factor.clone(), (*power).min(other.0[at].1)))
            })
            .collect();
        if common.is_empty() {
            None
        } else {
            Some(Mono(common.into()))
        }
    }
}

impl PartialOrd for Mono {
    fn partial_cmp(&self, other: &Mono) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Higher degrees come first, then earlier variables: `n * m + n + m`. It is a monomial order
/// (compatible with multiplication), which polynomial division needs.
impl Ord for Mono {
    fn cmp(&self, other: &Mono) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) {
            return Ordering::Equal;
        }
        other.degree().cmp(&self.degree()).then_with(|| {
            for (a, b) in self.0.iter().zip(other.0.iter()) {
                let order = a.0.cmp(&b.0).then(b.1.cmp(&a.1));
                if order.is_ne() {
                    return order;
                }
            }
            self.0.len().cmp(&other.0.len())
        })
    }
}

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
}

/// A polynomial, or why there is none.
pub(crate) type Made = Result<Poly, DimError>;

impl Poly {
    pub(crate) fn constant(constant: i64) -> Poly {
        Poly {
            terms: Vec::new(),
            constant,
            size: 1,
            depth: 0,
        }
    }

    pub(crate) fn factor(factor: Factor) -> Poly {
        let terms = vec![Term {
            mono: Mono::factor(factor),
            coef: 1,
        }];
        Poly::measured(terms, 0)
    }

    /// From terms that are sorted and distinct.
    pub(crate) fn sorted(terms: Vec<Term>, constant: i64) -> Made {
        let poly = Poly::measured(terms, constant);
        if poly.terms.len() > MAX_TERMS || poly.size > MAX_SIZE {
            return Err(DimError::TooLarge);
        }
        Ok(poly)
    }

    /// From terms in any order: equal monomials are added up.
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

    fn measured(terms: Vec<Term>, constant: i64) -> Poly {
        let (mut size, mut depth) = (1u64, 0);
        for (factor, _) in terms.iter().flat_map(|term| term.mono.factors()) {
            match factor {
                Factor::Atom(_) => size += 1,
                Factor::Op(op) => {
                    size = size.saturating_add(op.size);
                    depth = depth.max(op.depth);
                }
            }
        }
        size = size.saturating_add(terms.len() as u64);
        Poly {
            terms,
            constant,
            size,
            depth,
        }
    }

    /// Every factor, repeated where it occurs in several terms.
    pub(crate) fn factors(&self) -> impl Iterator<Item = &Factor> {
        self.terms
            .iter()
            .flat_map(|term| term.mono.factors())
            .map(|(factor, _)| factor)
    }

    pub(crate) fn as_const(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    /// `left + scale * right`.
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
