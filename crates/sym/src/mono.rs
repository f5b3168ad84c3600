//! The building blocks of polynomials: factors and their products.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::dim::{Atom, Dim, DimError, Repr};
use crate::poly::{MAX_DEPTH, MAX_SIZE, Poly};

/// The non-polynomial operations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum OpKind {
    FloorDiv,
    Mod,
    Min,
    Max,
}

/// `//` and `%` have two arguments; `min` and `max` two or more, sorted and distinct.
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Op {
    pub(crate) kind: OpKind,
    pub(crate) args: Vec<Dim>,
    pub(crate) size: u64,
    pub(crate) depth: u32,
    /// A bit for each kind of operation that occurs here or nested inside.
    pub(crate) kinds: u8,
}

impl PartialOrd for Op {
    fn partial_cmp(&self, other: &Op) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Op {
    fn cmp(&self, other: &Op) -> Ordering {
        if std::ptr::eq(self, other) {
            return Ordering::Equal;
        }
        let args = || {
            let pairs = self.args.iter().zip(&other.args);
            pairs
                .map(|(a, b)| a.structural_cmp(b))
                .find(|order| order.is_ne())
        };
        self.kind
            .cmp(&other.kind)
            .then_with(|| self.args.len().cmp(&other.args.len()))
            .then_with(|| args().unwrap_or(Ordering::Equal))
    }
}

impl Op {
    /// Builds the operation without simplification, which is the caller's job. The result is an
    /// error if an argument is `?` or an error, or if the limits are exceeded.
    pub(crate) fn build(kind: OpKind, args: Vec<Dim>) -> Dim {
        let (mut size, mut depth, mut kinds) = (1u64, 0, 1u8 << kind as u8);
        for arg in &args {
            match &arg.0 {
                Repr::Poly(poly) => {
                    size = size.saturating_add(poly.size());
                    depth = depth.max(poly.depth());
                    kinds |= poly.inner_kinds();
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
            kinds,
        };
        Ok(Poly::factor(Factor::Op(Arc::new(op)))).into()
    }
}

/// A factor of a monomial.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Factor {
    Atom(Atom),
    Op(Arc<Op>),
}

/// A non-empty product of powers of factors.
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

    /// Returns the factor if the monomial is a single factor to the first power.
    pub(crate) fn as_factor(&self) -> Option<&Factor> {
        match &*self.0 {
            [(factor, 1)] => Some(factor),
            _ => None,
        }
    }

    fn degree(&self) -> u64 {
        self.0.iter().map(|(_, power)| u64::from(*power)).sum()
    }

    /// Replaces atoms by others; `None` if there are operations, or if two atoms become the same.
    pub(crate) fn renamed(&self, rename: &mut dyn FnMut(Atom) -> Option<Atom>) -> Option<Mono> {
        let renamed = |(factor, power): &(Factor, u32)| match factor {
            Factor::Atom(atom) => Some((Factor::Atom(rename(*atom)?), *power)),
            Factor::Op(_) => None,
        };
        let mut factors: Vec<_> = self.0.iter().map(renamed).collect::<Option<_>>()?;
        factors.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let distinct = factors.windows(2).all(|two| two[0].0 != two[1].0);
        distinct.then(|| Mono(factors.into()))
    }

    /// Multiplies two monomials; `None` if a power overflows.
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

    /// Returns `self / other`: `None` if it does not divide, `Some(None)` if the quotient is 1.
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

    /// Returns the greatest common divisor; `None` if it is 1.
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
