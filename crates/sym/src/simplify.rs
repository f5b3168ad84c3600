//! The rules for `//`, `%`, `min` and `max`.

use crate::dim::{Atom, Dim, DimError};
use crate::facts::Facts;
use crate::poly::{Factor, Op, OpKind, Poly};

pub(crate) fn floordiv(left: &Dim, right: &Dim, _facts: &Facts) -> Dim {
    if let Some(result) = left.absorb(right) {
        return result;
    }
    match (left.as_const(), right.as_const()) {
        (_, Some(0)) => Dim::bad(DimError::DivisionByZero),
        (Some(a), Some(b)) => match a.checked_div_euclid(b) {
            None => Dim::bad(DimError::Overflow),
            Some(_) => {
                let quotient = a / b;
                Dim::from(if a % b != 0 && (a < 0) != (b < 0) {
                    quotient - 1
                } else {
                    quotient
                })
            }
        },
        (_, Some(1)) => left.clone(),
        _ => Op::build(OpKind::FloorDiv, vec![left.clone(), right.clone()]),
    }
}

pub(crate) fn modulo(left: &Dim, right: &Dim, facts: &Facts) -> Dim {
    if let Some(result) = left.absorb(right) {
        return result;
    }
    match (left.as_const(), right.as_const()) {
        (Some(_), Some(_)) => left - floordiv(left, right, facts) * right,
        _ => Op::build(OpKind::Mod, vec![left.clone(), right.clone()]),
    }
}

pub(crate) fn extremum(kind: OpKind, left: &Dim, right: &Dim, _facts: &Facts) -> Dim {
    if let Some(result) = left.absorb(right) {
        return result;
    }
    if left == right {
        return left.clone();
    }
    if let (Some(a), Some(b)) = (left.as_const(), right.as_const()) {
        return Dim::from(if kind == OpKind::Min {
            a.min(b)
        } else {
            a.max(b)
        });
    }
    let mut args = vec![left.clone(), right.clone()];
    args.sort();
    Op::build(kind, args)
}

/// An operation from its arguments, simplified.
pub(crate) fn apply(kind: OpKind, args: &[Dim], facts: &Facts) -> Dim {
    match kind {
        OpKind::FloorDiv => floordiv(&args[0], &args[1], facts),
        OpKind::Mod => modulo(&args[0], &args[1], facts),
        OpKind::Min | OpKind::Max => args[1..].iter().fold(args[0].clone(), |so_far, arg| {
            extremum(kind, &so_far, arg, facts)
        }),
    }
}

pub(crate) fn rebuild_poly(
    poly: &Poly,
    _whole: &Dim,
    replace: &dyn Fn(Atom) -> Option<Dim>,
    facts: &Facts,
) -> Dim {
    let mut sum = Dim::from(poly.constant);
    for term in &poly.terms {
        let mut product = Dim::from(term.coef);
        for (factor, power) in term.mono.factors() {
            let base = match factor {
                Factor::Atom(atom) => replace(*atom).unwrap_or(Dim::atom(*atom)),
                Factor::Op(op) => {
                    let args: Vec<_> = op
                        .args
                        .iter()
                        .map(|arg| arg.rebuild(replace, facts))
                        .collect();
                    apply(op.kind, &args, facts)
                }
            };
            for _ in 0..*power {
                product = product * &base;
            }
        }
        sum = sum + product;
    }
    sum
}
