//! Normalisation rules for `//` and `%`.
//!
//! Both first reduce the dividend to the same canonical residue, so that `a // k * k + a % k`
//! simplifies back to `a`. Every rule is an identity of floor division wherever the divisor is
//! nonzero; a divisor that cannot be negative is positive there.

use crate::dim::{Dim, DimError};
use crate::facts::Facts;
use crate::poly::{Factor, Made, Mono, Op, OpKind, Poly, Term, gcd};

/// The step limit of exact division.
const MAX_STEPS: usize = 256;
/// The limit on the nodes that a step of exact division processes.
const MAX_DIVISOR: u64 = 256;

/// Returns `left // right`.
pub(crate) fn floordiv(left: &Dim, right: &Dim, facts: &Facts) -> Dim {
    divide(left, right, facts, Wanted::Quotient)
}

/// Returns `left % right`.
pub(crate) fn modulo(left: &Dim, right: &Dim, facts: &Facts) -> Dim {
    divide(left, right, facts, Wanted::Rest)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Quotient,
    Rest,
}

fn divide(left: &Dim, right: &Dim, facts: &Facts, wanted: Wanted) -> Dim {
    if let Some(result) = left.absorb(right) {
        return result;
    }
    let (Some(dividend), Some(divisor)) = (left.poly(), right.poly()) else {
        unreachable!("both operands have an identity");
    };
    if divisor.is_zero() {
        return Dim::bad(DimError::DivisionByZero);
    }
    if let (Some(a), Some(b)) = (dividend.as_const(), divisor.as_const()) {
        return of_constants(a, b, wanted);
    }
    let reduced = if divisor.leads_negative() {
        // a // -b is -a // b, and a % -b is -(-a % b).
        match (dividend.scale(-1), divisor.scale(-1)) {
            (Ok(a), Ok(b)) => {
                let positive = reduce(&a, &b, facts, wanted);
                positive.map(|dim| if wanted == Wanted::Rest { -dim } else { dim })
            }
            _ => None,
        }
    } else {
        reduce(&dividend, &divisor, facts, wanted)
    };
    reduced.unwrap_or_else(|| opaque(left, right, wanted))
}

fn opaque(left: &Dim, right: &Dim, wanted: Wanted) -> Dim {
    let kind = if wanted == Wanted::Quotient {
        OpKind::FloorDiv
    } else {
        OpKind::Mod
    };
    Op::build(kind, vec![left.clone(), right.clone()])
}

fn of_constants(a: i64, b: i64, wanted: Wanted) -> Dim {
    let (a, b) = (i128::from(a), i128::from(b));
    let inexact = a % b != 0 && (a < 0) != (b < 0);
    let value = match wanted {
        Wanted::Quotient => a / b - i128::from(inexact),
        Wanted::Rest => a % b + if inexact { b } else { 0 },
    };
    i64::try_from(value).map_or(Dim::bad(DimError::Overflow), Dim::from)
}

/// Computes the quotient or the remainder for a divisor whose leading sign is positive. Returns
/// `None` if an intermediate coefficient overflows; the operation is then kept as written.
fn reduce(a: &Poly, d: &Poly, facts: &Facts, wanted: Wanted) -> Option<Dim> {
    let d_const = d.as_const();
    let positive = d_const.is_some() || facts.range_of(d).lower.is_some_and(|lower| lower >= 0);
    let mut a = a.clone();
    if wanted == Wanted::Rest {
        a = drop_multiples(a, d, facts)?;
    }

    // a = d * q + r, so a // d = q + r // d and a % d = r % d.
    let (mut q, mut r) = match split(&a, d)? {
        Some(parts) => parts,
        None => match exact(&a, d) {
            Some(quotient) => (quotient, Poly::constant(0)),
            None => (Poly::constant(0), a),
        },
    };
    let result = |q: Poly, quotient: Dim, rest: Dim| match wanted {
        Wanted::Quotient => Dim::from(Ok(q)) + quotient,
        Wanted::Rest => rest,
    };
    if r.is_zero() {
        return Some(result(q, Dim::ZERO, Dim::ZERO));
    }

    // Known to lie in [j * d, j * d + d)?
    if let Some(shift) = quotient_by_range(&r, d, positive, facts) {
        q = Poly::add(&q, &Poly::constant(shift), 1).ok()?;
        r = Poly::add(&r, d, shift.checked_neg()?).ok()?;
        return Some(result(q, Dim::ZERO, Ok(r).into()));
    }

    // A common factor cancels: h * a // (h * d) = a // d, h * a % (h * d) = h * (a % d).
    if let Some((h, low, r_small, d_small)) = common_factor(&r, d, positive) {
        let (r_small, d_small) = (Dim::from(Ok(r_small)), Dim::from(Ok(d_small)));
        let inner = divide(&r_small, &d_small, facts, wanted);
        return Some(match wanted {
            Wanted::Quotient => Dim::from(Ok(q)) + inner,
            Wanted::Rest => Dim::from(Ok(h)) * inner + low,
        });
    }

    // For positive d: a // d = -1 - (-a - 1) // d, and a % d = d - 1 - (-a - 1) % d.
    if positive && r.leads_negative() {
        let flipped = Poly::add(&r.scale(-1).ok()?, &Poly::constant(1), -1).ok()?;
        let (flipped, d) = (Dim::from(Ok(flipped)), Dim::from(Ok(d.clone())));
        let inner = divide(&flipped, &d, facts, wanted);
        return Some(match wanted {
            Wanted::Quotient => Dim::from(Ok(q)) - 1 - inner,
            Wanted::Rest => d - 1 - inner,
        });
    }

    if positive && let Some(inner) = nested(&r, d, facts, wanted) {
        return Some(match wanted {
            Wanted::Quotient => Dim::from(Ok(q)) + inner,
            Wanted::Rest => inner,
        });
    }
    if let Some(k) = d_const
        && let Some((high, low, g)) = high_and_low(&r, k, facts)
    {
        // g * a + b with 0 <= b < g: (g * a + b) // k = a // (k / g), and likewise for the
        // remainder.
        let inner = divide(&Ok(high).into(), &Dim::from(k / g), facts, wanted);
        return Some(match wanted {
            Wanted::Quotient => Dim::from(Ok(q)) + inner,
            Wanted::Rest => inner * g + Dim::from(Ok(low)),
        });
    }

    let (r, d) = (Dim::from(Ok(r)), Dim::from(Ok(d.clone())));
    Some(match wanted {
        Wanted::Quotient => Dim::from(Ok(q)) + opaque(&r, &d, wanted),
        Wanted::Rest => opaque(&r, &d, wanted),
    })
}

/// Drops terms of a dividend that do not affect the remainder: known multiples are dropped, and
/// `y % (j * d)` becomes `y`.
fn drop_multiples(a: Poly, d: &Poly, facts: &Facts) -> Option<Poly> {
    let d_const = d.as_const();
    let d_dim = Dim::from(Ok(d.clone()));
    let (mut kept, mut constant) = (Vec::with_capacity(a.terms.len()), a.constant);
    let mut changed = false;
    for term in &a.terms {
        if d_const.is_some_and(|k| {
            facts
                .multiple_of_term(term)
                .is_multiple_of(k.unsigned_abs())
        }) {
            changed = true;
            continue;
        }
        let inner = match term.mono.as_factor() {
            Some(Factor::Op(op)) if op.kind == OpKind::Mod => {
                let moduli = d_const.zip(op.args[1].as_const());
                let same = op.args[1] == d_dim
                    || moduli.is_some_and(|(k, modulus)| {
                        (i128::from(term.coef) * i128::from(modulus)) % i128::from(k) == 0
                    });
                same.then_some(&op.args[0])
            }
            _ => None,
        };
        match inner {
            Some(inner) => {
                changed = true;
                let inner = inner.poly()?.scale(term.coef).ok()?;
                constant = constant.checked_add(inner.constant)?;
                kept.extend(inner.terms);
            }
            None => kept.push(term.clone()),
        }
    }
    if changed {
        Poly::collect(kept, constant).ok()
    } else {
        Some(a)
    }
}

/// Splits `a = d * q + r` for a divisor of one term or a constant, with the canonical residue `r`:
/// coefficients of multiples of the divisor's monomial lie in `(-c / 2, c / 2]`, the constant, for
/// a constant divisor, in `[0, c)`. The outer option is `None` on overflow, the inner one if the
/// divisor has several terms.
#[allow(clippy::option_option)]
fn split(a: &Poly, d: &Poly) -> Option<Option<(Poly, Poly)>> {
    let (mono, c) = match (d.as_const(), d.as_term()) {
        (Some(constant), _) => (None, constant),
        (_, Some(term)) => (Some(&term.mono), term.coef),
        _ => return Some(None),
    };
    let (mut q_terms, mut r_terms) = (Vec::new(), Vec::new());
    let (mut q_constant, mut r_constant) = (0, a.constant);
    if mono.is_none() {
        q_constant = a.constant.div_euclid(c);
        r_constant = a.constant.rem_euclid(c);
    }
    for term in &a.terms {
        let quotient = match mono {
            None => Some(Some(term.mono.clone())),
            Some(mono) => term.mono.divide(mono),
        };
        let Some(quotient) = quotient else {
            r_terms.push(term.clone());
            continue;
        };
        let mut rest = i128::from(term.coef).rem_euclid(i128::from(c));
        if rest * 2 > i128::from(c) {
            rest -= i128::from(c);
        }
        let times = (i128::from(term.coef) - rest) / i128::from(c);
        let (rest, times) = (i64::try_from(rest).ok()?, i64::try_from(times).ok()?);
        if rest != 0 {
            r_terms.push(Term {
                mono: term.mono.clone(),
                coef: rest,
            });
        }
        match quotient {
            _ if times == 0 => {}
            Some(mono) => q_terms.push(Term { mono, coef: times }),
            None => q_constant = times,
        }
    }
    let q = Poly::collect(q_terms, q_constant).ok()?;
    Some(Some((q, Poly::sorted(r_terms, r_constant).ok()?)))
}

/// Returns `a / d` if the division is exact, for a divisor of several terms.
fn exact(a: &Poly, d: &Poly) -> Option<Poly> {
    let lead = d.terms.first()?;
    if d.size() > MAX_DIVISOR || a.size() > MAX_DIVISOR * 16 {
        return None;
    }
    let mut rest = a.clone();
    let mut quotient: Vec<Term> = Vec::new();
    let mut constant = 0;
    for _ in 0..MAX_STEPS {
        let Some(first) = rest.terms.first() else {
            break;
        };
        let mono = first.mono.divide(&lead.mono)?;
        if first.coef.checked_rem(lead.coef)? != 0 {
            return None;
        }
        let times = first.coef.checked_div(lead.coef)?;
        let step: Made = match mono {
            Some(mono) => {
                quotient.push(Term {
                    mono: mono.clone(),
                    coef: times,
                });
                let step = Poly::sorted(vec![Term { mono, coef: times }], 0).ok()?;
                Poly::mul(&step, d)
            }
            None => {
                constant = times;
                d.scale(times)
            }
        };
        rest = Poly::add(&rest, &step.ok()?, -1).ok()?;
    }
    if rest.is_zero() {
        Poly::collect(quotient, constant).ok()
    } else {
        None
    }
}

/// Returns `j` if `r` provably lies in `[j * d, j * d + d)`.
fn quotient_by_range(r: &Poly, d: &Poly, positive: bool, facts: &Facts) -> Option<i64> {
    if let Some(k) = d.as_const() {
        let range = facts.range_of(r);
        let low = range.lower?.div_euclid(i128::from(k));
        let high = range.upper?.div_euclid(i128::from(k));
        return if low == high {
            i64::try_from(low).ok()
        } else {
            None
        };
    }
    if !positive {
        return None;
    }
    let range = facts.range_of(r);
    let at_least_zero = |poly: Made| {
        poly.ok()
            .and_then(|poly| facts.range_of(&poly).lower)
            .is_some_and(|lower| lower >= 0)
    };
    if range.lower.is_some_and(|lower| lower >= 0) {
        let gap = Poly::add(d, r, -1).and_then(|gap| Poly::add(&gap, &Poly::constant(1), -1));
        return at_least_zero(gap).then_some(0);
    }
    if range.upper.is_some_and(|upper| upper <= -1) {
        return at_least_zero(Poly::add(d, r, 1)).then_some(-1);
    }
    None
}

/// Splits `r = h * r' + low` and `d = h * d'` with `0 <= low < h`, for an `h` other than 1.
fn common_factor(r: &Poly, d: &Poly, positive: bool) -> Option<(Poly, i64, Poly, Poly)> {
    let mono = common_mono(r, d);
    let mut g = r.content(d.content(d.constant.unsigned_abs()));
    // Rounding down the constant first is only sound for a positive divisor.
    if mono.is_some() || !positive {
        g = gcd(g, r.constant.unsigned_abs());
    }
    let g = i64::try_from(g).ok()?;
    if mono.is_none() && g <= 1 {
        return None;
    }
    let low = r.constant.rem_euclid(g);
    let shrink = |poly: &Poly| -> Option<Poly> {
        let mut constant = poly.constant.div_euclid(g);
        let mut terms = Vec::with_capacity(poly.terms.len());
        for term in &poly.terms {
            let coef = term.coef / g;
            match mono
                .as_ref()
                .map_or(Some(Some(term.mono.clone())), |m| term.mono.divide(m))?
            {
                Some(mono) => terms.push(Term { mono, coef }),
                None => constant = coef,
            }
        }
        Poly::collect(terms, constant).ok()
    };
    let h = match &mono {
        Some(mono) => Poly::sorted(
            vec![Term {
                mono: mono.clone(),
                coef: g,
            }],
            0,
        )
        .ok()?,
        None => Poly::constant(g),
    };
    Some((h, low, shrink(r)?, shrink(d)?))
}

/// Returns the greatest monomial that divides every term of both, neither of which has a constant.
fn common_mono(r: &Poly, d: &Poly) -> Option<Mono> {
    if r.constant != 0 || d.constant != 0 {
        return None;
    }
    let mut monos = r.terms.iter().chain(&d.terms).map(|term| &term.mono);
    let first = monos.next()?.clone();
    monos.try_fold(first, |so_far, mono| so_far.gcd(mono))
}

/// Rewrites `(x // e + b) // d = (x + e * b) // (e * d)` for positive `d`. Only for quotients: the
/// corresponding rule for `x // e % d` gives no simpler form.
fn nested(r: &Poly, d: &Poly, facts: &Facts, wanted: Wanted) -> Option<Dim> {
    if wanted == Wanted::Rest || !r.has(OpKind::FloorDiv) {
        return None;
    }
    let mut found = None;
    for (index, term) in r.terms.iter().enumerate() {
        let inside =
            |factor: &Factor| matches!(factor, Factor::Op(op) if op.kind == OpKind::FloorDiv);
        if !term.mono.factors().iter().any(|(factor, _)| inside(factor)) {
            continue;
        }
        if found.is_some() || term.coef != 1 {
            return None;
        }
        let Some(Factor::Op(op)) = term.mono.as_factor() else {
            return None;
        };
        found = Some((index, op));
    }
    let (index, op) = found?;
    let rest = r.without(index);
    let e = op.args[1].poly()?;
    if e.as_const().is_none() && !rest.terms.is_empty() {
        return None;
    }
    let divisor = Poly::mul(&e, d).ok()?;
    let shifted = Poly::add(&*op.args[0].poly()?, &Poly::mul(&rest, &e).ok()?, 1).ok()?;
    Some(floordiv(&Ok(shifted).into(), &Ok(divisor).into(), facts))
}

/// Splits `r = g * high + low` with `0 <= low < g` and `g` a divisor of `k`.
fn high_and_low(r: &Poly, k: i64, facts: &Facts) -> Option<(Poly, Poly, i64)> {
    if r.terms.len() < 2 && r.constant == 0 {
        return None;
    }
    let mut steps: Vec<u64> = r
        .terms
        .iter()
        .map(|term| gcd(term.coef.unsigned_abs(), k.unsigned_abs()))
        .filter(|g| *g > 1)
        .collect();
    steps.sort_unstable();
    steps.dedup();
    for g in steps.into_iter().rev().take(4) {
        let g = i64::try_from(g).ok()?;
        let low = r
            .map(
                |coef| Some(if coef % g == 0 { 0 } else { coef }),
                r.constant % g,
            )
            .ok()?;
        let range = facts.range_of(&low);
        let fits = range.lower.is_some_and(|lower| lower >= 0)
            && range.upper.is_some_and(|upper| upper < i128::from(g));
        if fits {
            let high = |coef: i64| Some(if coef % g == 0 { coef / g } else { 0 });
            return Some((r.map(high, r.constant / g).ok()?, low, g));
        }
    }
    None
}
