//! Normalisation rules for `min` and `max`.

use crate::dim::{Dim, DimError};
use crate::facts::Facts;
use crate::poly::{Factor, Made, Op, OpKind, Poly, Term, gcd};

/// Above this number of pairs, arguments are only compared if they differ by a constant.
const MAX_PAIRS: usize = 512;

/// Returns `min(left, right)` or `max(left, right)`.
pub(crate) fn extremum(kind: OpKind, left: &Dim, right: &Dim, facts: &Facts) -> Dim {
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
    extremum_all(kind, vec![left.clone(), right.clone()], facts)
}

/// Returns the extremum of one or more dimensions.
pub(crate) fn extremum_all(kind: OpKind, dims: Vec<Dim>, facts: &Facts) -> Dim {
    let mut polys = Vec::with_capacity(dims.len());
    let mut worst = Dim::ZERO;
    for dim in &dims {
        match dim.poly() {
            Some(poly) => polys.push(poly.into_owned()),
            None => worst = worst.absorb(dim).unwrap_or(worst),
        }
    }
    if !worst.is_known() {
        return worst;
    }
    build(kind, polys, facts).unwrap_or_else(Dim::bad)
}

fn build(kind: OpKind, args: Vec<Poly>, facts: &Facts) -> Result<Dim, DimError> {
    // Terms common to all arguments are pulled out: min(n + a, n + b) = n + min(a, b).
    let (outside, args) = pull_out(args)?;
    let mut args = prune(kind, flatten(kind, args)?, facts);
    let (more, pulled) = pull_out(args)?;
    args = pulled;
    let outside = Dim::from(Poly::add(&outside, &more, 1));
    if let [only] = args.as_slice() {
        return Ok(outside + Dim::from(Ok(only.clone())));
    }

    let content = args.iter().fold(0, |so_far, arg| {
        arg.content(gcd(so_far, arg.constant.unsigned_abs()))
    });
    let mut scale = i64::try_from(content).unwrap_or(1).max(1);
    let mut kind = kind;
    let all_negative = args
        .iter()
        .all(|arg| arg.constant <= 0 && arg.terms.iter().all(|term| term.coef < 0));
    if all_negative {
        // min(-a, -b) = -max(a, b)
        scale = -scale;
        kind = opposite(kind);
    }
    let mut args = args
        .iter()
        .map(|arg| match scale {
            1 => Ok(arg.clone()),
            _ => arg.map(
                |coef| coef.checked_div(scale),
                arg.constant.checked_div(scale).ok_or(DimError::Overflow)?,
            ),
        })
        .map(|made: Made| made.map(|poly| Dim::from(Ok(poly))))
        .collect::<Result<Vec<_>, _>>()?;
    // Expressions before constants, so that `min(n, 4)` prints in the customary order.
    args.sort_unstable_by(|a, b| {
        (a.as_const().is_some(), a.as_const())
            .cmp(&(b.as_const().is_some(), b.as_const()))
            .then_with(|| a.structural_cmp(b))
    });
    Ok(outside + Op::build(kind, args) * scale)
}

fn opposite(kind: OpKind) -> OpKind {
    if kind == OpKind::Min {
        OpKind::Max
    } else {
        OpKind::Min
    }
}

/// Splits off the terms (and the constant) that all arguments have in common. If the coefficients'
/// signs agree, the one nearest to zero is common.
fn pull_out(args: Vec<Poly>) -> Result<(Poly, Vec<Poly>), DimError> {
    let constant = args.iter().map(|arg| arg.constant).min().unwrap_or(0);
    let mut shared: Vec<Term> = args
        .first()
        .map(|arg| arg.terms.clone())
        .unwrap_or_default();
    for arg in args.iter().skip(1) {
        if shared.is_empty() {
            break;
        }
        shared.retain_mut(|term| {
            let Ok(at) = arg
                .terms
                .binary_search_by(|other| other.mono.cmp(&term.mono))
            else {
                return false;
            };
            let other = arg.terms[at].coef;
            if (other < 0) != (term.coef < 0) {
                return false;
            }
            term.coef = if other < 0 {
                other.max(term.coef)
            } else {
                other.min(term.coef)
            };
            true
        });
    }
    let shared = Poly::sorted(shared, constant)?;
    if shared.is_zero() {
        return Ok((shared, args));
    }
    let args = args
        .iter()
        .map(|arg| Poly::add(arg, &shared, -1))
        .collect::<Result<Vec<_>, _>>()?;
    Ok((shared, args))
}

/// Flattens nested extrema: `min(min(a, b) * 2 + 1, c)` has the arguments `a * 2 + 1`, `b * 2 + 1`
/// and `c`.
fn flatten(kind: OpKind, args: Vec<Poly>) -> Result<Vec<Poly>, DimError> {
    let mut flat = Vec::with_capacity(args.len());
    for arg in args {
        let inner = match arg.terms.as_slice() {
            [term] => match term.mono.as_factor() {
                Some(Factor::Op(op))
                    if op.kind == if term.coef > 0 { kind } else { opposite(kind) } =>
                {
                    Some((op, term.coef))
                }
                _ => None,
            },
            _ => None,
        };
        let Some((op, coef)) = inner else {
            flat.push(arg);
            continue;
        };
        let constant = Poly::constant(arg.constant);
        for inner in &op.args {
            let Some(inner) = inner.poly() else {
                return Err(DimError::TooLarge);
            };
            flat.push(Poly::add(&constant, &inner, coef)?);
        }
    }
    Ok(flat)
}

/// Drops arguments that are dominated by another one.
fn prune(kind: OpKind, mut args: Vec<Poly>, facts: &Facts) -> Vec<Poly> {
    // Among arguments that differ by a constant, the extreme one comes first and is kept.
    args.sort_unstable_by(|a, b| {
        let constants = a.constant.cmp(&b.constant);
        a.terms.cmp(&b.terms).then(if kind == OpKind::Min {
            constants
        } else {
            constants.reverse()
        })
    });
    args.dedup_by(|later, earlier| later.terms == earlier.terms);
    if args.len() * args.len() > MAX_PAIRS {
        return args;
    }
    let mut kept: Vec<Poly> = Vec::with_capacity(args.len());
    for arg in args {
        let beats = |a: &Poly, b: &Poly| {
            let (low, high) = if kind == OpKind::Min { (a, b) } else { (b, a) };
            Poly::add(high, low, -1)
                .ok()
                .and_then(|gap| facts.range_of(&gap).lower)
                .is_some_and(|lower| lower >= 0)
        };
        if kept.iter().any(|other| beats(other, &arg)) {
            continue;
        }
        kept.retain(|other| !beats(&arg, other));
        kept.push(arg);
    }
    kept
}
