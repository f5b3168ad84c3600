//! Interval analysis of polynomials.

use std::cell::Cell;

use crate::dim::{Atom, Dim, Repr};
use crate::facts::Facts;
use crate::poly::{Factor, Made, Op, OpKind, Poly, Term};

/// The lower and the upper bound; `None` is infinity. In 128 bits, so that bounds beyond `i64`
/// still compare correctly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Range {
    pub(crate) lower: Option<i128>,
    pub(crate) upper: Option<i128>,
}

impl Range {
    pub(crate) const ALL: Range = Range {
        lower: None,
        upper: None,
    };

    fn point(value: i128) -> Range {
        Range {
            lower: Some(value),
            upper: Some(value),
        }
    }

    fn plus(self, other: Range) -> Range {
        let sum = |a: Option<i128>, b: Option<i128>| a?.checked_add(b?);
        Range {
            lower: sum(self.lower, other.lower),
            upper: sum(self.upper, other.upper),
        }
    }

    fn negated(self) -> Range {
        let flip = |bound: Option<i128>| bound?.checked_neg();
        Range {
            lower: flip(self.upper),
            upper: flip(self.lower),
        }
    }

    fn times(self, other: Range) -> Range {
        if self == Range::point(0) || other == Range::point(0) {
            return Range::point(0);
        }
        let corner = |a: Option<i128>, a_sign: i8, b: Option<i128>, b_sign: i8| match (a, b) {
            (Some(a), Some(b)) => match a.checked_mul(b) {
                Some(product) => End::Finite(product),
                None if (a < 0) == (b < 0) => End::PlusInfinity,
                None => End::MinusInfinity,
            },
            (Some(0), None) | (None, Some(0)) => End::Finite(0),
            _ => {
                let sign = |value: Option<i128>, infinite: i8| {
                    value.map_or(infinite, |value| if value < 0 { -1 } else { 1 })
                };
                if sign(a, a_sign) * sign(b, b_sign) > 0 {
                    End::PlusInfinity
                } else {
                    End::MinusInfinity
                }
            }
        };
        let corners = [
            corner(self.lower, -1, other.lower, -1),
            corner(self.lower, -1, other.upper, 1),
            corner(self.upper, 1, other.lower, -1),
            corner(self.upper, 1, other.upper, 1),
        ];
        let finite = |end: End| match end {
            End::Finite(value) => Some(value),
            _ => None,
        };
        Range {
            lower: corners.into_iter().min().and_then(finite),
            upper: corners.into_iter().max().and_then(finite),
        }
    }

    fn intersect(self, other: Range) -> Range {
        let pick = |a: Option<i128>, b: Option<i128>, choose: fn(i128, i128) -> i128| match (a, b) {
            (Some(a), Some(b)) => Some(choose(a, b)),
            (a, b) => a.or(b),
        };
        Range {
            lower: pick(self.lower, other.lower, i128::max),
            upper: pick(self.upper, other.upper, i128::min),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    MinusInfinity,
    Finite(i128),
    PlusInfinity,
}

/// Limits on the nesting of refinements, and on the number of nodes that all of them together may
/// visit.
const MAX_REFINEMENTS: u32 = 8;
const MAX_WORK: u64 = 1 << 12;

/// The state of one range query.
pub(crate) struct Ranges<'a> {
    facts: &'a Facts,
    work: Cell<u64>,
}

impl<'a> Ranges<'a> {
    pub(crate) fn new(facts: &'a Facts) -> Self {
        Ranges {
            facts,
            work: Cell::new(0),
        }
    }

    pub(crate) fn of_dim(&self, dim: &Dim) -> Range {
        match &dim.0 {
            Repr::Const(c) => Range::point(i128::from(c.value)),
            Repr::Atom(atom) => self.facts.range_of_atom(*atom),
            Repr::Poly(poly) => self.of_poly(poly, 0),
            Repr::Any(_) | Repr::Bad(_) => Range::ALL,
        }
    }

    pub(crate) fn of_poly(&self, poly: &Poly, depth: u32) -> Range {
        let mut range = Range::point(i128::from(poly.constant));
        for term in &poly.terms {
            range = range.plus(self.of_term(term));
        }
        let refine = poly.has_ops() && self.work.get() <= MAX_WORK && depth < MAX_REFINEMENTS;
        if refine && poly.terms.len() + usize::from(poly.constant != 0) > 1 {
            let lower = self.refined_lower(poly, depth);
            range = range.intersect(Range { lower, upper: None });
            if let Ok(negated) = poly.scale(-1) {
                let lower = self.refined_lower(&negated, depth);
                range = range.intersect(Range { lower, upper: None }.negated());
            }
        }
        range
    }

    fn of_term(&self, term: &Term) -> Range {
        let mut range = Range::point(i128::from(term.coef));
        for (factor, power) in term.mono.factors() {
            let base = match factor {
                Factor::Atom(atom) => self.facts.range_of_atom(*atom),
                Factor::Op(op) => self.of_op(op),
            };
            for _ in 0..*power {
                range = range.times(base);
                if range == Range::ALL {
                    break;
                }
            }
        }
        range
    }

    fn of_op(&self, op: &Op) -> Range {
        let mut args = op.args.iter().map(|arg| self.of_dim(arg));
        match op.kind {
            OpKind::FloorDiv | OpKind::Mod => {
                let (Some(dividend), Some(divisor)) = (args.next(), args.next()) else {
                    return Range::ALL;
                };
                // A non-negative divisor is at least 1 wherever the quotient is defined.
                let Some(least) = divisor.lower.filter(|lower| *lower >= 0) else {
                    return Range::ALL;
                };
                let divisor = Range {
                    lower: Some(least.max(1)),
                    upper: divisor.upper,
                };
                if op.kind == OpKind::Mod {
                    rest(dividend, divisor)
                } else {
                    quotient(dividend, divisor)
                }
            }
            OpKind::Min => args
                .reduce(|a, b| {
                    let upper = a.intersect(b).upper;
                    Range {
                        lower: a.lower.zip(b.lower).map(|(a, b)| a.min(b)),
                        upper,
                    }
                })
                .unwrap_or(Range::ALL),
            OpKind::Max => args
                .reduce(|a, b| {
                    let lower = a.intersect(b).lower;
                    Range {
                        lower,
                        upper: a.upper.zip(b.upper).map(|(a, b)| a.max(b)),
                    }
                })
                .unwrap_or(Range::ALL),
        }
    }

    /// Returns a lower bound obtained by replacing operations with polynomial bounds:
    /// `min(a, b) <= a`, `a // k * k <= a` and similar inequalities let terms cancel that plain
    /// intervals cannot.
    fn refined_lower(&self, poly: &Poly, depth: u32) -> Option<i128> {
        let mut best: Option<i128> = None;
        for (index, term) in poly.terms.iter().enumerate() {
            let op = term
                .mono
                .factors()
                .iter()
                .find_map(|(factor, power)| match factor {
                    Factor::Op(op) if *power == 1 => Some((factor, op)),
                    _ => None,
                });
            let Some((factor, op)) = op else { continue };
            if !self.spend(poly) {
                return best;
            }
            let rest = poly.without(index);
            let found = if op.kind == OpKind::FloorDiv {
                self.lower_with_quotient(&rest, term, factor, op, depth)
            } else if term.mono.as_factor().is_some() {
                self.lower_with(&rest, term.coef, op, depth)
            } else {
                None
            };
            best = best.max(found);
        }
        best
    }

    /// Charges a visit of the polynomial to the work budget; returns whether it suffices.
    fn spend(&self, poly: &Poly) -> bool {
        let work = self.work.get() + poly.size();
        self.work.set(work);
        work <= MAX_WORK
    }

    /// Returns a lower bound of `rest + coef * op`, for `%`, `min` and `max`.
    fn lower_with(&self, rest: &Poly, coef: i64, op: &Op, depth: u32) -> Option<i128> {
        let put = |value: &Poly| -> Option<i128> {
            if !self.spend(rest) {
                return None;
            }
            let sum = Poly::add(rest, value, coef).ok()?;
            self.of_poly(&sum, depth + 1).lower
        };
        let mut args = op.args.iter().filter_map(|arg| arg.poly());
        match op.kind {
            OpKind::FloorDiv => None,
            OpKind::Mod => {
                let (dividend, divisor) = (args.next()?, args.next()?);
                self.of_poly(&divisor, depth + 1)
                    .lower
                    .filter(|lower| *lower >= 0)?;
                if coef > 0 {
                    return put(&Poly::constant(0));
                }
                let mut best = put(&Poly::add(&divisor, &Poly::constant(1), -1).ok()?);
                if self
                    .of_poly(&dividend, depth + 1)
                    .lower
                    .is_some_and(|lower| lower >= 0)
                {
                    best = best.max(put(&dividend));
                }
                best
            }
            // Each argument bounds the extremum from one side; from the other side, the extremum is
            // one of the arguments.
            OpKind::Min | OpKind::Max if (op.kind == OpKind::Min) == (coef < 0) => {
                args.map(|arg| put(&arg)).max().flatten()
            }
            OpKind::Min | OpKind::Max => args
                .map(|arg| put(&arg))
                .try_fold(i128::MAX, |least, lower| Some(least.min(lower?))),
        }
    }

    /// Returns a lower bound of `rest + c * m * (a // d)`. If `d` is a positive `e * m`, it is that
    /// of `(e * rest + c * (d * (a // d))) / e`, where `d * (a // d)` lies in `[a - d + 1, a]`.
    fn lower_with_quotient(
        &self,
        rest: &Poly,
        term: &Term,
        factor: &Factor,
        op: &Op,
        depth: u32,
    ) -> Option<i128> {
        let (dividend, divisor) = (op.args[0].poly()?, op.args[1].poly()?);
        self.of_poly(&divisor, depth + 1)
            .lower
            .filter(|lower| *lower >= 0)?;
        let beside = term
            .mono
            .divide(&crate::poly::Mono::factor(factor.clone()))?;
        let scale = match (divisor.as_const(), divisor.as_term()) {
            (Some(constant), _) if beside.is_none() => constant,
            (_, Some(single)) if beside.as_ref() == Some(&single.mono) => single.coef,
            _ => return None,
        };
        let multiple = if term.coef > 0 {
            let below = Poly::add(&dividend, &divisor, -1).ok()?;
            Poly::add(&below, &Poly::constant(1), 1).ok()?
        } else {
            dividend.into_owned()
        };
        let sum: Made = rest
            .scale(scale)
            .and_then(|rest| Poly::add(&rest, &multiple, term.coef));
        let lower = self.of_poly(&sum.ok()?, depth + 1).lower?;
        let scale = i128::from(scale);
        // Rounded up, as the value is an integer.
        Some(lower.div_euclid(scale) + i128::from(lower.rem_euclid(scale) != 0))
    }
}

/// Invariant: the divisor's lower bound is at least 1.
fn quotient(dividend: Range, divisor: Range) -> Range {
    let least = divisor.lower.unwrap_or(1);
    let lower = dividend.lower.map(|low| match divisor.upper {
        _ if low < 0 => low.div_euclid(least),
        Some(most) => low.div_euclid(most.max(1)),
        None => 0,
    });
    let upper = dividend.upper.map(|high| match divisor.upper {
        _ if high >= 0 => high.div_euclid(least),
        Some(most) => high.div_euclid(most.max(1)),
        None => -1,
    });
    Range { lower, upper }
}

/// Invariant: the divisor's lower bound is at least 1.
fn rest(dividend: Range, divisor: Range) -> Range {
    let range = Range {
        lower: Some(0),
        upper: divisor.upper.and_then(|most| most.checked_sub(1)),
    };
    match dividend.lower {
        Some(low) if low >= 0 => range.intersect(Range {
            lower: Some(0),
            upper: dividend.upper,
        }),
        _ => range,
    }
}

impl Facts {
    /// Returns the range of an atom that follows from the facts alone.
    pub(crate) fn range_of_atom(&self, atom: Atom) -> Range {
        let (lower, upper) = self.bounds_of_atom(atom);
        Range {
            lower: Some(i128::from(lower)),
            upper: upper.map(i128::from),
        }
    }

    /// Returns the range of a polynomial over atoms that these facts describe.
    pub(crate) fn range_of(&self, poly: &Poly) -> Range {
        Ranges::new(self).of_poly(poly, 0)
    }
}
