//! Evaluation under an assignment.

use crate::dim::{Atom, Dim, DimError, DimVar, Overflow, Repr};
use crate::mono::{Factor, Op, OpKind};

type Value = Result<Option<i128>, Overflow>;

/// Evaluates in 128 bits. The recursion is bounded: operations nest at most 64 deep.
pub(crate) fn eval(dim: &Dim, value: &dyn Fn(DimVar) -> Option<i64>) -> Value {
    match &dim.0 {
        Repr::Const(c) => Ok(Some(i128::from(c.value))),
        Repr::Atom(atom) => Ok(eval_atom(*atom, value)),
        Repr::Any(_) | Repr::Bad(DimError::TooLarge | DimError::DivisionByZero) => Ok(None),
        Repr::Bad(DimError::Overflow) => Err(Overflow),
        Repr::Poly(poly) => {
            let mut sum = i128::from(poly.constant);
            for term in &poly.terms {
                let mut product = i128::from(term.coef);
                for (factor, power) in term.mono.factors() {
                    let base = match factor {
                        Factor::Atom(atom) => eval_atom(*atom, value),
                        Factor::Op(op) => eval_op(op, value)?,
                    };
                    let Some(base) = base else { return Ok(None) };
                    product = base
                        .checked_pow(*power)
                        .and_then(|factor| product.checked_mul(factor))
                        .ok_or(Overflow)?;
                }
                sum = sum.checked_add(product).ok_or(Overflow)?;
            }
            Ok(Some(sum))
        }
    }
}

fn eval_atom(atom: Atom, value: &dyn Fn(DimVar) -> Option<i64>) -> Option<i128> {
    match atom {
        Atom::Var(var) => value(var).map(i128::from),
        Atom::Infer(_) => None,
    }
}

fn eval_op(op: &Op, value: &dyn Fn(DimVar) -> Option<i64>) -> Value {
    let mut args = Vec::with_capacity(op.args.len());
    for arg in &op.args {
        match eval(arg, value)? {
            Some(result) => args.push(result),
            None => return Ok(None),
        }
    }
    Ok(match op.kind {
        OpKind::FloorDiv if args[1] == 0 => None,
        OpKind::Mod if args[1] == 0 => None,
        OpKind::FloorDiv => {
            // `i128::MIN // -1` is the one quotient that does not fit.
            let quotient = args[0].checked_div(args[1]).ok_or(Overflow)?;
            let exact = args[0] % args[1] == 0;
            let negative = (args[0] < 0) != (args[1] < 0);
            Some(if !exact && negative {
                quotient - 1
            } else {
                quotient
            })
        }
        OpKind::Mod => {
            let rest = args[0].checked_rem(args[1]).ok_or(Overflow)?;
            let adjust = rest != 0 && (rest < 0) != (args[1] < 0);
            Some(if adjust { rest + args[1] } else { rest })
        }
        OpKind::Min => args.into_iter().min(),
        OpKind::Max => args.into_iter().max(),
    })
}
