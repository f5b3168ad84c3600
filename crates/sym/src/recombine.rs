//! The rule that recombines a quotient and a remainder.

use rustc_hash::FxHashSet;

use crate::dim::Dim;
use crate::mono::{Factor, Mono, Op, OpKind};
use crate::poly::{Made, Poly, Term};

/// Applies `a // k * k + a % k == a`, also when scaled, up to a fixpoint.
pub(crate) fn recombine(mut poly: Poly) -> Made {
    'again: loop {
        let divided: FxHashSet<&[Dim]> = poly
            .factors()
            .filter_map(|factor| match factor {
                Factor::Op(op) if op.kind == OpKind::FloorDiv => Some(op.args.as_slice()),
                _ => None,
            })
            .collect();
        for (index, term) in poly.terms.iter().enumerate() {
            let Some((partner, whole)) = partner(&poly, &divided, term) else {
                continue;
            };
            let mut terms = poly.terms.clone();
            terms.remove(index.max(partner));
            terms.remove(index.min(partner));
            let rest = Poly::sorted(terms, poly.constant)?;
            poly = Poly::add(&rest, &whole, 1)?;
            continue 'again;
        }
        return Ok(poly);
    }
}

/// Finds the partner of the term `c * m * (a % k)`: the index of the term `c * m * k * (a // k)`,
/// if there is one, and `c * m * a`. `divided` holds the arguments of all `//` in the polynomial.
fn partner(poly: &Poly, divided: &FxHashSet<&[Dim]>, term: &Term) -> Option<(usize, Poly)> {
    let (modulus, op) = term
        .mono
        .factors()
        .iter()
        .find_map(|(factor, power)| match factor {
            Factor::Op(op) if op.kind == OpKind::Mod && *power == 1 => Some((factor, op)),
            _ => None,
        })?;
    if !divided.contains(op.args.as_slice()) {
        return None;
    }
    let rest = term.mono.divide(&Mono::factor(modulus.clone()))?;
    let quotient = Op::build(OpKind::FloorDiv, op.args.clone())
        .poly()?
        .into_owned();
    let divisor = op.args[1].poly()?;
    if divisor.terms.len() > 1 || (divisor.terms.len() == 1 && divisor.constant != 0) {
        return None;
    }
    let scale = match rest {
        Some(mono) => Poly::sorted(vec![Term { mono, coef: 1 }], 0).ok()?,
        None => Poly::constant(1),
    };
    let scale = scale.scale(term.coef).ok()?;
    let wanted = Poly::mul(&Poly::mul(&scale, &divisor).ok()?, &quotient).ok()?;
    let wanted = wanted.as_term()?;
    let at = poly
        .terms
        .binary_search_by(|term| term.mono.cmp(&wanted.mono))
        .ok()?;
    if poly.terms[at].coef != wanted.coef {
        return None;
    }
    Some((at, Poly::mul(&scale, &*op.args[0].poly()?).ok()?))
}
