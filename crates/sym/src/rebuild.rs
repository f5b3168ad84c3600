//! Rebuilding of dimensions from their leaves: substitution, and simplification with more facts.

use std::cell::Cell;

use crate::dim::{Atom, Dim, DimError, Repr};
use crate::division::{floordiv, modulo};
use crate::extremum::extremum_all;
use crate::facts::Facts;
use crate::poly::{Factor, Made, Op, OpKind, Poly, Term};

/// The maximum number of nodes that one rebuild may create, beyond which the result is
/// [`DimError::TooLarge`].
const MAX_WORK: u64 = 1 << 18;

/// One traversal of a dimension.
pub(crate) struct Rebuild<'a> {
    replace: &'a dyn Fn(Atom) -> Option<Dim>,
    facts: &'a Facts,
    expand_mod: bool,
    work: Cell<u64>,
    saw_any: Cell<bool>,
}

impl<'a> Rebuild<'a> {
    /// Substitutes atoms, and simplifies with the `facts` about the atoms of the result.
    pub(crate) fn new(replace: &'a dyn Fn(Atom) -> Option<Dim>, facts: &'a Facts) -> Self {
        Rebuild {
            replace,
            facts,
            expand_mod: false,
            work: Cell::new(0),
            saw_any: Cell::new(false),
        }
    }

    /// Substitutes nothing, but writes `a % k` as `a - a // k * k`, which lets more sums cancel.
    pub(crate) fn expanding_mod(facts: &'a Facts) -> Self {
        Rebuild {
            expand_mod: true,
            ..Rebuild::new(&|_| None, facts)
        }
    }

    /// The recursion is bounded: operations nest at most 64 deep.
    pub(crate) fn dim(&self, dim: &Dim) -> Dim {
        match &dim.0 {
            Repr::Atom(atom) => (self.replace)(*atom).unwrap_or_else(|| dim.clone()),
            Repr::Poly(poly) => match self.sum(poly) {
                Err(DimError::TooLarge) if self.saw_any.get() => Dim::ANY,
                made => made.into(),
            },
            _ => dim.clone(),
        }
    }

    fn sum(&self, poly: &Poly) -> Made {
        let mut terms = Vec::with_capacity(poly.terms.len());
        let mut constant = poly.constant;
        for term in &poly.terms {
            let product = self.term(term)?;
            let work = self.work.get().saturating_add(product.size());
            self.work.set(work);
            if work > MAX_WORK {
                return Err(DimError::TooLarge);
            }
            constant = constant
                .checked_add(product.constant)
                .ok_or(DimError::Overflow)?;
            terms.extend(product.terms);
        }
        Poly::collect(terms, constant)
    }

    fn term(&self, term: &Term) -> Made {
        // If only `%` is to be expanded, terms without it are kept.
        let has_mod = |factor: &Factor| match factor {
            Factor::Atom(_) => false,
            Factor::Op(op) => op.kinds & (1 << OpKind::Mod as u8) != 0,
        };
        if self.expand_mod
            && !term
                .mono
                .factors()
                .iter()
                .any(|(factor, _)| has_mod(factor))
        {
            return Poly::sorted(vec![term.clone()], 0);
        }
        let mut product = Poly::constant(term.coef);
        for (factor, power) in term.mono.factors() {
            let base = match factor {
                Factor::Atom(atom) => (self.replace)(*atom).unwrap_or(Dim::atom(*atom)),
                Factor::Op(op) => self.op(op),
            };
            let base = self.known(&base)?;
            let (mut square, mut power) = (base, *power);
            loop {
                if power & 1 == 1 {
                    product = Poly::mul(&product, &square)?;
                }
                power >>= 1;
                if power == 0 {
                    break;
                }
                square = Poly::mul(&square, &square)?;
            }
        }
        Ok(product)
    }

    fn op(&self, op: &Op) -> Dim {
        let args: Vec<_> = op.args.iter().map(|arg| self.dim(arg)).collect();
        match op.kind {
            OpKind::FloorDiv => floordiv(&args[0], &args[1], self.facts),
            OpKind::Mod if self.expand_mod => {
                &args[0] - floordiv(&args[0], &args[1], self.facts) * &args[1]
            }
            OpKind::Mod => modulo(&args[0], &args[1], self.facts),
            OpKind::Min | OpKind::Max => extremum_all(op.kind, args, self.facts),
        }
    }

    /// Returns the polynomial of a part. A `?` has none: it is recorded, and makes the whole
    /// dimension a `?`.
    fn known(&self, dim: &Dim) -> Made {
        if let Some(poly) = dim.poly() {
            return Ok(poly.into_owned());
        }
        self.saw_any.set(self.saw_any.get() || dim.is_any());
        Err(dim.error().unwrap_or(DimError::TooLarge))
    }
}
