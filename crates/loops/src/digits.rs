//! Mixed-radix digits of indices: a normal form of `//` and `%` by constants.
//!
//! `(i * 64 + j) % 128 // 32`, with `j` below 64, is a sum of digits: of `i` in base 2, of `j` in
//! base 32 and so on. Two indices with the same digits are the same number everywhere, however they
//! are written.

use relax_tensor::DType;

use crate::{BinOp, Ex, ExKind, Var};

/// `coef * ((var // below) % count)`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Digit {
    var: Var,
    /// The product of the bases of the digits below.
    below: i64,
    /// The base: the number of its values.
    count: i64,
    coef: i64,
}

/// A number composed of digits of variables. Equal ones are equal for all values of the variables;
/// unequal ones may be so too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Digits {
    base: i64,
    digits: Vec<Digit>,
}

/// The maximum number of digits that are analysed.
const MOST: usize = 64;

impl Digits {
    /// Returns the digits of an index over variables that run from 0 to below their extents; `None`
    /// where it is not composed of them, or might wrap.
    pub fn of(root: &Ex, extent: &dyn Fn(Var) -> Option<i64>) -> Option<Digits> {
        let mut done: Vec<Digits> = Vec::new();
        let mut work = vec![(root, false)];
        let mut steps = 0;
        while let Some((e, ready)) = work.pop() {
            steps += 1;
            if steps > 1 << 12 || e.dtype() != DType::I64 {
                return None;
            }
            match e.kind() {
                ExKind::Int(v) => done.push(Digits::number(*v)),
                ExKind::Var(v) => done.push(Digits::variable(*v, extent(*v)?)),
                ExKind::Binary(op, a, b) if !ready => {
                    if !matches!(
                        op,
                        BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::FloorDiv | BinOp::FloorMod
                    ) {
                        return None;
                    }
                    work.extend([(e, true), (b, false), (a, false)]);
                }
                ExKind::Binary(op, ..) => {
                    let (b, a) = (done.pop()?, done.pop()?);
                    done.push(match op {
                        BinOp::Add => a.plus(&b)?,
                        BinOp::Sub => a.plus(&b.times(-1)?)?,
                        BinOp::Mul => match (a.as_number(), b.as_number()) {
                            (_, Some(c)) => a.times(c)?,
                            (Some(c), _) => b.times(c)?,
                            _ => return None,
                        },
                        BinOp::FloorDiv => a.divided(b.as_number()?)?.0,
                        _ => a.divided(b.as_number()?)?.1,
                    });
                }
                _ => return None,
            }
        }
        done.pop()
    }

    /// Returns the row-major number of the element at an index.
    pub fn number_of(
        index: &[Ex],
        extents: &[i64],
        extent: &dyn Fn(Var) -> Option<i64>,
    ) -> Option<Digits> {
        let mut all = Digits::number(0);
        for (e, n) in index.iter().zip(extents) {
            all = all.times(*n)?.plus(&Digits::of(e, extent)?)?;
        }
        Some(all)
    }

    /// A constant.
    fn number(base: i64) -> Digits {
        Digits {
            base,
            digits: Vec::new(),
        }
    }

    /// A variable below an extent.
    fn variable(var: Var, count: i64) -> Digits {
        let whole = Digit {
            var,
            below: 1,
            count,
            coef: 1,
        };
        Digits {
            base: 0,
            digits: vec![whole],
        }
        .normal()
    }

    fn as_number(&self) -> Option<i64> {
        self.digits.is_empty().then_some(self.base)
    }

    fn plus(&self, other: &Digits) -> Option<Digits> {
        let sum = Digits {
            base: self.base.checked_add(other.base)?,
            digits: [&self.digits[..], &other.digits[..]].concat(),
        };
        sum.within()
    }

    fn times(&self, c: i64) -> Option<Digits> {
        let mut product = self.clone();
        product.base = product.base.checked_mul(c)?;
        for d in &mut product.digits {
            d.coef = d.coef.checked_mul(c)?;
        }
        product.within()
    }

    /// Returns the quotient and the remainder by a constant, where each digit is entirely in one of
    /// them.
    fn divided(&self, c: i64) -> Option<(Digits, Digits)> {
        if c <= 0 {
            return None;
        }
        let (mut quotient, mut rest) = (
            Digits::number(self.base.div_euclid(c)),
            Digits::number(self.base.rem_euclid(c)),
        );
        let mut most = rest.base;
        for &d in &self.digits {
            if d.coef % c == 0 {
                let coef = d.coef / c;
                quotient.digits.push(Digit { coef, ..d });
                continue;
            }
            if d.coef < 0 {
                return None;
            }
            let mut low = d;
            if d.coef.checked_mul(d.count)? > c && c % d.coef == 0 && d.count % (c / d.coef) == 0 {
                low.count = c / d.coef;
                quotient.digits.push(Digit {
                    var: d.var,
                    below: d.below.checked_mul(low.count)?,
                    count: d.count / low.count,
                    coef: 1,
                });
            }
            most = most.checked_add(low.coef.checked_mul(low.count - 1)?)?;
            rest.digits.push(low);
        }
        // The low part must not carry over.
        (most < c).then_some(())?;
        Some((quotient.within()?, rest.within()?))
    }

    /// Normalises it, if it is no longer than a bound and no sum of its parts wraps.
    fn within(self) -> Option<Digits> {
        let mut most = self.base.checked_abs()?;
        for d in &self.digits {
            most = most.checked_add(d.coef.checked_abs()?.checked_mul(d.count.max(1) - 1)?)?;
        }
        (self.digits.len() <= MOST).then(|| self.normal())
    }

    /// Merges equal digits, and adjacent digits of one variable.
    fn normal(mut self) -> Digits {
        self.digits.sort_unstable();
        let mut digits: Vec<Digit> = Vec::with_capacity(self.digits.len());
        for d in self.digits {
            if d.count <= 1 {
                continue;
            }
            match digits.last_mut() {
                Some(last) if (last.var, last.below, last.count) == (d.var, d.below, d.count) => {
                    last.coef += d.coef;
                }
                _ => digits.push(d),
            }
        }
        digits.retain(|d| d.coef != 0);
        let mut merged: Vec<Digit> = Vec::with_capacity(digits.len());
        for d in digits {
            match merged.last_mut() {
                Some(last)
                    if last.var == d.var
                        && last.below.checked_mul(last.count) == Some(d.below)
                        && last.coef.checked_mul(last.count) == Some(d.coef) =>
                {
                    last.count *= d.count;
                }
                _ => merged.push(d),
            }
        }
        self.digits = merged;
        self
    }
}
